// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Live ranges of shared buffers. Internal to tgpu-plan-shared-memory.

#ifndef TILEWRIGHT_PASSES_TGPU_MEMORY_BUFFERLIFETIMES_H
#define TILEWRIGHT_PASSES_TGPU_MEMORY_BUFFERLIFETIMES_H

#include "dialect/Tgpu/Tgpu.h"

#include "llvm/ADT/DenseMap.h"

namespace tilewright::tgpu {

/// Positions number the operations of a kernel in program order.
class BufferLifetimes {
public:
  explicit BufferLifetimes(KernelOp kernel);

  /// Whether two buffers may share bytes if barriers separate them. Buffers may not share if
  /// operations other than tgpu.read, write, copy_async, fma_dot and convert use them, nor in
  /// kernels with roles, where block barriers do not order their accesses.
  bool mayShare(mlir::Value x, mlir::Value y) const;

  /// For two buffers that share bytes: inserts a barrier wherever one is written while threads may
  /// still read the other, unless there is one.
  void separate(mlir::Value x, mlir::Value y);

private:
  struct Life {
    int64_t first = 0, last = 0;
    bool isLocal = false; ///< live from the first use to the last only, not around a loop
    llvm::SmallVector<mlir::Operation *> uses;
  };
  const Life &get(mlir::Value buffer) const { return lives.find(buffer)->second; }
  Life compute(mlir::Value buffer) const;
  int64_t at(mlir::Operation *op) const { return positions.find(op)->second; }
  bool isSeparated(const Life &before, mlir::Operation *write) const;
  bool isSeparatedAround(mlir::Operation *loop, const Life &before, mlir::Operation *write) const;
  void addBarrier(mlir::Operation *before);

  KernelOp kernel;
  bool hasRoles = false;
  llvm::DenseMap<mlir::Operation *, int64_t> positions, ends;
  llvm::SmallVector<mlir::Operation *> barriers;
  llvm::DenseMap<mlir::Value, Life> lives;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MEMORY_BUFFERLIFETIMES_H
