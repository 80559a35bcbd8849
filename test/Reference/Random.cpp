// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Deterministic inputs and Philox.

#include "test/Reference/Random.h"

#include <cmath>

namespace tilewright::reference {

uint64_t Generator::bits() {
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double Generator::uniform() { return (static_cast<double>(bits() >> 12) + 0.5) * 0x1p-52; }

double Generator::normal() {
  if (hasSpare) {
    hasSpare = false;
    return spare;
  }
  double radius = std::sqrt(-2.0 * std::log(uniform()));
  double angle = 6.283185307179586 * uniform();
  spare = radius * std::sin(angle);
  hasSpare = true;
  return radius * std::cos(angle);
}

int64_t Generator::integer(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low));
}

std::vector<double> normals(size_t n, uint64_t seed, Type type, double deviation) {
  Generator generator(seed);
  std::vector<double> values(n);
  for (double &value : values)
    value = roundTo(type, generator.normal() * deviation);
  return values;
}

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key,
                               int rounds) {
  for (int round = 0; round < rounds; ++round) {
    uint64_t left = static_cast<uint64_t>(counter[0]) * 0xd2511f53u;
    uint64_t right = static_cast<uint64_t>(counter[2]) * 0xcd9e8d57u;
    counter = {
        static_cast<uint32_t>(right >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(right),
        static_cast<uint32_t>(left >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(left)};
    key = {key[0] + 0x9e3779b9u, key[1] + 0xbb67ae85u};
  }
  return counter;
}

bool Dropout::keeps(int64_t b, int64_t h, int64_t i, int64_t j) const {
  if (p >= 1.0)
    return false;
  uint64_t stream = offset + (static_cast<uint64_t>(b) << 32);
  auto word = philox({static_cast<uint32_t>(j / 16 * 4 + j / 2 % 4), static_cast<uint32_t>(i & ~8),
                      static_cast<uint32_t>(h), static_cast<uint32_t>(stream)},
                     {static_cast<uint32_t>(seed),
                      static_cast<uint32_t>(seed >> 32) ^ static_cast<uint32_t>(stream >> 32)},
                     /*rounds=*/7);
  uint32_t number = word[i / 8 % 2 * 2 + j / 8 % 2] >> j % 2 * 16 & 0xffff;
  return number >= threshold();
}

} // namespace tilewright::reference
