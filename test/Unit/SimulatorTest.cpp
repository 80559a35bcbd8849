// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of test/Tgpu run on the simulator without a fault, with correct results.

#include "SimulatorTesting.h"

namespace tilewright {
namespace {

TEST_F(SimulatorTest, AttentionForwardForAmpere) {
  auto module = load("test/Tgpu/attention_forward_sm80.mlir");
  ASSERT_TRUE(module);
  simulateCall(*module, "attention_forward", attentionForward(1, 1, 140, 200, 128));
  simulateCall(*module, "attention_forward", attentionForward(1, 1, 8, 0, 128));
}

TEST_F(SimulatorTest, AttentionBackwardForHopper) {
  auto module = load("test/Tgpu/attention_backward_sm90.mlir");
  ASSERT_TRUE(module);
  simulateCall(*module, "attention_backward", attentionBackward(1, 600, 140));
}

/// Queries and keys that do not fill a block; more tiles than thread blocks; no queries.
TEST_F(SimulatorTest, AttentionBackwardKeysForHopper) {
  auto module = load("test/Tgpu/attention_backward_sm90_d256_keys.mlir");
  ASSERT_TRUE(module);
  simulateCall(*module, "pairs_of_keys", attentionBackwardKeys(3, 300, 140, 256));
  simulateCall(*module, "pairs_of_keys", attentionBackwardKeys(1, 64, 64, 256));
  simulateCall(*module, "pairs_of_keys", attentionBackwardKeys(1, 0, 100, 256));
}

TEST_F(SimulatorTest, MatMulForHopper) {
  auto module = load("test/Tgpu/matmul_sm90.mlir");
  ASSERT_TRUE(module);
  simulateCall(*module, "matmul", matmul(300, 264, 328));
}

TEST_F(SimulatorTest, MappedMatMulForHopper) {
  for (int64_t warps : {4, 8}) {
    auto module = map("matmul.mlir", {{"T", "bf16"}}, "sm_90a", warps);
    ASSERT_TRUE(module);
    // Six tiles for two blocks.
    SimulatedCall call = matmul(300, 264, 328);
    call.scalars = {{"alpha", 1.0}};
    simulateCall(*module, "matmul", call);
  }
}

} // namespace
} // namespace tilewright
