// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of kernels/mods/ linked to attention, by the accuracy rule.
// CaptureGradientsTest.cpp tests the gradients of captures of score modifiers.

#include "test/Acceptance/ShippedMods.h"
#include "test/Reference/Cases.h"

#include "gtest/gtest.h"

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

const std::vector<Shape> modShapes = {{113, 203}, {203, 113}, {160, 160}};

class ScoreMods : public ::testing::TestWithParam<ShippedMod> {};

TEST_P(ScoreMods, Forward) {
  const ShippedMod &mod = GetParam();
  uint64_t seed = 1;
  for (Type type : allTypes)
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
      Shape shape = modShapes[seed % 3];
      AttentionProblem problem =
          makeProblem(2, 4, seed % 2 ? 2 : 4, shape.Sq, shape.Skv, 64, seed % 4 ? 64 : 40, causal);
      if (seed % 5 == 0)
        problem.window = {50, 20};
      mod.apply(problem);
      MatrixCase matrixCase("attention_forward", mod.name, type);
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      expectForward(ForwardOracle(problem, inputs, type),
                    runForward(problem, type, inputs, optionsFor(mod, problem)),
                    describe(problem, type));
    }
}

INSTANTIATE_TEST_SUITE_P(Mod, ScoreMods, ::testing::ValuesIn(scoreMods()),
                         [](const auto &info) { return info.param.name; });

class MaskMods : public ::testing::TestWithParam<ShippedMod> {};

TEST_P(MaskMods, ForwardAndBackward) {
  const ShippedMod &mod = GetParam();
  uint64_t seed = 100;
  for (Type type : allTypes)
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
      Shape shape = modShapes[seed % 3];
      AttentionProblem problem =
          makeProblem(3, 4, seed % 2 ? 2 : 4, shape.Sq, shape.Skv, 64, seed % 4 ? 64 : 40, causal);
      if (seed % 5 == 0)
        problem.window = {50, 20};
      mod.apply(problem);
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      CallOptions options = optionsFor(mod, problem);
      ForwardResult saved;
      {
        MatrixCase matrixCase("attention_forward", mod.name, type);
        saved = runForward(problem, type, inputs, options);
        expectForward(ForwardOracle(problem, inputs, type), saved, describe(problem, type));
      }
      BackwardOracle oracle(problem, inputs, type);
      {
        MatrixCase matrixCase("attention_backward", mod.name, type);
        expectBackward(oracle, runBackward(problem, type, inputs, saved, options),
                       describe(problem, type));
      }
      MatrixCase matrixCase("attention_backward DETERMINISTIC", mod.name, type);
      options.params = {{"DETERMINISTIC", "true"}};
      expectBackward(oracle, runBackward(problem, type, inputs, saved, options),
                     describe(problem, type) + " deterministic");
    }
}

INSTANTIATE_TEST_SUITE_P(Mod, MaskMods, ::testing::ValuesIn(maskMods()),
                         [](const auto &info) { return info.param.name; });

class Mods : public ::testing::TestWithParam<ShippedMod> {};

/// A file of a score and one of a mask, linked together.
TEST_P(Mods, AScoreAndAMaskTogether) {
  const ShippedMod &score = GetParam();
  uint64_t seed = 200;
  for (const ShippedMod &mask : maskMods())
    for (Type type : allTypes) {
      AttentionProblem problem = makeProblem(2, 4, 2, 70, 150, 32, 32);
      score.apply(problem);
      mask.apply(problem);
      CallOptions options;
      options.with = {"mods/" + score.name, "mods/" + mask.name};
      options.bind = [&](KernelCall &call) {
        score.bind(call, problem);
        mask.bind(call, problem);
      };
      std::string names = score.name + " + " + mask.name;
      std::string context = names + ", " + describe(problem, type);
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      ForwardResult saved;
      {
        MatrixCase matrixCase("attention_forward", names, type);
        saved = runForward(problem, type, inputs, options);
        expectForward(ForwardOracle(problem, inputs, type), saved, context);
      }
      MatrixCase matrixCase("attention_backward", names, type);
      expectBackward(BackwardOracle(problem, inputs, type),
                     runBackward(problem, type, inputs, saved, options), context);
    }
}

INSTANTIATE_TEST_SUITE_P(Score, Mods, ::testing::ValuesIn(scoreMods()),
                         [](const auto &info) { return info.param.name; });

} // namespace
