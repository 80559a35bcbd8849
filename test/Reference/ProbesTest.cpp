// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The probes detect masks that are off by one, and the other oracles agree with values computed by
// hand.

#include "test/Reference/Probes.h"
#include "test/Reference/Cases.h"
#include "test/Reference/Layers.h"
#include "test/Reference/Modifiers.h"

#include "gtest/gtest.h"

#include <cmath>
#include <set>

using namespace tilewright::reference;

namespace {

AttentionProblem probeProblem() {
  AttentionProblem problem;
  problem.B = 2;
  problem.Hq = 4;
  problem.Hkv = 2;
  problem.Sq = 20;
  problem.Skv = 37;
  problem.D = 8;
  problem.DV = 16;
  problem.scale = 0.3;
  problem.causal = Causal::BottomRight;
  problem.window = {9, -1};
  return problem;
}

/// Wrong by one pair, or by one everywhere.
std::vector<AttentionProblem> wrongProblems(const AttentionProblem &right) {
  std::vector<AttentionProblem> wrong(5, right);
  wrong[0].causal = Causal::TopLeft;
  wrong[1].window.left += 1;
  wrong[2].window.left -= 1;
  wrong[3].mask = [](int64_t, int64_t, int64_t i, int64_t j) { return j < i + 17; }; // < for <=
  wrong[4].mask = [](int64_t b, int64_t h, int64_t i, int64_t j) {
    return !(b == 1 && h == 3 && i == 19 && j == 36);
  };
  return wrong;
}

TEST(Probes, AcceptTheRightMaskInEveryType) {
  AttentionProblem problem = probeProblem();
  for (Type type : {Type::F64, Type::F32, Type::F16, Type::BF16}) {
    Precision lowp = Precision::lowp(type);
    auto probes = oneHotProbes(problem);
    EXPECT_EQ(probes.size(), 3u);
    for (const MaskProbe &probe : probes) {
      ForwardResult result = forward(problem, probe.inputs, lowp);
      EXPECT_TRUE(checkOneHotProbe(problem, probe, type, result.o));
      EXPECT_TRUE(checkProbeLse(problem, result.lse));
    }
    MaskProbe probe = integerProbe(problem, 5);
    AccuracyReport report =
        checkIntegerProbe(problem, probe, type, forward(problem, probe.inputs, lowp).o);
    EXPECT_TRUE(report) << report;
    auto backwards = backwardProbes(problem);
    EXPECT_EQ(backwards.size(), 3u); // 40 rows of a group
    for (const MaskProbe &probe : backwards)
      EXPECT_TRUE(
          checkBackwardProbe(problem, probe, type, backward(problem, probe.inputs, lowp).dV));
  }
}

TEST(Probes, FindEveryWrongMask) {
  AttentionProblem problem = probeProblem();
  for (const AttentionProblem &wrong : wrongProblems(problem))
    for (Type type : {Type::F32, Type::BF16}) {
      Precision lowp = Precision::lowp(type);
      int found = 0;
      for (const MaskProbe &probe : oneHotProbes(problem))
        found += !checkOneHotProbe(problem, probe, type, forward(wrong, probe.inputs, lowp).o);
      EXPECT_GT(found, 0);
      MaskProbe integers = integerProbe(problem, 5);
      ForwardResult result = forward(wrong, integers.inputs, lowp);
      EXPECT_FALSE(checkIntegerProbe(problem, integers, type, result.o));
      EXPECT_FALSE(checkProbeLse(problem, result.lse));
      found = 0;
      for (const MaskProbe &probe : backwardProbes(problem))
        found += !checkBackwardProbe(problem, probe, type, backward(wrong, probe.inputs, lowp).dV);
      EXPECT_GT(found, 0);
    }
}

TEST(Probes, MessageNamesThePair) {
  AttentionProblem problem = probeProblem(), wrong = wrongProblems(problem)[4];
  MaskProbe probe = oneHotProbes(problem)[2]; // keys 32..36
  AccuracyReport report =
      checkOneHotProbe(problem, probe, Type::F32, forward(wrong, probe.inputs).o);
  EXPECT_FALSE(report);
  EXPECT_NE(report.message.find("batch 1, head 3, row 19, key 36: not attended"), std::string::npos)
      << report;
  // A run that does not show the key detects it by the weights of the others.
  probe = oneHotProbes(problem)[1];
  report = checkOneHotProbe(problem, probe, Type::F32, forward(wrong, probe.inputs).o);
  EXPECT_NE(report.message.find("row 19, key 27: the weight should be"), std::string::npos)
      << report;
}

TEST(Probes, SeeDropoutAndModifiersAsZeroAndNonzero) {
  AttentionProblem problem = probeProblem();
  problem.dropout = {0.3, 1, 2};
  problem.score = alibi({0.1, 0.2, 0.3, 0.4});
  AttentionProblem wrong = problem;
  wrong.dropout.offset = 3;
  for (const MaskProbe &probe : oneHotProbes(problem)) {
    EXPECT_TRUE(checkOneHotProbe(problem, probe, Type::F64, forward(problem, probe.inputs).o));
    EXPECT_FALSE(checkOneHotProbe(problem, probe, Type::F64, forward(wrong, probe.inputs).o));
  }
}

TEST(Probes, RowsWithoutKeysMustBeZero) {
  AttentionProblem problem = probeProblem();
  problem.mask = [](int64_t, int64_t, int64_t i, int64_t) { return i != 4; };
  MaskProbe probe = integerProbe(problem, 5);
  std::vector<double> o = forward(problem, probe.inputs).o;
  EXPECT_TRUE(checkIntegerProbe(problem, probe, Type::F32, o));
  o[4 * problem.DV] = 0.1;
  EXPECT_FALSE(checkIntegerProbe(problem, probe, Type::F32, o));
}

TEST(Layers, MatmulByHand) {
  MatmulProblem problem;
  problem.M = 1;
  problem.N = 2;
  problem.K = 2;
  problem.alpha = 0.5;
  std::vector<double> a = {2, 3}, b = {1, -1, 2, -2}, bias = {1, 1};
  EXPECT_EQ(matmul(problem, a, b, bias).values, (std::vector<double>{5, -3}));
  problem.activation = Activation::Relu;
  EXPECT_EQ(matmul(problem, a, b, bias).values, (std::vector<double>{5, 0}));
  EXPECT_EQ(matmul(problem, a, b, {}).values, (std::vector<double>{4, 0}));
  problem.activation = Activation::GeluTanh;
  std::vector<double> gelu = matmul(problem, a, b, bias).values;
  EXPECT_NEAR(gelu[0], 5.0, 1e-5);
  EXPECT_NEAR(activate(Activation::GeluTanh, 1.0), 0.841191990608, 1e-11);
  EXPECT_NEAR(activate(Activation::GeluTanh, -1.0), -0.158808009392, 1e-11);
  problem.transposeB = true;
  problem.activation = Activation::Identity;
  EXPECT_EQ(matmul(problem, a, {1, 2, -1, -2}, bias).values, (std::vector<double>{5, -3}));
  problem.M = 2;
  problem.K = 1;
  problem.transposeA = true;
  problem.transposeB = false;
  EXPECT_EQ(matmul(problem, a, {1, 2}, {}).values, (std::vector<double>{1, 2, 1.5, 3}));
}

TEST(Layers, GatedUnitByHand) {
  GatedUnitProblem problem;
  problem.M = 1;
  problem.N = 2;
  problem.K = 2;
  std::vector<double> x = {2, 3}, gate = {1, -1, 0, 1}, up = {1, 2, -1, 0};
  // X W_gate = (2, 1), X W_up = (-1, 4)
  std::vector<double> y = gatedUnit(problem, x, gate, up).values;
  EXPECT_NEAR(y[0], -2 / (1 + std::exp(-2.0)), 1e-15);
  EXPECT_NEAR(y[1], 4 / (1 + std::exp(-1.0)), 1e-15);
  problem.activation = Activation::Sigmoid;
  EXPECT_NEAR(gatedUnit(problem, x, gate, up).values[0], -1 / (1 + std::exp(-2.0)), 1e-15);
  problem.activation = Activation::Identity;
  EXPECT_EQ(gatedUnit(problem, x, gate, up).values, (std::vector<double>{-2, 4}));
  problem.transposed = true; // (2 - 3, 3), (2 + 6, -2)
  EXPECT_EQ(gatedUnit(problem, x, gate, up).values, (std::vector<double>{-8, -6}));
}

TEST(Layers, SoftmaxByHand) {
  double inf = std::numeric_limits<double>::infinity();
  LayerResult result = rowSoftmax(3, 2, {std::log(3.0), 0, 1000, -inf, -inf, -inf});
  EXPECT_NEAR(result.values[0], 0.75, 1e-15);
  EXPECT_EQ(std::vector<double>(result.values.begin() + 2, result.values.end()),
            (std::vector<double>{1, 0, 0, 0}));
}

TEST(Layers, LayerNormByHand) {
  LayerNormResult result = layerNorm(1, 4, 0.75, {1, 2, 3, 4}, {1, 1, 2, 2}, {0, 10, 0, 0});
  EXPECT_NEAR(result.mean[0], 2.5, 1e-15);
  double rstd = 1 / std::sqrt(1.25 + 0.75);
  EXPECT_NEAR(result.rstd[0], rstd, 1e-15);
  EXPECT_NEAR(result.y.values[0], -1.5 * rstd, 1e-15);
  EXPECT_NEAR(result.y.values[1], 10 - 0.5 * rstd, 1e-14);
  EXPECT_NEAR(result.y.values[3], 3 * rstd, 1e-15);
}

TEST(Cases, CoverEveryChoice) {
  for (Tier tier : {Tier::Smoke, Tier::Full}) {
    std::set<std::string> names;
    std::set<int64_t> dims, sizes;
    for (const AttentionCase &c : attentionCases(tier)) {
      EXPECT_TRUE(names.insert(c.name).second) << c.name;
      EXPECT_EQ(c.problem.scale, roundTo(Type::F32, c.problem.scale));
      dims.insert(c.problem.D);
      sizes.insert(c.problem.Sq * 10000 + c.problem.Skv);
    }
    EXPECT_EQ(dims.size(), headDims().size());
    EXPECT_EQ(sizes.size(), tier == Tier::Full ? 14u : 12u);
    EXPECT_EQ(names.size(), tier == Tier::Full ? 12u * 6 * 3 * 6 * 3 + 2 * 18 : 10u * 18 + 2 * 6);
  }
}

} // namespace
