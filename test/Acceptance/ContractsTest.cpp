// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The contracts of docs/design.md for attention_forward and attention_backward: extents of zero and
// one, rows without keys, NaN, optional arguments, and bitwise equal runs.

#include "test/Acceptance/ShippedMods.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

const CallOptions deterministic = [] {
  CallOptions options;
  options.params = {{"DETERMINISTIC", "true"}};
  return options;
}();

bool allEqual(const std::vector<double> &values, double value) {
  return std::all_of(values.begin(), values.end(), [&](double x) { return x == value; });
}

/// Equal bits, including NaN and the sign of zero.
bool sameBits(const std::vector<double> &a, const std::vector<double> &b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           return (std::isnan(x) && std::isnan(y)) ||
                  (x == y && std::signbit(x) == std::signbit(y));
         });
}

class Contracts : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Contracts, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

/// In f64 the scale is one, and not rounded to f32.
TEST_P(Contracts, ScaleIsOfTheAccumulator) {
  AttentionProblem problem = makeProblem(1, 2, 1, 50, 40, 24, 24);
  problem.scale = elementType(GetParam()) == ElementType::F64 ? 1 / std::sqrt(24.0)
                                                              : double(float(1 / std::sqrt(24.0)));
  AttentionInputs inputs = randomInputs(problem, GetParam(), 3);
  ForwardResult saved = runForward(problem, GetParam(), inputs);
  expectForward(ForwardOracle(problem, inputs, GetParam()), saved);
  BackwardOracle oracle(problem, inputs, GetParam());
  for (const CallOptions &options : {CallOptions(), deterministic})
    expectBackward(oracle, runBackward(problem, GetParam(), inputs, saved, options));
}

TEST_P(Contracts, ExtentsOfZero) {
  Type type = GetParam();
  for (AttentionProblem problem : emptyProblems())
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
      problem.causal = causal;
      AttentionInputs inputs = randomInputs(problem, type, 1);
      ForwardResult saved = runForward(problem, type, inputs);
      // With rows but no keys, the rule for rows without keys applies.
      EXPECT_TRUE(allEqual(saved.o, 0.0)) << describe(problem, type);
      EXPECT_TRUE(allEqual(saved.lse, -infinity)) << describe(problem, type);
      for (const CallOptions &options : {CallOptions(), deterministic}) {
        BackwardResult result = runBackward(problem, type, inputs, saved, options);
        EXPECT_TRUE(allEqual(result.dQ, 0.0)) << describe(problem, type);
        EXPECT_TRUE(allEqual(result.dK, 0.0)) << describe(problem, type);
        EXPECT_TRUE(allEqual(result.dV, 0.0)) << describe(problem, type);
      }
    }
}

TEST_P(Contracts, ExtentsOfOne) {
  Type type = GetParam();
  for (auto [Sq, Skv] : {std::pair<int64_t, int64_t>{1, 1}, {1, 200}, {200, 1}, {1, 128}, {128, 1}})
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
      AttentionProblem problem = makeProblem(1, 1, 1, Sq, Skv, 16, 16, causal);
      AttentionInputs inputs = randomInputs(problem, type, Sq + 2 * Skv);
      ForwardResult saved = runForward(problem, type, inputs);
      expectForward(ForwardOracle(problem, inputs, type), saved, describe(problem, type));
      expectBackward(BackwardOracle(problem, inputs, type),
                     runBackward(problem, type, inputs, saved), describe(problem, type));
    }
}

/// Exactly zero and exactly -inf, also for keys that no query attends.
TEST_P(Contracts, RowsWithoutKeysAndKeysWithoutRows) {
  Type type = GetParam();
  struct Masked {
    AttentionProblem problem;
    int64_t emptyRows; ///< number of first rows, which keep no key
    int64_t deadKeys;  ///< number of last keys, which no row keeps
  };
  const Masked cases[] = {
      // More rows than keys: the first 130 are ahead of all keys.
      {makeProblem(2, 4, 2, 200, 70, 32, 24, Causal::BottomRight), 130, 0},
      // More keys than rows: keys beyond the last row are never reached.
      {makeProblem(2, 4, 2, 70, 200, 32, 24, Causal::TopLeft), 0, 130},
      {makeProblem(1, 2, 1, 70, 200, 32, 24, Causal::None, {10, 5}), 0, 200 - 75},
      // shift = -130, window (-, 0): rows i < 130 keep nothing.
      {makeProblem(1, 2, 1, 200, 70, 32, 24, Causal::BottomRight, {3, -1}), 130, 0}};
  for (const auto &[problem, emptyRows, deadKeys] : cases) {
    AttentionInputs inputs = randomInputs(problem, type, 9);
    ForwardResult saved = runForward(problem, type, inputs);
    expectForward(ForwardOracle(problem, inputs, type), saved);
    BackwardOracle oracle(problem, inputs, type);
    for (const CallOptions &options : {CallOptions(), deterministic}) {
      BackwardResult result = runBackward(problem, type, inputs, saved, options);
      expectBackward(oracle, result);
      for (int64_t head = 0; head < problem.B * problem.Hq; ++head)
        for (int64_t i = 0; i < emptyRows; ++i) {
          int64_t row = head * problem.Sq + i;
          ASSERT_EQ(saved.lse[row], -infinity);
          for (int64_t d = 0; d < problem.DV; ++d)
            ASSERT_EQ(saved.o[row * problem.DV + d], 0.0);
          for (int64_t d = 0; d < problem.D; ++d)
            ASSERT_EQ(result.dQ[row * problem.D + d], 0.0);
        }
      for (int64_t head = 0; head < problem.B * problem.Hkv; ++head)
        for (int64_t j = problem.Skv - deadKeys; j < problem.Skv; ++j) {
          int64_t key = head * problem.Skv + j;
          for (int64_t d = 0; d < problem.D; ++d)
            ASSERT_EQ(result.dK[key * problem.D + d], 0.0);
          for (int64_t d = 0; d < problem.DV; ++d)
            ASSERT_EQ(result.dV[key * problem.DV + d], 0.0);
        }
    }
  }
}

/// NaN in one query: its row is NaN; all other rows are bitwise equal to those of a run without it.
TEST_P(Contracts, NaNInARowStaysThere) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 4, 2, 150, 170, 32, 24, Causal::BottomRight);
  AttentionInputs clean = randomInputs(problem, type, 4), poisoned = clean;
  const int64_t poisonedRows[] = {0 * 150 + 3, 5 * 150 + 149, 7 * 150 + 64};
  for (int64_t row : poisonedRows)
    poisoned.q[row * problem.D + 11] = std::nan("");
  auto isPoisoned = [&](int64_t row) {
    return std::find(std::begin(poisonedRows), std::end(poisonedRows), row) !=
           std::end(poisonedRows);
  };
  ForwardResult a = runForward(problem, type, clean), b = runForward(problem, type, poisoned);
  BackwardResult dA = runBackward(problem, type, clean, a, deterministic);
  BackwardResult dB = runBackward(problem, type, poisoned, b, deterministic);
  for (int64_t row = 0; row < problem.B * problem.Hq * problem.Sq; ++row) {
    if (!isPoisoned(row))
      ASSERT_EQ(a.lse[row], b.lse[row]) << row;
    else
      ASSERT_TRUE(std::isnan(b.lse[row])) << row;
    for (int64_t d = 0; d < problem.DV; ++d) {
      int64_t at = row * problem.DV + d;
      if (!isPoisoned(row))
        ASSERT_EQ(a.o[at], b.o[at]) << "row " << row;
      else
        ASSERT_TRUE(std::isnan(b.o[at])) << "row " << row;
    }
    for (int64_t d = 0; d < problem.D; ++d) {
      int64_t at = row * problem.D + d;
      if (!isPoisoned(row))
        ASSERT_EQ(dA.dQ[at], dB.dQ[at]) << "row " << row;
      else
        ASSERT_TRUE(std::isnan(dB.dQ[at])) << "row " << row;
    }
  }
}

/// The same if a query that attends no key holds a NaN: it has no effect.
TEST_P(Contracts, NaNInARowWithoutKeysIsNotSeen) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(1, 2, 1, 200, 70, 32, 24, Causal::BottomRight);
  AttentionInputs clean = randomInputs(problem, type, 4), poisoned = clean;
  poisoned.q[17 * problem.D] = std::nan("");
  ForwardResult a = runForward(problem, type, clean), b = runForward(problem, type, poisoned);
  EXPECT_TRUE(sameBits(a.o, b.o));
  EXPECT_TRUE(sameBits(a.lse, b.lse));
}

TEST_P(Contracts, LseIsOptional) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 4, 2, 75, 139, 32, 24, Causal::TopLeft);
  AttentionInputs inputs = randomInputs(problem, type, 4);
  CallOptions without;
  without.withLse = false;
  EXPECT_TRUE(
      sameBits(runForward(problem, type, inputs).o, runForward(problem, type, inputs, without).o));
}

TEST_P(Contracts, AnAbsentDLseIsZero) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 4, 2, 75, 139, 32, 24, Causal::TopLeft);
  AttentionInputs inputs = randomInputs(problem, type, 4), without = inputs;
  std::fill(inputs.dLse.begin(), inputs.dLse.end(), 0.0);
  without.dLse.clear();
  ForwardResult saved = runForward(problem, type, inputs);
  BackwardResult a = runBackward(problem, type, inputs, saved, deterministic);
  BackwardResult b = runBackward(problem, type, without, saved, deterministic);
  EXPECT_TRUE(sameBits(a.dQ, b.dQ));
  EXPECT_TRUE(sameBits(a.dK, b.dK));
  EXPECT_TRUE(sameBits(a.dV, b.dV));
}

/// Two runs are bitwise equal, also with different numbers of threads; for the fast backward, dK
/// and dV.
TEST_P(Contracts, RunsAreBitIdentical) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 4, 2, 331, 290, 64, 40, Causal::BottomRight, {100, -1});
  AttentionInputs inputs = randomInputs(problem, type, 4);
  ForwardResult first = runForward(problem, type, inputs);
  BackwardResult firstBackward = runBackward(problem, type, inputs, first, deterministic);
  BackwardResult firstFast = runBackward(problem, type, inputs, first);
  for (unsigned threads : {0, 1, 2, 3, 7}) {
    CallOptions options;
    options.run.threads = threads;
    ForwardResult again = runForward(problem, type, inputs, options);
    EXPECT_TRUE(sameBits(first.o, again.o)) << threads << " threads";
    EXPECT_TRUE(sameBits(first.lse, again.lse)) << threads << " threads";
    BackwardResult fast = runBackward(problem, type, inputs, first, options);
    EXPECT_TRUE(sameBits(firstFast.dK, fast.dK)) << threads << " threads";
    EXPECT_TRUE(sameBits(firstFast.dV, fast.dV)) << threads << " threads";
    options.params = deterministic.params;
    BackwardResult backward = runBackward(problem, type, inputs, first, options);
    EXPECT_TRUE(sameBits(firstBackward.dQ, backward.dQ)) << threads << " threads";
    EXPECT_TRUE(sameBits(firstBackward.dK, backward.dK)) << threads << " threads";
    EXPECT_TRUE(sameBits(firstBackward.dV, backward.dV)) << threads << " threads";
  }
}

/// Scores far from zero: the softmax subtracts the maximum.
TEST_P(Contracts, LargeScoresDoNotOverflow) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(1, 2, 1, 60, 140, 16, 16, Causal::TopLeft);
  problem.scale = 40.0; // scores of several hundred
  AttentionInputs inputs = randomInputs(problem, type, 4);
  ForwardResult saved = runForward(problem, type, inputs);
  expectForward(ForwardOracle(problem, inputs, type), saved);
  for (double value : saved.o)
    ASSERT_TRUE(std::isfinite(value));
  BackwardResult result = runBackward(problem, type, inputs, saved);
  for (const std::vector<double> *values : {&result.dQ, &result.dK, &result.dV})
    for (double value : *values)
      ASSERT_TRUE(std::isfinite(value));
}

/// Maxima that rise between blocks, by more or less than the lag, or fall, all of them far above or
/// far below zero.
TEST_P(Contracts, MaximaRiseAndFall) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(1, 1, 1, 150, 600, 64, 64, Causal::None);
  problem.scale = 1.0;
  for (double step : {0.0, 0.01, 0.05, 0.5, -0.05})
    for (double base : {40.0, -40.0, 3.0}) {
      AttentionInputs inputs = randomInputs(problem, type, 5);
      for (int64_t i = 0; i < problem.Sq; ++i)
        for (int64_t d = 0; d < problem.D; ++d)
          inputs.q[i * problem.D + d] =
              roundTo(type, d == 0 ? 1.0 : inputs.q[i * problem.D + d] / 8);
      for (int64_t j = 0; j < problem.Skv; ++j)
        inputs.k[j * problem.D] = roundTo(type, base + step * static_cast<double>(j));
      expectForward(ForwardOracle(problem, inputs, type), runForward(problem, type, inputs),
                    "from " + std::to_string(base) + " by " + std::to_string(step));
    }
}

} // namespace
