// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Predicts bank conflicts of shared memory.
//
// Shared memory has 32 banks of 4 bytes. A request of a warp is served in phases: all lanes at once
// up to 4 bytes a lane, half warps at 8 bytes, quarters at 16, and one matrix a phase for ldmatrix
// and stmatrix. A phase takes as many wavefronts as its worst bank has distinct 4-byte words; one
// is ideal.

#ifndef TILEWRIGHT_BASE_LAYOUT_BANKCONFLICTS_H
#define TILEWRIGHT_BASE_LAYOUT_BANKCONFLICTS_H

#include "base/Layout/CopyPartition.h"
#include "base/Layout/RegisterAccess.h"

namespace tilewright::layout {

struct Wavefronts {
  int64_t actual = 0;
  int64_t ideal = 0; ///< one per phase with an active lane

  /// 1 without conflicts; also of an empty access.
  double factor() const { return ideal ? static_cast<double>(actual) / ideal : 1.0; }
  bool conflictFree() const { return actual == ideal; }
  Wavefronts &operator+=(const Wavefronts &other) {
    actual += other.actual;
    ideal += other.ideal;
    return *this;
  }
};

/// One access of a warp: byte offsets by lane (at most 32; negative: the lane is off), each of
/// `bytesPerLane` 1, 2, 4, 8 or 16 and aligned to that.
Wavefronts warpAccess(const std::vector<int64_t> &offsets, int bytesPerLane);

/// One ldmatrix or stmatrix: the byte offsets of its rows, 8 for each matrix.
Wavefronts matrixAccess(const std::vector<int64_t> &rowOffsets);

/// All issues of all warps of a plan.
Wavefronts wavefronts(const MatrixAccess &access);
Wavefronts wavefronts(const VectorAccess &access);
/// For the writes to shared memory.
Wavefronts wavefronts(const CopyPartition &partition);

} // namespace tilewright::layout

#endif // TILEWRIGHT_BASE_LAYOUT_BANKCONFLICTS_H
