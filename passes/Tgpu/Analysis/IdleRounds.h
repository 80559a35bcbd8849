// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Iterations of a loop that concern only some of its rows, and warpgroups that skip them.

#ifndef TILEWRIGHT_PASSES_TGPU_ANALYSIS_IDLEROUNDS_H
#define TILEWRIGHT_PASSES_TGPU_ANALYSIS_IDLEROUNDS_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// Whether an iteration in which a row keeps no pair yields the carried values of that row
/// unchanged, as in softmax, where scores of -inf leave the maximum unchanged and add zeros. This
/// does not hold for rows with NaN or infinities, nor for loops that combine rows (IdleRows.h).
bool leavesIdleRows(tile::ForBlocksOp loop);

/// The role's first iteration: the minimum over its warpgroups if the lower bound is a
/// tgpu.first_round, otherwise the lower bound.
mlir::Value getFirstOfAll(mlir::Value lowerBound);

/// If a loop of skipped iterations precedes `front`, adds to it the turns that the other warpgroups
/// take meanwhile. `end` is the upper bound of the chain of loops that begins with `front`;
/// `roundsWithout` of its iterations have no turn.
void writeMissedTurns(mlir::scf::ForOp front, mlir::Value turns, mlir::Value end,
                      int64_t roundsWithout);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ANALYSIS_IDLEROUNDS_H
