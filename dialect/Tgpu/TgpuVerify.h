// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules that several operations share: who executes them, and on what.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUVERIFY_H
#define TILEWRIGHT_DIALECT_TGPU_TGPUVERIFY_H

#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

/// The target of the operation's kernel, where it has one, has what the operation needs.
mlir::LogicalResult verifyFeature(mlir::Operation *op, Feature feature);

/// Register tiles among operands and results are spread over the warps that execute the operation.
mlir::LogicalResult verifyWarps(mlir::Operation *op);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUVERIFY_H
