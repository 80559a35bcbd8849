// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a tile leaves through shared memory, by TMA.

#ifndef TILEWRIGHT_PASSES_TGPU_STOREPIECES_H
#define TILEWRIGHT_PASSES_TGPU_STOREPIECES_H

#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

/// All rows of a tile, and as many columns as the widest swizzle holds, at a time.
struct StorePieces {
  SharedType type;     ///< of a piece
  TensorMapType map;   ///< of the view
  int64_t count = 0;   ///< of pieces
  int64_t buffers = 0; ///< used in turn: a divisor of their number

  /// No value where the tile must be stored from registers: it is no accumulator of wgmma, or its
  /// view has no tensor map that may be stored through. `buffers` is the most there may be.
  static std::optional<StorePieces> get(KernelOp kernel, StoreOp store, int64_t buffers);

  /// How many pieces the bytes of a slot hold, side by side.
  int64_t getCountIn(SharedType slot) const;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_STOREPIECES_H
