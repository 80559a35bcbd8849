// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Covering sets: lists of combinations of features that contain each pair of choices of two
// features.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_COVERPAIRS_H
#define TILEWRIGHT_TEST_ACCEPTANCE_COVERPAIRS_H

#include <vector>

namespace tilewright::acceptance {

/// A choice for each feature.
using Choices = std::vector<int>;

/// The same list in every run. Feature f has numChoices[f] choices, at most 8.
std::vector<Choices> coverPairs(const std::vector<int> &numChoices);

/// The combinations of the list, in its order, that have a choice which none before them has.
std::vector<Choices> coverEach(const std::vector<Choices> &list);

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_COVERPAIRS_H
