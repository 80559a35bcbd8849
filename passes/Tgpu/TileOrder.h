// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The grid of a kernel as tiles that a block takes one after the other.

#ifndef TILEWRIGHT_PASSES_TGPU_TILEORDER_H
#define TILEWRIGHT_PASSES_TGPU_TILEORDER_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::tgpu {

/// Whether the extents of the grid can be computed from extents, numbers and 32-bit arguments.
bool hasComputableGrid(KernelOp kernel);

/// As many blocks as the machine runs at once, and no more than there are tiles.
mlir::ArrayAttr getPersistentGrid(mlir::ArrayAttr grid);

class TileOrder {
public:
  /// Computes the extents of `grid` from the arguments of `kernel`. Precondition: they can be.
  TileOrder(mlir::ImplicitLocOpBuilder &b, KernelOp kernel, mlir::ArrayAttr grid, int64_t group);

  /// Lets groups be no larger than that: with as many steps of the second id go together as many
  /// bytes.
  void limitGroup(mlir::ImplicitLocOpBuilder &b, mlir::Value bytesOfStep);

  /// How many there are.
  mlir::Value getTiles() const { return tiles; }
  /// The ids of tile t: the first the fastest, or, of each group, the second.
  llvm::SmallVector<mlir::Value> getIds(mlir::ImplicitLocOpBuilder &b, mlir::Value t) const;

private:
  llvm::SmallVector<mlir::Value> extents;
  mlir::Value tiles;
  int64_t group;
  mlir::Value limit; ///< of the group; null: none
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_TILEORDER_H
