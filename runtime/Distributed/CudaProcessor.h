// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GPU as the processor of a rank: its primary context, two streams, and kernels from bundles.

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_CUDAPROCESSOR_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_CUDAPROCESSOR_H

#include "runtime/Distributed/Processor.h"

#include "runtime/Bundle.h"
#include "runtime/Device.h"

namespace tilewright::runtime {

struct CudaProcessorDesc {
  int device = 0;
  /// A kernel is taken from the first that has it. Several ranks may share them.
  std::vector<std::shared_ptr<const Bundle>> bundles;
  /// Streams of the caller, of the primary context of the device; null: own ones.
  cuda::Stream compute = nullptr, exchange = nullptr;
};

/// `driver` must outlive the result.
Result<std::unique_ptr<Processor>> makeCudaProcessor(const DriverTable &driver,
                                                     const CudaProcessorDesc &desc);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_CUDAPROCESSOR_H
