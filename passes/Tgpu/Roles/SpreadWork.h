// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The body of a tile.spread that a role can execute.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLES_SPREADWORK_H
#define TILEWRIGHT_PASSES_TGPU_ROLES_SPREADWORK_H

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// Tiles of one shape are loaded, combined element by element and stored. A role processes some
/// rows at a time, as many as its registers hold.
struct SpreadWork {
  tile::SpreadOp op;
  mlir::Block *block = nullptr; ///< that holds the operations on tiles
  llvm::SmallVector<int64_t, 2> shape;

  /// The number of rows that a role with these warps and registers processes at a time: a fraction
  /// of all rows.
  int64_t getRows(int64_t warps, int64_t registers) const;

  /// Whether an operation of the body computes only scalars.
  static bool isScalar(mlir::Operation *op);
  /// The tile.spread of a kernel, if it has one. Fails if a role cannot execute it; `explain` emits
  /// the reason.
  static mlir::FailureOr<std::optional<SpreadWork>> get(KernelOp kernel, bool explain);
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLES_SPREADWORK_H
