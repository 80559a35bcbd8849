// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each synchronization in the kernels of test/Tgpu, and in the shipped kernels after tile-to-tgpu,
// is necessary: without it, the simulator reports a fault. A redundant synchronization has the
// attribute tgpu.redundant, and the test checks that the kernel runs without it.

#include "SimulatorTesting.h"

#include "dialect/Tgpu/Tgpu.h"
#include "lib/Interpreter/Simulator/Mutations.h"

#include <set>
#include <tuple>

namespace tilewright {
namespace {

/// Reasons why operations that passes create are redundant, by the names of the operations;
/// "unreached" is why some are never executed.
using Proofs = std::map<std::string, std::string>;

class SimulatorMutationTest : public SimulatorTest {
protected:
  void expectAllFoundInForward(const std::string &kind, int64_t depth, const Proofs &proofs = {});

  /// In at least one of the calls.
  void expectAllFound(mlir::ModuleOp module, const std::string &entry,
                      llvm::ArrayRef<SimulatedCall> calls, Proofs proofs = {}) {
    SimulationOptions options;
    options.moments = {AsyncMoment::Latest, AsyncMoment::Earliest, AsyncMoment::Random};
    std::vector<Mutation> mutations = listMutations(module);
    EXPECT_FALSE(mutations.empty());
    std::set<std::string> used;
    std::set<unsigned> executed;
    for (const SimulatedCall &call : calls) {
      messages.clear();
      SimulationOptions whole;
      whole.executed = &executed;
      auto copy = call;
      ASSERT_TRUE(mlir::succeeded(simulate(module, entry, copy.arguments(), whole))) << messages;
    }
    for (const Mutation &mutation : mutations) {
      messages.clear();
      auto mutant = mutate(module, mutation);
      SimulatedModule simulated(*mutant);
      bool survives = llvm::all_of(calls, [&](SimulatedCall copy) {
        return mlir::succeeded(simulated.run(entry, copy.arguments(), options));
      });
      mlir::Operation *op = findMutated(module, mutation);
      auto proof = tgpu::redundantAttr.get(op);
      if (!survives) {
        EXPECT_FALSE(proof) << "is needed: " << describe(module, mutation) << "\n" << messages;
        continue;
      }
      auto listed = proofs.find(executed.count(mutation.number) ? op->getName().getStringRef().str()
                                                                : std::string("unreached"));
      if (listed != proofs.end())
        used.insert(listed->first);
      else
        EXPECT_TRUE(proof && !proof.empty())
            << "survives: " << describe(module, mutation)
            << (executed.count(mutation.number) ? "" : ", which is never executed");
    }
    for (const auto &[name, proof] : proofs)
      EXPECT_TRUE(used.count(name)) << "no " << name << " survives: the proof is not needed";
  }
};

TEST_F(SimulatorMutationTest, AttentionForwardForAmpere) {
  auto module = load("test/Tgpu/attention_forward_sm80.mlir");
  ASSERT_TRUE(module);
  expectAllFound(*module, "attention_forward", attentionForward(1, 1, 100, 250, 128));
}

/// More tiles than thread blocks, with several blocks of keys each; Q is negated in one call.
void SimulatorMutationTest::expectAllFoundInForward(const std::string &kind, int64_t depth,
                                                    const Proofs &proofs) {
  auto module = load("test/Tgpu/attention_forward_sm90_" + kind + ".mlir");
  ASSERT_TRUE(module);
  std::vector<SimulatedCall> calls;
  for (double scale : {0.25, -0.25}) {
    calls.push_back(attentionForward(1, 3, 300, 500, depth));
    calls.back().scalars = {{"scale", scale}};
  }
  expectAllFound(*module, "attention_forward", calls, proofs);
}

TEST_F(SimulatorMutationTest, AttentionForwardForHopperD64) { expectAllFoundInForward("d64", 64); }
TEST_F(SimulatorMutationTest, AttentionForwardForHopperD64Causal) {
  expectAllFoundInForward("d64_causal", 64);
}
TEST_F(SimulatorMutationTest, AttentionForwardForHopperD128) {
  expectAllFoundInForward("d128", 128);
}
TEST_F(SimulatorMutationTest, AttentionForwardForHopperD128N128) {
  expectAllFoundInForward("d128_n128", 128);
}
TEST_F(SimulatorMutationTest, AttentionForwardForHopperD128Causal) {
  expectAllFoundInForward("d128_causal", 128);
}
TEST_F(SimulatorMutationTest, AttentionForwardForHopperD256) {
  expectAllFoundInForward("d256", 256);
}
TEST_F(SimulatorMutationTest, AttentionForwardForHopperD256Causal) {
  expectAllFoundInForward("d256_causal", 256);
}

TEST_F(SimulatorMutationTest, AttentionBackwardForHopper) {
  auto module = load("test/Tgpu/attention_backward_sm90.mlir");
  ASSERT_TRUE(module);
  expectAllFound(*module, "attention_backward", attentionBackward(1, 600, 100));
}

TEST_F(SimulatorMutationTest, AttentionBackwardKeysForHopper) {
  auto module = load("test/Tgpu/attention_backward_sm90_d256_keys.mlir");
  ASSERT_TRUE(module);
  expectAllFound(*module, "pairs_of_keys", attentionBackwardKeys(2, 300, 100, 256));
}

const std::string kMergedGroups =
    "copies that follow each other, each with a commit, are waited for together: the commit of the "
    "second closes both";
const std::string kHeadOfRound =
    "a round that writes shared memory begins with a barrier; where a vote or the exchange of a "
    "tile is a barrier as well, it lies between the last read of each buffer and its next write";

// Backwards have whole sums: the kernel for keys that the launches here use, without the kernel for
// single heads (SynchronizationMutationTest has both).

/// A window, so that blocks at both ends of a loop are masked and those between them are full.
const std::map<std::string, Argument> kWindow = {
    {"scale", 0.25}, {"window_left", int64_t(60)}, {"window_right", int64_t(60)}};

TEST_F(SimulatorMutationTest, MappedForward) {
  auto module =
      map("attention_forward.mlir",
          {{"T", "bf16"}, {"D", "16"}, {"WINDOW", "true"}, {"BLOCK_M", "32"}, {"BLOCK_N", "16"}});
  ASSERT_TRUE(module);
  SimulatedCall call = attentionForward(1, 1, 128, 300, 16);
  call.scalars = kWindow;
  expectAllFound(*module, "attention_forward", call);
}

TEST_F(SimulatorMutationTest, MappedBackward) {
  auto module =
      map("attention_backward.mlir",
          {{"T", "bf16"}, {"D", "16"}, {"WINDOW", "true"}, {"BLOCK_M", "16"}, {"BLOCK_N", "32"}},
          "sm_80", 4, {}, {}, "whole");
  ASSERT_TRUE(module);
  SimulatedCall call;
  for (const char *name : {"q", "o", "do", "dq"})
    call.tensors.emplace(name, randomTensor(ElementType::BF16, {1, 2, 250, 16}, name[0]));
  for (const char *name : {"k", "v", "dk", "dv"})
    call.tensors.emplace(name, randomTensor(ElementType::BF16, {1, 1, 128, 16}, name[0]));
  call.tensors.emplace("lse", randomTensor(ElementType::F32, {1, 2, 250}, 0));
  call.scalars = kWindow;
  expectAllFound(*module, "attention_backward", call,
                 {{"tgpu.copy_commit", kMergedGroups}, {"tgpu.sync", kHeadOfRound}});
}

/// With the default blocks and warps, products have grids of warps, and read computed operands from
/// shared memory. Some blocks are full. The last block of keys in one call, and the last block of
/// queries in the other, have no kept pair.
TEST_F(SimulatorMutationTest, MappedBackwardByDefault) {
  for (int64_t depth : {64, 128})
    for (const char *deterministic : {"false", "true"}) {
      SCOPED_TRACE(testing::Message() << "D " << depth << ", DETERMINISTIC " << deterministic);
      auto module = map("attention_backward.mlir",
                        {{"T", "bf16"},
                         {"D", std::to_string(depth)},
                         {"WINDOW", "true"},
                         {"DETERMINISTIC", deterministic}},
                        "sm_80", /*warps=*/0, {}, {}, "whole");
      ASSERT_TRUE(module);
      std::vector<SimulatedCall> calls;
      for (auto [rows, keys] : {std::pair<int64_t, int64_t>(300, 600), {600, 300}}) {
        SimulatedCall call;
        for (const char *name : {"q", "o", "do", "dq"})
          call.tensors.emplace(name, randomTensor(ElementType::BF16, {1, 2, rows, depth}, name[0]));
        for (const char *name : {"k", "v", "dk", "dv"})
          call.tensors.emplace(name, randomTensor(ElementType::BF16, {1, 1, keys, depth}, name[0]));
        call.tensors.emplace("lse", randomTensor(ElementType::F32, {1, 2, rows}, 0));
        call.scalars = {
            {"scale", 0.25}, {"window_left", int64_t(150)}, {"window_right", int64_t(150)}};
        calls.push_back(std::move(call));
      }
      expectAllFound(*module, "attention_backward", calls,
                     {{"tgpu.copy_commit", kMergedGroups}, {"tgpu.sync", kHeadOfRound}});
    }
}

/// With gradients of all captures of the modifier: sums over a tile, over its rows and over its
/// columns, and additions of single elements.
TEST_F(SimulatorMutationTest, MappedBackwardOfAModifiedScore) {
  auto module = map("attention_backward.mlir",
                    {{"T", "bf16"},
                     {"D", "16"},
                     {"WINDOW", "true"},
                     {"BLOCK_M", "16"},
                     {"BLOCK_N", "32"},
                     {"CAPTURE_GRADIENTS", "true"}},
                    "sm_80", 4, {"test/Acceptance/Inputs/learned.mlir"}, {}, "whole");
  ASSERT_TRUE(module);
  SimulatedCall call;
  for (const char *name : {"q", "o", "do", "dq"})
    call.tensors.emplace(name, randomTensor(ElementType::BF16, {1, 2, 250, 16}, name[0]));
  for (const char *name : {"k", "v", "dk", "dv"})
    call.tensors.emplace(name, randomTensor(ElementType::BF16, {1, 1, 128, 16}, name[0]));
  auto add = [&](const std::string &name, llvm::SmallVector<int64_t> shape) {
    call.tensors.emplace(name, randomTensor(ElementType::F32, shape, 0));
  };
  add("lse", {1, 2, 250});
  for (const char *prefix : {"", "d_"}) {
    add(prefix + std::string("gain"), {2});
    add(prefix + std::string("row"), {250});
    add(prefix + std::string("key"), {1, 128});
    add(prefix + std::string("slope"), {2, 13});
  }
  add("d_temperature", {1});
  call.scalars = kWindow;
  call.scalars["temperature"] = 0.75;
  call.scalars["reach"] = int64_t(12);
  expectAllFound(*module, "attention_backward", call,
                 {{"tgpu.copy_commit", kMergedGroups}, {"tgpu.sync", kHeadOfRound}});
}

TEST_F(SimulatorMutationTest, MappedPagedDecode) {
  auto module = map("attention_decode.mlir", {{"T", "f16"},
                                              {"D", "32"},
                                              {"PAGE_ROWS", "16"},
                                              {"GROUP", "2"},
                                              {"BLOCK_N", "16"},
                                              {"SPLITS", "2"}});
  ASSERT_TRUE(module);
  SimulatedCall call;
  for (const char *name : {"q", "o"})
    call.tensors.emplace(name, randomTensor(ElementType::F16, {1, 4, 1, 32}, name[0]));
  for (const char *name : {"k_pages", "v_pages"})
    call.tensors.emplace(name, randomTensor(ElementType::F16, {6, 16, 2, 32}, name[0]));
  call.tensors.emplace("lse", randomTensor(ElementType::F32, {1, 4, 1}, 0));
  call.tensors.emplace("block_table", Tensor(ElementType::I32, {1, 5},
                                             [](int64_t i) { return static_cast<double>(5 - i); }));
  call.tensors.emplace("seq_lens", Tensor(ElementType::I32, {1}, 75));
  call.scalars = {{"scale", 0.25}, {"window_left", int64_t(-1)}, {"window_right", int64_t(-1)}};
  expectAllFound(*module, "attention_decode", call, {{"tgpu.copy_commit", kMergedGroups}});
}

TEST_F(SimulatorMutationTest, MappedSequencesOfOtherLengths) {
  auto module = map("attention_forward.mlir", {{"T", "f16"},
                                               {"D", "16"},
                                               {"WINDOW", "true"},
                                               {"PACKED", "true"},
                                               {"BLOCK_M", "32"},
                                               {"BLOCK_N", "16"}});
  ASSERT_TRUE(module);
  SimulatedCall call;
  for (const char *name : {"q", "o"})
    call.tensors.emplace(name, randomTensor(ElementType::F16, {1, 2, 140, 16}, name[0]));
  for (const char *name : {"k", "v"})
    call.tensors.emplace(name, randomTensor(ElementType::F16, {1, 1, 310, 16}, name[0]));
  call.tensors.emplace("lse", randomTensor(ElementType::F32, {1, 2, 140}, 0));
  for (auto [name, middle, end] : {std::tuple("cu_seqlens_q", 12, 140), {"cu_seqlens_k", 10, 310}})
    call.tensors.emplace(name,
                         Tensor(ElementType::I32, {3}, [middle = middle, end = end](int64_t i) {
                           return i == 0 ? 0. : i == 1 ? middle : end;
                         }));
  call.scalars = kWindow;
  expectAllFound(*module, "attention_forward", call);
}

TEST_F(SimulatorMutationTest, MappedMatMul) {
  for (const char *type : {"bf16", "f32"}) {
    auto module =
        map("matmul.mlir", {{"T", type}, {"BLOCK_M", "32"}, {"BLOCK_N", "32"}, {"BLOCK_K", "32"}});
    ASSERT_TRUE(module);
    SimulatedCall call = matmul(40, 40, 200, *parseElementType(type));
    call.scalars = {{"alpha", 1.0}};
    expectAllFound(*module, "matmul", call);
  }
}

/// The other kernels, with named arguments.
struct OtherKernel {
  const char *name;
  std::vector<std::pair<std::string, std::string>> params;
  Proofs proofs;
  std::vector<std::string> with = {}; ///< files of kernels/mods
  const char *form = nullptr;         ///< part of the test name
};
void PrintTo(const OtherKernel &kernel, std::ostream *os) { *os << kernel.name; }

class OtherKernelMutationTest : public SimulatorMutationTest,
                                public testing::WithParamInterface<OtherKernel> {};

TEST_P(OtherKernelMutationTest, EverySynchronizationIsNeeded) {
  const OtherKernel &kernel = GetParam();
  Params params = kernel.params;
  params.insert(params.end(), {{"D", "16"}, {"BLOCK_N", "16"}});
  if (llvm::none_of(params, [](const auto &param) { return param.first == "BLOCK_M"; }))
    params.push_back({"BLOCK_M", "32"});
  std::vector<std::string> with;
  for (const std::string &file : kernel.with)
    with.push_back("kernels/mods/" + file + ".mlir");
  auto module =
      map(std::string(kernel.name) + ".mlir", params, "sm_80", /*warps=*/4, with, {}, "whole");
  ASSERT_TRUE(module);
  bool hasWindow =
      llvm::is_contained(params, std::pair<std::string, std::string>("WINDOW", "true"));
  CallExtents extents;
  extents.hasResult = false; // without o, another kernel computes delta, by a product
  SimulatedCall call = extents.makeCall(entryArguments, /*window=*/hasWindow ? 40 : -1);
  // With a bias, a kernel has work for rows of a large LSE only.
  if (auto lse = call.tensors.find("lse"); lse != call.tensors.end() && !kernel.with.empty())
    lse->second.fill([](int64_t i) { return i % 2 ? 1e6 : 0.5; });
  expectAllFound(*module, kernel.name, call, kernel.proofs);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, OtherKernelMutationTest,
    testing::Values(
        OtherKernel{"attention_forward", {{"T", "f16"}, {"WINDOW", "true"}}, {}, {"bias"}},
        OtherKernel{"attention_backward",
                    {{"T", "f16"}, {"SCORE_GRADIENT", "true"}, {"DETERMINISTIC", "true"}},
                    {{"tgpu.copy_commit", kMergedGroups}, {"tgpu.sync", kHeadOfRound}},
                    {"bias"}},
        OtherKernel{"attention_forward", {{"T", "f16"}, {"WINDOW", "true"}}, {}, {"dropout"}},
        OtherKernel{"attention_backward",
                    {{"T", "f16"}, {"DETERMINISTIC", "true"}},
                    {{"tgpu.copy_commit", kMergedGroups}, {"tgpu.sync", kHeadOfRound}},
                    {"dropout"}},
        OtherKernel{
            "attention_forward",
            {{"T", "f16"}, {"LISTED", "true"}, {"LIST_BLOCK_M", "32"}, {"LIST_BLOCK_N", "16"}},
            {{"tgpu.copy_commit", kMergedGroups}},
            {},
            "listed"},
        OtherKernel{"attention_backward",
                    {{"T", "f16"},
                     {"LISTED", "true"},
                     {"LIST_BLOCK_M", "32"},
                     {"LIST_BLOCK_N", "16"},
                     {"DETERMINISTIC", "true"}},
                    {{"tgpu.copy_commit", kMergedGroups}},
                    {},
                    "listed"},
        OtherKernel{"attention_backward",
                    {{"T", "f16"}, {"WINDOW", "true"}, {"PACKED", "true"}},
                    {{"tgpu.copy_commit", kMergedGroups}}},
        OtherKernel{
            "attention_forward", {{"T", "e4m3"}, {"TO", "f32"}}, {{"tgpu.sync", kHeadOfRound}}},
        OtherKernel{"attention_backward_saved_probs",
                    {{"T", "f16"}, {"DQ_BLOCK_M", "32"}, {"DQ_BLOCK_N", "16"}},
                    {}},
        OtherKernel{"attention_forward_saved_probs", {{"T", "f16"}}, {}}),
    [](const auto &info) {
      std::string name = info.param.name;
      for (const std::string &file : info.param.with)
        name += "_" + file;
      return info.param.form ? name + "_" + info.param.form : name;
    });

TEST_F(SimulatorMutationTest, MappedMatMulForHopper) {
  for (int64_t warps : {4, 8}) {
    // SynchronizationMutationTest has the kernels for shares of the loop.
    auto module = map("matmul.mlir", {{"T", "bf16"}, {"BLOCK_N", "128"}}, "sm_90a", warps,
                      /*with=*/{}, /*schedule=*/{}, "shares=1");
    ASSERT_TRUE(module);
    SimulatedCall call = matmul(300, 264, 328);
    call.scalars = {{"alpha", 1.0}};
    expectAllFound(*module, "matmul", call);
  }
}

/// Two sums whose products share an operand and a group, with a wait one iteration later.
TEST_F(SimulatorMutationTest, MappedSwigluForHopper) {
  for (const char *transposed : {"false", "true"}) {
    auto module = map("swiglu.mlir", {{"T", "bf16"}, {"TRANSPOSED", transposed}}, "sm_90a", 8);
    ASSERT_TRUE(module);
    SimulatedCall call;
    constexpr int64_t m = 140, n = 264, k = 328;
    bool isTurned = transposed == llvm::StringRef("true");
    for (const char *name : {"w_gate", "w_up"})
      call.tensors.emplace(
          name, randomTensor(ElementType::BF16, {isTurned ? n : k, isTurned ? k : n}, name[2]));
    call.tensors.emplace("x", randomTensor(ElementType::BF16, {m, k}, 0));
    call.tensors.emplace("y", randomTensor(ElementType::BF16, {m, n}, 0));
    expectAllFound(*module, "swiglu", call);
  }
}

/// The state and the results pass through shared memory while the product of the next chunk runs.
TEST_F(SimulatorMutationTest, MappedLinearAttentionForHopper) {
  auto module = map("linear_attention.mlir", {{"T", "bf16"}, {"D", "128"}}, "sm_90a", 8);
  ASSERT_TRUE(module);
  SimulatedCall call;
  for (const char *name : {"q", "k", "v", "o"})
    call.tensors.emplace(name, randomTensor(ElementType::BF16, {1, 2, 300, 128}, name[0]));
  call.scalars = {{"scale", 0.25}};
  expectAllFound(*module, "linear_attention", call);
}

TEST_F(SimulatorMutationTest, MatMulForHopper) {
  auto module = load("test/Tgpu/matmul_sm90.mlir");
  ASSERT_TRUE(module);
  expectAllFound(*module, "matmul", matmul(300, 256, 328));
}

} // namespace
} // namespace tilewright
