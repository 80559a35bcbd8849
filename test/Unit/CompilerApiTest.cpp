// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libtilewright-compiler.so as an application uses it: from the text of a kernel to a bundle that
// the runtime reads.

#include "lib/CompilerApi/tilewright-compiler.h"
#include "runtime/Bundle.h"

#include "gtest/gtest.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace tilewright;
using namespace tilewright::runtime;

/// Defined in C, like a program of 0.1: returns a bundle of row_softmax, or null.
extern "C" void *tilewrightCompileAs01(const char *source, size_t sourceSize, size_t *size);

namespace {

std::string compileAs01(const std::string &source) {
  size_t size = 0;
  void *bytes = tilewrightCompileAs01(source.data(), source.size(), &size);
  std::string bundle(static_cast<char *>(bytes), size);
  tilewright_compiler_free(bytes);
  return bundle;
}

/// Tests run in the root of the source tree.
std::string readKernel(const char *name) {
  std::stringstream text;
  text << std::ifstream(name).rdbuf();
  return text.str();
}

struct Request {
  std::string source = readKernel("kernels/matmul.mlir");
  std::vector<tilewright_compile_param> params = {{"T", "f16"}};
  std::vector<const char *> with, targets;
  tilewright_compile_request request = {};

  tilewright_compile_code compile(std::string *bundle = nullptr) {
    request.struct_size = sizeof(request);
    request.source = source.data();
    request.source_size = source.size();
    request.params = params.data();
    request.num_params = params.size();
    request.with = with.data();
    request.num_with = with.size();
    request.targets = targets.data();
    request.num_targets = targets.size();
    return run(bundle);
  }
  tilewright_compile_code run(std::string *bundle = nullptr) {
    void *bytes = nullptr;
    size_t size = 0;
    tilewright_compile_code code = tilewright_compile(&request, &bytes, &size);
    if (code == TILEWRIGHT_COMPILE_OK && bundle)
      bundle->assign(static_cast<char *>(bytes), size);
    tilewright_compiler_free(bytes);
    return code;
  }
};

/// A test must not take what another compiler made.
const bool isCacheOff = [] { return setenv("TILEWRIGHT_CACHE_DIR", "", 1) == 0; }();

/// "sm_80 double_aligned, sm_80 double": the architecture and the entry of each kernel.
std::string listKernels(const std::string &bytes) {
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(bytes);
  if (!bundle.ok())
    return bundle.status().message();
  std::string text;
  for (const KernelSpec &kernel : (*bundle)->manifest().kernels)
    text += (text.empty() ? "" : ", ") + kernel.codes[0].arch.toString() + " " + kernel.entry;
  return text;
}

TEST(CompilerApi, CompilesForOneDevice) {
  Request request;
  ASSERT_TRUE(isCacheOff);
  std::string bytes;
  auto kernels = [&](int major, int minor) {
    request.request.device_major = major;
    request.request.device_minor = minor;
    return request.compile(&bytes) == TILEWRIGHT_COMPILE_OK ? listKernels(bytes)
                                                            : tilewright_compiler_last_error();
  };
  setenv("TILEWRIGHT_PTXAS", "", 1); // PTX is enough
  // The product has roles on 9.0.
  std::string hopper = kernels(9, 0);
  EXPECT_EQ(hopper.find("sm_80"), std::string::npos) << hopper;
  EXPECT_NE(hopper.find("sm_90a matmul"), std::string::npos) << hopper;
  // Others have the code of the last target that suits them.
  EXPECT_EQ(kernels(8, 0), "sm_80 matmul");
  EXPECT_EQ(kernels(8, 6), "sm_86 matmul");
  EXPECT_EQ(kernels(12, 0), "sm_120a matmul");
  EXPECT_EQ(kernels(12, 1), "sm_89 matmul");
  // Without roles, the form for aligned views is preferred.
  request.source = readKernel("kernels/attention_forward.mlir");
  request.params = {{"D", "64"}, {"T", "f16"}};
  const std::string aligned = "sm_80 attention_forward_aligned";
  EXPECT_EQ(kernels(8, 0), aligned + ", sm_80 attention_forward");
  request.request.preferred_only = 1;
  EXPECT_EQ(kernels(8, 0), aligned);
  // A kernel without roles has code for the default target on every device.
  request.source = readKernel("kernels/row_softmax.mlir");
  request.params = {{"T", "f32"}};
  EXPECT_EQ(kernels(9, 0).substr(0, 6), "sm_80 ");
  EXPECT_EQ(kernels(7, 5), "device_major and device_minor must be the compute capability of a "
                           "device, sm_80 or later, but got 7.5");
  request.targets = {"sm_80", "sm_90a"};
  EXPECT_EQ(kernels(8, 0), "a target must run on the device of the request, of compute capability "
                           "8.0, but got sm_90a; leave it out");
  unsetenv("TILEWRIGHT_PTXAS");
}

TEST(CompilerApi, TakesHowInstancesAddToSums) {
  Request request;
  request.targets = {"sm_90a"};
  auto kernels = [&](const char *sums) {
    request.request.sums = sums;
    std::string bytes;
    return request.compile(&bytes) == TILEWRIGHT_COMPILE_OK ? listKernels(bytes)
                                                            : tilewright_compiler_last_error();
  };
  setenv("TILEWRIGHT_PTXAS", "", 1);
  // By default, a product for few rows has a form in which instances share its depth.
  const std::string standard = kernels(nullptr), whole = kernels("shares=1");
  EXPECT_EQ(kernels("auto"), standard);
  EXPECT_NE(whole, standard);
  EXPECT_LT(whole.size(), standard.size());
  EXPECT_NE(std::string(kernels("some")).find("but got 'some'"), std::string::npos)
      << tilewright_compiler_last_error();
  unsetenv("TILEWRIGHT_PTXAS");
}

TEST(CompilerApi, TakesAnAssemblerWhereThereIsNoOther) {
  const char *path = std::getenv("PATH");
  const std::string before = path ? path : "", folder = ::testing::TempDir() + "/no-tools";
  if (access("/usr/local/cuda/bin/ptxas", X_OK) == 0)
    GTEST_SKIP() << "this machine has a ptxas that does not depend on the environment";
  setenv("PATH", folder.c_str(), 1);
  Request request;
  request.source = readKernel("kernels/row_softmax.mlir");
  request.params = {{"T", "f32"}};
  auto hasCubin = [&](const char *assembler) {
    request.request.assembler = assembler;
    std::string bytes;
    EXPECT_EQ(request.compile(&bytes), TILEWRIGHT_COMPILE_OK) << tilewright_compiler_last_error();
    Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(bytes);
    EXPECT_TRUE(bundle.ok()) << bundle.status().message();
    return bundle.ok() && (*bundle)->manifest().kernels[0].codes.size() == 2;
  };
  // A script in its place names the entry, as a cubin does. One that is too old is as none.
  std::string script = ::testing::TempDir() + "/ptxas-of-test";
  auto write = [&](const char *text) {
    std::ofstream(script) << text;
    chmod(script.c_str(), 0755);
  };
  write("#!/bin/sh\necho 'Unsupported .version 7.0' >&2; exit 1\n");
  EXPECT_FALSE(hasCubin(script.c_str()));
  write("#!/bin/sh\nprintf '\\0row_softmax\\0row_softmax_aligned\\0' > $5\n");
  EXPECT_TRUE(hasCubin(script.c_str()));
  setenv("PATH", before.c_str(), 1);
}

TEST(CompilerApi, WritesBundlesThatComeWithAnApplication) {
  std::string folder = ::testing::TempDir() + "/shipped-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Request request;
  std::string compiled, taken;
  ASSERT_EQ(request.compile(&compiled), TILEWRIGHT_COMPILE_OK);
  EXPECT_EQ(tilewright_compile_shipped(&request.request, nullptr),
            TILEWRIGHT_COMPILE_INVALID_ARGUMENT);
  EXPECT_STREQ(tilewright_compiler_last_error(), "folder must be a valid pointer, but got null");
  EXPECT_EQ(tilewright_compile_shipped(&request.request, ""), TILEWRIGHT_COMPILE_INVALID_ARGUMENT);
  EXPECT_STREQ(tilewright_compiler_last_error(), "folder must be a path, but got ''");
  ASSERT_EQ(tilewright_compile_shipped(&request.request, folder.c_str()), TILEWRIGHT_COMPILE_OK)
      << tilewright_compiler_last_error();
  request.request.shipped_folder = folder.c_str();
  ASSERT_EQ(request.compile(&taken), TILEWRIGHT_COMPILE_OK);
  EXPECT_EQ(taken, compiled);
  // Not for another request.
  request.params = {{"T", "bf16"}};
  ASSERT_EQ(request.compile(&taken), TILEWRIGHT_COMPILE_OK);
  EXPECT_NE(taken, compiled);
  std::system(("rm -r " + folder).c_str());
}

TEST(CompilerApi, CompilesToABundle) {
  Request request;
  request.request.source_name = "my/matmul.mlir";
  std::string bytes;
  ASSERT_EQ(request.compile(&bytes), TILEWRIGHT_COMPILE_OK) << tilewright_compiler_last_error();
  EXPECT_STREQ(tilewright_compiler_last_error(), "");
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(bytes);
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  EXPECT_EQ((*bundle)->manifest().source, "matmul.mlir");
  // Without a target, it is compiled for sm_80, and for sm_90a if it has roles; there it also has
  // kernels for shares of its loop.
  EXPECT_EQ(listKernels(bytes), "sm_90a matmul, sm_90a matmul_share, sm_90a matmul_share_0, "
                                "sm_90a matmul_share_1, sm_90a matmul_merge, sm_80 matmul");
}

TEST(CompilerApi, TakesReplacementsAndThreads) {
  Request first, second;
  first.source = second.source = readKernel("kernels/attention_forward.mlir");
  first.params = {{"T", "bf16"}, {"D", "64"}, {"BLOCK_M", "64"}, {"BLOCK_N", "64"}};
  second.params = first.params;
  second.with = {"kernels/mods/softcap.mlir"};
  std::string plain, capped;
  std::thread other([&] {
    EXPECT_EQ(second.compile(&capped), TILEWRIGHT_COMPILE_OK) << tilewright_compiler_last_error();
  });
  EXPECT_EQ(first.compile(&plain), TILEWRIGHT_COMPILE_OK) << tilewright_compiler_last_error();
  other.join();
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ((*Bundle::fromBytes(plain))->manifest().kernels[0].arguments.back().name,
            "window_right");
  EXPECT_EQ((*Bundle::fromBytes(capped))->manifest().kernels[0].arguments.back().name, "softcap");
}

TEST(CompilerApi, LinksBesideTheSourceOnlyWhereACallerNamesIt) {
  std::string folder = testing::TempDir() + "/compiler-api-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::string file = folder + "/kernel.mlir";
  std::ofstream(folder + "/secret.mlir") << "root:x:0:0\n";
  std::ofstream(file) << "\n";

  Request request;
  request.params.clear();
  auto rejection = [&] {
    EXPECT_EQ(request.compile(), TILEWRIGHT_COMPILE_REFUSED);
    return std::string(tilewright_compiler_last_error());
  };
  const std::string kernel = "\ntile.kernel @k () grid(%i = 1) {\n}\n";
  // Neither a location in the text nor the name of the source opens a file.
  const std::string library =
      "'tile.link' op must name a file of the compiler's library, since the text was not read from "
      "a file, but got \"secret.mlir\"; correct the "
      "path, or compile a file";
  request.source = "tile.link \"secret.mlir\" loc(\"" + file + "\":1:1)" + kernel;
  EXPECT_EQ(rejection(), file + ":1:1: " + library);
  request.request.source_name = file.c_str();
  request.source = "tile.link \"secret.mlir\"" + kernel;
  EXPECT_EQ(rejection(), file + ":1:1: " + library);
  request.source = "tile.link \"passwd\" loc(\"/etc/hosts\":1:1)" + kernel;
  EXPECT_EQ(rejection(),
            "/etc/hosts:1:1: 'tile.link' op must name a file whose name ends with .mlir, "
            "but got \"passwd\"; rename the file");

  // Only the file that the caller names is opened. An older caller has no such field.
  request.source = "tile.link \"secret.mlir\"" + kernel;
  request.request.source_file = file.c_str();
  EXPECT_NE(rejection().find("custom op 'root' is unknown"), std::string::npos)
      << tilewright_compiler_last_error();
  request.request.struct_size = offsetof(tilewright_compile_request, source_file);
  EXPECT_EQ(request.run(), TILEWRIGHT_COMPILE_REFUSED);
  EXPECT_EQ(tilewright_compiler_last_error(), file + ":1:1: " + library);
  request.source = "tile.link \"../secret.mlir\"" + kernel;
  EXPECT_NE(rejection().find("must name a file in the folder of this one or below"),
            std::string::npos)
      << tilewright_compiler_last_error();
  std::ofstream(folder + "/secret.mlir") << "func.func private @f() {\n  return\n}\n";
  request.source = "tile.link \"secret.mlir\"" + kernel;
  EXPECT_EQ(request.compile(), TILEWRIGHT_COMPILE_OK) << tilewright_compiler_last_error();
  for (const std::string &path : {file, folder + "/secret.mlir", folder})
    std::remove(path.c_str());
}

TEST(CompilerApi, TakesCallersOfOtherVersions) {
  const std::string source = readKernel("kernels/row_softmax.mlir");
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(compileAs01(source));
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  EXPECT_EQ((*bundle)->manifest().kernels[0].name, "row_softmax");

  Request request; // from a later version, with a longer struct
  request.compile();
  struct Later {
    tilewright_compile_request known;
    char more[24];
  } later = {request.request, {}};
  later.known.struct_size = sizeof(Later);
  void *bytes = nullptr;
  size_t size = 0;
  EXPECT_EQ(tilewright_compile(&later.known, &bytes, &size), TILEWRIGHT_COMPILE_OK)
      << tilewright_compiler_last_error();
  tilewright_compiler_free(bytes);
}

TEST(CompilerApi, MakesCodeThatExecutesPrints) {
  Request request;
  request.source = "tile.kernel @k (%y: !tile.view<[?], f32>) grid(%i = 1) {\n"
                   "  tile.print \"at\" %i : i32\n"
                   "  tile.store 1, %y[0] : !tile.tile<[8], f32>\n"
                   "}\n";
  request.params.clear();
  request.targets = {"sm_80"};
  std::string without, with;
  ASSERT_EQ(request.compile(&without), TILEWRIGHT_COMPILE_OK) << tilewright_compiler_last_error();
  request.request.debug_ops = 1;
  ASSERT_EQ(request.compile(&with), TILEWRIGHT_COMPILE_OK) << tilewright_compiler_last_error();
  EXPECT_EQ(without.find("vprintf"), std::string::npos);
  EXPECT_NE(with.find("vprintf"), std::string::npos);
  // A caller of a version without the field.
  request.request.struct_size = offsetof(tilewright_compile_request, debug_ops);
  ASSERT_EQ(request.run(&with), TILEWRIGHT_COMPILE_OK) << tilewright_compiler_last_error();
  EXPECT_EQ(with, without);
}

TEST(CompilerApi, SaysWhatItRejects) {
  auto text = [](Request &request, tilewright_compile_code wanted) {
    EXPECT_EQ(request.compile(), wanted);
    return std::string(tilewright_compiler_last_error());
  };
  Request request;
  request.params = {{"T", "i32"}};
  EXPECT_NE(text(request, TILEWRIGHT_COMPILE_REFUSED).find("source:"), std::string::npos);
  EXPECT_NE(std::string(tilewright_compiler_last_error()).find("parameter 'T' of kernel @matmul"),
            std::string::npos)
      << tilewright_compiler_last_error();
  request = Request();
  request.request.entry = "nothing";
  EXPECT_NE(
      text(request, TILEWRIGHT_COMPILE_REFUSED).find("there is no kernel or program 'nothing'"),
      std::string::npos);
  request = Request();
  request.targets = {"sm_70"};
  EXPECT_EQ(
      text(request, TILEWRIGHT_COMPILE_REFUSED),
      "target must be sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a or sm_120a, but got 'sm_70'");
  request.targets = {nullptr};
  EXPECT_EQ(text(request, TILEWRIGHT_COMPILE_INVALID_ARGUMENT),
            "a target of the request must be a valid pointer, but got null");
  request = Request();
  request.params = {{"T", nullptr}};
  EXPECT_EQ(text(request, TILEWRIGHT_COMPILE_INVALID_ARGUMENT),
            "the value of parameter 'T' of the request must be a valid pointer, but got null");
  request.source.clear();
  request.params.clear();
  EXPECT_EQ(text(request, TILEWRIGHT_COMPILE_REFUSED),
            "source:1:1: expected a file with a kernel or a program, but there is none");

  request = Request();
  request.compile();
  request.request.params = nullptr;
  EXPECT_EQ(request.run(), TILEWRIGHT_COMPILE_INVALID_ARGUMENT);
  EXPECT_STREQ(tilewright_compiler_last_error(),
               "params of the request must be a valid pointer, but got null");
  request.request.source = nullptr;
  EXPECT_EQ(request.run(), TILEWRIGHT_COMPILE_INVALID_ARGUMENT);
  EXPECT_STREQ(tilewright_compiler_last_error(),
               "the request must have a source, but got null; give the text of a kernel file");
  request.request.struct_size = 8;
  EXPECT_EQ(request.run(), TILEWRIGHT_COMPILE_INVALID_ARGUMENT);
  EXPECT_STREQ(tilewright_compiler_last_error(),
               "struct_size of tilewright_compile_request must be at least 88, but got 8; set it "
               "to sizeof of the struct");
  size_t size = 0;
  EXPECT_EQ(tilewright_compile(&request.request, nullptr, &size),
            TILEWRIGHT_COMPILE_INVALID_ARGUMENT);
}

} // namespace
