// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dropout by the kernels attention_dropout_forward and attention_dropout_backward, and by the file
// mods/dropout: the pairs that are dropped must be exactly those of the oracle's Philox, whatever
// the blocks; results by the accuracy rule.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Probes.h"

#include "gtest/gtest.h"

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

/// What drops pairs: kernels of their own, or a file linked with those of attention.
enum class Form { Kernels, File };

KernelCall makeCall(Form form, const std::string &direction, const AttentionProblem &problem,
                    Type type, const AttentionInputs &inputs, const Params &more) {
  bool isFile = form == Form::File;
  Params params = attentionParams(problem, type, /*hasWindow=*/isFile);
  params.insert(params.end(), more.begin(), more.end());
  KernelCall call((isFile ? "attention_" : "attention_dropout_") + direction, params,
                  isFile ? std::vector<std::string>{"mods/dropout"} : std::vector<std::string>());
  bindInputs(call, problem, type, inputs, {}, /*hasWindow=*/isFile);
  const Dropout &dropout = problem.dropout;
  std::string prefix = isFile ? "dropout_" : "";
  call.integers(prefix + "seed", {1}, {static_cast<int64_t>(dropout.seed)}, ElementType::I64);
  call.integers(prefix + "offset", {1}, {static_cast<int64_t>(dropout.offset)}, ElementType::I64);
  call.scalar("dropout", dropout.p);
  return call;
}

ForwardResult dropoutForward(const AttentionProblem &problem, Type type,
                             const AttentionInputs &inputs, const Params &params = {},
                             Form form = Form::Kernels) {
  KernelCall call = makeCall(form, "forward", problem, type, inputs, params);
  bindForwardOutputs(call, problem, type);
  call.runTwice();
  return readForward(call);
}

BackwardResult dropoutBackward(const AttentionProblem &problem, Type type,
                               const AttentionInputs &inputs, const ForwardResult &saved,
                               const Params &params = {}, Form form = Form::Kernels) {
  Params all = params;
  if (form == Form::File) // so that two runs have the same bits
    all.emplace_back("DETERMINISTIC", "true");
  KernelCall call = makeCall(form, "backward", problem, type, inputs, all);
  bindBackward(call, problem, type, inputs, saved);
  call.runTwice();
  return readBackward(call);
}

const std::vector<Dropout> dropouts = {
    {0.0, 1, 0},
    {0.25, 0x123456789abcdef0, 7},
    {static_cast<float>(0.1), 42, (uint64_t(5) << 32) + 0xfffffff0},
    {0.9375, uint64_t(-1), uint64_t(-1)}};

/// The file counts without the number of heads, which functions of one pair do not know.
void expectThePairsOfTheOracle(Type type, Form form) {
  size_t turn = 0;
  for (const Dropout &dropout : dropouts)
    for (Params blocks : {Params{}, Params{{"BLOCK_M", "16"}, {"BLOCK_N", "32"}}}) {
      AttentionProblem problem =
          makeProblem(2, 4, 2, 45, 101, 8, 64, turn++ % 2 ? Causal::BottomRight : Causal::None);
      problem.dropout = dropout;
      if (form == Form::Kernels)
        problem.dropout.numHeads = problem.Hq;
      for (const MaskProbe &probe : oneHotProbes(problem))
        expectOk(checkOneHotProbe(problem, probe, type,
                                  dropoutForward(problem, type, probe.inputs, blocks, form).o),
                 "p = " + std::to_string(dropout.p));
      for (const MaskProbe &probe : backwardProbes(problem))
        expectOk(checkBackwardProbe(
                     problem, probe, type,
                     dropoutBackward(problem, type, probe.inputs, probe.saved, blocks, form).dV),
                 "p = " + std::to_string(dropout.p));
    }
}

class DropoutFile : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, DropoutFile, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(DropoutFile, DropThePairsOfTheOracle) { expectThePairsOfTheOracle(GetParam(), Form::File); }

class DropoutKernels : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, DropoutKernels, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(DropoutKernels, DropThePairsOfTheOracle) {
  expectThePairsOfTheOracle(GetParam(), Form::Kernels);
}

TEST_P(DropoutKernels, ForwardAndBackward) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (const Dropout &dropout : dropouts)
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
      AttentionProblem problem = makeProblem(2, 4, seed % 2 ? 2 : 4, seed % 2 ? 75 : 139,
                                             seed % 2 ? 139 : 75, 64, 40, causal);
      problem.dropout = dropout;
      problem.dropout.numHeads = problem.Hq;
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      if (seed % 2)
        inputs.dLse.clear();
      std::string context = describe(problem, type) + ", p = " + std::to_string(dropout.p);
      ForwardResult saved;
      {
        MatrixCase matrixCase("attention_dropout_forward", maskName(problem), type);
        saved = dropoutForward(problem, type, inputs);
        expectForward(ForwardOracle(problem, inputs, type), saved, context);
      }
      MatrixCase matrixCase("attention_dropout_backward", maskName(problem), type);
      expectBackward(BackwardOracle(problem, inputs, type),
                     dropoutBackward(problem, type, inputs, saved), context);
    }
}

/// Without dropout the kernels compute what the plain ones do.
TEST_P(DropoutKernels, NoDropoutIsPlainAttention) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(1, 2, 1, 75, 139, 64, 64, Causal::TopLeft);
  AttentionInputs inputs = randomInputs(problem, type, 3);
  ForwardResult plain = runForward(problem, type, inputs);
  ForwardResult dropped = dropoutForward(problem, type, inputs);
  if (!runsOnGpu()) {
    EXPECT_EQ(plain.lse, dropped.lse);
  }
  expectForward(ForwardOracle(problem, inputs, type), dropped);
}

TEST_P(DropoutKernels, ExtentsOfZero) {
  Type type = GetParam();
  for (AttentionProblem problem : emptyProblems()) {
    problem.dropout = dropouts[1];
    problem.dropout.numHeads = problem.Hq;
    AttentionInputs inputs = randomInputs(problem, type, 1);
    ForwardResult saved = dropoutForward(problem, type, inputs);
    expectForward(ForwardOracle(problem, inputs, type), saved, describe(problem, type));
    expectBackward(BackwardOracle(problem, inputs, type),
                   dropoutBackward(problem, type, inputs, saved), describe(problem, type));
  }
}

TEST_P(DropoutKernels, NaNInARowStaysThere) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 4, 2, 75, 139, 32, 24, Causal::TopLeft);
  problem.dropout = dropouts[1];
  problem.dropout.numHeads = problem.Hq;
  expectNaNStaysInItsRow(problem, type, [&](const AttentionInputs &inputs) {
    return dropoutForward(problem, type, inputs);
  });
}

} // namespace
