// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the table of blocks is asked about a kernel.

#ifndef TILEWRIGHT_PASSES_TILE_KERNELQUERY_H
#define TILEWRIGHT_PASSES_TILE_KERNELQUERY_H

#include "passes/Tile/BlockTable.h"
#include "passes/Tile/FlagEvaluator.h"
#include "passes/Tile/LoopStructure.h"

namespace tilewright {

/// A kernel whose parameters are bound as far as they are known, and its loop with products.
struct ExaminedKernel {
  /// Nothing where no loop has a product.
  static std::optional<ExaminedKernel> get(tile::KernelOp kernel, const Bindings &bindings);

  tile::KernelOp kernel;
  LoopStructure structure;
  mlir::Value limit; ///< upper bound of a loop over blocks; null for other loops

  /// The extent of an argument of the kernel that bounds the loop, as an expression for launches,
  /// or null.
  tile::ExprAttr getLength() const;

  /// All of the query that depends on the kernel, not on what the caller asks for: that is target,
  /// length and shared memory.
  BlockQuery makeQuery(const Bindings &bindings) const;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_KERNELQUERY_H
