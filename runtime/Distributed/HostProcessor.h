// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU device as the processor of a rank: arrays in memory of this process, and kernels by the
// program tilewright-run, as the Python package has them for tensors of the CPU. It is there to
// check programs without a GPU: a launch costs the start of a program.

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_HOSTPROCESSOR_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_HOSTPROCESSOR_H

#include "runtime/Distributed/Processor.h"

namespace tilewright::runtime {

struct HostProcessorDesc {
  /// tilewright-run; empty: by TILEWRIGHT_RUN, else on PATH.
  std::string program;
  /// The folder of the kernels.
  std::string kernels = "kernels";
  /// Files whose functions and captures replace those of the kernels of attention.
  std::vector<std::string> with;
  std::string device = "cpu"; // or a simulator, "sim:sm_90a"
};

/// Kernels are of types of at least 16 bits.
Result<std::unique_ptr<Processor>> makeHostProcessor(const HostProcessorDesc &desc);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_HOSTPROCESSOR_H
