// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A description of the data flow between the products of a kernel's main loop, which does not
// depend on names or on the order of operations.

#ifndef TILEWRIGHT_PASSES_BLOCKS_LOOPSTRUCTURE_H
#define TILEWRIGHT_PASSES_BLOCKS_LOOPSTRUCTURE_H

#include "dialect/Tile/Tile.h"

#include <optional>
#include <string>

namespace tilewright {

/// Describes the loop with the most products, the first of several. Parameters need not be bound.
/// Products without uses, and products in a branch that is never taken, do not count.
///
/// The key has a part for each product that no other product reads: the use of its result ("sum":
/// carried by the loop, "add": added to memory, "store"), and its operands, in either order. An
/// operand is R (resident: loaded before the loop), S (streamed: loaded in each iteration), or the
/// products, in parentheses, from which it is computed. A matrix product is "sum S S", attention
/// forward "sum (R S) S": a product of a product and a streamed operand.
///
/// A kernel without products that loads whole rows, outside of loops and with one extent in common,
/// has the key "rows": that extent is `rows`.
struct LoopStructure {
  std::string key;
  mlir::Operation *loop = nullptr; ///< null for a kernel of rows
  int64_t products = 0;
  mlir::Type element; ///< element type of the operands of the first product, or of the first load
  /// Whether the loop carries tiles other than sums of products, such as the maxima of rows.
  bool hasStates = false;
  /// Whether an iteration loads a tile of `rows` by `step`, such as stored probabilities.
  bool loadsPairs = false;

  /// Extents by their role. For a product R S, `rows` are those of R and `step` is that of S; for S
  /// S, rows and columns are those of the result, and the step is the summed dimension, unless both
  /// operands are one block of the loop. Unknown if there is no such extent.
  tile::Dim rows, columns, step;
  /// The extents of all products that have none of these roles: the widths of loaded tiles.
  llvm::SmallVector<tile::Dim> widths;

  /// Nothing for other kernels without a product in a loop. `evaluate` returns the value of a flag,
  /// if it is known.
  static std::optional<LoopStructure>
  get(tile::KernelOp kernel, llvm::function_ref<std::optional<bool>(mlir::Value)> evaluate);
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_BLOCKS_LOOPSTRUCTURE_H
