// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The backward against central differences of the forward, in f64, for every feature, and the
// contracts of rows without keys.

#include "test/Reference/Modifiers.h"
#include "test/Reference/Variants.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace tilewright::reference;

namespace {

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
  problem.scale = 0.7;
  return problem;
}

/// sum dO o + sum dLse lse, where the second sum omits rows without keys.
double lossOf(const AttentionProblem &problem, const AttentionInputs &inputs,
              const ForwardResult &result) {
  double loss = 0.0;
  for (size_t n = 0; n < result.o.size(); ++n)
    loss += inputs.dO[n] * result.o[n];
  for (size_t n = 0; n < inputs.dLse.size(); ++n)
    if (std::isfinite(result.lse[n]))
      loss += inputs.dLse[n] * result.lse[n];
  return loss;
}

/// Compares a gradient with (loss(x + h) - loss(x - h)) / 2h in every element of x.
template <typename Problem>
void expectGradient(const char *name, Problem &problem, AttentionInputs &inputs,
                    const AttentionProblem &sizes, std::vector<double> &x,
                    const std::vector<double> &gradient) {
  ASSERT_EQ(x.size(), gradient.size()) << name;
  const double h = 1e-5;
  bool nonzero = false;
  for (size_t n = 0; n < x.size(); ++n) {
    double saved = x[n];
    x[n] = saved + h;
    double above = lossOf(sizes, inputs, forward(problem, inputs));
    x[n] = saved - h;
    double below = lossOf(sizes, inputs, forward(problem, inputs));
    x[n] = saved;
    ASSERT_NEAR(gradient[n], (above - below) / (2 * h), 1e-8) << name << " at " << n;
    nonzero = nonzero || std::fabs(gradient[n]) > 1e-3;
  }
  EXPECT_TRUE(nonzero) << name;
}

void expectGradients(AttentionProblem problem, bool withDLse = true) {
  AttentionInputs inputs = randomInputs(problem, Type::F64, 11);
  if (!withDLse)
    inputs.dLse.clear();
  BackwardResult result = backward(problem, inputs);
  expectGradient("dq", problem, inputs, problem, inputs.q, result.dQ);
  expectGradient("dk", problem, inputs, problem, inputs.k, result.dK);
  expectGradient("dv", problem, inputs, problem, inputs.v, result.dV);
  if (problem.bias)
    expectGradient("dbias", problem, inputs, problem, problem.bias.values, result.dBias);
}

// P = (1/4 3/4; 2/3 1/3) and v = (4, 8) with dO = (1, 1): o = (7, 16/3), delta = o.
TEST(Backward, TwoByTwoByHand) {
  AttentionProblem problem = makeProblem(1, 1, 1, 2, 2, 2, 1);
  problem.scale = 1.0;
  AttentionInputs inputs;
  inputs.q = {0, std::log(3.0), std::log(2.0), 0};
  inputs.k = {1, 0, 0, 1};
  inputs.v = {4, 8};
  inputs.dO = {1, 1};
  BackwardResult result = backward(problem, inputs);
  EXPECT_NEAR(result.delta[0], 7, 1e-14);
  EXPECT_NEAR(result.dV[0], 1.0 / 4 + 2.0 / 3, 1e-14);
  EXPECT_NEAR(result.dV[1], 3.0 / 4 + 1.0 / 3, 1e-14);
  // dS = (1/4 (4 - 7), 3/4 (8 - 7); 2/3 (4 - 16/3), 1/3 (8 - 16/3)) = (-3/4, 3/4; -8/9, 8/9)
  EXPECT_NEAR(result.dQ[0], -0.75, 1e-14);
  EXPECT_NEAR(result.dQ[3], 8.0 / 9, 1e-14);
  EXPECT_NEAR(result.dK[0], -8.0 / 9 * std::log(2.0), 1e-14);
  EXPECT_NEAR(result.dK[1], -0.75 * std::log(3.0), 1e-14);
  inputs.dLse = {2, 0}; // adds P dLse to dS of the first row
  EXPECT_NEAR(backward(problem, inputs).dQ[0], -0.75 + 0.5, 1e-14);
}

TEST(Backward, PlainWithAndWithoutDLse) {
  expectGradients(makeProblem(2, 2, 2, 5, 6, 4, 3));
  expectGradients(makeProblem(1, 1, 1, 5, 6, 4, 3), false);
}

TEST(Backward, GroupsAreSummed) {
  expectGradients(makeProblem(2, 4, 2, 3, 5, 3, 4));
  expectGradients(makeProblem(1, 3, 1, 4, 5, 3, 2));
}

TEST(Backward, MoreRowsThanABlock) {
  // Several blocks and shares of the oracle.
  AttentionProblem problem = makeProblem(1, 3, 1, 70, 9, 2, 2);
  problem.causal = Causal::BottomRight;
  expectGradients(problem);
}

TEST(Backward, CausalAndWindows) {
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (Window window : {Window{-1, -1}, Window{2, -1}, Window{1, 1}, Window{-1, 0}}) {
      AttentionProblem problem = makeProblem(1, 2, 1, 7, 5, 3, 3); // bottom_right: empty rows
      problem.causal = causal;
      problem.window = window;
      expectGradients(problem);
    }
}

TEST(Backward, Masks) {
  AttentionProblem problem = makeProblem(2, 2, 1, 5, 5, 3, 3);
  problem.mask = sinkPlusWindow(1, 1);
  expectGradients(problem);
  problem.mask = prefixLm({2, 3});
  expectGradients(problem);
  problem.mask = documents({0, 0, 1, 1, 2, 5, 5, 5, 7, 7}, {0, 0, 1, 1, 2, 5, 5, 5, 7, 9}, 5, 5);
  expectGradients(problem);
  problem.mask = [](int64_t b, int64_t h, int64_t i, int64_t j) {
    return (b + h + i + j) % 3 != 0;
  };
  expectGradients(problem);
}

TEST(Backward, ScoreModifiers) {
  AttentionProblem problem = makeProblem(2, 2, 1, 4, 5, 3, 3);
  problem.score = softcap(1.5);
  expectGradients(problem);
  problem.score = alibi(alibiSlopes(2));
  expectGradients(problem);
  problem.score = relativeBias(normals(2 * 5, 1), 2);
  expectGradients(problem);
  problem.score = compose(alibi({0.5, 0.25}, 1), softcap(2.0));
  problem.causal = Causal::BottomRight;
  expectGradients(problem);
  problem.score = compose(softcap(2.0), alibi({0.5, 0.25}));
  expectGradients(problem);
}

TEST(Backward, BiasOfEveryExtent) {
  for (int64_t b : {1, 2})
    for (int64_t h : {1, 4})
      for (int64_t rows : {1, 3}) {
        AttentionProblem problem = makeProblem(2, 4, 2, 3, 4, 2, 2);
        problem.bias = {normals(b * h * rows * 4, 5), b, h, rows};
        problem.causal = Causal::BottomRight;
        problem.score = softcap(2.0);
        expectGradients(problem);
      }
}

TEST(Backward, Dropout) {
  AttentionProblem problem = makeProblem(2, 4, 2, 5, 6, 3, 3);
  problem.dropout = {0.4, 77, 1ull << 40};
  expectGradients(problem);
  problem.causal = Causal::TopLeft;
  problem.bias = {normals(6, 5), 1, 1, 1};
  problem.score = softcap(3.0);
  expectGradients(problem);
}

TEST(Backward, Packed) {
  PackedProblem problem;
  problem.common = makeProblem(1, 2, 1, 0, 0, 3, 2);
  problem.common.causal = Causal::BottomRight;
  problem.common.dropout = {0.2, 5, 6};
  problem.cuQ = {0, 3, 3, 5, 7};
  problem.cuKv = {0, 4, 6, 6, 7};
  AttentionProblem packed = problem.packed();
  AttentionInputs inputs = randomInputs(packed, Type::F64, 11);
  BackwardResult result = backward(problem, inputs);
  expectGradient("dq", problem, inputs, packed, inputs.q, result.dQ);
  expectGradient("dk", problem, inputs, packed, inputs.k, result.dK);
  expectGradient("dv", problem, inputs, packed, inputs.v, result.dV);
}

TEST(Backward, SavedProbabilitiesGiveTheSame) {
  AttentionProblem problem = makeProblem(2, 4, 2, 40, 9, 3, 5);
  problem.causal = Causal::BottomRight;
  problem.score = softcap(2.0);
  problem.dropout = {0.2, 5, 6};
  AttentionInputs inputs = randomInputs(problem, Type::F64, 11);
  BackwardResult expected = backward(problem, inputs);
  inputs.probabilities = probabilities(problem, inputs);
  BackwardResult result = backward(problem, inputs);
  for (auto [one, other] :
       {std::pair{&result.dQ, &expected.dQ}, std::pair{&result.dK, &expected.dK},
        std::pair{&result.dV, &expected.dV}})
    for (size_t n = 0; n < one->size(); ++n)
      ASSERT_NEAR((*one)[n], (*other)[n], 1e-13);
  // Saved probabilities are used: other probabilities give other gradients. The forward ignores
  // them.
  ForwardResult o = forward(problem, inputs);
  for (double &p : inputs.probabilities)
    p *= 0.5;
  EXPECT_NEAR(backward(problem, inputs).dV[0], expected.dV[0] / 2, 1e-14);
  EXPECT_EQ(forward(problem, inputs).o, o.o);
}

TEST(Backward, RowsAndKeysWithoutPairsHaveZeroGradients) {
  AttentionProblem problem = makeProblem(1, 2, 1, 4, 6, 3, 3);
  problem.mask = [](int64_t, int64_t, int64_t i, int64_t j) { return i != 1 && j != 4; };
  AttentionInputs inputs = randomInputs(problem, Type::F16, 11);
  for (Type type : {Type::F64, Type::F32, Type::F16, Type::BF16}) {
    BackwardResult result = backward(problem, inputs, Precision::lowp(type));
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t d = 0; d < 3; ++d)
        EXPECT_EQ(result.dQ[(h * 4 + 1) * 3 + d], 0.0);
      // With o = 0, delta is -dLse.
      EXPECT_NEAR(result.delta[h * 4 + 1], -inputs.dLse[h * 4 + 1], 1e-12);
    }
    for (int64_t d = 0; d < 3; ++d) {
      EXPECT_EQ(result.dK[4 * 3 + d], 0.0);
      EXPECT_EQ(result.dV[4 * 3 + d], 0.0);
      EXPECT_NE(result.dK[d], 0.0);
    }
  }
}

TEST(Backward, NoKeysAtAll) {
  AttentionProblem problem = makeProblem(1, 2, 1, 3, 0, 4, 5);
  BackwardResult result = backward(problem, randomInputs(problem, Type::F32, 1));
  EXPECT_EQ(result.dQ, std::vector<double>(24, 0.0));
  EXPECT_TRUE(result.dK.empty() && result.dV.empty());
  problem = makeProblem(1, 2, 1, 0, 3, 4, 5);
  result = backward(problem, randomInputs(problem, Type::F32, 1));
  EXPECT_EQ(result.dK, std::vector<double>(12, 0.0));
  EXPECT_EQ(result.dV, std::vector<double>(15, 0.0));
}

TEST(Backward, NaNStaysWhereItIsUsed) {
  AttentionProblem problem = makeProblem(1, 1, 1, 3, 3, 2, 2);
  problem.causal = Causal::TopLeft;
  AttentionInputs inputs = randomInputs(problem, Type::F64, 1);
  BackwardResult clean = backward(problem, inputs);
  inputs.dO[0] = std::nan(""); // row 0, which keeps key 0 only
  BackwardResult result = backward(problem, inputs);
  EXPECT_TRUE(std::isnan(result.dQ[0]) && std::isnan(result.dK[0]) && std::isnan(result.dV[0]));
  for (int n = 2; n < 6; ++n) {
    EXPECT_NEAR(result.dQ[n], clean.dQ[n], 1e-14);
    EXPECT_NEAR(result.dK[n], clean.dK[n], 1e-14);
    EXPECT_NEAR(result.dV[n], clean.dV[n], 1e-14);
  }
}

TEST(Backward, RunsAreBitIdentical) {
  AttentionProblem problem = makeProblem(1, 2, 1, 150, 40, 16, 16);
  AttentionInputs inputs = randomInputs(problem, Type::F16, 1);
  for (Type type : {Type::F64, Type::F32, Type::F16}) {
    BackwardResult first = backward(problem, inputs, Precision::lowp(type));
    BackwardResult second = backward(problem, inputs, Precision::lowp(type));
    EXPECT_EQ(first.dQ, second.dQ);
    EXPECT_EQ(first.dK, second.dK);
    EXPECT_EQ(first.dV, second.dV);
  }
}

} // namespace
