// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many registers the tiles of a block of code take at most.

#ifndef TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H
#define TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

namespace tilewright::tgpu {

/// 32-bit registers that tiles may take, of the 255 of a thread: the rest holds addresses, indices
/// and operands on their way to a product.
constexpr int64_t registersForTiles = 208;

/// Those up to which operands are kept that could be read again: products go in steps by then, and
/// have the operands of two of them in registers.
constexpr int64_t registersForKeeping = 184;

/// Told of an operation and what lives just before it or just behind it, whichever is more.
using PressureObserver = llvm::function_ref<void(mlir::Operation *, int64_t)>;

/// The most that lives at one place of a block: what it defines, and the `inherited` values, which
/// are not needed outside any more; of a loop that brings them around, too, until their last use in
/// its body. `registers`: of a value, 0 where it does not stay in any.
int64_t getPressure(mlir::Block &block, llvm::ArrayRef<mlir::Value> inherited,
                    llvm::function_ref<int64_t(mlir::Value)> registers,
                    PressureObserver observer = nullptr);

/// Whether a tile is made where it is used, and stays in no register: constants, positions, and
/// rows spread over a tile.
bool isMadeWhereUsed(mlir::Value value);

/// Registers of each of `threads` threads for a value of a mapped kernel, by its layout.
int64_t getRegistersOf(mlir::Type type, int64_t threads);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H
