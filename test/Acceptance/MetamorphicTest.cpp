// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes that must not affect a result beyond the rule, or at all: block sizes, other batches and
// heads, the order of keys.

#include "test/Acceptance/AttentionCall.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

class Metamorphic : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Metamorphic, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(Metamorphic, BlockSizesGiveResultsWithinTheRule) {
  Type type = GetParam();
  for (AttentionProblem problem :
       {makeProblem(1, 4, 2, 150, 203, 64, 40, Causal::BottomRight),
        makeProblem(1, 2, 2, 203, 150, 32, 64, Causal::None, {70, 10})}) {
    AttentionInputs inputs = randomInputs(problem, type, 31);
    ForwardOracle oracle(problem, inputs, type);
    BackwardOracle backwardOracle(problem, inputs, type);
    ForwardResult saved = runForward(problem, type, inputs);
    const std::pair<const char *, const char *> blocks[] = {
        {"16", "16"},   {"16", "128"},  {"32", "64"},  {"64", "32"}, {"128", "16"},
        {"128", "128"}, {"256", "256"}, {"16", "256"}, {"256", "16"}};
    for (auto [m, n] : blocks) {
      std::string context = std::string("blocks of ") + m + " and " + n;
      CallOptions options;
      options.params = {{"BLOCK_M", m}, {"BLOCK_N", n}};
      expectForward(oracle, runForward(problem, type, inputs, options), context);
      if (std::max(std::stoi(m), std::stoi(n)) > 128)
        continue; // the backward kernel does not have such blocks
      for (const char *deterministic : {"false", "true"}) {
        options.params.resize(2);
        options.params.emplace_back("DETERMINISTIC", deterministic);
        expectBackward(backwardOracle, runBackward(problem, type, inputs, saved, options), context);
      }
    }
  }
}

/// The part of a [batches * heads, size] array that belongs to one (batch, head).
std::vector<double> headOf(const std::vector<double> &all, int64_t head, int64_t numHeads) {
  int64_t size = static_cast<int64_t>(all.size()) / numHeads;
  return std::vector<double>(all.begin() + head * size, all.begin() + (head + 1) * size);
}

/// A single head gives the bits that it gives among others.
TEST_P(Metamorphic, HeadsDoNotMix) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 4, 2, 75, 139, 32, 24, Causal::BottomRight);
  AttentionInputs inputs = randomInputs(problem, type, 41);
  ForwardResult all = runForward(problem, type, inputs);
  AttentionProblem single = makeProblem(1, 1, 1, 75, 139, 32, 24, Causal::BottomRight);
  for (int64_t head = 0; head < 8; ++head) {
    AttentionInputs one;
    one.q = headOf(inputs.q, head, 8);
    one.k = headOf(inputs.k, head / 2, 4);
    one.v = headOf(inputs.v, head / 2, 4);
    ForwardResult alone = runForward(single, type, one);
    EXPECT_EQ(alone.o, headOf(all.o, head, 8)) << "head " << head;
    EXPECT_EQ(alone.lse, headOf(all.lse, head, 8)) << "head " << head;
  }
}

/// Permuted keys: the same set, within the rule of the original order.
TEST_P(Metamorphic, TheOrderOfKeysDoesNotMatter) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(1, 2, 1, 75, 139, 32, 24);
  AttentionInputs inputs = randomInputs(problem, type, 51), reversed = inputs;
  for (int64_t j = 0; j < problem.Skv; ++j) {
    int64_t from = problem.Skv - 1 - j;
    std::copy_n(inputs.k.begin() + from * problem.D, problem.D, reversed.k.begin() + j * problem.D);
    std::copy_n(inputs.v.begin() + from * problem.DV, problem.DV,
                reversed.v.begin() + j * problem.DV);
  }
  expectForward(ForwardOracle(problem, inputs, type), runForward(problem, type, reversed));
}

} // namespace
