// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two kinds of runners.

#include "tools/tilewright-bench/BenchRunner.h"

#include "lib/Driver/ToolSupport.h"
#include "passes/Tile/ProgramOfKernel.h"

#include "mlir/IR/SymbolTable.h"

using namespace tilewright;
using namespace tilewright::runtime;

BenchRunner::~BenchRunner() = default;

//===----------------------------------------------------------------------===//
// CPU
//===----------------------------------------------------------------------===//

namespace {
struct CpuRunner : BenchRunner {
  CpuRunner(KernelRun &kernel, unsigned threads) : kernel(kernel), threads(threads) {}

  llvm::Expected<RunTime> run() override {
    llvm::Expected<double> seconds = kernel.run(threads);
    if (!seconds)
      return seconds.takeError();
    return RunTime{*seconds, *seconds};
  }
  llvm::Error fetch() override { return llvm::Error::success(); }

  KernelRun &kernel;
  unsigned threads;
};
} // namespace

std::unique_ptr<BenchRunner> tilewright::createCpuRunner(KernelRun &kernel, unsigned threads) {
  return std::make_unique<CpuRunner>(kernel, threads);
}

//===----------------------------------------------------------------------===//
// GPU
//===----------------------------------------------------------------------===//

/// The result of a driver call as an error.
static llvm::Error checkCall(const GpuDevice &device, cuda::Result result, const char *call) {
  Status status = device.getDriver().check(result, call, "time a run");
  return status.ok() ? llvm::Error::success() : llvm::createStringError(status.message());
}

llvm::Expected<std::unique_ptr<CacheFlush>> CacheFlush::create(const GpuDevice &device) {
  constexpr size_t bytes = 256 << 20; // several times the L2 of any GPU
  std::unique_ptr<CacheFlush> flush(new CacheFlush(device));
  ContextScope scope(device.getDriver());
  cuda::Device handle;
  if (Status status = scope.enterStream(device.getStream(), nullptr, handle); !status)
    return llvm::createStringError(status.message());
  if (llvm::Error error =
          checkCall(device, device.getDriver().cuMemAlloc(&flush->memory, bytes), "cuMemAlloc"))
    return error;
  return flush;
}

CacheFlush::~CacheFlush() {
  ContextScope scope(device.getDriver());
  cuda::Device handle;
  if (memory && scope.enterStream(device.getStream(), nullptr, handle))
    (void)device.getDriver().cuMemFree(memory);
}

llvm::Error CacheFlush::flush() {
  constexpr size_t words = (256 << 20) / 4;
  return checkCall(device,
                   device.getDriver().cuMemsetD32Async(memory, 0, words, device.getStream()),
                   "cuMemsetD32Async");
}

namespace {
struct GpuRunner : BenchRunner {
  GpuRunner(GpuDevice &device, GpuOperation operation, CacheFlush *flush)
      : device(device), driver(device.getDriver()), operation(std::move(operation)),
        cacheFlush(flush) {}
  ~GpuRunner() override {
    for (cuda::Event event : {start, end})
      if (event)
        (void)driver.cuEventDestroy(event);
  }

  llvm::Error prepare(KernelRun &kernel) {
    if (!driver.cuEventCreate || !driver.cuEventRecord || !driver.cuEventElapsedTime ||
        !driver.cuEventDestroy)
      return llvm::createStringError("the driver has no events");
    auto created = GpuCall::create(operation, kernel.getArguments());
    if (!created)
      return created.takeError();
    call = std::move(*created);
    ContextScope scope(driver);
    cuda::Device handle;
    if (Status status = scope.enterStream(device.getStream(), nullptr, handle); !status)
      return llvm::createStringError(status.message());
    for (cuda::Event *event : {&start, &end})
      if (llvm::Error error = checkCall(device, driver.cuEventCreate(event, 0), "cuEventCreate"))
        return error;
    return call->upload();
  }

  llvm::Expected<RunTime> run() override {
    ContextScope scope(driver);
    cuda::Device handle;
    if (Status status = scope.enterStream(device.getStream(), nullptr, handle); !status)
      return llvm::createStringError(status.message());
    RunTime time;
    if (cacheFlush)
      if (llvm::Error error = cacheFlush->flush())
        return error;
    if (llvm::Error error =
            checkCall(device, driver.cuEventRecord(start, device.getStream()), "cuEventRecord"))
      return error;
    llvm::Error launched = llvm::Error::success();
    (void)static_cast<bool>(launched);
    time.hostSeconds = timeOf([&] { launched = call->launch(); });
    if (launched)
      return launched;
    if (llvm::Error error =
            checkCall(device, driver.cuEventRecord(end, device.getStream()), "cuEventRecord"))
      return error;
    if (llvm::Error error = call->wait())
      return error;
    float milliseconds = 0;
    if (llvm::Error error = checkCall(device, driver.cuEventElapsedTime(&milliseconds, start, end),
                                      "cuEventElapsedTime"))
      return error;
    time.seconds = milliseconds * 1e-3;
    return time;
  }

  llvm::Error fetch() override { return call->download(); }

  GpuDevice &device;
  const DriverTable &driver;
  GpuOperation operation;
  CacheFlush *cacheFlush;
  std::unique_ptr<GpuCall> call;
  cuda::Event start = nullptr, end = nullptr;
};
} // namespace

llvm::Expected<std::unique_ptr<BenchRunner>> tilewright::createGpuRunner(KernelRun &kernel,
                                                                         GpuDevice &device,
                                                                         const GpuOptions &options,
                                                                         CacheFlush *flush) {
  mlir::Operation *entry = kernel.getEntry();
  llvm::StringRef name = getEntryName(entry);
  const Target *target = Target::find(options.target);
  const runtime::DeviceInfo &info = device.getInfo();
  bool assemble = !target || target->cubinServes(info.major, info.minor);
  auto bundle = GpuOperation::compile(entry, options, assemble);
  if (!bundle)
    return kernel.takeError(llvm::toString(bundle.takeError()));
  llvm::Expected<GpuOperation> operation = GpuOperation::create(device, *bundle, name);
  if (!operation)
    return operation.takeError();
  auto runner = std::make_unique<GpuRunner>(device, std::move(*operation), flush);
  if (llvm::Error error = runner->prepare(kernel))
    return error;
  return runner;
}
