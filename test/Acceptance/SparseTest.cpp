// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Block-sparse lists, the backward from saved probabilities, and fp8.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Probes.h"
#include "test/Reference/Variants.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

class OtherForms : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, OtherForms, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

/// For each (batch, head, block of queries) a random set of blocks of keys in random order.
struct BlockLists {
  int64_t blockM, blockN, rowBlocks, keyBlocks, length;
  std::vector<int64_t> blocks, counts;

  BlockLists(const AttentionProblem &p, int64_t blockM, int64_t blockN, uint64_t seed)
      : blockM(blockM), blockN(blockN), rowBlocks((p.Sq + blockM - 1) / blockM),
        keyBlocks((p.Skv + blockN - 1) / blockN), length(keyBlocks + 1) {
    Generator generator(seed);
    for (int64_t list = 0; list < p.B * p.Hq * rowBlocks; ++list) {
      std::vector<int64_t> order;
      for (int64_t block = 0; block < keyBlocks; ++block)
        order.insert(order.begin() + generator.integer(0, block + 1), block);
      int64_t count = generator.integer(0, keyBlocks + 1); // none, some or all
      // What is no block of k is passed over: too large, or negative as padding often is.
      if (generator.integer(0, 2))
        order.insert(order.begin() + count++ / 2, generator.integer(0, 2) ? keyBlocks + 3 : -1);
      counts.push_back(count);
      order.resize(length, 0); // beyond the count: a valid block that must not be read
      blocks.insert(blocks.end(), order.begin(), order.end());
    }
  }

  MaskMod mask(const AttentionProblem &p) const {
    BlockLists lists = *this;
    int64_t heads = p.Hq;
    return [=](int64_t b, int64_t h, int64_t i, int64_t j) {
      int64_t list = (b * heads + h) * lists.rowBlocks + i / lists.blockM;
      auto begin = lists.blocks.begin() + list * lists.length, end = begin + lists.counts[list];
      return std::find(begin, end, j / lists.blockN) != end;
    };
  }
};

ForwardResult runSparse(const AttentionProblem &problem, Type type, const AttentionInputs &inputs,
                        const BlockLists &lists) {
  Params params = attentionParams(problem, type, /*hasWindow=*/false);
  params.emplace_back("BLOCK_M", std::to_string(lists.blockM));
  params.emplace_back("BLOCK_N", std::to_string(lists.blockN));
  KernelCall call("attention_block_sparse", params);
  bindInputs(call, problem, type, inputs, {}, /*hasWindow=*/false);
  bindForwardOutputs(call, problem, type);
  call.integers("blocks", {problem.B, problem.Hq, lists.rowBlocks, lists.length}, lists.blocks);
  call.integers("counts", {problem.B, problem.Hq, lists.rowBlocks}, lists.counts);
  call.runTwice();
  return readForward(call);
}

TEST_P(OtherForms, BlockSparse) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (auto [blockM, blockN] : {std::pair<int64_t, int64_t>{16, 16}, {64, 32}, {32, 128}})
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
      AttentionProblem problem =
          makeProblem(2, 4, 2, seed % 2 ? 150 : 200, seed % 2 ? 203 : 130, 64, 64, causal);
      BlockLists lists(problem, blockM, blockN, seed);
      problem.mask = lists.mask(problem);
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      MatrixCase matrixCase("attention_block_sparse", maskName(problem), type);
      expectForward(ForwardOracle(problem, inputs, type), runSparse(problem, type, inputs, lists),
                    describe(problem, type));
      for (const MaskProbe &probe : oneHotProbes(problem))
        expectOk(
            checkOneHotProbe(problem, probe, type, runSparse(problem, type, probe.inputs, lists).o),
            describe(problem, type));
    }
}

TEST_P(OtherForms, SavedProbabilities) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (Window window : {Window{}, Window{25, 10}}) {
      AttentionProblem problem = makeProblem(2, 4, seed % 2 ? 2 : 1, seed % 2 ? 139 : 75,
                                             seed % 3 ? 75 : 139, 64, 40, causal, window);
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      inputs.dLse.clear(); // the kernel has none
      ForwardResult saved = forward(problem, inputs);
      roundTo(type, saved.o);
      inputs.probabilities = probabilities(problem, inputs);
      roundTo(type, inputs.probabilities);

      MatrixCase matrixCase("attention_backward_saved_probs", maskName(problem), type);
      KernelCall call("attention_backward_saved_probs", {{"D", std::to_string(problem.D)},
                                                         {"DV", std::to_string(problem.DV)},
                                                         {"T", typeName(type)}});
      bindInputs(call, problem, type, inputs, {}, /*hasWindow=*/false);
      ElementType element = elementType(type);
      const std::vector<int64_t> shapeO = {problem.B, problem.Hq, problem.Sq, problem.DV};
      call.input("o", element, shapeO, saved.o);
      call.input("do", element, shapeO, inputs.dO);
      call.input("p", element, {problem.B, problem.Hq, problem.Sq, problem.Skv},
                 inputs.probabilities);
      call.output("dq", element, {problem.B, problem.Hq, problem.Sq, problem.D});
      call.output("dk", element, {problem.B, problem.Hkv, problem.Skv, problem.D});
      call.output("dv", element, {problem.B, problem.Hkv, problem.Skv, problem.DV});
      call.runTwice();
      expectBackward(BackwardOracle(problem, inputs, type), readBackward(call),
                     describe(problem, type));
    }
}

TEST_P(OtherForms, BlockSparseExtentsOfZeroAndNaN) {
  Type type = GetParam();
  for (AttentionProblem problem : emptyProblems()) {
    BlockLists lists(problem, 16, 32, 1);
    problem.mask = lists.mask(problem);
    AttentionInputs inputs = randomInputs(problem, type, 1);
    expectForward(ForwardOracle(problem, inputs, type), runSparse(problem, type, inputs, lists),
                  describe(problem, type));
  }
  AttentionProblem problem = makeProblem(1, 2, 1, 75, 64, 32, 24);
  BlockLists lists(problem, 32, 32, 1);
  for (size_t list = 0; list < lists.counts.size(); ++list) { // every block, as each row has a key
    lists.counts[list] = 2;
    lists.blocks[list * lists.length] = 1;
    lists.blocks[list * lists.length + 1] = 0;
  }
  expectNaNStaysInItsRow(problem, type, [&](const AttentionInputs &inputs) {
    return runSparse(problem, type, inputs, lists);
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
    for (auto [D, DV] : {std::pair<int64_t, int64_t>{64, 64}, {128, 40}, {7, 33}}) {
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
