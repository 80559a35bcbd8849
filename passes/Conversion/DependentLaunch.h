// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches of a program that overlap (tile-overlap-launches). Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_DEPENDENTLAUNCH_H
#define TILEWRIGHT_PASSES_CONVERSION_DEPENDENTLAUNCH_H

#include "passes/Conversion/ThreadBuilder.h"

namespace tilewright::tgpu {

/// In the code of a kernel, which is complete: lets the next launch start when all blocks of the
/// kernel have, and waits for the end of the previous launch in front of the first access to
/// memory, if the kernel has the attributes. Fails for a target that cannot.
mlir::LogicalResult overlapLaunches(KernelOp kernel, mlir::LLVM::LLVMFuncOp func, ThreadBuilder &b);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_DEPENDENTLAUNCH_H
