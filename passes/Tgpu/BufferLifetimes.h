// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// While which operations a shared buffer holds something. Internal to tgpu-plan-shared-memory.

#ifndef TILEWRIGHT_PASSES_TGPU_BUFFERLIFETIMES_H
#define TILEWRIGHT_PASSES_TGPU_BUFFERLIFETIMES_H

#include "dialect/Tgpu/Tgpu.h"

#include "llvm/ADT/DenseMap.h"

namespace tilewright::tgpu {

/// Positions are those of operations in the text of the kernel.
class BufferLifetimes {
public:
  explicit BufferLifetimes(KernelOp kernel);

  /// Whether both buffers may lie in the same bytes, given barriers between them. Never so for what
  /// anything but tgpu.read, write, copy_async, fma_dot and convert uses, nor in kernels with
  /// roles: barriers of the whole block do not order those.
  bool mayShare(mlir::Value x, mlir::Value y) const;

  /// Two buffers lie in the same bytes: puts a barrier wherever the one is written while threads
  /// may still be reading the other, unless there is one.
  void separate(mlir::Value x, mlir::Value y);

private:
  struct Life {
    int64_t first = 0, last = 0;
    bool isLocal = false; ///< known from the first use to the last, and not used elsewhere
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

#endif // TILEWRIGHT_PASSES_TGPU_BUFFERLIFETIMES_H
