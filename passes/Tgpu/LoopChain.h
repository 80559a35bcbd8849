// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops that are parts of one: each goes on where the one before it ended.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPCHAIN_H
#define TILEWRIGHT_PASSES_TGPU_LOOPCHAIN_H

#include "passes/Tgpu/ScheduleNames.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// Loops of step 1, each of which begins with the bound and the values with which the one before
/// it ended.
using LoopChain = llvm::SmallVector<mlir::scf::ForOp, 3>;

/// The chains of all loops of skeleton producer_consumer, inside of roles; most are of one loop.
llvm::SmallVector<LoopChain> getLoopChains(mlir::Operation *scope);

/// Where an operation of a loop belongs: see tgpu-plan-stages.
struct Place {
  int64_t stage = 0, order = 0;

  static std::optional<Place> get(mlir::Operation *op);
  void set(mlir::Operation *op) const;
};

/// A product of a loop's body, and when it has ended.
struct Product {
  WgmmaOp op;
  WgmmaCommitOp commit;
  WgmmaWaitOp wait;

  /// No value unless its commit follows, and one wait of the same block is for it alone.
  static std::optional<Product> get(WgmmaOp op);
};

/// Whether the results of a wait go nowhere but to the next round: the loop only carries them.
bool isOnlyYielded(WgmmaWaitOp wait);

/// One product's results then live beside another's. What stands for masked blocks stands for full
/// ones, too.
bool hasSeveralProducts(mlir::scf::ForOp loop);

/// Whether a round adds to several sums, to one of them what two products are combined to: the
/// gradients of attention for a block of keys. Overlapped with the next round, both products live
/// beside the sums for most of a round, more than there are registers.
bool addsCombinedProducts(mlir::scf::ForOp loop);

/// Registers that tiles take of each of `threads` threads, where the first product of the next
/// round is under way beside the last one of this round: what the loop carries, both results, and
/// the operand of 16 bits that a sum's product still reads.
int64_t getRegistersAhead(mlir::scf::ForOp loop, int64_t threads);

/// Whether some operation of the chain's loops has a place.
bool hasPlaces(const LoopChain &chain);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPCHAIN_H
