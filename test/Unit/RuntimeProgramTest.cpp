// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs: several launches, workspaces, fills, conditions.

#include "RuntimeTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

class Programs : public OperationTest {
protected:
  Operation create(const BundleWriter &writer) { return OperationTest::create(writer, "twice"); }
};

TEST_F(Programs, CarveWorkspacesFromOneBuffer) {
  Operation operation = create(programBundle());
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(fake().calls["cuLibraryLoadData"], 1) << "both kernels are in one blob";
  Arguments arguments = scaleArguments(300);
  uint64_t bytes = 0;
  EXPECT_OK(operation.workspaceSize(arguments.data(), arguments.size(), 0, bytes));
  // 300 * 64 * 2 = 38400 = 150 * 256, and 300 * 4 = 1200 -> 1280.
  EXPECT_EQ(bytes, 38400u + 1280u);
  EXPECT_OK(operation.run(arguments.data(), arguments.size(), 0x40000, bytes, streamOf(0)));
  ASSERT_EQ(fake().fills.size(), 1u);
  EXPECT_EQ(fake().fills[0].address, 0x40000u + 38400u);
  EXPECT_EQ(fake().fills[0].value, 0x3f800000u);
  EXPECT_EQ(fake().fills[0].count, 1280u / 4);
  ASSERT_EQ(fake().launches.size(), 2u);
  EXPECT_EQ(paramAt<uint64_t>(fake().launches[0], 5), 0x40000u) << "y of the first is tmp";
  EXPECT_EQ(paramAt<int32_t>(fake().launches[0], 6), 300);
  EXPECT_EQ(paramAt<int64_t>(fake().launches[0], 8), 64);
  EXPECT_EQ(paramAt<uint64_t>(fake().launches[0], 10), 0x40000u + 38400u);
  EXPECT_EQ(paramAt<uint64_t>(fake().launches[1], 0), 0x40000u) << "x of the second";
  EXPECT_EQ(paramAt<uint64_t>(fake().launches[1], 5), 0x20000u);
  EXPECT_EQ(fake().entries, (std::vector<std::string>{"scale_bf16_64", "second"}));
}

/// programBundle with a form for sm_90a before that for sm_80, on a device that supports both:
/// kernels 2 and 3, entries "mapped" and "plain".
BundleWriter twoTargetsBundle() {
  BundleWriter writer = programBundle();
  std::vector<KernelSpec> &kernels = writer.manifest.kernels;
  std::vector<FormSpec> &forms = writer.manifest.programs[0].forms;
  forms.insert(forms.begin(), forms[0]);
  forms[0].target = *Arch::parse("sm_90a");
  const char *entries[] = {"mapped", "plain"};
  for (uint32_t i = 0; i < 2; ++i) {
    KernelSpec kernel = kernels[i];
    kernel.entry = entries[i];
    kernel.codes[0].arch = forms[0].target;
    kernels.push_back(kernel);
    forms[0].launches[i].kernels = {2 + i};
  }
  fake().major = 9;
  fake().minor = 0;
  return writer;
}

/// The entries that a run launches.
using Entries = std::vector<std::string>;
Entries launchedBy(const Operation &operation, const Arguments &arguments) {
  fake().launches.clear();
  EXPECT_OK(operation.run(arguments.data(), arguments.size(), 0x40000, 1 << 20, nullptr));
  Entries launched;
  for (const FakeLaunch &launch : fake().launches)
    launched.push_back(fake().entries.at(reinterpret_cast<size_t>(launch.function) - 0x8001));
  return launched;
}

// The kernel for one target may execute work that the kernel for another target leaves to the next
// launch, so all kernels of a run are of one form.
TEST_F(Programs, LaunchKernelsOfOneForm) {
  BundleWriter writer = twoTargetsBundle();
  writer.manifest.kernels[2].requirements = {{0, 16, true}};
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments(300);
  EXPECT_EQ(launchedBy(operation, arguments), (Entries{"mapped", "plain"}));
  arguments.values[0].bits += 2;
  EXPECT_EQ(launchedBy(operation, arguments), (Entries{"scale_bf16_64", "second"}));
  Operation older = create(writer);
  fake().major = 8;
  EXPECT_OK(older.prepare(0));
  EXPECT_EQ(launchedBy(older, arguments), (Entries{"scale_bf16_64", "second"}));
}

// A form is not used, not even for some of the launches, if no variant fits one of the launches.
TEST_F(Programs, RejectArgumentsThatNoFormTakes) {
  BundleWriter writer = twoTargetsBundle();
  writer.manifest.kernels[1].requirements = {{1, 16, true}};
  writer.manifest.kernels[2].requirements = {{0, 16, true}};
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments(300);
  arguments.values[0].bits += 2; // rejected by the first launch for sm_90a
  arguments.values[1].bits += 2; // and by the second one for sm_80
  EXPECT_FAILURE(operation.run(arguments.data(), arguments.size(), 0x40000, 1 << 20, nullptr),
                 Code::Unsupported,
                 "program 'twice' has no target for which every kernel has a variant that accepts "
                 "these arguments: for sm_90a, kernel 'scale': 'x' must be aligned to 16 bytes; "
                 "for sm_80, kernel 'scale_sums': 'y' must be aligned to 16 bytes");
  EXPECT_TRUE(fake().launches.empty());
}

// Forms have launches, workspaces, parameters and conditions of their own.
TEST_F(Programs, TakeTheFirstFormWhoseConditionHolds) {
  BundleWriter writer = programBundle();
  ProgramSpec &program = writer.manifest.programs[0];
  FormSpec once = program.forms[0];
  once.params = {{"STEPS", Expr::integer(1)}};
  once.conditions = {*Expr::call("<=", {Expr::dim("x", 0), Expr::integer(100)})};
  once.workspaces.clear();
  once.launches.resize(1);
  once.launches[0].arguments = {"x", "y", "bias", "scale", "rows"};
  program.forms[0].params = {{"STEPS", Expr::integer(2)}};
  program.forms.insert(program.forms.begin(), once);
  std::shared_ptr<const Bundle> both = read(writer);
  Operation operation = create(writer);
  uint64_t bytes = 0;
  auto sizeOf = [&](const Operation &of, int64_t rows) {
    Arguments arguments = scaleArguments(rows);
    EXPECT_OK(of.workspaceSize(arguments.data(), arguments.size(), 0, bytes));
    return bytes;
  };
  EXPECT_EQ(sizeOf(operation, 300), 39680u);
  EXPECT_EQ(sizeOf(operation, 100), 13312u) << "of all forms whose conditions hold";
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(launchedBy(operation, scaleArguments(100)), (Entries{"scale_bf16_64"}));
  EXPECT_EQ(launchedBy(operation, scaleArguments(101)), (Entries{"scale_bf16_64", "second"}));

  Result<Operation> one = Operation::create(
      driver, both, "twice", {{"D", Expr::integer(64)}, {"STEPS", Expr::integer(1)}});
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(sizeOf(*one, 100), 0u);
  EXPECT_OK(one->prepare(0));
  EXPECT_EQ(launchedBy(*one, scaleArguments(100)), (Entries{"scale_bf16_64"}));
  Arguments arguments = scaleArguments(101);
  EXPECT_FAILURE(one->run(arguments.data(), arguments.size(), 0x40000, 1 << 20, nullptr),
                 Code::Unsupported,
                 "program 'twice' has no form for these arguments: for sm_80, its condition "
                 "'dim(x, 0) <= 100' does not hold, but got dim(x, 0) = 101");
  EXPECT_FAILURE(Operation::create(driver, both, "twice", {{"STEPS", Expr::integer(3)}}).status(),
                 Code::MissingVariant,
                 "'test.twb' has no variant of 'twice' for STEPS = 3, but has STEPS = 1, or STEPS "
                 "= 2; compile it with: tilewrightc scale.mlir --program=twice --param=STEPS=3 "
                 "--emit=bundle -o FILE");
}

// A form for chips with less shared memory is not loaded where its predecessor fits.
TEST_F(Programs, UseTheSmallFormOnSmallChipsOnly) {
  BundleWriter writer = programBundle();
  std::vector<KernelSpec> &kernels = writer.manifest.kernels;
  ProgramSpec &program = writer.manifest.programs[0];
  KernelSpec small = kernels[0];
  small.entry = "fast";
  kernels[0].sharedBytes = 150000;
  small.sharedBytes = 90000;
  kernels.push_back(small);
  program.forms.push_back(program.forms[0]);
  program.forms[1].launches[0].kernels = {2};
  program.forms[1].workspaces[1].extents = {
      *Expr::call("*", {Expr::dim("x", 0), Expr::integer(64)})};
  for (bool isSmall : {false, true}) {
    fake() = FakeDriver();
    fake().sharedLimit = isSmall ? 101376 : 166912;
    Operation operation = create(writer);
    EXPECT_OK(operation.prepare(0));
    EXPECT_EQ(launchedBy(operation, scaleArguments(30)),
              (Entries{isSmall ? "fast" : "scale_bf16_64", "second"}));
    EXPECT_EQ(std::count(fake().entries.begin(), fake().entries.end(), "fast"), isSmall);
    uint64_t bytes = 0;
    Arguments arguments = scaleArguments(30);
    EXPECT_OK(operation.workspaceSize(arguments.data(), arguments.size(), 0, bytes));
    EXPECT_EQ(bytes, 3840u + (isSmall ? 7680u : 256u));
  }
  EXPECT_OK(create(writer).checkSupport({8, 6, 101376}));
  EXPECT_FAILURE(create(writer).checkSupport({8, 6, 65536}), Code::MissingVariant,
                 "no variant of kernel 'scale' runs on compute capability 8.6: that of entry "
                 "'scale_bf16_64' needs 150000 bytes of shared memory, limit 65536, that of entry "
                 "'fast' needs 90000 bytes of shared memory, limit 65536; compile it with: "
                 "tilewrightc scale.mlir --program=twice --target=sm_86 --emit=bundle -o FILE");
}

TEST_F(Programs, RejectFormsWithoutCode) {
  BundleWriter writer = programBundle();
  writer.manifest.programs[0].forms[0].target = *Arch::parse("sm_90a");
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "a launch of program 'twice' in the form for sm_90a names kernel 'scale', which "
                 "must have code for this target");
  writer.manifest.programs[0].forms.clear();
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "program 'twice' must have a form, but got none");
}

TEST_F(Programs, SkipLaunchesByCondition) {
  Operation operation = create(programBundle());
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments(300);
  arguments.values[4] = Argument::scalar(int32_t(0));
  EXPECT_OK(operation.run(arguments.data(), arguments.size(), 0x40000, 1 << 20, nullptr));
  EXPECT_EQ(fake().launches.size(), 1u);
}

TEST_F(Programs, NeedNoWorkspaceForNothing) {
  Operation operation = create(programBundle());
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments(0);
  EXPECT_OK(operation.run(arguments.data(), arguments.size(), 0, 0, nullptr));
  EXPECT_TRUE(fake().launches.empty());
  EXPECT_TRUE(fake().fills.empty());
}

TEST_F(Programs, RejectTheirInputs) {
  BundleWriter writer = programBundle();
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments(300);
  auto run = [&](uint64_t workspace, uint64_t bytes) {
    return operation.run(arguments.data(), arguments.size(), workspace, bytes, nullptr);
  };
  EXPECT_FAILURE(run(0x40000, 39679), Code::InvalidArgument,
                 "program 'twice' needs a workspace of 39680 bytes, but got 39679");
  EXPECT_FAILURE(run(0, 39680), Code::InvalidArgument,
                 "program 'twice' needs a workspace of 39680 bytes, but got 0");
  EXPECT_FAILURE(run(0x40080, 1 << 20), Code::InvalidArgument,
                 "the workspace of program 'twice' must be aligned to 256 bytes, but got an "
                 "address with the remainder 128");
  fake().failures["cuMemsetD32Async"] = 999;
  EXPECT_FAILURE(run(0x40000, 1 << 20), Code::Driver,
                 "cannot fill workspace 'sums' of program 'twice': cuMemsetD32Async returned "
                 "CUDA_ERROR_FAKE (999), as told");
  EXPECT_TRUE(fake().launches.empty());
  EXPECT_FAILURE(operation.workspaceSize(arguments.data(), 2, 0, *std::make_unique<uint64_t>()),
                 Code::InvalidArgument, "program 'twice' takes 5 arguments, but got 2");

  std::vector<Expr> &extents = formOf(writer.manifest.programs[0]).workspaces[1].extents;
  uint64_t bytes;
  extents = {*Expr::call("-", {Expr::name("rows"), Expr::integer(8)})};
  Operation negative = create(writer);
  EXPECT_FAILURE(negative.workspaceSize(arguments.data(), arguments.size(), 0, bytes),
                 Code::InvalidArgument,
                 "workspace 'sums' of program 'twice' must have extents of at least 0, but got -1 "
                 "along dimension 0");
  extents = {Expr::integer(int64_t(1) << 40), Expr::integer(int64_t(1) << 40)};
  Operation huge = create(writer);
  EXPECT_FAILURE(huge.workspaceSize(arguments.data(), arguments.size(), 0, bytes),
                 Code::InvalidArgument,
                 "workspace 'sums' of program 'twice' must have at most 2^50 elements, but got "
                 "1099511627776 times 1099511627776");
  extents.assign(9, Expr::integer(1));
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "workspace 'sums' of program 'twice' has rank 9; the limit is 8");
  writer = programBundle();
  formOf(writer.manifest.programs[0]).workspaces.resize(65);
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "program 'twice' has 65 workspaces; the limit is 64");
  writer = programBundle();
  formOf(writer.manifest.programs[0])
      .launches.resize(33, formOf(writer.manifest.programs[0]).launches[0]);
  EXPECT_FAILURE(writer.bytes().status(), Code::BadBundle,
                 "program 'twice' has 33 launches; the limit is 32");
}

TEST_F(Programs, LaunchNothingWhenALaterLaunchCannotBe) {
  BundleWriter writer = programBundle();
  writer.manifest.kernels[1].requirements = {{1, 16, true}};
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments(300);
  arguments.values[1].bits += 2;
  EXPECT_FAILURE(
      operation.run(arguments.data(), arguments.size(), 0x40000, 1 << 20, nullptr),
      Code::Unsupported,
      "no variant of kernel 'scale_sums' takes these arguments: 'y' must be aligned to 16 "
      "bytes");
  EXPECT_TRUE(fake().launches.empty());
  EXPECT_TRUE(fake().fills.empty());
}

} // namespace
