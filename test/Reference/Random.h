// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Deterministic inputs: N(0, 1) by seed (the same on every machine), and the random bits of
// dropout.

#ifndef TILEWRIGHT_TEST_REFERENCE_RANDOM_H
#define TILEWRIGHT_TEST_REFERENCE_RANDOM_H

#include "test/Reference/Rounding.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright::reference {

/// A stream of numbers that depends only on the seed (splitmix64, Box-Muller).
class Generator {
public:
  explicit Generator(uint64_t seed) : state(seed) {}
  uint64_t bits();
  /// Uniform in (0, 1).
  double uniform();
  double normal();
  /// Uniform in [low, high).
  int64_t integer(int64_t low, int64_t high);

private:
  uint64_t state;
  double spare = 0.0;
  bool hasSpare = false;
};

/// n samples of N(0, 1) * deviation, rounded to the type.
std::vector<double> normals(size_t n, uint64_t seed, Type type = Type::F64, double deviation = 1.0);

/// Philox4x32 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key,
                               int rounds = 10);

/// Dropout of attention probabilities. Of the eight numbers of 16 bits of the block of Philox4x32-7
/// with
///   key = (lo32(seed), hi32(seed) ^ hi32(offset + b * 2^32)),
///   counter = (j without its bits 0 and 3, i with a zero for its bit 3, h, lo32(offset)),
/// the pair (b, h, i, j) has number 4 * i[3] + 2 * j[3] + j[0]. It is dropped where that is below t
/// = floor(p * 2^16), a kept value is scaled by 2^16 / (2^16 - t).
struct Dropout {
  double p = 0.0;
  uint64_t seed = 0;
  uint64_t offset = 0;

  bool isActive() const { return p > 0.0; }
  bool keeps(int64_t b, int64_t h, int64_t i, int64_t j) const;
  double scale() const { return p < 1.0 ? 0x1p16 / (0x1p16 - threshold()) : 0.0; }

private:
  double threshold() const { return std::floor(p * 0x1p16); }
};

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_RANDOM_H
