// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices, compiled operations, and calls with arrays in host memory.

#include "lib/Driver/GpuDevice.h"

#include "base/Numeric/Transfer.h"
#include "lib/Support/MakeError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <limits>

namespace tilewright {

using runtime::cuda::DevicePtr;

namespace {

/// Above this size, the gaps between elements are not copied.
constexpr size_t copiedUpTo = size_t(256) << 20;
constexpr unsigned poisonWord = 0xffffffff;

llvm::Error check(const GpuDevice &device, runtime::cuda::Result result, const char *call,
                  const std::string &attempted) {
  Status status = device.getDriver().check(result, call, attempted);
  return status.ok() ? llvm::Error::success() : toError(status);
}

/// Makes the device's context current until the end of a scope.
class Current {
public:
  Current(const runtime::DriverTable &driver, runtime::cuda::Context context) : driver(driver) {
    isPushed = driver.cuCtxPushCurrent(context) == runtime::cuda::Success;
  }
  ~Current() {
    runtime::cuda::Context popped;
    if (isPushed)
      (void)driver.cuCtxPopCurrent(&popped);
  }

private:
  const runtime::DriverTable &driver;
  bool isPushed;
};

int64_t countElements(const ArrayArgument &array) {
  int64_t count = 1;
  for (int64_t extent : array.shape)
    count *= extent;
  return count;
}

/// From the lowest element to the end of the highest.
HostRange getSpan(const ArrayArgument &array) {
  int64_t lowest = 0, highest = 0, width = byteWidth(array.type);
  for (auto [extent, stride] : llvm::zip_equal(array.shape, array.strides)) {
    int64_t reach = (extent - 1) * stride;
    (reach < 0 ? lowest : highest) += reach;
  }
  return {static_cast<uint8_t *>(array.data) + lowest * width,
          static_cast<size_t>((highest - lowest + 1) * width)};
}

bool contains(const HostRange &outer, const HostRange &inner) {
  return inner.data >= outer.data && inner.data + inner.bytes <= outer.data + outer.bytes;
}

/// Calls body(offset in elements, number of elements) for runs without gaps; stops at an error.
template <typename Body> llvm::Error forEachRun(const ArrayArgument &array, Body body) {
  int64_t run = 1;
  size_t rank = array.shape.size();
  while (rank > 0 && (array.strides[rank - 1] == run || array.shape[rank - 1] == 1))
    run *= array.shape[--rank];
  std::vector<int64_t> index(rank, 0);
  int64_t offset = 0;
  for (int64_t n = countElements(array), i = 0; i < n; i += run) {
    if (llvm::Error error = body(offset, run))
      return error;
    for (size_t dim = rank; dim-- > 0;) {
      offset += array.strides[dim];
      if (++index[dim] < array.shape[dim])
        break;
      offset -= array.strides[dim] * array.shape[dim];
      index[dim] = 0;
    }
  }
  return llvm::Error::success();
}

llvm::Expected<runtime::Argument> makeScalar(const runtime::ArgumentSpec &spec,
                                             const Argument &given) {
  auto mismatch = [&](const llvm::Twine &got) {
    return makeError("argument '" + spec.name + "' must be a scalar of type " +
                     std::string(elementTypeName(spec.type)) + ", but got " + got);
  };
  const auto *integer = std::get_if<int64_t>(&given);
  const auto *number = std::get_if<double>(&given);
  if (!integer && !number)
    return mismatch("an array");
  if (isFloat(spec.type)) {
    double value = integer ? static_cast<double>(*integer) : *number;
    uint64_t bits = 0;
    numeric::convertToMemory(Storage::F64, &value, spec.type, &bits, 1, 1);
    return runtime::Argument::scalar(spec.type, &bits);
  }
  if (!integer)
    return mismatch(std::to_string(*number));
  int64_t lowest = std::numeric_limits<int64_t>::min(), highest = -(lowest + 1);
  if (spec.type == ElementType::I32) {
    lowest = std::numeric_limits<int32_t>::min();
    highest = std::numeric_limits<int32_t>::max();
  } else if (spec.type == ElementType::I1) {
    lowest = 0;
    highest = 1;
  }
  if (*integer < lowest || *integer > highest)
    return mismatch(llvm::Twine(*integer));
  return runtime::Argument::scalar(spec.type, integer); // little-endian
}

} // namespace

//===----------------------------------------------------------------------===//
// Device
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<GpuDevice>> GpuDevice::open(int ordinal) {
  Result<const runtime::DriverTable *> system = runtime::DriverTable::system();
  if (!system)
    return toError(system.status());
  return open(**system, ordinal);
}

llvm::Expected<std::unique_ptr<GpuDevice>> GpuDevice::open(const runtime::DriverTable &driver,
                                                           int ordinal) {
  if (!driver.cuMemAlloc || !driver.cuMemFree || !driver.cuMemcpyHtoDAsync ||
      !driver.cuMemcpyDtoHAsync || !driver.cuStreamCreate || !driver.cuStreamDestroy ||
      !driver.cuStreamSynchronize)
    return makeError("the driver lacks functions that copy arrays; update the driver");
  std::unique_ptr<GpuDevice> device(new GpuDevice(driver));
  Result<runtime::DeviceInfo> info = runtime::queryDevice(driver, ordinal);
  if (!info)
    return toError(info.status());
  device->info = *info;
  if (!Target::forDevice(info->major, info->minor)) {
    const Target &oldest = Target::getDefault();
    return makeError("the device must have compute capability " + llvm::Twine(oldest.major) + "." +
                     llvm::Twine(oldest.minor) + " or later, but got " + info->toString());
  }
  Result<runtime::PrimaryContext> primary = runtime::PrimaryContext::retain(driver, *info);
  if (!primary)
    return toError(primary.status());
  device->primary = std::move(*primary);
  Current current(driver, device->primary.get());
  constexpr unsigned nonBlocking = 1;
  if (llvm::Error error = check(*device, driver.cuStreamCreate(&device->stream, nonBlocking),
                                "cuStreamCreate", "create a stream on " + info->toString()))
    return error;
  return device;
}

bool GpuDevice::isAvailable() {
  llvm::Expected<std::unique_ptr<GpuDevice>> device = open();
  if (device)
    return true;
  llvm::consumeError(device.takeError());
  return false;
}

GpuDevice::~GpuDevice() {
  Current current(driver, primary.get());
  if (stream)
    (void)driver.cuStreamDestroy(stream);
}

//===----------------------------------------------------------------------===//
// Operation
//===----------------------------------------------------------------------===//

llvm::Expected<std::shared_ptr<const runtime::Bundle>> GpuOperation::compile(mlir::Operation *entry,
                                                                             const GpuOptions &gpu,
                                                                             bool assemble,
                                                                             std::string *bytes) {
  return compile(BundlePart{entry->getParentOfType<mlir::ModuleOp>(), gpu}, assemble, bytes);
}

llvm::Expected<std::shared_ptr<const runtime::Bundle>>
GpuOperation::compile(llvm::ArrayRef<BundlePart> parts, bool assemble, std::string *written) {
  runtime::BundleWriter writer;
  BundleScope scope;
  scope.assemble = assemble;
  if (llvm::Error error = addToBundle(writer, parts, scope))
    return error;
  Result<std::string> bytes = writer.bytes();
  if (!bytes)
    return toError(bytes.status());
  if (written)
    *written = *bytes;
  auto bundle = runtime::Bundle::fromBytes(std::move(*bytes), "the compiled module");
  if (!bundle)
    return toError(bundle.status());
  return *bundle;
}

llvm::Expected<GpuOperation> GpuOperation::create(GpuDevice &device,
                                                  std::shared_ptr<const runtime::Bundle> bundle,
                                                  llvm::StringRef entry) {
  Result<runtime::Operation> operation =
      runtime::Operation::create(device.driver, std::move(bundle), entry.str());
  if (!operation)
    return toError(operation.status());
  Current current(device.driver, device.primary.get());
  if (Status status = operation->prepare(device.info.ordinal); !status)
    return toError(status);
  return GpuOperation(device, std::move(*operation));
}

//===----------------------------------------------------------------------===//
// Call
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<GpuCall>> GpuCall::create(const GpuOperation &operation,
                                                         const llvm::StringMap<Argument> &arguments,
                                                         llvm::ArrayRef<HostRange> ranges) {
  std::unique_ptr<GpuCall> call(new GpuCall(operation));
  Current current(call->device.driver, call->device.primary.get());
  for (const auto &[name, argument] : arguments)
    if (const auto *array = std::get_if<ArrayArgument>(&argument);
        array && countElements(*array) > 0)
      call->arrays.push_back(*array);
  if (llvm::Error error = call->allocate(ranges))
    return error;
  if (llvm::Error error = call->bind(arguments))
    return error;
  return call;
}

GpuCall::~GpuCall() {
  Current current(device.driver, device.primary.get());
  (void)device.driver.cuStreamSynchronize(device.stream);
  for (const Mirror &mirror : mirrors)
    if (mirror.device)
      (void)device.driver.cuMemFree(mirror.device);
  if (workspace)
    (void)device.driver.cuMemFree(workspace);
}

llvm::Error GpuCall::allocate(llvm::ArrayRef<HostRange> ranges) {
  std::vector<HostRange> spans(ranges.begin(), ranges.end());
  for (const ArrayArgument &array : arrays) {
    HostRange span = getSpan(array);
    if (llvm::none_of(ranges, [&](const HostRange &range) { return contains(range, span); }))
      spans.push_back(span);
  }
  llvm::sort(spans, [](const HostRange &a, const HostRange &b) { return a.data < b.data; });
  for (const HostRange &span : spans) {
    if (mirrors.empty() || span.data >= mirrors.back().host.data + mirrors.back().host.bytes) {
      mirrors.push_back({span});
      continue;
    }
    HostRange &last = mirrors.back().host;
    last.bytes = std::max(last.bytes, static_cast<size_t>(span.data - last.data) + span.bytes);
  }
  for (Mirror &mirror : mirrors) {
    mirror.isSparse = mirror.host.bytes > copiedUpTo;
    size_t bytes = (mirror.host.bytes + 3) / 4 * 4;
    if (llvm::Error error =
            check(device, device.driver.cuMemAlloc(&mirror.device, bytes), "cuMemAlloc",
                  "allocate " + std::to_string(bytes) + " bytes on " + device.info.toString()))
      return error;
  }
  return llvm::Error::success();
}

const GpuCall::Mirror *GpuCall::findMirror(const ArrayArgument &array) const {
  HostRange span = getSpan(array);
  for (const Mirror &mirror : mirrors)
    if (contains(mirror.host, span))
      return &mirror;
  return nullptr;
}

llvm::Error GpuCall::bind(const llvm::StringMap<Argument> &given) {
  const std::vector<runtime::ArgumentSpec> &contract = operation.getOperation().arguments();
  for (const auto &entry : given)
    if (llvm::none_of(contract, [&](const auto &spec) { return spec.name == entry.getKey(); }))
      return makeError("arguments must be those of the entry, but got '" + entry.getKey() + "'");
  for (const runtime::ArgumentSpec &spec : contract) {
    auto found = given.find(spec.name);
    if (found == given.end()) {
      if (!spec.isOptional && !spec.byDefault)
        return makeError("argument '" + spec.name +
                         "' is missing; it is not optional, and has no default");
      arguments.push_back(runtime::Argument::absent());
      continue;
    }
    const auto *array = std::get_if<ArrayArgument>(&found->second);
    if (spec.isView != (array != nullptr) && spec.isView)
      return makeError("argument '" + spec.name + "' must be an array, but got a scalar");
    if (!spec.isView) {
      llvm::Expected<runtime::Argument> scalar = makeScalar(spec, found->second);
      if (!scalar)
        return scalar.takeError();
      arguments.push_back(*scalar);
      continue;
    }
    if (array->shape.size() > runtime::maxRank)
      return makeError("argument '" + spec.name + "' has rank " + llvm::Twine(array->shape.size()) +
                       "; the limit is " + llvm::Twine(runtime::maxRank));
    DevicePtr address = 0;
    if (countElements(*array) > 0) {
      const Mirror *mirror = findMirror(*array);
      address = mirror->device +
                static_cast<size_t>(static_cast<uint8_t *>(array->data) - mirror->host.data);
    }
    arguments.push_back(runtime::Argument::view(address, array->type,
                                                static_cast<unsigned>(array->shape.size()),
                                                array->shape.data(), array->strides.data()));
  }

  std::vector<const runtime::Argument *> pointers;
  for (const runtime::Argument &argument : arguments)
    pointers.push_back(&argument);
  if (Status status = operation.getOperation().workspaceSize(pointers.data(), pointers.size(),
                                                             device.info.ordinal, workspaceBytes);
      !status)
    return toError(status);
  if (workspaceBytes == 0)
    return llvm::Error::success();
  return check(device, device.driver.cuMemAlloc(&workspace, workspaceBytes), "cuMemAlloc",
               "allocate a workspace of " + std::to_string(workspaceBytes) + " bytes on " +
                   device.info.toString());
}

llvm::Error GpuCall::copyRange(uint8_t *host, DevicePtr address, size_t bytes, bool toDevice) {
  std::string what = "copy " + std::to_string(bytes) + " bytes ";
  if (toDevice)
    return check(device, device.driver.cuMemcpyHtoDAsync(address, host, bytes, device.stream),
                 "cuMemcpyHtoDAsync", what + "to " + device.info.toString());
  return check(device, device.driver.cuMemcpyDtoHAsync(host, address, bytes, device.stream),
               "cuMemcpyDtoHAsync", what + "from " + device.info.toString());
}

llvm::Error GpuCall::copy(bool toDevice) {
  for (const Mirror &mirror : mirrors) {
    if (!mirror.isSparse) {
      if (llvm::Error error =
              copyRange(mirror.host.data, mirror.device, mirror.host.bytes, toDevice))
        return error;
      continue;
    }
    if (toDevice)
      if (llvm::Error error =
              check(device,
                    device.driver.cuMemsetD32Async(mirror.device, poisonWord,
                                                   (mirror.host.bytes + 3) / 4, device.stream),
                    "cuMemsetD32Async", "poison " + std::to_string(mirror.host.bytes) + " bytes"))
        return error;
    for (const ArrayArgument &array : arrays) {
      if (findMirror(array) != &mirror)
        continue;
      int64_t width = byteWidth(array.type);
      llvm::Error error = forEachRun(array, [&](int64_t offset, int64_t count) {
        uint8_t *host = static_cast<uint8_t *>(array.data) + offset * width;
        return copyRange(host, mirror.device + static_cast<size_t>(host - mirror.host.data),
                         static_cast<size_t>(count * width), toDevice);
      });
      if (error)
        return error;
    }
  }
  return wait();
}

llvm::Error GpuCall::upload() {
  Current current(device.driver, device.primary.get());
  if (workspace)
    if (llvm::Error error = check(device,
                                  device.driver.cuMemsetD32Async(workspace, poisonWord,
                                                                 workspaceBytes / 4, device.stream),
                                  "cuMemsetD32Async", "poison the workspace"))
      return error;
  return copy(/*toDevice=*/true);
}

llvm::Error GpuCall::download() {
  Current current(device.driver, device.primary.get());
  return copy(/*toDevice=*/false);
}

llvm::Error GpuCall::launch() {
  std::vector<const runtime::Argument *> pointers;
  for (const runtime::Argument &argument : arguments)
    pointers.push_back(&argument);
  Status status = operation.getOperation().run(pointers.data(), pointers.size(), workspace,
                                               workspaceBytes, device.stream);
  return status.ok() ? llvm::Error::success() : toError(status);
}

llvm::Error GpuCall::wait() {
  Current current(device.driver, device.primary.get());
  return check(device, device.driver.cuStreamSynchronize(device.stream), "cuStreamSynchronize",
               "wait for " + device.info.toString());
}

llvm::Error GpuCall::run() {
  if (llvm::Error error = upload())
    return error;
  if (llvm::Error error = launch())
    return error;
  if (llvm::Error error = wait())
    return error;
  return download();
}

} // namespace tilewright
