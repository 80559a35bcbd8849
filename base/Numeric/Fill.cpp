// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies the element as a word of its width.

#include "base/Numeric/Fill.h"

#include <algorithm>
#include <cstring>

using namespace tilewright;
using namespace tilewright::numeric;

template <typename Word> static void fillWords(const void *element, void *out, size_t n) {
  Word word;
  std::memcpy(&word, element, sizeof(Word));
  std::fill_n(static_cast<Word *>(out), n, word);
}

void tilewright::numeric::fill(Storage storage, const void *element, void *out, size_t n) {
  switch (storageBytes(storage)) {
  case 1:
    return fillWords<uint8_t>(element, out, n);
  case 4:
    return fillWords<uint32_t>(element, out, n);
  default:
    return fillWords<uint64_t>(element, out, n);
  }
}
