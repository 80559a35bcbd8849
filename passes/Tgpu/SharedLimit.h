// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared memory of the machines that a target stands for.

#ifndef TILEWRIGHT_PASSES_TGPU_SHAREDLIMIT_H
#define TILEWRIGHT_PASSES_TGPU_SHAREDLIMIT_H

#include "llvm/ADT/StringRef.h"

namespace tilewright::tgpu {

/// What a block of threads may have, in bytes: the multiprocessor's memory less 1 KB of the
/// system's, on the first chip of the target.
inline int64_t getSharedLimit(llvm::StringRef target) {
  constexpr int64_t kilobyte = 1024;
  return (target == "sm_90a" ? 227 : 163) * kilobyte;
}

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_SHAREDLIMIT_H
