// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loading code and preparing kernels.

#include "runtime/Module.h"

#include "runtime/Checksum.h"

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// Buffers for messages of the driver's compiler.
class JitLog {
public:
  std::string text() const {
    std::string out = buffer.c_str();
    while (!out.empty() && (out.back() == '\n' || out.back() == ' '))
      out.pop_back();
    return out;
  }
  int options[2] = {cuda::JitErrorLogBuffer, cuda::JitErrorLogBytes};
  void **values() { return pointers; }

private:
  std::string buffer = std::string(16384, '\0');
  void *pointers[2] = {buffer.data(), reinterpret_cast<void *>(buffer.size())};
};

/// Compiles PTX to a cubin for the device of the current context, with the driver's linker. Nothing
/// if the linker is missing or fails: then the PTX is loaded directly, and the error of that is
/// reported.
std::optional<std::string> compile(const DriverTable &driver, std::string_view ptx) {
  if (!driver.cuLinkCreate || !driver.cuLinkAddData || !driver.cuLinkComplete ||
      !driver.cuLinkDestroy)
    return std::nullopt;
  cuda::LinkState state = nullptr;
  if (driver.cuLinkCreate(0, nullptr, nullptr, &state) != cuda::Success)
    return std::nullopt;
  void *cubin = nullptr;
  size_t bytes = 0;
  std::optional<std::string> result;
  if (driver.cuLinkAddData(state, cuda::JitInputPtx, const_cast<char *>(ptx.data()), ptx.size(),
                           "tilewright", 0, nullptr, nullptr) == cuda::Success &&
      driver.cuLinkComplete(state, &cubin, &bytes) == cuda::Success)
    result.emplace(static_cast<const char *>(cubin), bytes);
  (void)driver.cuLinkDestroy(state);
  return result;
}

} // namespace

const CodeSpec *tilewright::runtime::chooseCode(const KernelSpec &kernel, const DeviceInfo &device,
                                                const Arch *target) {
  auto rank = [](const CodeSpec &code) {
    return (code.kind == CodeSpec::Kind::Cubin ? 100000 : 0) + (code.arch.isExact ? 10000 : 0) +
           code.arch.major * 100 + code.arch.minor;
  };
  const CodeSpec *best = nullptr;
  for (const CodeSpec &code : kernel.codes)
    if (code.runsOn(device.major, device.minor) && (!target || code.arch == *target) &&
        (!best || rank(code) > rank(*best)))
      best = &code;
  return best;
}

Result<Module> Module::load(const DriverTable &driver, const DeviceInfo &device,
                            const CodeSpec &code, std::string_view image, const CubinCache &cache,
                            const std::string &what) {
  Module result;
  if (code.kind == CodeSpec::Kind::Cubin) {
    if (Status status = result.loadImage(driver, image, what); !status)
      return status;
    return result;
  }
  Result<int> version = driver.version();
  if (!version)
    return version.status();
  int needed = cudaVersionForPtx(code.ptxVersion);
  if (*version < needed)
    return Status::failure(Code::NoDriver,
                           "cannot load " + what + ": its PTX of version " +
                               std::to_string(code.ptxVersion / 10) + "." +
                               std::to_string(code.ptxVersion % 10) + " needs a driver of CUDA " +
                               cudaVersionText(needed) + ", but this one is of CUDA " +
                               cudaVersionText(*version) + "; update the driver");
  CubinKey key{checksum(image.data(), image.size()), image.size(), device.major, device.minor,
               *version};
  if (cache.isEnabled()) {
    Result<std::optional<std::string>> cached = cache.lookup(key);
    if (cached && *cached && result.loadImage(driver, **cached, what).ok())
      return result;
    // Missing, damaged, or rejected by the driver: compiled again, and replaced.
    if (std::optional<std::string> cubin = compile(driver, image)) {
      (void)cache.store(key, *cubin); // a cache that cannot be written is not an error
      if (result.loadImage(driver, *cubin, what).ok())
        return result;
    }
  }
  if (Status status = result.loadImage(driver, image, what); !status)
    return status;
  return result;
}

Status Module::loadImage(const DriverTable &table, std::string_view image,
                         const std::string &what) {
  JitLog log;
  bool hasLibraries = table.cuLibraryLoadData && table.cuLibraryUnload &&
                      table.cuLibraryGetKernel && table.cuKernelSetAttribute;
  cuda::Result code =
      hasLibraries ? table.cuLibraryLoadData(&library, image.data(), log.options, log.values(), 2,
                                             nullptr, nullptr, 0)
                   : table.cuModuleLoadDataEx(&module, image.data(), 2, log.options, log.values());
  if (code != cuda::Success) {
    library = nullptr;
    module = nullptr;
    return table.check(code, hasLibraries ? "cuLibraryLoadData" : "cuModuleLoadDataEx",
                       "load " + what, log.text());
  }
  driver = &table;
  // Loading a library succeeds on PTX that does not compile; only finding a kernel fails then.
  jitLog = log.text();
  return Status::success();
}

Module &Module::operator=(Module &&other) noexcept {
  std::swap(driver, other.driver);
  std::swap(library, other.library);
  std::swap(module, other.module);
  std::swap(jitLog, other.jitLog);
  return *this;
}

Module::~Module() {
  // A failure means that the driver is shutting down, and with it the code.
  if (library)
    (void)driver->cuLibraryUnload(library);
  if (module)
    (void)driver->cuModuleUnload(module);
}

Status Module::checkParams(const KernelSpec &kernel, cuda::Kernel handle) const {
  if (!driver->cuKernelGetParamInfo)
    return Status::success();
  const std::vector<ParamLayout::Param> &params = kernel.layout.params;
  // Only the expected parameters are queried: tools that watch the driver's calls report a query
  // beyond them as an error.
  for (size_t i = 0; i < params.size(); ++i) {
    size_t offset = 0, bytes = 0;
    cuda::Result result = driver->cuKernelGetParamInfo(handle, i, &offset, &bytes);
    if (result == cuda::ErrorInvalidValue)
      return Status::failure(Code::BadBundle, "the code of kernel '" + kernel.name + "' takes " +
                                                  std::to_string(i) +
                                                  " parameters, but its "
                                                  "manifest says " +
                                                  std::to_string(params.size()));
    if (result != cuda::Success)
      return driver->check(result, "cuKernelGetParamInfo",
                           "read the parameters of kernel '" + kernel.name + "'");
    // Offsets are chosen by the compiler: it aligns in its constant bank, not from the first
    // parameter.
    if (bytes != params[i].bytes)
      return Status::failure(
          Code::BadBundle, "the code of kernel '" + kernel.name + "' takes parameter " +
                               std::to_string(i) + " of " + std::to_string(bytes) +
                               " bytes, but its manifest says " + std::to_string(params[i].bytes));
  }
  return Status::success();
}

/// Registers are allocated to warps, and shared memory to blocks, in units.
static constexpr int64_t registerUnit = 256, sharedUnit = 128, lanes = 32;

static int64_t alignTo(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

Status Module::measureBlock(const KernelSpec &kernel, cuda::Kernel handle, const DeviceInfo &device,
                            LoadedKernel &loaded) const {
  if (!(kernel.awaitsLaunch || kernel.allowsLaunch) || kernel.clusterBlocks() > 1 ||
      !device.multiprocessor.areKnown() || !handle || !driver->cuKernelGetAttribute)
    return Status::success();
  int registers = 0, staticShared = 0;
  for (auto [attribute, value] : {std::pair(cuda::FunctionRegisters, &registers),
                                  std::pair(cuda::FunctionStaticShared, &staticShared)})
    if (Status status =
            driver->check(driver->cuKernelGetAttribute(value, attribute, handle, device.handle),
                          "cuKernelGetAttribute",
                          "read what kernel '" + kernel.name + "' takes of a multiprocessor");
        !status)
      return status;
  int64_t warps = (int64_t(kernel.threads()) + lanes - 1) / lanes;
  loaded.block = {
      warps * alignTo(registers * lanes, registerUnit), warps * lanes,
      alignTo(int64_t(kernel.sharedBytes) + staticShared + device.reservedShared, sharedUnit)};
  loaded.multiprocessor = device.multiprocessor;
  if (kernel.awaitsLaunch)
    loaded.mostShared =
        uint32_t(std::max<int64_t>(loaded.mostShared, device.sharedLimit - staticShared));
  return Status::success();
}

Result<LoadedKernel> Module::prepare(const KernelSpec &kernel, const DeviceInfo &device) const {
  if (kernel.allSharedBytes() > device.sharedLimit)
    return Status::failure(Code::Unsupported, "kernel '" + kernel.name + "' needs " +
                                                  std::to_string(kernel.allSharedBytes()) +
                                                  " bytes of shared memory; the limit of " +
                                                  device.toString() + " is " +
                                                  std::to_string(device.sharedLimit));
  if (!kernel.tensorMaps.empty() && !driver->cuTensorMapEncodeTiled)
    return Status::failure(Code::NoDriver, "kernel '" + kernel.name +
                                               "' uses tensor maps, which need a driver of CUDA "
                                               "12.0; update the driver");
  if (kernel.clusterBlocks() > 1 && !driver->cuLaunchKernelEx)
    return Status::failure(Code::NoDriver, "kernel '" + kernel.name +
                                               "' uses clusters, which need a driver of CUDA "
                                               "11.8; update the driver");

  std::string what = "kernel '" + kernel.name + "' (entry '" + kernel.entry + "')";
  cuda::Kernel handle = nullptr;
  LoadedKernel result;
  result.mostShared = kernel.sharedBytes;
  cuda::Function &function = result.function;
  if (library) {
    if (Status status =
            driver->check(driver->cuLibraryGetKernel(&handle, library, kernel.entry.c_str()),
                          "cuLibraryGetKernel", "find " + what, jitLog);
        !status)
      return status;
    if (Status status = checkParams(kernel, handle); !status)
      return status;
    // The driver accepts a kernel in place of a function, and finds the function of the context.
    function = reinterpret_cast<cuda::Function>(handle);
  } else if (Status status =
                 driver->check(driver->cuModuleGetFunction(&function, module, kernel.entry.c_str()),
                               "cuModuleGetFunction", "find " + what);
             !status) {
    return status;
  }

  auto set = [&](int attribute, int value, const std::string &attempted) {
    if (handle)
      return driver->check(driver->cuKernelSetAttribute(attribute, value, handle, device.handle),
                           "cuKernelSetAttribute", attempted);
    return driver->check(driver->cuFuncSetAttribute(function, attribute, value),
                         "cuFuncSetAttribute", attempted);
  };
  if (Status status = measureBlock(kernel, handle, device, result); !status)
    return status;
  if (result.mostShared > 0)
    if (Status status = set(cuda::FunctionMaxDynamicShared, int(result.mostShared),
                            "allow " + std::to_string(result.mostShared) +
                                " bytes of shared memory to " + what);
        !status)
      return status;
  if (kernel.clusterBlocks() > 8)
    if (Status status = set(cuda::FunctionNonPortableCluster, 1,
                            "allow clusters of more than 8 blocks to " + what);
        !status)
      return status;

  // With lazy loading, the first launch would load the code to the device, and synchronize.
  if (handle && driver->cuKernelGetFunction && driver->cuFuncLoad) {
    cuda::Function loaded = nullptr;
    if (Status status = driver->check(driver->cuKernelGetFunction(&loaded, handle),
                                      "cuKernelGetFunction", "put " + what + " on the device");
        !status)
      return status;
    if (Status status = driver->check(driver->cuFuncLoad(loaded), "cuFuncLoad",
                                      "put " + what + " on the device");
        !status)
      return status;
  }
  return result;
}
