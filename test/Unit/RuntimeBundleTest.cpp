// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Valid and malformed bundles.

#include "RuntimeTesting.h"

#include "runtime/Checksum.h"

#include <cstdio>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

/// Writes the checksum of the following bytes into a header.
std::string sealed(std::string file) {
  uint64_t sum = checksum(file.data() + 32, file.size() - 32);
  std::memcpy(&file[24], &sum, 8);
  return file;
}

/// A bundle with this manifest and one blob of PTX.
std::string fileWith(const std::string &manifest) {
  std::string file = *BundleWriter().bytes();
  file.resize(48);
  auto put = [&](size_t at, uint64_t value) { std::memcpy(&file[at], &value, 8); };
  uint32_t numBlobs = 1;
  std::memcpy(&file[40], &numBlobs, 4);
  put(32, manifest.size());
  static_assert(sizeof(scalePtx) < 128);
  file += std::string(1, char(sizeof(scalePtx))) + std::string(7, '\0') + manifest;
  file.resize((file.size() + 15) / 16 * 16, '\0');
  file += std::string(scalePtx, sizeof(scalePtx));
  put(16, file.size());
  return sealed(file);
}

Status statusOf(const std::string &file) { return Bundle::fromBytes(file, "b").status(); }

TEST(RuntimeBundle, ComesBackAsItWasWritten) {
  BundleWriter writer = scaleBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  const std::string cubin("\0scale_bf16_64\0", 15);
  kernel.codes.push_back(
      {CodeSpec::Kind::Cubin, *Arch::parse("sm_90a"), 0, writer.addCubin(cubin)});
  kernel.cluster = {2, 1, 1};
  kernel.tensorMaps = {{0, {64, 64}, Swizzle::B128, /*isStored=*/true, /*ragged=*/0}};
  kernel.requirements = {{1, 16, true}};
  kernel.conditions = {*Expr::call("lt", {Expr::name("rows"), Expr::integer(5)})};
  kernel.remarks = {"has no roles on sm_90a: \"why\"", "is slow"};
  ProgramSpec program;
  program.name = "twice";
  program.arguments = kernel.arguments;
  program.arguments.push_back(ArgumentSpec::view("table", ElementType::I32, {-1, -1}));
  program.arguments.push_back(ArgumentSpec::view("lengths", ElementType::I32, {-1}));
  program.elements.resize(3);
  program.elements[0].argument = 6;
  program.elements[1] = {
      numeric::ElementRule::Within, 5, Expr::integer(-1), Expr::dim("x", 0), 0, Expr()};
  program.elements[2] = {numeric::ElementRule::WithinFirst,
                         5,
                         Expr::integer(0),
                         Expr::name("rows"),
                         6,
                         Expr::integer(16)};
  formOf(program).workspaces = {
      {"tmp", ElementType::BF16, {Expr::dim("x", 0), Expr::integer(64)}, 7u}};
  LaunchSpec launch;
  launch.kernels = {0};
  launch.arguments = {"x", "tmp", "bias", "scale", "rows"};
  launch.condition = Expr::flag(true);
  formOf(program).launches = {launch};
  writer.manifest.programs = {program};
  EXPECT_EQ(writer.addPtx(scalePtx), 0u) << "equal blobs are kept once";

  std::shared_ptr<const Bundle> bundle = read(writer);
  EXPECT_EQ(bundle->manifest().toJson().write(), writer.manifest.toJson().write());
  EXPECT_EQ(bundle->blob(0), std::string_view(scalePtx, sizeof(scalePtx)));
  EXPECT_EQ(bundle->blob(1), cubin);
  const KernelSpec &read = bundle->manifest().kernels[0];
  EXPECT_EQ(read.remarks, kernel.remarks);
  EXPECT_TRUE(read.tensorMaps[0].isStored);
  EXPECT_EQ(read.tensorMaps[0].ragged, 0);
  EXPECT_EQ(read.layout.params.size(), 16u);
  EXPECT_EQ(read.layout.params.back().offset % 64, 0u);
  EXPECT_EQ(read.layout.params.back().bytes, 128u);
  const ProgramSpec &readProgram = bundle->manifest().programs[0];
  EXPECT_EQ(readProgram.forms[0].launches[0].sources, (std::vector<uint32_t>{0, 7, 2, 3, 4}));
  ASSERT_EQ(readProgram.elements.size(), 3u);
  EXPECT_EQ(readProgram.elements[0].toString(program.arguments), "ascending(lengths)");
  EXPECT_EQ(readProgram.elements[1].toString(program.arguments), "within(table, -1, dim(x, 0))");
  EXPECT_EQ(readProgram.elements[2].toString(program.arguments),
            "within_first(table, 0, rows, lengths, 16)");
}

TEST(RuntimeBundle, RejectsDamagedFiles) {
  std::string file = *scaleBundle().bytes();
  EXPECT_FAILURE(statusOf(""), Code::BadBundle,
                 "'b' is not a bundle of Tilewright; make one by tilewrightc --emit=bundle");
  EXPECT_FAILURE(statusOf("\x7f"
                          "ELF" +
                          std::string(100, 'x')),
                 Code::BadBundle,
                 "'b' is not a bundle of Tilewright; make one by tilewrightc --emit=bundle");
  EXPECT_FAILURE(statusOf(file.substr(0, 20)), Code::BadBundle,
                 "'b' is truncated: it must have a header of 48 bytes, but has 20");
  std::string size = std::to_string(file.size());
  EXPECT_FAILURE(statusOf(file.substr(0, 100)), Code::BadBundle,
                 "'b' is truncated: it must have " + size + " bytes, but has 100");
  EXPECT_FAILURE(statusOf(file + "x"), Code::BadBundle,
                 "'b' is corrupt: it must have " + size + " bytes, but has " +
                     std::to_string(file.size() + 1));
  std::string other = file;
  other[8] = 9;
  EXPECT_FAILURE(statusOf(other), Code::BadBundle,
                 "'b' is a bundle of version 9, but this runtime reads 1; compile it again");
  other = file;
  other[12] = 1;
  EXPECT_FAILURE(statusOf(other), Code::BadBundle,
                 "'b' is corrupt: its header must be zero at offset 12, but got 1");
  other = file;
  other[32] = other[33] = other[34] = '\xff';
  EXPECT_FAILURE(statusOf(sealed(other)), Code::BadBundle,
                 "'b' is corrupt: its manifest must end in the 842 bytes of the file, but got "
                 "16777215 bytes from offset 56");
  other = file;
  other[48] = other[49] = '\xff';
  EXPECT_FAILURE(statusOf(sealed(other)), Code::BadBundle,
                 "'b' is corrupt: blob 0 must end in the 842 bytes of the file, but got 65535 "
                 "bytes from offset 736");
  other = file;
  other[other.size() - 1] = 'x';
  EXPECT_FAILURE(statusOf(sealed(other)), Code::BadBundle,
                 "'b' is corrupt: the PTX of kernel 'scale' must end with a NUL, but got byte 120");
  auto withCode = [](const char *ptx) {
    BundleWriter writer;
    writer.addPtx(ptx);
    writer.manifest = scaleBundle().manifest;
    return statusOf(*writer.bytes());
  };
  EXPECT_FAILURE(
      withCode(".version 8.0"), Code::BadBundle,
      "'b' must have the entry 'scale_bf16_64' of kernel 'scale' in its code, but got none");
  EXPECT_FAILURE(withCode(".entry scale_bf16() .visible .entry\nother ("), Code::BadBundle,
                 "'b' must have the entry 'scale_bf16_64' of kernel 'scale' in its code, but got "
                 "scale_bf16, other");
  BundleWriter cubin;
  cubin.addCubin("scale_bf16_64");
  cubin.manifest = scaleBundle().manifest;
  cubin.manifest.kernels[0].codes[0].kind = CodeSpec::Kind::Cubin;
  EXPECT_FAILURE(statusOf(*cubin.bytes()), Code::BadBundle,
                 "'b' must have the entry 'scale_bf16_64' of kernel 'scale' in its code, but has "
                 "none of this name");
  // Flips one bit at every position.
  for (size_t i = 0; i < file.size(); ++i) {
    other = file;
    other[i] ^= 1;
    EXPECT_EQ(statusOf(other).code(), Code::BadBundle) << i;
  }
  EXPECT_FAILURE(Bundle::open("/nonexistent/x.twb").status(), Code::Io,
                 "cannot open '/nonexistent/x.twb': No such file or directory");
  EXPECT_FAILURE(
      Bundle::open("/dev/zero").status(), Code::BadBundle,
      "'/dev/zero' is not a bundle of Tilewright; make one by tilewrightc --emit=bundle");
  std::string sparse = ::testing::TempDir() + "/runtime-bundle-sparse.twb";
  std::ofstream(sparse, std::ios::binary) << "TWBUNDLE";
  ASSERT_EQ(truncate(sparse.c_str(), int64_t(3) << 30), 0);
  EXPECT_FAILURE(Bundle::open(sparse).status(), Code::Io,
                 "'" + sparse + "' must have at most 2 GiB, but has more");
  std::remove(sparse.c_str());
  EXPECT_FAILURE(scaleBundle().write("/nonexistent/x.twb"), Code::Io,
                 "cannot create '/nonexistent/x.twb': No such file or directory");
}

TEST(RuntimeBundle, IsWrittenToAFile) {
  std::string path = ::testing::TempDir() + "/runtime-bundle-test.twb";
  EXPECT_OK(scaleBundle().write(path));
  EXPECT_OK(Bundle::open(path).status());
  std::remove(path.c_str());
}

TEST(RuntimeBundle, RejectsWrongManifests) {
  const std::string good = scaleBundle().manifest.toJson().write();
  ASSERT_TRUE(statusOf(fileWith(good)).ok()) << statusOf(fileWith(good)).message();
  struct Case {
    const char *from, *to, *message;
  };
  const Case cases[] = {
      {R"("abi":5)", R"("abi":2)",
       "the bundle has kernel ABI 2, but this runtime reads 3 to 5; compile it again"},
      {R"("abi":5)", R"("abi":6)",
       "the bundle has kernel ABI 6, but this runtime reads 3 to 5; compile it again"},
      {R"("abi":5)", R"("abi":true)", "'abi' of the manifest must be an integer, but got 'true'"},
      {R"("producer")", R"("producre")",
       "the keys of the manifest must be among abi, producer, source, kernels, programs, but got "
       "'producre'"},
      {R"("programs":[])",
       R"("programs":[{"name":"p","params":{},"arguments":[],"forms":[{"target":"sm90"}]}])",
       "'target' of a form of program 'p' must be an architecture, such as sm_90a, but got 'sm90'"},
      {R"("programs":[])",
       R"("programs":[{"name":"p","params":{},"arguments":[],"forms":[{"launch":[]}]}])",
       "the keys of a form of program 'p' must be among target, params, when, workspaces, "
       "launches, "
       "but got 'launch'"},
      {R"("programs":[])", R"("programs":[{"name":"p","params":{},"arguments":[],"launches":[]}])",
       "the keys of program 'p' must be among name, params, arguments, when, elements, forms, but "
       "got 'launches'"},
      {R"("programs":[])", R"("programs":{})",
       "'programs' of the manifest must be a list, but got '{}'"},
      {R"("name":"scale")", R"("name":1)", "'name' of a kernel must be a string, but got '1'"},
      {R"("D":64)", R"("D":["dim","x",0])",
       "parameter 'D' of kernel 'scale' must be a literal, but got '[\"dim\",\"x\",0]'"},
      {R"("kind":"view")", R"("kind":"tensor")",
       "argument 'x' must be a view or a scalar, but got 'tensor'"},
      {R"("type":"bf16")", R"("type":"half")",
       "'type' of argument 'x' must be an element type, such as f16, but got 'half'"},
      {R"([null,64])", R"([null,-64])",
       "an extent of argument 'x' must be an integer from "
       "0 to 2147483647, but got '-64'"},
      {R"("kind":"ptx")", R"("kind":"sass")",
       "a code of kernel 'scale' must be ptx or cubin, but got 'sass'"},
      {R"("arch":"sm_80")", R"("arch":"gfx90")",
       "'arch' of a code of kernel 'scale' must be an architecture, such as sm_90a, but got "
       "'gfx90'"},
      {R"("block":[128,1,1])", R"("block":[128])",
       "'block' of kernel 'scale' must have 3 integers, but has 1"},
      {R"("tensor_maps":[])", R"("tensor_maps":[{"argument":"z","box":[64,64],"swizzle":0}])",
       "'argument' of a tensor map of kernel 'scale' must name an argument, but got 'z'"},
      {R"("tensor_maps":[])", R"("tensor_maps":[{"argument":"x","box":[64,64],"swizzle":16}])",
       "the swizzle of a tensor map of kernel 'scale' must be 0, 32, 64 or 128 bytes, but got 16"},
      {R"("elements":[])", R"("elements":[],"remarks":"slow")",
       "'remarks' of kernel 'scale' must be a list, but got '\"slow\"'"},
      {R"("elements":[])", R"("elements":[],"remarks":[3])",
       "a remark of kernel 'scale' must be a string, but got '3'"},
      {R"("grid":[["ceildiv")", R"("grid":[["cdiv")",
       "the functions of expressions must be known, but got 'cdiv'"},
      {R"("grid":[["ceildiv",)", R"("grid":[["ceildiv",1,)",
       "function 'ceildiv' of an expression takes 2 operands, but got 3"},
      {R"(["dim","x",0])", R"(["dim","x"])",
       "'dim' of an expression takes an argument and "
       "a position, but got '[\"dim\",\"x\"]'"},
      {R"(["dim","x",0])", R"(["name"])",
       "'name' of an expression takes one string, but got '[\"name\"]'"},
      {R"(["dim","x",0])", R"(["type","half"])",
       "'type' of an expression takes an element type, such as f16, but got 'half'"},
      {R"(["dim","x",0])", R"(null)",
       "an expression must be an integer, a flag or a list "
       "that starts with a string, but got 'null'"},
      {R"(["dim","x",0])", R"(["dim","z",0])",
       "an expression of kernel 'scale' must name a parameter or an argument, but got 'z'"},
      {R"(["dim","x",0])", R"(["dim","x",2])",
       "an expression of kernel 'scale' must name a dimension of a view, but got 'dim(x, 2)'"},
      {R"(["dim","x",0])", R"(["name","scale"])",
       "'scale' in an expression of kernel 'scale' must be a parameter or an integer scalar, but "
       "got a scalar of f32"},
      {R"("blob":0)", R"("blob":1)", "kernel 'scale' names blob 1, but the bundle has 1"},
      {R"("name":"y")", R"("name":"x")",
       "the names of the arguments of kernel 'scale' must differ, but got 'x' twice"},
      {R"("block":[128,1,1])", R"("block":[128,1,9])",
       "kernel 'scale' has blocks of 1152 threads, which must be 1 to 1024"},
      {R"("cluster":[1,1,1])", R"("cluster":[4,5,1])",
       "kernel 'scale' has clusters of 20 blocks, which must be 1 to 16"},
      {R"("requires":[])", R"("requires":[{"argument":"x","alignment":24}])",
       "kernel 'scale' requires an alignment of 24 bytes, which must be a power of two up to "
       "4096"},
      {R"("requires":[])", R"("requires":[{"argument":"scale","alignment":16}])",
       "a requirement of kernel 'scale' must name a view, but got 'scale', a scalar of f32"},
      {R"("tensor_maps":[])", R"("tensor_maps":[{"argument":"scale","box":[64,64],"swizzle":0}])",
       "a tensor map of kernel 'scale' must name a view, but got 'scale', a scalar of f32"},
      {R"("tensor_maps":[])", R"("tensor_maps":[{"argument":"x","box":[64],"swizzle":0}])",
       "the tensor map over 'x' of kernel 'scale' must have a box of rank 2, as its view, but got "
       "rank 1"},
      {R"("tensor_maps":[])", R"("tensor_maps":[{"argument":"x","box":[257,64],"swizzle":0}])",
       "the tensor map over 'x' of kernel 'scale' has a box extent of 257, which must be 1 to "
       "256"},
      {R"("tensor_maps":[])", R"("tensor_maps":[{"argument":"x","box":[64,4],"swizzle":0}])",
       "the tensor map over 'x' of kernel 'scale' has a box of 8 bytes per row, which must be a "
       "multiple of 16"},
      {R"("tensor_maps":[])", R"("tensor_maps":[{"argument":"x","box":[64,64],"swizzle":64}])",
       "the tensor map over 'x' of kernel 'scale' has a box of 128 bytes per row; its swizzle "
       "allows "
       "64"},
      {R"([null,64])", R"([1,1,1,1,1,1,1,1,1])",
       "argument 'x' of kernel 'scale' has rank 9; the limit is 8"},
      {R"("programs":[])",
       R"("programs":[{"name":"p","params":{},"arguments":[],"forms":[{"target":"sm_80",)"
       R"("params":{},"workspaces":[],"launches":[{"kernels":[],"arguments":[]}]}]}])",
       "a launch of program 'p' must name a kernel, but got none"},
      {R"("programs":[])",
       R"("programs":[{"name":"p","params":{},"arguments":[],"forms":[{"target":"sm_80",)"
       R"("params":{},"workspaces":[],"launches":[{"kernels":[1],"arguments":[]}]}]}])",
       "a launch of program 'p' names kernel 1, but the bundle has 1"},
      {R"("programs":[])",
       R"("programs":[{"name":"p","params":{},"arguments":[],"forms":[{"target":"sm_80",)"
       R"("params":{},"workspaces":[],"launches":[{"kernels":[0],"arguments":[]}]}]}])",
       "a launch of program 'p' must pass the 5 arguments of kernel 'scale', but got 0"},
      {R"("programs":[])",
       R"("programs":[{"name":"p","params":{},"arguments":[],"forms":[{"target":"sm_80",)"
       R"("params":{},"workspaces":[],"launches":[{"kernels":[0],"arguments":["a"]}]}]}])",
       "a launch of program 'p' passes 'a', which must be an argument or a workspace"},
      {R"("programs":[])",
       R"("programs":[{"name":"p","params":{},"arguments":[],"forms":[{"target":"sm_80",)"
       R"("params":{},"workspaces":[{"name":"w","type":"f32","extents":[]},)"
       R"({"name":"w","type":"f32","extents":[]}],"launches":[]}]}])",
       "the names of the arguments and workspaces of program 'p' must differ, but got 'w' twice"},
      {R"("optional":true)", R"("optional":1)",
       "'optional' of argument 'bias' must be true or false, but got '1'"},
      {R"("kind":"scalar")", R"("optional":true,"kind":"scalar")",
       "argument 'scale' of kernel 'scale' must be a view to be optional, but got a scalar; give "
       "it a default instead"},
      {R"("kind":"scalar")", R"("written":true,"kind":"scalar")",
       "argument 'scale' of kernel 'scale' must be a view to be written, but got a scalar"},
      {R"({"abi")", R"(["abi")",
       "malformed JSON at offset 6: expected ',' or ']' after an item of an array, but got "
       "':5,\"producer\":\"a tes...'"},
  };
  for (const Case &wrong : cases) {
    std::string text = good;
    size_t at = text.find(wrong.from);
    ASSERT_NE(at, std::string::npos) << wrong.from;
    text.replace(at, std::strlen(wrong.from), wrong.to);
    EXPECT_FAILURE(statusOf(fileWith(text)), Code::BadBundle,
                   std::string("'b' has a bad manifest: ") + wrong.message);
  }
}

/// In ABI 3, the launches of a program list the kernels of all targets.
TEST(RuntimeBundle, ReadsProgramsOfAbi3) {
  BundleWriter writer = scaleBundle();
  for (const char *arch : {"sm_90a", "sm_90a", "sm_80"}) {
    KernelSpec kernel = scaleKernel();
    kernel.codes[0].arch = *Arch::parse(arch);
    writer.manifest.kernels.push_back(kernel); // 1, 2, 3; 0 is for sm_80
  }
  const std::string good = writer.manifest.toJson().write();
  auto withLaunches = [&](const char *first, const char *second) {
    std::string text = good;
    text.replace(text.find(R"("abi":5)"), 7, R"("abi":3)");
    std::string arguments = R"(,"arguments":["x","y","bias","scale","rows"]})";
    size_t begin = text.find(R"("arguments":)"), end = text.find(R"(,"entry")");
    text.replace(text.find(R"("programs":[])"), 13,
                 R"("programs":[{"name":"p","params":{},)" + text.substr(begin, end - begin) +
                     R"(,"workspaces":[],"launches":[{"kernels":)" + first + arguments +
                     R"(,{"kernels":)" + second + arguments + "]}]");
    return fileWith(text);
  };
  Result<std::shared_ptr<const Bundle>> bundle =
      Bundle::fromBytes(withLaunches("[1,2,0]", "[0,2,3]"), "b");
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  const std::vector<FormSpec> &forms = (*bundle)->manifest().programs[0].forms;
  ASSERT_EQ(forms.size(), 2u);
  using Kernels = std::vector<size_t>;
  EXPECT_EQ(forms[0].target.toString(), "sm_90a") << "in order of preference";
  EXPECT_EQ(forms[0].launches[0].kernels, (Kernels{1, 2}));
  EXPECT_EQ(forms[0].launches[1].kernels, (Kernels{2}));
  EXPECT_EQ(forms[1].target.toString(), "sm_80");
  EXPECT_EQ(forms[1].launches[0].kernels, (Kernels{0}));
  EXPECT_EQ(forms[1].launches[1].kernels, (Kernels{0, 3}));
  bundle = Bundle::fromBytes(withLaunches("[1,0]", "[2]"), "b");
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  EXPECT_EQ((*bundle)->manifest().programs[0].forms.size(), 1u) << "sm_80 lacks a launch";
  EXPECT_FAILURE(statusOf(withLaunches("[1]", "[0]")), Code::BadBundle,
                 "'b' has a bad manifest: program 'p' must have code for one target in each "
                 "launch, but has none");
  EXPECT_FAILURE(statusOf(withLaunches("[1,7]", "[1]")), Code::BadBundle,
                 "'b' has a bad manifest: a launch of program 'p' names kernel 7, but the bundle "
                 "has 4");
}

TEST(RuntimeBundle, RejectsWrongRulesForElements) {
  BundleWriter writer = scaleBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.arguments.push_back(ArgumentSpec::view("table", ElementType::I32, {-1, -1}));
  kernel.arguments.push_back(ArgumentSpec::view("lengths", ElementType::I32, {-1}));
  kernel.elements = {{numeric::ElementRule::WithinFirst, 5, Expr::integer(0), Expr::dim("x", 0), 6,
                      Expr::integer(16)}};
  const std::string good = writer.manifest.toJson().write();
  ASSERT_TRUE(statusOf(fileWith(good)).ok()) << statusOf(fileWith(good)).message();
  const std::string rules =
      R"("elements":[{"rule":"within_first","argument":"table","low":0,"high":["dim","x",0],)"
      R"("counts":"lengths","size":16}])";
  size_t at = good.find(rules);
  ASSERT_NE(at, std::string::npos) << good;
  struct Case {
    const char *elements, *message;
  };
  const Case cases[] = {
      {R"({})", "'elements' of kernel 'scale' must be a list, but got '{}'"},
      {R"(["ascending"])",
       "'rule' of a rule for elements of kernel 'scale' must be a string, but is missing"},
      {R"([{"rule":"descending","argument":"lengths"}])",
       "'rule' of a rule for elements of kernel 'scale' must be ascending, within or within_first, "
       "but got 'descending'"},
      {R"([{"rule":"ascending"}])",
       "'argument' of a rule for elements of kernel 'scale' must be a string, but is missing"},
      {R"([{"rule":"ascending","argument":"offsets"}])",
       "'argument' of a rule for elements of kernel 'scale' must name an argument, but got "
       "'offsets'"},
      {R"([{"rule":"ascending","argument":"lengths","low":0}])",
       "the keys of a rule for elements of kernel 'scale' must be among rule, argument, but got "
       "'low'"},
      {R"([{"rule":"within","argument":"lengths","low":0}])",
       "'high' of a rule for elements of kernel 'scale' must be an expression, but is missing"},
      {R"([{"rule":"within","argument":"lengths","low":0,"high":4,"size":1}])",
       "the keys of a rule for elements of kernel 'scale' must be among rule, argument, low, high, "
       "but got 'size'"},
      {R"([{"rule":"within_first","argument":"table","low":0,"high":4,"size":1}])",
       "'counts' of a rule for elements of kernel 'scale' must be a string, but is missing"},
      {R"([{"rule":"within_first","argument":"table","low":0,"high":4,"counts":"lengths"}])",
       "'size' of a rule for elements of kernel 'scale' must be an expression, but is missing"},
      {R"([{"rule":"within","argument":"lengths","low":0,"high":["half",1]}])",
       "the functions of expressions must be known, but got 'half'"},
      {R"([{"rule":"within","argument":"lengths","low":0,"high":["name","scale"]}])",
       "'scale' in an expression of kernel 'scale' must be a parameter or an integer scalar, but "
       "got a scalar of f32"},
      {R"([{"rule":"within","argument":"lengths","low":0,"high":["dim","z",0]}])",
       "an expression of kernel 'scale' must name a parameter or an argument, but got 'z'"},
      {R"([{"rule":"ascending","argument":"table"}])",
       "kernel 'scale' uses 'ascending', which requires a view of i32 or i64 of rank 1, but got "
       "'table', "
       "a view of i32 of rank 2"},
      {R"([{"rule":"within","argument":"bias","low":0,"high":4}])",
       "kernel 'scale' uses 'within', which requires a view of i32 or i64, but got 'bias', a view "
       "of f32 "
       "of rank 1"},
      {R"([{"rule":"within","argument":"rows","low":0,"high":4}])",
       "kernel 'scale' uses 'within', which requires a view of i32 or i64, but got 'rows', a "
       "scalar of "
       "i32"},
      {R"([{"rule":"within_first","argument":"lengths","low":0,"high":4,)"
       R"("counts":"lengths","size":1}])",
       "kernel 'scale' uses 'within_first', which requires a view of i32 or i64 of rank 2, but got "
       "'lengths', a view of i32 of rank 1"},
      {R"([{"rule":"within_first","argument":"table","low":0,"high":4,"counts":"table","size":1}])",
       "kernel 'scale' uses 'within_first', which requires a view of i32 or i64 of rank 1, but got "
       "'table', a view of i32 of rank 2"},
  };
  for (const Case &wrong : cases) {
    std::string text = good;
    text.replace(at, rules.size(), std::string("\"elements\":") + wrong.elements);
    EXPECT_FAILURE(statusOf(fileWith(text)), Code::BadBundle,
                   std::string("'b' has a bad manifest: ") + wrong.message);
  }
  // An expression that is not about an argument has no name to write.
  for (uint32_t ElementRuleSpec::*place : {&ElementRuleSpec::argument, &ElementRuleSpec::counts}) {
    BundleWriter other = writer;
    other.manifest.kernels[0].elements[0].*place = 7;
    EXPECT_EQ(other.bytes().status().code(), Code::BadBundle);
  }
}

TEST(RuntimeBundle, ChecksWhatIsWritten) {
  BundleWriter writer = scaleBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.codes.clear();
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "kernel 'scale' must have code, but got none");
  kernel = scaleKernel();
  kernel.grid.clear();
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "kernel 'scale' has a grid of 0 axes, which must be 1 to 3");
  kernel = scaleKernel();
  for (int i = 0; i < 60; ++i)
    kernel.arguments.push_back(ArgumentSpec::scalar("s" + std::to_string(i), ElementType::F32));
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "kernel 'scale' has 65 arguments; the limit is 64");
  kernel = scaleKernel();
  for (int i = 0; i < 50; ++i)
    kernel.arguments.push_back(
        ArgumentSpec::view("v" + std::to_string(i), ElementType::F32, {1, 1, 1, 1, 1, 1, 1, 1}));
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "kernel 'scale' takes 5296 bytes in 865 parameters; the limit is 4096 in 512");
  kernel = scaleKernel();
  kernel.tensorMaps.resize(17);
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "kernel 'scale' has 17 tensor maps; the limit is 16");
  kernel = scaleKernel();
  kernel.arguments.push_back(ArgumentSpec::view("r6", ElementType::F32, {1, 1, 1, 1, 1, 1}));
  kernel.tensorMaps = {{5, {1, 1, 1, 1, 1, 4}, Swizzle::None}};
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "the tensor map over 'r6' of kernel 'scale' has rank 6; tensor maps have 1 to 5");
  kernel.tensorMaps = {{0, {64, 64}, Swizzle::B128, /*isStored=*/false, /*ragged=*/1}};
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "the tensor map over 'x' of kernel 'scale' is ragged along dimension 1 of 2; the "
                 "dimension must not be the last of 2 to 4 dimensions, nor the first of 4");
  kernel.arguments[5] = ArgumentSpec::view("r4", ElementType::F32, {-1, -1, -1, 64});
  kernel.tensorMaps = {
      {5, {1, 1, 8, 4}, Swizzle::None, /*isStored=*/false, /*ragged=*/2, /*isPaged=*/true}};
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "the tensor map over 'r4' of kernel 'scale' is paged, so it must be ragged along "
                 "dimension 1 and its box must have 1 page, but is ragged along dimension 2 and "
                 "its box has 1");
  kernel.tensorMaps = {{5, {1, 1, 8, 4}, Swizzle::None, /*isStored=*/false, /*ragged=*/0}};
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "the tensor map over 'r4' of kernel 'scale' is ragged along dimension 0 of 4; the "
                 "dimension must not be the last of 2 to 4 dimensions, nor the first of 4");
  kernel.tensorMaps = {{5, {2, 1, 8, 4}, Swizzle::None, /*isStored=*/false, /*ragged=*/2}};
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "the tensor map over 'r4' of kernel 'scale' has a box of 2 elements along its "
                 "first dimension; a ragged map of rank 4 omits that dimension and copies 1");
  kernel.arguments[5] = ArgumentSpec::view("mask", ElementType::I1, {-1});
  kernel.tensorMaps = {{5, {16}, Swizzle::None}};
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "the tensor map over 'mask' of kernel 'scale' must have an element type of at "
                 "least a byte, but got i1");
}

TEST(RuntimeManifest, KnowsFillPatterns) {
  EXPECT_EQ(fillPattern(ElementType::F32, 1.0), 0x3f800000u);
  EXPECT_EQ(fillPattern(ElementType::BF16, 1.0), 0x3f803f80u);
  EXPECT_EQ(fillPattern(ElementType::F16, -0.0), 0x80008000u);
  EXPECT_EQ(fillPattern(ElementType::E4M3, 1.0), 0x38383838u);
  EXPECT_EQ(fillPattern(ElementType::F64, 0.0), 0u);
  EXPECT_EQ(fillPattern(ElementType::F64, 1.0), std::nullopt);
  EXPECT_EQ(fillPattern(ElementType::I32, -1), 0xffffffffu);
  EXPECT_EQ(fillPattern(ElementType::I32, 0.5), std::nullopt);
  EXPECT_EQ(fillPattern(ElementType::I64, 1), std::nullopt);
  EXPECT_EQ(fillPattern(ElementType::I1, 1), 0x01010101u);
}

TEST(RuntimeManifest, ReadsArchitectures) {
  EXPECT_EQ(Arch::parse("sm_90a")->toString(), "sm_90a");
  EXPECT_EQ(Arch::parse("sm_120")->major, 12);
  for (const char *wrong : {"sm_", "sm_9", "sm_9x", "sm_90b", "90", "sm_-90", "sm_1000", "sm_a"})
    EXPECT_FALSE(Arch::parse(wrong)) << wrong;
}

} // namespace
