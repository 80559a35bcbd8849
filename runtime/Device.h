// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices, and the rule by which a call finds its context: the stream's, else the current one, else
// the primary context that was retained when the code was prepared.

#ifndef TILEWRIGHT_RUNTIME_DEVICE_H
#define TILEWRIGHT_RUNTIME_DEVICE_H

#include "runtime/DriverTable.h"

namespace tilewright::runtime {

/// What blocks divide among them of a multiprocessor: what it has, or what one block takes.
struct Resources {
  int64_t registers = 0, threads = 0, sharedBytes = 0;
  bool areKnown() const { return threads != 0; }
};

struct DeviceInfo {
  int ordinal = 0;
  cuda::Device handle = 0;
  std::string name;
  int major = 0, minor = 0; // compute capability
  int smCount = 0;
  int sharedLimit = 0; // maximum bytes of shared memory of a block
  // Unknown before queryMultiprocessor.
  Resources multiprocessor;
  int reservedShared = 0; // bytes that the driver adds to the shared memory of each block

  /// "device 0 (NVIDIA H200, compute capability 9.0)".
  std::string toString() const;
};

Result<int> countDevices(const DriverTable &driver);
/// InvalidArgument unless one of `count` devices has this number.
Status expectOrdinal(int ordinal, int count);
Result<DeviceInfo> queryDevice(const DriverTable &driver, int ordinal);
/// Completes `device` with what the blocks on a multiprocessor divide, unless it has that.
Status queryMultiprocessor(const DriverTable &driver, DeviceInfo &device);

/// A retained primary context.
class PrimaryContext {
public:
  PrimaryContext() = default;
  static Result<PrimaryContext> retain(const DriverTable &driver, const DeviceInfo &device);
  PrimaryContext(PrimaryContext &&other) noexcept { *this = std::move(other); }
  PrimaryContext &operator=(PrimaryContext &&other) noexcept;
  ~PrimaryContext();

  /// Null if none is retained.
  cuda::Context get() const { return context; }

private:
  const DriverTable *driver = nullptr;
  cuda::Device device = 0;
  cuda::Context context = nullptr;
};

/// Makes a context current until the end of a scope, if another one is.
class ContextScope {
public:
  explicit ContextScope(const DriverTable &driver) : driver(driver) {}
  /// Makes this context current. If that fails, so do the calls in the scope.
  ContextScope(const DriverTable &driver, cuda::Context context);
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;
  ~ContextScope();

  /// The context of the stream, else the current one, else `fallback`; sets its device. If there is
  /// a fallback, `device` is initially its device, so that the driver need not be queried.
  Status enterStream(cuda::Stream stream, cuda::Context fallback, cuda::Device &device);
  /// The current context if it belongs to the device, else the primary one. In that case, `primary`
  /// holds it.
  Status enterDevice(const DeviceInfo &device, PrimaryContext &primary);
  cuda::Context get() const { return context; }

private:
  Status keepIfPrimary(const DeviceInfo &device, PrimaryContext &primary);
  Status push(cuda::Context context);

  const DriverTable &driver;
  cuda::Context context = nullptr;
  bool isPushed = false;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DEVICE_H
