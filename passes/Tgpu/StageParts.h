// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops whose operations have stages and places, as tgpu-expand-stages reads them.

#ifndef TILEWRIGHT_PASSES_TGPU_STAGEPARTS_H
#define TILEWRIGHT_PASSES_TGPU_STAGEPARTS_H

#include "passes/Tgpu/LoopChain.h"

#include "llvm/ADT/SetVector.h"

namespace tilewright::tgpu {

/// One loop of a chain.
struct Part {
  mutable mlir::scf::ForOp loop;              ///< a handle; asking it is not const in MLIR
  llvm::SmallVector<mlir::Operation *> ops;   ///< by their order
  llvm::SetVector<mlir::Value> crossing;      ///< from stage 0 to stage 1, as stage 1 reads them
  llvm::SmallVector<int64_t> stagesOfYielded; ///< of each iteration argument

  bool contains(mlir::Value value) const;
};

int64_t getStage(mlir::Operation *op);

/// The parts of a chain, all of whose operations have places that are legal (see ExpandStages.cpp);
/// fails with a diagnostic otherwise. All parts have stage 0 or stage 1 in common.
mlir::FailureOr<llvm::SmallVector<Part>> readParts(const LoopChain &chain);

/// Whether the parts have stage 1 in common; otherwise, stage 0.
bool shareSecondStage(llvm::ArrayRef<Part> parts);

/// Makes all parts list the same values that cross, where they have stage 0 in common: each part
/// those that some part reads.
void uniteCrossing(llvm::MutableArrayRef<Part> parts);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_STAGEPARTS_H
