// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds of which one runs under the next. Skeleton overlap:
//
//   stage 0   products whose results other products of the round read, and what is computed of them
//   stage 1   the products at the end, which nothing of the round reads: run a round later
//
// A round of the pipeline is then
//
//   stage 0   wait for the slots, issue the products that need nothing else
//   stage 1   update what they add to; wait for the slots, issue the products of the round before
//   stage 0   wait for the products, release their slots, compute
//   stage 1   wait for the products, release their slots
//   stage 0   what depends on the results of stage 1
//
// so that what stage 0 computes runs while the matrix unit multiplies for stage 1. What decides is
// which product reads what, through whatever lies between; no operation is looked for by name.

#ifndef TILEWRIGHT_PASSES_TGPU_OVERLAPROUNDS_H
#define TILEWRIGHT_PASSES_TGPU_OVERLAPROUNDS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// Gives each operation of the loop its place in two stages; false if it has but one kind of
/// products, or if something forbids it. With `turns`, the warpgroups take turns in issuing.
bool overlapRounds(mlir::scf::ForOp loop, mlir::Value turns);

/// Takes back what overlapRounds wrote before it said no to another part of the loop.
void clearRounds(mlir::scf::ForOp loop);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_OVERLAPROUNDS_H
