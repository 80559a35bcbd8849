// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices and contexts.

#include "runtime/Device.h"

using namespace tilewright;
using namespace tilewright::runtime;

std::string DeviceInfo::toString() const {
  return "device " + std::to_string(ordinal) + " (" + name + ", compute capability " +
         std::to_string(major) + "." + std::to_string(minor) + ")";
}

Result<int> tilewright::runtime::countDevices(const DriverTable &driver) {
  if (Status status = driver.expectFunctions(); !status)
    return status;
  int count = 0;
  if (Status status =
          driver.check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount", "count the devices");
      !status)
    return status;
  return count;
}

Status tilewright::runtime::expectOrdinal(int ordinal, int count) {
  if (ordinal >= 0 && ordinal < count)
    return Status::success();
  return Status::failure(Code::InvalidArgument,
                         "the device must be one of the " + std::to_string(count) +
                             " of the driver, counted from 0, but got " + std::to_string(ordinal));
}

static Status readAttributes(const DriverTable &driver, const DeviceInfo &device,
                             std::initializer_list<std::pair<int, int *>> attributes) {
  for (auto [attribute, value] : attributes)
    if (Status status = driver.check(
            driver.cuDeviceGetAttribute(value, attribute, device.handle), "cuDeviceGetAttribute",
            "read the properties of device " + std::to_string(device.ordinal));
        !status)
      return status;
  return Status::success();
}

Result<DeviceInfo> tilewright::runtime::queryDevice(const DriverTable &driver, int ordinal) {
  Result<int> count = countDevices(driver);
  if (!count)
    return count.status();
  if (Status status = expectOrdinal(ordinal, *count); !status)
    return status;
  DeviceInfo info;
  info.ordinal = ordinal;
  std::string what = " device " + std::to_string(ordinal);
  if (Status status =
          driver.check(driver.cuDeviceGet(&info.handle, ordinal), "cuDeviceGet", "open" + what);
      !status)
    return status;
  char name[256] = "";
  if (Status status = driver.check(driver.cuDeviceGetName(name, sizeof(name) - 1, info.handle),
                                   "cuDeviceGetName", "read the name of" + what);
      !status)
    return status;
  info.name = name;
  if (Status status = readAttributes(driver, info,
                                     {{cuda::AttributeComputeMajor, &info.major},
                                      {cuda::AttributeComputeMinor, &info.minor},
                                      {cuda::AttributeSmCount, &info.smCount},
                                      {cuda::AttributeSharedMemoryOptin, &info.sharedLimit}});
      !status)
    return status;
  return info;
}

Status tilewright::runtime::queryMultiprocessor(const DriverTable &driver, DeviceInfo &device) {
  if (device.multiprocessor.areKnown())
    return Status::success();
  int registers = 0, threads = 0, sharedBytes = 0;
  if (Status status =
          readAttributes(driver, device,
                         {{cuda::AttributeRegistersOfMultiprocessor, &registers},
                          {cuda::AttributeThreadsOfMultiprocessor, &threads},
                          {cuda::AttributeSharedOfMultiprocessor, &sharedBytes},
                          {cuda::AttributeReservedSharedOfBlock, &device.reservedShared}});
      !status)
    return status;
  device.multiprocessor = {registers, threads, sharedBytes};
  return Status::success();
}

Result<PrimaryContext> PrimaryContext::retain(const DriverTable &driver, const DeviceInfo &device) {
  PrimaryContext primary;
  if (Status status = driver.check(driver.cuDevicePrimaryCtxRetain(&primary.context, device.handle),
                                   "cuDevicePrimaryCtxRetain",
                                   "retain the primary context of " + device.toString());
      !status)
    return status;
  primary.driver = &driver;
  primary.device = device.handle;
  return primary;
}

PrimaryContext &PrimaryContext::operator=(PrimaryContext &&other) noexcept {
  std::swap(driver, other.driver);
  std::swap(device, other.device);
  std::swap(context, other.context);
  return *this;
}

PrimaryContext::~PrimaryContext() {
  // A failure means that the driver is shutting down, and with it the context.
  if (context)
    (void)driver->cuDevicePrimaryCtxRelease(device);
}

ContextScope::ContextScope(const DriverTable &driver, cuda::Context context) : driver(driver) {
  (void)push(context);
}

ContextScope::~ContextScope() {
  cuda::Context popped;
  if (isPushed)
    (void)driver.cuCtxPopCurrent(&popped);
}

Status ContextScope::push(cuda::Context wanted) {
  if (cuda::Result result = driver.cuCtxPushCurrent(wanted))
    return driver.check(result, "cuCtxPushCurrent", "make a context current");
  context = wanted;
  isPushed = true;
  return Status::success();
}

Status ContextScope::enterStream(cuda::Stream stream, cuda::Context fallback,
                                 cuda::Device &device) {
  cuda::Context current = nullptr, wanted = nullptr;
  if (cuda::Result result = driver.cuCtxGetCurrent(&current))
    return driver.check(result, "cuCtxGetCurrent", "find the current context");
  if (stream && stream != cuda::streamLegacy && stream != cuda::streamPerThread) {
    if (cuda::Result result = driver.cuStreamGetCtx(stream, &wanted))
      return driver.check(result, "cuStreamGetCtx", "find the context of the stream");
  } else {
    wanted = current ? current : fallback;
    if (!wanted)
      return Status::failure(Code::NotPrepared,
                             "no context is current, and none was retained by prepare; call "
                             "prepare, or make a context current");
  }
  context = wanted;
  if (wanted != current)
    if (Status status = push(wanted); !status)
      return status;
  if (context == fallback)
    return Status::success();
  if (cuda::Result result = driver.cuCtxGetDevice(&device))
    return driver.check(result, "cuCtxGetDevice", "find the device of the context");
  return Status::success();
}

/// A run on a default stream may come from a thread without a current context, such as one of an
/// autograd engine. Retaining a primary context that is not in use would create it.
Status ContextScope::keepIfPrimary(const DeviceInfo &device, PrimaryContext &primary) {
  unsigned flags = 0;
  int isActive = 0;
  if (!driver.cuDevicePrimaryCtxGetState)
    return Status::success();
  if (cuda::Result result = driver.cuDevicePrimaryCtxGetState(device.handle, &flags, &isActive))
    return driver.check(result, "cuDevicePrimaryCtxGetState", "look at the primary context");
  if (!isActive)
    return Status::success();
  Result<PrimaryContext> retained = PrimaryContext::retain(driver, device);
  if (!retained)
    return retained.status();
  if (retained->get() == context)
    primary = std::move(*retained);
  return Status::success();
}

Status ContextScope::enterDevice(const DeviceInfo &device, PrimaryContext &primary) {
  if (cuda::Result result = driver.cuCtxGetCurrent(&context))
    return driver.check(result, "cuCtxGetCurrent", "find the current context");
  if (context) {
    cuda::Device current;
    if (cuda::Result result = driver.cuCtxGetDevice(&current))
      return driver.check(result, "cuCtxGetDevice", "find the device of the context");
    if (current == device.handle)
      return keepIfPrimary(device, primary);
  }
  Result<PrimaryContext> retained = PrimaryContext::retain(driver, device);
  if (!retained)
    return retained.status();
  primary = std::move(*retained);
  return push(primary.get());
}
