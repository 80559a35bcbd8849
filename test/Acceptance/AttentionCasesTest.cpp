// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks attention_forward and attention_backward over the list of cases by the accuracy rule.
// There is one test for each case; the backward reads O and LSE of the forward. The smoke list
// takes about a minute on two cores, the full list (3924 cases, TILEWRIGHT_TEST_TIER=full) about 25
// core-minutes. GoogleTest's GTEST_TOTAL_SHARDS and GTEST_SHARD_INDEX select a sample of it.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Cases.h"

#include "gtest/gtest.h"

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

struct NumberedCase {
  AttentionCase testCase;
  size_t number;
};

std::vector<NumberedCase> numberedCases() {
  std::vector<NumberedCase> result;
  for (AttentionCase &testCase : attentionCases(currentTier()))
    result.push_back({std::move(testCase), result.size()});
  return result;
}

void PrintTo(const NumberedCase &numbered, std::ostream *os) { *os << numbered.testCase.name; }

class AttentionCases : public ::testing::TestWithParam<NumberedCase> {};

TEST_P(AttentionCases, ForwardAndBackward) {
  const auto &[testCase, number] = GetParam();
  const AttentionProblem &problem = testCase.problem;
  Type type = testCase.type;
  AttentionInputs inputs = randomInputs(problem, type, number + 1);
  if (number % 2) // absent in half of the cases
    inputs.dLse.clear();

  ForwardResult saved;
  {
    MatrixCase matrixCase("attention_forward", maskName(problem), type);
    saved = runForward(problem, type, inputs);
    expectForward(ForwardOracle(problem, inputs, type), saved);
  }
  BackwardOracle oracle(problem, inputs, type);
  {
    MatrixCase matrixCase("attention_backward", maskName(problem), type);
    expectBackward(oracle, runBackward(problem, type, inputs, saved), "fast");
  }
  {
    MatrixCase matrixCase("attention_backward DETERMINISTIC", maskName(problem), type);
    CallOptions options;
    options.params = {{"DETERMINISTIC", "true"}};
    expectBackward(oracle, runBackward(problem, type, inputs, saved, options), "deterministic");
  }
}

INSTANTIATE_TEST_SUITE_P(List, AttentionCases, ::testing::ValuesIn(numberedCases()),
                         [](const auto &info) { return info.param.testCase.name; });

} // namespace
