// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A sum in memory to which the instances of a kernel add in order.

#ifndef TILEWRIGHT_PASSES_TILE_ORDEREDKERNEL_H
#define TILEWRIGHT_PASSES_TILE_ORDEREDKERNEL_H

#include "dialect/Tile/Tile.h"

namespace tilewright {

struct OrderedSum {
  tile::ContributeOp op;
  tile::ForBlocksOp loop;        ///< around it
  tile::AccumulateOp accumulate; ///< around it; may be null
  tile::AnyOrderOp order;        ///< of the blocks of positions
  tile::AnyOrderOp listed;       ///< of instances, by a list; may be null
  mlir::StringAttr rowsName;     ///< of the parameter that is the number of rows of a block
  /// Conditions over parameters of the kernel on which it adds.
  llvm::SmallVector<tile::ExprAttr> branches;
  tile::LaunchOp adding;     ///< of the kernel that adds
  tile::LaunchOp completion; ///< of the kernel that reads the sums
  tile::KernelOp completing; ///< that kernel
  tile::CompleteOp completed;
  /// What launches pass, after the turns, for arguments that the kernel did not have.
  llvm::SmallVector<mlir::Value> appended;
};

/// The type of the counters: one for each row of the sums.
tile::ViewType getTurnsType(const OrderedSum &sum);

/// Adds the form in order to the kernel, under the flag of the operation, and an argument for the
/// turns. `multiprocessors` are those of the largest chip of the target.
void writeOrderedKernel(OrderedSum &sum, int64_t multiprocessors);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_ORDEREDKERNEL_H
