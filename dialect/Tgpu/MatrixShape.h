// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts spread tiles of rank 1 and 2. A tile of higher rank lies as the matrix whose rows are all
// its dimensions but the last.

#ifndef TILEWRIGHT_DIALECT_TGPU_MATRIXSHAPE_H
#define TILEWRIGHT_DIALECT_TGPU_MATRIXSHAPE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace tilewright::tgpu {

/// The shape that a layout spreads: [2, 3, 5] as [6, 5]; shapes of rank 1 and 2 as they are.
inline llvm::SmallVector<int64_t> getMatrixShape(llvm::ArrayRef<int64_t> shape) {
  if (shape.size() <= 2)
    return llvm::SmallVector<int64_t>(shape);
  int64_t rows = 1;
  for (int64_t extent : shape.drop_back())
    rows *= extent;
  return {rows, shape.back()};
}

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_DIALECT_TGPU_MATRIXSHAPE_H
