// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Accumulators that a tile adds to memory after its last iteration, by TMA.

#ifndef TILEWRIGHT_PASSES_TGPU_MEMORY_STAGESUMS_H
#define TILEWRIGHT_PASSES_TGPU_MEMORY_STAGESUMS_H

#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

/// Adds accumulators to memory through buffers that are free after a tile's last iteration, for a
/// role of `warps` warps that processes tile after tile. Returns whether it replaced an addition.
bool stageSums(KernelOp kernel, mlir::Block &role, int64_t warps);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MEMORY_STAGESUMS_H
