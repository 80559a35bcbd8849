// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which synchronization of a kernel tgpu-verify-sync does not check, for warnings and reports.

#ifndef TILEWRIGHT_PASSES_TGPU_SYNC_SYNCCOVERAGE_H
#define TILEWRIGHT_PASSES_TGPU_SYNC_SYNCCOVERAGE_H

#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

struct UncheckedSync {
  mlir::Operation *op; ///< the first of its block
  bool isBesideProduct;
};

/// The synchronization that no launch of tgpu-verify-sync executes; of each block of operations,
/// one. Precondition: the pass accepts the kernel.
llvm::SmallVector<UncheckedSync> findUncheckedSync(KernelOp kernel);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_SYNC_SYNCCOVERAGE_H
