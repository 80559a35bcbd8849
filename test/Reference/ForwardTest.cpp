// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The forward against values computed by hand, the contracts of empty rows and NaN, and each
// variant against the equivalent plain problem.

#include "test/Reference/Modifiers.h"
#include "test/Reference/Variants.h"

#include "gtest/gtest.h"

#include <cmath>
#include <string>

using namespace tilewright::reference;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

AttentionProblem makeProblem(int64_t B, int64_t Hq, int64_t Hkv, int64_t Sq, int64_t Skv, int64_t D,
                             int64_t DV) {
  AttentionProblem problem;
  problem.B = B;
  problem.Hq = Hq;
  problem.Hkv = Hkv;
  problem.Sq = Sq;
  problem.Skv = Skv;
  problem.D = D;
  problem.DV = DV;
  problem.scale = 1.0 / std::sqrt(static_cast<double>(D));
  return problem;
}

void expectNear(const std::vector<double> &a, const std::vector<double> &b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
      continue;
    ASSERT_NEAR(a[i], b[i], tolerance) << "at " << i;
  }
}

/// Two queries, two keys, D = DV = 1, scores (0, log 3; log 2, 0): probabilities 1/4 3/4, 2/3 1/3.
struct TwoByTwo {
  AttentionProblem problem = makeProblem(1, 1, 1, 2, 2, 2, 1);
  AttentionInputs inputs;
  TwoByTwo() {
    problem.scale = 1.0;
    inputs.q = {0, std::log(3.0), std::log(2.0), 0};
    inputs.k = {1, 0, 0, 1};
    inputs.v = {4, 8};
  }
};

TEST(Forward, TwoByTwoByHand) {
  TwoByTwo two;
  ForwardResult result = forward(two.problem, two.inputs);
  expectNear(result.o, {1 + 6, 8.0 / 3 + 8.0 / 3}, 1e-14);
  expectNear(result.lse, {std::log(4.0), std::log(3.0)}, 1e-15);
  expectNear(probabilities(two.problem, two.inputs), {0.25, 0.75, 2.0 / 3, 1.0 / 3}, 1e-15);
}

TEST(Forward, TwoByTwoCausalAndScaled) {
  TwoByTwo two;
  two.problem.causal = Causal::TopLeft;
  expectNear(forward(two.problem, two.inputs).o, {4, 16.0 / 3}, 1e-14);
  two.problem.scale = 2.0; // scores (., 2 log 2 against 0): 4/5, 1/5
  expectNear(forward(two.problem, two.inputs).o, {4, 4 * 0.8 + 8 * 0.2}, 1e-14);
}

TEST(Forward, TwoByTwoWithBiasAndModifier) {
  TwoByTwo two;
  two.problem.bias = {{std::log(3.0), 0.0}, 1, 1, 1}; // makes the first row 1/2 1/2
  ForwardResult result = forward(two.problem, two.inputs);
  expectNear(result.o, {6, 4 * 6.0 / 7 + 8.0 / 7}, 1e-14);
  // The modifier comes before the bias: scores 2 log 3 = log 9 against log 3.
  two.problem.score = {[](double s, int64_t, int64_t, int64_t, int64_t) { return 2 * s; }, {}};
  EXPECT_NEAR(forward(two.problem, two.inputs).o[0], 4 * 0.25 + 8 * 0.75, 1e-14);
}

TEST(Forward, MaskDefinitions) {
  AttentionProblem problem = makeProblem(1, 1, 1, 3, 5, 1, 1);
  auto kept = [&](int64_t i) {
    std::string row;
    for (int64_t j = 0; j < problem.Skv; ++j)
      row += problem.keeps(0, 0, i, j) ? 'x' : '.';
    return row;
  };
  problem.causal = Causal::TopLeft;
  EXPECT_EQ(kept(0) + kept(1) + kept(2), "x....xx...xxx..");
  problem.causal = Causal::BottomRight;
  EXPECT_EQ(kept(0) + kept(1) + kept(2), "xxx..xxxx.xxxxx");
  problem.window = {1, -1};
  EXPECT_EQ(kept(0) + kept(1) + kept(2), ".xx....xx....xx");
  problem.causal = Causal::None;
  problem.window = {1, 0}; // no shift without bottom_right
  EXPECT_EQ(kept(0) + kept(1) + kept(2), "x....xx....xx..");
  problem.window = {-1, 1};
  EXPECT_EQ(kept(0) + kept(1) + kept(2), "xx...xxx..xxxx.");
  problem.window = {};
  problem.mask = sinkPlusWindow(1, 0);
  EXPECT_EQ(kept(0) + kept(1) + kept(2), "x....xx...x.x..");
  problem.mask = prefixLm({2});
  EXPECT_EQ(kept(0) + kept(1) + kept(2), "xx...xx...xxx..");
  problem.mask = documents({7, 7, 9}, {7, 9, 9, 7, 1}, 3, 5);
  EXPECT_EQ(kept(0) + kept(1) + kept(2), "x..x.x..x..xx..");
  problem.mask = blockSparse({1, 0, 1, 0, 1, 0}, 3, 2, 2);
  EXPECT_EQ(kept(0) + kept(1) + kept(2), "xx..xxx..x..xx.");
  problem.mask = both(prefixLm({2}), sinkPlusWindow(1, 0));
  EXPECT_EQ(kept(0) + kept(1) + kept(2), "x....xx...x.x..");
  problem.mask = nullptr;
  problem.firstKey = 1;
  problem.endKey = 3;
  EXPECT_EQ(kept(0), ".xx..");
}

TEST(Forward, CausalSqAboveSkvLeavesRowsEmpty) {
  AttentionProblem problem = makeProblem(1, 1, 1, 4, 2, 3, 3);
  problem.causal = Causal::BottomRight; // rows 0 and 1 have no key
  AttentionInputs inputs = randomInputs(problem, Type::F64, 1);
  for (Type type : {Type::F64, Type::F32, Type::F16}) {
    ForwardResult result = forward(problem, inputs, Precision::lowp(type));
    for (int n = 0; n < 6; ++n)
      EXPECT_EQ(result.o[n], 0.0);
    EXPECT_EQ(result.lse[0], -infinity);
    EXPECT_EQ(result.lse[1], -infinity);
    EXPECT_EQ(result.o[6], roundTo(type, inputs.v[0]));
    EXPECT_TRUE(std::isfinite(result.lse[2]));
  }
}

TEST(Forward, ZeroSizesAndNoKeys) {
  for (auto [B, H, Sq, Skv] : {std::array<int64_t, 4>{0, 2, 3, 4}, {1, 0, 3, 4}, {1, 2, 0, 4}}) {
    AttentionProblem problem = makeProblem(B, H, H, Sq, Skv, 4, 4);
    AttentionInputs inputs = randomInputs(problem, Type::F32, 1);
    EXPECT_TRUE(forward(problem, inputs).o.empty());
    EXPECT_TRUE(forward(problem, inputs).lse.empty());
    EXPECT_TRUE(backward(problem, inputs).dQ.empty());
  }
  AttentionProblem problem = makeProblem(1, 2, 1, 3, 0, 4, 5);
  ForwardResult result = forward(problem, randomInputs(problem, Type::F32, 1));
  EXPECT_EQ(result.o, std::vector<double>(30, 0.0));
  EXPECT_EQ(result.lse, std::vector<double>(6, -infinity));
}

TEST(Forward, MinusInfinityScoresAreNoKeys) {
  TwoByTwo two;
  two.problem.bias = {{-infinity, -infinity, 0, -infinity}, 1, 1, 2};
  ForwardResult result = forward(two.problem, two.inputs);
  expectNear(result.o, {0, 4}, 0);
  expectNear(result.lse, {-infinity, std::log(2.0)}, 1e-15);
}

TEST(Forward, NaNPoisonsItsRowAlone) {
  AttentionProblem problem = makeProblem(1, 1, 1, 3, 3, 2, 2);
  problem.causal = Causal::TopLeft;
  AttentionInputs inputs = randomInputs(problem, Type::F64, 1);
  ForwardResult clean = forward(problem, inputs);
  inputs.q[2] = std::nan(""); // row 1
  ForwardResult result = forward(problem, inputs);
  for (int n : {0, 1, 4, 5})
    EXPECT_EQ(result.o[n], clean.o[n]);
  EXPECT_TRUE(std::isnan(result.o[2]) && std::isnan(result.o[3]) && std::isnan(result.lse[1]));
  // A masked key may hold any value.
  inputs = randomInputs(problem, Type::F64, 1);
  inputs.k[4] = inputs.v[4] = std::nan(""); // key 2, which only row 2 keeps
  result = forward(problem, inputs);
  for (int n : {0, 1, 2, 3})
    EXPECT_EQ(result.o[n], clean.o[n]);
  EXPECT_TRUE(std::isnan(result.o[4]));
}

TEST(Forward, GroupsShareKeyHeads) {
  AttentionProblem grouped = makeProblem(2, 6, 2, 5, 7, 4, 3);
  AttentionInputs inputs = randomInputs(grouped, Type::F64, 3);
  AttentionProblem plain = grouped;
  plain.Hkv = 6;
  AttentionInputs repeated = inputs;
  repeated.k.clear();
  repeated.v.clear();
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 6; ++h) {
      int64_t head = b * 2 + h / 3;
      repeated.k.insert(repeated.k.end(), inputs.k.begin() + head * 28,
                        inputs.k.begin() + (head + 1) * 28);
      repeated.v.insert(repeated.v.end(), inputs.v.begin() + head * 21,
                        inputs.v.begin() + (head + 1) * 21);
    }
  expectNear(forward(grouped, inputs).o, forward(plain, repeated).o, 0);
}

// More rows than a block of the oracle, against a direct evaluation of the definition.
TEST(Forward, ManyRowsMatchTheDefinition) {
  AttentionProblem problem = makeProblem(1, 1, 1, 70, 41, 9, 5);
  problem.causal = Causal::TopLeft;
  problem.window = {20, -1};
  AttentionInputs inputs = randomInputs(problem, Type::F64, 3);
  ForwardResult result = forward(problem, inputs);
  for (int64_t i = 0; i < 70; ++i) {
    double sum = 0.0;
    std::vector<double> o(5, 0.0);
    for (int64_t j = 0; j < 41; ++j) {
      if (j > i || j < i - 20)
        continue;
      double s = 0.0;
      for (int64_t d = 0; d < 9; ++d)
        s += inputs.q[i * 9 + d] * inputs.k[j * 9 + d] / 3.0;
      sum += std::exp(s);
      for (int64_t d = 0; d < 5; ++d)
        o[d] += std::exp(s) * inputs.v[j * 5 + d];
    }
    for (int64_t d = 0; d < 5; ++d)
      ASSERT_NEAR(result.o[i * 5 + d], sum ? o[d] / sum : 0.0, 1e-13);
    ASSERT_NEAR(sum ? result.lse[i] : 0.0, sum ? std::log(sum) : 0.0, 1e-13);
  }
}

TEST(Forward, DropoutIsTheStatedFactor) {
  AttentionProblem problem = makeProblem(2, 2, 1, 6, 9, 4, 1);
  AttentionInputs inputs = randomInputs(problem, Type::F64, 3);
  std::vector<double> p = probabilities(problem, inputs);
  problem.dropout = {0.3125, 0x123456789abcull, 0xfedcba98765ull};
  ForwardResult result = forward(problem, inputs);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < 6; ++i) {
        double o = 0.0;
        int64_t row = (b * 2 + h) * 6 + i;
        for (int64_t j = 0; j < 9; ++j)
          if (problem.dropout.keeps(b, h, i, j))
            o += p[row * 9 + j] / 0.6875 * inputs.v[b * 9 + j];
        ASSERT_NEAR(result.o[row], o, 1e-14);
      }
}

TEST(Forward, LowpIsCloseInItsPrecision) {
  AttentionProblem problem = makeProblem(1, 2, 2, 40, 50, 16, 16);
  AttentionInputs inputs = randomInputs(problem, Type::BF16, 3);
  ForwardResult ref = forward(problem, inputs);
  double last = 0.0;
  for (Type type : {Type::F64, Type::F32, Type::F16, Type::BF16}) {
    ForwardResult lowp = forward(problem, inputs, Precision::lowp(type));
    double error = 0.0;
    for (size_t n = 0; n < ref.o.size(); ++n) {
      error = std::max(error, std::fabs(lowp.o[n] - ref.o[n]));
      ASSERT_EQ(lowp.o[n], roundTo(type, lowp.o[n]));
    }
    EXPECT_GT(error, 2 * last) << typeName(type);
    EXPECT_LT(error, 8 * unitRoundoff(type)) << typeName(type);
    last = error;
  }
}

TEST(Variants, SplitAndCombineAreTheWhole) {
  AttentionProblem problem = makeProblem(2, 4, 2, 5, 37, 8, 8);
  problem.causal = Causal::BottomRight;
  problem.window = {9, -1}; // some parts hold no key of a row, some rows no key at all
  problem.mask = [](int64_t, int64_t, int64_t i, int64_t) { return i != 2; };
  AttentionInputs inputs = randomInputs(problem, Type::F64, 3);
  ForwardResult whole = forward(problem, inputs);
  for (std::vector<int64_t> boundaries :
       {std::vector<int64_t>{0, 37}, {0, 1, 30, 37}, {0, 10, 10, 20, 37}}) {
    auto parts = forwardParts(problem, inputs, boundaries);
    ForwardResult combined = combine(parts, problem.sizeLse(), problem.DV);
    expectNear(combined.o, whole.o, 1e-14);
    expectNear(combined.lse, whole.lse, 1e-14);
  }
}

TEST(Variants, PackedIsALoop) {
  PackedProblem problem;
  problem.common = makeProblem(1, 2, 1, 0, 0, 4, 3);
  problem.common.causal = Causal::BottomRight;
  problem.cuQ = {0, 3, 3, 8, 10};
  problem.cuKv = {0, 5, 9, 9, 11};
  AttentionInputs inputs = randomInputs(problem.packed(), Type::F64, 3);
  ForwardResult result = forward(problem, inputs);
  ASSERT_EQ(result.o.size(), 2u * 10 * 3);
  // Sequence 2 has rows and no keys.
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 3; i < 8; ++i)
      EXPECT_EQ(result.lse[h * 10 + i], -infinity);
  // The same as one problem with documents, with the causal mask of each written explicitly.
  AttentionProblem one = problem.packed();
  one.causal = Causal::None;
  one.mask = [&](int64_t, int64_t, int64_t i, int64_t j) {
    for (int64_t n = 0; n < 4; ++n)
      if (i >= problem.cuQ[n] && i < problem.cuQ[n + 1] && j >= problem.cuKv[n] &&
          j < problem.cuKv[n + 1])
        return problem.cuKv[n + 1] - j >= problem.cuQ[n + 1] - i;
    return false;
  };
  expectNear(result.o, forward(one, inputs).o, 1e-14);
  expectNear(result.lse, forward(one, inputs).lse, 1e-14);
  BackwardResult gradients = backward(problem, inputs), expected = backward(one, inputs);
  expectNear(gradients.dQ, expected.dQ, 1e-13);
  expectNear(gradients.dK, expected.dK, 1e-13);
  expectNear(gradients.dV, expected.dV, 1e-13);
  expectNear(gradients.delta, expected.delta, 1e-13);
}

TEST(Variants, PagedReadsOnlyItsKeys) {
  AttentionProblem problem = makeProblem(3, 4, 2, 1, 0, 4, 4);
  problem.causal = Causal::BottomRight;
  PagedKeys keys = randomPages(problem, {5, 0, 16}, 4, Type::F32, 3);
  EXPECT_EQ(keys.maxPages, 4);
  AttentionInputs inputs = randomInputs(problem, Type::F32, 4);
  ForwardResult result = forward(problem, inputs.q, keys);
  ASSERT_EQ(result.o.size(), 3u * 4 * 4);
  for (double value : result.o)
    EXPECT_TRUE(std::isfinite(value));
  // Batch 0, head 0 from its pages by hand.
  double sum = 0.0, o = 0.0;
  for (int64_t j = 0; j < 5; ++j) {
    int64_t row = keys.table[j / 4] * 2 * 4 + j % 4;
    double s = 0.0;
    for (int64_t d = 0; d < 4; ++d)
      s += inputs.q[d] * keys.pagesK[row * 4 + d] / 2.0;
    sum += std::exp(s);
    o += std::exp(s) * keys.pagesV[row * 4 + 1];
  }
  EXPECT_NEAR(result.o[1], o / sum, 1e-14);
  EXPECT_NEAR(result.lse[0], std::log(sum), 1e-14);
  EXPECT_EQ(result.lse[4], -infinity);
}

TEST(Variants, Fp8DescalesAreFactors) {
  AttentionProblem problem = makeProblem(1, 2, 1, 20, 30, 16, 16);
  AttentionInputs inputs = randomInputs(problem, Type::E4M3, 3);
  Descales descales{0.5, 0.75, -1.25};
  AttentionInputs scaled = inputs;
  for (double &value : scaled.q)
    value *= descales.q;
  for (double &value : scaled.k)
    value *= descales.k;
  for (double &value : scaled.v)
    value *= descales.v;
  ForwardResult ref = forwardFp8(problem, inputs, descales);
  expectNear(ref.o, forward(problem, scaled).o, 1e-14);
  // lowp rounds the probabilities to three bits.
  ForwardResult lowp = forwardFp8(problem, inputs, descales, lowpFp8(Type::BF16));
  double error = 0.0;
  for (size_t n = 0; n < ref.o.size(); ++n)
    error = std::max(error, std::fabs(lowp.o[n] - ref.o[n]));
  EXPECT_GT(error, 1e-3);
  EXPECT_LT(error, 1e-1);
  EXPECT_EQ(lowp.o[0], roundTo(Type::BF16, lowp.o[0]));
}

} // namespace
