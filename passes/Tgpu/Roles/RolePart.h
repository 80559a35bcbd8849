// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of a kernel that a role executes.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLES_ROLEPART_H
#define TILEWRIGHT_PASSES_TGPU_ROLES_ROLEPART_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright::tgpu {

/// The operations of a role, and those results and iteration arguments of loops and branches that
/// it needs.
struct RolePart {
  llvm::DenseSet<mlir::Operation *> ops;
  llvm::DenseSet<mlir::Value> values;
};

/// The values that an operation and its regions read.
inline llvm::SetVector<mlir::Value> getInputs(mlir::Operation *op) {
  llvm::SetVector<mlir::Value> inputs(op->operand_begin(), op->operand_end());
  mlir::getUsedValuesDefinedAbove(op->getRegions(), inputs);
  return inputs;
}

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLES_ROLEPART_H
