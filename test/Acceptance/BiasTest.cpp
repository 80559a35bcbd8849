// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// attention_forward with mods/bias, and attention_backward with SCORE_GRADIENT on its results:
// every broadcast of the bias, no bias, and biases of -inf.

#include "test/Acceptance/AttentionCall.h"

#include "gtest/gtest.h"

#include <limits>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

std::vector<int64_t> shapeOf(const AttentionProblem &problem) {
  return {problem.bias.b, problem.bias.h, problem.bias.rows, problem.Skv};
}

ForwardResult biasForward(const AttentionProblem &problem, Type type,
                          const AttentionInputs &inputs) {
  std::vector<std::string> with;
  if (problem.bias)
    with.push_back("mods/bias");
  KernelCall call("attention_forward", attentionParams(problem, type), with);
  bindInputs(call, problem, type, inputs);
  bindForwardOutputs(call, problem, type);
  if (problem.bias)
    call.input("bias", elementType(type), shapeOf(problem), problem.bias.values);
  call.runTwice();
  return readForward(call);
}

BackwardResult biasBackward(const AttentionProblem &problem, Type type,
                            const AttentionInputs &inputs, const ForwardResult &saved,
                            bool withDBias) {
  Params params = attentionParams(problem, type);
  params.emplace_back("DETERMINISTIC", "true");
  params.emplace_back("SCORE_GRADIENT", withDBias ? "true" : "false");
  std::vector<std::string> with;
  if (problem.bias)
    with.push_back("mods/bias");
  KernelCall call("attention_backward", params, with);
  bindInputs(call, problem, type, inputs);
  bindBackward(call, problem, type, inputs, saved);
  if (problem.bias)
    call.input("bias", elementType(type), shapeOf(problem), problem.bias.values);
  std::vector<int64_t> ofPairs = {problem.B, problem.Hq, problem.Sq, problem.Skv};
  if (withDBias)
    call.output("d_score", accumulatorType(type), problem.bias ? shapeOf(problem) : ofPairs);
  call.runTwice();
  BackwardResult result = readBackward(call);
  if (withDBias)
    result.dBias = call.read("d_score");
  return result;
}

Bias makeBias(const AttentionProblem &problem, Type type, int broadcast, uint64_t seed) {
  Bias bias;
  bias.b = broadcast & 1 ? 1 : problem.B;
  bias.h = broadcast & 2 ? 1 : problem.Hq;
  bias.rows = broadcast & 4 ? 1 : problem.Sq;
  bias.values = normals(bias.b * bias.h * bias.rows * problem.Skv, seed, type, 2.0);
  return bias;
}

std::string nameOf(const Bias &bias) {
  std::string name = "bias [";
  name += bias.b == 1 ? "1, " : "B, ";
  name += bias.h == 1 ? "1, " : "H, ";
  return name + (bias.rows == 1 ? "1, Skv]" : "Sq, Skv]");
}

void check(const AttentionProblem &problem, Type type, uint64_t seed, const std::string &what) {
  AttentionInputs inputs = randomInputs(problem, type, seed);
  if (seed % 2)
    inputs.dLse.clear();
  std::string context = what + ", " + describe(problem, type);
  ForwardResult saved;
  {
    MatrixCase matrixCase("attention_forward", problem.bias ? what : maskName(problem), type);
    saved = biasForward(problem, type, inputs);
    expectForward(ForwardOracle(problem, inputs, type), saved, context);
  }
  MatrixCase matrixCase("attention_backward SCORE_GRADIENT", what, type);
  BackwardOracle oracle(problem, inputs, type);
  BackwardResult result = biasBackward(problem, type, inputs, saved, true);
  expectBackward(oracle, result, context);
  if (!problem.bias)
    return;
  expectOk(oracle.checkDBias(result.dBias), context);
  // Without d_score, dq, dk and dv are the same.
  BackwardResult without = biasBackward(problem, type, inputs, saved, false);
  EXPECT_EQ(result.dQ, without.dQ) << context;
  EXPECT_EQ(result.dK, without.dK) << context;
  EXPECT_EQ(result.dV, without.dV) << context;
}

class BiasKernels : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, BiasKernels, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(BiasKernels, EveryBroadcast) {
  uint64_t seed = 1;
  for (int broadcast = 0; broadcast < 8; ++broadcast) {
    const Causal causals[] = {Causal::None, Causal::TopLeft, Causal::BottomRight};
    AttentionProblem problem = makeProblem(2, 4, seed % 2 ? 2 : 4, seed % 2 ? 75 : 139,
                                           seed % 2 ? 139 : 75, 64, 40, causals[seed % 3]);
    problem.bias = makeBias(problem, GetParam(), broadcast, 1000 + seed);
    check(problem, GetParam(), seed++, nameOf(problem.bias));
  }
}

TEST_P(BiasKernels, NoBias) {
  check(makeProblem(1, 2, 1, 75, 139, 64, 64, Causal::TopLeft), GetParam(), 3, "no bias");
}

/// A bias of -inf masks a pair; rows with only such pairs have no keys.
TEST_P(BiasKernels, MinusInfinityMasks) {
  AttentionProblem problem = makeProblem(1, 2, 2, 75, 139, 32, 32);
  problem.bias = makeBias(problem, GetParam(), 1, 5);
  Generator generator(5);
  for (size_t i = 0; i < problem.bias.values.size(); ++i) {
    int64_t row = static_cast<int64_t>(i) / problem.Skv;
    if (row % 10 == 3 || generator.integer(0, 3) == 0)
      problem.bias.values[i] = -std::numeric_limits<double>::infinity();
  }
  check(problem, GetParam(), 4, "bias with -inf");
}

TEST_P(BiasKernels, ExtentsOfZero) {
  for (const AttentionProblem &problem : emptyProblems())
    check(problem, GetParam(), 1, "no bias");
}

TEST_P(BiasKernels, NaNInARowStaysThere) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 4, 2, 75, 139, 32, 24, Causal::TopLeft);
  problem.bias = makeBias(problem, type, 0, 5);
  expectNaNStaysInItsRow(problem, type, [&](const AttentionInputs &inputs) {
    return biasForward(problem, type, inputs);
  });
}

} // namespace
