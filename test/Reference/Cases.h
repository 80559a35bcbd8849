// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of cases that kernels are tested with, and the subset of a run.

#ifndef TILEWRIGHT_TEST_REFERENCE_CASES_H
#define TILEWRIGHT_TEST_REFERENCE_CASES_H

#include "test/Reference/Attention.h"

#include <string>

namespace tilewright::reference {

/// Smoke unless TILEWRIGHT_TEST_TIER=full.
enum class Tier { Smoke, Full };
Tier currentTier();

struct Shape {
  int64_t Sq, Skv;
};

/// The shapes of FlashAttention's tests: multiples of tiles and others, smaller than a tile, Sq >
/// Skv.
const std::vector<Shape> &shapes();
/// 64, 80, 96, 128, 192, 256.
const std::vector<int64_t> &headDims();
/// f32, f16, bf16.
const std::vector<Type> &elementTypes();

/// 1 / sqrt(D) as a float, as kernels get it.
double defaultScale(int64_t D);

struct AttentionCase {
  std::string name; // letters, digits and underscores: f16_113x203_d64_causal_gqa
  Type type;
  AttentionProblem problem; // sizes, scale, causal mask and window are set
  bool usesWindow = false;
};

/// A case from its parts. Masks are none, causal (top_left), bottom_right, window, window_left
/// (bottom_right with a left window), diagonal (window 0, 0); groups mha, gqa, mqa.
AttentionCase makeCase(Type type, Shape shape, int64_t D, const std::string &mask,
                       const std::string &group);
const std::vector<std::string> &maskNames();
const std::vector<std::string> &groupNames();

/// Full: every shape x D x type x mask x group; shapes of more than 2048 rows take every D and
/// type, each with one mask and group. Smoke: every shape up to 1024 rows with every mask and type
/// (the two largest of them: with every mask), each with one D and group. Where one is taken of
/// several, the choice is random but balanced, and the same in every run.
std::vector<AttentionCase> attentionCases(Tier tier);

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_CASES_H
