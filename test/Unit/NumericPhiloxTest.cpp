// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Philox against the known answers that its authors publish with Random123, and the bulk form
// against single blocks.

#include "NumericTesting.h"
#include "PhiloxBlock.h"
#include "base/Numeric/Philox.h"

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

class NumericPhilox : public IsaTest {};
TILEWRIGHT_FOR_EVERY_ISA(NumericPhilox);

using Block = std::array<uint32_t, 4>;

TEST_P(NumericPhilox, KnownAnswers) {
  EXPECT_EQ(philoxBlock({0, 0}, {0, 0, 0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philoxBlock({~0u, ~0u}, {~0u, ~0u, ~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philoxBlock({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_P(NumericPhilox, TilesAgreeWithBlocks) {
  constexpr size_t n = 1337;
  std::array<std::vector<uint32_t>, 4> words;
  Random random(9);
  for (size_t i = 0; i < n; ++i) {
    words[0].push_back(uint32_t(i + 2)); // neighbors share blocks, starting in the middle of one
    words[1].push_back(uint32_t(i / 100));
    words[2].push_back(uint32_t(random.bits()));
    words[3].push_back(0xfffffff0u + uint32_t(i));
  }
  std::array<uint32_t, 2> key = {12, 0x80000001};
  // Every choice of runs and splats; the last choice has random first words.
  for (unsigned mask = 0; mask <= 16; ++mask) {
    if (mask == 16)
      for (uint32_t &word : words[0])
        word = uint32_t(random.bits());
    std::array<Operand, 4> counter;
    for (unsigned w = 0; w < 4; ++w)
      counter[w] = mask >> w & 1 ? Operand::splat(&words[w][5]) : Operand::span(words[w].data());
    for (unsigned bits : {8u, 16u, 32u}) {
      std::vector<uint32_t> out(n);
      unsigned rounds = bits == 8 ? 7 : 10;
      philoxTile(key, bits, rounds, counter, out.data(), n);
      for (size_t i = 0; i < n; ++i) {
        auto word = [&](unsigned w) { return words[w][mask >> w & 1 ? 5 : i]; };
        uint32_t numbers = 128 / bits, at = word(0) % numbers * bits;
        auto block = philoxBlock(key, {word(0) / numbers, word(1), word(2), word(3)}, rounds);
        ASSERT_EQ(out[i], block[at / 32] << (32 - bits - at % 32))
            << mask << " at " << i << ", " << bits << " bits";
      }
    }
  }
}

} // namespace
