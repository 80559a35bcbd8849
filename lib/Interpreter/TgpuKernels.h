// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs tgpu kernels on the CPU device, to check that a mapping keeps the meaning of a kernel.

#ifndef TILEWRIGHT_LIB_INTERPRETER_TGPUKERNELS_H
#define TILEWRIGHT_LIB_INTERPRETER_TGPUKERNELS_H

#include "mlir/IR/BuiltinOps.h"

namespace tilewright {

/// Puts a tile.kernel with the same body in place of each tgpu.kernel, which runOnCpu then takes.
/// In it layouts mean nothing, a shared buffer is a tile that is overwritten, copies are done at
/// once, and barriers are nothing: the values are checked, not the synchronisation. The module is
/// for runOnCpu alone. Rings, roles and what only sm_90a has are refused there.
void unwrapTgpuKernels(mlir::ModuleOp module);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_TGPUKERNELS_H
