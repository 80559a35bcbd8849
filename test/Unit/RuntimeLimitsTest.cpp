// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The limits of a bundle, and regressions that fuzzing found in the handling of callers and files.

#include "RuntimePlanTesting.h"

#include <cstdio>
#include <sys/stat.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

std::string repeated(const std::string &text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i)
    out += text;
  return out;
}

TEST(RuntimeLimits, OfJson) {
  auto messageOf = [](const std::string &text) { return Json::parse(text).status().message(); };
  EXPECT_EQ(messageOf(repeated("[", 101) + repeated("]", 101)), "");
  EXPECT_EQ(messageOf(repeated("[", 102) + repeated("]", 102)),
            "malformed JSON at offset 101: a text must have at most 100 levels of nesting, but got "
            "level 101");
  // The list itself counts as a value.
  const size_t most = (size_t(1) << 20) - 1;
  EXPECT_EQ(messageOf("[" + repeated("0,", most - 1) + "0]"), "");
  EXPECT_EQ(messageOf("[" + repeated("0,", most) + "0]"),
            "malformed JSON at offset 2097151: a text must have at most 1048576 values, but got "
            "value 1048577");
  std::string members;
  for (int i = 0; i < 256; ++i)
    members += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  EXPECT_EQ(messageOf("{" + members + "}"), "");
  EXPECT_EQ(messageOf("{" + members + ",\"more\":0}"),
            "malformed JSON at offset 1945: an object must have at most 256 members, but got "
            "'more' as well");
  EXPECT_EQ(messageOf("\"" + std::string(4096, 'x') + "\""), "");
  EXPECT_EQ(messageOf("\"" + std::string(4097, 'x') + "\""),
            "malformed JSON at offset 4098: a string must have at most 4096 bytes, but got one "
            "that begins with 'xxxxxxxxxxxxxxxxxxxx...'");
}

TEST(RuntimeLimits, OfWhatAMessageQuotes) {
  Result<Json> json = Json::parse("[[" + repeated("12345678,", 100000) + "0]]");
  ASSERT_TRUE(json.ok());
  EXPECT_FAILURE(
      parseExpr(*json).status(), Code::BadBundle,
      "an expression must be an integer, a flag or a list that starts with a string, but "
      "got '[[" +
          repeated("12345678,", 22) + "...'");
  BundleWriter writer = scaleBundle();
  writer.addPtx(".version 8.0\n" + repeated(".entry other()\n", 1000));
  writer.manifest.kernels[0].codes[0].blob = 1;
  EXPECT_FAILURE(Bundle::fromBytes(*writer.bytes(), "b").status(), Code::BadBundle,
                 "'b' must have the entry 'scale_bf16_64' of kernel 'scale' in its code, but got "
                 "other, other, other, other, other, other, other, other and 992 more");
}

TEST(RuntimeLimits, OfManifests) {
  auto messageOf = [](const Manifest &manifest) {
    return Manifest::fromJson(manifest.toJson()).status().message();
  };
  Manifest manifest = scaleBundle().manifest;
  manifest.kernels.resize(4096, scaleKernel());
  EXPECT_EQ(messageOf(manifest), "");
  manifest.kernels.push_back(scaleKernel());
  EXPECT_EQ(messageOf(manifest), "'kernels' of the manifest has 4097 items; the limit is 4096");
  manifest.kernels = {scaleKernel()};
  manifest.programs.resize(4097);
  EXPECT_EQ(messageOf(manifest), "'programs' of the manifest has 4097 items; the limit is 4096");
  manifest.programs.resize(1);
  manifest.programs[0].name = "p";
  formOf(manifest.programs[0]).launches.resize(1);
  LaunchSpec &launch = formOf(manifest.programs[0]).launches[0];
  launch.kernels.resize(4097);
  EXPECT_EQ(messageOf(manifest),
            "'kernels' of a launch of program 'p' has 4097 items; the limit is 4096");
  launch.kernels = {0};
  launch.arguments.resize(65, "x");
  EXPECT_EQ(messageOf(manifest),
            "'arguments' of a launch of program 'p' has 65 items; the limit is 64");
  manifest.programs.clear();
  manifest.kernels[0].arguments.resize(65, ArgumentSpec::scalar("s", ElementType::F32));
  EXPECT_EQ(messageOf(manifest), "'arguments' of kernel 'scale' has 65 items; the limit is 64");
}

/// A writer must not write bundles that readers reject.
TEST(RuntimeLimits, OfExpressionsThatAreWritten) {
  for (int levels : {64, 65}) {
    BundleWriter writer = scaleBundle();
    Expr expr = Expr::dim("x", 0);
    for (int i = 0; i < levels; ++i)
      expr = *Expr::call("+", {expr, Expr::integer(1)});
    writer.manifest.kernels[0].grid = {expr};
    Result<std::string> bytes = writer.bytes();
    if (levels == 64)
      EXPECT_OK(Bundle::fromBytes(*bytes).status());
    else
      EXPECT_FAILURE(bytes.status(), Code::BadBundle,
                     "an expression must have at most 64 levels of nesting, but got level 65");
  }
}

/// A run checks the arguments against one variant; a variant with a view of larger rank would read,
/// and a tensor map would write, beyond the existing dimensions.
TEST(RuntimeLimits, OfVariantsOfALaunch) {
  BundleWriter writer = scaleBundle();
  KernelSpec other = scaleKernel();
  other.entry = "mapped";
  other.arguments[0].extents = {-1, -1, -1, -1, 64};
  other.tensorMaps = {{0, {1, 1, 1, 1, 64}, Swizzle::None}};
  other.grid = {Expr::integer(1)};
  ProgramSpec program;
  program.name = "p";
  program.arguments = scaleKernel().arguments;
  LaunchSpec launch;
  launch.kernels = {0, 1};
  launch.arguments = {"x", "y", "bias", "scale", "rows"};
  formOf(program).launches = {launch};
  writer.manifest.programs = {program};
  writer.manifest.kernels.push_back(other);
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "the variants of a launch of program 'p' must have the same arguments, but got "
                 "others of entry 'mapped' than of 'scale_bf16_64'");
  writer.manifest.kernels[1] = scaleKernel();
  EXPECT_OK(writer.bytes().status());
}

/// The code is scanned once for all kernels that name it.
TEST(RuntimeLimits, OfTheSearchForEntries) {
  BundleWriter writer = scaleBundle();
  std::string cubin(1, '\0');
  writer.manifest.kernels.clear();
  for (int i = 0; i < 4096; ++i) {
    KernelSpec kernel = scaleKernel();
    kernel.entry = "entry" + std::to_string(i);
    cubin += kernel.entry + '\0';
    kernel.codes = {{CodeSpec::Kind::Cubin, *Arch::parse("sm_80"), 0, 1}};
    writer.manifest.kernels.push_back(kernel);
  }
  writer.addCubin(std::string(size_t(1) << 20, 'x') + cubin);
  EXPECT_OK(Bundle::fromBytes(*writer.bytes()).status());
  writer.manifest.kernels[4095].entry = "entry";
  EXPECT_FAILURE(
      Bundle::fromBytes(*writer.bytes(), "b").status(), Code::BadBundle,
      "'b' must have the entry 'entry' of kernel 'scale' in its code, but has none of this name");
}

class CApiLimits : public LoadedBundleTest {
protected:
  void SetUp() override {
    LoadedBundleTest::SetUp();
    load(scaleBundle());
    ASSERT_EQ(tilewright_operation_create(bundle, "scale", nullptr, 0, &operation), TILEWRIGHT_OK);
  }
  void TearDown() override {
    tilewright_operation_destroy(operation);
    LoadedBundleTest::TearDown();
  }
  tilewright_operation *operation = nullptr;
};

/// The size in the first struct of an array determines the distance between the structs.
TEST_F(CApiLimits, OfTheSizeOfStructs) {
  tilewright_argument list[2] = {};
  list[1].struct_size = sizeof(tilewright_argument);
  for (size_t size : {sizeof(tilewright_argument) + 4, size_t(4104), size_t(1) << 62}) {
    list[0].struct_size = size;
    EXPECT_C_FAILURE(tilewright_operation_run(operation, list, 2, nullptr, 0, nullptr),
                     TILEWRIGHT_INVALID_ARGUMENT,
                     ("struct_size of tilewright_argument must be a multiple of 8 up to 4096, but "
                      "got " +
                      std::to_string(size))
                         .c_str());
  }
}

/// C lets any number stand for an enumerator.
TEST_F(CApiLimits, OfEnumerators) {
  auto put = [](auto &to, int value) { std::memcpy(&to, &value, sizeof(value)); };
  tilewright_attention_forward_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.head_dim = 64;
  tilewright_attention_forward *plan = nullptr;
  put(desc.type, -2147483647 - 1);
  EXPECT_C_FAILURE(tilewright_attention_forward_create(bundle, &desc, &plan),
                   TILEWRIGHT_INVALID_ARGUMENT,
                   "the element type of the description of attention must be a tilewright_type, a "
                   "number from 0 to 9, but got -2147483648");
  put(desc.type, 0);
  put(desc.causal, -1);
  EXPECT_C_FAILURE(tilewright_attention_forward_create(bundle, &desc, &plan),
                   TILEWRIGHT_INVALID_ARGUMENT,
                   "the causal mode of the description of attention must be a tilewright_causal, a "
                   "number from 0 to 2, but got -1");
}

} // namespace
