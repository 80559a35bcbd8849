// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel that does not compile for a GPU fails its test there: only bindings that
// CompiledKernels.cpp lists, with the message that it expects, are skipped.

#include "test/Acceptance/KernelCall.h"

#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

namespace tilewright::acceptance {
namespace {

TEST(Refusals, UnexpectedErrorsFail) {
  if (!runsMapped())
    GTEST_SKIP() << "needs TILEWRIGHT_TEST_DEVICE";
  KernelCall call("attention_forward",
                  {{"D", "64"}, {"T", "f16"}, {"BLOCK_M", "24"}, {"BLOCK_N", "64"}});
  for (int time = 0; time < 2; ++time) // the second time, the result is known
    EXPECT_NONFATAL_FAILURE(call.run(), "must be a multiple of 16 up to 256");
}

} // namespace
} // namespace tilewright::acceptance
