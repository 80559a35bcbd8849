// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The description of a block loop shared by the files that lower tile.for_blocks.

#ifndef TILEWRIGHT_PASSES_TGPU_MAP_BLOCKLOOP_H
#define TILEWRIGHT_PASSES_TGPU_MAP_BLOCKLOOP_H

#include "passes/Tgpu/Map/KernelMapper.h"

namespace tilewright::tgpu {

/// Values and facts that are invariant while the loop runs.
struct KernelMapper::BlockLoop {
  int64_t rowCount, columnCount; ///< of `keep`
  mlir::Value lower, upper, start;
  mlir::Value origin;     ///< where block 0 begins
  mlir::Value rows;       ///< of the fixed interval, up to its limit
  mlir::Value first, end; ///< range of block numbers that may hold a kept pair
  /// The range of iterations with full blocks (with a list: of block numbers); null if unknown.
  mlir::Value fullFirst, fullEnd;
  bool hasIdleRows = false;
  /// The range that may hold a kept pair and the range of full blocks end in the same block or at
  /// its beginning.
  bool endsInOneBlock = false;
  bool hasOneBefore = false; ///< at most one iteration precedes the full blocks
  bool hasOneAfter = false;  ///< at most one iteration follows them
  /// If `tight`: the mask keeps the positions [rowBegin, rowEnd) of each row.
  mlir::Value rowBegin, rowEnd;
  bool hasRowBegins = false; ///< whether rowBegin may differ from `lower`
  /// Whether every block of the range holds a kept pair; null if unknown or unused.
  mlir::Value tight;
  mlir::Value holdsPairs; ///< the same, also for a list's blocks
  mlir::Value listEnd;    ///< list entries from here on are outside of the interval
};

/// Returns the function that computes the loop's ranges. The loop must have one.
mlir::func::FuncOp getRanges(tile::ForBlocksOp op);

/// Clones a function's body with the given operands and returns its results.
llvm::SmallVector<mlir::Value> cloneBody(mlir::OpBuilder &b, mlir::func::FuncOp function,
                                         mlir::ValueRange operands);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MAP_BLOCKLOOP_H
