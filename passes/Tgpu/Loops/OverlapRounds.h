// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Overlaps consecutive iterations. Skeleton overlap:
//
//   stage 0   products whose results other products of the iteration read, and their dependents
//   stage 1   the last products, whose results the iteration does not read: run one iteration later
//
// An iteration of the pipeline is then
//
//   stage 0   wait for the slots, issue the products that depend on nothing else
//   stage 1   update the accumulators; wait for the slots, issue the previous iteration's products
//   stage 0   wait for the products, release their slots, compute
//   stage 1   wait for the products, release their slots
//   stage 0   operations that depend on results of stage 1
//
// Stage 1 is first if another role reads the same slots, so that these are released early.
//
// So the computations of stage 0 run while the matrix unit executes the products of stage 1.
// The division follows from data dependences between products alone.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_OVERLAPROUNDS_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_OVERLAPROUNDS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// Gives each operation of the loop its place in two stages. Returns false if all products are of
/// one kind or if a dependence forbids it. With `turns`, the warpgroups take turns in issuing.
bool overlapRounds(mlir::scf::ForOp loop, mlir::Value turns);

/// Removes the places that overlapRounds assigned before it failed for another part of the loop.
void clearRounds(mlir::scf::ForOp loop);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_OVERLAPROUNDS_H
