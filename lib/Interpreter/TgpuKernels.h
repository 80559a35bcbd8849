// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes tgpu kernels on the CPU device, to check that a mapping preserves the meaning of a
// kernel.

#ifndef TILEWRIGHT_LIB_INTERPRETER_TGPUKERNELS_H
#define TILEWRIGHT_LIB_INTERPRETER_TGPUKERNELS_H

#include "mlir/IR/BuiltinOps.h"

namespace tilewright {

/// Replaces each tgpu.kernel by a tile.kernel with the same body for runOnCpu. Layouts are ignored,
/// a shared buffer is a mutable tile, copies are executed immediately, and barriers do nothing:
/// this checks values, not synchronization. Only runOnCpu accepts such a module; it rejects rings,
/// roles and other operations of sm_90a.
void unwrapTgpuKernels(mlir::ModuleOp module);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_TGPUKERNELS_H
