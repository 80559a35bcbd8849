// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes, in the order in which the compiler first runs them (Pipelines.cpp), then those of code generation.
// test/Docs/pass-order.test compares the two orders.

#ifndef TILEWRIGHT_PASSES_PASSES_TD
#define TILEWRIGHT_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def TileLink : Pass<"tile-link", "::mlir::ModuleOp"> {
  let summary = "replace functions and captures by those of other files";
  let description = [{
    The pass first links the files that the module names by `tile.link`: it takes from them what the module mentions and
    does not define, and what those definitions mention in turn. A kernel is placed after the program that launches it.
    Each file links only what lies in its own folder or below, or is embedded in the compiler. The folder is that of
    `source`, of a file of `with`, or of the linked file; locations, which the text can set, do not matter.

    It then links each file of `with`, in order. A function of the file replaces the function of the same name in the
    module if the module allows that, by the attribute `tile.replaceable` or by leaving the function without a body.
    Both must have the same type; if one of the types contains `!tile.param<X>` where the other contains a float type,
    binding decides (tile-specialize). All other functions of the file are private to it: they are added to the module,
    and renamed to `name_0`, `name_1` and so on if their name is taken. A function without a body in the file declares
    what the file expects the module to have. Captures are added under their own names, because callers bind them by
    name; a capture that the module or another file already has must have the same type, and is the same capture.

    If a second file replaces the same function, the value of `tile.replaceable` says how to join the two definitions:
    `"compose"` passes the result of the earlier one to the later one as its first operand; `"and"` and `"multiply"`
    combine the results of both. A file joins them itself if it declares a function without a body and with the
    attribute `tile.base = @f`: calls of that function then call what the file's own `@f` replaces, which is a
    definition of the module or of an earlier file. A remark (`chain-drops-base`) reports definitions that lose their
    effect by that.

    If a constraint or default contains `replaced("f")`, the attribute `tile.replaced` of the module lists which of
    these functions were replaced.

    Then what authors may write shorter becomes what it stands for: each `tile.expr` and each statement with formulas
    (`tile.if`, `tile.for`, `tile.yield`, `tile.store`) the operations of these, a `tile.subview` of several views one
    of each, one with a condition a choice of views, a `tile.fill` the launch of a kernel that it adds, and arguments
    that a launch passes by name those by position.

    Finally the pass checks what linking can break: functions must not be recursive, and every function that is used
    must have a body.

    Before, with a file that defines `@score_mod` anew and adds `tile.capture @cap`:
    ```mlir
    func.func @score_mod(%s: f32, %i: i32, %j: i32) -> f32 attributes {tile.replaceable} {
      return %s : f32
    }
    ```
    After:
    ```mlir
    tile.capture @cap : f32
    func.func @score_mod(%s: f32, %i: i32, %j: i32) -> f32 {
      %cap = tile.at @cap : f32
      %x = arith.divf %s, %cap : f32
      %t = math.tanh %x : f32
      %r = arith.mulf %t, %cap : f32
      return %r : f32
    }
    ```

    Not its job: to choose an entry, to bind parameters, or to remove unused functions.

    Errors:
    - a file that cannot be read or parsed
    - anything but functions and captures in the file, such as a kernel or a program
    - a file none of whose definitions replaces anything
    - a constraint or default with `replaced("f")` for a function that files must not replace
    - a function of a file that replaces nothing and that no replacing function calls
    - a replacement of another type
    - a second replacement of a function if neither the module says how to join the two nor the second file calls what
      it replaces
    - a `tile.base` declaration for a function that the file does not replace, or of another type than that function;
      two such declarations for one function
    - a capture of another type or kind than the module's, or than that of another file
    - a file of `tile.link` that does not exist, or that a symbolic link shows to lie elsewhere than in the folder
    - a file of `tile.link`, other than the compiler's own, where the text is not read from a file
    - a file of `tile.link` that contains anything but functions, captures, kernels and programs, or links itself
      directly or indirectly
    - a name that is defined twice in a file, or in two files of `tile.link`; a declaration of another type than the
      definition
    - a use of a symbol that neither the file nor the module defines
    - functions that call each other in a cycle
    - a use of a function that has no body
    - a kernel of more than 262144 operations, counting a function once for each call of it
  }];
  let options = [
    ListOption<"with", "with", "std::string", "files whose functions and captures replace those of the module">,
    Option<"source", "source", "std::string", /*default=*/"",
           "the file of the module, in whose folder `tile.link` names files; without one, files of the compiler only">,
  ];
}

def TileInlinePrograms : Pass<"tile-inline-programs", "::mlir::ModuleOp"> {
  let summary = "replace calls of programs by what they call";
  let description = [{
    Replaces every `tile.call` by the workspaces and launches of the program that it calls, and erases that program.
    Expressions of the callee become expressions of the caller: a parameter that the call binds is replaced by its
    value, an argument by what is passed, an extent of a passed workspace by that of the `tile.workspace`. Constraints
    of the callee become constraints of the caller, but for those that mention an argument that is absent, for which an
    empty workspace is passed. Parameters that the caller does not have are added to it, with their defaults.

    The pass runs directly after tile-link, so all later passes see one program.

    Before:
    ```mlir
    tile.program @clear params(N: int, BLOCK: int = 64) (%x: !tile.view<[?], f32>) {
      tile.launch @zeros(%x) : !tile.view<[?], f32>
    }
    tile.program @p params(N: int) (%y: !tile.view<[?], f32>) {
      tile.call @clear(x = %y) : !tile.view<[?], f32>
    }
    ```
    After:
    ```mlir
    tile.program @p params(N: int, BLOCK: int = 64) (%y: !tile.view<[?], f32>) {
      tile.launch @zeros(%y) : !tile.view<[?], f32>
    }
    ```

    Errors:
    - a program that calls itself, directly or through others
    - a callee that no file defines
    - a parameter of the callee of which the caller has one of another kind, or an argument; a derived one to which the
      caller gives another value
    - a workspace for an argument whose elements a constraint of the callee reads
    - a program with `tile.return` that no program calls
  }];
}

def TileShareLoops : Pass<"tile-share-loops", "::mlir::ModuleOp"> {
  let summary = "let instances share the iterations of loops whose states merge";
  let description = [{
    Where an `scf.for` in the body of a kernel has the attribute `tile.combine`, which names the function that merges
    the states of two parts of its iterations, and a row of a table applies (`StrategyTable.cpp`), it adds to each
    launch of the kernel the form in which several instances share the iterations for a block of the result:

    - a copy of the kernel, `_share`, whose grid has shares as its last number. An instance has a range of the
      iterations, of equal lengths but for the last ones, and stores its state, in the type that the loop carries, to an
      array, by columns if the result is stored so
    - the array, a workspace [shares, extents of the result]
    - a copy of the kernel, `_merge`, that merges the states of the array, in order of shares, in place of the loop, and
      then does what the kernel does with the state
    - launches of these, under a condition over the launch: that there are two shares or more. Their number is that of
      multiprocessors divided by that of blocks, limited by the number of iterations. The launch of the kernel has the
      opposite condition

    A kernel that no program launches becomes a program on GPUs, with the kernel's name as an entry. Blocks of the
    copies may be smaller than those of the kernel, as the table says, if their extents have the default block(): for
    results of few rows, and for the launch that merges. On the CPU there are no shares unless a number is given
    (`shares=N`).

    The initial state of the loop must be neutral: merging it with a state gives that state. States are merged in one
    order, so that runs are bit-identical; the order of additions differs from that of the whole loop.

    Before:
    ```mlir
    tile.kernel @product ... grid(%m = ceildiv(dim(c, 0), BLOCK)) {
      %sum = scf.for %k = %c0 to %depth step %step iter_args(%old = %zero) -> (!c) : i32 {
        ...
      } {tile.combine = @add}
      tile.store %sum, %c[...]
    }
    ```
    After, in `@product_share` and `@product_merge`:
    ```mlir
    %sum = scf.for %k = %begin to %end step %step iter_args(%old = %zero) -> (!c) : i32 { ... }
    tile.store %sum, %states[%share, ...]

    %sum = scf.for %share = %c0 to %shares step %c4 iter_args(%old = %zero) -> (!c) : i32 {
      %state = tile.load %states[%share, ...]
      %new = func.call @add(%old, %state)
      ...
    }
    tile.store %sum, %c[...]
    ```

    The loop must carry a single tile of two dimensions, and the kernel must have one store, in its body, to an argument
    that is always there, of what it makes of the state, at a place that is known before the loop. Else a remark says
    why there are no shares. The attribute is removed.

    Not its job: to prove that the function merges states; to share a `tile.for_blocks`.

    Errors:
    - a strategy as for tile-combine-sums; a number of shares that is not from 1 to 64
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::scf::SCFDialect"];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"", "cpu, or an architecture">,
    Option<"sums", "sums", "std::string", /*default=*/"\"auto\"",
           "shares=N: so many shares wherever possible, or none if N is 1; others are for tile-combine-sums">,
  ];
}

def TileInlineCalls : Pass<"tile-inline-calls", "::mlir::ModuleOp"> {
  let summary = "replace calls by what they call";
  let description = [{
    Replaces every `func.call` in a kernel, and in a function that an operation applies (`tile.map`, a mask), by the
    operations of the callee, and calls in these operations in turn. Private functions that only these calls used are
    removed. The work is proportional to the number of operations that result.

    With `of-tiles-only`, only calls that pass or return a tile or a view are replaced. The pipeline runs the pass in
    this form after tile-link, so that all later passes see what such a function does to tiles as if it were part of the
    kernel, and runs it without the option after tile-to-tgpu.

    Before:
    ```mlir
    func.func private @last(%m: i32) -> i32 {
      %c64 = arith.constant 64 : i32
      %last = arith.addi %m, %c64 : i32
      return %last : i32
    }
    %end = func.call @last(%m) : (i32) -> i32
    ```
    After:
    ```mlir
    %c64 = arith.constant 64 : i32
    %end = arith.addi %m, %c64 : i32
    ```

    Not its job: to inline the function of a `tile.map` (code generation does, once for each element),
    or to simplify (canonicalize and cse do).

    Errors:
    - functions that call each other in a cycle
    - a kernel or a function that would have more than 262144 operations
  }];
  let options = [
    Option<"ofTilesOnly", "of-tiles-only", "bool", "false",
           "only calls that pass or return a tile or a view">,
  ];
}

def TileBindTarget : Pass<"tile-bind-target", "::mlir::ModuleOp"> {
  let summary = "replace functions of expressions that ask for facts about targets";
  let description = [{
    In every expression of the module:

    - `on_gpu()` becomes a flag: false if the target is cpu
    - `has_roles()` becomes a flag: whether kernels of this target can be split into roles, which copy by TMA and
      multiply by wgmma
    - `multiprocessors()` becomes the number of multiprocessors of the target's largest chip (for cpu, of the largest of
      all), so that workspaces and results are the same on all its chips. `sm_count()` is that of the device
    - `padded(width)` becomes the width, rounded up to a multiple of 8, and `padded_for(use, width, beside, type)` the
      width that tiles need for a use: `PaddedWidth.cpp` has the rules and the reasons

    Before, with `target=sm_90a`:
    ```mlir
    tile.kernel @k params(D: int, T: type, let WIDE: flag = and(has_roles(), D > 128),
        let DP: int = padded(D)) ...
    ```
    After:
    ```mlir
    tile.kernel @k params(D: int, T: type, let WIDE: flag = and(true, D > 128),
        let DP: int = ceildiv(D, 8) * 8) ...
    ```

    Not its job: to compute the expressions, which tile-specialize does when parameters are bound, or to reject unknown
    targets (tile-to-tgpu).

    Errors:
    - a use for padded_for() that has no rule
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"", "cpu, or an architecture">,
  ];
}

def TileCombineSums : Pass<"tile-combine-sums", "::mlir::ModuleOp"> {
  let summary = "choose how instances share the terms of tile.accumulate and tile.contribute";
  let description = [{
    Replaces each `tile.accumulate` by a loop (scf.for). For each launch of its kernel to which a row of a table applies
    (`StrategyTable.cpp`: target, bits and bytes of a row of the results), it adds the form in which an instance adds a
    single term:

    - a copy of the kernel, `_apart`, whose grid has an instance for each term, and which adds to arrays
      (`tile.atomic_add`) instead of storing results
    - the arrays, workspaces that begin at zero
    - for each result a kernel, `_of_sum_NAME`, that repeats what the kernel does with the complete sum, and stores it
    - launches of these, under a condition over the launch: that instances are too few, or end at different times. The
      launch of the loop has the opposite condition

    The forms are equal except for the order of additions. This one needs sums that are stored to whole rows of an
    array of the program, after operations on single elements; else a remark says why there is only a loop. Elements
    of the results that no instance stores become those of an empty sum.

    Before:
    ```mlir
    %dk = tile.accumulate %h of %hk each %group iter_args(%old = %zero : !dk) { ... }
    ```
    After:
    ```mlir
    %first = arith.muli %hk, %group : i32
    %dk = scf.for %g = %c0 to %group step %c1 iter_args(%old = %zero) -> (!dk) : i32 {
      %h = arith.addi %first, %g : i32
      ...
    }
    ```

    `tile.contribute` becomes `tile.atomic_add`, and the workspace begins at zero, unless a launch before writes it;
    `tile.complete` becomes `tile.load`, and `tile.any_order` its number. Where a row of the table applies (target, bits
    and widths of all sums of the kernel), there is a second form under the flag of the operation, which a launch takes
    by its number of rows, or always if additions must be deterministic:

    - The tile is added in order of a turn, the number of blocks of positions that add before. A workspace of turns
      begins at zero; the sums have one of their own, which does not. Each has no elements in launches of the other
      form.
    - Instances start with the last positions, so that each reaches a place one turn after another. Where sums are
      staggered, those of the last heads start with the first positions, the longest first (`tile.any_order` with
      `listed`), and the loop goes down.
    - The kernel ends with a `tile.spread` over the instances of the kernel that reads the sums, whose body is that of
      this kernel, after a `tile.await` for the additions. Its launch has the opposite condition, or an empty grid of
      the other.
    - `adds_in_order()` in the program becomes a parameter that says where this form is possible.

    The sums must be a workspace that all launches of the kernel add to, and then one launch reads; no launch from the
    one that adds to the one that reads may write an array that the latter uses, or use one that it writes; and other
    sums of the kernel must be stored as for the form with single terms. Else a remark says why there is no such form. A
    launch takes it only where its own condition and that of the one that reads hold.

    Not its job: to find loops that could be divided; to divide a sum over the blocks of a loop; to prove that the
    positions of a contribution are those of instances that add (`tile.kept_range` proves it of a mask).

    Errors:
    - a body that reads one of its sums other than to add to it
    - a strategy that is not one of `auto`, `whole`, `apart`, `ordered`, `unordered` and `shares=N`, which is for
      tile-share-loops
    - `adds_in_order()` outside of a program
    - where instances may add in order: a contribution outside of an ascending `tile.for_blocks`, or inside of it in
      another loop or in a branch that no parameter takes; of a tile without two dimensions, or that is not whole rows
      of the last two; from a position that is not the result of `tile.any_order` times SIZE; a `tile.any_order` outside
      of the body of the kernel, with a list that is no argument, or of a number that depends on another one of the grid
      than the first; a `tile.complete` of other rows, or in a kernel that reads parameters which the other does not
      have, or has with other values; two launches that contribute; a clause that is no expression over the program
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"", "cpu, or an architecture">,
    Option<"sums", "sums", "std::string", /*default=*/"\"auto\"",
           "some of: auto (by the table); whole, apart (never, wherever possible); unordered, ordered (the same)">,
  ];
}

def TileChooseBlocks : Pass<"tile-choose-blocks", "::mlir::ModuleOp"> {
  let summary = "give blocks the extents that the table has for such a kernel";
  let description = [{
    A parameter of the entry that is declared `BLOCK: int = block()` gets a number as its default; a value that the
    caller binds overrides it. The number comes from the first matching row of a table, whose rows describe kernels by

    - structure: which operands the products of the loop with the most products read, and where their results go,
      regardless of order and names (`LoopStructure.h`). Products that parameters disable do not count. Each launch of a
      program has its own structure; a block is chosen for the launch with the most products that uses it as an extent
    - whether the loop carries other tiles than sums of products, such as the maxima of rows
    - target, bits of an element, and bytes of the longest and of the shortest row that products read
    - whether a mask remains once parameters are bound
    - `length`, the largest number of positions that the loop runs over
    - `shared`, the bytes of shared memory that a block may take

    The default `block_in(n)` asks for a divisor of n: the largest one up to the row's number. If n is 0, any number is
    a divisor.

    The structure also decides which number of the row a parameter gets: `rows` is the extent of the operand that stays
    in place when a product also has an operand that is streamed, `step` that of the streamed operand; a product of two
    streamed operands has `rows`, `columns` and `step`. A kernel without products that loads whole rows has `rows`. A
    parameter may be an operand of a later block_in(n). If a row has a limit on the length, and the launch can test the
    length because it is an extent of an argument, the limit becomes a constraint of the kernel. It cannot where the
    loop ends at a number read from memory, or its mask depends on a scalar argument, such as the size of a window.

    A structure without a row has blocks by a cost model of its loop (`BlockModel.h`), for operands of 16 bits on a GPU;
    others by rows for any structure, whose tiles are small. A remark says that these blocks are not measured.

    A program that adds gradients of captures keeps values of each element from a function to its derivative, which no
    row counts. For operands of 16 bits on a target with roles, an estimate of the registers of each loop
    (`BodyRegisters.h`) then replaces the `step` of a row, except of a file, by the greatest one that fits. `blocks`
    also records, as `without_spills`, blocks that need fewer registers than those chosen.

    `table` names a file of rows that are tried first: a list of objects in JSON with the keys structure, target ("cpu",
    "gpu" for all others, or a name), bits, above and bytes (of the longest row, in bytes), narrow (bytes of the
    shortest row), elements, mask ("none", "some", or "ascending" for a mask that reads captures whose values ascend),
    length (-1: loops whose length no launch can test), captures (1: loops that read captured views of rank 2 or more,
    or load tiles of rows by steps), work (loops that map at least so many operations for each element), stateless (1:
    loops that carry nothing but sums of products), shared (blocks that may take so many bytes of shared memory); rows,
    columns, step. A condition that is left out always holds. The attribute `blocks` of a kernel, or of a launch,
    records what was known and chosen; a program has the record of the launch with the most products.

    Before, with `params=D=128 target=sm_90a` and a forward of attention:
    ```mlir
    tile.kernel @forward params(D: int, ROWS: int = block(), KEYS: int = block()) ...
    ```
    After:
    ```mlir
    tile.kernel @forward params(D: int, ROWS: int = 192, KEYS: int = 64) ...
        attributes {blocks = {structure = "sum (R S) S", row_bytes = 256, rows = "ROWS = 192",
            step = "KEYS = 64",
                              by = "the table: sm_90a, up to 16 bits, rows up to 256 bytes", ...}}
    ```

    Not its job: to bind parameters, or to check whether the blocks fit into shared memory (tgpu-plan-shared-memory).

    Errors:
    - a block that is neither the extent of an operand of a product in a loop nor that of the rows that a kernel without
      products loads, and has no binding
    - a value for a block that is not a multiple of 16 up to 256 (on the CPU: a number from 1 to 1024)
    - a file that cannot be read, or an entry of it that is not a row
    - a row without the extent that a parameter asks for
    - no block that divides the n of block_in(n), up to the row's number
    - the errors of tile-specialize about values of parameters
  }];
  let options = [
    Option<"entry", "entry", "std::string", /*default=*/"\"\"",
           "kernel or program; empty: the only one that no program launches">,
    ListOption<"params", "params", "std::string", "NAME=VALUE for each parameter of the entry">,
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"", "cpu, or an architecture">,
    Option<"length", "length", "int64_t", /*default=*/"0", "the most positions of the loop; 0: any number">,
    Option<"shared", "shared", "int64_t", /*default=*/"0",
           "bytes of shared memory that a block may take; 0: as many as the target has">,
    Option<"table", "table", "std::string", /*default=*/"\"\"", "file of rows that go first">,
    Option<"byModel", "by-model", "bool", /*default=*/"false",
           "choose by the cost model also where the table has a row for the structure">,
  ];
}

def TileSpecialize : Pass<"tile-specialize", "::mlir::ModuleOp"> {
  let summary = "bind the parameters of one entry";
  let description = [{
    Gives every parameter of the entry a value (that of `params`, else its default; a parameter declared by `let` gets
    its expression), checks allowed values and constraints, and then replaces: dimensions and types that name parameters
    by numbers and builtin types, `!tile.tile` by ranked tensors, `tile.param` by constants, parameters in grids and
    workspace extents by their values. The attribute `bindings` records the values.

    A program binds the kernels that it launches: by the `with` clause, else by its own parameter of that name, else by
    the kernel's default. A launch whose `when` is false is removed, with the workspaces that only it uses; a condition
    over arguments stays, simplified, and so does a constraint over them. A kernel that is launched with several
    bindings, and a function that is reached under several values of the parameters that it reads, is copied: the first
    copy keeps the name, the others are called `name_0`, `name_1` and so on. Everything that the entry does not reach is
    removed.

    Before, with `entry=scale params=T=f16`:
    ```mlir
    tile.kernel @scale params(BLOCK: int = 128, T: type)
        (%x: !tile.view<[?], T>) grid(%b = ceildiv(dim(x, 0), BLOCK)) {
      %n = tile.param BLOCK : i32
      %i = arith.muli %b, %n : i32
      %t = tile.load %x[%i] : !tile.view<[?], T> -> !tile.tile<[BLOCK], T>
      ...
    }
    ```
    After:
    ```mlir
    tile.kernel @scale (%x: !tile.view<[?], f16>) grid(%b = ceildiv(dim(x, 0), 128))
        attributes {bindings = {BLOCK = 128 : i64, T = f16}} {
      %n = arith.constant 128 : i32
      %i = arith.muli %b, %n : i32
      %t = tile.load %x[%i] : !tile.view<[?], f16> -> tensor<128xf16>
      ...
    }
    ```

    Not its job: to fold anything (canonicalize comes next), to look at argument shapes, or to
    choose values by target. Arguments whose condition does not hold stay, with the condition `false`:
    tile-drop-arguments removes them when folding has removed what reads them.

    Errors:
    - an unknown entry, or several candidates and no choice
    - a value for an unknown or a derived parameter, of another kind, outside the allowed values, or given twice
    - parameters without a value
    - a constraint that does not hold
    - division by zero or overflow in an expression over parameters
    - a dimension below 1, or a tile of more than 2^31 - 1 elements
    - a `tile.param` value that does not fit its type
    - a function that reads a parameter which the kernel that reaches it does not declare
    - operations that are ill-typed under the chosen values
    - a loop (`scf.for`) whose step is constant and not positive
    - functions that call each other in a cycle
  }];
  let options = [
    Option<"entry", "entry", "std::string", /*default=*/"\"\"",
           "kernel or program to bind; empty: the only one that no program launches">,
    ListOption<"params", "params", "std::string", "NAME=VALUE for each parameter of the entry">,
    Option<"exactLiterals", "exact-literals", "bool", /*default=*/"false",
           "do not round literals to the type of their parameter, for runs in f64">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TileUnroll : Pass<"tile-unroll", "::mlir::ModuleOp"> {
  let summary = "fully unroll the loops that are marked for it";
  let description = [{
    Replaces every `scf.for` with the attribute `tile.unroll` by copies of its body, one for each iteration, with the
    induction variable as a constant. Once parameters are bound and enclosing loops are unrolled, bounds and step must
    be constants, or fold to constants.

    Before:
    ```mlir
    %r = scf.for %k = %c0 to %c2 step %c1 iter_args(%sum = %zero) -> (f32) : i32 {
      %x = tile.at @weights[%k] : f32
      %new = arith.addf %sum, %x : f32
      scf.yield %new : f32
    } {tile.unroll}
    ```
    After:
    ```mlir
    %k0 = arith.constant 0 : i32
    %x0 = tile.at @weights[%k0] : f32
    %new0 = arith.addf %zero, %x0 : f32
    %k1 = arith.constant 1 : i32
    %x1 = tile.at @weights[%k1] : f32
    %r = arith.addf %new0, %x1 : f32
    ```

    Not its job: to choose loops, or to unroll one in part.

    Errors:
    - a bound or a step that is not constant, or a step that is not positive
    - loops of one kernel or function that would make more than 262144 operations
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TileDropDebug : Pass<"tile-drop-debug", "::mlir::ModuleOp"> {
  let summary = "remove tile.print and tile.assert, or prepare them for code of thread blocks";
  let description = [{
    Removes the operations, and the operations without effects whose results only they used. The pipeline runs it for
    GPUs.

    With `keep`, for the simulator and for code with `--debug-ops`, a `tile.print` and a `tile.assert` of a kernel get
    the ids of the grid as operands, which the attribute `instance` names: a thread block may execute several instances
    later. `place` of a `tile.assert` is its file and line.

    Before:
    ```mlir
    tile.print "sum" %sum : f32
    tile.store %y, %out[0] : tensor<4xf32>, !tile.view<[?], f32>
    ```
    After:
    ```mlir
    tile.store %y, %out[0] : tensor<4xf32>, !tile.view<[?], f32>
    ```

    Errors: none; a warning for each operation that it removes
  }];
  let options = [Option<"keep", "keep", "bool", "false", "keep them, for the simulator and --debug-ops">];
}

def TileCheckDebug : Pass<"tile-check-debug", "::mlir::ModuleOp"> {
  let summary = "reject tile.print and tile.assert in scalar functions";
  let description = [{
    Functions of tiles are inlined by now, so what is left in a function is in one that a kernel applies to elements,
    where the CPU device executes neither operation.

    Before:
    ```mlir
    func.func private @twice(%x: f32) -> f32 {
      tile.print "x" %x : f32
    ```
    After:
    ```text
    error: 'tile.print' op must be in a kernel, or in a function of tiles that it calls, but got one in @twice; ...
    ```

    Errors:
    - an operation in a function
  }];
}

def TileExpandComposites : Pass<"tile-expand-composites", "::mlir::ModuleOp"> {
  let summary = "replace operations that are made of others: argmax, argmin, top_k, concat, insert";
  let description = [{
    Once shapes are bound, `tile.argmax` and `tile.argmin` become a reduction and the least position among those whose
    element is its result; `tile.top_k` becomes a loop of these that takes the position of what it found away;
    `tile.insert` becomes a slice of the part, at its place, where the position lies in the part; `tile.concat` becomes
    a slice of the first operand into which the others are inserted. So no device and no later pass knows them.

    Before:
    ```mlir
    %y = tile.insert %part into %x dim 0 from %i : tensor<2x8xf32> -> tensor<8x8xf32>
    ```
    After:
    ```mlir
    %c0 = arith.constant 0 : i32
    %c2 = arith.constant 2 : i32
    %start = arith.subi %c0, %i : i32
    %moved = tile.slice %part dim 0 from %start : tensor<2x8xf32> -> tensor<8x8xf32>
    %at = tile.iota %start dim 0 : tensor<8x8xi32>
    %extent = tile.full %c2 : tensor<8x8xi32>
    %inside = arith.cmpi ult, %at, %extent : tensor<8x8xi32>
    %y = tile.select %inside, %moved, %x : tensor<8x8xi1>, tensor<8x8xf32>
    ```

    Not its job: operations on symbolic tiles, which keep their form.

    Errors: none
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TileDropArguments : Pass<"tile-drop-arguments", "::mlir::ModuleOp"> {
  let summary = "remove arguments that do not exist under the values of the parameters";
  let description = [{
    Removes the arguments of kernels and programs whose condition is `false`, what launches pass for them, and
    workspaces that no launch uses any more. Canonicalization has removed the branches that read them.

    Before:
    ```mlir
    tile.kernel @k (%x: !tile.view<[?], f32>, %index: !tile.view<[?], i32> when (false))
        grid(%i = dim(x, 0)) {
      ...
    }
    tile.program @p (%x: !tile.view<[?], f32>, %index: !tile.view<[?], i32> when (false)) {
      tile.launch @k(%x, %index) : !tile.view<[?], f32>, !tile.view<[?], i32>
    }
    ```
    After:
    ```mlir
    tile.kernel @k (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0)) {
      ...
    }
    tile.program @p (%x: !tile.view<[?], f32>) {
      tile.launch @k(%x) : !tile.view<[?], f32>
    }
    ```

    Not its job: to bind parameters (tile-specialize), or to remove arguments that are merely not used.

    Errors:
    - an operation or an expression that reads such an argument
    - a condition over parameters that are not bound
  }];
}

def TileDifferentiate : Pass<"tile-differentiate", "::mlir::ModuleOp"> {
  let summary = "derive scalar functions where a kernel asks for it";
  let description = [{
    Replaces `tile.map_gradient` by `tile.map` of a derived function, and `tile.add_gradients` by sums
    into arguments and workspaces of the program. Parameters must be bound.

    The pass differentiates in reverse mode: it copies the function, with the functions that it calls, and computes
    adjoints from its last operation to its first, in f32 at least. Rules exist for the float operations of
    arith, for `select` and conversions between floats, and for these of math: absf, copysign, fma, exp,
    exp2, expm1, log, log2, log10, log1p, sqrt, rsqrt, cbrt, sin, cos, tan, sinh, cosh, tanh, asin, acos,
    atan, atan2, erf, erfc, powf.
    Comparisons, conversions to integers, and rounding to whole numbers count as constant. Where a
    function has no derivative: `maximumf` and `minimumf` (`maxnumf`, `minnumf`) of equal operands give
    half to each, `absf` and `copysign` give 0 at 0, `select` follows the operand that it chooses. An
    adjoint of zero stays zero, whatever it is multiplied with, except by a division by a number that
    is zero for all elements.

    A derivative of one is the seed itself, so a function that is not replaced costs nothing. Factors that are the same
    for all elements are combined if the products carry `fastmath<reassoc>`.

    Before:
    ```mlir
    func.func private @cube(%x: f32) -> f32 {
      %x2 = arith.mulf %x, %x : f32
      %x3 = arith.mulf %x2, %x : f32
      return %x3 : f32
    }
    %ds = tile.map_gradient @cube(%s) wrt 0 seed %dt : tensor<64x64xf32>
        : (tensor<64x64xf32>) -> tensor<64x64xf32>
    ```
    After:
    ```mlir
    func.func private @cube_gradient_0(%x: f32, %seed: f32) -> f32 {
      %x2 = arith.mulf %x, %x : f32
      %a = arith.mulf %seed, %x : f32
      %b = arith.mulf %seed, %x2 : f32
      %c = arith.mulf %a, %x : f32
      %d = arith.addf %b, %c : f32
      %e = arith.mulf %a, %x : f32
      %f = arith.addf %d, %e : f32
      return %f : f32
    }
    %ds = tile.map @cube_gradient_0(%s, %dt)
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    ```

    The gradient of a capture `@x` becomes an optional argument `d_x` of the program, which must have the extents of the
    capture. Adjoints of a tile that belong to the same indices are summed, and `tile.add_at` adds the sums, in a branch
    that is not taken if the argument was left out. The program clears the gradient first. If sums are exact, it has a
    workspace of 13 words for each entry instead, which it converts at its end.

    Not its job: to simplify the derived functions (canonicalize and cse do), or to know the purpose of a function.

    Errors:
    - an operation without a rule between what is differentiated and what it is differentiated by
    - a captured float that is read within a region
    - a function in which the number of reads of captured floats, times the number of operations, exceeds 262144
    - gradients of captures in a kernel that no program launches, or that are exact in one place of a kernel and not in
      another
    - an argument that has the name of a gradient
    - parameters that are not bound
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::tilewright::tile::TileDialect"];
}

def TileAnalyzeMasks : Pass<"tile-analyze-masks", "::mlir::ModuleOp"> {
  let summary = "derive from a mask function which blocks it empties and which it keeps whole";
  let description = [{
    For each `tile.for_blocks` with a mask function, derives a function

        @mask_ranges(against_begin, against_end, lower, upper, other operands...)
            -> (may_begin, may_end, must_begin, must_end, tight)

    on `i32`, with an `i1` at the end, and sets the loop's `ranges` to it. Consider positions r in [against_begin,
    against_end) and c in [lower, upper). Every c that the mask keeps for some r lies in [may_begin, may_end), and every
    c in [must_begin, must_end) is kept for every r. Both intervals lie within [lower, upper). If `tight` is true, every
    c in [may_begin, may_end) is kept for some r, so the loop need not test whether a block of that range contains a
    kept pair. That is so for conjunctions of inequalities in which r has the factor 1 or -1, such as causal masks and
    windows; on the author's promise, for those with elements of captures whose values ascend; and for disjunctions of
    tight conditions without captures whose ranges begin, or end, at the same bound, such as a prefix and the keys that
    are not ahead.

    The analysis follows constants, `and`, `or`, `not`, comparisons of expressions that are linear in the two positions,
    division of a position by a uniform number, selections and calls. If a mask uses nothing of r but its quotient and
    its remainder by one constant, as where the rows of a tile are queries of several heads, the ranges number rows by
    the remainder, so that a mask by remainders may be tight. The result of any other operation is unknown: then
    nothing is excluded and nothing is promised, and a remark (category `tile-analyze-masks`, shown by
    `--remarks-filter`) names the operation. The derived function computes in 64 bits and checks at run time that the
    mask's own arithmetic does not wrap; if it would, the answer is again "unknown". No check is made for operations
    marked `overflow<nsw>`. Authors should use this mark where the operation cannot wrap for any position that exists:
    `tight` is then known when the kernel is compiled, and no loop is generated for masks that are not tight.

    Later passes need not test what is known about the ranges when the kernel is compiled. The derived function shows it
    in three ways: a bound may be `lower` or `upper` itself; [must_begin, must_end) of a conjunction with an unknown
    condition is [lower, lower); and two attributes of the result must_end state further facts. `tile.ends_at_upper`
    says that neither range, unless it is empty, ends before `upper`. `tile.row_edge = [n, ...]` says that the mask is
    exactly c <= r + s, where s is the sum of those arguments of the function: may_end is then against_end + s, and
    must_end is against_begin + 1 + s, both clamped to [lower, upper).

    Before:
    ```mlir
    func.func private @causal(%i: i32, %j: i32, %shift: i32) -> i1 {
      %last = arith.addi %i, %shift : i32
      %keep = arith.cmpi sle, %j, %last : i32
      return %keep : i1
    }
    tile.for_blocks %n in (%c0 to %keys) against (%m to %rows)
        where @causal(against, block, %shift : i32) keep ...
    ```
    After, for shift = 0 and rows [64, 128): may = [0, 128), must = [0, 65).
    ```mlir
    func.func private @causal_ranges(%against_begin: i32, %against_end: i32, %lower: i32,
                                     %upper: i32, %shift: i32) -> (i32, i32, i32, i32, i1) { ... }
    tile.for_blocks %n in (%c0 to %keys) against (%m to %rows)
        where @causal(against, block, %shift : i32) ranges @causal_ranges keep ...
    ```

    `tile.kept_range` becomes a call of a function that is derived in the same way:

        @mask_kept(against_begin, against_end, lower, upper, other operands...) -> (first, end)

    It returns the limits of may, of which each position is kept for some r: so `tight` must be true for all operands.
    It computes in 32 bits where these are limits of sums of operands (MaskLimits.cpp), since kernels use them in loops.

    Errors:
    - a `tile.kept_range` whose mask function has no body
    - a `tile.kept_range` whose mask is not known to be tight when the kernel is compiled

    Not its job: to change which blocks the loop visits (the op defines that), to clone the loop's body, or to simplify
    the derived function (canonicalize and cse do).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect"];
}

def TileFoldScale : Pass<"tile-fold-scale"> {
  let summary = "combine uniform factors and move them into exponents";
  let description = [{
    The pass first exposes uniform factors. A *uniform* tile is a `tile.full` or a splat constant.

    - A `tile.map` whose function returns one of its operands unchanged, such as a modifier that no file replaced, is
      replaced by that operand. If the function returns a constant, the map is replaced by a tile of the constant;
      products with a constant factor of one are removed. Calls in a kernel are treated the same way.
    - If the function of a `tile.map` multiplies an operand, or its result, by a value that it computes from captures
      and constants alone, and the product carries `fastmath<reassoc>`, the tile is multiplied instead, and common
      subexpressions are shared.

    It then applies two rewrites to float tiles. Both change rounding, so they require permission: the operations carry
    `fastmath<reassoc>`, or the option `assume-fast-math` is set (the pipeline's `fast-math` sets it).

    1. Uniform factors are combined: `(x * a) * b` becomes `x * (a * b)` for uniform a and b. The product of the two is
       a scalar, which loop-invariant code motion moves out of the loop.
    2. A factor moves into the difference that is the argument of an exponential: `exp2((x - expand(m)) * c)` becomes
       `exp2(x * c - expand(m * c))` for uniform c; likewise for `exp`. The product with m has one dimension less, and
       the rest is one fused multiply-add for each element (marked `contract`). The rewrite applies only if the
       difference and the product have no other uses.

    Before:
    ```mlir
    %c = tile.full %scale : tensor<64x64xf32>
    %me = tile.expand %m dim 1 : tensor<64xf32> -> tensor<64x64xf32>
    %d = arith.subf %s, %me : tensor<64x64xf32>
    %e = arith.mulf %d, %c : tensor<64x64xf32>
    %p = math.exp2 %e : tensor<64x64xf32>
    ```
    After:
    ```mlir
    %c = tile.full %scale : tensor<64x64xf32>
    %c1 = tile.full %scale : tensor<64xf32>
    %mc = arith.mulf %m, %c1 : tensor<64xf32>
    %mce = tile.expand %mc dim 1 : tensor<64xf32> -> tensor<64x64xf32>
    %sc = arith.mulf %s, %c fastmath<contract> : tensor<64x64xf32>
    %e = arith.subf %sc, %mce fastmath<contract> : tensor<64x64xf32>
    %p = math.exp2 %e : tensor<64x64xf32>
    ```

    If x and m are so large that their products with c overflow although the product of the difference does not, the
    result is NaN; fast math permits that.

    Not its job: to move a factor through a product of matrices or a maximum (its sign matters
    there), or to recognize any algorithm.
  }];
  let options = [
    Option<"assumeFastMath", "assume-fast-math", "bool", /*default=*/"false",
           "treat every operation as marked fastmath<reassoc>">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tilewright::tile::TileDialect"];
}

def TileLoadCaptures : Pass<"tile-load-captures", "::mlir::ModuleOp"> {
  let summary = "load as tiles what mapped functions read at positions of the tile";
  let description = [{
    If the function of a `tile.map` reads a captured view, and each index is a scalar, or the position of the element
    along a dimension of the tile plus a scalar, the pass loads the tile, row or column that all elements read together
    before the map, as early in the block as the indices are known, and passes it to the map as an operand. An index
    that a scalar condition fixes, such as 0 for an extent of 1, is handled by a view that repeats (`tile.repeat`).
    Bounds keep their meaning: both reads give zero outside of the view.

    Before:
    ```mlir
    func.func private @score_mod(%s: f32, %h: i32, %i: i32, %j: i32) -> f32 {
      %bias = tile.at @bias[%h, %i, %j] : f32
      %r = arith.addf %s, %bias : f32
      return %r : f32
    }
    %rows = tile.iota %m dim 0 : tensor<64x64xi32>
    %cols = tile.iota %n dim 1 : tensor<64x64xi32>
    %t = tile.map @score_mod(%s, %h, %rows, %cols)
       : (tensor<64x64xf32>, i32, tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xf32>
    ```
    After:
    ```mlir
    func.func private @score_mod_of_tiles(%s: f32, %h: i32, %i: i32, %j: i32, %bias: f32) -> f32 {
      %r = arith.addf %s, %bias : f32
      return %r : f32
    }
    %view = tile.captured @bias : !tile.view<[?, ?, ?], f32>
    %bias = tile.load %view[%h, %m, %n] : !tile.view<[?, ?, ?], f32> -> tensor<64x64xf32>
    %t = tile.map @score_mod_of_tiles(%s, %h, %rows, %cols, %bias)
       : (tensor<64x64xf32>, i32, tensor<64x64xi32>, tensor<64x64xi32>, tensor<64x64xf32>)
           -> tensor<64x64xf32>
    ```

    Not its job: indices that depend on data or are not such sums (products, clamped differences), both dimensions of a
    tile in one index, or one dimension in two indices (a diagonal), reads inside a region, and tiles of rank 3 and
    more. These remain element reads. tile-hoist-uniforms moves reads that are the same for all elements.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tilewright::tile::TileDialect"];
}

def TileHoistUniforms : Pass<"tile-hoist-uniforms", "::mlir::ModuleOp"> {
  let summary = "hoist reads that are the same for all elements out of mapped functions";
  let description = [{
    If the function of a `tile.map` reads a captured view at indices that depend on scalars alone, the pass moves the
    read, and what is computed from it and other scalars, before the map, and passes the result as an operand.
    Loop-invariant code motion then moves it out of the loop. A read inside a mapped function is executed for each
    element, and no later pass can merge these reads, because they are predicated by the bounds of the view.

    Before:
    ```mlir
    func.func private @score_mod(%s: f32, %h: i32) -> f32 {
      %slope = tile.at @slopes[%h] : f32
      %r = arith.mulf %s, %slope : f32
      return %r : f32
    }
    %t = tile.map @score_mod(%s, %h) : (tensor<64x64xf32>, i32) -> tensor<64x64xf32>
    ```
    After:
    ```mlir
    func.func private @score_mod_varying(%s: f32, %h: i32, %slope: f32) -> f32 {
      %r = arith.mulf %s, %slope : f32
      return %r : f32
    }
    %slope = tile.at @slopes[%h] : f32
    %t = tile.map @score_mod_varying(%s, %h, %slope)
        : (tensor<64x64xf32>, i32, f32) -> tensor<64x64xf32>
    ```

    Not its job: computations that read no memory (LLVM hoists them), reads inside a region, and reads in functions that
    the mapped function calls.
  }];
  let dependentDialects = ["::tilewright::tile::TileDialect"];
}

def TileScaleAfterLoop : Pass<"tile-scale-after-loop", "::mlir::ModuleOp"> {
  let summary = "scale a sum once, after its loop, instead of its terms";
  let description = [{
    If each term of a sum that a loop carries is a tile times a number that is the same in all iterations, the loop sums
    the unscaled tiles, and the sum is multiplied by the number once, after the loop. A term is a `tile.dot` with the
    sum as its accumulator and a scaled operand, which may be cast to another type in between, or an operand of an
    `arith.addf`. The sum starts at zero; iterations may multiply it by numbers for its rows, and inner loops may
    continue it. Products that need not be rounded where they are written say so by `fastmath<reassoc>`.

    Before:
    ```mlir
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zero) -> (tensor<16x8xf32>) : i32 {
      %scaled = arith.mulf %p, %factor fastmath<reassoc> : tensor<16x16xf32>
      %rounded = tile.cast %scaled : tensor<16x16xf32> -> tensor<16x16xbf16>
      %new = tile.dot %rounded, %v, %old : tensor<16x16xbf16>, tensor<16x8xbf16> -> tensor<16x8xf32>
      scf.yield %new : tensor<16x8xf32>
    }
    ```
    After:
    ```mlir
    %unscaled = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zero) -> (tensor<16x8xf32>)
        : i32 {
      %rounded = tile.cast %p : tensor<16x16xf32> -> tensor<16x16xbf16>
      %new = tile.dot %rounded, %v, %old : tensor<16x16xbf16>, tensor<16x8xbf16> -> tensor<16x8xf32>
      scf.yield %new : tensor<16x8xf32>
    }
    %sum = arith.mulf %unscaled, %factors fastmath<reassoc> : tensor<16x8xf32>
    ```

    Not its job: sums whose terms have different factors, sums that do not start at zero, and sums that an iteration
    uses for anything else.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tilewright::tile::TileDialect"];
}

def TileTransposeOperands : Pass<"tile-transpose-operands", "::mlir::ModuleOp"> {
  let summary = "transpose arrays of 8-bit floats before kernels that multiply them across k";
  let description = [{
    wgmma multiplies bytes only along k. If a product `P V` of 8-bit floats loads V from an array [..., k, n], the
    program gets a workspace [..., n, k] and a launch that writes the array to it, and the kernel loads V^T. A kernel
    without a program gets one of its name, on all GPUs. P is in registers, in the order of an accumulator, so the
    workspace has the order of `interleaved` (see tile.dot). A sum is added to the product by `arith.addf`: the matrix
    unit keeps few bits of long sums of bytes.

    This happens for products whose shapes wgmma has (64 rows or more, a depth of 32 to 128), of at most 256 columns,
    since their sum is in registers. The other products of the kernel, of rows alone, become sums of products of
    parts of the rows if these have more than 128 bytes, which are too many for a sum of the matrix unit. The rows
    are those of a block that begins at a multiple of 16, of an argument: the rows of packed sequences begin
    anywhere, where no tensor map can begin along them. Parameters must be bound.

    Before:
    ```mlir
    %v_tile = tile.load %v[%b, %h, %n, 0]
        : !tile.view<[?, ?, ?, 128], f8E4M3FN> -> tensor<128x128xf8E4M3FN>
    %new = tile.dot %p, %v_tile, %old
        : tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<128x128xf32>
    ```
    After:
    ```mlir
    %turned = tile.load %v_transposed[%b, %h, 0, %n]
        : !tile.view<[?, ?, 128, ?], f8E4M3FN> -> tensor<128x128xf8E4M3FN>
    %product = tile.dot %p, %turned transpose_b interleaved
        : tensor<128x128xf8E4M3FN>, tensor<128x128xf8E4M3FN> -> tensor<128x128xf32>
    %new = arith.addf %old, %product fastmath<contract> : tensor<128x128xf32>
    ```

    Not its job: operands a that are loaded; arrays in pages.
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"", "cpu, or an architecture">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tilewright::tile::TileDialect"];
}

def TileOverlapLaunches : Pass<"tile-overlap-launches", "::mlir::ModuleOp"> {
  let summary = "let launches of a program start before the previous one has ended";
  let description = [{
    Marks the kernels of a program that other launches follow `tgpu.allows_launch`, those that follow others
    `tgpu.awaits_launch`, and the last of several `tgpu.allows_run`, for targets with programmatic dependent launches
    (compute capability 9.0 and later). The runtime starts such a launch early if its blocks and those of the last one
    have a multiprocessor of their own, or if they fit beside those and spread evenly. Of attention_decode with few
    sequences, the merge of parts then starts while parts are attended, which hides the time between two launches.

    Before:
    ```mlir
    tile.program @p (%x: !tile.view<[?], f32>) {
      tile.launch @first(%x) : !tile.view<[?], f32>
      tile.launch @second(%x) : !tile.view<[?], f32>
    }
    tile.kernel @first (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0)) { ... }
    tile.kernel @second (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0)) { ... }
    ```
    After:
    ```mlir
    tile.kernel @first (...) grid(...) attributes {tgpu.allows_launch} { ... }
    tile.kernel @second (...) grid(...) attributes {tgpu.allows_run, tgpu.awaits_launch} { ... }
    ```

    An author may mark kernels as well, for runs that follow other runs: attention_append, and the first kernels of the
    decodes, await what is before them (`overlap_previous` of a plan), and attention_append, a launch alone, allows the
    next run. For other targets, the pass removes such marks.

    Not its job: where a kernel waits, before its first access to global memory, in each role by itself
    (convert-tgpu-to-nvvm), and whether a launch starts early (the runtime).

    Errors: none
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"", "cpu, or an architecture">,
  ];
}

def TileCopyCaptures : Pass<"tile-copy-captures", "::mlir::ModuleOp"> {
  let summary = "let loads of captured views in loops be copied by tensor maps";
  let description = [{
    Marks a tile of rank 2 that a loop loads from a captured view for `tile-to-tgpu`, which then copies it to shared
    memory. Its rows or its columns must lie along the last dimension of the view; columns are copied as they lie in the
    view, and read transposed. Elements must have at least 16 bits. A tensor map shows an array as it is, so dimensions
    of the view that repeat if the array has one index there (`tile.repeat`) are assumed not to repeat, and that becomes
    a constraint of the kernel. A bundle therefore also has a variant of the kernel that was compiled without this pass.
    The pipeline runs the pass only under the schedule key `copy_captures=1`.

    Before:
    ```mlir
    %view = tile.captured @bias : !tile.view<[?, ?], bf16>
    %extent = tile.dim @bias, 0
    %is_same = arith.cmpi eq, %extent, %c1 : i32
    %rows = tile.repeat %view dim 0 at %c0 when %is_same : !tile.view<[?, ?], bf16>
    scf.for %n = %c0 to %keys step %c64 : i32 {
      %bias = tile.load %rows[%m, %n] : !tile.view<[?, ?], bf16> -> tensor<64x64xbf16>
    }
    ```
    After, in a kernel that requires `ne(dim(bias, 0), 1)`:
    ```mlir
    %view = tile.captured @bias : !tile.view<[?, ?], bf16>
    scf.for %n = %c0 to %keys step %c64 : i32 {
      %bias = tile.load %view[%m, %n] {tgpu.copied} : !tile.view<[?, ?], bf16> -> tensor<64x64xbf16>
    }
    ```

    Not its job: tiles that do not run along the last dimension, and repetitions whose condition is not a comparison of
    an extent of a capture with a constant. Each thread loads these for itself.
  }];
  let dependentDialects = ["::tilewright::tile::TileDialect"];
}

def TileScaleAfterMax : Pass<"tile-scale-after-max", "::mlir::ModuleOp"> {
  let summary = "scale the maximum of a row instead of the row";
  let description = [{
    Replaces the maximum of products with one common factor by the product of the maximum and the factor, if the factor
    is positive and finite: rounding is monotonic, so the result has the same bits. The factor is a scalar that is known
    at run time only, so the rewrite happens inside a branch, and the maximum is computed as written otherwise. If
    constraints of the kernel bound the factor, such as `c > 0` and `c <= 8`, there is no branch, unless `always-branch`
    is given. A product that is masked with minus infinity is treated the same way. With `with-masked`, the branch also
    computes the masked product: in it, the factor is known to be positive, so it can be applied after the mask and be
    fused with the operation that follows.

    Before:
    ```mlir
    %c = tile.full %scale : tensor<64x64xf32>
    %x = arith.mulf %s, %c : tensor<64x64xf32>
    %m = tile.reduce max %x dim 1 : tensor<64x64xf32> -> tensor<64xf32>
    ```
    After:
    ```mlir
    %m = scf.if %scale_is_positive -> (tensor<64xf32>) {
      %r = tile.reduce max %s dim 1 : tensor<64x64xf32> -> tensor<64xf32>
      %cr = tile.full %scale : tensor<64xf32>
      %y = arith.mulf %r, %cr : tensor<64xf32>
      scf.yield %y : tensor<64xf32>
    } else {
      %y = tile.reduce max %x dim 1 : tensor<64x64xf32> -> tensor<64xf32>
      scf.yield %y : tensor<64xf32>
    }
    ```
  }];
  let options = [
    Option<"withMasked", "with-masked", "bool", "false", "compute the masked product in the branch as well">,
    Option<"alwaysBranch", "always-branch", "bool", "false", "branch even if constraints bound the factor">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::tilewright::tile::TileDialect"];
}

def TileToTgpu : Pass<"tile-to-tgpu", "::mlir::ModuleOp"> {
  let summary = "map kernels onto a block of threads: layouts, shared memory, matrix instructions";
  let description = [{
    Replaces every `tile.kernel` by a `tgpu.kernel` of the same name. Tiles that meet in elementwise operations, or that
    a loop carries, share a layout: the accumulator layout if one of them is the result of a dot, else a blocked layout;
    reductions and expansions use slices of these layouts. Where layouts differ, the tile is converted.

    A dot of f16 or bf16 (or of f32 with precision tf32) becomes `tgpu.mma`, or `tgpu.wgmma` on sm_90a if each warpgroup
    gets 64 rows. Operands of 8-bit floats are converted to f16 first, which is exact; a remark (`widened-product`)
    reports that. In a loop, a tile of 8 bits that is converted for products only is copied as it is, and read and
    converted at its first product: as operand a of wgmma in registers (`ConvertedOperands.h`). So are all tiles in a
    loop of which operand a of wgmma is computed element by element. Where copies have a role, whole rows that an
    iteration reads beside the operands of its products are copied with them.

    A dot of f32 or f64 becomes `tgpu.fma_dot`. A tile that is loaded for a dot is copied to shared memory; a tile that
    is computed in registers stays there if it can be operand a, else it is written to shared memory. An inner extent
    that is not a multiple of the instruction's is rounded up if both loads end where their views end: copies fill what
    lies beyond the end of a view with zeros.

    On sm_90a, in a kernel with the attribute `tgpu.transpose_few_rows` whose products all have fewer than 64 rows,
    products and the tiles that meet them are first transposed, since wgmma takes 64 rows but as few as 8 columns
    (`TransposeTiles.h`).

    A block loop becomes a loop over the numbers of the blocks that the derived ranges allow, with two copies of the
    body: one without a mask for full blocks, and one that computes the mask, and runs only if the block contains a kept
    pair.

    Copies are synchronous: each is waited for before its first use.

    Before:
    ```mlir
    %x = tile.load %a[%m, %k] : !tile.view<[?, ?], f16> -> tensor<64x64xf16>
    %y = tile.load %b[%k, %n] : !tile.view<[?, ?], f16> -> tensor<64x64xf16>
    %s = tile.dot %x, %y, %sum : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    ```
    After:
    ```mlir
    tgpu.copy_async %a[%m, %k], %x_buffer : !tile.view<[?, ?], f16>, !tgpu.shared<64x64xf16, b128>
    tgpu.copy_commit
    tgpu.copy_async %b[%k, %n], %y_buffer : !tile.view<[?, ?], f16>, !tgpu.shared<64x64xf16, b128>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %x = tgpu.read %x_buffer
        : !tgpu.shared<64x64xf16, b128> -> tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
    %y = tgpu.read %y_buffer
        : !tgpu.shared<64x64xf16, b128> -> tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
    %s = tgpu.mma %x, %y, %sum : ... -> tensor<64x64xf32, #tgpu.mma<4, 1>>
    ```

    Not its job: to overlap copies with products, or to place buffers (tgpu-plan-shared-memory).

    Errors:
    - an unknown target, or a number of warps that is not a power of two up to 32 (nor, on sm_90a, a multiple of 4)
    - a kernel whose parameters are not bound
    - tiles of rank 0; gathered or scattered tiles of rank 3 and more; a reduction of a tile along a dimension other
      than its first and its last
    - a view that is chosen at run time; a constant tile that is not a splat
    - an operation on tiles that has no mapping, such as a loop other than `scf.for` and `tile.for_blocks` that carries
      tiles
    - elements, or shapes, of a dot that no instruction of the target multiplies
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_80\"", "architecture">,
    Option<"warps", "warps", "int64_t", /*default=*/"0", "warps of a block; 0: chosen by the largest product">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::scf::SCFDialect", "::tilewright::tgpu::TgpuDialect"];
}

def TgpuLoadMaskCaptures : Pass<"tgpu-load-mask-captures", "::mlir::ModuleOp"> {
  let summary = "load as tiles what masks of loops over blocks read at positions of the tile";
  let description = [{
    As `tile-load-captures`, for maps whose result is a tile of flags in registers: the masks of loops over blocks,
    which `tile-to-tgpu` computes.

    Before:
    ```mlir
    func.func private @mask(%b: i32, %i: i32, %j: i32) -> i1 {
      %row = tile.at @document[%b, %i] : i32
      %column = tile.at @document[%b, %j] : i32
      %same = arith.cmpi eq, %row, %column : i32
      return %same : i1
    }
    %keep = tile.map @mask(%b, %rows, %columns)
       : (i32, tensor<64x64xi32, #l>, tensor<64x64xi32, #l>) -> tensor<64x64xi1, #l>
    ```
    After:
    ```mlir
    %view = tile.captured @document : !tile.view<[?, ?], i32>
    %row = tgpu.load %view[%b, %m] : !tile.view<[?, ?], i32> -> tensor<64xi32, #tgpu.slice<1, #l>>
    %column = tgpu.load %view[%b, %n]
        : !tile.view<[?, ?], i32> -> tensor<64xi32, #tgpu.slice<0, #l>>
    // both expanded to 64 x 64
    %keep = tile.map @mask_of_tiles(%b, %rows, %columns, %row_tile, %column_tile) : ...
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tilewright::tile::TileDialect",
                           "::tilewright::tgpu::TgpuDialect"];
}

def TgpuSumByThread : Pass<"tgpu-sum-by-thread", "::mlir::ModuleOp"> {
  let summary = "reduce the sums that a loop carries over threads once, after the loop";
  let description = [{
    Consider a loop that carries a row of sums, and in each iteration adds the reduction of a tile to it, possibly after
    multiplying it by a row. If these operations carry `fastmath<reassoc>`, the loop carries the partial sums of each
    thread instead, and the sums are reduced over threads once, after the loop. Branches in the body are allowed if, on
    each side, the sums follow this rule or do not change. The sums must start at zero, and nothing else in the loop may
    read them.

    Before:
    ```mlir
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zero) -> (!row) : i32 {
      %block = tile.reduce add %p dim 1 : tensor<64x64xf32, #tgpu.wgmma<1>> -> !row
      %kept = arith.mulf %old, %factor fastmath<reassoc> : !row
      %new = arith.addf %kept, %block fastmath<reassoc> : !row
      scf.yield %new : !row
    }
    ```
    After:
    ```mlir
    %partial = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros) -> (!by_thread) : i32 {
      %block = tgpu.thread_sum %p dim 1 : tensor<64x64xf32, #tgpu.wgmma<1>> -> !by_thread
      %factors = tile.expand %factor dim 1 : !row -> !by_thread
      %kept = arith.mulf %old, %factors fastmath<reassoc> : !by_thread
      %new = arith.addf %kept, %block fastmath<reassoc> : !by_thread
      scf.yield %new : !by_thread
    }
    %sum = tile.reduce add %partial dim 1 : !by_thread -> !row
    ```

    Not its job: maxima, because each iteration needs the maximum of the whole row.
  }];
  let dependentDialects = ["::tilewright::tile::TileDialect", "::tilewright::tgpu::TgpuDialect"];
}

def TgpuSkipOnes : Pass<"tgpu-skip-ones", "::mlir::ModuleOp"> {
  let summary = "let a warp skip the product of a carried sum with a row of ones";
  let description = [{
    A sum that a loop carries is often scaled by exp2(old - new), where `new` equals `old` unless a condition holds, for
    example if a running maximum is raised only in rows whose scores exceed it by more than a threshold: the factor is
    then exactly one in most iterations. Such a product of a tile and an expanded row gets the attribute
    `tgpu.skip_ones`: a warp votes, and skips the product if all its rows have the factor one. The result is the same.
    The schedule key `skip_ones=0` removes the pass from the pipeline.

    Before:
    ```mlir
    %new = tile.select %exceeds, %maximum, %old : tensor<64xi1, #row>, tensor<64xf32, #row>
    %fall = arith.subf %old, %new : tensor<64xf32, #row>
    %factor = math.exp2 %fall : tensor<64xf32, #row>
    %factors = tile.expand %factor dim 1 : tensor<64xf32, #row> -> tensor<64x64xf32, #acc>
    %kept = arith.mulf %sum, %factors : tensor<64x64xf32, #acc>
    ```
    After:
    ```mlir
    %kept = arith.mulf %sum, %factors {tgpu.skip_ones} : tensor<64x64xf32, #acc>
    ```

    Not its job: to decide how far a maximum may lag; the kernel's author decides that.
  }];
}

def TgpuPlanSchedule : Pass<"tgpu-plan-schedule", "::mlir::ModuleOp"> {
  let summary = "decide how loops are pipelined and what stays in registers";
  let description = [{
    Writes `tgpu.schedule` on every loop that copies to shared memory, unless the author has, and
    `tgpu.keep_in_registers` on reads of buffers that do not change in a loop, as long as registers are free. The
    following passes obey these attributes. A loop can be pipelined if the places of its copies depend on the induction
    variable alone and their buffers belong to the loop. `schedule` overrides decisions by `KEY=VALUE`:

    - `skeleton`: `synchronous`, `multistage` or `producer_consumer`; `overlap` is `producer_consumer` with
      `in_flight=1`, and `exclusive` is `producer_consumer` with `in_flight=0` and `turns=1`
    - `stages` (1 to 32) and `in_flight` (0 to 7), as in `#tgpu.schedule`
    - `keep_in_registers`: true or false
    - `copy_captures`, `skip_ones`: 0 or 1; decide whether the pipeline runs tile-copy-captures and tgpu-skip-ones

    On sm_90a, a kernel whose loops copy operands of wgmma gets `tgpu.role_schedule` if a separate role can issue all
    its copies; its loops then have the skeleton `producer_consumer`. These keys of `schedule` apply to it:

    - `turns`, as in `#tgpu.schedule`
    - `group`, `dynamic`, `tile_stages`, `store_buffers`, `reduce_stages`, `scratch_stages`, `compute_roles`,
      `late_products`, `load_roles`, `load_registers` and `compute_registers`, as in `#tgpu.role_schedule`
    - `lend`: whether results leave through slots that the role "load" lends, if there are no store buffers

    If two-slot rings do not fit, buffers read only by products whose results are used in the same iteration get one
    slot (`tgpu.ring_stages`), provided that others keep two. If rings have two slots, there is room for more, and no
    iteration writes to shared memory for its own products, rings that products of this and of the next iteration read
    get three.

    Rings have as many slots as fit, at most six. Where no other block reads what iterations copy (`tgpu.read_once`), so
    that all of it comes from memory, they have two, or as many as hold 64 KiB: with more bytes on their way, the queues
    of the memory are longer, and nothing arrives earlier. `tgpu.most_stages` of the kernel replaces both numbers; two
    are the least.

    If the tiles of a thread exceed its registers and two roles can compute some of the results each, they do
    (`compute_roles` = 2). The rings between them get one slot (`tgpu.ring_stages` on the operations that compute what
    is handed over) if two would leave no room for two stages of the others.

    If the copies of an iteration are many boxes for its products, as of keys and values in short pages, and two roles
    can make them, two do (`load_roles` = 2).

    Before:
    ```mlir
    scf.for %n = %first to %end step %c1 : i32 {
      tgpu.copy_async %k[%n, 0], %k_buffer : !tile.view<[?, 64], f16>, !tgpu.shared<64x64xf16, b128>
      ...
    }
    ```
    After:
    ```mlir
    scf.for %n = %first to %end step %c1 : i32 {
      ...
    } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
    ```

    Errors:
    - an unknown key or value in `schedule`
    - `stages` above 1 with `skeleton=synchronous`, or 1 with `skeleton=multistage`
    - `skeleton=producer_consumer` for a kernel that cannot be split into roles
    - stages or buffers asked for in `schedule` that do not fit into shared memory
  }];
  let options = [ListOption<"schedule", "schedule", "std::string", "KEY=VALUE, overrides a decision">];
}

def TgpuHoistReads : Pass<"tgpu-hoist-reads", "::mlir::ModuleOp"> {
  let summary = "read what stays in registers before the loops in which it does not change";
  let description = [{
    Moves each `tgpu.read` that is marked `tgpu.keep_in_registers` out of the loops in which its buffer does not change.
    Reads of one buffer in copies of a loop body become one.

    Before:
    ```mlir
    scf.for %n = %first to %end step %c1 : i32 {
      %q = tgpu.read %q_buffer {tgpu.keep_in_registers} : ...
    ```
    After:
    ```mlir
    %q = tgpu.read %q_buffer : ...
    scf.for %n = %first to %end step %c1 : i32 {
    ```
  }];
}

def TgpuPipelineCopies : Pass<"tgpu-pipeline-copies", "::mlir::ModuleOp"> {
  let summary = "start copies ahead of the iterations that use them";
  let description = [{
    Obeys `tgpu.schedule` with the skeleton `multistage`: the buffers that the loop copies to become rings, the copies
    of the first iterations are started before the loop, and each iteration starts those of the iteration `stages` - 1
    later. One barrier per iteration remains.

    Before:
    ```mlir
    scf.for %n = %first to %end step %c1 : i32 {
      tgpu.sync
      tgpu.copy_async %k[%n, 0], %k_buffer : !tile.view<[?, 64], f16>, !tgpu.shared<64x64xf16, b128>
      tgpu.copy_commit
      tgpu.copy_wait pending 0
      tgpu.sync
      %k = tgpu.read %k_buffer : ...
    } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
    ```
    After:
    ```mlir
    // the copy of iteration 0, then
    scf.for %n = %first to %end step %c1 iter_args(%use = %c0) -> (i32) : i32 {
      %k_slot = tgpu.slot %k_ring[%use] : !tgpu.ring<2, <64x64xf16, b128>>
      tgpu.copy_wait pending 0
      tgpu.sync
      // if there is an iteration %n + 1: its copy to the slot of %use + 1
      tgpu.copy_commit
      %k = tgpu.read %k_slot : ...
    }
    ```

    Errors:
    - a loop that cannot be pipelined: a place that depends on what the loop carries, a buffer that is used elsewhere
  }];
}

def TgpuAssignRoles : Pass<"tgpu-assign-roles", "::mlir::ModuleOp"> {
  let summary = "split a kernel into roles that copy, compute and add to memory";
  let description = [{
    Obeys `tgpu.role_schedule`, and `tgpu.schedule` of the loops in the kernel. All copies become TMA loads of the role
    "load", which has one warp; everything else becomes the role "compute", with as many warps as the kernel had.
    Registers are allocated to whole warpgroups, so the other three warps of the first warpgroup are idle unless they
    get one of the roles below. Loops, branches and scalars that the places of copies depend on are in both roles. A
    vote of the block becomes a vote of the role.

    Copies that the same operation reads first, and rows that are read after them, share two barriers for each stage:
    one completes when their bytes have arrived, the other when all warps have used them. These copies are started
    together as soon as their places are known. `tgpu.ring_stages` of a copy gives the number of slots of its ring if
    that differs from the loop's `stages`; tgpu-plan-schedule does not account for a value that the author wrote. The
    counter of a ring's uses continues through all loops. With a `group`, the block processes tile after tile of what
    was the grid.

    With `reduce_stages`, accumulators of wgmma that loops add to memory (`tgpu.atomic_add`) leave through a ring in
    shared memory, and one warp, the role "reduce", adds them by TMA. This role has no branch where both branches add to
    the same place, nor where the condition is a vote that ranges usually make unnecessary: in these cases `compute`
    sends zeros. For additions in order, the role waits for its turn (`tgpu.await_turn`), stores tile 0 instead of
    adding it, ends the turn when the sum is in memory, and tiles are taken by `tgpu.take_tile .. all`.

    Rows that an iteration gathers (`tile.gather` of a tile of rank 1), at indices that it computes from its number,
    scalars and views that the kernel does not write, such as a factor for each key of a cache in pages, become the role
    "gather" of two warps. It computes the indices, gathers the rows before it acquires a slot, writes them, and arrives
    at the barriers of the copies that the loop reads first. Equal gathers in both sides of a branch are one. They
    remain in `compute` with `reduce_stages`, `compute_roles` = 2, or fewer than 40 registers for `load`.

    Work in addition to the instances (`tile.spread`) becomes the role "spread", which consists of the warps that would
    otherwise be idle. It does not follow the tiles of the other roles: it executes the block's share of the work
    (`tgpu.share`), and waits for the sums that it reads (`tgpu.await_turn .. last`). It uses no shared memory. It
    processes a tile in steps of as many rows as its registers hold: it loads the rows, applies elementwise operations,
    and stores them. Branches on scalars remain. The role "compute" executes the last eighth of the numbers after its
    last tile.

    If tiles are taken from a counter (`dynamic`), the role "schedule", a warp of the warpgroup of the role "load",
    takes them and publishes what it has computed from a tile's number to all other roles, through a ring. It takes the
    next tile when each role that copies signals that two iterations of copies remain, or none if the loop of the last
    copies is inside another loop or does not count by one. If there is a role "spread", which uses that warp, the role
    "load" takes and publishes tiles itself. Tiles that write nothing, such as those after the end of a packed sequence,
    are not published.

    If results have no buffers of their own, the role "load" ends each tile with one more use of each ring whose copies
    have `tgpu.lend_slot`: it acquires the slot and arrives, without a copy. The role "compute" waits for the slot
    before its first result leaves, and releases it after the last; tgpu-stage-stores stores the results through it.

    With `load_roles` = 2, a second role of one warp, "load_2", makes the copies of loops that only products read whose
    results the loops carry, such as V of attention; "load" makes the others. Both execute the same loops and branches,
    and lend slots of their own rings. Each loop must have copies for both. There must be a role "schedule", and a warp
    must be left: no role "gather" or "spread".

    With `compute_roles` = 2, a second role, "compute_2", has as many warps as "compute" and computes some of the
    results, such as the other half of the columns of an array. "compute" keeps the products that all results need, the
    results with the fewest further ones, and what depends on these but on no other product; tiles and values of their
    rows that "compute_2" needs of that, in a loop or after it, are written to rings of two slots, or one
    (`tgpu.ring_stages` = 1). Each role waits for the copies that it reads, and a buffer that both read is free when the
    warps of both have used it. A kernel that adds to memory, votes, or writes to shared memory cannot have two such
    roles.

    Barriers for what threads write to shared memory become barriers of the role. A loop that writes nothing there has
    none: its copies have their own, and what was written before it has been published.

    With `scratch_stages` = 2, buffers that each iteration writes for its own products alternate between two copies, and
    the barrier at the start of an iteration is removed.

    Before:
    ```mlir
    tgpu.kernel @product target "sm_90a" warps 8 (...) grid(%n = ..., %m = ...)
        attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40,
            compute_registers = 232>} {
      %x = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
      scf.for %k = %c0 to %depth step %c64 ... {
        tgpu.sync
        tgpu.copy_async %a[%m, %k], %x : ...
        tgpu.copy_commit
        tgpu.copy_wait pending 0
        tgpu.sync
        // a product that reads %x, and the wait for it
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4>}
    }
    ```
    After:
    ```mlir
    tgpu.kernel @product target "sm_90a" warps 12 (...) grid(%n = ..., %m = ...) {
      %x_ring = tgpu.alloc_ring : !tgpu.ring<4, <128x64xbf16, b128>>
      %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<4>
      %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<4>
      tgpu.roles
        role "load" warps 1 registers 40 {
          scf.for %k = %c0 to %depth step %c64 iter_args(%use = %c0) -> (i32) : i32 {
            tgpu.acquire %empty[%use] : !tgpu.barriers<4>
            tgpu.expect %full[%use] bytes 16384 : !tgpu.barriers<4>
            %slot = tgpu.slot %x_ring[%use] : !tgpu.ring<4, <128x64xbf16, b128>>
            tgpu.tma_load %a_map[%m, %k], %slot, %full[%use] : ...
            // the next use
          }
        }
        role "idle" warps 3 registers 40 {
        }
        role "compute" warps 8 registers 232 {
          scf.for %k = %c0 to %depth step %c64 iter_args(..., %use = %c0) -> (..., i32) : i32 {
            tgpu.wait %full[%use] : !tgpu.barriers<4>
            %slot = tgpu.slot %x_ring[%use] : !tgpu.ring<4, <128x64xbf16, b128>>
            // the product that reads %slot, and the wait for it
            tgpu.arrive %empty[%use] per warp : !tgpu.barriers<4>
            // the next use
          }
        }
    }
    ```

    Not its job: to decide which roles there are, or to overlap products (tgpu-plan-stages).

    Errors:
    - a copy that no tensor map describes: of a view that is not an argument, or is optional, or into a buffer that does
      not consist of boxes
    - a copy whose place, or whether it is made, depends on a tile
    - a buffer that others write as well, or that is used where the copy may not have been made
    - a target other than sm_90a; a number of warps that is not a multiple of 4, or above 28
    - a `group` with a grid that the block cannot compute
    - additions in order without `dynamic` or without `reduce_stages`
    - a `tile.spread` without a `group`; two of them, or one in a branch; one that transposes or reduces a tile, or has
      tiles of two shapes or in two branches
    - a `tgpu.ring_stages` that is not an i64 from 1 to 32, or that differs between copies that share barriers
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::tilewright::tile::TileDialect"];
}

def TgpuShareSpread : Pass<"tgpu-share-spread", "::mlir::ModuleOp"> {
  let summary = "let each block execute its share of a kernel's additional work after its own instance";
  let description = [{
    Replaces a `tile.spread` that no role executes (tgpu-assign-roles) by a loop over the numbers of the block: block i
    of n executes i, i + n and so on. The loop is one of all warps, so its body may contain whatever the kernel's body
    may.

    Before:
    ```mlir
    tile.spread %m to %count { ... }
    ```
    After, in a grid of one dimension:
    ```mlir
    %blocks = tgpu.grid_extent 0 : i32
    scf.for %m = %block to %count step %blocks : i32 { ... }
    ```

    Not its job: pipelining the copies of the loop.

    Errors:
    - a `tile.spread` in a branch, which blocks may not take
    - one with `tile.await`: a block that waits may keep those that it waits for from starting
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::tilewright::tgpu::TgpuDialect"];
}

def TgpuHoistElements : Pass<"tgpu-hoist-elements", "::mlir::ModuleOp"> {
  let summary = "read elements that are the same for all tiles of a role once";
  let description = [{
    Moves each `tile.at` of a role whose view the kernel does not write, and whose view and indices do not depend on the
    tile, out of the loop over the tiles.

    Before:
    ```mlir
    scf.for %tile = %cta to %tiles step %ctas : i32 {
      %number = tile.at %numbers[0] : !tile.view<[?], f32>
    ```
    After:
    ```mlir
    %number = tile.at %numbers[0] : !tile.view<[?], f32>
    scf.for %tile = %cta to %tiles step %ctas : i32 {
    ```
  }];
}

def TgpuUnswitchLoops : Pass<"tgpu-unswitch-loops", "::mlir::ModuleOp"> {
  let summary = "move loop-invariant branches out of the loops of roles";
  let description = [{
    Splits a `producer_consumer` loop of a role whose body branches on loop-invariant values into two: one for the case
    that all those branches are taken, and one for all other cases, which is marked `tgpu.rare`: passes that pipeline or
    split loops ignore it. The second loop has no special cases (`tgpu.special_case`) either, because the general code
    that they replace is correct for all iterations.

    Before:
    ```mlir
    %r = scf.for %i = %first to %end step %c1 iter_args(%max = %none) -> (!row) : i32 {
      %is_positive = arith.cmpf ogt, %scale, %zero : f32
      %new = scf.if %is_positive -> (!row) { /* one way */ } else { /* the other */ }
      scf.yield %new : !row
    } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
    ```
    After:
    ```mlir
    %is_positive = arith.cmpf ogt, %scale, %zero : f32
    %r = scf.if %is_positive -> (!row) {
      %one = scf.for ... { /* one way */ } {tgpu.schedule = ...}
      scf.yield %one : !row
    } else {
      %both = scf.for ... { /* the branch */ } {tgpu.rare}
      scf.yield %both : !row
    }
    ```

    If the branches choose tiles, and are the same in loops around this one, the outermost of these within the loop over
    tiles is split instead, so that the choice is not made again in each of its iterations.

    Not its job: branches on ranges of iterations (tgpu-clone-segments).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TgpuSkipIdleRounds : Pass<"tgpu-skip-idle-rounds", "::mlir::ModuleOp"> {
  let summary = "let each warpgroup skip the first iterations of a loop if they do not affect its rows";
  let description = [{
    The lower bound of a loop may be `tgpu.first_round`. In a `producer_consumer` loop of a role whose warpgroups
    synchronize with each other only at the barriers of rings, the iterations before a warpgroup's own become a loop
    that waits for each slot and releases it. Any other loop starts with the first iteration of all warpgroups.

    Before:
    ```mlir
    %first = tgpu.first_round %c0 of %r0, %r1
    %r:2 = scf.for %i = %first to %end step %c1 iter_args(%o = %zero, %use = %u0) -> (!o, i32)
        : i32 {
      tgpu.wait %full[%use] : !tgpu.barriers<2>
      ...
      tgpu.arrive %empty[%use] per warp : !tgpu.barriers<2>
      %next = arith.addi %use, %c1 : i32
      scf.yield %new, %next : !o, i32
    } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
    ```
    After:
    ```mlir
    %u1 = scf.for %i = %c0 to %first step %c1 iter_args(%use = %u0) -> (i32) : i32 {
      tgpu.wait %full[%use] : !tgpu.barriers<2>
      tgpu.arrive %empty[%use] per warp : !tgpu.barriers<2>
      %next = arith.addi %use, %c1 : i32
      scf.yield %next : i32
    }
    %r:2 = scf.for %i = %first to %end step %c1 iter_args(%o = %zero, %use = %u1) -> (!o, i32)
        : i32 { ... }
    ```
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::tilewright::tgpu::TgpuDialect"];
}

def TgpuCloneSegments : Pass<"tgpu-clone-segments", "::mlir::ModuleOp"> {
  let summary = "split a loop that branches on its induction variable into one loop for each part";
  let description = [{
    A loop of step 1 whose body branches on `begin <= iv < end`, both known before the loop, becomes three loops:
    before, inside, and after the range. Full blocks thus need neither the mask nor the branch. Rings and accumulators
    continue from one loop to the next.

    The attributes `tgpu.one_before` and `tgpu.one_after` of the branch, which say that at most one iteration comes
    before or after the range, are passed on to the loops made for these iterations.

    Before:
    ```mlir
    %r = scf.for %n = %first to %end step %c1 iter_args(%acc = %zero) -> (!acc) : i32 {
      %after = arith.cmpi sge, %n, %full_first : i32
      %before = arith.cmpi slt, %n, %full_end : i32
      %full = arith.andi %after, %before : i1
      %new = scf.if %full -> (!acc) { ... } else { ... }
      scf.yield %new : !acc
    }
    ```
    After:
    ```mlir
    %r0 = scf.for %n = %first to %b step %c1 iter_args(%acc = %zero) -> (!acc) : i32 { /* else */ }
    %r1 = scf.for %n = %b to %e step %c1 iter_args(%acc = %r0) -> (!acc) : i32 { /* then */ }
    %r = scf.for %n = %e to %end step %c1 iter_args(%acc = %r1) -> (!acc) : i32 { /* else */ }
    ```
  }];
}

def TgpuStageStores : Pass<"tgpu-stage-stores", "::mlir::ModuleOp"> {
  let summary = "store accumulators through shared memory, by TMA";
  let description = [{
    Obeys `store_buffers` of `tgpu.role_schedule`. In roles, a store of a tile in a wgmma layout to a whole argument is
    split into pieces of as many columns as a swizzle spans, which leave through that many buffers in turn. For each
    piece, the role waits until the copy that last used the buffer has read it, writes the piece, and starts its copy.
    Elementwise operations whose only use is the store are also computed piece by piece, which takes fewer registers.
    If an iteration of a loop with products stores results, and each piece has a buffer, the role waits once for the
    copies of the previous iteration, and each result has one fence and one barrier for all of its pieces.

    Without store buffers, a tile leaves through an existing buffer. In a block that processes tile after tile, that is
    the slots of a ring that each iteration writes for its own products, and then the slot that the next tile's first
    sum for the role "reduce" will take (the next tile writes them again once the copies have read them), or slots that
    the role "load" lends (`tgpu.lend_slot`); otherwise it is the buffer of an operand that all products have read.
    Accumulators that such a block adds to memory after a tile's iterations (`tgpu.atomic_add`) leave through these
    buffers, too, in batches, by additions instead of copies.

    Before:
    ```mlir
    tgpu.store %sum, %c[%m, %n] : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tile.view<[?, ?], bf16>
    ```
    After:
    ```mlir
    tgpu.bulk_wait pending 0 read
    tgpu.sync on %stored
    tgpu.write %sum, %buffer : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>
    tgpu.fence_async
    tgpu.sync on %stored
    tgpu.tma_store %buffer, %c_map[%m, %n]
        : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<128x64xbf16, b128>
    tgpu.bulk_commit
    ```

    Not its job: stores of other layouts, which remain as they are.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TgpuPlanStages : Pass<"tgpu-plan-stages", "::mlir::ModuleOp"> {
  let summary = "assign a pipeline stage and a position to every operation of a loop";
  let description = [{
    Writes `tgpu.place = [stage, order]` on the operations of `producer_consumer` loops with `in_flight` > 0, unless the
    author has; tgpu-expand-stages obeys. If a loop has several products, stage 0 contains the products whose results
    other products of the same iteration read, directly or indirectly, and what is computed from these results. Stage 1
    contains the products whose results nothing else in the iteration reads; it runs one iteration later, so that the
    matrix unit multiplies while stage 0 computes. Waits for slots come just before the products that read the slots,
    and releases just after the waits for these products. With `turns`, the warpgroups of the role take turns in issuing
    the products of an iteration.

    Before: `S = Q K`, `P = exp(S)`, `O = O + P V`, in a loop over blocks of K and V. After, by order:
    ```mlir
    tgpu.wait %k_full[%use_k]                  {tgpu.place = array<i64: 0, 0>}
    %s = tgpu.wgmma %q, %k_slot transpose_b    {tgpu.place = array<i64: 0, 2>}
    tgpu.wait %v_full[%use_v]                  {tgpu.place = array<i64: 1, 4>}
    %o = tgpu.wgmma %p, %v_slot, %acc          {tgpu.place = array<i64: 1, 6>}
    tgpu.wgmma_wait pending 0, %s              {tgpu.place = array<i64: 0, 8>}
    ...
    ```

    If all products of a loop are added to values that the loop carries, as in a matrix product, stage 1 is the wait for
    them alone, and the releases of the slots that they read. The products of an iteration form one group:
    ```mlir
    %x = tgpu.wgmma %a, %b, %acc               {tgpu.place = array<i64: 0, 3>}
    tgpu.wgmma_commit                          {tgpu.place = array<i64: 0, 4>}
    %new = tgpu.wgmma_wait pending 0, %x       {tgpu.place = array<i64: 1, 5>}
    tgpu.arrive %empty[%use] per warp          {tgpu.place = array<i64: 1, 6>}
    ```

    A loop is not overlapped if its iterations write to shared memory for other threads, or if its first products need
    what the others yield. Its operations then form one stage, in an order that issues products early and waits for them
    late; products that are summed in one accumulator (`O = Q state + P V`) are waited for together. Results that only
    leave by TMA do so while products run that do not need them. With `in_flight` = 2, the first product that needs only
    what roles copy is issued one iteration early (stage 0 is that product alone), and a short row that is used with
    this product is read when the product is issued. `in_flight` = 2 asks for this order in any loop: it takes fewer
    registers than two stages. OrderRound.h describes the order.

    With `in_flight` = 0 and `turns` = 1, operations stay in place. A warpgroup's turn lasts from the end of the
    products whose results others of the iteration read until it issues the first of those others: one warpgroup
    computes while the others multiply. With `turns` = 2, it lasts from the last product of an iteration until the
    first product of the next one has been issued: one warpgroup multiplies while the others compute.

    Where warpgroups write parts of a tile to a ring of scratch buffers, and a product reads all of it, a `tgpu.sync` in
    each iteration keeps the warpgroups together: all compute functions at the same time, and the matrix unit is idle
    meanwhile. With `late_products` of the `tgpu.role_schedule`, barriers for the slots of the ring replace the
    `tgpu.sync`, and that product, with the handover of its result, becomes stage 1: warpgroups can be apart by half an
    iteration. This applies to a ring if all loops of a tile that use it have such a product, no product is in flight
    when the tile is written, and what the product and its handover read, but for slots of the iteration, is the same
    after the loops. By order, where `%dq` is then written to a slot of another ring:
    ```mlir
    tgpu.acquire %empty[%use]                  {tgpu.place = array<i64: 0, 28>}
    tgpu.write %ds, %slot                      {tgpu.place = array<i64: 0, 29>}
    tgpu.wait %full[%use]                      {tgpu.place = array<i64: 1, 30>}
    %x = tgpu.wgmma %slot_again, %k            {tgpu.place = array<i64: 1, 32>}
    %v = tgpu.wgmma %p, %do, %dv               {tgpu.place = array<i64: 0, 34>}
    tgpu.arrive %full[%use] per warp           {tgpu.place = array<i64: 0, 37>}
    %dq = tgpu.wgmma_wait pending 0, %x        {tgpu.place = array<i64: 1, 38>}
    tgpu.arrive %empty[%use] per warp          {tgpu.place = array<i64: 1, 39>}
    %dv_next = tgpu.wgmma_wait pending 0, %v   {tgpu.place = array<i64: 0, 45>}
    ```

    A loop remains as it is if its body branches, or if it consists of several parts none of which is correct for every
    iteration.

    Errors:
    - `in_flight` above 1 for a loop with one product, or above 2 for a loop with several
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TgpuExpandStages : Pass<"tgpu-expand-stages", "::mlir::ModuleOp"> {
  let summary = "pipeline loops as the places of their operations prescribe";
  let description = [{
    Obeys `tgpu.place`. Stage 1 of an iteration runs in the next iteration of the pipelined loop. The loops that
    tgpu-clone-segments made from one loop form one pipeline: the prologue (stage 0 of the first iteration) runs before
    the first of them, the epilogue (stage 1 of the last iteration) after the last, and values that go from stage 0 to
    stage 1 are carried from one loop to the next. The prologue uses the body of a part marked `tgpu.general`. A first
    part of at most one iteration (`tgpu.one_before`) becomes the prologue alone. If the parts have stage 0 in common,
    so that they begin and end one iteration later, a last part of at most one iteration (`tgpu.one_after`) becomes the
    epilogue alone.

    Before:
    ```mlir
    %r = scf.for %i = %first to %end step %c1 iter_args(%acc = %zero) -> (!acc) : i32 {
      %p = ...                                           // stage 0
      %sum = tgpu.wgmma %p, %v, %acc : ...               // stage 1
      ...
    }
    ```
    After:
    ```mlir
    %some = arith.cmpi slt, %first, %end : i32
    %r = scf.if %some -> (!acc) {
      %p0 = ...
      %n:2 = scf.for %i = %second to %end step %c1 iter_args(%acc = %zero, %p = %p0) -> (!acc, !p)
          : i32 {
        %p_new = ...
        %sum = tgpu.wgmma %p, %v, %acc : ...
        ...
      }
      %last = tgpu.wgmma %n#1, %v, %n#0 : ...
      ...
    } else { /* %zero */ }
    ```

    A sum that stage 0 extends, and that stage 1 waits for, is carried as pending, so that nothing can read it:
    ```mlir
    %first = tgpu.wgmma %x, %y : ...                       // without an accumulator, if the sum begins with zeros
    tgpu.wgmma_commit
    %last:2 = scf.for ... iter_args(%acc = %first, %before = %use) {
      %pending = tgpu.wgmma %x, %y, %acc : ...
      tgpu.wgmma_commit
      tgpu.wgmma_wait pending 1
      tgpu.arrive %empty[%before] per warp : !tgpu.barriers<4>
      scf.yield %pending, %use
    }
    %sum = tgpu.wgmma_wait pending 0, %last#0 : ...
    tgpu.arrive %empty[%last#1] per warp : !tgpu.barriers<4>
    ```

    Stages that meet in memory need no prologue: if stage 1 yields nothing, and reads nothing of stage 0 but counters
    of ring slots, it runs for the counters less one, in a branch. So it continues from one chain of loops to the next,
    also through a loop around them, and stage 1 of the last iteration runs after the outermost of these loops. If the
    first part of a chain is general, it executes the first iteration of a tile in any case, and the other parts need
    no branch. What comes in the order after the first operation of stage 1 is in the branch:
    ```mlir
    tgpu.acquire %empty[%use] : !tgpu.barriers<2>        // stage 0
    tgpu.write %ds, %slot : !ds, !shared
    %later = arith.cmpi ne, %use, %first_use_of_tile : i32
    %dv_next = scf.if %later -> (!acc) {
      %before = arith.subi %use, %one : i32
      tgpu.wait %full[%before] : !tgpu.barriers<2>       // stage 1
      %slot_before = tgpu.slot %ring[%before] : !ring
      %x = tgpu.wgmma %slot_before, %k : !shared, !k -> !dq
      ...
    } else {
      ...                                                // stage 0 alone
    }
    ```

    Errors:
    - an operation of the loop without a place, or of a stage other than 0 and 1
    - an operation that does not follow what it reads
    - an operation of stage 0 that reads a result of stage 1 of its own iteration
    - a product that is waited for in another stage, unless it extends a sum that nothing else reads
    - parts whose second stages differ
    - of stages that meet in memory: a product in flight where stage 1 begins or the iteration ends, a value of a loop
      around the part, a loop of the tile that advances their counters without stages
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TgpuReleaseEarly : Pass<"tgpu-release-early", "::mlir::ModuleOp"> {
  let summary = "release slots right after their last readers";
  let description = [{
    A buffer that is copied once for each tile (Q of attention) is released after the loops that read it.
    tgpu-expand-stages leaves a product of the last iteration after a loop, and this product reads other slots. The pass
    moves the arrival before this product, and into the branches of conditions, so that the next tile's copy starts
    while the product runs.

    Before:
    ```mlir
    %r = scf.if %some -> (!acc) {
      %n:2 = scf.for ... {                 // reads %q
        ...
      }
      %sum = tgpu.wgmma %n#1, %v, %n#0 : ...
      ...
    } else {
      ...
    }
    tgpu.arrive %q_empty[%tile] per warp : !tgpu.barriers<1>
    ```
    After:
    ```mlir
    %r = scf.if %some -> (!acc) {
      %n:2 = scf.for ... {
        ...
      }
      tgpu.arrive %q_empty[%tile] per warp : !tgpu.barriers<1>
      %sum = tgpu.wgmma %n#1, %v, %n#0 : ...
      ...
    } else {
      tgpu.arrive %q_empty[%tile] per warp : !tgpu.barriers<1>
      ...
    }
    ```
  }];
}

def TgpuUniteCounters : Pass<"tgpu-unite-counters", "::mlir::ModuleOp"> {
  let summary = "merge ring counters that differ by a constant";
  let description = [{
    Merges counters that loops of a role carry if they are proved to differ by the same number in every iteration. The
    first of several equal counters replaces the others. If one counter is less than another by one, and is incremented
    by one, its next value is the value of the other in this iteration, so slots and phases of the next iteration are
    already computed. If results of a branch are equal on both sides, the first replaces the others, too.

    Before:
    ```mlir
    %use_k0 = arith.addi %use, %c1 : i32
    %r:2 = scf.for ... iter_args(%use_k = %use_k0, %use_v = %use) -> (i32, i32) : i32 {
      ...
      %next_k = arith.addi %use_k, %c1 : i32
      %next_v = arith.addi %use_v, %c1 : i32
      scf.yield %next_k, %next_v : i32, i32
    }
    ```
    After:
    ```mlir
    %r:2 = scf.for ... iter_args(%use_k = %use_k0, %use_v = %use) -> (i32, i32) : i32 {
      ...
      %next_k = arith.addi %use_k, %c1 : i32
      scf.yield %next_k, %use_k : i32, i32
    }
    ```
  }];
}

def TgpuStepProducts : Pass<"tgpu-step-products", "::mlir::ModuleOp"> {
  let summary = "issue products in steps where registers are short";
  let description = [{
    ptxas reads operands of products ahead of their use, as far as it estimates that registers are free, and it
    overestimates: where tiles take many registers besides, it spills addresses and counters to local memory. A product
    that is not alone in its body becomes `stepwise`, which leaves ptxas little freedom to reorder, if tiles take more
    than 112 registers of a thread at that product, or more than 136 at some such product of the kernel. Otherwise the
    order that ptxas chooses is better.

    Before: `%s = tgpu.mma %a, %b, %acc : ...`

    After: `%s = tgpu.mma %a, %b, %acc stepwise : ...`
  }];
}

def TgpuBoundMaxima : Pass<"tgpu-bound-maxima", "::mlir::ModuleOp"> {
  let summary = "compute row maxima only where they raise the running maximum";
  let description = [{
    A running maximum may lag: it is raised only if a row exceeds it by more than a constant. The maximum of a row of a
    tile then matters only if it is above `old + c`, and `tgpu.raise_max` computes it only in that case: a warp first
    tests, in half the instructions and without an exchange between threads, whether any of its rows is above. The pass
    applies to f32 tiles in wgmma layouts, in which one warp holds a whole row; the maximum may be multiplied by a
    number that is the same for all rows. The result is the same.

    Other maxima of such tiles in loops get the attribute `tgpu.as_integers`, if their elements are those of products
    of 8-bit floats, scaled and masked, whose NaNs are positive: the bits of floats that are not negative are ordered as
    integers are, of which an instruction compares three. Only a warp with a row of negative numbers alone compares
    once more. The result is the same.

    Before:
    ```mlir
    %most = tile.reduce max %s dim 1 : tensor<128x64xf32, #tgpu.wgmma<2>> -> !row
    %scaled = arith.mulf %most, %scales : !row
    %all = arith.maximumf %old, %scaled : !row
    %limit = arith.addf %old, %eights : !row
    %exceeds = arith.cmpf ogt, %all, %limit : !row
    %new = tile.select %exceeds, %all, %old : !flags, !row
    ```
    After:
    ```mlir
    %new = tgpu.raise_max %old by %eight to %s times %scale
        : tensor<128x64xf32, #tgpu.wgmma<2>> -> !row
    ```
  }];
  let dependentDialects = ["::tilewright::tgpu::TgpuDialect"];
}

def TgpuShiftRows : Pass<"tgpu-shift-rows", "::mlir::ModuleOp"> {
  let summary = "subtract terms of rows from their maxima instead of adding them to each element";
  let description = [{
    A softmax subtracts the maximum of a row from each of its elements. What a mapped function adds to all elements of a
    row alike, such as a position of a query, or the first position of a block of keys, therefore need not be added to
    the elements: the pass subtracts it from the maximum that is subtracted from them, and `tgpu.raise_max` adds it as
    an offset. What the function adds to all elements of a column alike becomes a tile, which is computed before the
    loop if it is the same in all iterations and the role has the registers; otherwise the function stays as it is,
    with its terms of rows. So an element of ALiBi takes one instruction more than without.

    Sums, differences and products with uniform values, of floats where they carry `fastmath<reassoc>`, and conversions
    of positions (`tile.cast ... reassoc`) are split into their terms. An operation whose operands depend on rows alone
    is a term of rows. All else stays in the function. The pass applies to maxima that `tgpu-bound-maxima` has found,
    whose difference carries that flag, too.

    Before:
    ```mlir
    %rows = tile.iota %m dim 0 : !pos
    %cols = tile.iota %n dim 1 : !pos
    %x = tile.map @minus_slope_times_distance(%s, %rows, %cols, %slope)
        : (!s, !pos, !pos, f32) -> !s
    %max = tgpu.raise_max %old by %lag to %x times %c : !s -> !row
    %each = tile.expand %max dim 1 : !row -> !s
    %xc = arith.mulf %x, %cs fastmath<reassoc, contract> : !s
    %d = arith.subf %xc, %each fastmath<reassoc, contract> : !s
    ```
    After (`%slope_times_column` is computed before the loop):
    ```mlir
    %x = arith.addf %s, %slope_times_column fastmath<reassoc, contract> : !s
    %max = tgpu.raise_max %old by %lag to %x plus %slope_times_first times %c : !s, !row -> !row
    %shift = arith.mulf %slope_times_first, %cs_of_rows fastmath<reassoc, contract> : !row
    %left = arith.subf %max, %shift fastmath<reassoc, contract> : !row
    %each = tile.expand %left dim 1 : !row -> !s
    %xc = arith.mulf %x, %cs fastmath<reassoc, contract> : !s
    %d = arith.subf %xc, %each fastmath<reassoc, contract> : !s
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tilewright::tgpu::TgpuDialect",
                           "::tilewright::tile::TileDialect"];
}

def TgpuSplitTerms : Pass<"tgpu-split-terms", "::mlir::ModuleOp"> {
  let summary = "compute products that threads add to a sum by columns";
  let description = [{
    The matrix unit keeps few digits of a sum of 8-bit operands, so each product of a loop is a term of its own, which
    threads add to a sum, and which is multiplied while they wait. The pass computes it by 64 columns, of which the
    last part may have fewer: the next product is under way while a part is added. It takes the registers of the part
    that was added last (`overwriting`), so that two parts at most have registers. The pass applies if the wait follows
    the product directly; a product with other work before its wait overlaps with that.

    Before:
    ```mlir
    %pending = tgpu.wgmma %p, %v transpose_b
        : !operand, !tgpu.shared<128x96xf8E4M3FN, b32> -> tensor<64x128xf32, #tgpu.wgmma<1>>
    tgpu.wgmma_commit
    %term = tgpu.wgmma_wait pending 0, %pending : tensor<64x128xf32, #tgpu.wgmma<1>>
    %sum = arith.addf %old, %term : tensor<64x128xf32, #tgpu.wgmma<1>>
    ```

    After:
    ```mlir
    %pending0 = tgpu.wgmma %p, %v transpose_b columns 0
        : !operand, !tgpu.shared<128x96xf8E4M3FN, b32> -> tensor<64x64xf32, #tgpu.wgmma<1>>
    tgpu.wgmma_commit
    %pending1 = tgpu.wgmma %p, %v transpose_b columns 64
        : !operand, !tgpu.shared<128x96xf8E4M3FN, b32> -> tensor<64x64xf32, #tgpu.wgmma<1>>
    tgpu.wgmma_commit
    %term0 = tgpu.wgmma_wait pending 1, %pending0 : tensor<64x64xf32, #tgpu.wgmma<1>>
    %old0 = tgpu.columns 0 of %old : tensor<64x128xf32, #tgpu.wgmma<1>> -> tensor<64x64xf32, #tgpu.wgmma<1>>
    %sum0 = arith.addf %old0, %term0 : tensor<64x64xf32, #tgpu.wgmma<1>>
    %term1 = tgpu.wgmma_wait pending 0, %pending1 : tensor<64x64xf32, #tgpu.wgmma<1>>
    %old1 = tgpu.columns 64 of %old : tensor<64x128xf32, #tgpu.wgmma<1>> -> tensor<64x64xf32, #tgpu.wgmma<1>>
    %sum1 = arith.addf %old1, %term1 : tensor<64x64xf32, #tgpu.wgmma<1>>
    %sum = tgpu.join_columns %sum0, %sum1 : tensor<64x64xf32, #tgpu.wgmma<1>>, tensor<64x64xf32, #tgpu.wgmma<1>>
        -> tensor<64x128xf32, #tgpu.wgmma<1>>
    ```
  }];
}

def TgpuPlanSharedMemory : Pass<"tgpu-plan-shared-memory", "::mlir::ModuleOp"> {
  let summary = "assign an offset in shared memory to every buffer";
  let description = [{
    Sets `offset` of buffers, rings and barriers, `id` of named barriers and turns, and `shared_bytes` of the kernel.
    Every buffer has its own range of bytes as long as there is room. Otherwise, in kernels without roles, buffers whose
    lifetimes do not overlap share bytes and become `shared`, and the pass inserts a `tgpu.sync` where one is written
    while threads may still be reading the other.

    Before:
    ```mlir
    %k = tgpu.alloc : !tgpu.shared<128x64xf16, b128>
    ```
    After:
    ```mlir
    %k = tgpu.alloc at 0 : !tgpu.shared<128x64xf16, b128>
    ```

    Not its job: to choose the number of stages.

    Errors:
    - more bytes than a block of the target may have
  }];
}

def TgpuInsertFences : Pass<"tgpu-insert-fences", "::mlir::ModuleOp"> {
  let summary = "make generic writes to shared memory visible to wgmma and TMA";
  let description = [{
    wgmma and TMA access shared memory through the async proxy. If a role writes to a buffer that they read somewhere
    (`tgpu.write`, a conversion through scratch memory, or `tgpu.copy_async` once it has been waited for), the pass
    inserts a `tgpu.fence_async` before the next barrier by which other threads learn of the write, unless there is one.
    Running the pass twice changes nothing.

    Before:
    ```mlir
    tgpu.write %o, %buffer : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>
    tgpu.sync on %written
    tgpu.tma_store %buffer, %o_map[%m, 0]
        : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<128x64xbf16, b128>
    ```
    After:
    ```mlir
    tgpu.write %o, %buffer : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>
    tgpu.fence_async
    tgpu.sync on %written
    tgpu.tma_store %buffer, %o_map[%m, 0]
        : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<128x64xbf16, b128>
    ```

    Not its job: to insert barriers (tgpu-verify-sync reports missing ones).

    Errors: none.
  }];
  let dependentDialects = ["::tilewright::tgpu::TgpuDialect"];
}

def TgpuVerifySync : Pass<"tgpu-verify-sync", "::mlir::ModuleOp"> {
  let summary = "reject kernels whose synchronization is wrong";
  let description = [{
    Simulates the control flow of one thread block in several small launches: extents of a few tiles in every
    dimension that tiles run along, and two elsewhere; the first, middle and last blocks of the grid. In some launches
    extents end with a partial tile and all conditions on data are true, in others tiles are full and all conditions
    are false; integer arguments are small, or large, or the widths of a window; extents that the kernel divides by
    each other (heads of queries and of keys) or subtracts from each other (numbers of queries and of keys) are equal,
    or differ. Further launches, for which the constraints of the kernel hold, are derived until loops have had 0, 1,
    2 and more rounds, in each combination with the loop before, and branches both outcomes, as far as a search finds
    such launches. No data is computed. Each role's copies, products, barriers and accesses to shared memory are
    checked against those of the other roles, and against everything that may still be in flight: an access is allowed
    if barriers order it after what it depends on, not if it merely happens later in the simulation. A reported error
    is therefore always an error, while an error that only other shapes show is not found. The pass changes nothing.

    Before, and after:
    ```mlir
    tgpu.copy_async %k[%n, 0], %buffer : !tile.view<[?, 64], f16>, !tgpu.shared<64x64xf16, b128>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    %x = tgpu.read %buffer : ...  // error: reads a buffer that other warps may not have written yet
    ```

    Not its job: to check values or addresses, or to prove that the result does not depend on timing.

    A warning names synchronization in a block of operations with a matrix product that no launch reached, and about
    which nothing is known: it may be dead code. With `report-unreached`, a remark names other such synchronization. A
    remark also names an operation that cannot be followed (barriers that do not come from `tgpu.alloc_barriers`, calls
    of functions without a body, too many operations): the kernel is then checked only in part.

    Errors:
    - a buffer read before it is written, before the copy is waited for, or without a barrier after the write
    - a buffer written while it may still be read or written, itself or another that was given the same place
    - generic writes read by wgmma or TMA without a `tgpu.fence_async` between, by the writer or by one that knows of
      the writes
    - a wait of a product that may be in flight, or was not committed; copies that are not committed, or not waited for
      before the kernel ends
    - an operand a in registers that a loop carries, and that gets another value at the end of an iteration in which a
      product may still read it
    - barriers without arrivals, with too many or too few arrivals, of the role or of one of its warpgroups, also for
      the last uses, which have no wait; or whose copies bring a number of bytes other than expected
    - arrivals at a barrier by a role that does not know that the phase before is complete
    - counters of two roles that diverge, and rings that are filled through barriers with another number of stages
    - named barriers at which other warps meet than declared, and turns that are not passed on
    - turns of blocks that are not awaited, not ended, or ended while an addition may be under way; two at a time
    - an addition in order that no role makes
  }];
  let options = [
    Option<"reportUnreached", "report-unreached", "bool", /*default=*/"false",
           "remark on synchronization that was not reached by any simulated launch">
  ];
}

def TgpuJoinSegments : Pass<"tgpu-join-segments", "::tilewright::tgpu::KernelOp"> {
  let summary = "join the loops that tgpu-clone-segments made of one loop";
  let description = [{
    Of consecutive loops that continue each other, one that is marked `tgpu.general`, whose body is valid for all
    iterations, executes all of them, and the others are removed. The code is several times shorter, and slower, since
    full blocks get a mask again. convert-tgpu-to-nvvm runs this pass on code for views of any alignment if there is
    other code for aligned views. Loops of roles are not joined, nor where `tgpu.one_before` or `tgpu.one_after` limits
    the iterations of a loop.

    Before:
    ```mlir
    %r0 = scf.for %n = %first to %b step %c1 iter_args(%acc = %zero) -> (!acc)
        : i32 { /* else */ } {tgpu.general}
    %r1 = scf.for %n = %b to %e step %c1 iter_args(%acc = %r0) -> (!acc) : i32 { /* then */ }
    %r = scf.for %n = %e to %end step %c1 iter_args(%acc = %r1) -> (!acc)
        : i32 { /* else */ } {tgpu.general}
    ```
    After:
    ```mlir
    %r = scf.for %n = %first to %end step %c1 iter_args(%acc = %zero) -> (!acc)
        : i32 { /* else */ } {tgpu.general}
    ```
  }];
}

def ArithAddConstantsLast : Pass<"arith-add-constants-last"> {
  let summary = "add the constants of sums last, where sums may be reassociated";
  let description = [{
    In scalar sums, differences and products under `fastmath<reassoc>`, a constant term moves to the end: `(x + c) - y`
    becomes `(x - y) + c`, and `(x + c) * k` becomes `x * k + c * k`. The elements of a thread differ in constants, so
    the remaining expression is the same for many of them, and LLVM computes it once. convert-tgpu-to-nvvm runs this
    pass before it converts the arith dialect to LLVM's.

    Before:
    ```mlir
    %j = arith.addf %first, %c8 fastmath<reassoc, contract> : f32
    %ahead = arith.subf %j, %i fastmath<reassoc, contract> : f32
    %penalty = arith.mulf %slope, %ahead fastmath<reassoc, contract> : f32
    ```
    After:
    ```mlir
    %base = arith.subf %first, %i fastmath<reassoc, contract> : f32
    %scaled = arith.mulf %slope, %base fastmath<reassoc, contract> : f32
    %more = arith.mulf %c8, %slope fastmath<reassoc, contract> : f32
    %penalty = arith.addf %scaled, %more fastmath<reassoc, contract> : f32
    ```

    Not its job: to merge equal expressions, or to reassociate sums without constants.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ConvertTgpuToNvvm : Pass<"convert-tgpu-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "convert every tgpu.kernel to the code of one thread, in the LLVM and NVVM dialects";
  let description = [{
    A register tile becomes scalars, one for each register that its layout gives a thread (32-bit words for operands of
    matrix instructions); scalar functions are inlined for each element; views become pointers, extents and strides. The
    kernel's arguments are, in order: for a view its pointer, extents (i32) and strides (i64), for a scalar the scalar,
    and the captures after the declared arguments. The grid is launched along x alone: `blockIdx.x` counts the first id
    fastest. Shared memory is the dynamic array `shared_memory`, plus a small static array if warps exchange elements.

    Before:
    ```mlir
    tgpu.kernel @double target "sm_80" warps 1 (%x: !tile.view<[?], f32>)
        grid(%i = ceildiv(dim(x, 0), 32)) {
      %c32 = arith.constant 32 : i32
      %at = arith.muli %i, %c32 : i32
      %t = tgpu.load %x[%at]
          : !tile.view<[?], f32> -> tensor<32xf32, #tgpu.blocked<1, lanes 32, warps 1, 1>>
      %u = arith.addf %t, %t : tensor<32xf32, #tgpu.blocked<1, lanes 32, warps 1, 1>>
      tgpu.store %u, %x[%at]
          : tensor<32xf32, #tgpu.blocked<1, lanes 32, warps 1, 1>>, !tile.view<[?], f32>
    }
    ```
    After:
    ```mlir
    llvm.func @double(%x: !llvm.ptr<1>, %n: i32, %stride: i64)
        attributes {nvvm.kernel, nvvm.reqntid = array<i32: 32>} {
      ...
      %sum = llvm.fadd %t, %t : f32
      ...
    }
    ```

    Not its job: to choose layouts, offsets in shared memory, or the order of operations. Everything else that the
    module contains (functions, programs, captures) is removed.

    Errors:
    - an operation for which code generation for the target is not implemented yet
    - a layout that does not spread its tile over all warps of the block
    - a buffer without an offset, or beyond the kernel's shared memory
    - a change of layout that moves elements between warps without scratch memory, or with more than fits into it
    - a function that is recursive or has unstructured control flow
  }];
  let options = [
    Option<"forms", "forms", "::tilewright::tgpu::CodeForms", /*default=*/"::tilewright::tgpu::CodeForms::All",
           "which forms of the code of a kernel with aligned views", [{::llvm::cl::values(
             clEnumValN(::tilewright::tgpu::CodeForms::All, "all", "both"),
             clEnumValN(::tilewright::tgpu::CodeForms::General, "general", "the one for any views"),
             clEnumValN(::tilewright::tgpu::CodeForms::Aligned, "aligned", "the one for aligned views"))}]>,
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::math::MathDialect", "::mlir::cf::ControlFlowDialect"];
}

#endif // TILEWRIGHT_PASSES_PASSES_TD

