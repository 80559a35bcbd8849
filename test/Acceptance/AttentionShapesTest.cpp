// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// attention_forward and attention_backward in addition to the list of cases: all kinds of widths,
// all combinations of masks, f64.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Cases.h"

#include "gtest/gtest.h"

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

/// Forward and both backwards of one problem, by the rule.
void checkAll(const AttentionProblem &problem, Type type, uint64_t seed) {
  std::string context = describe(problem, type);
  AttentionInputs inputs = randomInputs(problem, type, seed);
  ForwardResult saved;
  {
    MatrixCase matrixCase("attention_forward", maskName(problem), type);
    saved = runForward(problem, type, inputs);
    expectForward(ForwardOracle(problem, inputs, type), saved, context);
  }
  BackwardOracle oracle(problem, inputs, type);
  for (const char *deterministic : {"false", "true"}) {
    bool isFast = deterministic[0] == 'f';
    MatrixCase matrixCase(isFast ? "attention_backward" : "attention_backward DETERMINISTIC",
                          maskName(problem), type);
    CallOptions options;
    options.params = {{"DETERMINISTIC", deterministic}};
    expectBackward(oracle, runBackward(problem, type, inputs, saved, options),
                   context + " DETERMINISTIC=" + deterministic);
  }
}

struct Width {
  int64_t D, DV;
};

class Widths : public ::testing::TestWithParam<Width> {};

TEST_P(Widths, ForwardAndBackward) {
  auto [D, DV] = GetParam();
  const Causal masks[] = {Causal::None, Causal::TopLeft, Causal::BottomRight, Causal::None};
  uint64_t seed = 1000 * D + DV;
  for (size_t i = 0; i < allTypes.size(); ++i)
    checkAll(makeProblem(2, 4, i % 2 ? 2 : 1, 75, 139, D, DV, masks[(D + i) % 4]), allTypes[i],
             seed + i);
}

/// 72, 104, 144 and 208 are padded in tiles, but not in memory: tensor maps describe their rows.
INSTANTIATE_TEST_SUITE_P(Odd, Widths,
                         ::testing::ValuesIn(std::vector<Width>{{1, 1},
                                                                {7, 7},
                                                                {40, 40},
                                                                {65, 65},
                                                                {72, 72},
                                                                {100, 100},
                                                                {104, 104},
                                                                {144, 144},
                                                                {208, 208},
                                                                {251, 251},
                                                                {320, 320},
                                                                {392, 392},
                                                                {512, 512}}),
                         [](const auto &info) { return "D" + std::to_string(info.param.D); });
INSTANTIATE_TEST_SUITE_P(Different, Widths,
                         ::testing::ValuesIn(std::vector<Width>{{64, 128},
                                                                {128, 64},
                                                                {192, 128},
                                                                {256, 8},
                                                                {1, 256},
                                                                {256, 1},
                                                                {65, 7},
                                                                {7, 100},
                                                                {80, 96},
                                                                {512, 64},
                                                                {128, 384}}),
                         [](const auto &info) {
                           return "D" + std::to_string(info.param.D) + "_DV" +
                                  std::to_string(info.param.DV);
                         });

/// On sm_90a these launches are in order (200 queries, no shared heads), and at D 251 one kernel
/// computes dK and dV, but no tensor map describes rows of 200 or 502 bytes: all kernels of the
/// program then have to be those for sm_80.
TEST(RowsWithoutTensorMaps, HaveKernelsOfOneTarget) {
  for (Type type : {Type::F16, Type::BF16})
    for (int64_t D : {100, 251}) {
      AttentionProblem problem = makeProblem(1, 2, 2, 200, 200, D, D, Causal::TopLeft);
      AttentionInputs inputs = randomInputs(problem, type, 7 * static_cast<uint64_t>(D));
      ForwardResult saved = runForward(problem, type, inputs);
      expectBackward(BackwardOracle(problem, inputs, type),
                     runBackward(problem, type, inputs, saved, CallOptions()),
                     describe(problem, type));
    }
}

class Masks : public ::testing::TestWithParam<Type> {};

/// Every causal mask with every kind of window, on more rows than keys, fewer, and as many.
TEST_P(Masks, InAllCombinations) {
  Type type = GetParam();
  const Window windows[] = {{-1, -1}, {0, 0},  {20, -1}, {-1, 20},
                            {33, 5},  {0, -1}, {-1, 0},  {500, 500}};
  const Shape sizes[] = {{77, 131}, {131, 77}, {96, 96}};
  uint64_t seed = 1;
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (Window window : windows) {
      Shape size = sizes[seed % 3];
      int64_t Hkv = seed % 4 < 2 ? 2 : 1, group = seed % 5 < 3 ? 1 : 2;
      checkAll(makeProblem(1, group * Hkv, Hkv, size.Sq, size.Skv, 32, 24, causal, window), type,
               seed);
      ++seed;
    }
}

INSTANTIATE_TEST_SUITE_P(Type, Masks, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

class ShapesF64 : public ::testing::TestWithParam<int> {};

/// The coverage that the list of cases has for the narrower types.
TEST_P(ShapesF64, MasksAndGroups) {
  const Shape shapes[] = {{64, 128}, {113, 203}, {239, 1}, {108, 256}, {1, 1}, {384, 256}};
  uint64_t seed = 1 + GetParam() * maskNames().size();
  for (const std::string &mask : maskNames()) {
    const std::string &group = groupNames()[seed % 3];
    int64_t D = headDims()[seed % 5];
    checkAll(makeCase(Type::F64, shapes[GetParam()], D, mask, group).problem, Type::F64, seed);
    ++seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Shape, ShapesF64, ::testing::Range(0, 6));

/// --precision=f64 on a kernel bound to a narrow type: nothing is rounded to the type. (The
/// accuracy is that of f32, since the constants of the kernel were rounded to f32 when it was
/// bound.)
TEST(AttentionF64, ARunInF64DoesNotRoundToTheTypeOfTheKernel) {
  for (Type type : {Type::F32, Type::F16, Type::BF16}) {
    AttentionProblem problem = makeProblem(1, 4, 2, 75, 139, 64, 40, Causal::BottomRight, {90, -1});
    AttentionInputs inputs = randomInputs(problem, Type::F64, 5);
    CallOptions options;
    options.run.f64 = true;
    ForwardResult saved = runForward(problem, type, inputs, options);
    expectForward(ForwardOracle(problem, inputs, Type::F32), saved, typeName(type));
    expectBackward(BackwardOracle(problem, inputs, Type::F32),
                   runBackward(problem, type, inputs, saved, options), typeName(type));
  }
}

} // namespace
