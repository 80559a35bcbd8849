// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The grouping of a tile's elements into blocks.

#include "base/Numeric/Philox.h"
#include "base/Numeric/KernelTable.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::numeric;

void tilewright::numeric::philoxTile(std::array<uint32_t, 2> key, unsigned bits, unsigned rounds,
                                     const std::array<Operand, 4> &counter, uint32_t *out,
                                     size_t n) {
  // log2 of the numbers of a block, and of a word.
  unsigned inBlock = bits == 32 ? 2 : bits == 16 ? 3 : 4, inWord = inBlock - 2;
  const uint32_t *from[4];
  size_t step[4];
  for (unsigned w = 0; w < 4; ++w) {
    from[w] = static_cast<const uint32_t *>(counter[w].data);
    step[w] = counter[w].isSplat ? 0 : 1;
  }

  // The distinct blocks of a chunk, in the order in which they are met, then all their rounds, then
  // the elements' words.
  constexpr size_t chunkSize = 512, lookBack = 4;
  uint32_t blocks[4][chunkSize];
  uint16_t blockOf[chunkSize];
  uint32_t *const words[4] = {blocks[0], blocks[1], blocks[2], blocks[3]};
  for (size_t begin = 0; begin < n; begin += chunkSize) {
    size_t count = std::min(chunkSize, n - begin), numBlocks = 0;
    for (size_t i = 0; i < count; ++i) {
      size_t e = begin + i;
      uint32_t c0 = from[0][e * step[0]] >> inBlock, c1 = from[1][e * step[1]],
               c2 = from[2][e * step[2]], c3 = from[3][e * step[3]];
      size_t first = numBlocks - std::min(numBlocks, lookBack), at = numBlocks;
      while (at > first && (blocks[0][at - 1] != c0 || blocks[1][at - 1] != c1 ||
                            blocks[2][at - 1] != c2 || blocks[3][at - 1] != c3))
        --at;
      if (at == first) {
        at = ++numBlocks;
        blocks[0][at - 1] = c0;
        blocks[1][at - 1] = c1;
        blocks[2][at - 1] = c2;
        blocks[3][at - 1] = c3;
      }
      blockOf[i] = uint16_t(at - 1);
    }
    kernels().philoxBlocks(key[0], key[1], rounds, words, numBlocks);
    for (size_t i = 0; i < count; ++i) {
      uint32_t number = from[0][(begin + i) * step[0]];
      uint32_t word = blocks[number >> inWord & 3][blockOf[i]];
      out[begin + i] = word << (32 - bits - (number * bits & 31));
    }
  }
}
