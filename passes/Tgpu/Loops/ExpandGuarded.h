// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The second form in which tgpu-expand-stages applies stages: stages that meet in memory alone.
// Nothing of stage 0 is carried to stage 1 in registers, so stage 1 needs only the counters of its
// slots, which are one less than those of the iteration in which it runs. Then it neither needs a
// prologue and an epilogue for each chain of loops, with bodies of their own, nor ends where a
// chain does: it runs through all iterations of a tile, those of the loops around the chain too.
//
//   loops around the chain
//     part n      stage 0 until the first place of stage 1
//                 if the tile has an earlier iteration:  the rest of stage 0, and stage 1 of it
//                 else                                   the rest of stage 0
//   if the tile has had an iteration:  stage 1 of the last one
//
// The rest is in the branch, since no product may be in flight where a branch begins or ends. If
// the first part of a chain is general, it executes the first iteration of a tile in any case, and
// the other parts have no branch.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_EXPANDGUARDED_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_EXPANDGUARDED_H

#include "passes/Tgpu/Loops/StageParts.h"

namespace tilewright::tgpu {

/// Whether stage 1 of a chain's parts yields nothing, and reads nothing of stage 0 but counters of
/// the iterations of a tile.
bool meetInMemory(llvm::ArrayRef<Part> chain);

/// Expands all chains of a kernel of which that is true; fails with a diagnostic if stages cannot
/// be placed so.
mlir::LogicalResult expandGuarded(llvm::ArrayRef<llvm::SmallVector<Part>> chains);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_EXPANDGUARDED_H
