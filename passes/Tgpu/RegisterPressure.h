// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the maximum number of registers that the tiles of a block occupy. What they may occupy
// is in RegisterLimits.h.

#ifndef TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H
#define TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

namespace tilewright::tgpu {

/// Called with each operation and the registers that are live just before or after it, whichever is
/// more.
using PressureObserver = llvm::function_ref<void(mlir::Operation *, int64_t)>;

/// The maximum pressure in a block, of values that it defines and of `inherited` values, which have
/// no use after the block; a loop also keeps the values it carries live until their last use in the
/// body. `registers` returns a value's registers, 0 if it is not kept in registers.
int64_t getPressure(mlir::Block &block, llvm::ArrayRef<mlir::Value> inherited,
                    llvm::function_ref<int64_t(mlir::Value)> registers,
                    PressureObserver observer = nullptr);

/// Whether a tile is recomputed at its uses and occupies no register: constants, positions and
/// expanded rows.
bool isMadeWhereUsed(mlir::Value value);

/// The registers of each of `threads` threads for a value of a mapped kernel, by its layout.
int64_t getRegistersOf(mlir::Type type, int64_t threads);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H
