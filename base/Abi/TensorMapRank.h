// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dimensions of tensor maps, for the compiler, which writes copies, and the runtime, which makes
// the maps.

#ifndef TILEWRIGHT_BASE_ABI_TENSORMAPRANK_H
#define TILEWRIGHT_BASE_ABI_TENSORMAPRANK_H

#include <cstdint>

namespace tilewright {

struct TensorMapRank {
  static constexpr int64_t most = 5;
  /// What a ragged map has more than its view (base/Abi/KernelAbi.h).
  static constexpr int64_t ofRagged = 2;
  /// Whether a ragged map over a view of `rank` has no place for the view's first dimension.
  static constexpr bool leavesOutFirst(int64_t rank) { return rank + ofRagged > most; }
  /// Of views of ragged maps. Only one dimension can be left out.
  static constexpr int64_t mostOfRaggedView = most - ofRagged + 1;
};

} // namespace tilewright

#endif // TILEWRIGHT_BASE_ABI_TENSORMAPRANK_H
