// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The backward of modified scores, and the gradients of what modifiers capture, by the accuracy
// rule. The oracle does not model tables. It computes the gradient of every modified score, as that
// of a bias for each pair; the formulas of the modifiers convert it to the gradients of their
// tables, once in f64 and once in the kernel's precision.

#include "test/Acceptance/LearnedMods.h"

#include "gtest/gtest.h"

#include <cmath>
#include <optional>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

/// A bias of zero for every pair: its gradient is that of the modified score.
AttentionProblem withPairBias(AttentionProblem problem) {
  problem.bias.b = problem.B;
  problem.bias.h = problem.Hq;
  problem.bias.rows = problem.Sq;
  problem.bias.values.assign(problem.B * problem.Hq * problem.Sq * problem.Skv, 0.0);
  return problem;
}

/// scale * q . k of a pair.
double scoreOf(const AttentionProblem &p, const AttentionInputs &inputs, int64_t b, int64_t h,
               int64_t i, int64_t j) {
  const double *q = inputs.q.data() + ((b * p.Hq + h) * p.Sq + i) * p.D;
  const double *k = inputs.k.data() + ((b * p.Hkv + h / p.groupSize()) * p.Skv + j) * p.D;
  double sum = 0;
  for (int64_t d = 0; d < p.D; ++d)
    sum += q[d] * k[d];
  return p.scale * sum;
}

/// Gradients of a table: the reference, the reference in lower precision, and the expected
/// roundoff.
struct TableOracle {
  std::vector<double> ref, lowp, roundoff;

  /// Unless sums are exact, every addition of a pair rounds the current sum to f32.
  TableOracle(const LearnedTable &table, const AttentionProblem &p, const AttentionInputs &inputs,
              const BackwardOracle &pairs, bool isExact) {
    size_t n = table.values.size();
    ref.assign(n, 0);
    lowp.assign(n, 0);
    bool hasRoundoff = !pairs.ref.roundoffDBias.empty();
    roundoff.assign(hasRoundoff ? n : 0, 0);
    size_t pair = 0;
    for (int64_t b = 0; b < p.B; ++b)
      for (int64_t h = 0; h < p.Hq; ++h)
        for (int64_t i = 0; i < p.Sq; ++i)
          for (int64_t j = 0; j < p.Skv; ++j, ++pair) {
            if (!p.keeps(b, h, i, j))
              continue;
            auto [entry, slope] = table.derivative(scoreOf(p, inputs, b, h, i, j), b, h, i, j);
            if (entry < 0)
              continue;
            ref[entry] += slope * pairs.ref.dBias[pair];
            if (hasRoundoff && table.isByPair && !isExact)
              roundoff[entry] += std::pow(0x1p-25 * ref[entry], 2);
            lowp[entry] += slope * pairs.lowp.dBias[pair];
            if (hasRoundoff)
              roundoff[entry] += std::pow(slope * pairs.ref.roundoffDBias[pair], 2);
          }
    for (double &value : roundoff)
      value = std::sqrt(value);
  }

  AccuracyReport check(const LearnedTable &table, Type type, const std::vector<double> &out) const {
    int64_t columns = table.shape.empty() ? 1 : table.shape.back();
    int64_t rows = static_cast<int64_t>(table.values.size()) / columns;
    return checkAccuracy("d_" + table.name, type, {1, rows, columns}, out, ref, lowp, roundoff);
  }
};

void check(const AttentionProblem &problem, Type type, const LearnedMod &mod, uint64_t seed,
           bool deterministic) {
  std::string context =
      mod.name + (deterministic ? " deterministic, " : ", ") + describe(problem, type);
  AttentionInputs inputs = randomInputs(problem, type, seed);
  if (seed % 3 == 0)
    inputs.dLse.clear();
  AttentionProblem oracleProblem = withPairBias(problem);
  oracleProblem.score = mod.score;
  ForwardResult saved = runForward(problem, type, inputs, optionsFor(mod, false));
  BackwardOracle oracle(oracleProblem, inputs, type);
  MatrixCase matrixCase(deterministic ? "attention_backward DETERMINISTIC" : "attention_backward",
                        mod.name + ", gradients of captures", type);
  LearnedGradients gradients =
      runLearnedBackward(problem, type, inputs, saved, mod,
                         {{"DETERMINISTIC", deterministic ? "true" : "false"}}, {}, deterministic);
  expectBackward(oracle, gradients.result, context);
  // A kernel in f64 sums gradients of f32 tables in f32: these are compared with the f32 oracle.
  std::optional<BackwardOracle> narrow;
  if (type == Type::F64)
    narrow.emplace(oracleProblem, inputs, Type::F32);
  Type sums = type == Type::F64 ? Type::F32 : type;
  for (size_t t = 0; t < mod.tables.size(); ++t) {
    const LearnedTable &table = mod.tables[t];
    AccuracyReport report =
        TableOracle(table, problem, inputs, narrow ? *narrow : oracle, deterministic)
            .check(table, sums, gradients.tables[t]);
    EXPECT_TRUE(report.ok) << context << ": " << report.message;
  }
}

class CaptureGradients : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, CaptureGradients, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(CaptureGradients, ByTheRule) {
  Type type = GetParam();
  uint64_t seed = 300;
  // Also rows without keys (bottom_right with more queries than keys), groups of heads, a window.
  const AttentionProblem problems[] = {
      makeProblem(2, 4, 2, 113, 203, 64, 40),
      makeProblem(1, 2, 2, 203, 113, 32, 64, Causal::BottomRight),
      makeProblem(2, 4, 1, 160, 160, 64, 64, Causal::TopLeft, {50, 20})};
  for (const AttentionProblem &problem : problems)
    for (const LearnedMod &mod : learnedMods(problem)) {
      // Both methods for the first problem, alternating for the others.
      bool isFirst = problem.Sq == 113, turn = seed % 2;
      for (bool deterministic : {false, true})
        if (isFirst || deterministic == turn)
          check(problem, type, mod, seed, deterministic);
      ++seed;
    }
}

/// Omitting a gradient does not change other results, bitwise.
TEST(CaptureGradientsLeftOut, ChangesNothingElse) {
  AttentionProblem problem = makeProblem(1, 4, 2, 70, 90, 32, 32, Causal::BottomRight);
  Type type = Type::F32;
  AttentionInputs inputs = randomInputs(problem, type, 7);
  for (const LearnedMod &mod : learnedMods(problem)) {
    ForwardResult saved = runForward(problem, type, inputs, optionsFor(mod, false));
    Params params = {{"DETERMINISTIC", "true"}};
    LearnedGradients all = runLearnedBackward(problem, type, inputs, saved, mod, params);
    CallOptions none = optionsFor(mod, false);
    none.params = params;
    none.params.emplace_back("CAPTURE_GRADIENTS", "true");
    BackwardResult leftOut = runBackward(problem, type, inputs, saved, none);
    for (auto member : {&BackwardResult::dQ, &BackwardResult::dK, &BackwardResult::dV})
      EXPECT_EQ(leftOut.*member, all.result.*member) << mod.name;
  }
}

/// Gradients are also written if there are no terms.
TEST(CaptureGradientsOfNothing, AreZero) {
  for (AttentionProblem problem : emptyProblems()) {
    if (problem.Hq == 0)
      continue; // the table has a row for each head
    AttentionInputs inputs = randomInputs(problem, Type::F32, 8);
    LearnedMod mod = learnedMods(makeProblem(1, problem.Hq, 1, 4, 4, 8, 8))[2];
    ForwardResult saved = runForward(problem, Type::F32, inputs, optionsFor(mod, false));
    for (const char *deterministic : {"false", "true"}) {
      LearnedGradients gradients = runLearnedBackward(problem, Type::F32, inputs, saved, mod,
                                                      {{"DETERMINISTIC", deterministic}});
      EXPECT_EQ(gradients.tables[0], std::vector<double>(mod.tables[0].values.size(), 0.0))
          << describe(problem, Type::F32);
    }
  }
}

/// NaN and infinities in one head reach only the gradients of that head, in both kinds of sums.
TEST(CaptureGradientsOfNaN, StayInTheirHead) {
  AttentionProblem problem = makeProblem(1, 2, 2, 40, 50, 16, 16);
  LearnedMod mod = learnedMods(problem)[2];
  AttentionInputs clean = randomInputs(problem, Type::F32, 9), poisoned = clean;
  poisoned.q[0] = std::nan("");
  for (const char *deterministic : {"false", "true"}) {
    auto gradientOf = [&](const AttentionInputs &inputs) {
      ForwardResult saved = runForward(problem, Type::F32, inputs, optionsFor(mod, false));
      Params params = {{"DETERMINISTIC", deterministic}};
      return runLearnedBackward(problem, Type::F32, inputs, saved, mod, params, {1, false})
          .tables[0];
    };
    std::vector<double> a = gradientOf(clean), b = gradientOf(poisoned);
    size_t half = a.size() / 2;
    EXPECT_TRUE(std::isnan(b[half / 2]));
    // On a GPU, the order of atomic additions varies; exact sums must not.
    double slack = std::string(deterministic) == "true" ? 0 : 1e-5;
    for (size_t i = half; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], slack * (1 + std::abs(a[i])));
  }
}

} // namespace
