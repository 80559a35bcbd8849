// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations of a loop iteration and their order dependences.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_ROUNDOPS_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_ROUNDOPS_H

#include "passes/Tgpu/Analysis/LoopChain.h"

#include "llvm/ADT/DenseSet.h"

namespace tilewright::tgpu {

/// The body of a loop that is being reordered.
class RoundOps {
public:
  explicit RoundOps(mlir::scf::ForOp loop) : loop(loop), body(loop.getBody()) {}

  /// Finds the products and the shared-memory accesses. Returns false if there are fewer than two
  /// products, or operations with unknown dependences.
  bool collect();

  /// Products that directly extend another product's result, as its only user, need not wait for
  /// it: the matrix unit adds to the same registers in program order.
  void joinSums();

  /// Whether `product` must have ended before the last of the products that end with `next` can be
  /// issued, since that one's operand takes the place of its own.
  bool endsBeforeLast(const Product &product, const Product &next);

  /// Null if the operation is neither a product nor the wait for one.
  Product *getProduct(mlir::Operation *waitOrProduct);

  /// The operations that an operation must follow, besides the definitions of its operands.
  llvm::SmallVector<mlir::Operation *> getBefore(mlir::Operation *op);

  /// The same, including the definitions of its operands.
  llvm::SmallVector<mlir::Operation *> getPredecessors(mlir::Operation *op);

  /// Whether the operation depends on one that has not been emitted and satisfies `holds`.
  bool dependsOn(mlir::Operation *op, llvm::function_ref<bool(mlir::Operation *)> holds);

protected:
  mlir::scf::ForOp loop;
  mlir::Block *body;
  llvm::SmallVector<Product> products;
  llvm::SmallVector<mlir::Operation *> accesses; ///< to shared memory that the loop writes
  llvm::DenseSet<mlir::Operation *> isEmitted;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_ROUNDOPS_H
