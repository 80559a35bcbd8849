// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists of blocks, the backward from saved probabilities, and fp8.

#include "test/Acceptance/AttentionCall.h"
#include "test/Acceptance/BlockLists.h"
#include "test/Reference/Probes.h"
#include "test/Reference/Variants.h"

#include "gtest/gtest.h"

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

class OtherForms : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, OtherForms, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

/// Block sizes of the kernels that divide those of the lists, in addition to the default.
struct BlockSizes {
  int64_t listM, listN, blockM, blockN;
};

CallOptions optionsOf(const BlockLists &lists, const BlockSizes &sizes) {
  CallOptions options;
  options.params = {{"BLOCK_M", std::to_string(sizes.blockM)},
                    {"BLOCK_N", std::to_string(sizes.blockN)}};
  lists.addTo(options);
  return options;
}

TEST_P(OtherForms, BlockSparse) {
  Type type = GetParam();
  uint64_t seed = 1;
  // Entries that cover one block, and several.
  for (BlockSizes sizes : {BlockSizes{16, 16, 16, 16}, {64, 32, 64, 32}, {64, 128, 32, 32}})
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
      AttentionProblem problem =
          makeProblem(2, 4, 2, seed % 2 ? 150 : 200, seed % 2 ? 203 : 130, 64, 64, causal);
      bool isShared = seed % 3 == 0; // one list for all batches and heads
      BlockLists lists(problem, sizes.listM, sizes.listN, seed, isShared ? 1 : problem.B,
                       isShared ? 1 : problem.Hq);
      problem.mask = lists.mask();
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      CallOptions options = optionsOf(lists, sizes);
      ForwardResult saved;
      {
        MatrixCase matrixCase("attention_forward", maskName(problem) + ", block lists", type);
        saved = runForward(problem, type, inputs, options);
        expectForward(ForwardOracle(problem, inputs, type), saved, describe(problem, type));
        ForwardResult again = runForward(problem, type, inputs, options);
        EXPECT_EQ(saved.o, again.o) << describe(problem, type);
        EXPECT_EQ(saved.lse, again.lse) << describe(problem, type);
        for (const MaskProbe &probe : oneHotProbes(problem))
          expectOk(checkOneHotProbe(problem, probe, type,
                                    runForward(problem, type, probe.inputs, options).o),
                   describe(problem, type));
      }
      for (const char *deterministic : {"false", "true"}) {
        bool isDeterministic = *deterministic == 't';
        MatrixCase matrixCase(isDeterministic ? "attention_backward DETERMINISTIC"
                                              : "attention_backward",
                              maskName(problem) + ", block lists", type);
        CallOptions backward = options;
        backward.params.emplace_back("DETERMINISTIC", deterministic);
        expectBackward(BackwardOracle(problem, inputs, type),
                       runBackward(problem, type, inputs, saved, backward),
                       describe(problem, type));
      }
    }
}

/// The backward from inputs.probabilities, with the result of the forward or without.
BackwardResult runFromProbabilities(const AttentionProblem &problem, Type type,
                                    const AttentionInputs &inputs, const std::vector<double> *o) {
  MatrixCase matrixCase(o ? "attention_backward_saved_probs"
                          : "attention_backward_saved_probs without o",
                        maskName(problem), type);
  KernelCall call("attention_backward_saved_probs", {{"D", std::to_string(problem.D)},
                                                     {"DV", std::to_string(problem.DV)},
                                                     {"T", typeName(type)}});
  bindInputs(call, problem, type, inputs, {}, /*hasWindow=*/false);
  ElementType element = elementType(type);
  const std::vector<int64_t> shapeO = {problem.B, problem.Hq, problem.Sq, problem.DV};
  if (o)
    call.input("o", element, shapeO, *o);
  call.input("do", element, shapeO, inputs.dO);
  call.input("p", element, {problem.B, problem.Hq, problem.Sq, problem.Skv}, inputs.probabilities);
  call.output("dq", element, {problem.B, problem.Hq, problem.Sq, problem.D});
  call.output("dk", element, {problem.B, problem.Hkv, problem.Skv, problem.D});
  call.output("dv", element, {problem.B, problem.Hkv, problem.Skv, problem.DV});
  call.runTwice();
  BackwardResult result = readBackward(call);
  expectBackward(BackwardOracle(problem, inputs, type), result, describe(problem, type));
  return result;
}

TEST_P(OtherForms, SavedProbabilities) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (Window window : {Window{}, Window{25, 10}}) {
      AttentionProblem problem = makeProblem(2, 4, seed % 2 ? 2 : 1, seed % 2 ? 139 : 75,
                                             seed % 3 ? 75 : 139, 64, 40, causal, window);
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      inputs.dLse.clear(); // the kernel has no such argument
      ForwardResult saved = forward(problem, inputs);
      roundTo(type, saved.o);
      inputs.probabilities = probabilities(problem, inputs);
      roundTo(type, inputs.probabilities);

      runFromProbabilities(problem, type, inputs, &saved.o);
      runFromProbabilities(problem, type, inputs, nullptr);
    }
}

/// attention_forward_saved_probs: O, LSE and P, all of which the accuracy rule checks.
struct SavedForward {
  ForwardResult result;
  std::vector<double> p;
};
SavedForward runSavingProbabilities(const AttentionProblem &problem, Type type,
                                    const AttentionInputs &inputs) {
  MatrixCase matrixCase("attention_forward_saved_probs", maskName(problem), type);
  KernelCall call("attention_forward_saved_probs", attentionParams(problem, type));
  bindInputs(call, problem, type, inputs);
  bindForwardOutputs(call, problem, type);
  call.output("p", elementType(type), {problem.B, problem.Hq, problem.Sq, problem.Skv});
  call.runTwice();
  SavedForward saved{readForward(call), call.read("p")};
  expectForward(ForwardOracle(problem, inputs, type), saved.result, describe(problem, type));
  expectOk(checkAccuracy("P", type, {problem.B * problem.Hq, problem.Sq, problem.Skv}, saved.p,
                         probabilities(problem, inputs),
                         probabilities(problem, inputs, Precision::lowp(type))),
           describe(problem, type));
  return saved;
}

TEST_P(OtherForms, SavesProbabilities) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (Window window : {Window{}, Window{25, 10}}) {
      // Rows without a key: more queries than keys and a mask. Widths that are padded.
      AttentionProblem problem = makeProblem(2, 4, seed % 2 ? 2 : 1, seed % 2 ? 139 : 75,
                                             seed % 3 ? 75 : 139, 64, 40, causal, window);
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      inputs.dLse.clear(); // the backward has no such argument
      SavedForward saved = runSavingProbabilities(problem, type, inputs);
      for (int64_t row = 0, at = 0; row < problem.B * problem.Hq * problem.Sq; ++row)
        for (int64_t j = 0; j < problem.Skv; ++j, ++at)
          if (!problem.keeps(0, 0, row % problem.Sq, j)) { // the same for all heads
            ASSERT_EQ(saved.p[at], 0.0) << describe(problem, type) << " at " << row << ", " << j;
          }
      // What it stores is what the backward takes.
      inputs.probabilities = saved.p;
      runFromProbabilities(problem, type, inputs, nullptr);
      runFromProbabilities(problem, type, inputs, &saved.result.o);
    }
  for (const AttentionProblem &problem : emptyProblems())
    runSavingProbabilities(problem, type, randomInputs(problem, type, 1));
  // A window that reaches behind the last key, of rows with and without keys; the last block of
  // keys is not full.
  AttentionProblem behind = makeProblem(1, 2, 1, 139, 75, 64, 40, Causal::None, Window{25, 10});
  runSavingProbabilities(behind, type, randomInputs(behind, type, seed));
}

TEST_P(OtherForms, BlockSparseExtentsOfZeroAndNaN) {
  Type type = GetParam();
  const BlockSizes sizes = {16, 32, 16, 32};
  for (AttentionProblem problem : emptyProblems()) {
    BlockLists lists(problem, sizes.listM, sizes.listN, 1, problem.B, problem.Hq);
    problem.mask = lists.mask();
    AttentionInputs inputs = randomInputs(problem, type, 1);
    CallOptions options = optionsOf(lists, sizes);
    ForwardResult saved = runForward(problem, type, inputs, options);
    expectForward(ForwardOracle(problem, inputs, type), saved, describe(problem, type));
    expectBackward(BackwardOracle(problem, inputs, type),
                   runBackward(problem, type, inputs, saved, options), describe(problem, type));
  }
  AttentionProblem problem = makeProblem(1, 2, 1, 75, 64, 32, 24);
  BlockLists lists(problem, 32, 32, 1, 1, 2);
  for (size_t list = 0; list < lists.counts.size(); ++list) { // every block, as each row has a key
    lists.counts[list] = 2;
    lists.blocks[list * lists.length] = 1;
    lists.blocks[list * lists.length + 1] = 0;
  }
  CallOptions options = optionsOf(lists, {32, 32, 32, 32});
  expectNaNStaysInItsRow(problem, type, [&](const AttentionInputs &inputs) {
    return runForward(problem, type, inputs, options);
  });
}

struct Fp8Types {
  Type operands, result;
};

class Fp8 : public ::testing::TestWithParam<Fp8Types> {};
INSTANTIATE_TEST_SUITE_P(Type, Fp8,
                         ::testing::ValuesIn(std::vector<Fp8Types>{{Type::E4M3, Type::BF16},
                                                                   {Type::E4M3, Type::F16},
                                                                   {Type::E4M3, Type::F32},
                                                                   {Type::E5M2, Type::BF16},
                                                                   {Type::E5M2, Type::F32}}),
                         [](const auto &info) {
                           return std::string(typeName(info.param.operands)) + "_" +
                                  typeName(info.param.result);
                         });

TEST_P(Fp8, ForwardWithDescales) {
  auto [type, output] = GetParam();
  uint64_t seed = 1;
  const Descales scales[] = {{1.0, 1.0, 1.0}, {0.5, 0.25, 3.0}, {0.013, 1.7, 0.37}};
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (auto [D, DV] : {std::pair<int64_t, int64_t>{64, 64}, {128, 40}, {7, 33}, {256, 200}}) {
      AttentionProblem problem =
          makeProblem(2, 4, seed % 2 ? 2 : 1, seed % 2 ? 139 : 75, seed % 3 ? 75 : 203, D, DV,
                      causal, seed % 4 ? Window{} : Window{30, 4});
      AttentionInputs inputs = randomInputs(problem, type, seed);
      Descales descales = scales[seed++ % 3];
      for (double *scale : {&descales.q, &descales.k, &descales.v})
        *scale = roundTo(Type::F32, *scale);

      MatrixCase matrixCase("attention_forward", maskName(problem) + ", result " + typeName(output),
                            type);
      Params params = attentionParams(problem, type);
      params.emplace_back("TO", typeName(output));
      KernelCall call("attention_forward", params);
      bindInputs(call, problem, type, inputs);
      call.input("q_descale", ElementType::F32, {1}, {descales.q});
      call.input("k_descale", ElementType::F32, {1}, {descales.k});
      call.input("v_descale", ElementType::F32, {1}, {descales.v});
      call.output("o", elementType(output), {problem.B, problem.Hq, problem.Sq, problem.DV});
      call.output("lse", ElementType::F32, {problem.B, problem.Hq, problem.Sq});
      call.runTwice();

      Precision lowp = lowpFp8(output);
      lowp.probability = type;
      RoundoffModel roundoff{RoundoffModel::All, type, output};
      ForwardOracle oracle(problem, output,
                           forwardFp8(problem, inputs, descales, Precision::reference(), roundoff),
                           forwardFp8(problem, inputs, descales, lowp));
      expectForward(oracle, readForward(call), describe(problem, type));
    }
}

} // namespace
