// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Philox4x32, the counter-based random generator of Salmon, Moraes, Dror and Shaw, "Parallel
// random numbers: as easy as 1, 2, 3" (SC 2011).

#ifndef TILEWRIGHT_BASE_NUMERIC_PHILOX_H
#define TILEWRIGHT_BASE_NUMERIC_PHILOX_H

#include "base/Numeric/Elementwise.h"

#include <array>

namespace tilewright::numeric {

/// For a tile: a block has k = 128 / `bits` numbers of `bits` bits (8, 16 or 32), from the lowest
/// of its first word on. Element e has number c0 mod k of the block whose counter is (c0 / k, c1,
/// c2, c3) in its uppermost bits, and below it the numbers before it in its word and zeros; c0..c3
/// are the e-th words of `counter` (32-bit). Elements that share a block with one of the last few
/// blocks before them compute it once. `out` must not overlap a counter.
void philoxTile(std::array<uint32_t, 2> key, unsigned bits, unsigned rounds,
                const std::array<Operand, 4> &counter, uint32_t *out, size_t n);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_PHILOX_H
