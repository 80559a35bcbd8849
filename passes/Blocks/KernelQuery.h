// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The properties of a kernel that select a row of the table of blocks.

#ifndef TILEWRIGHT_PASSES_BLOCKS_KERNELQUERY_H
#define TILEWRIGHT_PASSES_BLOCKS_KERNELQUERY_H

#include "passes/Blocks/BlockTable.h"
#include "passes/Blocks/FlagEvaluator.h"
#include "passes/Blocks/LoopStructure.h"

namespace tilewright {

/// An extent that is a number, or a parameter that is bound to one; nothing if it is unknown.
std::optional<int64_t> getExtent(tile::Dim dim, const Bindings &bindings);

/// The element type, or the one that a parameter is bound to.
mlir::Type getBoundElement(mlir::Type element, const Bindings &bindings);

/// A kernel whose known parameters are bound, and its loop with products, or its rows.
struct ExaminedKernel {
  /// Nothing if LoopStructure has none.
  static std::optional<ExaminedKernel> get(tile::KernelOp kernel, const Bindings &bindings);

  tile::KernelOp kernel;
  LoopStructure structure;
  mlir::Value limit; ///< upper bound of a loop over blocks; null for other loops

  /// The extent of an argument of the kernel that bounds the loop, as an expression for launches,
  /// or null.
  tile::ExprAttr getLength() const;

  /// The part of the query that depends on the kernel, not on the caller: all except target, length
  /// and shared memory.
  BlockQuery makeQuery(const Bindings &bindings) const;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_BLOCKS_KERNELQUERY_H
