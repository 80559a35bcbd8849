// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pieces in which a tile is stored through shared memory, by TMA.

#ifndef TILEWRIGHT_PASSES_TGPU_STOREPIECES_H
#define TILEWRIGHT_PASSES_TGPU_STOREPIECES_H

#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

/// A piece has all rows of the tile and as many columns as the widest swizzle holds.
struct StorePieces {
  SharedType type;     ///< of a piece
  TensorMapType map;   ///< of the view
  int64_t count = 0;   ///< of pieces
  int64_t buffers = 0; ///< used in turn; divides `count`

  /// Returns nothing if the tile must be stored from registers: it is no accumulator of wgmma, or
  /// its view has no tensor map that permits stores. `buffers` is the maximum number of buffers.
  static std::optional<StorePieces> get(KernelOp kernel, StoreOp store, int64_t buffers);

  /// The number of pieces that fit side by side into a slot.
  int64_t getCountIn(SharedType slot) const;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_STOREPIECES_H
