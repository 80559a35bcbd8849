// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Covering sets.

#include "test/Acceptance/CoverPairs.h"

#include "test/Reference/Random.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tilewright::acceptance {

using reference::Generator;

/// Greedy: the next choice is the best of many random ones that contain a missing pair.
std::vector<Choices> coverPairs(const std::vector<int> &numChoices) {
  const int numFeatures = static_cast<int>(numChoices.size());
  auto keyOf = [=](int f, int x, int g, int y) { return ((f * 8 + x) * numFeatures + g) * 8 + y; };
  std::vector<char> missing(numFeatures * 8 * numFeatures * 8, 0);
  int numMissing = 0;
  for (int f = 0; f < numFeatures; ++f)
    for (int g = f + 1; g < numFeatures; ++g)
      for (int x = 0; x < numChoices[f]; ++x)
        for (int y = 0; y < numChoices[g]; ++y, ++numMissing)
          missing[keyOf(f, x, g, y)] = 1;
  auto gain = [&](const Choices &choices) {
    int count = 0;
    for (int f = 0; f < numFeatures; ++f)
      for (int g = f + 1; g < numFeatures; ++g)
        count += missing[keyOf(f, choices[f], g, choices[g])];
    return count;
  };
  Generator generator(1);
  std::vector<Choices> all;
  while (numMissing > 0) {
    int first = static_cast<int>(std::find(missing.begin(), missing.end(), 1) - missing.begin());
    Choices best(numFeatures);
    int most = -1;
    for (int attempt = 0; attempt < 200; ++attempt) {
      Choices choices(numFeatures);
      for (int f = 0; f < numFeatures; ++f)
        choices[f] = static_cast<int>(generator.integer(0, numChoices[f]));
      choices[first / 8 / numFeatures / 8] = first / 8 / numFeatures % 8;
      choices[first / 8 % numFeatures] = first % 8;
      if (int count = gain(choices); count > most) {
        most = count;
        best = choices;
      }
    }
    for (int f = 0; f < numFeatures; ++f)
      for (int g = f + 1; g < numFeatures; ++g)
        missing[keyOf(f, best[f], g, best[g])] = 0;
    numMissing -= most;
    all.push_back(best);
  }
  return all;
}

std::vector<Choices> coverEach(const std::vector<Choices> &list) {
  std::set<std::pair<size_t, int>> seen;
  std::vector<Choices> few;
  for (const Choices &choices : list) {
    size_t before = seen.size();
    for (size_t f = 0; f < choices.size(); ++f)
      seen.emplace(f, choices[f]);
    if (seen.size() > before)
      few.push_back(choices);
  }
  return few;
}

} // namespace tilewright::acceptance
