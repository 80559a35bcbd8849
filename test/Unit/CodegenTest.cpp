// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Targets, the log of ptxas, and its errors.

#include "lib/Codegen/Codegen.h"

#include <gtest/gtest.h>

using namespace tilewright;

TEST(Codegen, KnowsItsTargets) {
  llvm::Expected<const Target &> ampere = findTarget("sm_80");
  ASSERT_TRUE(static_cast<bool>(ampere));
  EXPECT_EQ(ampere->ptxVersion, 70);
  llvm::Expected<const Target &> other = findTarget("sm_75");
  ASSERT_FALSE(static_cast<bool>(other));
  EXPECT_EQ(llvm::toString(other.takeError()), "target must be sm_80 or sm_90a, but got 'sm_75'");
}

TEST(Codegen, ReadsTheLogOfTwoKernels) {
  std::vector<KernelResources> list = parseAssemblerLog(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'first' for 'sm_80'\n"
      "ptxas info    : Function properties for first\n"
      "    96 bytes stack frame, 156 bytes spill stores, 164 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 16 bytes smem, 629 bytes cmem[0]\n"
      "ptxas info    : Compiling entry function 'second' for 'sm_80'\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 416 bytes cmem[0]\n");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].kernel, "first");
  EXPECT_EQ(list[0].registers, 255);
  EXPECT_EQ(list[0].stackBytes, 96);
  EXPECT_EQ(list[0].spillStoreBytes, 156);
  EXPECT_EQ(list[0].spillLoadBytes, 164);
  EXPECT_EQ(list[0].staticSharedBytes, 16);
  EXPECT_EQ(list[1].kernel, "second");
  EXPECT_EQ(list[1].registers, 40);
  EXPECT_EQ(list[1].spillStoreBytes, 0);
  EXPECT_EQ(list[1].staticSharedBytes, 0);
}

TEST(Codegen, ReadsNothingFromAnEmptyLog) { EXPECT_TRUE(parseAssemblerLog("").empty()); }

TEST(Codegen, PassesOnWhatTheAssemblerRejects) {
  llvm::Expected<Assembly> assembly = assembleCubin("this is no PTX", "sm_80");
  ASSERT_FALSE(static_cast<bool>(assembly));
  std::string message = llvm::toString(assembly.takeError());
  if (findAssembler().empty())
    EXPECT_NE(message.find("cannot find ptxas"), std::string::npos) << message;
  else
    EXPECT_EQ(message.rfind("ptxas failed", 0), 0u) << message;
}

TEST(Codegen, PtxasIsThatOfTheEnvironment) {
  setenv("TILEWRIGHT_PTXAS", "/no/such/ptxas", 1);
  EXPECT_EQ(findAssembler(), "/no/such/ptxas");
  setenv("TILEWRIGHT_PTXAS", "", 1);
  EXPECT_EQ(findAssembler(), "");
  unsetenv("TILEWRIGHT_PTXAS");
}
