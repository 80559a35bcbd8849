// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mask probes: for every mask, special inputs reveal exactly the keys that a query attends, in the
// forward and the backward, with several block sizes.

#include "test/Acceptance/ShippedMods.h"
#include "test/Reference/Cases.h"
#include "test/Reference/Probes.h"

#include "gtest/gtest.h"

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

struct Blocks {
  const char *m, *n; ///< null: the default of the kernel
};

const std::vector<Blocks> blockSizes = {
    {nullptr, nullptr}, {"16", "16"}, {"32", "64"}, {"64", "16"}};

/// One-hot and integer probes in the forward, one-hot probes in the backward. `mask` is the name in
/// the matrix.
void probe(const AttentionProblem &problem, const std::string &mask, Type type, Blocks blocks,
           CallOptions options = {}) {
  std::string context = describe(problem, type) + " " + mask;
  if (blocks.m) {
    options.params.emplace_back("BLOCK_M", blocks.m);
    options.params.emplace_back("BLOCK_N", blocks.n);
    context += std::string(" blocks ") + blocks.m + "x" + blocks.n;
  }
  bool isUniform = !problem.score;
  {
    MatrixCase matrixCase("attention_forward", mask + ", probe", type);
    for (const MaskProbe &oneHot : oneHotProbes(problem)) {
      ForwardResult result = runForward(problem, type, oneHot.inputs, options);
      expectOk(checkOneHotProbe(problem, oneHot, type, result.o), context);
      if (isUniform)
        expectOk(checkProbeLse(problem, result.lse), context);
    }
    if (!isUniform)
      return; // weights are unknown, and modifiers have no backward yet
    MaskProbe integers = integerProbe(problem, 3);
    ForwardResult result = runForward(problem, type, integers.inputs, options);
    expectOk(checkIntegerProbe(problem, integers, type, result.o), context);
    expectOk(checkProbeLse(problem, result.lse), context);
  }
  for (const char *deterministic : {"false", "true"}) {
    MatrixCase matrixCase(deterministic[0] == 't' ? "attention_backward DETERMINISTIC"
                                                  : "attention_backward",
                          mask + ", probe", type);
    for (const MaskProbe &backward : backwardProbes(problem)) {
      CallOptions backwardOptions = options;
      backwardOptions.params.emplace_back("DETERMINISTIC", deterministic);
      BackwardResult gradients =
          runBackward(problem, type, backward.inputs, backward.saved, backwardOptions);
      expectOk(checkBackwardProbe(problem, backward, type, gradients.dV), context);
    }
  }
}

const std::vector<Shape> probeShapes = {{70, 150}, {150, 70}, {128, 128},
                                        {1, 140},  {140, 1},  {17, 17}};

class MaskProbes : public ::testing::TestWithParam<std::string> {};

/// The masks of the list of cases.
TEST_P(MaskProbes, ShowTheAttendedSet) {
  size_t turn = 0;
  for (Shape shape : probeShapes)
    for (Blocks blocks : blockSizes) {
      Type type = allTypes[turn % 4];
      AttentionProblem problem =
          makeCase(type, shape, 8, GetParam(), groupNames()[turn++ % 3]).problem;
      problem.DV = 64;
      probe(problem, maskName(problem), type, blocks);
      if (HasFailure())
        return;
    }
}

INSTANTIATE_TEST_SUITE_P(Mask, MaskProbes, ::testing::ValuesIn(maskNames()),
                         [](const auto &info) { return info.param; });

/// Windows around block boundaries, with every causal mask.
TEST(MaskProbesOfWindows, ShowTheAttendedSet) {
  Generator generator(11);
  for (int turn = 0; turn < 48; ++turn) {
    auto pick = [&](int64_t size) {
      return generator.integer(0, 3) == 0 ? -1 : generator.integer(0, size);
    };
    int64_t Sq = generator.integer(1, 100), Skv = generator.integer(1, 100);
    const Causal causals[] = {Causal::None, Causal::TopLeft, Causal::BottomRight};
    AttentionProblem problem =
        makeProblem(1, 2, 1, Sq, Skv, 8, 64, causals[turn % 3], {pick(Skv), pick(Skv)});
    Type type = allTypes[turn % 4];
    probe(problem, maskName(problem), type, blockSizes[turn % 4]);
    if (HasFailure())
      return;
  }
}

class MaskModProbes : public ::testing::TestWithParam<ShippedMod> {};

/// The masks of kernels/mods/, alone and with the kernel's own mask.
TEST_P(MaskModProbes, ShowTheAttendedSet) {
  size_t turn = 0;
  for (Shape shape : {Shape{70, 150}, {150, 70}, {64, 64}})
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
      for (Blocks blocks : {blockSizes[0], blockSizes[1]}) {
        Type type = allTypes[turn % 4];
        AttentionProblem problem = makeProblem(3, 2, 1, shape.Sq, shape.Skv, 8, 64, causal);
        if (turn++ % 3 == 2)
          problem.window = {40, 12};
        GetParam().apply(problem);
        probe(problem, GetParam().name, type, blocks, optionsFor(GetParam(), problem));
        if (HasFailure())
          return;
      }
}

INSTANTIATE_TEST_SUITE_P(Mod, MaskModProbes, ::testing::ValuesIn(maskMods()),
                         [](const auto &info) { return info.param.name; });

class ScoreModProbes : public ::testing::TestWithParam<ShippedMod> {};

/// A modifier of scores does not change the attended set.
TEST_P(ScoreModProbes, ShowTheAttendedSet) {
  for (Type type : allTypes)
    for (Causal causal : {Causal::None, Causal::BottomRight}) {
      // Few keys, so that all weights are representable in f16.
      AttentionProblem problem = makeProblem(1, 4, 2, 40, 40, 8, 40, causal);
      GetParam().apply(problem);
      probe(problem, GetParam().name, type, blockSizes[1], optionsFor(GetParam(), problem));
    }
}

INSTANTIATE_TEST_SUITE_P(Mod, ScoreModProbes, ::testing::ValuesIn(scoreMods()),
                         [](const auto &info) { return info.param.name; });

} // namespace
