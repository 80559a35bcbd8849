// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Masks and score modifiers.

#include "test/Reference/Modifiers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tilewright::reference {

MaskMod sinkPlusWindow(int64_t sinks, int64_t left, int64_t shift) {
  return [=](int64_t, int64_t, int64_t i, int64_t j) {
    return j <= i + shift && (j < sinks || j >= i + shift - left);
  };
}

MaskMod prefixLm(std::vector<int64_t> prefix, int64_t shift) {
  return [=](int64_t b, int64_t, int64_t i, int64_t j) { return j <= i + shift || j < prefix[b]; };
}

MaskMod documents(std::vector<int64_t> queryIds, std::vector<int64_t> keyIds, int64_t numQueries,
                  int64_t numKeys) {
  // A list for one batch applies to all.
  int64_t queryStride = static_cast<int64_t>(queryIds.size()) > numQueries ? numQueries : 0;
  int64_t keyStride = static_cast<int64_t>(keyIds.size()) > numKeys ? numKeys : 0;
  return [=](int64_t b, int64_t, int64_t i, int64_t j) {
    return queryIds[b * queryStride + i] == keyIds[b * keyStride + j];
  };
}

MaskMod blockSparse(std::vector<char> table, int64_t numKeyBlocks, int64_t blockRows,
                    int64_t blockKeys) {
  return [=](int64_t, int64_t, int64_t i, int64_t j) {
    return table[i / blockRows * numKeyBlocks + j / blockKeys] != 0;
  };
}

MaskMod both(MaskMod first, MaskMod second) {
  return [=](int64_t b, int64_t h, int64_t i, int64_t j) {
    return first(b, h, i, j) && second(b, h, i, j);
  };
}

ScoreMod softcap(double cap) {
  return {[=](double s, int64_t, int64_t, int64_t, int64_t) { return cap * std::tanh(s / cap); },
          [=](double s, int64_t, int64_t, int64_t, int64_t) {
            double t = std::tanh(s / cap);
            return 1.0 - t * t;
          }};
}

ScoreMod alibi(std::vector<double> slopes, int64_t shift) {
  return {[=](double s, int64_t, int64_t h, int64_t i, int64_t j) {
            return s - slopes[h] * static_cast<double>(std::abs(i + shift - j));
          },
          [](double, int64_t, int64_t, int64_t, int64_t) { return 1.0; }};
}

std::vector<double> alibiSlopes(int64_t numHeads) {
  std::vector<double> slopes(numHeads);
  for (int64_t h = 0; h < numHeads; ++h)
    slopes[h] = roundTo(
        Type::F32, std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(numHeads)));
  return slopes;
}

ScoreMod relativeBias(std::vector<double> table, int64_t maxDistance) {
  return {[=](double s, int64_t, int64_t h, int64_t i, int64_t j) {
            int64_t distance = std::clamp(j - i, -maxDistance, maxDistance);
            return s + table[h * (2 * maxDistance + 1) + distance + maxDistance];
          },
          [](double, int64_t, int64_t, int64_t, int64_t) { return 1.0; }};
}

int64_t t5Bucket(int64_t i, int64_t j, int64_t buckets, int64_t maxDistance, bool isBidirectional) {
  int64_t position = j - i, first = 0;
  if (isBidirectional) {
    buckets /= 2;
    first = position > 0 ? buckets : 0;
    position = std::abs(position);
  } else {
    position = -std::min<int64_t>(position, 0);
  }
  int64_t exact = buckets / 2;
  if (position < exact)
    return first + position;
  float ratio = static_cast<float>(position) / static_cast<float>(exact);
  auto span = static_cast<float>(std::log(double(maxDistance) / double(exact)));
  float place = std::log(ratio) / span * static_cast<float>(buckets - exact);
  return first + std::min(exact + static_cast<int64_t>(place), buckets - 1);
}

ScoreMod t5Bias(std::vector<double> table, int64_t buckets, int64_t maxDistance,
                bool isBidirectional) {
  return {[=](double s, int64_t, int64_t h, int64_t i, int64_t j) {
            return s + table[h * buckets + t5Bucket(i, j, buckets, maxDistance, isBidirectional)];
          },
          [](double, int64_t, int64_t, int64_t, int64_t) { return 1.0; }};
}

ScoreMod compose(ScoreMod outer, ScoreMod inner) {
  return {[=](double s, int64_t b, int64_t h, int64_t i, int64_t j) {
            return outer.value(inner.value(s, b, h, i, j), b, h, i, j);
          },
          [=](double s, int64_t b, int64_t h, int64_t i, int64_t j) {
            return outer.derivative(inner.value(s, b, h, i, j), b, h, i, j) *
                   inner.derivative(s, b, h, i, j);
          }};
}

} // namespace tilewright::reference
