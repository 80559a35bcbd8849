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

/// Planned buffers, rings and mbarriers lie within the kernel's shared memory and are disjoint,
/// unless they are declared to share; hardware barriers are apart, or of equal use.
mlir::LogicalResult verifyResources(KernelOp kernel);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUVERIFY_H
