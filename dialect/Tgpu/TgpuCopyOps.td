// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies between global memory, shared memory and registers.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUCOPYOPS_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUCOPYOPS_TD

include "dialect/Tgpu/TgpuOpBase.td"

//===----------------------------------------------------------------------===//
// Registers and global memory. Semantics of bounds, `dims` and pad as in tile.load and tile.store.
//===----------------------------------------------------------------------===//

def Tgpu_LoadOp : Tgpu_Op<"load", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "a register tile from a view";
  let description = [{
    Preconditions, postconditions, errors: those of `tile.load`; and (error) a layout for other than the warps that execute it.

    Example: `%x = tgpu.load %bias[%b, %h, %m, %n] : !tile.view<[?, ?, ?, ?], f32> -> tensor<128x64xf32, #tgpu.mma<4, 1>>`
  }];
  let arguments = (ins Tgpu_View:$view, Variadic<I32>:$indices, DenseI64ArrayAttr:$static_indices,
                       OptionalAttr<DenseI64ArrayAttr>:$dims, Optional<AnyType>:$pad);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = [{
    $view `` custom<DynamicIndexList>($indices, $static_indices) (`dims` $dims^)?
    (`pad` $pad^ `:` type($pad) `in`)? attr-dict `:` type($view) `->` type($result)
  }];
  let hasVerifier = 1;
}

class Tgpu_WriteOp<string mnemonic> : Tgpu_Op<mnemonic, [MemoryEffects<[MemWrite]>]> {
  let arguments = (ins Tgpu_RegisterTile:$value, Tgpu_View:$view, Variadic<I32>:$indices,
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
    Of an element that several threads hold one of them stores.

    Preconditions, postconditions, errors: those of `tile.store`; and (error) a layout for other than the warps that execute it.

    Example: `tgpu.store %o, %out[%b, %h, %m, 0] : tensor<...>, !tile.view<[?, ?, ?, 64], bf16>`
  }];
}
def Tgpu_AtomicAddOp : Tgpu_Op<"atomic_add", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a register tile added to a view, atomically";
  let description = [{
    Of an element that several threads hold one of them adds. In order: `tgpu-assign-roles` makes it a role's, which awaits the
    turn (`tgpu.await_turn`); `tgpu-verify-sync` refuses what is left.

    Preconditions, postconditions, errors: those of `tile.atomic_add`; and (error) a layout for other than the warps that execute it.

    Example: `tgpu.atomic_add %dq, %acc[%b, %h, %m, 0] : tensor<...>, !tile.view<[?, ?, ?, 64], f32>`
  }];
  let arguments = (ins Tgpu_RegisterTile:$value, Tgpu_View:$view, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices, OptionalAttr<DenseI64ArrayAttr>:$dims,
                       Optional<I32>:$number, Optional<Tgpu_View>:$turns,
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

def Tgpu_ReadOp : Tgpu_Op<"read", [MemoryEffects<[MemRead]>]> {
  let summary = "a register tile from a shared buffer";
  let description = [{
    Operand fragments are read by ldmatrix where the element type allows it. `transpose` reads the
    transposed tile. Rank-1 layouts read a row vector.

    Preconditions: the buffer's contents are complete and visible: after a wait or a sync.

    Postconditions: the buffer may be overwritten once a barrier says that all warps have read.

    Example: `%k = tgpu.read %slot transpose : !tgpu.shared<64x128xbf16, b128> -> tensor<128x64xbf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>`

    Errors:
    - a shape (transposed where asked for) or element type other than the buffer's
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins Tgpu_Shared:$buffer, UnitAttr:$transpose);
  let results = (outs Tgpu_RegisterTile:$result);
  let assemblyFormat = "$buffer (`transpose` $transpose^)? attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def Tgpu_WriteSharedOp : Tgpu_Op<"write", [MemoryEffects<[MemWrite]>]> {
  let summary = "a register tile into a shared buffer";
  let description = [{
    By stmatrix where layout, element type and target allow it. Generic proxy: see `tgpu.fence_async`.

    Preconditions: every read of the buffer is done.

    Postconditions: others see the tile after a `tgpu.sync` or an arrival; wgmma and TMA only if a fence came before that.

    Example: `tgpu.write %ds, %buffer : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x64xbf16, b128>`

    Errors:
    - a shape (transposed where asked for) or element type other than the buffer's
    - a layout for other than the warps that execute it
  }];
  let arguments = (ins Tgpu_RegisterTile:$value, Tgpu_Shared:$buffer, UnitAttr:$transpose);
  let assemblyFormat = "$value `,` $buffer (`transpose` $transpose^)? attr-dict `:` type($value) `,` type($buffer)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// cp.async: every thread of the role copies its share
//===----------------------------------------------------------------------===//

def Tgpu_CopyAsyncOp : Tgpu_Op<"copy_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts a copy of a tile from a view into a shared buffer";
  let description = [{
    The buffer's dimensions run along the last dimensions of the view (or `dims`). Outside the view the
    buffer is filled with zeros. Elements whose address or width does not allow 16-byte copies are copied by ordinary
    loads and stores. Joins the group that the next `tgpu.copy_commit` closes.

    Preconditions: every read of the buffer is done.

    Postconditions: the buffer may be read after `tgpu.copy_wait` of its group and a `tgpu.sync`.

    Example: `tgpu.copy_async %k[%b, %h, %n, 0], %slot : !tile.view<[?, ?, ?, 64], bf16>, !tgpu.shared<128x64xbf16, b128>`

    Errors: those of `tile.load`
  }];
  let arguments = (ins Tgpu_View:$view, Variadic<I32>:$indices, DenseI64ArrayAttr:$static_indices,
                       OptionalAttr<DenseI64ArrayAttr>:$dims, Tgpu_Shared:$buffer);
  let assemblyFormat = [{
    $view `` custom<DynamicIndexList>($indices, $static_indices) (`dims` $dims^)? `,` $buffer
    attr-dict `:` type($view) `,` type($buffer)
  }];
  let hasVerifier = 1;
}

def Tgpu_CopyCommitOp : Tgpu_Op<"copy_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "closes the group of copies started since the last commit";
  let description = [{
    A group may be empty, so a loop can commit in every round and count rounds.

    Preconditions, postconditions: none.

    Example: `tgpu.copy_commit`
  }];
  let assemblyFormat = "attr-dict";
}

def Tgpu_CopyWaitOp : Tgpu_Op<"copy_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` of the thread's groups are unfinished";
  let description = [{
    Preconditions: none.

    Postconditions: the finished groups' own copies are visible to the thread; to others after a `tgpu.sync`.

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

    Preconditions: the argument starts at a multiple of 16 bytes, its innermost dimension is contiguous, and its other strides
    are multiples of 16 bytes; where it is stored through, so are its rows (the runtime checks).

    Postconditions: one argument may have several maps, of different boxes.

    Example: `%k_map = tgpu.tensor_map %k : !tile.view<[?, ?, ?, 64], bf16> -> !tgpu.tensor_map<1x1x128x64xbf16, b128>`

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

def Tgpu_TmaLoadOp : Tgpu_Op<"tma_load", [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts a copy of a box into a shared buffer";
  let description = [{
    The bytes arrive at the barrier, which must expect them: those of the whole buffer, however much lies in the view. Outside the
    view the buffer is filled with zeros. A buffer wider than the swizzle takes one instruction for each panel.

    With a ragged map the view is the part that begins at `from` and has `size` rows, cut where the argument ends, as of
    `tile.subview`: indices count from its beginning.

    Preconditions: no warp reads or writes the buffer any more (`tgpu.acquire`); along the ragged dimension the index is not
    negative.

    Postconditions: the buffer may be read after `tgpu.wait` on the same barrier and use.

    Example: `tgpu.tma_load %k_map[%b, %h, %n, 0], %slot, %k_full[%use] : !tgpu.tensor_map<1x1x128x64xbf16, b128>, !tgpu.shared<128x64xbf16, b128>, !tgpu.barriers<3>`

    Errors:
    - a buffer that is not made of the map's boxes: other rows, other elements, other swizzle, a box that is not one panel
      wide (without swizzle, as wide as the buffer)
    - another number of indices than the map has dimensions
    - `from` and `size` without a ragged map, or a ragged map without them
    - a first index other than 0 of a dimension that the map leaves out
    - a target other than sm_90a
  }];
  let arguments = (ins Tgpu_TensorMap:$map, Variadic<I32>:$indices, DenseI64ArrayAttr:$static_indices,
                       Optional<I32>:$begin, Optional<I32>:$size,
                       Tgpu_Shared:$buffer, Tgpu_Barriers:$barriers, I32:$use);
  let assemblyFormat = [{
    $map `` custom<DynamicIndexList>($indices, $static_indices) (`from` $begin^ `size` $size)?
    `,` $buffer `,` $barriers `[` $use `]` attr-dict `:` type($map) `,` type($buffer) `,` type($barriers)
  }];
  let hasVerifier = 1;
}

class Tgpu_TmaWriteOp<string mnemonic>
    : Tgpu_Op<mnemonic, [AttrSizedOperandSegments, MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins Tgpu_Shared:$buffer, Tgpu_TensorMap:$map, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices, Optional<I32>:$begin, Optional<I32>:$size);
  let assemblyFormat = [{
    $buffer `,` $map `` custom<DynamicIndexList>($indices, $static_indices) (`from` $begin^ `size` $size)?
    attr-dict `:` type($buffer) `,` type($map)
  }];
  let hasVerifier = 1;
}
def Tgpu_TmaStoreOp : Tgpu_TmaWriteOp<"tma_store"> {
  let summary = "starts a copy of a shared buffer into a view";
  let description = [{
    Outside the view nothing is written but up to a multiple of 16 bytes of a row. Of a ragged map, see `tgpu.tma_load`. Joins
    the group that the next `tgpu.bulk_commit` closes.

    Preconditions: every thread that wrote the buffer has passed a `tgpu.fence_async`, then a barrier.

    Postconditions: the buffer may be written again after `tgpu.bulk_wait read` of the group, and a barrier.

    Example: `tgpu.tma_store %buffer, %o_map[%b, %h, %m, 0] : !tgpu.shared<128x64xbf16, b128>, !tgpu.tensor_map<1x1x128x64xbf16, b128>`

    Errors: those of `tgpu.tma_load`
  }];
}
def Tgpu_TmaReduceAddOp : Tgpu_TmaWriteOp<"tma_reduce_add"> {
  let summary = "starts adding a shared buffer to a view, atomically";
  let description = [{
    The order in which blocks add is not defined, so neither is the rounding of the sum, but between `tgpu.await_turn` and
    `tgpu.end_turn`.

    Preconditions, postconditions: those of `tgpu.tma_store`.

    Example: `tgpu.tma_reduce_add %buffer, %dq_map[%b, %h, %m, 0] : !tgpu.shared<128x64xf32, b128>, !tgpu.tensor_map<1x1x128x32xf32, b128>`

    Errors: those of `tgpu.tma_load`, and
    - elements other than f32, f16, bf16 and i32
  }];
}

def Tgpu_BulkLoadOp : Tgpu_Op<"bulk_load", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "starts a copy of a contiguous row into a shared buffer of rank 1";
  let description = [{
    For row vectors (LSE, delta): they ride on the barriers of the ring whose tiles they belong to. Beyond the view the buffer
    keeps what it holds: consumers mask. The barrier counts the bytes of the whole buffer all the same, as with TMA. Bytes
    are copied in pieces of 16, so up to 12 beyond the end of the row are read.

    Preconditions: the row starts at a multiple of 16 bytes and is contiguous; every read of the buffer is done.

    Postconditions: the buffer may be read after `tgpu.wait` on the same barrier and use.

    Example: `tgpu.bulk_load %lse[%b, %h, %m], %slot, %full[%use] : !tile.view<[?, ?, ?], f32>, !tgpu.shared<128xf32, none>, !tgpu.barriers<2>`

    Errors:
    - a buffer of a rank other than 1, of other elements than the view's, or of a size that is no multiple of 16 bytes
    - a target other than sm_90a
  }];
  let arguments = (ins Tgpu_View:$view, Variadic<I32>:$indices, DenseI64ArrayAttr:$static_indices,
                       Tgpu_Shared:$buffer, Tgpu_Barriers:$barriers, I32:$use);
  let assemblyFormat = [{
    $view `` custom<DynamicIndexList>($indices, $static_indices) `,` $buffer `,` $barriers `[` $use `]`
    attr-dict `:` type($view) `,` type($buffer) `,` type($barriers)
  }];
  let hasVerifier = 1;
}

def Tgpu_BulkCommitOp : Tgpu_Op<"bulk_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
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

def Tgpu_BulkWaitOp : Tgpu_Op<"bulk_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most `pending` groups are unfinished";
  let description = [{
    `read` waits only until their shared memory has been read and may be reused. The thread that issued them waits; the others
    of the role learn of it by a barrier.

    Preconditions: none.

    Postconditions: of the finished groups, buffers may be reused and, without `read`, views hold what was written.

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

class Tgpu_BlockTurnOp<string mnemonic> : Tgpu_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>]> {
  let arguments = (ins I32:$number, Tgpu_View:$turns, Variadic<I32>:$indices,
                       DenseI64ArrayAttr:$static_indices);
  let assemblyFormat = [{
    $number `of` $turns `` custom<DynamicIndexList>($indices, $static_indices) attr-dict `:` type($turns)
  }];
  let hasVerifier = 1;
}
def Tgpu_AwaitTurnOp : Tgpu_BlockTurnOp<"await_turn"> {
  let summary = "waits until a counter in memory has a number";
  let description = [{
    One thread waits. What a thread of another block added to memory before it ended the turn of the number before
    (`tgpu.end_turn`) comes before what this one adds.

    Preconditions: inside a role; the thread has no other turn. Tiles are taken by `tgpu.take_tile .. all`, and the turn of the
    number before is ended in a tile of a smaller number: so it has been started, and in the end no tile is left that waits.

    Postconditions: the counter is %number until this thread ends its turn.

    Example: `tgpu.await_turn %n of %turns[%b, %h, %m] : !tile.view<[?, ?, ?], i32>`

    Errors:
    - outside of roles
    - a view that is not of i32, or another number of indices than its rank
    - a target other than sm_90a
  }];
}
def Tgpu_EndTurnOp : Tgpu_BlockTurnOp<"end_turn"> {
  let summary = "sets a counter in memory to the next number";
  let description = [{
    Preconditions: the same thread has awaited this turn (`tgpu.await_turn`), and every `tgpu.tma_reduce_add` since is complete:
    after a `tgpu.bulk_wait` without `read`, which waits for shared memory alone.

    Postconditions: the counter is %number + 1, and who sees that adds behind this thread.

    Example: `tgpu.end_turn %n of %turns[%b, %h, %m] : !tile.view<[?, ?, ?], i32>`

    Errors: those of `tgpu.await_turn`
  }];
}

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUCOPYOPS_TD
