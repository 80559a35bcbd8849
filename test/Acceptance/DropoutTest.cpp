// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dropout with mods/dropout, forward and backward: the dropped pairs must be exactly those of the
// oracle's Philox, for all block sizes; results by the accuracy rule.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Probes.h"

#include "gtest/gtest.h"

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

KernelCall makeCall(const std::string &kernel, const AttentionProblem &problem, Type type,
                    const AttentionInputs &inputs, const Params &more) {
  Params params = attentionParams(problem, type);
  params.insert(params.end(), more.begin(), more.end());
  KernelCall call(kernel, params, {"mods/dropout"});
  bindInputs(call, problem, type, inputs);
  const Dropout &dropout = problem.dropout;
  call.integers("dropout_seed", {1}, {static_cast<int64_t>(dropout.seed)}, ElementType::I64);
  call.integers("dropout_offset", {1}, {static_cast<int64_t>(dropout.offset)}, ElementType::I64);
  call.scalar("dropout", dropout.p);
  return call;
}

ForwardResult dropoutForward(const AttentionProblem &problem, Type type,
                             const AttentionInputs &inputs, const Params &params = {}) {
  KernelCall call = makeCall("attention_forward", problem, type, inputs, params);
  bindForwardOutputs(call, problem, type);
  call.runTwice();
  return readForward(call);
}

BackwardResult dropoutBackward(const AttentionProblem &problem, Type type,
                               const AttentionInputs &inputs, const ForwardResult &saved,
                               const Params &params = {}) {
  Params all = params;
  all.emplace_back("DETERMINISTIC", "true"); // makes two runs bitwise equal
  KernelCall call = makeCall("attention_backward", problem, type, inputs, all);
  bindBackward(call, problem, type, inputs, saved);
  call.runTwice();
  return readBackward(call);
}

const std::vector<Dropout> dropouts = {
    {0.0, 1, 0},
    {0.25, 0x123456789abcdef0, 7},
    {static_cast<float>(0.1), 42, (uint64_t(5) << 32) + 0xfffffff0},
    {0.9375, uint64_t(-1), uint64_t(-1)}};

class DropoutFile : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, DropoutFile, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(DropoutFile, DropThePairsOfTheOracle) {
  Type type = GetParam();
  size_t turn = 0;
  for (const Dropout &dropout : dropouts)
    for (Params blocks : {Params{}, Params{{"BLOCK_M", "16"}, {"BLOCK_N", "32"}}}) {
      AttentionProblem problem =
          makeProblem(2, 4, 2, 45, 101, 8, 64, turn++ % 2 ? Causal::BottomRight : Causal::None);
      problem.dropout = dropout;
      std::string context = "p = " + std::to_string(dropout.p);
      for (const MaskProbe &probe : oneHotProbes(problem))
        expectOk(checkOneHotProbe(problem, probe, type,
                                  dropoutForward(problem, type, probe.inputs, blocks).o),
                 context);
      for (const MaskProbe &probe : backwardProbes(problem))
        expectOk(checkBackwardProbe(
                     problem, probe, type,
                     dropoutBackward(problem, type, probe.inputs, probe.saved, blocks).dV),
                 context);
    }
}

TEST_P(DropoutFile, ForwardAndBackward) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (const Dropout &dropout : dropouts)
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
      AttentionProblem problem = makeProblem(2, 4, seed % 2 ? 2 : 4, seed % 2 ? 75 : 139,
                                             seed % 2 ? 139 : 75, 64, 40, causal);
      problem.dropout = dropout;
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      if (seed % 2)
        inputs.dLse.clear();
      std::string context = describe(problem, type) + ", p = " + std::to_string(dropout.p);
      ForwardResult saved;
      {
        MatrixCase matrixCase("attention_forward", maskName(problem) + ", dropout", type);
        saved = dropoutForward(problem, type, inputs);
        expectForward(ForwardOracle(problem, inputs, type), saved, context);
      }
      MatrixCase matrixCase("attention_backward DETERMINISTIC", maskName(problem) + ", dropout",
                            type);
      expectBackward(BackwardOracle(problem, inputs, type),
                     dropoutBackward(problem, type, inputs, saved), context);
    }
}

/// With p = 0, the linked kernel computes the results of the plain one.
TEST_P(DropoutFile, NoDropoutIsPlainAttention) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(1, 2, 1, 75, 139, 64, 64, Causal::TopLeft);
  AttentionInputs inputs = randomInputs(problem, type, 3);
  ForwardResult plain = runForward(problem, type, inputs);
  ForwardResult dropped = dropoutForward(problem, type, inputs);
  if (!runsMapped()) {
    EXPECT_EQ(plain.lse, dropped.lse);
  }
  expectForward(ForwardOracle(problem, inputs, type), dropped);
}

TEST_P(DropoutFile, ExtentsOfZero) {
  Type type = GetParam();
  for (AttentionProblem problem : emptyProblems()) {
    problem.dropout = dropouts[1];
    AttentionInputs inputs = randomInputs(problem, type, 1);
    ForwardResult saved = dropoutForward(problem, type, inputs);
    expectForward(ForwardOracle(problem, inputs, type), saved, describe(problem, type));
    expectBackward(BackwardOracle(problem, inputs, type),
                   dropoutBackward(problem, type, inputs, saved), describe(problem, type));
  }
}

TEST_P(DropoutFile, NaNInARowStaysThere) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 4, 2, 75, 139, 32, 24, Causal::TopLeft);
  problem.dropout = dropouts[1];
  expectNaNStaysInItsRow(problem, type, [&](const AttentionInputs &inputs) {
    return dropoutForward(problem, type, inputs);
  });
}

} // namespace
