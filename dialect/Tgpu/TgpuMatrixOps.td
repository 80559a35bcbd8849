// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix instructions and changes of layout.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUMATRIXOPS_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUMATRIXOPS_TD

include "dialect/Tgpu/TgpuOpBase.td"

def Tgpu_ConvertOp : Tgpu_Op<"convert", [AlwaysSpeculatable]> {
  let summary = "a register tile in another layout";
  let description = [{
    The conversion happens in registers if every thread already holds what it needs (an accumulator becomes operand a),
    by shuffles within a warp, or through shared memory, for which `scratch` must be given. Only a conversion with
    `scratch` has effects: it writes the buffer, then reads it, with a barrier in between and after.

    With `interleaved`, column 16 a + 8 b + 2 c + d of the source becomes column 16 a + 4 c + 2 b + d of the result, for
    b, d < 2 and c < 4. An accumulator of wgmma thus becomes operand a of 8 bits without moving between threads.

    Preconditions: the scratch buffer is not in use; all warps of the role execute the operation.

    Postconditions: every element keeps its value, and without `interleaved` its place.

    Example:
    ```mlir
    %p = tgpu.convert %s : tensor<128x64xbf16, #tgpu.mma<4, 1>>
         -> tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
    ```

    Errors:
    - another shape or element type
    - layouts for a number of warps other than that which executes the operation
    - `interleaved` with scratch, or other than from a wgmma layout to operand a of it, of 8 bits
  }];
  let arguments = (ins Tgpu_RegisterTile:$source,
                       Arg<Optional<Tgpu_Shared>, "", Tgpu_AccessesShared>:$scratch, UnitAttr:$interleaved);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = [{
    $source (`through` $scratch^ `:` type($scratch) `in`)? (`interleaved` $interleaved^)? attr-dict `:`
    type($source) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tgpu_ColumnsOp : Tgpu_Op<"columns", [Pure]> {
  let summary = "some columns of a register tile";
  let description = [{
    Every thread keeps those of its elements that lie in these columns; no element moves. A tile can thus leave through
    a buffer that is smaller than the tile.

    Preconditions: none. Postconditions: column c of the result is column `first` + c of the source.

    Example:
    ```mlir
    %right = tgpu.columns 64 of %acc
        : tensor<64x128xbf16, #tgpu.wgmma<1>> -> tensor<64x64xbf16, #tgpu.wgmma<1>>
    ```

    Errors:
    - layouts other than the same wgmma layout, or the same mma layout of one column of warps
    - a result of other rows or elements than the source
    - a first column that is negative or no multiple of 8, or columns beyond those of the source
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins I64Attr:$first, Tgpu_RegisterTile:$source);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = "custom<Int>($first) `of` $source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tgpu_JoinColumnsOp : Tgpu_Op<"join_columns", [Pure]> {
  let summary = "a register tile made of the columns of several";
  let description = [{
    The inverse of `tgpu.columns`: the tiles stand side by side, in their order. No element moves.

    Preconditions: none. Postconditions: column c of the result is column c of the first tile, or, after its columns,
    those of the next ones.

    Example:
    ```mlir
    %acc = tgpu.join_columns %left, %right : tensor<64x64xf32, #tgpu.wgmma<1>>, tensor<64x64xf32, #tgpu.wgmma<1>>
        -> tensor<64x128xf32, #tgpu.wgmma<1>>
    ```

    Errors:
    - no tile, or a layout other than one wgmma layout of all tiles and the result
    - a tile of other rows or elements than the result, or with a number of columns that is no multiple of 8
    - columns of the tiles that are more or fewer than the result's
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins Variadic<Tgpu_RegisterTile>:$parts);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = "$parts attr-dict `:` type($parts) `->` type($result)";
  let hasVerifier = 1;
}

def Tgpu_ThreadSumOp : Tgpu_Op<"thread_sum", [Pure]> {
  let summary = "sums of a tile along a dimension, by thread";
  let description = [{
    Every thread adds its own elements of a row (`dim` 1) or column (`dim` 0); no element moves. A `tile.reduce add` of
    the result along the same dimension gives the sums of the source.

    Preconditions: none. Postconditions: element t of a row is the sum of the elements of that row that its thread t
    holds.

    Example:
    ```mlir
    %partial = tgpu.thread_sum %p dim 1 : tensor<128x64xf32, #tgpu.wgmma<2>>
         -> tensor<128x4xf32, #tgpu.by_thread<1, #tgpu.wgmma<2>>>
    ```

    Errors:
    - a result whose layout is not by_thread of the dimension and of the source's layout
    - a result of other elements than the source, or other rows (columns)
    - elements that are not floats
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins Tgpu_RegisterTile:$source, I64Attr:$dim);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = "$source `dim` custom<Int>($dim) attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tgpu_RaiseMaxOp : Tgpu_Op<"raise_max", [Pure]> {
  let summary = "a running maximum of rows, raised where it lags by more than a constant";
  let description = [{
    For each row, the result is the maximum of the source times `factor` if that is above `old + lag`, else `old`.
    With an `offset`, a number for each row, the product is (maximum + offset) * factor. A warp that raises none of
    its rows need not know their maxima: each of its threads compares its own elements, as integers, three at a
    time. This works for factors and `old + lag` from 0 on; otherwise the maximum is computed. Differences `old -
    new` and their exponentials that follow in the same block are computed only if a row is raised, and so is a
    product with `tgpu.skip_ones` by such an exponential.

    Preconditions: all lanes of a warp execute it; `lag` is not negative. Postconditions: as described; for a row that
    contains a NaN, the result is `old` or any number.

    Example:
    ```mlir
    %new = tgpu.raise_max %old by %lag to %s times %scale : tensor<128x64xf32, #tgpu.wgmma<2>>
         -> tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
    %new = tgpu.raise_max %old by %lag to %s plus %terms times %scale
        : tensor<128x64xf32, #tgpu.wgmma<2>>,
         tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
             -> tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
    ```

    Errors:
    - a source that is not f32 in a wgmma layout
    - maxima, or an offset, that do not lie as slice<1> of the source's layout, or of other rows
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins Tgpu_RegisterTile:$old, F32:$lag, Tgpu_RegisterTile:$source, F32:$factor,
                       Optional<Tgpu_RegisterTile>:$offset);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = [{
    $old `by` $lag `to` $source (`plus` $offset^)? `times` $factor attr-dict `:` type($source)
    (`,` type($offset)^)? `->` custom<SameType>(type($result), type($old))
  }];
  let hasVerifier = 1;
}

def Tgpu_MmaOp : Tgpu_Op<"mma", [Pure]> {
  let summary = "matrix product by mma.sync, operands and accumulator in registers";
  let description = [{
    `result = a b + acc`, a of shape M x K, b of shape K x N.

    `stepwise` orders the instructions, and changes no result: the product proceeds in steps of a few instructions. The
    operands of a step, except the first, are read from shared memory during the step before it, and ptxas moves nothing
    over the event that precedes every step. A thread then holds the operands of two steps, regardless of how many
    registers ptxas estimates to be free.

    Preconditions: all lanes of a warp execute it. Postconditions: the result may be read at once.

    Example:
    ```mlir
    %s = tgpu.mma %a, %b, %acc : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>,
         tensor<64x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
             -> tensor<128x64xf32, #tgpu.mma<4, 1>>
    ```

    Errors:
    - operands that are not the operands a and b of the accumulator's layout
    - shapes that do not multiply, or are not multiples of the instruction's
    - an element type without an instruction on the target (f16, bf16, f32 as tf32; e4m3 and e5m2 on sm_90a)
    - an accumulator of other elements than f32
    - layouts for other than the warps that execute it
  }];
  let arguments = (ins Tgpu_RegisterTile:$a, Tgpu_RegisterTile:$b, Tgpu_RegisterTile:$acc,
                       UnitAttr:$stepwise);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $acc (`stepwise` $stepwise^)? attr-dict `:`
    type($a) `,` type($b) `->` custom<SameType>(type($result), type($acc))
  }];
  let hasVerifier = 1;
}

def Tgpu_FmaDotOp : Tgpu_Op<"fma_dot"> {
  let summary = "matrix product on the CUDA cores, operands in shared memory";
  let description = [{
    For f32 and f64. `result = op(a) op(b) + acc`.

    Preconditions: both buffers are complete and visible. Postconditions: the result may be read at once.

    Example:
    ```mlir
    %s = tgpu.fma_dot %q, %k transpose_b, %acc
        : !tgpu.shared<64x64xf32, none>, !tgpu.shared<64x64xf32, none>
         -> tensor<64x64xf32, #tgpu.mma<4, 1>>
    ```

    Errors:
    - shapes that do not multiply
    - elements other than f32 and f64, or different ones
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins Arg<Tgpu_Shared, "", Tgpu_ReadsShared>:$a, Arg<Tgpu_Shared, "", Tgpu_ReadsShared>:$b,
                       UnitAttr:$transpose_a, UnitAttr:$transpose_b, Tgpu_RegisterTile:$acc);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = [{
    $a `,` $b (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? `,` $acc attr-dict `:`
    type($a) `,` type($b) `->` custom<SameType>(type($result), type($acc))
  }];
  let hasVerifier = 1;
}

def Tgpu_WgmmaOp : Tgpu_Op<"wgmma", [MemoryEffects<Tgpu_ReadsShared>]> {
  let summary = "starts an asynchronous matrix product by wgmma";
  let description = [{
    `result = op(a) op(b) + acc`; without an accumulator, the product alone. Operand b, and a unless it is a register
    tile, are read from shared memory at any time until the product has been waited for. An accumulator is a tile that
    was waited for, or the pending result of the preceding product. With `overwriting`, its values are not added: the
    result takes its registers. With `columns`, a transposed operand b may have more columns than the result: those from
    this one on are multiplied.

    Preconditions: buffers are complete and visible; writes by threads are visible to the async proxy
    (`tgpu.fence_async`).

    Postconditions: the result may be read after `tgpu.wgmma_wait`; registers and buffers of the operands may be changed
    only after it.

    Example:
    ```mlir
    %s = tgpu.wgmma %q, %k transpose_b
        : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<128x64xbf16, b128>
         -> tensor<128x128xf32, #tgpu.wgmma<2>>
    %o1 = tgpu.wgmma %p, %v, %o : tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>,
          !tgpu.shared<128x64xbf16, b128>, tensor<128x64xf32, #tgpu.wgmma<2>>
              -> tensor<128x64xf32, #tgpu.wgmma<2>>
    %right = tgpu.wgmma %p, %vt transpose_b columns 32 : tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>,
             !tgpu.shared<64x128xbf16, b128> -> tensor<128x32xf32, #tgpu.wgmma<2>>
    %next = tgpu.wgmma %p, %vt transpose_b columns 64, overwriting %left
        : tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>, !tgpu.shared<96x128xbf16, b128>,
          tensor<128x32xf32, #tgpu.wgmma<2>> -> tensor<128x32xf32, #tgpu.wgmma<2>>
    ```

    Errors:
    - a layout other than wgmma, or a register operand that is not its operand a
    - `columns` of an operand b that is not transposed, that is no multiple of 8, or beyond the columns of operand b
    - shapes that do not multiply; a number of rows that is not a multiple of 64 x warpgroups; a number of columns that
      is not a multiple of 8, or above 256
    - elements other than f16, bf16, e4m3, e5m2 and f32 (as tf32)
    - an operand of 8 or 32 bits that is not stored along k: a transposed, b not transposed
    - an accumulator that is neither the result's tile nor pending on it, or of other elements than f32
    - `overwriting` without a tile, or a tile that is pending, is not computed in the same block, or has uses after the
      product or in other blocks
    - a target other than sm_90a
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins AnyType:$a, Tgpu_Shared:$b, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
                       Optional<AnyType>:$acc, OptionalAttr<I64Attr>:$columns, UnitAttr:$overwriting);
  let builders = [OpBuilder<(ins "mlir::Type":$result, "mlir::Value":$a, "mlir::Value":$b, "bool":$transpose_a,
                                 "bool":$transpose_b, "mlir::Value":$acc), [{
    build($_builder, $_state, result, a, b, transpose_a, transpose_b, acc, mlir::IntegerAttr());
  }]>];
  let results = (outs Tgpu_Pending:$result);
  let extraClassDeclaration = [{
    /// The tile to which the product is added, or null.
    mlir::Value getAddend() { return getOverwriting() ? mlir::Value() : getAcc(); }
  }];
  let assemblyFormat = [{
    $a `,` $b (`transpose_a` $transpose_a^)? (`transpose_b` $transpose_b^)? (`columns` $columns^)?
    (`,` (`overwriting` $overwriting^)? $acc^)? attr-dict
    `:` type($a) `,` type($b) (`,` type($acc)^)? `->` custom<PendingTile>(type($result))
  }];
  let hasVerifier = 1;
}

def Tgpu_WgmmaCommitOp : Tgpu_Op<"wgmma_commit", [MemoryEffects<Tgpu_AccessesShared>]> {
  let summary = "closes the group of products started since the last commit";
  let description = [{
    Preconditions, postconditions: none.

    Example: `tgpu.wgmma_commit`

    Errors:
    - a target other than sm_90a
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Tgpu_WgmmaWaitOp : Tgpu_Op<"wgmma_wait", [MemoryEffects<Tgpu_AccessesShared>]> {
  let summary = "waits until at most `pending` groups are unfinished, and yields the finished tiles";
  let description = [{
    Preconditions: the products whose tiles it yields were committed.

    Postconditions: the tiles may be read; operands of the finished groups may be overwritten.

    Example: `%s = tgpu.wgmma_wait pending 1, %s_pending : tensor<128x128xf32, #tgpu.wgmma<2>>`

    Errors:
    - a number of groups outside 0 to 7
    - results that are not the tiles of the operands (generic syntax)
    - a target other than sm_90a
    - a pending tile that may still be in flight, because its product belongs to the last `pending` groups
      (tgpu-verify-sync reports it)
  }];
  let arguments = (ins I64Attr:$pending, Variadic<Tgpu_Pending>:$tiles);
  let results = (outs Variadic<Tgpu_RegisterTile>:$results);
  let assemblyFormat = [{
    `pending` custom<Int>($pending) (`,` $tiles^)? attr-dict
    custom<WaitTypes>(type($tiles), type($results))
  }];
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUMATRIXOPS_TD
