// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each synchronisation of the kernels of test/Tgpu, and of what tile-to-tgpu makes of the shipped
// ones, is needed: without it the simulator reports a fault. What is not needed carries a proof,
// the attribute tgpu.redundant; and a proof stands only where the kernel runs without it.

#include "SimulatorTesting.h"

#include "lib/Interpreter/Simulator/Mutations.h"

namespace tilewright {
namespace {

class SimulatorMutationTest : public SimulatorTest {
protected:
  void expectAllFound(mlir::ModuleOp module, const std::string &entry, SimulatedCall call) {
    SimulationOptions options;
    options.moments = {AsyncMoment::Latest, AsyncMoment::Earliest, AsyncMoment::Random};
    std::vector<Mutation> mutations = listMutations(module);
    EXPECT_FALSE(mutations.empty());
    for (const Mutation &mutation : mutations) {
      messages.clear();
      auto mutant = mutate(module, mutation);
      auto copy = call;
      bool survives = mlir::succeeded(simulate(*mutant, entry, copy.arguments(), options));
      auto proof = findMutated(module, mutation)->getAttrOfType<mlir::StringAttr>(kRedundantAttr);
      if (survives)
        EXPECT_TRUE(proof && !proof.empty()) << "survives: " << describe(module, mutation);
      else
        EXPECT_FALSE(proof) << "is needed: " << describe(module, mutation) << "\n" << messages;
    }
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

TEST_F(SimulatorMutationTest, MatMulForHopper) {
  auto module = load("test/Tgpu/matmul_sm90.mlir");
  ASSERT_TRUE(module);
  expectAllFound(*module, "matmul", matmul(300, 256, 328));
}

} // namespace
} // namespace tilewright
