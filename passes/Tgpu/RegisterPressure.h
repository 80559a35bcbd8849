// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many registers the tiles of a block of code take at most.

#ifndef TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H
#define TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H

#include "mlir/IR/Block.h"

namespace tilewright::tgpu {

/// 32-bit registers that tiles may take, of the 255 of a thread: the rest holds addresses, indices
/// and operands on their way to a product.
constexpr int64_t registersForTiles = 208;

/// The most that lives at one place of a block: what it defines, and the `inherited` values, which
/// nobody outside needs any more. `registers`: of a value, 0 where it does not stay in any.
/// `counts`: the operations before and behind which to look; null stands for all.
int64_t getPressure(mlir::Block &block, llvm::ArrayRef<mlir::Value> inherited,
                    llvm::function_ref<int64_t(mlir::Value)> registers,
                    llvm::function_ref<bool(mlir::Operation *)> counts = nullptr);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_REGISTERPRESSURE_H
