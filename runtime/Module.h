// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code that the driver has loaded, and kernels of it that are ready to launch.

#ifndef TILEWRIGHT_RUNTIME_MODULE_H
#define TILEWRIGHT_RUNTIME_MODULE_H

#include "runtime/CubinCache.h"
#include "runtime/Device.h"
#include "runtime/Manifest.h"

namespace tilewright::runtime {

/// The code of a kernel for a device: the cubin of the highest architecture that runs there, else
/// the PTX of an exact one, else the PTX of the highest; with `target`, only code for it. Null if
/// there is none.
const CodeSpec *chooseCode(const KernelSpec &kernel, const DeviceInfo &device,
                           const Arch *target = nullptr);

/// A kernel that can be launched.
struct LoadedKernel {
  cuda::Function function = nullptr;
  uint32_t mostShared = 0; // dynamic shared memory that a launch may have
  // For launches that overlap, if known: what a block takes of a multiprocessor, and what that has.
  Resources block, multiprocessor;
};

/// A library of the driver, which is valid in every context; or a module of one context if the
/// driver is older than 12.0. All functions need a context of the device to be current.
class Module {
public:
  /// `image` is a cubin, or PTX with its final NUL, which the driver compiles and `cache` stores.
  static Result<Module> load(const DriverTable &driver, const DeviceInfo &device,
                             const CodeSpec &code, std::string_view image, const CubinCache &cache,
                             const std::string &what);
  Module(Module &&other) noexcept { *this = std::move(other); }
  Module &operator=(Module &&other) noexcept;
  ~Module();

  /// Finds the entry, compares its parameters with the manifest if the driver supports it, allows
  /// its shared memory, and loads its code to the device. If the device's multiprocessors are known
  /// (queryMultiprocessor), a driver of CUDA 12.0 says what a block of a kernel that allows or
  /// awaits launches takes of one; one that awaits them may then have all shared memory that a
  /// block can. Clusters have neither.
  Result<LoadedKernel> prepare(const KernelSpec &kernel, const DeviceInfo &device) const;

  bool isOfOneContext() const { return module != nullptr; }

private:
  Module() = default;
  Status loadImage(const DriverTable &driver, std::string_view image, const std::string &what);
  Status checkParams(const KernelSpec &kernel, cuda::Kernel handle) const;
  Status measureBlock(const KernelSpec &kernel, cuda::Kernel handle, const DeviceInfo &device,
                      LoadedKernel &loaded) const;

  const DriverTable *driver = nullptr;
  cuda::Library library = nullptr;
  cuda::Module module = nullptr;
  std::string jitLog; // log of the compilation, for later errors
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_MODULE_H
