// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A single block of the Philox generator of base/Numeric, to compare with known answers.
// it.

#ifndef TILEWRIGHT_TEST_UNIT_PHILOXBLOCK_H
#define TILEWRIGHT_TEST_UNIT_PHILOXBLOCK_H

#include "base/Numeric/KernelTable.h"

#include <array>
#include <cstdint>

namespace tilewright::numeric {

/// The four words of the block `counter` under `key`.
inline std::array<uint32_t, 4> philoxBlock(std::array<uint32_t, 2> key,
                                           std::array<uint32_t, 4> counter, unsigned rounds = 10) {
  uint32_t *const words[4] = {&counter[0], &counter[1], &counter[2], &counter[3]};
  kernels().philoxBlocks(key[0], key[1], rounds, words, 1);
  return counter;
}

} // namespace tilewright::numeric

#endif // TILEWRIGHT_TEST_UNIT_PHILOXBLOCK_H
