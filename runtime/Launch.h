// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One launch: checks of the arguments, the choice among variants, packing, and the driver's call.
// Nothing here allocates unless it fails.

#ifndef TILEWRIGHT_RUNTIME_LAUNCH_H
#define TILEWRIGHT_RUNTIME_LAUNCH_H

#include "runtime/DriverTable.h"
#include "runtime/Manifest.h"

namespace tilewright::runtime {

/// A kernel that is ready on a device.
struct PreparedKernel {
  const KernelSpec *spec = nullptr;
  cuda::Function function = nullptr;
};

/// Arguments against a contract: kinds, element types, ranks, literal extents, i32 extents, null
/// and misaligned addresses. `owner` is "kernel" or "program" and its name, apart so as not to join
/// them.
Status checkArguments(const std::vector<ArgumentSpec> &contract, const Argument *const *arguments,
                      size_t numArguments, const char *owner, const std::string &name);

/// Why a variant cannot take arguments that satisfy its contract.
struct Refusal {
  enum class Reason : uint8_t {
    None,
    Address,
    Stride,
    Inner,
    MapAddress,
    MapStride,
    MapStrideSign,
    MapInner,
    Condition
  };
  Reason reason = Reason::None;
  uint32_t argument = 0; // or condition
  uint32_t dim = 0;
  int64_t limit = 0; // bytes

  std::string toString(const KernelSpec &kernel, const Argument *const *arguments) const;
};

/// Fails only where a condition of the variant cannot be evaluated.
Status findRefusal(const KernelSpec &kernel, const ExprInputs &inputs, Refusal &refusal);

/// Evaluates the grid, packs the arguments (KernelAbi.h) and launches; an empty grid launches
/// nothing. The context must be current, and the arguments checked.
Status launchKernel(const DriverTable &driver, const PreparedKernel &kernel,
                    const ExprInputs &inputs, cuda::Stream stream);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_LAUNCH_H
