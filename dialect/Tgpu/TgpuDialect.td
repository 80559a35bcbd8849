// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The `tgpu` dialect: definition and its documentation.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUDIALECT_TD
#define TILEWRIGHT_DIALECT_TGPU_TGPUDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Tgpu_Dialect : Dialect {
  let name = "tgpu";
  let cppNamespace = "::tilewright::tgpu";
  let summary = "a tile program mapped onto one thread block of a GPU";
  let description = [{
    The same program as in `tile`, with every decision written down: which warps do what (*roles*),
    where each tile lives (*layouts* of register tiles, *swizzles* of shared buffers), and when each
    copy and matrix instruction is issued and waited for.

    **What stays.** Scalars, views and their access by index (`tile.dim`, `tile.subview`, `tile.at`), control
    flow (`scf`), elementwise arithmetic (`arith`, `math`) and the value operations of `tile` (reduce,
    expand, iota, full, select, cast, map) keep their meaning. A register tile is a ranked tensor whose encoding
    is a layout; elementwise operations work within one layout, and only `tgpu.convert` changes it.

    **What is new** has a cost or a hazard on the machine: shared memory, barriers, asynchronous copies, matrix
    instructions. Their results cannot be read too early by construction: an asynchronous product yields a
    `!tgpu.pending`, and only its wait yields the tile.

    **Counters, not phases.** A ring of n stages is used by a counter k = 0, 1, 2, ...: slot k mod n, and the
    barrier phase that belongs to use k. Producer and consumer count the same way, so no phase bit appears in the IR.

    **Names, not numbers.** Barriers, rings and roles are SSA values and words.

    **All warps of a role together.** All warps of a role (outside of `tgpu.roles`, of the block) execute every
    operation, in the same order and with the same scalars. They need not be in step: two warpgroups may be a matrix
    product apart, and synchronize only at barriers. A register tile is distributed over exactly these warps.

    **One thread.** If the machine wants one thread (TMA, bulk copies and their groups, `tgpu.expect`, `tgpu.arrive per
    role`), it is always the first thread of the role, so these operations execute in program order.

    **Effects.** Operations name the memory that they access: `SharedMemoryResource`, `GlobalMemoryResource`, and
    `BarrierResource` for barriers. The effect is on the operand (buffer, view, tensor map, barriers) if there is one.
    An asynchronous operation has its effects where it is issued. Closing a group, waiting for it, arriving, and waiting
    at a barrier read and write both memories, so no access moves across them. Operations of `tile` that remain have
    effects on the default resource, which stands for any memory.
  }];
  let hasOperationAttrVerify = 1;
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::tilewright::tile::TileDialect"];
  let extraClassDeclaration = [{
    void registerTypes();
    void registerAttributes();
  }];
}

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUDIALECT_TD
