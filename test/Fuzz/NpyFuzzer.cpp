// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: reads .npy files and converts the arrays. Any bytes may be rejected; none may
// crash.

#include "base/Npy/Npy.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

using namespace tilewright;

namespace {

void readAndConvert(const uint8_t *data, size_t size) {
  Result<NpyArray> array = parseNpy(data, size, "fuzz.npy");
  if (!array)
    return;
  for (unsigned i = 0; i < numElementTypes; ++i) {
    auto type = static_cast<ElementType>(i);
    std::vector<uint8_t> elements(array->numElements() * byteWidth(type));
    if (!convertFromNpy(*array, type, elements.data()))
      continue;
    // An array that converts in one direction can be written as a file for the other.
    if (!convertToNpy(type, elements.data(), array->shape))
      __builtin_trap();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  readAndConvert(data, size);
  // The rest of the input as the text of a header: random bytes rarely have a valid magic and
  // length.
  std::vector<uint8_t> file = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  size_t header = std::min<size_t>(size, 100);
  file.push_back(static_cast<uint8_t>(header));
  file.push_back(0);
  file.insert(file.end(), data, data + size);
  readAndConvert(file.data(), file.size());
  return 0;
}
