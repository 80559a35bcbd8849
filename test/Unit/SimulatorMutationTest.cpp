// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each synchronisation of the kernels of test/Tgpu, and of what tile-to-tgpu makes of the shipped
// ones, is needed: without it the simulator reports a fault. What is not needed carries a proof,
// the attribute tgpu.redundant; and a proof stands only where the kernel runs without it.

#include "SimulatorTesting.h"

#include "lib/Interpreter/Simulator/Mutations.h"

#include <set>
#include <tuple>

namespace tilewright {
namespace {

/// Why operations that passes write may be missing from a kernel, by their names.
using Proofs = std::map<std::string, std::string>;

class SimulatorMutationTest : public SimulatorTest {
protected:
  void expectAllFound(mlir::ModuleOp module, const std::string &entry, const SimulatedCall &call,
                      Proofs proofs = {}) {
    SimulationOptions options;
    options.moments = {AsyncMoment::Latest, AsyncMoment::Earliest, AsyncMoment::Random};
    std::vector<Mutation> mutations = listMutations(module);
    EXPECT_FALSE(mutations.empty());
    std::set<std::string> used;
    for (const Mutation &mutation : mutations) {
      messages.clear();
      auto mutant = mutate(module, mutation);
      auto copy = call;
      bool survives = mlir::succeeded(simulate(*mutant, entry, copy.arguments(), options));
      mlir::Operation *op = findMutated(module, mutation);
      auto proof = op->getAttrOfType<mlir::StringAttr>(kRedundantAttr);
      if (!survives) {
        EXPECT_FALSE(proof) << "is needed: " << describe(module, mutation) << "\n" << messages;
        continue;
      }
      auto listed = proofs.find(op->getName().getStringRef().str());
      if (listed != proofs.end())
        used.insert(listed->first);
      else
        EXPECT_TRUE(proof && !proof.empty()) << "survives: " << describe(module, mutation);
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

TEST_F(SimulatorMutationTest, AttentionForwardForHopper) {
  auto module = load("test/Tgpu/attention_forward_sm90.mlir");
  ASSERT_TRUE(module);
  expectAllFound(*module, "attention_forward", attentionForward(1, 3, 100, 500, 128));
}

TEST_F(SimulatorMutationTest, AttentionBackwardForHopper) {
  auto module = load("test/Tgpu/attention_backward_sm90.mlir");
  ASSERT_TRUE(module);
  expectAllFound(*module, "attention_backward", attentionBackward(1, 600, 100));
}

/// A window, so that blocks at both ends of a loop are masked and those between are full.
const std::map<std::string, Argument> kWindow = {
    {"scale", 0.25}, {"window_left", int64_t(60)}, {"window_right", int64_t(60)}};

TEST_F(SimulatorMutationTest, MappedForward) {
  auto module = map("attention_forward.mlir", {{"T", "bf16"},
                                               {"D", "16"},
                                               {"WINDOW", "true"},
                                               {"BLOCK_M", "32"},
                                               {"BLOCK_N", "16"}});
  ASSERT_TRUE(module);
  SimulatedCall call = attentionForward(1, 1, 128, 300, 16);
  call.scalars = kWindow;
  expectAllFound(*module, "attention_forward", call);
}

TEST_F(SimulatorMutationTest, MappedBackward) {
  auto module = map("attention_backward.mlir", {{"T", "bf16"},
                                                {"D", "16"},
                                                {"WINDOW", "true"},
                                                {"BLOCK_M", "16"},
                                                {"BLOCK_N", "32"}});
  ASSERT_TRUE(module);
  SimulatedCall call;
  for (const char *name : {"q", "o", "do", "dq"})
    call.tensors.emplace(name, randomTensor(ElementType::BF16, {1, 2, 250, 16}, name[0]));
  for (const char *name : {"k", "v", "dk", "dv"})
    call.tensors.emplace(name, randomTensor(ElementType::BF16, {1, 1, 128, 16}, name[0]));
  call.tensors.emplace("lse", randomTensor(ElementType::F32, {1, 2, 250}, 0));
  call.scalars = kWindow;
  expectAllFound(
      *module, "attention_backward", call,
      {{"tgpu.copy_commit",
        "the copies of K and V are two groups, which are waited for together: the second commit "
        "closes both"},
       {"tgpu.sync",
        "one at the start of a round or of a head, where nothing is masked but the barrier of the "
        "exchange of dS or the vote of a masked block stands between: what the copies brought is "
        "read behind the vote, and what they overwrite was read before the exchange"}});
}

TEST_F(SimulatorMutationTest, MappedPagedDecode) {
  auto module = map("attention_paged_decode.mlir",
                    {{"T", "f16"}, {"D", "32"}, {"PAGE", "16"}, {"GROUP", "2"}});
  ASSERT_TRUE(module);
  SimulatedCall call;
  for (const char *name : {"q", "o"})
    call.tensors.emplace(name, randomTensor(ElementType::F16, {1, 4, 32}, name[0]));
  for (const char *name : {"k_pages", "v_pages"})
    call.tensors.emplace(name, randomTensor(ElementType::F16, {6, 16, 2, 32}, name[0]));
  call.tensors.emplace("lse", randomTensor(ElementType::F32, {1, 4}, 0));
  call.tensors.emplace("block_table", Tensor(ElementType::I32, {1, 5}, [](int64_t i) {
                         return static_cast<double>(5 - i);
                       }));
  call.tensors.emplace("seq_lens", Tensor(ElementType::I32, {1}, 75));
  call.scalars = {{"scale", 0.25}};
  expectAllFound(*module, "attention_paged_decode", call);
}

TEST_F(SimulatorMutationTest, MappedSequencesOfOtherLengths) {
  auto module = map("attention_varlen_forward.mlir", {{"T", "f16"},
                                                      {"D", "16"},
                                                      {"WINDOW", "true"},
                                                      {"BLOCK_M", "32"},
                                                      {"BLOCK_N", "16"}});
  ASSERT_TRUE(module);
  SimulatedCall call;
  for (const char *name : {"q", "o"})
    call.tensors.emplace(name, randomTensor(ElementType::F16, {140, 2, 16}, name[0]));
  for (const char *name : {"k", "v"})
    call.tensors.emplace(name, randomTensor(ElementType::F16, {310, 1, 16}, name[0]));
  call.tensors.emplace("lse", randomTensor(ElementType::F32, {2, 140}, 0));
  for (auto [name, middle, end] : {std::tuple("cu_seqlens_q", 12, 140), {"cu_seqlens_k", 10, 310}})
    call.tensors.emplace(name, Tensor(ElementType::I32, {3}, [=](int64_t i) {
                           return i == 0 ? 0. : i == 1 ? middle : end;
                         }));
  call.scalars = kWindow;
  call.scalars["max_seqlen_q"] = int64_t(128);
  expectAllFound(*module, "attention_varlen_forward", call);
}

TEST_F(SimulatorMutationTest, MappedMatMul) {
  for (const char *type : {"bf16", "f32"}) {
    auto module = map("matmul.mlir",
                      {{"T", type}, {"BLOCK_M", "32"}, {"BLOCK_N", "32"}, {"BLOCK_K", "32"}});
    ASSERT_TRUE(module);
    SimulatedCall call = matmul(40, 40, 200, *parseElementType(type));
    call.scalars = {{"alpha", 1.0}};
    expectAllFound(*module, "matmul", call);
  }
}

TEST_F(SimulatorMutationTest, MappedMatMulForHopper) {
  for (int64_t warps : {4, 8}) {
    auto module = map("matmul.mlir", {{"T", "bf16"}, {"BLOCK_N", "128"}}, "sm_90a", warps);
    ASSERT_TRUE(module);
    SimulatedCall call = matmul(300, 264, 328);
    call.scalars = {{"alpha", 1.0}};
    expectAllFound(*module, "matmul", call);
  }
}

TEST_F(SimulatorMutationTest, MatMulForHopper) {
  auto module = load("test/Tgpu/matmul_sm90.mlir");
  ASSERT_TRUE(module);
  expectAllFound(*module, "matmul", matmul(300, 256, 328));
}

} // namespace
} // namespace tilewright
