// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The transport of threads of one process, over host memory: for the CPU device and tests.

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_LOCALGROUP_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_LOCALGROUP_H

#include "runtime/Distributed/Communicator.h"

#include <chrono>
#include <memory>

namespace tilewright::runtime {

/// A communicator for each rank, which may move to the thread of that rank. Streams are ignored:
/// addresses are of host memory, and messages arrive in `complete`, not before, so that a sender
/// that writes what it sends too early is as wrong as on a GPU.
///
/// A communicator that is destroyed before others have what they wait for fails them.
std::vector<std::unique_ptr<Communicator>> makeLocalGroup(int size,
                                                          std::chrono::milliseconds timeout);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_LOCALGROUP_H
