// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The sums of a tile.accumulate: that it only adds to them, and how a kernel makes a result of one.

#ifndef TILEWRIGHT_PASSES_TILE_STOREDSUM_H
#define TILEWRIGHT_PASSES_TILE_STOREDSUM_H

#include "dialect/Tile/Tile.h"

#include "mlir/IR/IRMapping.h"

#include <optional>
#include <string>

namespace tilewright {

/// Emits an error where the body does something else with a sum than to add to it.
llvm::LogicalResult checkSums(tile::AccumulateOp op);

/// A sum whose only use is a store, after operations that a kernel of its own can repeat.
struct StoredSum {
  /// Nothing if the sum is used otherwise, with the reason.
  static std::optional<StoredSum> get(tile::KernelOp kernel, mlir::OpResult result,
                                      std::string &reason);

  mlir::OpResult result;
  tile::StoreOp store;
  llvm::SmallVector<mlir::Operation *> epilogue; ///< from the sum to what is stored, in order
  llvm::SmallVector<mlir::Operation *> parts;    ///< from the argument to the view of the store
  mlir::BlockArgument view;                      ///< the argument of the kernel that is stored to
  /// Numbers of the kernel's arguments that a kernel for the result reads and writes.
  llvm::SmallVector<unsigned> arguments;
  /// Conditions over parameters of the kernel on which the store is executed.
  llvm::SmallVector<tile::ExprAttr> conditions;

  unsigned getArgument() const { return view.getArgNumber(); }
  /// "sum_dk".
  std::string getName(tile::KernelOp kernel) const;
  mlir::Type getElementType() const { return tile::getElementType(result.getType()); }

  /// In a copy of the kernel, adds the sum to `array`, which has the shape of `view`, instead of
  /// storing.
  void addInstead(const mlir::IRMapping &copy, mlir::Value array) const;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_STOREDSUM_H
