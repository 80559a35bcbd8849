// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The swizzles of shared memory that TMA and wgmma support, for the tgpu dialect, its lowering and
// the manifest of a bundle.

#ifndef TILEWRIGHT_BASE_LAYOUT_SWIZZLE_H
#define TILEWRIGHT_BASE_LAYOUT_SWIZZLE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright::layout {

/// The value is the width of a panel in bytes.
enum class Swizzle : int32_t { None = 0, B32 = 32, B64 = 64, B128 = 128 };

/// 0 without a swizzle.
constexpr int64_t panelBytes(Swizzle swizzle) { return static_cast<int64_t>(swizzle); }

/// All of them, by the names that types of the tgpu dialect have.
struct NamedSwizzle {
  Swizzle swizzle;
  std::string_view name;
};
inline constexpr NamedSwizzle swizzleNames[] = {
    {Swizzle::None, "none"}, {Swizzle::B32, "b32"}, {Swizzle::B64, "b64"}, {Swizzle::B128, "b128"}};

/// The swizzle with panels of this number of bytes.
constexpr std::optional<Swizzle> findSwizzle(uint64_t bytes) {
  for (const NamedSwizzle &each : swizzleNames)
    if (static_cast<uint64_t>(panelBytes(each.swizzle)) == bytes)
      return each.swizzle;
  return std::nullopt;
}

/// The required alignment of a buffer: a pattern repeats every 8 rows of its width. Without one,
/// TMA requires 128.
constexpr int64_t alignmentOf(Swizzle swizzle) {
  return swizzle == Swizzle::None ? 128 : 8 * panelBytes(swizzle);
}

/// The bits of a row's number that permute its chunks of 16 bytes: b of them in a panel of 16 << b
/// bytes.
constexpr int64_t swizzleMask(Swizzle swizzle) {
  return swizzle == Swizzle::None ? 0 : panelBytes(swizzle) / 16 - 1;
}

/// The xor of the swizzle, on an address or on an offset from an aligned address. Its own inverse.
constexpr int64_t swizzleAddress(int64_t address, Swizzle swizzle) {
  return address ^ (((address >> 7) & swizzleMask(swizzle)) << 4);
}

} // namespace tilewright::layout

#endif // TILEWRIGHT_BASE_LAYOUT_SWIZZLE_H
