// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opening libcuda.so.1, and the text of its errors.

#include "runtime/DriverTable.h"

#include <dlfcn.h>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// cuGetProcAddress before and after CUDA 12 gained a fifth parameter.
using GetProcAddress = cuda::Result (*)(const char *, void **, int, uint64_t, int *);

/// The name of a symbol for cuGetProcAddress: without its version.
std::string baseName(const char *symbol) {
  std::string name = symbol;
  size_t suffix = name.rfind("_v");
  return suffix == std::string::npos ? name : name.substr(0, suffix);
}

Result<DriverTable> openSystem() {
  // Never closed: the driver registers handlers that run at exit.
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return Status::failure(Code::NoDriver,
                           std::string("no CUDA driver: libcuda.so.1 cannot be opened (") +
                               (reason ? reason : "no reason given") +
                               "); install the NVIDIA driver, or run the kernel with "
                               "tilewright-run --device=cpu");
  }
  auto getProcAddress = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  Result<DriverTable> table = DriverTable::load([&](const char *symbol, int version) -> void * {
    void *address = nullptr;
    if (getProcAddress &&
        getProcAddress(baseName(symbol).c_str(), &address, version, 0, nullptr) == cuda::Success &&
        address)
      return address;
    return dlsym(library, symbol);
  });
  if (!table)
    return table;
  if (Status status = table->check(table->cuInit(0), "cuInit", "initialize the driver"); !status)
    return status;
  return table;
}

} // namespace

Result<DriverTable> DriverTable::load(const std::function<void *(const char *, int)> &find) {
  DriverTable table;
  enum { Required, Optional };
#define TILEWRIGHT_DRIVER_LOAD(need, name, symbol, version, parameters)                            \
  table.name = reinterpret_cast<decltype(table.name)>(find(symbol, version));                      \
  if (!table.name && need == Required)                                                             \
    return Status::failure(Code::NoDriver,                                                         \
                           "the CUDA driver lacks " symbol "; 11.2 is the oldest that works");
  TILEWRIGHT_DRIVER_FUNCTIONS(TILEWRIGHT_DRIVER_LOAD)
#undef TILEWRIGHT_DRIVER_LOAD
  return table;
}

Result<const DriverTable *> DriverTable::system() {
  static const Result<DriverTable> table = openSystem();
  if (!table)
    return table.status();
  return &*table;
}

Status DriverTable::check(cuda::Result result, const char *call, const std::string &attempted,
                          const std::string &log) const {
  if (result == cuda::Success)
    return Status::success();
  const char *name = nullptr, *text = nullptr;
  if (!cuGetErrorName || cuGetErrorName(result, &name) != cuda::Success || !name)
    name = "unknown error";
  if (!cuGetErrorString || cuGetErrorString(result, &text) != cuda::Success || !text)
    text = "";
  std::string message = "cannot " + attempted + ": " + call + " returned " + name + " (" +
                        std::to_string(result) + ")";
  if (*text)
    message += std::string(", ") + text;
  if (result == cuda::ErrorAssert)
    message +=
        "; an assertion (tile.assert) of a kernel that ran before failed: the output of this "
        "process has its message, its file and line, and where in the grid it failed. The "
        "process cannot use the GPU any more, so start another one";
  if (!log.empty())
    message += "; the driver's log:\n" + log;
  Code code = Code::Driver;
  switch (result) {
  case cuda::ErrorOutOfMemory:
    code = Code::OutOfMemory;
    break;
  case cuda::ErrorNoDevice:
    code = Code::NoDriver;
    break;
  case cuda::ErrorInvalidPtx:
  case cuda::ErrorUnsupportedPtxVersion:
  case cuda::ErrorNoBinaryForGpu:
  case cuda::ErrorInvalidImage:
  case cuda::ErrorJitCompilerNotFound:
    code = Code::Compile;
    break;
  default:
    break;
  }
  return Status::driverFailure(code, std::move(message), result, name, call, log);
}

Status DriverTable::expectFunctions() const {
  if (cuDeviceGetCount)
    return Status::success();
  return Status::failure(Code::NoDriver,
                         "no CUDA driver: the table of its functions is empty; use "
                         "DriverTable::system(), or run the kernel with tilewright-run "
                         "--device=cpu");
}

Result<int> DriverTable::version() const {
  if (Status status = expectFunctions(); !status)
    return status;
  int value = 0;
  if (Status status =
          check(cuDriverGetVersion(&value), "cuDriverGetVersion", "read the version of the driver");
      !status)
    return status;
  return value;
}

bool DriverTable::hasDependentLaunches() const {
  constexpr int firstVersion = 12030; // that captures the edge of such a launch
  if (!cuLaunchKernelEx)
    return false;
  Result<int> known = version();
  return known && *known >= firstVersion;
}

std::string tilewright::runtime::cudaVersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int tilewright::runtime::cudaVersionForPtx(int ptxVersion) {
  struct Row {
    int ptx, cuda;
  };
  static constexpr Row rows[] = {{70, 11000}, {71, 11010}, {72, 11020}, {73, 11030}, {74, 11040},
                                 {75, 11050}, {76, 11060}, {77, 11070}, {78, 11080}, {80, 12000},
                                 {81, 12010}, {82, 12020}, {83, 12030}, {84, 12040}, {85, 12050},
                                 {86, 12070}, {87, 12080}, {88, 12090}, {90, 13000}};
  for (const Row &row : rows)
    if (ptxVersion <= row.ptx)
      return row.cuda;
  return 13010;
}
