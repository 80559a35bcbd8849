// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies of register tiles from and to shared memory: ldmatrix if the layout permits it, else
// vectors. Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_SHAREDACCESS_H
#define TILEWRIGHT_PASSES_CONVERSION_SHAREDACCESS_H

#include "base/Layout/RegisterAccess.h"
#include "passes/Conversion/KernelEmitter.h"

namespace tilewright::tgpu {

/// One external array for all kernels of the module; its size is given at launch.
inline constexpr llvm::StringLiteral sharedMemoryName = "shared_memory";
/// Its alignment: that of the widest swizzle, whose pattern depends on addresses.
inline constexpr int64_t sharedMemoryAlignment = 1024;

/// Binds the operation's result to its offset in shared memory, of which the kernel's verifier has
/// checked that it is within the kernel's memory. Fails with a diagnostic if it has none.
mlir::LogicalResult bindToShared(KernelEmitter &e, mlir::Operation *op,
                                 std::optional<uint64_t> offset);
/// The address in the shared window, for inline assembly.
mlir::Value getWindowAddress(ThreadBuilder &b, mlir::Value pointer);

Values loadVector(ThreadBuilder &b, mlir::Value address, mlir::Type element, int64_t count);
void storeVector(ThreadBuilder &b, mlir::Value address, mlir::ArrayRef<mlir::Value> elements);

/// Copies between a tile and a buffer, whose dimensions may be swapped. Fail with a diagnostic at
/// `op` if no plan of base/Layout fits both.
mlir::LogicalResult readShared(KernelEmitter &e, mlir::Operation *op, mlir::Value buffer,
                               SharedType type, bool exchanged, mlir::Value result);
mlir::LogicalResult writeShared(KernelEmitter &e, mlir::Operation *op, mlir::Value value,
                                mlir::Value buffer, SharedType type, bool exchanged);

/// A tile that ldmatrix can read: one instruction for each address.
struct MatrixRead {
  std::vector<layout::MatrixIssue> issues;
  Values addresses;
  bool transposed = false;
};
Values loadMatrices(ThreadBuilder &b, const MatrixRead &read, size_t issue);
/// Defers the read of an operand to its product, which needs few words of it at a time. Returns
/// false, and emits nothing, if ldmatrix cannot read it.
bool deferRead(KernelEmitter &e, mlir::Operation *op, mlir::Value buffer,
               const layout::SharedLayout &shared, bool exchanged, mlir::Value result);
/// The words of a deferred operand; null for others.
const MatrixRead *getDeferredRead(KernelEmitter &e, mlir::Value operand);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_SHAREDACCESS_H
