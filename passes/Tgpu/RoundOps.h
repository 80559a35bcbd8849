// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a round consists of, and what of it has to come before what.

#ifndef TILEWRIGHT_PASSES_TGPU_ROUNDOPS_H
#define TILEWRIGHT_PASSES_TGPU_ROUNDOPS_H

#include "passes/Tgpu/LoopChain.h"

#include "llvm/ADT/DenseSet.h"

namespace tilewright::tgpu {

/// The body of a loop whose operations are put into another order, one after the other.
class RoundOps {
public:
  explicit RoundOps(mlir::scf::ForOp loop) : loop(loop), body(loop.getBody()) {}

  /// Finds the products and the accesses. False if there are not several products, or operations
  /// whose place among the others is not known.
  bool collect();

  /// Products that extend another's result at once, and alone, need not wait for it: the matrix
  /// unit adds to the same registers in the order of the products.
  void joinSums();

  /// Null if the operation is neither a product nor the wait for one.
  Product *getProduct(mlir::Operation *waitOrProduct);

  /// What an operation has to come after, besides what its operands are made of.
  llvm::SmallVector<mlir::Operation *> getBefore(mlir::Operation *op);

  /// That, and what its operands are made of.
  llvm::SmallVector<mlir::Operation *> getPredecessors(mlir::Operation *op);

  /// Whether an operation that is not emitted yet, and of which this holds, must come before.
  bool dependsOn(mlir::Operation *op, llvm::function_ref<bool(mlir::Operation *)> holds);

protected:
  mlir::scf::ForOp loop;
  mlir::Block *body;
  llvm::SmallVector<Product> products;
  llvm::SmallVector<mlir::Operation *> accesses; ///< to shared memory that is written, in order
  llvm::DenseSet<mlir::Operation *> isEmitted;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROUNDOPS_H
