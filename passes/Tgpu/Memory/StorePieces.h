// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pieces in which a tile is stored through shared memory, by TMA.

#ifndef TILEWRIGHT_PASSES_TGPU_MEMORY_STOREPIECES_H
#define TILEWRIGHT_PASSES_TGPU_MEMORY_STOREPIECES_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::tgpu {

/// A piece has all rows of the tile and as many columns as the widest swizzle holds. The last one
/// may have fewer, if the view ends where the tile does: a copy of its whole panel writes no more.
struct StorePieces {
  SharedType type;     ///< of a piece
  TensorMapType map;   ///< of the view
  int64_t columns = 0; ///< of the tile
  int64_t count = 0;   ///< of pieces
  int64_t buffers = 0; ///< used in turn; divides `count`

  /// Returns nothing if the tile must be stored from registers: it is not an accumulator of wgmma,
  /// or its view has no tensor map that permits stores. `buffers` is the maximum number of buffers.
  /// For StoreOp and AtomicAddOp.
  template <typename WriteOp>
  static std::optional<StorePieces> get(KernelOp kernel, WriteOp write, int64_t buffers);

  /// The columns of `most` pieces from column `first` on, as far as the tile has them.
  int64_t getColumnsFrom(int64_t first, int64_t most = 1) const;

  /// The type of a buffer with so many columns.
  SharedType getType(int64_t columnCount) const;

  /// The number of pieces that fit side by side into a slot.
  int64_t getCountIn(SharedType slot) const;
};

/// Whether a copy by TMA of panels of `panel` columns that hold the tile may write it, and writes
/// nothing else: the tile has rank 2, rows of the view are whole chunks of 16 bytes, and the tile
/// fills the panels, or the rest of the last one is past the end of the view. For StoreOp and
/// AtomicAddOp.
template <typename WriteOp> bool mayWritePanels(WriteOp write, int64_t panel);

/// `count` columns of a tile, starting at `first`. Values that are computed element by element only
/// for the store are computed for these columns, so that the registers of one piece are free before
/// the next begins.
mlir::Value getColumns(mlir::ImplicitLocOpBuilder &b, mlir::Value tile, int64_t first,
                       int64_t count);

/// The existing tensor map of the view, or a new one.
mlir::Value getStoreMap(mlir::ImplicitLocOpBuilder &b, mlir::Value view, TensorMapType type);

/// Starts the copy of `buffer` to the columns of the store that start at `first`, or its addition.
template <typename WriteOp>
void storePiece(mlir::ImplicitLocOpBuilder &b, WriteOp write, mlir::Value buffer, mlir::Value map,
                int64_t first, bool perWarpgroup = false);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MEMORY_STOREPIECES_H
