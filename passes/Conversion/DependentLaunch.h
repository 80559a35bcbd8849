// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches of a program that overlap (tile-overlap-launches). Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_DEPENDENTLAUNCH_H
#define TILEWRIGHT_PASSES_CONVERSION_DEPENDENTLAUNCH_H

#include "passes/Conversion/ThreadBuilder.h"

namespace tilewright::tgpu {

/// In the code of a kernel, which is complete: waits for the end of the previous launch before the
/// first access to global memory, in each role by itself, and then lets the next launch start, if
/// the kernel has the attributes. `entry` is the block of the code, `roles` are those of its roles.
/// Fails for a target that cannot.
mlir::LogicalResult overlapLaunches(KernelOp kernel, mlir::Block &entry,
                                    mlir::ArrayRef<mlir::Block *> roles, ThreadBuilder &b);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_DEPENDENTLAUNCH_H
