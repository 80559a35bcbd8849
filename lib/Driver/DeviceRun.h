// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a compiled entry on the device that a command line names: the CPU, a GPU, or the simulator
// of one.

#ifndef TILEWRIGHT_LIB_DRIVER_DEVICERUN_H
#define TILEWRIGHT_LIB_DRIVER_DEVICERUN_H

#include "lib/Driver/GpuDevice.h"
#include "lib/Interpreter/CpuDevice.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace tilewright {

class WatchList;

struct DeviceName {
  enum class Kind { Cpu, Cuda, Simulator };
  Kind kind = Kind::Cpu;
  int ordinal = 0;            ///< number of a GPU
  std::string target = "cpu"; ///< target of the code: TilePipelineOptions::target

  /// cpu, cuda, cuda:N, sim:TARGET, or auto: the first GPU if there is one, else the CPU. Errors:
  /// anything else.
  static llvm::Expected<DeviceName> parse(llvm::StringRef text);
};

struct DeviceRunOptions {
  bool f64 = false;           ///< only on the CPU
  unsigned threads = 0;       ///< only on the CPU
  uint64_t seed = 0;          ///< seed of the simulator's order of events
  bool checksIndices = false; ///< only on a GPU: check the elements of index arrays on the device
  GpuOptions gpu;             ///< its target is that of the device
  /// The file for a trace of a run on a GPU, for kernels with a timeline (gpu.timelineWords), and
  /// the size of its buffer.
  std::string timelineFile;
  int64_t timelineBytes = 1 << 20;
};

class DeviceRun {
public:
  virtual ~DeviceRun();

  /// Prepares `entry`, which is bound for the device's target, or mapped (MappedModule.h), and
  /// outlives the run. Errors: a mapped kernel for the CPU or for another target, no such
  /// device, what the compiler rejects for it (also emitted through the context), f64 elsewhere
  /// than on the CPU, a timeline elsewhere than on a GPU.
  static llvm::Expected<std::unique_ptr<DeviceRun>>
  create(const DeviceName &device, mlir::Operation *entry, const DeviceRunOptions &options = {});

  /// Runs once on arrays in host memory and returns the seconds that it took, without copies.
  /// Errors may also be emitted through the context. Records the writers of watched elements,
  /// except on a GPU.
  virtual llvm::Expected<double> run(const llvm::StringMap<Argument> &arguments,
                                     WatchList *watches = nullptr) = 0;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_DEVICERUN_H
