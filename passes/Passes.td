// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes, in the order in which the compiler runs them.

#ifndef TILEWRIGHT_PASSES_PASSES_TD
#define TILEWRIGHT_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def TileLink : Pass<"tile-link", "::mlir::ModuleOp"> {
  let summary = "replace functions and captures by those of other files";
  let description = [{
    First the files that the module names by `tile.link`: what the module mentions and does not define is
    taken from them, with what that mentions in turn. A kernel stands behind the program that launches it.

    Then each file of `with`, in their order. A function of the file replaces that of the same name in the
    module if the module says so, by the attribute `tile.replaceable` or by leaving it without a body. It must
    have the same type; where one of the types says `!tile.param<X>` and the other names a float,
    binding decides (tile-specialize). All other functions of the file are its own: they are added,
    and where the name is taken, renamed to `name_0`, `name_1` and so on. A function without a body in
    the file only declares what the file expects the module to have. Captures are added under their
    names, by which callers bind them; one that the module or another file has already must have the same
    type, and is the same capture.

    A second file that replaces a function joins it as the value of `tile.replaceable` says: `"compose"`
    hands the result of the one before to the next as its first operand, `"and"` and `"multiply"` join what
    both return. A file that declares a function without a body and with the attribute `tile.base = @f`
    decides itself: calls of it call what the file's own `@f` replaces, a definition of the module or of a
    file before. What is dropped by that is remarked (`chain-drops-base`).

    Where a constraint asks `replaced("f")`, the module notes in `tile.replaced` which of these functions files have replaced.

    Then checks what linking can break: functions are not recursive, and every function that is
    used has a body.

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

    Not its job: to choose an entry, to look at parameters, or to remove what is not used.

    Errors:
    - a file that cannot be read or parsed
    - a kernel, a program or anything else than functions and captures in the file
    - a file none of whose definitions replaces anything
    - a constraint that asks whether a function is replaced that files may not replace
    - a function that replaces nothing and that nothing which does calls
    - a replacement of another type
    - a second replacement where neither the module says how to join them nor the file what it replaces
    - what stands for a function that the file does not replace, or has another type
    - a capture of another type or kind than the module's, or than that of another file
    - a file of `tile.link` that does not exist, holds something else than functions, captures and kernels,
      or links itself, however indirectly
    - a name that two files of `tile.link` define, or a declaration of another type than the definition
    - a use of a symbol that neither the file nor the module defines
    - functions that call each other in a cycle
    - a use of a function that has no body
    - a kernel of more than 262144 operations, counting a function once for each call of it
  }];
  let options = [
    ListOption<"with", "with", "std::string", "files of replacements">,
  ];
}

def TileChooseBlocks : Pass<"tile-choose-blocks", "::mlir::ModuleOp"> {
  let summary = "give blocks the extents that the table has for such a kernel";
  let description = [{
    A parameter of the entry that is declared `BLOCK: int = block()` gets a number for its default, so that what
    binds it still wins. The number is that of the first matching row of a table, which knows a kernel by

    - its structure: what the products of the loop with the most of them read and become, in whatever order and by
      whatever names (`LoopStructure.h`). Products that parameters switch off do not count. Of the launches of a
      program each has its own; a block is that of the launch with the most products whose extent it is
    - the target, the bits of an element, and the bytes of the longest row that products read
    - whether a mask is left once parameters are bound
    - `length`, the most positions that the loop runs over

    The default `block_in(n)` asks for a divisor of n: the largest that is not above the row's number; 0 for any number.

    Which number of the row a parameter gets says the structure, too: rows (of a product of what stays and what is
    streamed, the extent of what stays), columns, or step. Rows for some lengths serve launches that may be asked for
    the length: the row's limit becomes a constraint of the kernel. `table` names a file of rows that go first, a list
    of objects in JSON with the keys structure, target ("cpu", "gpu" for all others, or a name), bits, above and bytes
    (of a row, in bytes), elements, mask ("none", "some", or of those "ascending", which reads captures that
    ascend), length, captures (1: loops that read captured views of rank 2 or more), work (loops that map so many
    operations or more for each element); rows, columns, step. A condition that is left out always holds. What was known and chosen is left in the attribute `blocks` of a kernel, or of a launch; a program has
    that of the launch with the most products.

    Before, with `params=D=128 target=sm_90a` and a forward of attention:
    ```mlir
    tile.kernel @forward params(D: int, ROWS: int = block(), KEYS: int = block()) ...
    ```
    After:
    ```mlir
    tile.kernel @forward params(D: int, ROWS: int = 128, KEYS: int = 176) ...
        attributes {blocks = {structure = "sum (R S) S", row_bytes = 256, rows = "ROWS = 128", step = "KEYS = 176",
                              by = "the table: sm_90a, up to 16 bits, rows up to 256 bytes, no mask", ...}}
    ```

    Not its job: to bind anything, or to see whether the blocks fit (tgpu-plan-shared-memory).

    Errors:
    - a block that is the extent of no operand of a product in a loop, and has no binding
    - a value for a block that is no multiple of 16 up to 256 (on the CPU: from 1 to 1024)
    - a file that cannot be read, or a row that is none
    - a row without the extent that a parameter asks for
    - no block that divides the n of block_in(n), up to the row's number
    - what tile-specialize says of values for parameters
  }];
  let options = [
    Option<"entry", "entry", "std::string", /*default=*/"\"\"",
           "kernel or program; empty: the only one that no program launches">,
    ListOption<"params", "params", "std::string", "NAME=VALUE for each parameter of the entry">,
    Option<"target", "target", "std::string", /*default=*/"\"cpu\"", "cpu, or an architecture">,
    Option<"length", "length", "int64_t", /*default=*/"0", "the most positions of the loop; 0: any number">,
    Option<"table", "table", "std::string", /*default=*/"\"\"", "file of rows that go first">,
  ];
}

def TileSpecialize : Pass<"tile-specialize", "::mlir::ModuleOp"> {
  let summary = "bind the parameters of one entry";
  let description = [{
    Gives every parameter of the entry a value (`params`, else its default; of one declared by `let`, what
    is written there), checks allowed values
    and constraints, and then replaces: dimensions and types that name parameters by numbers and
    builtin types, `!tile.tile` by ranked tensors, `tile.param` by constants, parameters in grids
    and workspace extents by their values. The values are recorded in `bindings`.

    A program binds the kernels it launches: by the `with` clause, else by its own parameter of
    that name, else by the kernel's default. A launch whose `when` is false goes, with the
    workspace that only it used; a condition over arguments stays, reduced, and so does a
    constraint over them. A kernel that is
    launched with several bindings, and a function that is reached under several values of the
    parameters it reads, is copied, the first under its own name, others under `name_0`, `name_1`
    and so on. What the entry does not reach is removed.

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
  let summary = "write out the rounds of loops that say so";
  let description = [{
    Every `scf.for` with the attribute `tile.unroll` is replaced by its rounds, one after the other, with
    the number of the round as a constant. Its bounds and step must be constants, or follow from constants
    by operations that fold, once parameters are bound and loops around it are written out.

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

def TileDropArguments : Pass<"tile-drop-arguments", "::mlir::ModuleOp"> {
  let summary = "remove arguments that do not exist under the values of the parameters";
  let description = [{
    Removes the arguments of kernels and programs whose condition is `false`, and what launches pass for them, with
    the workspaces that no launch takes any more.
    Canonicalisation has removed the branches that read them.

    Before:
    ```mlir
    tile.kernel @k (%x: !tile.view<[?], f32>, %index: !tile.view<[?], i32> when (false)) grid(%i = dim(x, 0)) {
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

    Derivatives are made in reverse mode: the function is copied, with the functions that it calls, and
    adjoints follow its operations backwards, in f32 at least. Rules exist for the float operations of
    arith, for `select` and conversions between floats, and for these of math: absf, copysign, fma, exp,
    exp2, expm1, log, log2, log10, log1p, sqrt, rsqrt, cbrt, sin, cos, tan, sinh, cosh, tanh, asin, acos,
    atan, atan2, erf, erfc, powf.
    Comparisons, conversions to integers, and rounding to whole numbers count as constant. Where a
    function has no derivative: `maximumf` and `minimumf` (`maxnumf`, `minnumf`) of equal operands give
    half to each, `absf` and `copysign` give 0 at 0, `select` follows the operand that it chooses. An
    adjoint of zero stays zero, whatever it is multiplied with, except by a division by a number that
    is zero for all elements.

    A derivative of one is the seed itself, so that a function that is not replaced costs nothing. Where
    products carry `fastmath<reassoc>`, factors that are the same for all elements become one.

    Before:
    ```mlir
    func.func private @cube(%x: f32) -> f32 {
      %x2 = arith.mulf %x, %x : f32
      %x3 = arith.mulf %x2, %x : f32
      return %x3 : f32
    }
    %ds = tile.map_gradient @cube(%s) wrt 0 seed %dt : tensor<64x64xf32> : (tensor<64x64xf32>) -> tensor<64x64xf32>
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
    %ds = tile.map @cube_gradient_0(%s, %dt) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    ```

    The gradient of a capture `@x` becomes an optional argument `d_x` of the program, which must have
    the extents of the capture. Adjoints are summed over a tile as far as the indices of the read are
    the same, and added by `tile.add_at`, in a branch that is not taken where the argument was left
    out. The program clears the gradient first; or, where sums are exact, it holds 13 words for each
    entry in a workspace, and converts them at its end.

    Not its job: to simplify what it derives (canonicalize and cse do), or to know what a function is
    for.

    Errors:
    - an operation without a rule between what is differentiated and what it is differentiated by
    - a captured float that is read within a region
    - a function whose places that read captured floats, times its operations, are more than 262144
    - gradients of captures in a kernel that no program launches, or exact in one place of a kernel
      and not in another
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

    on `i32`, with an `i1` at the end, and sets the loop's `ranges` to it. For the positions r in [against_begin,
    against_end) and c in [lower, upper): every c that the mask keeps for some r lies in
    [may_begin, may_end), and every c in [must_begin, must_end) is kept for every r. Both
    intervals lie within [lower, upper). Where `tight` is true, every c in [may_begin, may_end) is kept for some r, so
    that no block of that range need be asked whether it holds a kept pair: so for conjunctions of inequalities in
    which r has the factor 1 or -1, such as causal masks and windows, and by promise for those with elements of captures
    that ascend.

    The mask is followed through constants, `and`, `or`, `not`, comparisons of expressions linear
    in the two positions, division of a position by a uniform number, choices and calls. Whatever
    else it computes is taken as unknown: then nothing is excluded and nothing is promised, and a
    remark (category `tile-analyze-masks`, shown by `--remarks-filter`) says what stood in the
    way. The derived function computes in 64 bits and checks at run time that the mask's own
    arithmetic does not wrap; where it would, the answer is again "unknown". What is not checked is an
    operation of which the mask promises that (`overflow<nsw>`), as one should where it is so for all positions that there are: then
    `tight` is known when the kernel is compiled, and no loop is written for masks of which it is not so.

    What is known of the ends when the kernel is compiled, later passes need not test: a bound that is lower or upper
    itself, [must_begin, must_end) of a conjunction with an unknown condition, which is [lower, lower), and by attributes of the
    result must_end: `tile.ends_at_upper`, that neither range, unless it is empty, ends before upper; and `tile.row_edge = [n, ...]`,
    that the mask says c <= r + s and nothing else, for the sum s of those arguments of the function, so that
    may_end is against_end + s and must_end is against_begin + 1 + s, cut to [lower, upper).

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

    Not its job: to change which blocks the loop visits (that is the meaning of the loop), to
    clone its body, or to simplify the derived function (canonicalize and cse do).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect"];
}

def TileFoldScale : Pass<"tile-fold-scale"> {
  let summary = "gather uniform factors and move them into exponents";
  let description = [{
    A `tile.map` of a function that returns one of its tiles as it is, say of a modifier that no file replaced, is
    replaced by the tile: it would hide a factor. So is one that returns a constant, by a tile of it, with the
    products of which it is the factor one, and a call in a kernel. Where the function of a `tile.map` multiplies an operand, or its
    result, with what it computes from captures and constants alone, and the product carries `fastmath<reassoc>`, the
    tile is multiplied instead, and what becomes equal is shared. Then two rewrites on float tiles. Both change rounding, so both ask for permission: the operations
    carry `fastmath<reassoc>`, or the option `assume-fast-math` is set (as it is where the
    pipeline's `fast-math` is). A *uniform* tile is a `tile.full` or a splat constant.

    1. Factors are gathered: `(x * a) * b` becomes `x * (a * b)` for uniform a and b. The product of
       the two is a scalar, which loop-invariant code motion takes out of the loop.
    2. A factor moves into the difference that an exponential takes: `exp2((x - expand(m)) * c)`
       becomes `exp2(x * c - expand(m * c))` for uniform c, likewise for `exp`. The product with m
       has one dimension less, and the rest is one fused multiply-add for each element (marked
       `contract`). It applies only where the difference and the product have no other use.

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

    Where x and m are so large that their products with c overflow although the product of the
    difference does not, the result becomes NaN; who asks for fast math accepts that.

    Not its job: to move a factor through a product of matrices or a maximum (its sign matters
    there), or to recognise any algorithm.
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
    Where the function of a `tile.map` reads a captured view at indices of which each is a scalar, or the position of
    the element along a dimension of the tile plus a scalar, the tile, row or column that all elements read
    together is loaded where the map is, as early in the block as the indices are known, and becomes an operand of it.
    An index that a scalar condition fixes, such as 0 for an extent of 1, is one of a view that repeats
    (`tile.repeat`). Bounds mean the same: outside of the view both read zero.

    Before:
    ```mlir
    func.func private @score_mod(%s: f32, %h: i32, %i: i32, %j: i32) -> f32 {
      %bias = tile.at @bias[%h, %i, %j] : f32
      %r = arith.addf %s, %bias : f32
      return %r : f32
    }
    %rows = tile.iota %m dim 0 : tensor<64x64xi32>
    %cols = tile.iota %n dim 1 : tensor<64x64xi32>
    %t = tile.map @score_mod(%s, %h, %rows, %cols) : (tensor<64x64xf32>, i32, tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xf32>
    ```
    After:
    ```mlir
    func.func private @score_mod_of_tiles(%s: f32, %h: i32, %i: i32, %j: i32, %bias: f32) -> f32 {
      %r = arith.addf %s, %bias : f32
      return %r : f32
    }
    %view = tile.captured @bias : !tile.view<[?, ?, ?], f32>
    %bias = tile.load %view[%h, %m, %n] : !tile.view<[?, ?, ?], f32> -> tensor<64x64xf32>
    %t = tile.map @score_mod_of_tiles(%s, %h, %rows, %cols, %bias) : (tensor<64x64xf32>, i32, tensor<64x64xi32>, tensor<64x64xi32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    ```

    Not its job: indices that depend on data or are no such sum (products, clamped differences), both dimensions of a
    tile in one index or one dimension in two (a diagonal), what stands in a region, and tiles of
    rank 3 and more. These stay reads of elements. What is the same for all elements is for tile-hoist-uniforms.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tilewright::tile::TileDialect"];
}

def TileCopyCaptures : Pass<"tile-copy-captures", "::mlir::ModuleOp"> {
  let summary = "let loads of captured views in loops be copied by tensor maps";
  let description = [{
    A tile of rank 2 that a loop loads from a captured view is marked for `tile-to-tgpu`, which copies it to shared
    memory. Its rows or its columns lie along the last dimension of the view; in the latter case it is copied as the view
    has it, and read transposed. Elements have 16 bits or more. Dimensions of the view that
    repeat where they have one index (`tile.repeat`) are taken not to, and that they do not becomes a constraint of the
    kernel: a tensor map shows an array as it is. So a bundle has a kernel without this pass, too.

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

    Not its job: tiles that run along another than the last dimension, and repetitions whose condition is no
    comparison of an extent of a capture with a constant. These are loaded by each thread.
  }];
  let dependentDialects = ["::tilewright::tile::TileDialect"];
}

def TileHoistUniforms : Pass<"tile-hoist-uniforms", "::mlir::ModuleOp"> {
  let summary = "read once what mapped functions read for all elements alike";
  let description = [{
    Where the function of a `tile.map` reads a captured view at indices that depend on scalars alone, the
    read, and what is computed from it and other scalars, moves to where the map is, and becomes an operand of
    it. Loop-invariant code motion then takes it out of the loop. A read of a mapped function is one of each
    element, and no later pass may merge them, since they are predicated by the bounds of the view.

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
    %t = tile.map @score_mod_varying(%s, %h, %slope) : (tensor<64x64xf32>, i32, f32) -> tensor<64x64xf32>
    ```

    Not its job: what reads no memory, which LLVM moves; what stands in a region, or in a function that is
    called.
  }];
  let dependentDialects = ["::tilewright::tile::TileDialect"];
}

def TileScaleAfterLoop : Pass<"tile-scale-after-loop", "::mlir::ModuleOp"> {
  let summary = "scale a sum behind its loop instead of its terms";
  let description = [{
    A sum that a loop carries, of which each term is a tile times one number that no round changes, is computed of the
    tiles, and multiplied by the number once, behind the loop. A term is a `tile.dot` with the sum as its accumulator
    and a scaled operand, which may be cast to another type in between, or what an `arith.addf` adds. The sum begins with zero, and
    rounds may multiply it by numbers for its rows. Loops within the loop may go on with it. Products that
    are not to be rounded where they are written say so by `fastmath<reassoc>`.

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
    %unscaled = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zero) -> (tensor<16x8xf32>) : i32 {
      %rounded = tile.cast %p : tensor<16x16xf32> -> tensor<16x16xbf16>
      %new = tile.dot %rounded, %v, %old : tensor<16x16xbf16>, tensor<16x8xbf16> -> tensor<16x8xf32>
      scf.yield %new : tensor<16x8xf32>
    }
    %sum = arith.mulf %unscaled, %factors fastmath<reassoc> : tensor<16x8xf32>
    ```

    Not its job: sums of which some terms have another factor or none, that begin with something, or that a round
    uses for anything else.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::tilewright::tile::TileDialect"];
}

def TileScaleAfterMax : Pass<"tile-scale-after-max", "::mlir::ModuleOp"> {
  let summary = "scale the maximum of a row instead of the row";
  let description = [{
    The maximum of products with one factor becomes the product of the maximum and the factor, where the factor is
    positive and finite: rounding keeps the order, so the result has the same bits. The factor is a scalar of run time;
    otherwise the maximum is computed as written. A product masked with minus infinity counts as well. `with-masked`
    computes this, too, in the branch: where the factor is known to be positive it may be applied behind the mask, and be
    fused with what follows.

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
  let options = [Option<"withMasked", "with-masked", "bool", "false", "compute the masked product in the branch as well">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect", "::tilewright::tile::TileDialect"];
}

def TileToTgpu : Pass<"tile-to-tgpu", "::mlir::ModuleOp"> {
  let summary = "map kernels onto a block of threads: layouts, shared memory, matrix instructions";
  let description = [{
    Every `tile.kernel` becomes a `tgpu.kernel` of the same name. Tiles that meet in elementwise
    operations, or that a loop carries, share a layout: that of the accumulator where a dot's result is
    among them, else a blocked one; reductions and expansions carry layouts on as slices. Where
    layouts meet, the tile is converted.

    A dot of f16 or bf16 (or of f32 with precision tf32) becomes `tgpu.mma`, on sm_90a `tgpu.wgmma` where each warpgroup gets
    64 rows, of f32 or f64 `tgpu.fma_dot`. A tile that is
    loaded for a dot is copied to shared memory; a tile computed in registers stays there where it can be
    operand a, else it is written to shared memory. An inner extent that no instruction
    multiplies is rounded up where both loads end with their views, beyond which copies are zero.

    A block loop becomes a loop over the numbers of the blocks that the derived ranges allow, with two
    copies of the body: without a mask for full blocks, and with the mask computed, run only where
    some pair is kept.

    Copies are synchronous: waited for before the first use.

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
    %x = tgpu.read %x_buffer : !tgpu.shared<64x64xf16, b128> -> tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
    %y = tgpu.read %y_buffer : !tgpu.shared<64x64xf16, b128> -> tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
    %s = tgpu.mma %x, %y, %sum : ... -> tensor<64x64xf32, #tgpu.mma<4, 1>>
    ```

    Not its job: to overlap copies with products, or to place buffers (tgpu-plan-shared-memory).

    Errors:
    - an unknown target, or a number of warps that is no power of two up to 32
    - a kernel whose parameters are not bound
    - tiles of a rank other than 1 and 2; `tile.reshape`, `tile.gather`, `tile.scatter_add`; tiles carried by
      `scf.while`; constants that are no splat
    - elements, or shapes, of a dot that no instruction multiplies
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_80\"", "architecture">,
    Option<"warps", "warps", "int64_t", /*default=*/"0", "warps of a block; 0: chosen by the largest product">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::scf::SCFDialect", "::tilewright::tgpu::TgpuDialect"];
}

def TileInlineCalls : Pass<"tile-inline-calls", "::mlir::ModuleOp"> {
  let summary = "replace calls by what they call";
  let description = [{
    Every `func.call` in a kernel, and in a function that an operation applies (`tile.map`, a mask), is
    replaced by the operations of the function, and those by what they call in turn. Private functions
    that only calls named are removed. The work is proportional to the operations that result.

    With `of-tiles-only`, only calls that pass or return a tile or a view are. The pipeline does so
    behind tile-link, so that every other pass sees what such a function does to tiles as if it stood
    in the kernel.

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

def TgpuSumByThread : Pass<"tgpu-sum-by-thread", "::mlir::ModuleOp"> {
  let summary = "reduce the sums that a loop carries over threads once, behind the loop";
  let description = [{
    A loop that carries a row of sums, and in each round multiplies it by a row and adds the reduction of a tile, or does only the
    latter, carries what each thread has summed instead, if these operations carry `fastmath<reassoc>`: the sums are then
    reduced over threads behind the loop, not in each round. Branches of the round on either side of which the sums
    follow this rule, or stay what they are, are no obstacle. The sums begin with zero, and nothing else in the loop reads them.

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

    Not its job: maxima, which a round needs of whole rows.
  }];
  let dependentDialects = ["::tilewright::tile::TileDialect", "::tilewright::tgpu::TgpuDialect"];
}

def TgpuSkipOnes : Pass<"tgpu-skip-ones", "::mlir::ModuleOp"> {
  let summary = "let a warp skip the product of a carried sum with a row of ones";
  let description = [{
    A sum that a loop carries is often scaled by exp2(old - new), where `new` is `old` unless a condition holds, as a
    running maximum that is raised only where a row's scores exceed it by much: then the factor is exactly one in most
    rounds. Such a product of a tile and the expanded row gets the attribute `tgpu.skip_ones`: a warp whose rows all have
    the factor one skips it, by one vote. The result is the same.

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

    Not its job: to decide how far a maximum may lag behind, which is what the kernel says.
  }];
}

def TgpuPlanSchedule : Pass<"tgpu-plan-schedule", "::mlir::ModuleOp"> {
  let summary = "decide how loops are pipelined and what stays in registers";
  let description = [{
    Writes `tgpu.schedule` on every loop that copies to shared memory, unless an author has, and
    `tgpu.keep_in_registers` on reads of buffers that do not change in a loop, as far as registers go. The passes
    that follow obey. A loop can be pipelined if the places of its copies depend on the number of the round alone
    and their buffers belong to the loop. `schedule` overrides what would be decided: skeleton, stages, in_flight,
    keep_in_registers.

    For sm_90a, a kernel whose loops copy operands of wgmma gets `tgpu.role_schedule`, if a role of its own can make all
    its copies: then its loops are of skeleton producer_consumer. Keys of `schedule` for it: group, store_buffers, load_registers,
    compute_registers.

    Rings of two slots each may not fit. Then those that only products read whose results the round itself uses get one, by
    `tgpu.ring_stages` on their copies, if others keep two. Where there are two and room for more, and no round writes to shared
    memory for its own products, rings that products of this and of the next round read get three.

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
  }];
  let options = [ListOption<"schedule", "schedule", "std::string", "KEY=VALUE, overrides a decision">];
}

def TgpuHoistReads : Pass<"tgpu-hoist-reads", "::mlir::ModuleOp"> {
  let summary = "read what stays in registers before the loops in which it does not change";
  let description = [{
    Moves each `tgpu.read` marked `tgpu.keep_in_registers`; reads of one buffer in copies of a body become one.

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
  let summary = "fill rings ahead of the rounds that use them";
  let description = [{
    Obeys `tgpu.schedule` of skeleton multistage: the buffers that the loop copies to become rings, the copies of the
    first rounds are started before the loop, and each round starts those of the round `stages` - 1 later. One barrier a round is left.

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
    // the copy of round 0, then
    scf.for %n = %first to %end step %c1 iter_args(%use = %c0) -> (i32) : i32 {
      %k_slot = tgpu.slot %k_ring[%use] : !tgpu.ring<2, <64x64xf16, b128>>
      tgpu.copy_wait pending 0
      tgpu.sync
      // if there is a round %n + 1: its copy to the slot of %use + 1
      tgpu.copy_commit
      %k = tgpu.read %k_slot : ...
    }
    ```

    Errors:
    - a loop that cannot be pipelined: a place that depends on what the loop carries, a buffer used elsewhere
  }];
}

def TgpuAssignRoles : Pass<"tgpu-assign-roles", "::mlir::ModuleOp"> {
  let summary = "split a kernel into roles that copy, compute and add to memory";
  let description = [{
    Obeys `tgpu.role_schedule`, and `tgpu.schedule` of the loops inside. All copies become TMA loads of the role "load",
    of a warp; everything else is the role "compute", of as many warps as the kernel had. Registers are dealt
    to whole warpgroups, so the other warps of the first are idle. Loops, branches
    and scalars that the places of copies depend on are in both. A vote of the block becomes one of the role. Copies that
    the same operation reads first, and rows that are read after them, share
    two barriers for each stage: one completes when their bytes are there, the other when all warps have used them. They are
    started together, as far as their places are known. `tgpu.ring_stages` of a copy says how many slots its ring has, if not as
    many as the loop has stages; the planner does not count what an author writes there. How often a ring has been used runs on
    through all loops. With a `group`, the block takes tile after tile of what was the grid.

    With `reduce_stages`, accumulators of wgmma that loops add to memory (`tgpu.atomic_add`) leave through a ring of
    shared memory, and a warp, the role "reduce", adds them by TMA. It does not branch where both branches add to the
    same place, nor where the condition is a vote that ranges usually make unnecessary: there `compute` sends zeros. Where
    they add in order, that warp waits for its turn (`tgpu.await_turn`) and ends it when memory has the sum, and tiles are taken
    by `tgpu.take_tile .. all`.

    Of tiles that are taken from a counter (`dynamic`), the role "load" tells the others what it has computed of a tile's
    number, through a ring. Where that reads memory, as the search for a packed sequence does, another warp of its warpgroup,
    the role "schedule", takes and tells tiles, and all others receive them.

    Where results find no buffers of their own, the role that copies ends a tile with a use of each ring whose copies have
    `tgpu.lend_slot`: it acquires the slot and arrives, without a copy. Compute waits for it before the first result leaves,
    and gives it back behind the last; tgpu-stage-stores lets results out through it.

    With `scratch_stages` = 2, buffers that each round writes for the products of that round are used in turn, and the
    barrier at the head of a round goes.

    Before:
    ```mlir
    tgpu.kernel @product target "sm_90a" warps 8 (...) grid(%n = ..., %m = ...)
        attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
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

    Not its job: to decide what becomes a role, or to overlap products (tgpu-schedule-dots).

    Errors:
    - a copy that no tensor map describes: a view that is no argument, or optional, or a buffer that no boxes make up
    - a copy whose place, or whether it is made, depends on a tile
    - a buffer that others write as well, or that is used where the copy may not have been made
    - a target other than sm_90a; warps that are no multiple of 4, or more than 28
    - a group, and a grid that the block cannot compute
    - additions in order without `dynamic` or without `reduce_stages`
    - a `tgpu.ring_stages` that is no i64 from 1 to 32, or that differs among copies which share barriers
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::tilewright::tile::TileDialect"];
}

def TgpuStageStores : Pass<"tgpu-stage-stores", "::mlir::ModuleOp"> {
  let summary = "store accumulators through shared memory, by TMA";
  let description = [{
    Obeys `store_buffers` of `tgpu.role_schedule`. In roles, a store of a tile in a wgmma layout to a whole argument goes out in pieces
    of as many columns as a swizzle holds, through that many buffers in turn. Each piece waits until the copy that used its buffer
    has read it, is written, and its copy started. What is computed element by element for the store alone is computed piece by
    piece too, in fewer registers.

    With no store buffers a tile leaves through a buffer that is there: in a block that takes tile after tile, through the
    slots of a ring that each round writes for its own products (which the next tile writes again when the copies have
    read them), else through that of an operand which has been read.

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
    tgpu.tma_store %buffer, %c_map[%m, %n] : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<128x64xbf16, b128>
    tgpu.bulk_commit
    ```

    Not its job: stores of other layouts, which stay.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TgpuUnswitchLoops : Pass<"tgpu-unswitch-loops", "::mlir::ModuleOp"> {
  let summary = "take branches that do not depend on the round out of the loops of roles";
  let description = [{
    A `producer_consumer` loop of a role whose body branches on values that do not change while it runs becomes two: one for the
    case that all those branches are taken, and one for all others, which is marked `tgpu.rare`: passes that pipeline
    or split loops leave it alone. The second has no special cases (`tgpu.special_case`) either: what stands beside them serves
    all rounds.

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

    Not its job: branches on ranges of rounds (tgpu-clone-segments).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TgpuSkipIdleRounds : Pass<"tgpu-skip-idle-rounds", "::mlir::ModuleOp"> {
  let summary = "let each warpgroup leave out the first rounds of a loop that are not for its rows";
  let description = [{
    The lower bound of a loop may be `tgpu.first_round`. In a `producer_consumer` loop of a role whose warpgroups meet each
    other only at the barriers of rings, the rounds before a warpgroup's own become a loop that waits for each slot and
    gives it back. Any other loop begins with the first round of all.

    Before:
    ```mlir
    %first = tgpu.first_round %c0 of %r0, %r1
    %r:2 = scf.for %i = %first to %end step %c1 iter_args(%o = %zero, %use = %u0) -> (!o, i32) : i32 {
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
    %r:2 = scf.for %i = %first to %end step %c1 iter_args(%o = %zero, %use = %u1) -> (!o, i32) : i32 { ... }
    ```
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::tilewright::tgpu::TgpuDialect"];
}

def TgpuPlanStages : Pass<"tgpu-plan-stages", "::mlir::ModuleOp"> {
  let summary = "give every operation of a loop a stage of the pipeline and a place in its order";
  let description = [{
    Writes `tgpu.place = [stage, order]` on the operations of `producer_consumer` loops with `in_flight` > 0 and two products or
    more, unless an author has; tgpu-expand-stages obeys. Products that other products of the round read,
    through whatever lies between, and what is computed of them are stage 0; products that nothing else of the round reads are
    stage 1, which runs a round later, so that the matrix unit multiplies while stage 0 computes. Waits for slots
    come just before the products that read them, releases just behind the waits for these. With `turns`, the warpgroups
    of the role take turns in issuing the products of a round.

    Before: `S = Q K`, `P = exp(S)`, `O = O + P V`, in a loop over blocks of K and V. After, by order:
    ```mlir
    tgpu.wait %k_full[%use_k]                  {tgpu.place = array<i64: 0, 0>}
    %s = tgpu.wgmma %q, %k_slot transpose_b    {tgpu.place = array<i64: 0, 2>}
    tgpu.wait %v_full[%use_v]                  {tgpu.place = array<i64: 1, 4>}
    %o = tgpu.wgmma %p, %v_slot, %acc          {tgpu.place = array<i64: 1, 6>}
    tgpu.wgmma_wait pending 0, %s              {tgpu.place = array<i64: 0, 8>}
    ...
    ```

    A loop whose rounds write to shared memory for other threads, or whose first products need what the others yield,
    is not overlapped. Its operations are one stage, in an order in which products are issued early and waited for late,
    and products that are summed up in one accumulator (`O = Q state + P V`) are waited for together;
    with `in_flight` = 2, the first product that needs but what roles copy is issued in the round before (stage 0 is that
    product alone). A short row that is used with the first product is read when that is issued. `in_flight` = 2 asks
    for this order of any loop: it takes fewer registers than two stages. OrderRound.h has the order.

    With `in_flight` = 0 and `turns`, operations stay where they are, and a warpgroup has its turn from the end of the products
    that others of the round read until it issues the first of those: one computes while the others multiply.

    A loop stays as it is if its body branches; so does a loop in several parts of which none is right for every round.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def TgpuExpandStages : Pass<"tgpu-expand-stages", "::mlir::ModuleOp"> {
  let summary = "pipeline loops as the places of their operations say";
  let description = [{
    Obeys `tgpu.place`. Stage 1 of a round runs in the next round of the pipeline. The loops that tgpu-clone-segments made of
    one are one pipeline: the prologue (stage 0 of the first round) runs before them all, the epilogue (stage 1 of the last)
    behind them all, and values that go from stage 0 to stage 1 are carried from one to the next. The prologue takes the body of a
    part marked `tgpu.general`. A first part of one round at most (`tgpu.one_before`) is the prologue alone; where parts have stage 0
    in common, so that they begin and end a round later, a last part of one round at most (`tgpu.one_after`) is the epilogue alone.

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
      %n:2 = scf.for %i = %second to %end step %c1 iter_args(%acc = %zero, %p = %p0) -> (!acc, !p) : i32 {
        %p_new = ...
        %sum = tgpu.wgmma %p, %v, %acc : ...
        ...
      }
      %last = tgpu.wgmma %n#1, %v, %n#0 : ...
      ...
    } else { /* %zero */ }
    ```

    Errors:
    - an operation of the loop without a place, or of a stage other than 0 and 1
    - an operation that does not follow what it reads
    - an operation of stage 0 that reads a result of stage 1 of its own round
    - a product that is waited for in another stage
    - parts whose second stages differ
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TgpuScheduleDots : Pass<"tgpu-schedule-dots", "::mlir::ModuleOp"> {
  let summary = "leave products unfinished while the next are issued";
  let description = [{
    Obeys `in_flight` of a `producer_consumer` loop, at most 1 so far. Where all products of a loop are added to what the
    loop carries, the accumulators go around the loop pending; the products of a round are one group, which is waited
    for in the next round, and only then the slots that they read are released. Other loops stay as they are.

    Before:
    ```mlir
    %sum = scf.for ... iter_args(%acc = %zeros) {
      %pending = tgpu.wgmma %x, %y, %acc : ...
      tgpu.wgmma_commit
      %new = tgpu.wgmma_wait pending 0, %pending : ...
      tgpu.arrive %empty[%use] per warp : !tgpu.barriers<4>
      scf.yield %new
    }
    ```
    After, if there is a round at all:
    ```mlir
    %first = tgpu.wgmma %x, %y : ...
    tgpu.wgmma_commit
    %last = scf.for ... iter_args(%acc = %first, %before = %use) {
      %pending = tgpu.wgmma %x, %y, %acc : ...
      tgpu.wgmma_commit
      tgpu.wgmma_wait pending 1
      tgpu.arrive %empty[%before] per warp : !tgpu.barriers<4>
      scf.yield %pending, %use
    }
    %sum = tgpu.wgmma_wait pending 0, %last : ...
    tgpu.arrive %empty[...] per warp : !tgpu.barriers<4>
    ```

    Errors:
    - more than one product in flight
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect"];
}

def TgpuReleaseEarly : Pass<"tgpu-release-early", "::mlir::ModuleOp"> {
  let summary = "give slots back right behind their last readers";
  let description = [{
    What is copied once for each tile (Q of attention) is given back behind the loops that read it. tgpu-expand-stages leaves
    a product of the last round behind a loop, which reads other slots; the arrival moves up before it, and into the
    branches of conditions, so that the next tile's copy begins while that product runs.

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
  let summary = "compute once what counters of rings tell alike";
  let description = [{
    Counters that loops of a role carry, and of which it is proved that they always differ by the same number: of equal ones
    the first takes the others' places. Where one is less than another by one, and counts on by one, its next value is
    the other's value of this round, so that slots and phases of the next round are known. Of results of a branch that
    are equal on both sides the first takes the others' places, too.

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
    ptxas reads operands of products ahead of them, as far as it believes registers to be free, and believes too much:
    where tiles take many registers besides, it puts addresses and counters into local memory. A product that is not
    alone in its body becomes `stepwise`, which leaves ptxas little to move, where tiles take more than 112
    registers of a thread at it, or more than 136 at some such product of the kernel. Elsewhere ptxas's own order is
    the better one.

    Before: `%s = tgpu.mma %a, %b, %acc : ...`

    After: `%s = tgpu.mma %a, %b, %acc stepwise : ...`
  }];
}

def TgpuCloneSegments : Pass<"tgpu-clone-segments", "::mlir::ModuleOp"> {
  let summary = "a loop of its own for each part of a loop that branches on its rounds";
  let description = [{
    A loop of step 1 whose body has a branch on `begin <= round < end`, both known before it, becomes three loops: before,
    inside, and after. Full blocks so lose the mask and the branch. Rings and accumulators run on from one to the next.

    What the branch says of rounds outside of its range, `tgpu.one_before` and `tgpu.one_after` (at most one), the loops made of
    these say.

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

def TgpuBoundMaxima : Pass<"tgpu-bound-maxima", "::mlir::ModuleOp"> {
  let summary = "compute a row's maximum only where it exceeds what is carried by enough";
  let description = [{
    A running maximum may lag: it is raised only by more than a constant. The maximum of a tile's row then matters only
    where it is above `old + c`, and `tgpu.raise_max` computes it only there: a warp first asks, in half the instructions
    and without an exchange between threads, whether any of its rows is. Of tiles of f32 in wgmma layouts, whose rows lie
    in one warp each; the maximum may be multiplied with the same number for all rows. The result is the same.

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
    %new = tgpu.raise_max %old by %eight to %s times %scale : tensor<128x64xf32, #tgpu.wgmma<2>> -> !row
    ```
  }];
  let dependentDialects = ["::tilewright::tgpu::TgpuDialect"];
}

def TgpuPlanSharedMemory : Pass<"tgpu-plan-shared-memory", "::mlir::ModuleOp"> {
  let summary = "give every buffer its place in shared memory";
  let description = [{
    Sets `offset` of buffers, rings and barriers, `id` of named barriers and turns, and `shared_bytes` of the kernel. Every buffer
    has a place of its own as long as there is room. Where there is not, buffers that do not live at the same time share bytes (in
    kernels without roles), and a `tgpu.sync` is put wherever one is written while threads may still be reading the other.

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
  let summary = "let wgmma and TMA see what threads write to shared memory";
  let description = [{
    wgmma and TMA read shared memory past the ordinary path. Where a role writes (`tgpu.write`, `tgpu.copy_async` once it
    has been waited for) to a buffer that they read somewhere, a `tgpu.fence_async` is placed before the next barrier
    that tells others, unless there is one. Running the pass twice changes nothing.

    Before:
    ```mlir
    tgpu.write %o, %buffer : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>
    tgpu.sync on %written
    tgpu.tma_store %buffer, %o_map[%m, 0] : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<128x64xbf16, b128>
    ```
    After:
    ```mlir
    tgpu.write %o, %buffer : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>
    tgpu.fence_async
    tgpu.sync on %written
    tgpu.tma_store %buffer, %o_map[%m, 0] : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<128x64xbf16, b128>
    ```

    Not its job: to insert barriers (tgpu-verify-sync finds those that are missing).

    Errors: none.
  }];
  let dependentDialects = ["::tilewright::tgpu::TgpuDialect"];
}

def TgpuVerifySync : Pass<"tgpu-verify-sync", "::mlir::ModuleOp"> {
  let summary = "refuse kernels whose synchronisation is wrong";
  let description = [{
    Plays the control flow of one thread block of small launches: extents of a few tiles in every dimension that tiles
    run along, two elsewhere; the first, middle and last blocks of the grid. In some launches extents end with a partial tile and all
    conditions on data are true, in others tiles are full and all are false; integers among the arguments are small, or large, or the widths of a
    window; extents that the kernel divides by each other (heads of queries and of keys) or subtracts from each other (numbers of queries and of
    keys) are equal, or differ. No data is computed. Each role's copies, products, barriers and accesses to shared memory are checked against
    what the others do, and against everything that may still be in flight: an access is allowed if barriers order it behind
    what it depends on, not if it happened to come later. So what is reported is wrong for certain,
    while what other shapes would show is not found. Changes nothing.

    Before, and after:
    ```mlir
    tgpu.copy_async %k[%n, 0], %buffer : !tile.view<[?, 64], f16>, !tgpu.shared<64x64xf16, b128>
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    %x = tgpu.read %buffer : ...  // error: reads a buffer that other warps may not have written yet
    ```

    Not its job: to check values, addresses, or that the result does not depend on timing. With `report-unreached` a remark
    names synchronisation that none of the launches reached, and that therefore nothing is known of: it may be dead code.

    Errors:
    - a buffer read before it is written, before the copy is waited for, or without a barrier after the write
    - a buffer written while it may still be read or written, itself or another that was given the same place
    - generic writes read by wgmma or TMA without a `tgpu.fence_async`
    - a wait of a product that may be in flight, or was not committed; copies that are not committed, or not waited for
      before the kernel ends
    - an operand a in registers that a loop carries, and gives another value at the end of a round in which a product may still read it
    - barriers without arrivals, where too many or too few arrive, or whose copies bring other bytes than expected
    - counters of roles that part, and rings filled through barriers of another number of stages
    - named barriers at which other warps meet than declared, and turns that are not passed on
    - turns of blocks that are not awaited, not ended, or ended while an addition may be under way; two at a time
    - an addition in order that no role makes
  }];
  let options = [
    Option<"reportUnreached", "report-unreached", "bool", /*default=*/"false",
           "remark on synchronisation that no launch played reaches">
  ];
}

def ArithAddConstantsLast : Pass<"arith-add-constants-last"> {
  let summary = "add the constants of sums last, where sums may be reassociated";
  let description = [{
    In scalar sums, differences and products under `fastmath<reassoc>` a constant term moves to the end:
    `(x + c) - y` becomes `(x - y) + c`, and `(x + c) * k` becomes `x * k + c * k`. The elements of a thread differ in
    constants, so what is left is the same for many of them, and LLVM computes it once. A part of convert-tgpu-to-nvvm,
    before the arith dialect becomes LLVM's.

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

    Not its job: to merge what is equal, or to reassociate sums without constants.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ConvertTgpuToNvvm : Pass<"convert-tgpu-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "one thread's code for every tgpu.kernel, in the LLVM and NVVM dialects";
  let description = [{
    A register tile becomes scalars, one for each register that its layout gives a thread (operands of matrix instructions: 32-bit
    words); scalar functions are inlined for each element; views become pointers, extents and
    strides. The kernel's arguments are, in order: for a view its pointer, extents (i32) and strides
    (i64), for a scalar itself, and the captures after the declared arguments. The grid
    is launched along x alone: `blockIdx.x` counts the first id fastest. Shared memory is the
    dynamic array `shared_memory`, plus a small static one where warps reduce together.

    Before:
    ```mlir
    tgpu.kernel @double target "sm_80" warps 1 (%x: !tile.view<[?], f32>) grid(%i = ceildiv(dim(x, 0), 32)) {
      %c32 = arith.constant 32 : i32
      %at = arith.muli %i, %c32 : i32
      %t = tgpu.load %x[%at] : !tile.view<[?], f32> -> tensor<32xf32, #tgpu.blocked<1, lanes 32, warps 1, 1>>
      %u = arith.addf %t, %t : tensor<32xf32, #tgpu.blocked<1, lanes 32, warps 1, 1>>
      tgpu.store %u, %x[%at] : tensor<32xf32, #tgpu.blocked<1, lanes 32, warps 1, 1>>, !tile.view<[?], f32>
    }
    ```
    After:
    ```mlir
    llvm.func @double(%x: !llvm.ptr<1>, %n: i32, %stride: i64) attributes {nvvm.kernel, nvvm.reqntid = array<i32: 32>} {
      ...
      %sum = llvm.fadd %t, %t : f32
      ...
    }
    ```

    Not its job: to choose layouts, offsets in shared memory or the order of anything. What else the
    module held (functions, programs, captures) is removed.

    Errors:
    - an operation that the target has no code for yet
    - a layout that does not spread its tile over all warps of the block
    - a buffer without an offset, or beyond the kernel's shared memory
    - a change of layout that moves elements between warps without scratch memory
    - a function that is recursive or has unstructured control flow
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::arith::ArithDialect",
                           "::mlir::scf::SCFDialect", "::mlir::math::MathDialect", "::mlir::cf::ControlFlowDialect"];
}

#endif // TILEWRIGHT_PASSES_PASSES_TD

