// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// 64-bit FNV-1a: detects damage of bundles and cached code. It does not protect against
// manipulation.

#ifndef TILEWRIGHT_RUNTIME_CHECKSUM_H
#define TILEWRIGHT_RUNTIME_CHECKSUM_H

#include <cstddef>
#include <cstdint>

namespace tilewright::runtime {

inline uint64_t checksum(const void *data, size_t bytes) {
  uint64_t state = 0xcbf29ce484222325ull;
  const unsigned char *byte = static_cast<const unsigned char *>(data);
  for (size_t i = 0; i < bytes; ++i)
    state = (state ^ byte[i]) * 0x100000001b3ull;
  return state;
}

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_CHECKSUM_H
