// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPU of this machine as tools and tests use it: compiles a bound module, copies arrays to the
// device, launches, and copies them back. An application that keeps its arrays on the device uses
// the runtime itself.

#ifndef TILEWRIGHT_LIB_DRIVER_GPUDEVICE_H
#define TILEWRIGHT_LIB_DRIVER_GPUDEVICE_H

#include "lib/Bundle/BundleCompiler.h"
#include "lib/Interpreter/CpuDevice.h"
#include "runtime/Operation.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <vector>

namespace tilewright {

/// A device with its own stream. Not movable: operations and calls refer to it.
class GpuDevice {
public:
  /// Errors: no driver, no such device, a device older than all targets, a driver without functions
  /// for copies.
  static llvm::Expected<std::unique_ptr<GpuDevice>> open(int ordinal = 0);
  static llvm::Expected<std::unique_ptr<GpuDevice>> open(const runtime::DriverTable &driver,
                                                         int ordinal);
  /// Whether open(0) would succeed.
  static bool isAvailable();
  ~GpuDevice();

  const runtime::DriverTable &getDriver() const { return driver; }
  const runtime::DeviceInfo &getInfo() const { return info; }
  runtime::cuda::Stream getStream() const { return stream; }
  /// The target for this device unless the caller specifies one.
  std::string getTarget() const {
    return std::string(Target::forDevice(info.major, info.minor)->name);
  }

private:
  friend class GpuOperation;
  friend class GpuCall;
  explicit GpuDevice(const runtime::DriverTable &driver) : driver(driver) {}

  const runtime::DriverTable &driver;
  runtime::DeviceInfo info;
  runtime::PrimaryContext primary;
  runtime::cuda::Stream stream = nullptr;
};

/// A kernel or program, compiled and loaded.
class GpuOperation {
public:
  /// The module of `entry` is bound, for `gpu.target`, and is not changed. Needs no GPU. Errors:
  /// those of the compiler, also emitted through the context of the module. `bytes`, if given,
  /// receives the bundle as it is written to a file.
  static llvm::Expected<std::shared_ptr<const runtime::Bundle>>
  compile(mlir::Operation *entry, const GpuOptions &gpu, bool assemble = true,
          std::string *bytes = nullptr);
  /// The same entry, bound for several targets in the order of preference.
  static llvm::Expected<std::shared_ptr<const runtime::Bundle>>
  compile(llvm::ArrayRef<BundlePart> parts, bool assemble = true, std::string *bytes = nullptr);
  /// Loads the code. Errors: those of the driver.
  static llvm::Expected<GpuOperation>
  create(GpuDevice &device, std::shared_ptr<const runtime::Bundle> bundle, llvm::StringRef entry);

  GpuDevice &getDevice() const { return *device; }
  const runtime::Operation &getOperation() const { return operation; }
  /// Whether calls check the elements of index arrays on the device.
  void checkIndices(bool isWanted) { operation.checkIndices(isWanted); }

private:
  GpuOperation(GpuDevice &device, runtime::Operation operation)
      : device(&device), operation(std::move(operation)) {}

  GpuDevice *device;
  runtime::Operation operation;
};

/// Host memory that is mirrored as a whole, so that the memory between and around the elements of
/// arrays also exists on the device.
struct HostRange {
  uint8_t *data = nullptr;
  size_t bytes = 0;
};

/// Arrays and scalars of one call, with device memory for them. A strided array keeps its strides;
/// arrays that share memory on the host share it on the device.
class GpuCall {
public:
  /// Arguments by name, as for runOnCpu. An array outside of all `ranges` is mirrored from
  /// its first to its last element. Errors: arguments that are unknown, missing or of a wrong kind;
  /// device memory.
  static llvm::Expected<std::unique_ptr<GpuCall>> create(const GpuOperation &operation,
                                                         const llvm::StringMap<Argument> &arguments,
                                                         llvm::ArrayRef<HostRange> ranges = {});
  ~GpuCall();

  /// Fills the device's arrays from the host's; the workspace is poisoned.
  llvm::Error upload();
  /// Launches; wait() reports errors on the device.
  llvm::Error launch();
  llvm::Error wait();
  /// Fills the host's arrays from the device's.
  llvm::Error download();
  /// All of these.
  llvm::Error run();

private:
  struct Mirror {
    HostRange host;
    runtime::cuda::DevicePtr device = 0;
    bool isSparse = false; ///< too large to copy the gaps between elements
  };
  explicit GpuCall(const GpuOperation &operation)
      : operation(operation), device(operation.getDevice()) {}
  llvm::Error bind(const llvm::StringMap<Argument> &given);
  llvm::Error allocate(llvm::ArrayRef<HostRange> ranges);
  const Mirror *findMirror(const ArrayArgument &array) const;
  llvm::Error copy(bool toDevice);
  llvm::Error copyRange(uint8_t *host, runtime::cuda::DevicePtr address, size_t bytes,
                        bool toDevice);

  const GpuOperation &operation;
  GpuDevice &device;
  std::vector<ArrayArgument> arrays;
  std::vector<Mirror> mirrors;
  std::vector<runtime::Argument> arguments; ///< in the order of the contract
  runtime::cuda::DevicePtr workspace = 0;
  uint64_t workspaceBytes = 0;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_GPUDEVICE_H
