// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times a compiled entry on the CPU or on a GPU.

#ifndef TILEWRIGHT_TOOLS_TILEWRIGHT_BENCH_BENCHRUNNER_H
#define TILEWRIGHT_TOOLS_TILEWRIGHT_BENCH_BENCHRUNNER_H

#include "lib/Driver/GpuDevice.h"
#include "lib/Driver/KernelRun.h"

namespace tilewright {

/// Seconds of one run: of the device, and of the host until the call returned.
struct RunTime {
  double seconds = 0;
  double hostSeconds = 0;
};

class BenchRunner {
public:
  virtual ~BenchRunner();
  virtual llvm::Expected<RunTime> run() = 0;
  /// Makes the results of the last run visible in the arrays of the KernelRun.
  virtual llvm::Error fetch() = 0;
};

std::unique_ptr<BenchRunner> createCpuRunner(KernelRun &kernel, unsigned threads);

/// Device memory that is overwritten before each run, so that runs find an empty L2.
class CacheFlush {
public:
  static llvm::Expected<std::unique_ptr<CacheFlush>> create(const GpuDevice &device);
  ~CacheFlush();
  /// Enqueues.
  llvm::Error flush();

private:
  explicit CacheFlush(const GpuDevice &device) : device(device) {}
  const GpuDevice &device;
  runtime::cuda::DevicePtr memory = 0;
};

/// Compiles for the device, copies the arrays there and times by events, so that neither copies nor
/// the host count. `flush` is nullable. Arguments outlive the runner.
llvm::Expected<std::unique_ptr<BenchRunner>>
createGpuRunner(KernelRun &kernel, GpuDevice &device, const GpuOptions &options, CacheFlush *flush);

} // namespace tilewright

#endif // TILEWRIGHT_TOOLS_TILEWRIGHT_BENCH_BENCHRUNNER_H
