// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the two files know of a block loop that make one of tile.for_blocks.

#ifndef TILEWRIGHT_PASSES_TGPU_BLOCKLOOP_H
#define TILEWRIGHT_PASSES_TGPU_BLOCKLOOP_H

#include "passes/Tgpu/KernelMapper.h"

namespace tilewright::tgpu {

/// What is fixed while the loop runs.
struct KernelMapper::BlockLoop {
  int64_t rowCount, columnCount; ///< of `keep`
  mlir::Value lower, upper, start;
  mlir::Value origin;     ///< where block 0 begins
  mlir::Value rows;       ///< of the fixed interval, up to its limit
  mlir::Value first, end; ///< numbers of the blocks that may hold a kept pair
  /// Rounds whose blocks are kept as a whole (of a list: numbers of blocks); null: not known.
  mlir::Value fullFirst, fullEnd;
  bool hasIdleRows = false;
  /// What may be kept and what is kept whole end in one block, or at its beginning.
  bool endsInOneBlock = false;
  bool hasOneBefore = false; ///< at most one round comes before the full ones
  bool hasOneAfter = false;  ///< and behind them
  /// For each row, where `tight`: the positions that the mask keeps are [rowBegin, rowEnd).
  mlir::Value rowBegin, rowEnd;
  bool hasRowBegins = false; ///< whether they begin elsewhere than at `lower`
  mlir::Value tight; ///< whether all that may hold a kept pair do; null: not known, or of no use
  mlir::Value holdsPairs; ///< the same, of blocks that a list names, too
  mlir::Value listEnd;    ///< entries of a list from here on name nothing of the interval
};

/// The function of a loop's ranges, which it has.
mlir::func::FuncOp getRanges(tile::ForBlocksOp op);

/// Writes what a function computes of these operands, and returns its results.
llvm::SmallVector<mlir::Value> cloneBody(mlir::OpBuilder &b, mlir::func::FuncOp function,
                                         mlir::ValueRange operands);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_BLOCKLOOP_H
