// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The goldens of the attention forward (test/Tgpu): handwritten kernels must satisfy the tests of
// the kernels, on the simulator or on a GPU.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Cases.h"
#include "test/Reference/Probes.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

constexpr Type goldenType = Type::BF16;

struct Golden {
  int64_t D;
  Causal causal;
  bool isNarrow = false; ///< 128 rows by 128 keys instead of 192 by 64
};

class Goldens : public ::testing::TestWithParam<Golden> {
protected:
  AttentionProblem make(int64_t B, int64_t Hq, int64_t Hkv, int64_t Sq, int64_t Skv) const {
    const Golden &kernel = GetParam();
    return makeProblem(B, Hq, Hkv, Sq, Skv, kernel.D, kernel.D, kernel.causal);
  }

  CallOptions golden() const {
    CallOptions options;
    options.golden = true;
    if (GetParam().isNarrow)
      options.params = {{"BLOCK_M", "128"}, {"BLOCK_N", "128"}};
    return options;
  }

  void check(const AttentionProblem &problem, uint64_t seed, const CallOptions &options) const {
    AttentionInputs inputs = randomInputs(problem, goldenType, seed);
    ForwardResult result = runForward(problem, goldenType, inputs, options);
    expectForward(ForwardOracle(problem, inputs, goldenType), result,
                  describe(problem, goldenType) + " scale " + std::to_string(problem.scale));
  }
};

/// Partial blocks of rows and of keys, the edge of the causal mask at every position in a block,
/// more tiles than thread blocks.
TEST_P(Goldens, PassTheListOfCases) {
  const Golden &kernel = GetParam();
  const char *mask = kernel.causal == Causal::None ? "none" : "causal";
  uint64_t seed = 1;
  for (Shape shape : shapes()) {
    if (std::max(shape.Sq, shape.Skv) > 1024 && !runsOnGpu())
      continue;
    const std::string &group = groupNames()[seed % 3];
    check(makeCase(goldenType, shape, kernel.D, mask, group).problem, seed, golden());
    ++seed;
    if (IsSkipped() || HasFailure())
      return;
  }
}

/// The maximum of a row is that of the scaled scores, for both signs; a scale of 0 makes all
/// weights equal, except those of masked keys.
TEST_P(Goldens, ScaleByAnyNumber) {
  for (double scale : {-0.25, 0.0, -0.0, -3.0, 40.0}) {
    AttentionProblem problem = make(1, 2, 1, 150, 290);
    problem.scale = scale;
    check(problem, 7, golden());
  }
}

TEST_P(Goldens, TakeEmptyProblems) {
  for (AttentionProblem problem : emptyProblems())
    check(make(problem.B, problem.Hq, problem.Hkv, problem.Sq, problem.Skv), 3, golden());
}

TEST_P(Goldens, LeaveOutLse) {
  CallOptions options = golden();
  options.withLse = false;
  check(make(1, 1, 1, 100, 100), 5, options);
}

TEST_P(Goldens, KeepNaNInItsRow) {
  AttentionProblem problem = make(1, 2, 1, 150, 200);
  problem.scale = -problem.scale; // negating Q and the scale must not change the result
  expectNaNStaysInItsRow(problem, goldenType, [&](const AttentionInputs &inputs) {
    return runForward(problem, goldenType, inputs, golden());
  });
}

/// The keys that a query attends, determined exactly.
TEST_P(Goldens, AttendWhatTheMaskKeeps) {
  AttentionProblem problem = make(1, 1, 1, 210, 270);
  MaskProbe integers = integerProbe(problem, 3);
  ForwardResult result = runForward(problem, goldenType, integers.inputs, golden());
  expectOk(checkIntegerProbe(problem, integers, goldenType, result.o),
           describe(problem, goldenType));
  expectOk(checkProbeLse(problem, result.lse), describe(problem, goldenType));
}

/// Arrays with the memory layout [batch, sequence, head, D]: every output is bitwise equal to that
/// of row-major arrays.
TEST_P(Goldens, TakeStrides) {
  AttentionProblem p = make(2, 4, 2, 70, 90);
  AttentionInputs inputs = randomInputs(p, goldenType, 9);
  CallOptions options = golden();
  auto interleaved = [&](int64_t heads, int64_t rows) {
    Layout layout;
    layout.strides = {rows * heads * p.D, p.D, heads * p.D, 1};
    return layout;
  };
  options.layouts = {{"q", interleaved(p.Hq, p.Sq)},
                     {"k", interleaved(p.Hkv, p.Skv)},
                     {"v", interleaved(p.Hkv, p.Skv)},
                     {"o", interleaved(p.Hq, p.Sq)}};
  ForwardResult expected = runForward(p, goldenType, inputs, golden());
  ForwardResult got = runForward(p, goldenType, inputs, options);
  EXPECT_EQ(expected.o, got.o);
  EXPECT_EQ(expected.lse, got.lse);
}

INSTANTIATE_TEST_SUITE_P(Forward, Goldens,
                         ::testing::Values(Golden{64, Causal::None}, Golden{64, Causal::TopLeft},
                                           Golden{128, Causal::None},
                                           Golden{128, Causal::None, true},
                                           Golden{128, Causal::TopLeft}, Golden{256, Causal::None},
                                           Golden{256, Causal::TopLeft}),
                         [](const auto &info) {
                           return "D" + std::to_string(info.param.D) +
                                  (info.param.causal == Causal::None ? "" : "_causal") +
                                  (info.param.isNarrow ? "_n128" : "");
                         });

} // namespace
