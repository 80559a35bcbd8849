// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pieces in which a tile is stored through shared memory, by TMA.

#ifndef TILEWRIGHT_PASSES_TGPU_STOREPIECES_H
#define TILEWRIGHT_PASSES_TGPU_STOREPIECES_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::tgpu {

/// A piece has all rows of the tile and as many columns as the widest swizzle holds.
struct StorePieces {
  SharedType type;     ///< of a piece
  TensorMapType map;   ///< of the view
  int64_t count = 0;   ///< of pieces
  int64_t buffers = 0; ///< used in turn; divides `count`

  /// Returns nothing if the tile must be stored from registers: it is not an accumulator of wgmma,
  /// or its view has no tensor map that permits stores. `buffers` is the maximum number of buffers.
  /// For StoreOp and AtomicAddOp.
  template <typename WriteOp>
  static std::optional<StorePieces> get(KernelOp kernel, WriteOp write, int64_t buffers);

  /// The number of pieces that fit side by side into a slot.
  int64_t getCountIn(SharedType slot) const;
};

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
                int64_t first);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_STOREPIECES_H
