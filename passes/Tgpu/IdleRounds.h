// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds of a loop that are for some rows only, and warpgroups that leave them out.

#ifndef TILEWRIGHT_PASSES_TGPU_IDLEROUNDS_H
#define TILEWRIGHT_PASSES_TGPU_IDLEROUNDS_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// Whether a round in which a row keeps no pair yields for that row what the loop carries: as in
/// softmax, where scores of -inf leave the maximum as it is and add zeros. Of rows that hold NaN or
/// infinities nothing is said, and of loops that do not keep rows apart (IdleRows.h).
bool leavesIdleRows(tile::ForBlocksOp loop);

/// The first round of a loop for the role as a whole, where its lower bound is tgpu.first_round.
mlir::Value getFirstOfAll(mlir::Value lowerBound);

/// Into the loop of the rounds that a warpgroup leaves out before a loop, or a chain of loops that
/// ends at `end`: the turns that others take in them. Of all rounds `roundsWithout` have none.
void writeMissedTurns(mlir::scf::ForOp front, mlir::Value turns, mlir::Value end,
                      int64_t roundsWithout);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_IDLEROUNDS_H
