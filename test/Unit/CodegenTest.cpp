// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Targets, the log of ptxas, and its errors.

#include "lib/Codegen/Codegen.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Process.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

using namespace tilewright;

namespace {
/// Sets a variable of the environment, or unsets it (null), for the lifetime of the object.
class Variable {
public:
  Variable(const char *name, const char *value)
      : name(name), before(llvm::sys::Process::GetEnv(name)) {
    set(value);
  }
  ~Variable() { set(before ? before->c_str() : nullptr); }
  void set(const char *value) { value ? setenv(name, value, 1) : unsetenv(name); }

private:
  const char *name;
  std::optional<std::string> before;
};
} // namespace

TEST(Codegen, KnowsItsTargets) {
  llvm::Expected<const Target &> ampere = findTarget("sm_80");
  ASSERT_TRUE(static_cast<bool>(ampere));
  EXPECT_EQ(ampere->ptxVersion, 70);
  llvm::Expected<const Target &> other = findTarget("sm_75");
  ASSERT_FALSE(static_cast<bool>(other));
  EXPECT_EQ(
      llvm::toString(other.takeError()),
      "target must be sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a or sm_120a, but got 'sm_75'");
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
    EXPECT_EQ(message, "cannot find ptxas by TILEWRIGHT_PTXAS, on PATH, or in the folder bin of "
                       "CUDA_HOME, CUDA_PATH or /usr/local/cuda; emit ptx, which the driver "
                       "compiles");
  else
    EXPECT_EQ(message.rfind("ptxas failed ('" + findAssembler() + "')\nptxas ", 0), 0u) << message;
}

TEST(Codegen, PtxasIsThatOfTheEnvironment) {
  Variable variable("TILEWRIGHT_PTXAS", "/no/such/ptxas");
  EXPECT_EQ(findAssembler(), "/no/such/ptxas");
  variable.set("");
  EXPECT_EQ(findAssembler(), "");
}

TEST(Codegen, NamesTheAssemblerOfTheEnvironment) {
  auto messageWith = [](const char *path) {
    Variable variable("TILEWRIGHT_PTXAS", path);
    llvm::Expected<Assembly> assembly = assembleCubin("", "sm_80");
    return assembly ? "" : llvm::toString(assembly.takeError());
  };
  EXPECT_EQ(messageWith("/no/such/ptxas"),
            "TILEWRIGHT_PTXAS must be the path of an executable file, but got '/no/such/ptxas'; "
            "correct it, or unset it to search for ptxas");
  EXPECT_EQ(messageWith("/tmp"),
            "TILEWRIGHT_PTXAS must be the path of an executable file, but got '/tmp'; correct it, "
            "or unset it to search for ptxas");
  EXPECT_EQ(messageWith(""), "a cubin requires ptxas, but TILEWRIGHT_PTXAS is empty; unset it, or "
                             "emit ptx, which the driver compiles");
  EXPECT_EQ(messageWith("/bin/false"), "ptxas failed ('/bin/false')\n");
}

TEST(Codegen, FindsPtxasInACudaInstallation) {
  llvm::SmallString<128> root;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("cuda", root));
  std::string bin = (root + "/bin").str(), ptxas = bin + "/ptxas";
  ASSERT_FALSE(llvm::sys::fs::create_directory(bin));
  ASSERT_FALSE(llvm::sys::fs::create_link("/bin/true", ptxas));
  Variable given("TILEWRIGHT_PTXAS", nullptr), path("PATH", "/no/such/folder"),
      home("CUDA_HOME", "/no/such/folder"), cudaPath("CUDA_PATH", "/no/such/folder");
  for (Variable *variable : {&home, &cudaPath}) {
    variable->set(root.c_str());
    EXPECT_EQ(findAssembler(), ptxas) << (variable == &home ? "CUDA_HOME" : "CUDA_PATH");
    variable->set("/no/such/folder");
  }
  (void)llvm::sys::fs::remove_directories(root);
}
