// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Barriers in shared memory, and code of one thread (EmitBarriers.cpp). Internal to
// convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_BARRIERS_H
#define TILEWRIGHT_PASSES_CONVERSION_BARRIERS_H

#include "passes/Conversion/KernelEmitter.h"

namespace tilewright::tgpu {

/// Emits `body` for one thread of the role.
void byOneThread(KernelEmitter &e, llvm::function_ref<void()> body);
/// The address of the barrier for a use of a ring.
mlir::Value getBarrier(KernelEmitter &e, mlir::Value barriers, mlir::Value use);
/// Before the acquire of a slot: reads what the copy to it needs (EmitTma.cpp).
void readPagesAhead(KernelEmitter &e, AcquireOp acquire);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_BARRIERS_H
