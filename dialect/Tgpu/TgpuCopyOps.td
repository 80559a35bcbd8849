// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies between global memory, shared memory and registers.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUCOPYOPS_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUCOPYOPS_TD

include "dialect/Tgpu/TgpuOpBase.td"

//===----------------------------------------------------------------------===//
// Registers and global memory. Semantics of bounds, `dims` and pad as in tile.load and tile.store.
//===----------------------------------------------------------------------===//

def Tgpu_LoadOp : Tgpu_Op<"load", [AttrSizedOperandSegments]> {
  let summary = "a register tile from a view";
  let description = [{
    Preconditions, postconditions, errors: those of `tile.load`, and (error) a layout for a number of warps other than
    that which executes the operation.

    Example:
    ```mlir
    %x = tgpu.load %bias[%b, %h, %m, %n]
        : !tile.view<[?, ?, ?, ?], f32> -> tensor<128x64xf32, #tgpu.mma<4, 1>>
    ```
  }];
  let arguments = (ins Arg<Tgpu_View, "", Tgpu_ReadsGlobal>:$view, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices,
                       OptionalAttr<DenseI64ArrayAttr>:$dims, Optional<AnyType>:$pad);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = [{
    $view `` custom<DynamicIndexList>($indices, $static_indices) (`dims` $dims^)?
    (`pad` $pad^ `:` type($pad) `in`)? attr-dict `:` type($view) `->` type($result)
  }];
  let hasVerifier = 1;
}

class Tgpu_WriteOp<string mnemonic> : Tgpu_Op<mnemonic> {
  let arguments = (ins Tgpu_RegisterTile:$value, Arg<Tgpu_View, "", Tgpu_WritesGlobal>:$view,
                       Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices, OptionalAttr<DenseI64ArrayAttr>:$dims);
  let assemblyFormat = [{
    $value `,` $view `` custom<DynamicIndexList>($indices, $static_indices) (`dims` $dims^)?
    attr-dict `:` type($value) `,` type($view)
  }];
  let hasVerifier = 1;
}
def Tgpu_StoreOp : Tgpu_WriteOp<"store"> {
  let summary = "a register tile into a view";
  let description = [{
    If several threads hold an element, exactly one stores it.

    Preconditions, postconditions, errors: those of `tile.store`, and (error) a layout for a number of warps other than
    that which executes the operation.

    Example: `tgpu.store %o, %out[%b, %h, %m, 0] : tensor<...>, !tile.view<[?, ?, ?, 64], bf16>`
  }];
}
def Tgpu_AtomicAddOp : Tgpu_Op<"atomic_add", [AttrSizedOperandSegments]> {
  let summary = "a register tile added to a view, atomically";
  let description = [{
    If several threads hold an element, exactly one adds it. With `in order`, tgpu-assign-roles moves the addition to
    the reduce role, which waits for the turn (`tgpu.await_turn`) and stores tile 0; tgpu-verify-sync rejects additions
    in order that remain.

    Preconditions, postconditions, errors: those of `tile.atomic_add`, and (error) a layout for a number of warps other
    than that which executes the operation.

    Example: `tgpu.atomic_add %dq, %acc[%b, %h, %m, 0]
    : tensor<...>, !tile.view<[?, ?, ?, 64], f32>`
  }];
  let arguments = (ins Tgpu_RegisterTile:$value, Arg<Tgpu_View, "", Tgpu_AccessesGlobal>:$view,
                       Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices, OptionalAttr<DenseI64ArrayAttr>:$dims,
                       Optional<I32>:$number, Arg<Optional<Tgpu_View>, "", Tgpu_AccessesGlobal>:$turns,
                       Variadic<I32>:$turn_indices,
                       OptionalAttr<DenseI64ArrayAttr>:$static_turn_indices);
  let assemblyFormat = [{
    $value `,` $view `` custom<DynamicIndexList>($indices, $static_indices) (`dims` $dims^)?
    (`in` `order` `of` $number^ `by` $turns ``
     custom<DynamicIndexList>($turn_indices, $static_turn_indices))?
    attr-dict `:` type($value) `,` type($view) (`,` type($turns)^)?
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Registers and shared memory
//===----------------------------------------------------------------------===//

def Tgpu_ReadOp : Tgpu_Op<"read"> {
  let summary = "a register tile from a shared buffer";
  let description = [{
    Operand fragments are read by ldmatrix where the element type allows it. `transpose` reads the
    transposed tile. Rank-1 layouts read a row vector.

    Preconditions: the buffer's contents are complete and visible: after a wait or a sync.

    Postconditions: the buffer may be overwritten after a barrier that all reading warps have reached.

    Example:
    ```mlir
    %k = tgpu.read %slot transpose : !tgpu.shared<64x128xbf16, b128>
         -> tensor<128x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>
    ```

    Errors:
    - a shape (transposed where asked for) or element type other than the buffer's
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins Arg<Tgpu_Shared, "", Tgpu_ReadsShared>:$buffer, UnitAttr:$transpose);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = "$buffer (`transpose` $transpose^)? attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def Tgpu_WriteSharedOp : Tgpu_Op<"write"> {
  let summary = "a register tile into a shared buffer";
  let description = [{
    Uses stmatrix if layout, element type and target allow it. The write belongs to the generic proxy: see
    `tgpu.fence_async`.

    Preconditions: every read of the buffer is done.

    Postconditions: other threads see the tile after a `tgpu.sync` or an arrival; wgmma and TMA see it only if a fence
    precedes that.

    Example: `tgpu.write %ds, %buffer
    : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>`

    Errors:
    - a shape (transposed where asked for) or element type other than the buffer's
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins Tgpu_RegisterTile:$value, Arg<Tgpu_Shared, "", Tgpu_WritesShared>:$buffer, UnitAttr:$transpose);
  let assemblyFormat = "$value `,` $buffer (`transpose` $transpose^)? attr-dict `:` type($value) `,` type($buffer)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// cp.async: every thread of the role copies its share
//===----------------------------------------------------------------------===//

def Tgpu_CopyAsyncOp : Tgpu_Op<"copy_async"> {
  let summary = "starts a copy of a tile from a view into a shared buffer";
  let description = [{
    The buffer's dimensions run along the last dimensions of the view (or `dims`). Elements of the buffer that lie
    outside the view become zero. Elements whose address or width does not allow 16-byte copies are copied by ordinary
    loads and stores. The copy joins the group that the next `tgpu.copy_commit` closes.

    Preconditions: every read of the buffer is done.

    Postconditions: the buffer may be read after `tgpu.copy_wait` of its group and a `tgpu.sync`.

    Example:
    ```mlir
    tgpu.copy_async %k[%b, %h, %n, 0], %slot
        : !tile.view<[?, ?, ?, 64], bf16>, !tgpu.shared<128x64xbf16, b128>
    ```

    Errors: those of `tile.load`
  }];
  let arguments = (ins Arg<Tgpu_View, "", Tgpu_ReadsGlobal>:$view, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices,
                       OptionalAttr<DenseI64ArrayAttr>:$dims, Arg<Tgpu_Shared, "", Tgpu_WritesShared>:$buffer);
  let assemblyFormat = [{
    $view `` custom<DynamicIndexList>($indices, $static_indices) (`dims` $dims^)? `,` $buffer
    attr-dict `:` type($view) `,` type($buffer)
  }];
  let hasVerifier = 1;
}

def Tgpu_CopyCommitOp : Tgpu_Op<"copy_commit", [Tgpu_OrdersMemory<>]> {
  let summary = "closes the group of copies started since the last commit";
  let description = [{
    A group may be empty, so a loop can commit in every iteration, and the number of groups is known.

    Preconditions, postconditions: none.

    Example: `tgpu.copy_commit`
  }];
  let assemblyFormat = "attr-dict";
}

def Tgpu_CopyWaitOp : Tgpu_Op<"copy_wait", [Tgpu_OrdersMemory<>]> {
  let summary = "waits until at most `pending` of the thread's groups are unfinished";
  let description = [{
    Preconditions: none.

    Postconditions: the thread sees its own copies of the finished groups; other threads see them after a `tgpu.sync`.

    Example: `tgpu.copy_wait pending 1`

    Errors:
    - a number of groups outside 0 to 64
  }];
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "`pending` custom<Int>($pending) attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Tensor memory accelerator: one thread of the role issues
//===----------------------------------------------------------------------===//

def Tgpu_TensorMapOp : Tgpu_Op<"tensor_map", [Pure, HasParent<"KernelOp">]> {
  let summary = "the tensor map of an argument or of a capture";
  let description = [{
    Becomes a grid constant that the runtime builds at each launch.

    Preconditions: the argument starts at a multiple of 16 bytes, its innermost dimension is contiguous, and its other
    strides are multiples of 16 bytes; if the map is stored through, rows are multiples of 16 bytes, too (the runtime
    checks).

    Postconditions: one argument may have several maps, of different boxes.

    Example: `%k_map = tgpu.tensor_map %k
    : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x1x128x64xbf16, b128>`

    Errors:
    - a view that is neither an argument of the kernel nor a capture
    - a box of another rank or element type than the view
    - a target other than sm_90a
  }];
  let arguments = (ins Tgpu_View:$view);
  let results = (outs Tgpu_TensorMap:$map);
  let assemblyFormat = "$view attr-dict `:` type($view) `->` type($map)";
  let hasVerifier = 1;
}

def Tgpu_TmaLoadOp : Tgpu_Op<"tma_load", [AttrSizedOperandSegments]> {
  let summary = "starts a copy of a box into a shared buffer";
  let description = [{
    The bytes arrive at the barrier, which must expect those of the whole buffer, even if only a part of it lies in the
    view. Elements of the buffer outside the view become zero. A buffer wider than the swizzle takes one instruction for
    each panel.

    With a ragged map, the copied view is the part that begins at `from` and has `size` rows, clipped to the argument,
    as with `tile.subview`: indices count from the beginning of the part.

    With `of`, the map is that of the pool of a `tile.paged`, ragged along the rows of a page, and the copied view is
    the paged one: the first index is 0, and the second counts rows of the sequence. Each box takes rows of one page,
    whose number is read when the copy is issued; a box that has no page is zeros.

    Preconditions: no warp reads or writes the buffer any more (`tgpu.acquire`); the index along the ragged dimension is
    not negative, and of pages that a table names a multiple of the rows of a box.

    Postconditions: the buffer may be read after `tgpu.wait` on the same barrier and use.

    Example:
    ```mlir
    tgpu.tma_load %k_map[%b, %h, %n, 0], %slot, %k_full[%use]
         : !tgpu.tensor_map<1x1x128x64xbf16, b128>, !tgpu.shared<128x64xbf16, b128>,
             !tgpu.barriers<3>
    ```

    Errors:
    - a buffer that does not consist of boxes of the map: other rows, other elements, another swizzle, or a box that is
      not one panel wide (without swizzle, as wide as the buffer)
    - another number of indices than the map has dimensions
    - `from` and `size` without a ragged map, or a ragged map without them or `of`
    - `of` something else than a `tile.paged` whose pool is the view of the map, with a map that is not ragged along
      dimension 1, with `from`, or with boxes of more rows than lie together
    - a first index other than 0 of a dimension that the map leaves out, or of pages
    - a target other than sm_90a
  }];
  let arguments = (ins Arg<Tgpu_TensorMap, "", Tgpu_ReadsGlobal>:$map, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices,
                       Optional<I32>:$begin, Optional<I32>:$size, Optional<Tgpu_View>:$pages,
                       Arg<Tgpu_Shared, "", Tgpu_WritesShared>:$buffer,
                       Arg<Tgpu_Barriers, "", Tgpu_AccessesBarriers>:$barriers, I32:$use);
  let assemblyFormat = [{
    $map `` custom<DynamicIndexList>($indices, $static_indices) (`from` $begin^ `size` $size)?
    (`of` $pages^ `:` type($pages))? `,` $buffer `,` $barriers `[` $use `]` attr-dict
    `:` type($map) `,` type($buffer) `,` type($barriers)
  }];
  let hasVerifier = 1;
}

class Tgpu_TmaWriteOp<string mnemonic, list<OpVariableDecorator> effects>
    : Tgpu_Op<mnemonic, [AttrSizedOperandSegments]> {
  let arguments = (ins Arg<Tgpu_Shared, "", Tgpu_ReadsShared>:$buffer, Arg<Tgpu_TensorMap, "", effects>:$map,
                       Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices, Optional<I32>:$begin, Optional<I32>:$size,
                       UnitAttr:$perWarpgroup);
  let assemblyFormat = [{
    $buffer `,` $map `` custom<DynamicIndexList>($indices, $static_indices) (`from` $begin^ `size` $size)?
    (`per` `warpgroup` $perWarpgroup^)? attr-dict `:` type($buffer) `,` type($map)
  }];
  let hasVerifier = 1;
}
def Tgpu_TmaStoreOp : Tgpu_TmaWriteOp<"tma_store", Tgpu_WritesGlobal> {
  let summary = "starts a copy of a shared buffer into a view";
  let description = [{
    Writes nothing outside the view, except up to a multiple of 16 bytes of a row. For ragged maps, see `tgpu.tma_load`.
    The copy joins the group that the next `tgpu.bulk_commit` closes.

    `per warpgroup`: each warpgroup copies its share of the rows, the first one the first rows.

    Preconditions: every thread that wrote the buffer, or the rows that a warpgroup copies, has passed a
    `tgpu.fence_async`, then a barrier.

    Postconditions: the buffer may be written again after `tgpu.bulk_wait read` of the group, and a barrier.

    Example:
    ```mlir
    tgpu.tma_store %buffer, %o_map[%b, %h, %m, 0]
         : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<1x1x128x64xbf16, b128>
    ```

    Errors: those of `tgpu.tma_load`, and
    - `per warpgroup` without whole warpgroups; a box of the map is then the share of one
  }];
}
def Tgpu_TmaReduceAddOp : Tgpu_TmaWriteOp<"tma_reduce_add", Tgpu_AccessesGlobal> {
  let summary = "starts adding a shared buffer to a view, atomically";
  let description = [{
    The order in which blocks add is not defined, so neither is the rounding of the sum, except between
    `tgpu.await_turn` and `tgpu.end_turn`.

    Preconditions, postconditions: those of `tgpu.tma_store`.

    Example:
    ```mlir
    tgpu.tma_reduce_add %buffer, %dq_map[%b, %h, %m, 0]
         : !tgpu.shared<128x64xf32, b128>, !tgpu.tensor_map<1x1x128x32xf32, b128>
    ```

    Errors: those of `tgpu.tma_store`, and
    - elements other than f32, f16, bf16 and i32
  }];
}

def Tgpu_BulkLoadOp : Tgpu_Op<"bulk_load"> {
  let summary = "starts a copy of a contiguous row into a shared buffer of rank 1";
  let description = [{
    Copies row vectors (LSE, delta), which use the barriers of the ring whose tiles they belong to. The part of the
    buffer that lies beyond the view keeps its contents, so consumers must mask it. The barrier still counts the bytes
    of the whole buffer, as with TMA. Bytes are copied in units of 16, so up to 12 bytes beyond the end of the row are
    read.

    Preconditions: the row starts at a multiple of 16 bytes and is contiguous; every read of the buffer is done.

    Postconditions: the buffer may be read after `tgpu.wait` on the same barrier and use.

    Example:
    ```mlir
    tgpu.bulk_load %lse[%b, %h, %m], %slot, %full[%use]
         : !tile.view<[?, ?, ?], f32>, !tgpu.shared<128xf32, none>, !tgpu.barriers<2>
    ```

    Errors:
    - a buffer of a rank other than 1, of other elements than the view's, or of a size that is not a multiple of 16
      bytes
    - a target other than sm_90a
  }];
  let arguments = (ins Arg<Tgpu_View, "", Tgpu_ReadsGlobal>:$view, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices,
                       Arg<Tgpu_Shared, "", Tgpu_WritesShared>:$buffer,
                       Arg<Tgpu_Barriers, "", Tgpu_AccessesBarriers>:$barriers, I32:$use);
  let assemblyFormat = [{
    $view `` custom<DynamicIndexList>($indices, $static_indices) `,` $buffer `,` $barriers `[` $use `]`
    attr-dict `:` type($view) `,` type($buffer) `,` type($barriers)
  }];
  let hasVerifier = 1;
}

def Tgpu_BulkCommitOp : Tgpu_Op<"bulk_commit", [Tgpu_OrdersMemory<>]> {
  let summary = "closes the group of TMA stores and reductions started since the last commit";
  let description = [{
    Preconditions, postconditions: none; a group may be empty.

    Example: `tgpu.bulk_commit`

    Errors:
    - a target other than sm_90a
  }];
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

def Tgpu_BulkWaitOp : Tgpu_Op<"bulk_wait", [Tgpu_OrdersMemory<>]> {
  let summary = "waits until at most `pending` groups are unfinished";
  let description = [{
    With `read`, the operation waits only until the shared memory of the groups has been read and may be reused. The
    thread that issued the groups waits; a barrier must tell the other threads of the role.

    Preconditions: none.

    Postconditions: the buffers of the finished groups may be reused and, without `read`, the views contain what was
    written.

    Example: `tgpu.bulk_wait pending 0 read`

    Errors:
    - a number of groups outside 0 to 64
    - a target other than sm_90a
  }];
  let arguments = (ins I64Attr:$pending, UnitAttr:$read);
  let assemblyFormat = "`pending` custom<Int>($pending) (`read` $read^)? attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Order among blocks
//===----------------------------------------------------------------------===//

class Tgpu_BlockTurnOp<string mnemonic> : Tgpu_Op<mnemonic, [MemoryEffects<Tgpu_AccessesGlobal>]> {
  let hasVerifier = 1;
}
def Tgpu_AwaitTurnOp : Tgpu_BlockTurnOp<"await_turn"> {
  let summary = "waits until a counter in memory has a number";
  let description = [{
    One thread waits. Additions to memory that a thread of another block made before it ended the preceding turn
    (`tgpu.end_turn`) are ordered before the additions of this thread.

    With `last`, all warps of the role wait until the last turn has ended, and then read the sum of all turns. The role
    does not get the turn.

    Preconditions: inside a role; the thread has no other turn. Tiles are taken by `tgpu.take_tile .. all`, and the
    preceding turn is ended in a tile with a smaller number, or by another role of this tile: that tile has been
    started, so every wait ends.

    Postconditions: the counter is %number, without `last` until this thread ends its turn.

    Example: `tgpu.await_turn %n of %turns[%b, %h, %m] : !tile.view<[?, ?, ?], i32>`

    Errors:
    - outside of roles
    - a view that is not of i32, or another number of indices than its rank
    - a target other than sm_90a
  }];
  let arguments = (ins I32:$number, Arg<Tgpu_View, "", Tgpu_ReadsGlobal>:$turns, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices, UnitAttr:$last);
  let assemblyFormat = [{
    $number `of` $turns `` custom<DynamicIndexList>($indices, $static_indices) (`last` $last^)? attr-dict `:`
    type($turns)
  }];
}
def Tgpu_EndTurnOp : Tgpu_BlockTurnOp<"end_turn"> {
  let summary = "sets a counter in memory to the next number";
  let description = [{
    Preconditions: the same thread has awaited this turn (`tgpu.await_turn`), and every `tgpu.tma_store` and
    `tgpu.tma_reduce_add` since then is complete: a `tgpu.bulk_wait` without `read` comes in between (with `read`, it
    waits for shared memory alone).

    Postconditions: the counter is %number + 1, and a thread that observes the new value is ordered after what this
    thread has stored and added.

    Example: `tgpu.end_turn %n of %turns[%b, %h, %m] : !tile.view<[?, ?, ?], i32>`

    Errors: those of `tgpu.await_turn`
  }];
  let arguments = (ins I32:$number, Arg<Tgpu_View, "", Tgpu_AccessesGlobal>:$turns, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices);
  let assemblyFormat = [{
    $number `of` $turns `` custom<DynamicIndexList>($indices, $static_indices) attr-dict `:` type($turns)
  }];
}

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUCOPYOPS_TD
