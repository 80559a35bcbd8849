// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Consecutive loops that are parts of one loop: each continues where the previous one ended.

#ifndef TILEWRIGHT_PASSES_TGPU_ANALYSIS_LOOPCHAIN_H
#define TILEWRIGHT_PASSES_TGPU_ANALYSIS_LOOPCHAIN_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// Loops of step 1. Each begins with the upper bound and the results of the previous one.
using LoopChain = llvm::SmallVector<mlir::scf::ForOp, 3>;

/// The chain that begins with a loop.
LoopChain getLoopChain(mlir::scf::ForOp first);

/// The chains of all loops of skeleton producer_consumer in roles. Most consist of one loop.
llvm::SmallVector<LoopChain> getLoopChains(mlir::Operation *scope);

/// Slots of a ring whose buffers are held during two iterations: one remains to copy into.
inline constexpr int64_t slotsOfTwoRounds = 3;

/// The place of an operation in a loop's schedule: see tgpu-plan-stages.
struct Place {
  int64_t stage = 0, order = 0;

  static std::optional<Place> get(mlir::Operation *op);
  void set(mlir::Operation *op) const;
};

/// A product of a loop's body, and the operations that end it.
struct Product {
  WgmmaOp op;
  WgmmaCommitOp commit;
  WgmmaWaitOp wait;

  /// Returns a value only if the commit follows and one wait of the same block waits for it alone.
  static std::optional<Product> get(WgmmaOp op);
};

/// The longest body whose operations are reordered. This bounds the depth of the recursion over
/// their operands, and the time. The loops of attention have about 120 operations.
constexpr size_t mostOrderedOps = 2048;

/// Whether the results of a wait are used only by the terminator: the loop merely carries them.
bool isOnlyYielded(WgmmaWaitOp wait);

/// The number of products whose results are live at the same time. The general branch counts for
/// full blocks, too.
int64_t countProducts(mlir::scf::ForOp loop);
inline bool hasSeveralProducts(mlir::scf::ForOp loop) { return countProducts(loop) > 1; }

/// Whether an iteration adds to several sums, to one of them a product of a combination of two
/// products: the gradients of attention for a block of keys. If such an iteration overlaps with the
/// next one, both products are live with the sums most of the time and exceed the registers.
bool addsCombinedProducts(mlir::scf::ForOp loop);

/// The products of the loop that a value depends on directly, not through other products.
llvm::SmallPtrSet<mlir::Operation *, 4> getProducts(mlir::Value value, mlir::scf::ForOp loop);

/// Whether an iteration writes values computed from its products to shared memory.
bool exchangesProducts(mlir::scf::ForOp loop);

/// The region of the role that executes an operation, or null.
mlir::Region *getRole(mlir::Operation *op);

/// Whether an operation of the chain's loops has a place.
bool hasPlaces(const LoopChain &chain);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ANALYSIS_LOOPCHAIN_H
