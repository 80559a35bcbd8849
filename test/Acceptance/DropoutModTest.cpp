// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mods/dropout in forward and backward: the pairs that are dropped must be exactly those of the
// oracle's Philox, whatever the blocks; results by the accuracy rule.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Probes.h"

#include "gtest/gtest.h"

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

void bindDropout(KernelCall &call, const Dropout &dropout) {
  call.integers("dropout_seed", {1}, {static_cast<int64_t>(dropout.seed)}, ElementType::I64);
  call.integers("dropout_offset", {1}, {static_cast<int64_t>(dropout.offset)}, ElementType::I64);
  call.scalar("dropout", dropout.p);
}

Params joined(const AttentionProblem &problem, Type type, const Params &more) {
  Params params = attentionParams(problem, type);
  params.insert(params.end(), more.begin(), more.end());
  return params;
}

ForwardResult dropoutForward(const AttentionProblem &problem, Type type,
                             const AttentionInputs &inputs, const Params &params = {}) {
  KernelCall call("attention_forward", joined(problem, type, params), {"mods/dropout"});
  bindInputs(call, problem, type, inputs);
  bindForwardOutputs(call, problem, type);
  bindDropout(call, problem.dropout);
  call.runTwice();
  return readForward(call);
}

BackwardResult dropoutBackward(const AttentionProblem &problem, Type type,
                               const AttentionInputs &inputs, const ForwardResult &saved,
                               const Params &params = {}) {
  // So that two runs have the same bits.
  Params all = joined(problem, type, params);
  all.emplace_back("DETERMINISTIC", "true");
  KernelCall call("attention_backward", all, {"mods/dropout"});
  bindInputs(call, problem, type, inputs);
  bindBackward(call, problem, type, inputs, saved);
  bindDropout(call, problem.dropout);
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
      for (const MaskProbe &probe : oneHotProbes(problem))
        expectOk(checkOneHotProbe(problem, probe, type,
                                  dropoutForward(problem, type, probe.inputs, blocks).o),
                 "p = " + std::to_string(dropout.p));
      for (const MaskProbe &probe : backwardProbes(problem))
        expectOk(checkBackwardProbe(
                     problem, probe, type,
                     dropoutBackward(problem, type, probe.inputs, probe.saved, blocks).dV),
                 "p = " + std::to_string(dropout.p));
    }
}

} // namespace
