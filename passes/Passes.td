// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes, in the order in which the compiler runs them.

#ifndef TILEWRIGHT_PASSES_PASSES_TD
#define TILEWRIGHT_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def TileLink : Pass<"tile-link", "::mlir::ModuleOp"> {
  let summary = "replace functions and captures by those of other files";
  let description = [{
    Reads each file of `with`. A function or capture of the file replaces that of the same name in
    the module, which must have the same type; where one of the types says `!tile.param<X>` and
    the other names a float, binding decides (tile-specialize). Functions and captures of other
    names are added. A function without a body in the file only declares what the file expects the
    module to have.

    Then checks what linking can break: functions are not recursive, and every function that is
    used has a body.

    Before, with a file that defines `@score_mod` anew and adds `tile.capture @cap`:
    ```mlir
    func.func @score_mod(%s: f32, %i: i32, %j: i32) -> f32 {
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
    - a replacement of another type or kind, or of a name that another file has defined
    - functions that call each other in a cycle
    - a use of a function that has no body
  }];
  let options = [
    ListOption<"with", "with", "std::string", "files of replacements">,
  ];
}

def TileSpecialize : Pass<"tile-specialize", "::mlir::ModuleOp"> {
  let summary = "bind the parameters of one entry";
  let description = [{
    Gives every parameter of the entry a value (`params`, else its default), checks allowed values
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
    choose values by target.

    Errors:
    - an unknown entry, or several candidates and no choice
    - a value for an unknown parameter, of another kind, outside the allowed values, or given twice
    - parameters without a value
    - a constraint that does not hold
    - division by zero or overflow in an expression over parameters
    - a dimension below 1, or a tile of more than 2^31 - 1 elements
    - a `tile.param` value that does not fit its type
    - a function that reads a parameter which the kernel that reaches it does not declare
    - operations that are ill-typed under the chosen values
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

def TileAnalyzeMasks : Pass<"tile-analyze-masks", "::mlir::ModuleOp"> {
  let summary = "derive from a mask function which blocks it empties and which it keeps whole";
  let description = [{
    For each `tile.for_blocks` with a mask function, derives a function

        @mask_ranges(against_begin, against_end, lower, upper, other operands...)
            -> (may_begin, may_end, must_begin, must_end)

    on `i32` and sets the loop's `ranges` to it. For the positions r in [against_begin,
    against_end) and c in [lower, upper): every c that the mask keeps for some r lies in
    [may_begin, may_end), and every c in [must_begin, must_end) is kept for every r. Both
    intervals lie within [lower, upper).

    The mask is followed through constants, `and`, `or`, `not`, comparisons of expressions linear
    in the two positions, division of a position by a uniform number, choices and calls. Whatever
    else it computes is taken as unknown: then nothing is excluded and nothing is promised, and a
    remark (category `tile-analyze-masks`, shown by `--remarks-filter`) says what stood in the
    way. The derived function computes in 64 bits and checks at run time that the mask's own
    arithmetic does not wrap; where it would, the answer is again "unknown".

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
                                     %upper: i32, %shift: i32) -> (i32, i32, i32, i32) { ... }
    tile.for_blocks %n in (%c0 to %keys) against (%m to %rows)
        where @causal(against, block, %shift : i32) ranges @causal_ranges keep ...
    ```

    Not its job: to change which blocks the loop visits (that is the meaning of the loop), to
    clone its body, or to simplify the derived function (canonicalize and cse do).
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect"];
}

def TileFoldScale : Pass<"tile-fold-scale"> {
  let summary = "fast math: gather uniform factors and move them into exponents";
  let description = [{
    Two rewrites on float tiles. Both change rounding, so both ask for permission: the operations
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

def TileToTgpu : Pass<"tile-to-tgpu", "::mlir::ModuleOp"> {
  let summary = "map kernels onto a block of threads: layouts, shared memory, matrix instructions";
  let description = [{
    Every `tile.kernel` becomes a `tgpu.kernel` of the same name. Tiles that meet in elementwise
    operations, or that a loop carries, share a layout: that of the accumulator where a dot's result is
    among them, else a blocked one; reductions and expansions carry layouts on as slices. Where
    layouts meet, the tile is converted.

    A dot of f16 or bf16 (or of f32 with precision tf32) becomes `tgpu.mma`, of f32 or f64 `tgpu.fma_dot`. A tile that is
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
    - a target other than sm_80, or a number of warps that is no power of two up to 32
    - a kernel whose parameters are not bound
    - tiles of a rank other than 1 and 2; `tile.reshape`, `tile.gather`, `tile.scatter_add`; tiles carried by
      `scf.while`; constants that are no splat
    - elements, or shapes, of a dot that no instruction multiplies
  }];
  let options = [
    Option<"target", "target", "std::string", /*default=*/"\"sm_80\"", "architecture">,
    Option<"warps", "warps", "int64_t", /*default=*/"4", "warps of a block">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::scf::SCFDialect", "::tilewright::tgpu::TgpuDialect"];
}

def TgpuPlanSharedMemory : Pass<"tgpu-plan-shared-memory", "::mlir::ModuleOp"> {
  let summary = "give every buffer its place in shared memory";
  let description = [{
    Sets `offset` of buffers, rings and barriers, and `shared_bytes` of the kernel. So far every buffer has
    a place of its own.

    Before:
    ```mlir
    %k = tgpu.alloc : !tgpu.shared<128x64xf16, b128>
    ```
    After:
    ```mlir
    %k = tgpu.alloc at 0 : !tgpu.shared<128x64xf16, b128>
    ```

    Not its job: to insert barriers, or to choose the number of stages.

    Errors:
    - more bytes than a block of the target may have
  }];
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

