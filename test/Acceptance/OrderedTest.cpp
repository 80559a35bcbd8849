// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The backward in which blocks of keys add to dQ in order: correct by the rule, with equal bits in
// each run, for any distribution of blocks and threads. And the default form, whose launches add in
// order depending on their length.

#include "test/Acceptance/AttentionCall.h"

#include "gtest/gtest.h"

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

/// Also on the CPU, and for packed sequences of any length from a list of blocks.
CallOptions inOrder() {
  CallOptions options;
  options.params = {{"DETERMINISTIC", "true"}};
  options.run.sums = "ordered";
  return options;
}

class InOrder : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, InOrder,
                         ::testing::ValuesIn(runsOnGpu() ? std::vector<Type>{Type::F16, Type::BF16}
                                                         : allTypes),
                         [](const auto &info) { return typeName(info.param); });

const std::vector<Causal> kMasks = {Causal::None, Causal::TopLeft, Causal::BottomRight};

/// Partial blocks, groups of heads, more queries than keys and the reverse: queries that attend
/// nothing, and keys that no query attends.
TEST_P(InOrder, GradientsAreRight) {
  Type type = GetParam();
  for (Causal causal : kMasks)
    for (const AttentionProblem &problem : {makeProblem(2, 4, 2, 331, 290, 64, 64, causal),
                                            makeProblem(1, 2, 2, 130, 470, 64, 64, causal),
                                            makeProblem(1, 4, 1, 470, 130, 128, 128, causal),
                                            makeProblem(1, 1, 1, 1, 300, 64, 64, causal),
                                            makeProblem(2, 2, 1, 257, 1, 64, 64, causal)}) {
      AttentionInputs inputs = randomInputs(problem, type, 4);
      ForwardResult saved = runForward(problem, type, inputs);
      expectBackward(BackwardOracle(problem, inputs, type),
                     runBackward(problem, type, inputs, saved, inOrder()), describe(problem, type));
    }
}

/// Where V is wider than Q and K, blocks have few queries, and dQ^T gets more rows than D.
TEST_P(InOrder, GradientsOfWideValuesAreRight) {
  Type type = GetParam();
  for (auto [D, DV] : {std::pair(64, 128), std::pair(24, 72), std::pair(128, 40)})
    for (Causal causal : kMasks)
      for (bool isPacked : {false, true}) {
        AttentionProblem problem = makeProblem(2, 2, 1, 205, 260, D, DV, causal);
        AttentionInputs inputs = randomInputs(problem, type, 9);
        CallOptions forward, options = inOrder();
        forward.isPacked = options.isPacked = isPacked;
        ForwardResult saved = runForward(problem, type, inputs, forward);
        expectBackward(BackwardOracle(problem, inputs, type),
                       runBackward(problem, type, inputs, saved, options), describe(problem, type));
      }
}

/// The blocks of keys of each sequence are processed in reverse.
TEST_P(InOrder, PackedGradientsAreRight) {
  Type type = GetParam();
  CallOptions options = inOrder();
  options.isPacked = true;
  CallOptions forward;
  forward.isPacked = true;
  for (Causal causal : kMasks) {
    AttentionProblem problem = makeProblem(3, 4, 2, 205, 260, 64, 64, causal);
    AttentionInputs inputs = randomInputs(problem, type, 5);
    ForwardResult saved = runForward(problem, type, inputs, forward);
    expectBackward(BackwardOracle(problem, inputs, type),
                   runBackward(problem, type, inputs, saved, options), describe(problem, type));
  }
}

/// More tiles than four for each multiprocessor: heads before the last start from the last block of
/// keys.
TEST_P(InOrder, ManyTiles) {
  if (!runsMapped())
    GTEST_SKIP() << "the CPU takes instances one after the other";
  Type type = GetParam();
  // 594 blocks of keys, or 560 on simulated threads; packed, two sequences share those of a head.
  // With few rows in the last block, the mean error of one of so many would be too large by chance.
  int64_t heads = runsOnGpu() ? 66 : 140, rows = runsOnGpu() ? 1100 : 450;
  for (int64_t batches : {1, 2}) {
    AttentionProblem problem =
        makeProblem(batches, heads / batches, heads / batches, rows, rows, 16, 16, Causal::TopLeft);
    AttentionInputs inputs = randomInputs(problem, type, 11);
    CallOptions forward, options = inOrder();
    forward.isPacked = options.isPacked = batches > 1;
    ForwardResult saved = runForward(problem, type, inputs, forward);
    expectBackward(BackwardOracle(problem, inputs, type),
                   runBackward(problem, type, inputs, saved, options), describe(problem, type));
  }
}

/// A window excludes blocks before and after those that a block of queries attends.
TEST_P(InOrder, WindowedGradientsAreRight) {
  Type type = GetParam();
  const Window windows[] = {{0, 0}, {70, -1}, {-1, 45}, {150, 90}};
  for (Causal causal : kMasks)
    for (Window window : windows)
      for (auto [queries, keys] : {std::pair(331, 290), std::pair(130, 470), std::pair(470, 130)}) {
        AttentionProblem problem = makeProblem(1, 2, 1, queries, keys, 64, 64, causal, window);
        AttentionInputs inputs = randomInputs(problem, type, 7);
        ForwardResult saved = runForward(problem, type, inputs);
        expectBackward(BackwardOracle(problem, inputs, type),
                       runBackward(problem, type, inputs, saved, inOrder()),
                       describe(problem, type));
      }
}

TEST_P(InOrder, RunsAreBitIdentical) {
  Type type = GetParam();
  for (Causal causal : kMasks)
    for (int64_t D : {64, 128}) {
      // On a GPU, more tiles than multiprocessors.
      AttentionProblem problem = runsOnGpu() ? makeProblem(4, 16, 8, 1100, 1000, D, D, causal)
                                             : makeProblem(2, 4, 2, 500, 600, D, D, causal);
      AttentionInputs inputs = randomInputs(problem, type, 6);
      ForwardResult saved = runForward(problem, type, inputs);
      BackwardResult first = runBackward(problem, type, inputs, saved, inOrder());
      // The number of threads of the CPU.
      for (unsigned threads : {1, 2, 3, 7, 0}) {
        CallOptions options = inOrder();
        options.run.threads = threads;
        BackwardResult again = runBackward(problem, type, inputs, saved, options);
        EXPECT_EQ(first.dQ, again.dQ) << describe(problem, type) << ", " << threads << " threads";
        EXPECT_EQ(first.dK, again.dK) << describe(problem, type) << ", " << threads << " threads";
        EXPECT_EQ(first.dV, again.dV) << describe(problem, type) << ", " << threads << " threads";
      }
    }
}

class ByLength : public ::testing::TestWithParam<Type> {
protected:
  void SetUp() override {
    if (!runsMapped())
      GTEST_SKIP() << "the CPU has one form";
  }

  /// Heads that share keys use the other form, also if each has separate blocks of keys.
  void expectRight(const AttentionProblem &problem, CallOptions options = {}) {
    Type type = GetParam();
    AttentionInputs inputs = randomInputs(problem, type, 8);
    ForwardResult saved = runForward(problem, type, inputs, options);
    BackwardOracle oracle(problem, inputs, type);
    for (const char *sums : {"apart", "whole", "whole,unordered"}) {
      CallOptions form = options;
      form.run.sums = sums;
      expectBackward(oracle, runBackward(problem, type, inputs, saved, form),
                     describe(problem, type) + ", sums " + sums);
    }
  }

  /// Without a mask, a launch with 8 rows for each column of a head, and no more, adds in order.
  static constexpr int64_t width = 32, longest = 8 * width;
};
INSTANTIATE_TEST_SUITE_P(Type, ByLength, ::testing::Values(Type::F16, Type::BF16),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(ByLength, GradientsAreRight) {
  for (Causal causal : kMasks)
    for (int64_t queries : {longest - 41, longest, longest + 1, longest + 170})
      for (int64_t keys : {130, 331}) {
        expectRight(makeProblem(1, 2, 2, queries, keys, width, width, causal));
        expectRight(makeProblem(1, 2, 1, queries, keys, width, width, causal));
        expectRight(makeProblem(2, 1, 1, queries, keys, 128, 128, causal));
      }
}

TEST_P(ByLength, WindowedGradientsAreRight) {
  for (Causal causal : kMasks)
    for (int64_t queries : {longest - 10, longest + 31})
      for (Window window : {Window{70, -1}, Window{150, 90}})
        expectRight(makeProblem(1, 2, 2, queries, 290, 64, 64, causal, window));
}

/// Under a causal mask, sequences that have 384 rows on average.
TEST_P(ByLength, PackedGradientsAreRight) {
  CallOptions options;
  options.isPacked = true;
  for (Causal causal : kMasks)
    for (int64_t queries : {383, 384})
      expectRight(makeProblem(2, 2, 2, queries, 140, 64, 64, causal), options);
}

} // namespace
