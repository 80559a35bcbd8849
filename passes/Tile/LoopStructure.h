// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the products of a kernel's main loop do with each other, as a word that neither names nor
// the order of operations change.

#ifndef TILEWRIGHT_PASSES_TILE_LOOPSTRUCTURE_H
#define TILEWRIGHT_PASSES_TILE_LOOPSTRUCTURE_H

#include "dialect/Tile/Tile.h"

namespace tilewright {

/// Of the loop with the most products, the first of several. Parameters need not be bound.
/// Products that nothing uses do not count, nor do those in a branch that is never taken.
///
/// The key has a part for each product that no other reads: what becomes of it ("sum": the loop
/// carries it, "add": to memory, "store"), and its operands, in either order. An operand is R
/// (resident: loaded before the loop), S (streamed: loaded in each round), or the products, in
/// parentheses, that it is computed from. A matrix product is "sum S S", a forward of attention
/// "sum (R S) S": a product of a product and what a round loads.
struct LoopStructure {
  std::string key;
  mlir::Operation *loop = nullptr;
  int64_t products = 0;
  mlir::Type element; ///< of the operands of the first product

  /// Extents by what they are. Of a product R S, `rows` are R's and `step` is S's; of S S, rows and
  /// columns are those of the result, and the step is what is summed over, unless both are one
  /// block of the loop. Unknown where there is none of the kind.
  tile::Dim rows, columns, step;
  /// Of all products, those that are none of these: the widths of what is loaded.
  llvm::SmallVector<tile::Dim> widths;

  /// None where no loop has a product. `evaluate` says what a flag always is, if that is known.
  static std::optional<LoopStructure>
  get(tile::KernelOp kernel, llvm::function_ref<std::optional<bool>(mlir::Value)> evaluate);
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_LOOPSTRUCTURE_H
