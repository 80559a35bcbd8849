// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The grid of a kernel as tiles that a block takes one after the other.

#ifndef TILEWRIGHT_PASSES_TGPU_TILEORDER_H
#define TILEWRIGHT_PASSES_TGPU_TILEORDER_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace tilewright::tgpu {

/// Whether a block can compute the extents of the grid in 32 bits: from extents, numbers and 32-bit
/// arguments.
bool hasComputableGrid(KernelOp kernel);

/// As many blocks as the machine runs at once, and no more than there are tiles.
mlir::ArrayAttr getPersistentGrid(mlir::ArrayAttr grid);

/// The constraints of a kernel (null where it has none), and that a block can count the tiles in 32
/// bits: the launched grid no longer limits their number. The launch checks it.
mlir::ArrayAttr getPersistentConstraints(mlir::ArrayAttr constraints, mlir::ArrayAttr grid,
                                         int64_t group);

class TileOrder {
public:
  /// Precondition: the extents of `grid` can be computed from the arguments of `kernel`.
  TileOrder(KernelOp kernel, mlir::ArrayAttr grid, int64_t group)
      : kernel(kernel), grid(grid), group(group) {}

  /// Given a zero of 32 bits that belongs into each extent, what one step of the second id reads
  /// and adds to, in bytes (i64).
  using BytesOfStep = std::function<mlir::Value(mlir::Value zero)>;
  /// Lets groups be no larger than what fits the cache. `goesOn`: into the next step of a third id,
  /// since tiles of few steps are dealt less evenly.
  void limitGroup(BytesOfStep bytes, bool goesOn) {
    bytesOfStep = std::move(bytes);
    groupGoesOn = goesOn;
  }

  /// Of tiles of different length, for so many blocks: the last steps of the second and the third
  /// id are one group of twice the height, so that the tiles that begin last are short, and blocks
  /// end together. Where there are few tiles for each block, all steps are. `onlyFew`: only then.
  void uniteLastTiles(mlir::Value blocks, bool onlyFew) {
    blocksOfLast = blocks;
    unitesOnlyFew = onlyFew;
  }

  // What the following need is computed where they are asked for, from extents to which a zero
  // made of t is added: what stayed alive from tile to tile would cost the role that computes
  // registers in all of its loops. A role that does nothing else may keep it.
  void setKept(bool keeps) { isKept = keeps; }

  /// How many tiles there are.
  mlir::Value getTiles(mlir::ImplicitLocOpBuilder &b, mlir::Value t) const;
  /// The ids of tile t: the first the fastest, or, of each group, the second, and behind it the
  /// third.
  llvm::SmallVector<mlir::Value> getIds(mlir::ImplicitLocOpBuilder &b, mlir::Value t) const;

private:
  mlir::Value getZero(mlir::ImplicitLocOpBuilder &b, mlir::Value t) const;
  llvm::SmallVector<mlir::Value> getExtents(mlir::ImplicitLocOpBuilder &b, mlir::Value zero) const;
  /// Steps of the second id that go together.
  mlir::Value getHeight(mlir::ImplicitLocOpBuilder &b, mlir::Value zero) const;
  /// How many of `all` steps form the last group.
  mlir::Value getLast(mlir::ImplicitLocOpBuilder &b, mlir::Value all, mlir::Value tilesOfStep,
                      mlir::Value height) const;
  /// The ids of tile `number` where the second and the third id form groups.
  llvm::SmallVector<mlir::Value> getIdsOfGroup(mlir::ImplicitLocOpBuilder &b, mlir::Value number,
                                               llvm::ArrayRef<mlir::Value> extents,
                                               mlir::Value height) const;

  KernelOp kernel;
  mlir::ArrayAttr grid;
  int64_t group;
  BytesOfStep bytesOfStep;  ///< empty: no limit
  mlir::Value blocksOfLast; ///< null: the last tiles are grouped as others
  bool groupGoesOn = false, isKept = false, unitesOnlyFew = false;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_TILEORDER_H
