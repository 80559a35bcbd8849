// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library that throws and catches, and needs random bits: what makes a static libstdc++ demand
// _dl_find_object and arc4random.

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {
struct Counter {
  int &count;
  ~Counter() { ++count; }
};

void descend(int depth, int &unwound) {
  Counter counter{unwound};
  if (depth == 0)
    throw std::runtime_error("thrown");
  descend(depth - 1, unwound);
}
} // namespace

/// 0: an exception passes the frames of this library, and libstdc++'s own reaches this library.
extern "C" int throwAndCatch(int depth) {
  int unwound = 0;
  try {
    descend(depth, unwound);
    return 1;
  } catch (const std::exception &error) {
    if (error.what() != std::string("thrown") || unwound != depth + 1)
      return 2;
  }
  try {
    return std::vector<int>(1).at(static_cast<size_t>(depth) + 1) + 3;
  } catch (const std::out_of_range &) {
    return 0;
  }
}

extern "C" unsigned randomBits() { return std::random_device()(); }
