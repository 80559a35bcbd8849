// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of f32 that do not depend on the order of their terms: fixed point over the whole range of
// the type, in digits that are added as integers.
//
// A sum is 13 words of 64 bits. Word k, 0 <= k < 12, holds a multiple of 2^(24 k - 149), of either
// sign; a term adds less than 2^24 to two of them, so 2^39 terms fit. The last word holds bits: 1
// for a NaN, 2 for an infinity, 4 for a minus infinity among the terms.

#ifndef TILEWRIGHT_BASE_NUMERIC_EXACTSUM_H
#define TILEWRIGHT_BASE_NUMERIC_EXACTSUM_H

#include <cstdint>

namespace tilewright::numeric {

constexpr int exactSumDigits = 12, exactSumWords = 13;

/// Adds a float, atomically against other calls. \p stride is that of the words.
void addExactly(float term, int64_t *words, int64_t stride = 1);

/// Adds an f64 as its three leading floats: exactly, unless it is beyond their range or needs bits
/// below 2^-149.
void addExactly(double term, int64_t *words, int64_t stride = 1);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_EXACTSUM_H
