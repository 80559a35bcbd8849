// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The backward against central differences of the kernel's own forward, in f64: independent of the
// oracle's formulas for gradients. The function differentiated is
//   f = sum O * dO + sum LSE * dLSE,
// whose gradients are dQ, dK and dV.

#include "test/Acceptance/LearnedMods.h"
#include "test/Acceptance/ShippedMods.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

constexpr Type type = Type::F64;

double lossOf(const ForwardResult &result, const AttentionInputs &inputs) {
  double loss = 0;
  for (size_t i = 0; i < result.o.size(); ++i)
    loss += result.o[i] * inputs.dO[i];
  for (size_t i = 0; i < inputs.dLse.size(); ++i)
    if (std::isfinite(result.lse[i])) // the output of a row without keys is constant
      loss += result.lse[i] * inputs.dLse[i];
  return loss;
}

/// Perturbs entries of one input. Error of the difference quotient: h^2 times the third derivative
/// (below 100 here), and 2^-52 times the loss (below 1000) over h. With h = 1e-4 together below
/// 1e-6.
void expectGradient(const char *name, const AttentionProblem &problem, AttentionInputs inputs,
                    std::vector<double> AttentionInputs::*member,
                    const std::vector<double> &gradient, const CallOptions &options) {
  constexpr double h = 1e-4, tolerance = 1e-6;
  std::vector<double> &values = inputs.*member;
  ASSERT_EQ(values.size(), gradient.size());
  size_t step = values.size() / 17 + 1;
  for (size_t i = 0; i < values.size(); i += step) {
    double original = values[i];
    values[i] = original + h;
    double above = lossOf(runForward(problem, type, inputs, options), inputs);
    values[i] = original - h;
    double below = lossOf(runForward(problem, type, inputs, options), inputs);
    values[i] = original;
    EXPECT_NEAR((above - below) / (2 * h), gradient[i], tolerance)
        << name << "[" << i << "], " << describe(problem, type);
  }
}

void checkGradients(const AttentionProblem &problem, CallOptions options = {}) {
  options.run.threads = 1; // for hundreds of small runs
  AttentionInputs inputs = randomInputs(problem, type, 21);
  ForwardResult saved = runForward(problem, type, inputs, options);
  for (const char *deterministic : {"false", "true"}) {
    CallOptions backward = options;
    backward.params = {{"DETERMINISTIC", deterministic}};
    BackwardResult result = runBackward(problem, type, inputs, saved, backward);
    expectGradient("q", problem, inputs, &AttentionInputs::q, result.dQ, options);
    if (deterministic[0] == 't')
      continue; // dK and dV come from the same kernel
    expectGradient("k", problem, inputs, &AttentionInputs::k, result.dK, options);
    expectGradient("v", problem, inputs, &AttentionInputs::v, result.dV, options);
  }
}

TEST(CentralDifferences, PlainAndMasked) {
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (Window window : {Window{}, Window{5, 2}})
      checkGradients(makeProblem(1, 2, 1, 11, 17, 6, 5, causal, window));
}

TEST(CentralDifferences, RowsWithoutKeys) {
  checkGradients(makeProblem(1, 2, 2, 19, 9, 8, 8, Causal::BottomRight));
}

TEST(CentralDifferences, SeveralBlocks) {
  checkGradients(makeProblem(1, 1, 1, 70, 150, 8, 8, Causal::BottomRight));
}

TEST(CentralDifferences, MasksOfOtherFiles) {
  for (const ShippedMod &mod : maskMods()) {
    AttentionProblem problem = makeProblem(2, 2, 1, 13, 13, 8, 8);
    mod.apply(problem);
    checkGradients(problem, optionsFor(mod, problem));
  }
}

//===----------------------------------------------------------------------===//
// Score modifiers: derivatives that the compiler derived
//===----------------------------------------------------------------------===//

/// Every float of 64 bits, captures too, so that they can be perturbed.
constexpr RunSettings inF64{/*threads=*/1, /*f64=*/true};

/// By four points: the error is h^4 times the fifth derivative; h^2 times the jump of a second
/// derivative (below 100 here) where one lies within 2 h; and 2^-52 times the loss (below 1000)
/// over h. With h = 1e-4 together below 1e-6.
void expectGradientOf(const std::string &name, std::vector<double> &values,
                      const std::vector<double> &gradient, const std::function<double()> &loss,
                      const std::string &context) {
  constexpr double h = 1e-4, tolerance = 1e-6;
  ASSERT_EQ(values.size(), gradient.size());
  size_t step = values.size() / 17 + 1;
  for (size_t i = 0; i < values.size(); i += step) {
    double original = values[i];
    auto lossAt = [&](double offset) {
      values[i] = original + offset;
      double result = loss();
      values[i] = original;
      return result;
    };
    double difference = 8 * (lossAt(h) - lossAt(-h)) - (lossAt(2 * h) - lossAt(-2 * h));
    EXPECT_NEAR(difference / (12 * h), gradient[i], tolerance)
        << name << "[" << i << "], " << context;
  }
}

void checkModifier(const AttentionProblem &problem, LearnedMod mod) {
  AttentionInputs inputs = randomInputs(problem, type, 22);
  auto runIt = [&] { return runForward(problem, type, inputs, optionsFor(mod, false, inF64)); };
  auto loss = [&] { return lossOf(runIt(), inputs); };
  ForwardResult saved = runIt();
  for (const char *deterministic : {"false", "true"}) {
    std::string context = mod.name + " deterministic " + deterministic;
    LearnedGradients gradients = runLearnedBackward(problem, type, inputs, saved, mod,
                                                    {{"DETERMINISTIC", deterministic}}, inF64);
    expectGradientOf("q", inputs.q, gradients.result.dQ, loss, context);
    for (size_t t = 0; t < mod.tables.size(); ++t)
      expectGradientOf(mod.tables[t].name, mod.tables[t].values, gradients.tables[t], loss,
                       context);
    if (deterministic[0] == 't')
      continue; // dK and dV come from the same kernel
    expectGradientOf("k", inputs.k, gradients.result.dK, loss, context);
    expectGradientOf("v", inputs.v, gradients.result.dV, loss, context);
  }
}

TEST(CentralDifferences, ShippedAndLearnedModifiers) {
  for (const AttentionProblem &problem :
       {makeProblem(2, 2, 1, 11, 17, 6, 5, Causal::BottomRight),
        makeProblem(1, 2, 2, 19, 9, 8, 8, Causal::BottomRight, {5, 2})})
    for (const LearnedMod &mod : learnedMods(problem))
      checkModifier(problem, mod);
}

TEST(CentralDifferences, EverythingTogether) {
  for (const AttentionProblem &problem :
       {makeProblem(2, 2, 1, 11, 17, 6, 5, Causal::BottomRight, {9, 2}),
        makeProblem(1, 2, 2, 19, 9, 8, 8)})
    checkModifier(problem, chainedMod(problem));
}

TEST(CentralDifferences, EveryFunctionOfMath) {
  checkModifier(makeProblem(1, 2, 1, 9, 13, 6, 6), smoothMod());
}

} // namespace
