// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every feature of attention_forward and attention_backward with every other: a covering set, in
// which each pair of choices of two features occurs, against the oracle.

#include "test/Acceptance/LearnedMods.h"
#include "test/Acceptance/ShippedMods.h"
#include "test/Reference/Modifiers.h"
#include "test/Reference/Probes.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

//===----------------------------------------------------------------------===//
// The covering set
//===----------------------------------------------------------------------===//

enum Feature {
  CausalMask, // none, top_left, bottom_right
  WindowMask, // none, both sides
  MaskFile,   // none, each, prefix_lm and document, sink_window and tree
  ScoreFile,  // none, softcap, alibi, relative_bias, softcap then alibi, relative_bias then softcap
  BiasFile,   // none, whole, without batch, without heads and rows
  DropoutFile,
  SinkFile,
  HeadGroups, // 1, 2, 4 heads of queries for each of keys
  MoreQueries,
  OtherDV,
  WithDLse,
  Deterministic,
  Transposed, // [B, S, H, D] in memory
  NumFeatures
};
constexpr std::array<int, NumFeatures> numChoices = {3, 2, 8, 6, 4, 2, 2, 3, 2, 2, 2, 2, 2};

using Choice = std::array<int, NumFeatures>;

/// Greedy: each next choice is the best of many random ones that begin with a pair still missing.
std::vector<Choice> coverPairs() {
  auto keyOf = [](int f, int x, int g, int y) { return ((f * 8 + x) * NumFeatures + g) * 8 + y; };
  std::vector<char> missing(NumFeatures * 8 * NumFeatures * 8, 0);
  int numMissing = 0;
  for (int f = 0; f < NumFeatures; ++f)
    for (int g = f + 1; g < NumFeatures; ++g)
      for (int x = 0; x < numChoices[f]; ++x)
        for (int y = 0; y < numChoices[g]; ++y, ++numMissing)
          missing[keyOf(f, x, g, y)] = 1;
  auto gain = [&](const Choice &choice) {
    int count = 0;
    for (int f = 0; f < NumFeatures; ++f)
      for (int g = f + 1; g < NumFeatures; ++g)
        count += missing[keyOf(f, choice[f], g, choice[g])];
    return count;
  };
  Generator generator(1);
  std::vector<Choice> all;
  while (numMissing > 0) {
    size_t first = std::find(missing.begin(), missing.end(), 1) - missing.begin();
    Choice best{};
    int most = -1;
    for (int attempt = 0; attempt < 200; ++attempt) {
      Choice choice;
      for (int f = 0; f < NumFeatures; ++f)
        choice[f] = static_cast<int>(generator.integer(0, numChoices[f]));
      choice[first / 8 / NumFeatures / 8] = static_cast<int>(first / 8 / NumFeatures % 8);
      choice[first / 8 % NumFeatures] = static_cast<int>(first % 8);
      if (int count = gain(choice); count > most) {
        most = count;
        best = choice;
      }
    }
    for (int f = 0; f < NumFeatures; ++f)
      for (int g = f + 1; g < NumFeatures; ++g)
        missing[keyOf(f, best[f], g, best[g])] = 0;
    numMissing -= most;
    all.push_back(best);
  }
  return all;
}

//===----------------------------------------------------------------------===//
// One choice
//===----------------------------------------------------------------------===//

void bindDropout(KernelCall &call, const Dropout &dropout) {
  call.scalar("dropout", dropout.p);
  call.integers("dropout_seed", {1}, {static_cast<int64_t>(dropout.seed)}, ElementType::I64);
  call.integers("dropout_offset", {1}, {static_cast<int64_t>(dropout.offset)}, ElementType::I64);
}

struct Case {
  AttentionProblem problem;
  CallOptions options;
  std::string name;
  bool isTransposed = false;

  Case(const Choice &choice, Type type);

  std::vector<int64_t> biasShape() const {
    return {problem.bias.b, problem.bias.h, problem.bias.rows, problem.Skv};
  }
  /// Layouts are asked for anew for each call.
  CallOptions optionsOfCall() const;
};

Case::Case(const Choice &choice, Type type) {
  const Causal causals[] = {Causal::None, Causal::TopLeft, Causal::BottomRight};
  int64_t group = int64_t(1) << choice[HeadGroups], Hq = 4;
  int64_t few = 75, many = 139;
  problem =
      makeProblem(2, Hq, Hq / group, choice[MoreQueries] ? many : few,
                  choice[MoreQueries] ? few : many, 64, choice[OtherDV] ? 40 : 64,
                  causals[choice[CausalMask]], choice[WindowMask] ? Window{40, 10} : Window{});
  isTransposed = choice[Transposed];
  name = "family " + describe(problem, type);
  std::vector<std::function<void(KernelCall &)>> binds;
  auto link = [&](const ShippedMod &mod) {
    MaskMod mask = std::exchange(problem.mask, {});
    ScoreMod score = std::exchange(problem.score, {});
    mod.apply(problem);
    if (mask)
      problem.mask = problem.mask ? both(mask, problem.mask) : mask;
    if (score)
      problem.score = problem.score ? compose(problem.score, score) : score;
    options.with.push_back("mods/" + mod.name);
    name += ", " + mod.name;
    AttentionProblem sizes = problem;
    binds.push_back([&mod, sizes](KernelCall &call) { mod.bind(call, sizes); });
  };
  const std::vector<std::vector<int>> masks = {{}, {0}, {1}, {2}, {3}, {4}, {1, 2}, {0, 4}};
  const std::vector<std::vector<int>> scores = {{}, {0}, {1}, {2}, {0, 1}, {2, 0}};
  for (int mask : masks[choice[MaskFile]])
    link(maskMods()[mask]);
  for (int score : scores[choice[ScoreFile]])
    link(scoreMods()[score]);
  if (choice[BiasFile]) {
    const AttentionProblem &p = problem;
    Bias bias;
    bias.b = choice[BiasFile] == 2 ? 1 : p.B;
    bias.h = choice[BiasFile] == 3 ? 1 : p.Hq;
    bias.rows = choice[BiasFile] == 3 ? 1 : p.Sq;
    bias.values = normals(bias.b * bias.h * bias.rows * p.Skv, 91, type, 2.0);
    problem.bias = bias;
    options.with.push_back("mods/bias");
    name += ", bias " + std::to_string(choice[BiasFile]);
    binds.push_back([shape = biasShape(), bias, type](KernelCall &call) {
      call.input("bias", elementType(type), shape, bias.values);
    });
  }
  if (choice[DropoutFile]) {
    problem.dropout = {0.25, 0x123456789abcdef0, 7};
    options.with.push_back("mods/dropout");
    name += ", dropout";
    binds.push_back([dropout = problem.dropout](KernelCall &call) { bindDropout(call, dropout); });
  }
  if (choice[SinkFile]) {
    // Where ALiBi is steepest there is none: it would outweigh all keys by more than f32 resolves.
    problem.sinks = {-std::numeric_limits<double>::infinity(), 1.5, 4.0, -2.0};
    options.with.push_back("mods/sink");
    name += ", sink";
    binds.push_back([sinks = problem.sinks](KernelCall &call) {
      call.input("sinks", ElementType::F32, {static_cast<int64_t>(sinks.size())}, sinks);
    });
  }
  name += choice[Deterministic] ? ", deterministic" : "";
  name += isTransposed ? ", transposed" : "";
  options.bind = [binds](KernelCall &call) {
    for (const auto &bind : binds)
      bind(call);
  };
}

CallOptions Case::optionsOfCall() const {
  CallOptions result = options;
  if (!isTransposed)
    return result;
  const AttentionProblem &p = problem;
  auto lay = [&](std::initializer_list<const char *> names, int64_t heads, int64_t rows,
                 int64_t columns) {
    for (const char *array : names)
      result.layouts[array].strides = {rows * heads * columns, columns, heads * columns, 1};
  };
  lay({"q", "dq"}, p.Hq, p.Sq, p.D);
  lay({"k", "dk"}, p.Hkv, p.Skv, p.D);
  lay({"v", "dv"}, p.Hkv, p.Skv, p.DV);
  lay({"o", "do"}, p.Hq, p.Sq, p.DV);
  return result;
}

struct FamilyGradients {
  BackwardResult result;
  std::vector<double> dBias, dSinks;
};

FamilyGradients runFamilyBackward(const Case &each, Type type, const AttentionInputs &inputs,
                                  const ForwardResult &saved, bool deterministic) {
  const AttentionProblem &problem = each.problem;
  CallOptions options = each.optionsOfCall();
  Params params = attentionParams(problem, type);
  params.emplace_back("DETERMINISTIC", deterministic ? "true" : "false");
  params.emplace_back("CAPTURE_GRADIENTS", "true");
  KernelCall call("attention_backward", params, options.with);
  bindInputs(call, problem, type, inputs, options);
  bindBackward(call, problem, type, inputs, saved, options);
  options.bind(call);
  if (problem.bias)
    call.output("d_bias", accumulatorType(type), each.biasShape());
  if (!problem.sinks.empty())
    call.output("d_sinks", ElementType::F32, {problem.Hq});
  if (deterministic)
    call.runTwice();
  else
    call.run();
  FamilyGradients gradients{readBackward(call), {}, {}};
  if (problem.bias)
    gradients.dBias = call.read("d_bias");
  if (!problem.sinks.empty())
    gradients.dSinks = call.read("d_sinks");
  return gradients;
}

void check(const Choice &choice, Type type, uint64_t seed) {
  Case each(choice, type);
  const AttentionProblem &problem = each.problem;
  AttentionInputs inputs = randomInputs(problem, type, seed);
  if (!choice[WithDLse])
    inputs.dLse.clear();
  ForwardResult saved;
  {
    MatrixCase matrixCase("attention_forward", "several features", type);
    saved = runForward(problem, type, inputs, each.optionsOfCall());
    expectForward(ForwardOracle(problem, inputs, type), saved, each.name);
  }
  bool deterministic = choice[Deterministic];
  MatrixCase matrixCase(deterministic ? "attention_backward DETERMINISTIC" : "attention_backward",
                        "several features", type);
  BackwardOracle oracle(problem, inputs, type);
  FamilyGradients gradients = runFamilyBackward(each, type, inputs, saved, deterministic);
  expectBackward(oracle, gradients.result, each.name);
  if (problem.bias)
    expectOk(oracle.checkDBias(gradients.dBias), each.name);
  if (problem.sinks.empty())
    return;
  // A kernel in f64 sums gradients of tables of f32 in f32: there the oracle of f32 is the measure.
  std::optional<BackwardOracle> narrow;
  if (type == Type::F64)
    narrow.emplace(problem, inputs, Type::F32);
  const BackwardOracle &measure = narrow ? *narrow : oracle;
  expectOk(checkAccuracy("d_sinks", type == Type::F64 ? Type::F32 : type, {1, problem.Hq, 1},
                         gradients.dSinks, measure.ref.dSink, measure.lowp.dSink,
                         measure.ref.roundoffDSink),
           each.name);
}

class Family : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Family, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(Family, EveryPairOfFeatures) {
  uint64_t seed = 500;
  for (const Choice &choice : coverPairs())
    check(choice, GetParam(), seed++);
}

/// All files at once, on problems without batches, heads, queries or keys.
TEST_P(Family, ExtentsOfZero) {
  Type type = GetParam();
  for (AttentionProblem problem : emptyProblems()) {
    CallOptions options;
    options.with = {"mods/softcap", "mods/dropout", "mods/sink"};
    problem.score = softcap(2.0);
    problem.dropout = {0.25, 3, 4};
    problem.sinks.assign(problem.Hq, 0.5);
    options.bind = [&](KernelCall &call) {
      call.scalar("softcap", 2.0);
      call.input("sinks", ElementType::F32, {problem.Hq}, problem.sinks);
      bindDropout(call, problem.dropout);
    };
    AttentionInputs inputs = randomInputs(problem, type, 1);
    ForwardResult saved = runForward(problem, type, inputs, options);
    expectForward(ForwardOracle(problem, inputs, type), saved, describe(problem, type));
    expectBackward(BackwardOracle(problem, inputs, type),
                   runBackward(problem, type, inputs, saved, options), describe(problem, type));
  }
}

TEST_P(Family, NaNInARowStaysThere) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 4, 2, 75, 139, 32, 24, Causal::TopLeft);
  problem.dropout = {0.25, 3, 4};
  problem.sinks = {0.5, 1.0, -1.0, 2.0};
  CallOptions options;
  options.with = {"mods/dropout", "mods/sink"};
  options.bind = [&](KernelCall &call) {
    call.input("sinks", ElementType::F32, {problem.Hq}, problem.sinks);
    bindDropout(call, problem.dropout);
  };
  expectNaNStaysInItsRow(problem, type, [&](const AttentionInputs &inputs) {
    return runForward(problem, type, inputs, options);
  });
}

/// A sink of minus infinity, a bias of zero, a softcap of no effect and no dropout: linked, they
/// change no bit of what the kernels compute without them.
TEST(FamilyOfNothing, ChangesNoBit) {
  Type type = Type::F32;
  AttentionProblem problem = makeProblem(1, 2, 1, 75, 139, 64, 64, Causal::BottomRight);
  AttentionInputs inputs = randomInputs(problem, type, 3);
  CallOptions options;
  options.with = {"mods/bias", "mods/dropout", "mods/sink"};
  options.bind = [&](KernelCall &call) {
    call.input("bias", elementType(type), {1, 1, 1, 1}, {0.0});
    call.input("sinks", ElementType::F32, {2},
               std::vector<double>(2, -std::numeric_limits<double>::infinity()));
    bindDropout(call, {0.0, 1, 2});
  };
  CallOptions plain;
  plain.params = {{"DETERMINISTIC", "true"}};
  CallOptions linked = options;
  linked.params = plain.params;
  ForwardResult expected = runForward(problem, type, inputs);
  ForwardResult got = runForward(problem, type, inputs, options);
  if (runsOnGpu())
    return;
  EXPECT_EQ(expected.o, got.o);
  EXPECT_EQ(expected.lse, got.lse);
  BackwardResult expectedGradients = runBackward(problem, type, inputs, expected, plain);
  BackwardResult gradients = runBackward(problem, type, inputs, expected, linked);
  for (auto member : {&BackwardResult::dQ, &BackwardResult::dK, &BackwardResult::dV})
    EXPECT_EQ(expectedGradients.*member, gradients.*member);
}

} // namespace
