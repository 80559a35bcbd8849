// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Preparing and running kernels on a driver of which one call fails.

#include "RuntimeTesting.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

class DriverFailures : public OperationTest {};

struct Injection {
  const char *call;
  const char *message;
};

TEST_F(DriverFailures, ReportsEachDriverCallOfPrepare) {
  const Injection injections[] = {
      {"cuDeviceGetCount", "cannot count the devices"},
      {"cuDeviceGet", "cannot open device 1"},
      {"cuDeviceGetName", "cannot read the name of device 1"},
      {"cuDeviceGetAttribute", "cannot read the properties of device 1"},
      {"cuCtxGetCurrent", "cannot find the current context"},
      {"cuDevicePrimaryCtxRetain",
       "cannot retain the primary context of device 1 (Fake, compute capability 8.0)"},
      {"cuCtxPushCurrent", "cannot make a context current"},
      {"cuDriverGetVersion", "cannot read the version of the driver"},
      {"cuLibraryLoadData",
       "cannot load the sm_80 code of kernel 'scale' from 'test.twb' on device "
       "1 (Fake, compute capability 8.0)"},
      {"cuLibraryGetKernel", "cannot find kernel 'scale' (entry 'scale_bf16_64')"},
      {"cuKernelSetAttribute",
       "cannot allow 65536 bytes of shared memory to kernel 'scale' (entry 'scale_bf16_64')"},
      {"cuKernelGetFunction", "cannot put kernel 'scale' (entry 'scale_bf16_64') on the device"},
      {"cuFuncLoad", "cannot put kernel 'scale' (entry 'scale_bf16_64') on the device"}};
  for (const Injection &injection : injections) {
    SCOPED_TRACE(injection.call);
    fake() = FakeDriver();
    Operation operation = create(scaleBundle());
    fake().failures[injection.call] = 999;
    Status status = operation.prepare(1);
    EXPECT_EQ(status.code(), Code::Driver);
    EXPECT_EQ(status.message(), std::string(injection.message) + ": " + injection.call +
                                    " returned CUDA_ERROR_FAKE (999), as told");
    EXPECT_EQ(status.driverResult(), 999);
    EXPECT_EQ(status.driverName(), "CUDA_ERROR_FAKE");
    EXPECT_EQ(status.driverCall(), injection.call);
    EXPECT_TRUE(fake().contexts.empty());
    EXPECT_EQ(fake().retained, 0) << "nothing is left behind";
    EXPECT_EQ(fake().loaded, 0);
    fake().failures.clear();
    EXPECT_OK(operation.prepare(1)); // and can be retried
  }
}

TEST_F(DriverFailures, ReportsCallsForLaunchesThatOverlap) {
  BundleWriter writer = programBundle();
  writer.manifest.kernels[1].awaitsLaunch = true;
  auto prepare = [&](cuda::Result (*readDevice)(int *, int, cuda::Device), const char *call) {
    fake() = FakeDriver();
    driver = fakeTable();
    driver.cuDeviceGetAttribute = readDevice ? readDevice : driver.cuDeviceGetAttribute;
    Operation operation = create(writer, "twice");
    if (!readDevice)
      fake().failures[call] = 999;
    return operation.prepare(0);
  };
  EXPECT_FAILURE(prepare(nullptr, "cuKernelGetAttribute"), Code::Driver,
                 "cannot read what kernel 'scale_sums' takes of a multiprocessor: "
                 "cuKernelGetAttribute returned CUDA_ERROR_FAKE (999), as told");
  auto readOthers = [](int *value, int attribute, cuda::Device) -> cuda::Result {
    *value = 1 << 20;
    if (attribute == cuda::AttributeComputeMajor)
      *value = 8;
    return attribute == cuda::AttributeSharedOfMultiprocessor ? 999 : cuda::Success;
  };
  EXPECT_FAILURE(prepare(readOthers, "cuDeviceGetAttribute"), Code::Driver,
                 "cannot read the properties of device 0: cuDeviceGetAttribute returned "
                 "CUDA_ERROR_FAKE (999), as told");
  EXPECT_EQ(fake().loaded, 0) << "nothing is left behind";
}

TEST_F(DriverFailures, ReportsEachDriverCallOfPrepareOnOldDrivers) {
  driver.cuLibraryLoadData = nullptr;
  const Injection injections[] = {
      {"cuModuleLoadDataEx", "cannot load the sm_80 code of kernel 'scale' from 'test.twb' on "
                             "device 0 (Fake, compute capability 8.0)"},
      {"cuModuleGetFunction", "cannot find kernel 'scale' (entry 'scale_bf16_64')"},
      {"cuFuncSetAttribute",
       "cannot allow 65536 bytes of shared memory to kernel 'scale' (entry 'scale_bf16_64')"}};
  for (const Injection &injection : injections) {
    fake() = FakeDriver();
    Operation operation = create(scaleBundle());
    fake().failures[injection.call] = 999;
    EXPECT_FAILURE(operation.prepare(0), Code::Driver,
                   std::string(injection.message) + ": " + injection.call +
                       " returned CUDA_ERROR_FAKE (999), as told");
    EXPECT_EQ(fake().loaded, 0);
  }
}

TEST_F(DriverFailures, ReportsEachDriverCallOfRun) {
  const Injection injections[] = {
      {"cuCtxGetCurrent", "cannot find the current context"},
      {"cuStreamGetCtx", "cannot find the context of the stream"},
      {"cuCtxPushCurrent", "cannot make a context current"},
      {"cuCtxGetDevice", "cannot find the device of the context"},
      {"cuLaunchKernel", "cannot launch kernel 'scale' on a grid of 3 x 1 x 1"}};
  for (const Injection &injection : injections) {
    SCOPED_TRACE(injection.call);
    fake() = FakeDriver();
    Operation operation = create(scaleBundle());
    EXPECT_OK(operation.prepare(0));
    fake().failures[injection.call] = cuda::ErrorOutOfMemory;
    Status status = run(operation, scaleArguments(), streamOf(0));
    EXPECT_EQ(status.code(), Code::OutOfMemory);
    EXPECT_EQ(status.message(), std::string(injection.message) + ": " + injection.call +
                                    " returned CUDA_ERROR_OUT_OF_MEMORY (2), as told");
    EXPECT_TRUE(fake().contexts.empty());
  }
  fake() = FakeDriver();
  Operation operation = create(scaleBundle());
  fake().failures["cuStreamIsCapturing"] = 999;
  EXPECT_FAILURE(run(operation, scaleArguments(), streamOf(0)), Code::Driver,
                 "cannot ask whether the stream is captured: cuStreamIsCapturing returned "
                 "CUDA_ERROR_FAKE (999), as told");
}

TEST_F(DriverFailures, SaysThatAnAssertionFailed) {
  Operation operation = create(scaleBundle());
  EXPECT_OK(operation.prepare(0));
  fake().failures["cuLaunchKernel"] = cuda::ErrorAssert;
  Status status = run(operation, scaleArguments(), streamOf(0));
  EXPECT_EQ(status.code(), Code::Driver);
  EXPECT_EQ(status.driverResult(), 710);
  std::string said =
      "; an assertion (tile.assert) of a kernel that ran before failed: the output of "
      "this process has its message, its file and line, and where in the grid it "
      "failed. The process cannot use the GPU any more, so start another one";
  std::string message = status.message();
  ASSERT_GT(message.size(), said.size()) << message;
  EXPECT_EQ(message.substr(message.size() - said.size()), said) << message;
}

TEST_F(DriverFailures, KeepsTheLogOfTheDriver) {
  Operation operation = create(scaleBundle());
  fake().failures["cuLibraryLoadData"] = cuda::ErrorInvalidPtx;
  fake().jitLog = "ptxas error: line 7\n";
  Status status = operation.prepare(0);
  EXPECT_EQ(status.code(), Code::Compile);
  EXPECT_EQ(status.log(), "ptxas error: line 7");
  EXPECT_EQ(
      status.message(),
      "cannot load the sm_80 code of kernel 'scale' from 'test.twb' on device 0 (Fake, compute "
      "capability 8.0): cuLibraryLoadData returned CUDA_ERROR_INVALID_PTX (218), as told; the "
      "driver's log:\nptxas error: line 7");
}

TEST_F(DriverFailures, KeepsTheLogUntilTheKernelIsSought) {
  Operation operation = create(scaleBundle());
  fake().failures["cuLibraryGetKernel"] = cuda::ErrorInvalidPtx;
  fake().jitLog = "ptxas error: line 9\n";
  Status status = operation.prepare(0);
  EXPECT_EQ(status.code(), Code::Compile);
  EXPECT_EQ(status.log(), "ptxas error: line 9");
  EXPECT_EQ(status.message(),
            "cannot find kernel 'scale' (entry 'scale_bf16_64'): cuLibraryGetKernel returned "
            "CUDA_ERROR_INVALID_PTX (218), as told; the driver's log:\nptxas error: line 9");
}

} // namespace
