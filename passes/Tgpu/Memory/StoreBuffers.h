// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers of a kernel with roles through which a role can store its results.

#ifndef TILEWRIGHT_PASSES_TGPU_MEMORY_STOREBUFFERS_H
#define TILEWRIGHT_PASSES_TGPU_MEMORY_STOREBUFFERS_H

#include "dialect/Tgpu/Tgpu.h"

#include <optional>

namespace tilewright::tgpu {

/// A ring that the role writes for its own products, with no other users.
struct Scratch {
  AllocRingOp ring;
  mlir::Operation *user; ///< the first of the block of the stores that contains a use
  mlir::Value barrier;   ///< once something is stored through it
  int64_t next = 0;      ///< slot
};

std::optional<Scratch> findScratch(KernelOp kernel, mlir::Operation *store);

/// The buffer that passes sums to the role that adds them to memory, after the last iteration: the
/// slot that the next tile's first sum would use.
struct SumSlot {
  mlir::Value ring;
  mlir::Value empty; ///< barriers of the slots that the other role has read
  mlir::Value use;   ///< number of the slot, in the block of the store
};

std::optional<SumSlot> findSumSlot(KernelOp kernel, mlir::Operation *store);

/// A use of a ring without a copy: the other role has acquired the slot, which is waited for before
/// the stores and released after them.
struct LentSlot {
  AllocRingOp ring;
  WaitOp wait;
  ArriveOp release;
};

llvm::SmallVector<LentSlot> findLentSlots(StoreOp store);

/// A single buffer that the other role fills, and how it is released; never, if it is filled once.
struct Operand {
  AllocOp buffer;
  AllocBarriersOp empty;
  ArriveOp release;      ///< in the role that computes
  bool isShared = false; ///< a warpgroup reads rows that another overwrites
};

/// An operand with the type of the stored tile that the role's products have read.
std::optional<Operand> findOperand(KernelOp kernel, StoreOp store);

/// All operands that the role's products have read and that the block of `write` releases.
llvm::SmallVector<Operand> findOperands(KernelOp kernel, mlir::Operation *write);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MEMORY_STOREBUFFERS_H
