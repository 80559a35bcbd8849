// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reports: what a run would launch, on a device that is prepared and on one that does not exist.

#include "RuntimeBackwardBundle.h"
#include "RuntimePlanTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

/// scaleBundle with a variant before the general one: for sm_90a and aligned views, with blocks.
BundleWriter reportBundle() {
  BundleWriter writer = scaleBundle();
  KernelSpec fast = scaleKernel();
  fast.entry = "fast";
  fast.params.emplace_back("BLOCK_M", Expr::integer(256));
  fast.params.emplace_back("CAUSAL", Expr::symbol(Expr::Kind::Enum, "none"));
  fast.codes[0].arch = *Arch::parse("sm_90a");
  fast.requirements = {{0, 16, true}};
  fast.sums = {ElementType::F32};
  fast.addsInAnyOrder = true;
  fast.grid = {*Expr::call("ceildiv", {Expr::dim("x", 0), Expr::integer(256)})};
  fast.block = {384, 1, 1};
  fast.staticSharedBytes = 1024;
  writer.manifest.kernels[0].addsInAnyOrder = false;
  writer.manifest.kernels[0].params.emplace_back("BLOCK_M", Expr::integer(128));
  writer.manifest.kernels.insert(writer.manifest.kernels.begin(), fast);
  return writer;
}

constexpr Target hopper = {9, 0, 232448}, ampere = {8, 0, 166912};

class Reports : public OperationTest {};

TEST_F(Reports, SayWhatARunLaunches) {
  Operation operation = create(reportBundle());
  Arguments arguments = scaleArguments(); // one that is written; bias is absent
  Result<RunReport> report = operation.report(arguments.data(), arguments.size(), hopper, 132);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->name, "scale");
  EXPECT_EQ(report->target, "sm_90a");
  EXPECT_EQ(report->params, "D=64,T=bf16,BLOCK_M=256,CAUSAL=none");
  EXPECT_EQ(report->sums, std::vector<ElementType>{ElementType::F32});
  EXPECT_EQ(report->determinism, Determinism::No);
  EXPECT_EQ(report->workspaceBytes, 0u);
  EXPECT_EQ(report->call, "scale x=bf16[300,64]/64,1@256 y=bf16[300,64]/64,1@256 "
                          "scale=f32:0x3f000000 rows=i32:0x7");
  ASSERT_EQ(report->launches.size(), 1u);
  const LaunchReport &launch = report->launches[0];
  EXPECT_EQ(launch.kernel, "scale");
  EXPECT_EQ(launch.entry, "fast");
  EXPECT_FALSE(launch.isCubin);
  EXPECT_EQ(launch.grid, (std::array<uint32_t, 3>{2, 1, 1}));
  EXPECT_EQ(launch.block, (std::array<uint32_t, 3>{384, 1, 1}));
  EXPECT_EQ(launch.cluster, (std::array<uint32_t, 3>{1, 1, 1}));
  EXPECT_EQ(launch.sharedBytes, 65536u + 1024);

  // Another target, and views that the first variant does not take.
  report = operation.report(arguments.data(), arguments.size(), ampere, 108);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->launches[0].entry, "scale_bf16_64");
  EXPECT_EQ(report->target, "sm_80");
  EXPECT_EQ(report->determinism, Determinism::Yes);
  EXPECT_TRUE(report->sums.empty());
  EXPECT_EQ(report->launches[0].grid[0], 3u);
  const std::string aligned = report->call;
  arguments.values[0].bits += 2;
  report = operation.report(arguments.data(), arguments.size(), hopper, 132);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->launches[0].entry, "scale_bf16_64");
  EXPECT_NE(report->call, aligned);
  EXPECT_TRUE(fake().calls.empty()) << "a report of a target needs no driver";
}

/// The report of a device is that of what was prepared there, and agrees with the launch.
TEST_F(Reports, AgreeWithTheLaunch) {
  Operation operation = create(reportBundle());
  Arguments arguments = scaleArguments();
  EXPECT_FAILURE(operation.report(arguments.data(), arguments.size(), 1).status(),
                 Code::NotPrepared,
                 "kernel 'scale' is not prepared for device 1; call prepare before report, or "
                 "describe the device");
  for (auto [major, limit] : {std::pair(8, 166912), {9, 232448}}) {
    fake() = FakeDriver();
    fake().major = major;
    fake().sharedLimit = limit;
    Operation one = create(reportBundle());
    EXPECT_OK(one.prepare(1));
    Result<RunReport> report = one.report(arguments.data(), arguments.size(), 1);
    Result<RunReport> imagined =
        one.report(arguments.data(), arguments.size(), {major, 0, limit}, 108);
    ASSERT_TRUE(report.ok() && imagined.ok()) << report.status().message();
    EXPECT_TRUE(fake().launches.empty());
    EXPECT_OK(run(one, arguments, streamOf(1)));
    ASSERT_EQ(fake().launches.size(), 1u);
    for (const RunReport *each : {&*report, &*imagined}) {
      EXPECT_EQ(each->launches[0].grid[0], fake().launches[0].grid[0]);
      EXPECT_EQ(each->launches[0].block[0], fake().launches[0].block[0]);
      EXPECT_EQ(each->launches[0].entry, major == 9 ? "fast" : "scale_bf16_64");
    }
    EXPECT_EQ(report->call, imagined->call);
  }
}

TEST_F(Reports, GiveTheReasonOfAFailure) {
  Operation operation = create(reportBundle());
  Arguments arguments = scaleArguments();
  EXPECT_FAILURE(operation.report(arguments.data(), arguments.size(), {7, 5, 0}, 1).status(),
                 Code::Unsupported,
                 "kernel 'scale' needs compute capability 8.0 or newer, but this is 7.5");
  EXPECT_FAILURE(operation.report(arguments.data(), arguments.size(), 64).status(),
                 Code::InvalidArgument, "device must be from 0 to 63, but got 64");
  EXPECT_EQ(operation.report(arguments.data(), arguments.size(), {8, 0, 1000}, 1).status().code(),
            Code::MissingVariant)
      << "no variant fits in 1000 bytes of shared memory";
  arguments.values[1].rank = 1;
  EXPECT_FAILURE(operation.report(arguments.data(), arguments.size(), ampere, 1).status(),
                 Code::InvalidArgument,
                 "argument 'y' of kernel 'scale' must have rank 2, but got rank 1");
  arguments = scaleArguments();
  arguments.values[0] = Argument::scalar(1.0f);
  EXPECT_FAILURE(operation.report(arguments.data(), 4, ampere, 1).status(), Code::InvalidArgument,
                 "kernel 'scale' takes 5 arguments, but got 4");
}

TEST_F(Reports, ListTheLaunchesOfAProgram) {
  BundleWriter writer = backwardBundle();
  writer.manifest.kernels[0].addsInAnyOrder = false;
  writer.manifest.kernels[1].addsInAnyOrder = false;
  writer.manifest.kernels[1].sums = {ElementType::F32};
  writer.manifest.kernels[2].addsInAnyOrder = true;
  std::string calls[2];
  for (bool isDeterministic : {true, false}) {
    Operation operation =
        create(writer, "attention_backward", {{"DETERMINISTIC", Expr::flag(isDeterministic)}});
    Argument captures[] = {Argument::dense(0xa0000, ElementType::F32, {8}), Argument::absent()};
    AttentionBackwardArguments a = backwardArguments(captures);
    Argument scale = Argument::scalar(a.scale), open = Argument::scalar(int32_t(-1)), none;
    const Argument *list[] = {&a.q,  &a.k,  &a.v,  &a.o,   &a.dO, &a.lse,       &none,
                              &a.dQ, &a.dK, &a.dV, &scale, &open, &captures[0], &captures[1]};
    Result<RunReport> report = operation.report(list, std::size(list), ampere, 108);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->workspaceBytes, workspaceBytes);
    EXPECT_EQ(report->launches.size(), isDeterministic ? 2u : 3u);
    EXPECT_EQ(report->launches[1].kernel, "keys");
    EXPECT_EQ(report->determinism, isDeterministic ? Determinism::Yes : Determinism::No);
    EXPECT_EQ(report->params, std::string("D=64,DV=64,T=bf16,CAUSAL=none,WINDOW=false,"
                                          "DETERMINISTIC=") +
                                  (isDeterministic ? "true" : "false"));
    EXPECT_EQ(report->target, "sm_80");
    calls[isDeterministic] = report->call;
  }
  // These launch different code, and used to have equal strings.
  EXPECT_NE(calls[0], calls[1]);
  EXPECT_EQ(calls[1].rfind("attention_backward DETERMINISTIC=true q=bf16[", 0), 0u) << calls[1];
  // A kernel that does not say leaves it open.
  writer.manifest.kernels[0].addsInAnyOrder.reset();
  Operation operation = create(writer, "attention_backward", {{"DETERMINISTIC", Expr::flag(true)}});
  AttentionBackwardArguments a = backwardArguments(nullptr);
  Argument slopes = Argument::dense(0xa0000, ElementType::F32, {8}), none;
  Argument scale = Argument::scalar(0.5), open = Argument::scalar(int32_t(-1));
  const Argument *list[] = {&a.q,  &a.k,  &a.v,  &a.o,   &a.dO, &a.lse,  &none,
                            &a.dQ, &a.dK, &a.dV, &scale, &open, &slopes, &none};
  Result<RunReport> report = operation.report(list, std::size(list), ampere, 108);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->determinism, Determinism::Unknown);
}

/// How kernels sum, through JSON.
TEST(ReportsOfManifests, KeepHowKernelsSum) {
  BundleWriter writer = reportBundle();
  writer.manifest.kernels[0].sums = {ElementType::F32, ElementType::F64};
  std::shared_ptr<const Bundle> bundle = read(writer);
  const std::vector<KernelSpec> &kernels = bundle->manifest().kernels;
  EXPECT_EQ(kernels[0].sums, writer.manifest.kernels[0].sums);
  EXPECT_EQ(kernels[0].addsInAnyOrder, std::optional(true));
  EXPECT_EQ(kernels[1].addsInAnyOrder, std::optional(false));
  EXPECT_TRUE(kernels[1].sums.empty());
  std::string text = writer.manifest.toJson().write();
  size_t at = text.find("\"f64\"]");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 5, "\"f65\"");
  EXPECT_FAILURE(Manifest::fromJson(*Json::parse(text)).status(), Code::BadBundle,
                 "'sums' of kernel 'scale' must be element types, such as f32, but got '\"f65\"'");
}

class ReportsInC : public LoadedBundleTest {
protected:
  void SetUp() override {
    LoadedBundleTest::SetUp();
    load(reportBundle());
    ASSERT_EQ(tilewright_operation_create(bundle, "scale", nullptr, 0, &operation), TILEWRIGHT_OK);
  }
  void TearDown() override {
    tilewright_report_destroy(report);
    tilewright_operation_destroy(operation);
    LoadedBundleTest::TearDown();
  }
  tilewright_code make(const tilewright_target *of) {
    return tilewright_operation_report(operation, list, std::size(list), 0, of, &report);
  }
  tilewright_operation *operation = nullptr;
  tilewright_report *report = nullptr;
  int64_t extents[2] = {300, 64};
  float scale = 0.5f;
  int32_t rows = 7;
  tilewright_view x = viewOf(0x10000, TILEWRIGHT_BF16, 2, extents);
  tilewright_argument list[4] = {{sizeof(list[0]), "x", &x, nullptr, TILEWRIGHT_F32},
                                 {sizeof(list[0]), "y", &x, nullptr, TILEWRIGHT_F32},
                                 {sizeof(list[0]), "scale", nullptr, &scale, TILEWRIGHT_F32},
                                 {sizeof(list[0]), "rows", nullptr, &rows, TILEWRIGHT_I32}};
  tilewright_target target = {sizeof(target), 9, 0, 232448, 132};
};

TEST_F(ReportsInC, HaveAllFields) {
  ASSERT_EQ(make(&target), TILEWRIGHT_OK) << tilewright_last_error();
  // They outlive the operation.
  tilewright_operation_destroy(operation);
  operation = nullptr;
  tilewright_run_info run = {};
  run.struct_size = sizeof(run);
  ASSERT_EQ(tilewright_report_run(report, &run), TILEWRIGHT_OK) << tilewright_last_error();
  EXPECT_STREQ(run.name, "scale");
  EXPECT_STREQ(run.target, "sm_90a");
  EXPECT_STREQ(run.params, "D=64,T=bf16,BLOCK_M=256,CAUSAL=none");
  EXPECT_STREQ(run.sums, "f32");
  EXPECT_EQ(std::string(run.call).rfind("scale x=bf16[300,64]", 0), 0u);
  EXPECT_EQ(run.determinism, TILEWRIGHT_DETERMINISM_NO);
  EXPECT_EQ(run.workspace_bytes, 0u);
  EXPECT_EQ(run.num_launches, 1u);
  tilewright_launch_info launch = {};
  launch.struct_size = sizeof(launch);
  ASSERT_EQ(tilewright_report_launch(report, 0, &launch), TILEWRIGHT_OK);
  EXPECT_STREQ(launch.kernel, "scale");
  EXPECT_STREQ(launch.entry, "fast");
  EXPECT_STREQ(launch.target, "sm_90a");
  EXPECT_STREQ(launch.params, run.params);
  EXPECT_STREQ(launch.sums, "f32");
  EXPECT_EQ(launch.determinism, TILEWRIGHT_DETERMINISM_NO);
  EXPECT_EQ(launch.is_cubin, 0);
  EXPECT_EQ(launch.grid[0], 2u);
  EXPECT_EQ(launch.block[0], 384u);
  EXPECT_EQ(launch.cluster[2], 1u);
  EXPECT_EQ(launch.shared_bytes, 65536u + 1024);
}

TEST_F(ReportsInC, AreOfADevice) {
  constexpr tilewright_code invalid = TILEWRIGHT_INVALID_ARGUMENT;
  EXPECT_C_FAILURE(make(nullptr), TILEWRIGHT_NOT_PREPARED,
                   "kernel 'scale' is not prepared for device 0; call prepare before report, or "
                   "describe the device");
  EXPECT_EQ(tilewright_operation_prepare(operation, 0), TILEWRIGHT_OK);
  ASSERT_EQ(make(nullptr), TILEWRIGHT_OK) << tilewright_last_error();
  tilewright_run_info run = {};
  EXPECT_C_FAILURE(tilewright_report_run(report, &run), invalid,
                   "struct_size of tilewright_run_info must be at least 72, but got 0; set it to "
                   "sizeof of the struct");
  tilewright_launch_info launch = {};
  EXPECT_C_FAILURE(tilewright_report_launch(report, 0, &launch), invalid,
                   "struct_size of tilewright_launch_info must be at least 96, but got 0; set it "
                   "to sizeof of the struct");
  launch.struct_size = sizeof(launch);
  EXPECT_C_FAILURE(tilewright_report_launch(report, 1, &launch), invalid,
                   "index must be less than the number of launches, 1, but got 1");
  EXPECT_C_FAILURE(tilewright_report_run(nullptr, &run), invalid,
                   "report must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_report_launch(report, 0, nullptr), invalid,
                   "info must be a valid pointer, but got null");
  target.struct_size = 8;
  EXPECT_C_FAILURE(make(&target), invalid,
                   "struct_size of tilewright_target must be at least 24, but got 8; set it to "
                   "sizeof of the struct");
  EXPECT_C_FAILURE(tilewright_operation_report(nullptr, list, 4, 0, nullptr, &report), invalid,
                   "operation must be a valid pointer, but got null");
  EXPECT_C_FAILURE(tilewright_operation_report(operation, list, 4, 0, nullptr, nullptr), invalid,
                   "report must be a valid pointer, but got null");
}

} // namespace
