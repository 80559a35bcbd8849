// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Preparing and running kernels on a driver that records calls.

#include "RuntimeTesting.h"

#include <cmath>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

class Operations : public OperationTest {};

template <typename T> T paramAt(const FakeLaunch &launch, size_t index) {
  T value;
  std::memcpy(&value, launch.params.data() + fake().layout->params[index].offset, sizeof(T));
  return value;
}

TEST_F(Operations, PacksArgumentsByTheAbi) {
  Operation operation = create(scaleBundle());
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments();
  arguments.values[0].strides[0] = int64_t(3) << 31; // offsets beyond 32 bits
  EXPECT_OK(run(operation, arguments));
  ASSERT_EQ(fake().launches.size(), 1u);
  const FakeLaunch &launch = fake().launches[0];
  EXPECT_EQ(launch.grid[0], 3u);
  EXPECT_EQ(launch.grid[1], 1u);
  EXPECT_EQ(launch.block[0], 128u);
  EXPECT_EQ(launch.sharedBytes, 65536u);
  EXPECT_EQ(paramAt<uint64_t>(launch, 0), 0x10000u);
  EXPECT_EQ(paramAt<int32_t>(launch, 1), 300);
  EXPECT_EQ(paramAt<int32_t>(launch, 2), 64);
  EXPECT_EQ(paramAt<int64_t>(launch, 3), int64_t(3) << 31);
  EXPECT_EQ(paramAt<int64_t>(launch, 4), 1);
  EXPECT_EQ(paramAt<uint64_t>(launch, 5), 0x20000u);
  EXPECT_EQ(paramAt<uint64_t>(launch, 10), 0u) << "the absent view";
  EXPECT_EQ(paramAt<int32_t>(launch, 11), 0);
  EXPECT_EQ(paramAt<int64_t>(launch, 12), 0);
  EXPECT_EQ(paramAt<float>(launch, 13), 0.5f);
  EXPECT_EQ(paramAt<int32_t>(launch, 14), 7);
  EXPECT_EQ(fake().functionAttributes[cuda::FunctionMaxDynamicShared], 65536);
  EXPECT_EQ(fake().entries, std::vector<std::string>{"scale_bf16_64"});
}

TEST_F(Operations, RunsOnNothingWhenTheGridIsEmpty) {
  Operation operation = create(scaleBundle());
  EXPECT_OK(operation.prepare(0));
  EXPECT_OK(run(operation, scaleArguments(0)));
  EXPECT_TRUE(fake().launches.empty());
}

TEST_F(Operations, FindsTheContext) {
  Operation operation = create(scaleBundle());
  EXPECT_OK(operation.prepare(1));
  EXPECT_TRUE(fake().contexts.empty()) << "prepare leaves the stack as it was";
  EXPECT_EQ(fake().retained, 1);

  // Without a stream and a current context, the primary context of the known device is used.
  EXPECT_OK(run(operation, scaleArguments()));
  EXPECT_EQ(fake().launches.back().context, contextOf(1));
  EXPECT_TRUE(fake().contexts.empty());
  EXPECT_EQ(fake().calls["cuCtxGetDevice"], 0);

  // The context of the stream, regardless of the current one.
  fake().contexts = {contextOf(0)};
  EXPECT_OK(run(operation, scaleArguments(), streamOf(1)));
  EXPECT_EQ(fake().launches.back().context, reinterpret_cast<cuda::Context>(0x2001));
  EXPECT_EQ(fake().launches.back().stream, streamOf(1));
  EXPECT_EQ(fake().contexts, std::vector<cuda::Context>{contextOf(0)});

  // The current context belongs to a device without code.
  EXPECT_FAILURE(run(operation, scaleArguments()), Code::NotPrepared,
                 "kernel 'scale' is not prepared for this device; call prepare before run");
  // The per-thread default stream also uses the current context.
  fake().contexts = {contextOf(1)};
  EXPECT_OK(run(operation, scaleArguments(), cuda::streamPerThread));
  EXPECT_EQ(fake().launches.back().context, contextOf(1));
}

TEST_F(Operations, PreparesInTheCurrentContextOfTheDevice) {
  Operation operation = create(scaleBundle());
  fake().contexts = {contextOf(2)};
  EXPECT_OK(operation.prepare(2));
  EXPECT_EQ(fake().retained, 0);
  EXPECT_OK(operation.prepare(2));
  EXPECT_EQ(fake().calls["cuLibraryLoadData"], 1) << "the second call finds it done";
  fake().contexts.clear();
  EXPECT_FAILURE(run(operation, scaleArguments()), Code::NotPrepared,
                 "no context is current, and none was retained by prepare; call prepare, or make a "
                 "context current");
}

TEST_F(Operations, RunsInOtherThreadsInThePrimaryContextThatWasCurrent) {
  fake().isPrimaryActive = true;
  fake().contexts = {contextOf(2)};
  {
    Operation operation = create(scaleBundle());
    EXPECT_OK(operation.prepare(2));
    EXPECT_EQ(fake().retained, 1);
    fake().contexts.clear(); // as in a thread without a context
    EXPECT_OK(run(operation, scaleArguments()));
    EXPECT_EQ(fake().launches.back().context, contextOf(2));
  }
  EXPECT_EQ(fake().retained, 0);
}

TEST_F(Operations, ReleasesWhatItLoaded) {
  {
    Operation operation = create(scaleBundle());
    EXPECT_OK(operation.prepare(0));
    EXPECT_OK(operation.prepare(1));
    EXPECT_EQ(fake().loaded, 2);
    Operation moved = std::move(operation);
    EXPECT_OK(run(moved, scaleArguments(), streamOf(1)));
  }
  EXPECT_EQ(fake().loaded, 0);
  EXPECT_EQ(fake().retained, 0);
}

TEST_F(Operations, MustBePreparedToRun) {
  Operation operation = create(scaleBundle());
  EXPECT_FAILURE(run(operation, scaleArguments(), streamOf(0)), Code::NotPrepared,
                 "kernel 'scale' is not prepared for this device; call prepare before run");
  fake().isCapturing = true;
  EXPECT_FAILURE(
      run(operation, scaleArguments(), streamOf(0)), Code::NotPrepared,
      "kernel 'scale' is not prepared for this device, and the stream is being captured; "
      "call prepare before the capture begins");
}

constexpr char noDriver[] = "no CUDA driver: the table of its functions is empty; use "
                            "DriverTable::system(), or run the kernel with tilewright-run "
                            "--device=cpu";

TEST_F(Operations, CanBeInspectedWithoutADriver) {
  driver = DriverTable();
  Operation operation = create(scaleBundle());
  EXPECT_EQ(operation.arguments().size(), 5u);
  EXPECT_OK(operation.checkSupport({8, 0, 0}));
  Arguments arguments = scaleArguments();
  uint64_t bytes = 1;
  EXPECT_OK(operation.workspaceSize(arguments.data(), arguments.size(), 0, bytes));
  EXPECT_EQ(bytes, 0u);
  operation.checkIndices(true);
  EXPECT_FAILURE(operation.prepare(0), Code::NoDriver, noDriver);
  EXPECT_FAILURE(run(operation, arguments), Code::NoDriver, noDriver);
  EXPECT_FAILURE(run(operation, arguments, streamOf(0)), Code::NoDriver, noDriver);
}

TEST_F(Operations, UsesModulesOnOldDrivers) {
  driver.cuLibraryLoadData = nullptr;
  Operation operation = create(scaleBundle());
  EXPECT_OK(operation.prepare(0));
  EXPECT_EQ(fake().calls["cuModuleLoadDataEx"], 1);
  EXPECT_EQ(fake().calls["cuFuncSetAttribute"], 1);
  EXPECT_OK(run(operation, scaleArguments()));
  EXPECT_FAILURE(run(operation, scaleArguments(), streamOf(0)), Code::NotPrepared,
                 "kernel 'scale' was prepared in another context; drivers before CUDA 12.0 load "
                 "code for a single context");
}

TEST_F(Operations, RejectsDevicesAndDrivers) {
  Operation operation = create(scaleBundle());
  EXPECT_FAILURE(operation.prepare(3), Code::InvalidArgument,
                 "the device must be one of the 3 of the driver, counted from 0, but got 3");
  EXPECT_FAILURE(operation.prepare(-1), Code::InvalidArgument,
                 "the device must be one of the 3 of the driver, counted from 0, but got -1");
  fake().numDevices = 100;
  EXPECT_FAILURE(operation.prepare(64), Code::Unsupported,
                 "a device must be one of the first 64, but got device 64");
  fake().driverVersion = 11040;
  EXPECT_FAILURE(operation.prepare(0), Code::NoDriver,
                 "cannot load the sm_80 code of kernel 'scale' from 'test.twb' on device 0 (Fake, "
                 "compute capability 8.0): its PTX of version 8.0 needs a driver of CUDA 12.0, but "
                 "this one is of CUDA 11.4; update the driver");
  fake().driverVersion = 12000;
  fake().sharedLimit = 65535;
  EXPECT_FAILURE(operation.prepare(0), Code::Unsupported,
                 "kernel 'scale' needs 65536 bytes of shared memory; the limit of device 0 (Fake, "
                 "compute capability 8.0) is 65535");
  fake().major = 7;
  fake().minor = 5;
  EXPECT_FAILURE(operation.prepare(0), Code::Unsupported,
                 "kernel 'scale' needs compute capability 8.0 or newer, but this is 7.5");
}

TEST_F(Operations, TakesTheFirstVariantThatFitsTheDevice) {
  BundleWriter writer = scaleBundle();
  writer.manifest.kernels[0].requirements.clear();
  KernelSpec small = writer.manifest.kernels[0];
  small.sharedBytes = 32768;
  writer.manifest.kernels.push_back(small);
  // Shared memory declared by the code is not requested from the driver, but counts toward the
  // limit.
  writer.manifest.kernels[0].staticSharedBytes = 1024;
  for (auto [limit, expected] :
       {std::pair(166912, 65536u), {66560, 65536u}, {66559, 32768u}, {40000, 32768u}}) {
    fake() = FakeDriver();
    fake().sharedLimit = limit;
    Operation operation = create(writer);
    EXPECT_OK(operation.prepare(0));
    EXPECT_OK(run(operation, scaleArguments()));
    ASSERT_EQ(fake().launches.size(), 1u);
    EXPECT_EQ(fake().launches[0].sharedBytes, expected);
    // The larger kernel is loaded first; on a device with enough memory, the smaller one is never
    // loaded.
    EXPECT_EQ(fake().functionAttributes[cuda::FunctionMaxDynamicShared], int(expected));
  }
}

// If a condition excludes the first variant, the next one is used, and prepared at that time.
TEST_F(Operations, PreparesNoVariantThatIsNeverTaken) {
  BundleWriter writer = scaleBundle();
  KernelSpec &large = writer.manifest.kernels[0];
  large.requirements.clear();
  large.params.emplace_back("BLOCK", Expr::integer(32));
  KernelSpec small = large;
  small.params.back().second = Expr::integer(16);
  small.sharedBytes = 32768;
  writer.manifest.kernels.push_back(small);
  auto preparedBytes = [&] {
    fake().functionAttributes.clear();
    Operation operation = create(writer);
    EXPECT_OK(operation.prepare(0));
    return fake().functionAttributes[cuda::FunctionMaxDynamicShared];
  };
  EXPECT_EQ(preparedBytes(), 65536);
  auto isShort = [](int64_t rows) {
    return *Expr::call("<", {Expr::name("rows"), Expr::integer(rows)});
  };
  writer.manifest.kernels[0].conditions = {isShort(10)};
  EXPECT_EQ(preparedBytes(), 32768); // the last one prepared
  writer.manifest.kernels[1].conditions = {isShort(20)};
  EXPECT_EQ(preparedBytes(), 32768);
  writer.manifest.kernels[1].conditions = {isShort(20), isShort(10)};
  EXPECT_EQ(preparedBytes(), 65536);
}

TEST_F(Operations, RejectsArguments) {
  Operation operation = create(scaleBundle());
  EXPECT_OK(operation.prepare(0));
  const std::string x = "argument 'x' of kernel 'scale' ";
  struct Case {
    Argument x;
    std::string message;
  };
  const Case cases[] = {
      {Argument::absent(), x + "is missing; it is not an optional argument"},
      {Argument::scalar(1.0f), x + "must be a view, but got a scalar"},
      {Argument::dense(0x10000, ElementType::F16, {300, 64}),
       x + "must have element type bf16, but got f16"},
      {Argument::dense(0x10000, ElementType::BF16, {300}), x + "must have rank 2, but got rank 1"},
      {Argument::dense(0x10000, ElementType::BF16, {300, 63}),
       x + "must have extent 64 along dimension 1, but got 63"},
      {Argument::dense(0x10000, ElementType::BF16, {-1, 64}),
       x + "has extent -1 along dimension 0, which must be from 0 to 2147483647"},
      {Argument::dense(0x10000, ElementType::BF16, {int64_t(1) << 31, 64}),
       x + "has extent 2147483648 along dimension 0, which must be from 0 to 2147483647"},
      {Argument::dense(0, ElementType::BF16, {300, 64}),
       x + "is a null pointer, but its view has elements"},
      {Argument::dense(0x10001, ElementType::BF16, {300, 64}),
       x + "must begin at a multiple of the 2 bytes of its elements, but got an address with the "
           "remainder 1"}};
  for (const Case &wrong : cases) {
    Arguments arguments = scaleArguments();
    arguments.values[0] = wrong.x;
    EXPECT_FAILURE(run(operation, arguments), Code::InvalidArgument, wrong.message);
  }
  Arguments arguments = scaleArguments();
  arguments.values[3] = Argument::scalar(int32_t(1));
  EXPECT_FAILURE(run(operation, arguments), Code::InvalidArgument,
                 "argument 'scale' of kernel 'scale' must be a scalar of type f32, but got i32");
  arguments.values[3] = arguments.values[0];
  EXPECT_FAILURE(run(operation, arguments), Code::InvalidArgument,
                 "argument 'scale' of kernel 'scale' must be a scalar, but got a view");
  EXPECT_FAILURE(operation.run(arguments.data(), 4, 0, 0, nullptr), Code::InvalidArgument,
                 "kernel 'scale' takes 5 arguments, but got 4");
  EXPECT_TRUE(fake().launches.empty());
  // An empty view may have a null pointer.
  EXPECT_OK(run(operation, {Argument::dense(0, ElementType::BF16, {0, 64}),
                            Argument::dense(0, ElementType::BF16, {0, 64}), Argument::absent(),
                            Argument::scalar(1.0f), Argument::scalar(int32_t(0))}));
}

TEST_F(Operations, ChoosesTheVariantThatFits) {
  BundleWriter writer = scaleBundle();
  KernelSpec fast = scaleKernel();
  fast.entry = "fast";
  fast.requirements = {{0, 16, true}};
  fast.conditions = {*Expr::call(">=", {Expr::name("rows"), Expr::integer(0)})};
  writer.manifest.kernels.insert(writer.manifest.kernels.begin(), fast);
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  auto entryOf = [&](const Arguments &arguments) {
    EXPECT_OK(run(operation, arguments));
    return fake().entries[reinterpret_cast<uintptr_t>(fake().launches.back().function) - 0x8001];
  };
  Arguments arguments = scaleArguments();
  EXPECT_EQ(entryOf(arguments), "fast");
  arguments.values[0].bits += 2;
  EXPECT_EQ(entryOf(arguments), "scale_bf16_64");
  arguments = scaleArguments();
  arguments.values[0].strides[0] = 65;
  EXPECT_EQ(entryOf(arguments), "scale_bf16_64");
  arguments = scaleArguments(1);
  arguments.values[0].strides[0] = 65; // a stride of an extent of 1: has no effect
  EXPECT_EQ(entryOf(arguments), "fast");
  arguments.values[4] = Argument::scalar(int32_t(-1));
  EXPECT_EQ(entryOf(arguments), "scale_bf16_64");
}

// What no variant of a kernel takes is wrong, and is said once, however many variants there are and
// whatever else each of them requires.
TEST_F(Operations, RejectsWhatNoVariantCouldTake) {
  BundleWriter writer = scaleBundle();
  Expr positive = *Expr::call(">", {Expr::name("rows"), Expr::integer(0)});
  Expr small = *Expr::call("<", {Expr::name("rows"), Expr::integer(100)});
  Expr finite = *Expr::call("finite", {Expr::name("scale")});
  KernelSpec &general = writer.manifest.kernels[0];
  general.conditions = {positive, finite};
  KernelSpec fast = general;
  fast.entry = "fast";
  fast.requirements = {{0, 16, true}};
  fast.conditions = {small, positive, finite};
  writer.manifest.kernels.insert(writer.manifest.kernels.begin(), fast);
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  const std::string prefix = "kernel 'scale' cannot take these arguments: its condition ";
  Arguments arguments = scaleArguments();
  arguments.values[0].bits += 8; // what only the fast one requires is not mentioned
  arguments.values[3] = Argument::scalar(float(NAN));
  EXPECT_FAILURE(run(operation, arguments), Code::InvalidArgument,
                 prefix + "'finite(scale)' does not hold, but got scale = nan");
  arguments = scaleArguments();
  arguments.values[4] = Argument::scalar(int32_t(0));
  EXPECT_FAILURE(run(operation, arguments), Code::InvalidArgument,
                 prefix + "'rows > 0' does not hold, but got rows = 0");
  EXPECT_TRUE(fake().launches.empty());
  arguments.values[4] = Argument::scalar(int32_t(100)); // which the general one takes
  EXPECT_OK(run(operation, arguments));
}

TEST_F(Operations, SaysWhyNoVariantFits) {
  BundleWriter writer = scaleBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.requirements = {{0, 16, true}};
  kernel.conditions = {*Expr::call("<", {Expr::name("rows"), Expr::integer(100)})};
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  const std::string prefix = "no variant of kernel 'scale' takes these arguments: ";
  Arguments arguments = scaleArguments();
  arguments.values[0].bits += 8;
  EXPECT_FAILURE(run(operation, arguments), Code::Unsupported,
                 prefix + "'x' must be aligned to 16 bytes");
  arguments = scaleArguments();
  arguments.values[0].strides[0] = 65;
  EXPECT_FAILURE(run(operation, arguments), Code::Unsupported,
                 prefix + "the stride 65 along dimension 0 of 'x' must be a multiple of 16 bytes");
  // The number of bytes does not fit in 64 bits.
  arguments.values[0].strides[0] = INT64_MAX;
  EXPECT_FAILURE(run(operation, arguments), Code::Unsupported,
                 prefix + "the stride 9223372036854775807 along dimension 0 of 'x' must be a "
                          "multiple of 16 bytes");
  arguments.values[0].strides[0] = 64;
  arguments.values[0].strides[1] = 2;
  EXPECT_FAILURE(run(operation, arguments), Code::Unsupported,
                 prefix + "the stride 2 along dimension 1 of 'x' must be 1");
  arguments = scaleArguments();
  arguments.values[4] = Argument::scalar(int32_t(100));
  EXPECT_FAILURE(run(operation, arguments), Code::Unsupported,
                 prefix + "its condition 'rows < 100' does not hold, but got rows = 100");
}

TEST_F(Operations, ChecksTheGrid) {
  BundleWriter writer = scaleBundle();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.grid = {Expr::dim("x", 0), Expr::name("rows")};
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  Arguments arguments = scaleArguments(70000);
  EXPECT_OK(run(operation, arguments));
  EXPECT_EQ(fake().launches.back().grid[0], 70000u) << "x holds what y does not";
  arguments.values[4] = Argument::scalar(int32_t(65536));
  EXPECT_FAILURE(run(operation, arguments), Code::Unsupported,
                 "the grid of kernel 'scale' has 65536 blocks along y; the limit is 65535, so the "
                 "compiler must linearize this axis into x");
  arguments.values[4] = Argument::scalar(int32_t(-1));
  EXPECT_FAILURE(run(operation, arguments), Code::Unsupported,
                 "the grid of kernel 'scale' has -1 blocks along y; the limit is 65535, so the "
                 "compiler must linearize this axis into x");
}

TEST_F(Operations, LaunchesClusters) {
  BundleWriter writer = scaleBundle();
  writer.manifest.kernels[0].cluster = {2, 1, 1};
  Operation operation = create(writer);
  EXPECT_OK(operation.prepare(0));
  EXPECT_OK(run(operation, scaleArguments(256)));
  EXPECT_EQ(fake().launches.back().cluster[0], 2u);
  EXPECT_FAILURE(run(operation, scaleArguments(300)), Code::InvalidArgument,
                 "the grid of kernel 'scale' along axis 0 must be a multiple of its clusters of 2 "
                 "blocks, but got 3");
  fake().failures["cuLaunchKernelEx"] = 999;
  EXPECT_FAILURE(run(operation, scaleArguments(256)), Code::Driver,
                 "cannot launch kernel 'scale' on a grid of 2 x 1 x 1: cuLaunchKernelEx returned "
                 "CUDA_ERROR_FAKE (999), as told");
  driver.cuLaunchKernelEx = nullptr;
  EXPECT_FAILURE(
      operation.prepare(1), Code::NoDriver,
      "kernel 'scale' uses clusters, which need a driver of CUDA 11.8; update the driver");
  driver = fakeTable();
  fake().failures.clear();
  writer.manifest.kernels[0].cluster = {16, 1, 1};
  Operation large = create(writer);
  EXPECT_OK(large.prepare(0));
  EXPECT_EQ(fake().functionAttributes[cuda::FunctionNonPortableCluster], 1);
}

TEST_F(Operations, ComparesTheParametersOfTheCode) {
  Operation operation = create(scaleBundle());
  ParamLayout code = bundle->manifest().kernels[0].layout;
  fake().codeLayout = &code;
  driver.cuKernelGetParamInfo = fakeParamInfo;
  EXPECT_OK(operation.prepare(0));
  code.params[1].bytes = 8;
  EXPECT_FAILURE(
      operation.prepare(1), Code::BadBundle,
      "the code of kernel 'scale' takes parameter 1 of 8 bytes, but its manifest says 4");
  code = bundle->manifest().kernels[0].layout;
  code.params.pop_back();
  EXPECT_FAILURE(operation.prepare(1), Code::BadBundle,
                 "the code of kernel 'scale' takes 14 parameters, but its manifest says 15");
  driver.cuKernelGetParamInfo = [](cuda::Kernel, size_t, size_t *, size_t *) { return 999; };
  EXPECT_FAILURE(operation.prepare(1), Code::Driver,
                 "cannot read the parameters of kernel 'scale': cuKernelGetParamInfo returned "
                 "CUDA_ERROR_FAKE (999), as told");
}

TEST_F(Operations, FindsVariantsByParameters) {
  BundleWriter writer = scaleBundle();
  KernelSpec other = scaleKernel();
  other.params[0].second = Expr::integer(128);
  other.arguments[0].extents[1] = other.arguments[1].extents[1] = 128;
  writer.manifest.kernels.push_back(other);
  Operation operation = create(writer, "scale", {{"D", Expr::integer(128)}});
  EXPECT_EQ(operation.arguments()[0].extents[1], 128);
  EXPECT_FAILURE(Operation::create(driver, bundle, "scale").status(), Code::InvalidArgument,
                 "kernel 'scale' of 'test.twb' has variants of different arguments (D = 128, T = "
                 "bf16); give more parameters");
  EXPECT_FAILURE(Operation::create(driver, bundle, "softmax").status(), Code::MissingVariant,
                 "'test.twb' has no kernel or program 'softmax', but has 'scale'");
  EXPECT_FAILURE(
      Operation::create(driver, bundle, "scale", {{"D", Expr::integer(96)}}).status(),
      Code::MissingVariant,
      "'test.twb' has no variant of 'scale' for D = 96, but has D = 64, or D = 128; compile it "
      "with: tilewrightc scale.mlir --kernel=scale --param=D=96 --emit=bundle -o FILE");
}

TEST_F(Operations, SaysWhatItSupportsWithoutADevice) {
  BundleWriter writer = scaleBundle();
  writer.manifest.kernels[0].codes[0].arch = *Arch::parse("sm_90a");
  Operation operation = create(writer);
  EXPECT_OK(operation.checkSupport({9, 0, 0}));
  EXPECT_FAILURE(
      operation.checkSupport({10, 0, 0}), Code::MissingVariant,
      "no variant of kernel 'scale' runs on compute capability 10.0: that of entry "
      "'scale_bf16_64' is for sm_90a; compile it with: tilewrightc scale.mlir --kernel=scale "
      "--target=sm_100a --emit=bundle -o FILE");
  // The target of a device: its own, or the latest whose code it runs.
  for (auto [major, minor, name] :
       {std::tuple(8, 0, "sm_80"), std::tuple(8, 6, "sm_86"), std::tuple(8, 7, "sm_86"),
        std::tuple(8, 9, "sm_89"), std::tuple(10, 3, "sm_103a"), std::tuple(11, 0, "sm_89"),
        std::tuple(12, 0, "sm_120a"), std::tuple(12, 1, "sm_89")})
    EXPECT_NE(operation.checkSupport({major, minor, 0})
                  .message()
                  .find("--target=" + std::string(name) + " "),
              std::string::npos)
        << major << "." << minor;
  EXPECT_FAILURE(operation.checkSupport({9, 0, 1024}), Code::MissingVariant,
                 "no variant of kernel 'scale' runs on compute capability 9.0: that of entry "
                 "'scale_bf16_64' needs 65536 bytes of shared memory, limit 1024; compile it with: "
                 "tilewrightc scale.mlir --kernel=scale --target=sm_90a --emit=bundle -o FILE");
}

TEST_F(Operations, PrefersExactCode) {
  KernelSpec kernel = scaleKernel();
  auto code = [](CodeSpec::Kind kind, const char *arch) {
    return CodeSpec{kind, *Arch::parse(arch), 80, 0};
  };
  kernel.codes = {code(CodeSpec::Kind::Ptx, "sm_80"), code(CodeSpec::Kind::Ptx, "sm_90"),
                  code(CodeSpec::Kind::Ptx, "sm_90a"), code(CodeSpec::Kind::Cubin, "sm_80"),
                  code(CodeSpec::Kind::Cubin, "sm_86")};
  DeviceInfo device;
  auto choose = [&](int major, int minor) -> std::string {
    device.major = major;
    device.minor = minor;
    const CodeSpec *chosen = chooseCode(kernel, device);
    return !chosen ? "none"
                   : (chosen->kind == CodeSpec::Kind::Ptx ? "ptx " : "cubin ") +
                         chosen->arch.toString();
  };
  EXPECT_EQ(choose(7, 5), "none");
  EXPECT_EQ(choose(8, 0), "cubin sm_80");
  EXPECT_EQ(choose(8, 9), "cubin sm_86");
  EXPECT_EQ(choose(9, 0), "ptx sm_90a");
  EXPECT_EQ(choose(10, 0), "ptx sm_90");
}

} // namespace
