// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exchanges of elements between the warps of a block or a role: barriers and scratch memory.
// Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_EXCHANGE_H
#define TILEWRIGHT_PASSES_CONVERSION_EXCHANGE_H

#include "passes/Conversion/KernelEmitter.h"

namespace tilewright::tgpu {

/// Prepares an exchange, which calls syncWarps. Inside a role, it needs a separate named barrier
/// and, with `usesScratch`, scratch memory that no other role uses. Fails with a diagnostic if none
/// is left.
mlir::LogicalResult beginExchange(KernelEmitter &e, mlir::Operation *op, bool usesScratch);
/// Synchronizes all warps that execute the operation.
void syncWarps(KernelEmitter &e);
/// Memory that an operation uses while it runs, between barriers; the last one may be that of a
/// later tgpu.sync (ExchangeCounts.h).
mlir::Value getScratch(KernelEmitter &e, int64_t bytes);
/// Sets the size of scratch memory after all code has been emitted. Fails with a diagnostic if the
/// target does not have enough.
mlir::LogicalResult endExchanges(KernelEmitter &e);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_EXCHANGE_H
