// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The pattern by which rows of a shared buffer are permuted, as the copy engine and wgmma know it.

#ifndef TILEWRIGHT_LIB_LAYOUT_SWIZZLE_H
#define TILEWRIGHT_LIB_LAYOUT_SWIZZLE_H

#include <cstdint>

namespace tilewright::layout {

/// The value is the width of a panel in bytes.
enum class Swizzle : int32_t { None = 0, B32 = 32, B64 = 64, B128 = 128 };

/// The xor of the swizzle, on an address or on an offset from an aligned address. Its own inverse.
constexpr int64_t swizzleAddress(int64_t address, Swizzle swizzle) {
  // A panel of 16 << b bytes permutes with b bits.
  int64_t mask = swizzle == Swizzle::None ? 0 : static_cast<int64_t>(swizzle) / 16 - 1;
  return address ^ (((address >> 7) & mask) << 4);
}

} // namespace tilewright::layout

#endif // TILEWRIGHT_LIB_LAYOUT_SWIZZLE_H
