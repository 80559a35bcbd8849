// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which a block processes the tiles of a kernel's grid.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLES_TILEORDER_H
#define TILEWRIGHT_PASSES_TGPU_ROLES_TILEORDER_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace tilewright::tgpu {

/// Whether a block can compute the extents of the grid in 32 bits: from extents, numbers and 32-bit
/// arguments.
bool hasComputableGrid(KernelOp kernel);

/// The number of blocks that the machine runs at once, but at most the number of tiles.
mlir::ArrayAttr getPersistentGrid(mlir::ArrayAttr grid);

/// The constraints of a kernel (null if it has none), and that a block can count the tiles in 32
/// bits, since the launched grid no longer limits their number. The launch checks it.
mlir::ArrayAttr getPersistentConstraints(mlir::ArrayAttr constraints, mlir::ArrayAttr grid,
                                         int64_t group);

class TileOrder {
public:
  /// Precondition: the extents of `grid` can be computed from the arguments of `kernel`.
  TileOrder(KernelOp kernel, mlir::ArrayAttr grid, int64_t group)
      : kernel(kernel), grid(grid), group(group) {}

  /// Given a 32-bit zero that is added to each extent, the bytes (i64) that one step of the second
  /// id reads and adds to.
  using BytesOfStep = std::function<mlir::Value(mlir::Value zero)>;
  /// Limits groups to the size of the cache. `goesOn`: groups continue in the next step of a third
  /// id, since tiles of few steps are distributed less evenly.
  void limitGroup(BytesOfStep bytes, bool goesOn) {
    bytesOfStep = std::move(bytes);
    groupGoesOn = goesOn;
  }

  /// Which of the last steps of the second and the third id form one group.
  enum class Last {
    TwoGroups, ///< twice the height of a group
    TwoRounds, ///< as many as have two tiles for each block
    NoneUnlessFew,
  };
  /// For tiles of different length and this number of blocks: if the tiles that begin last are
  /// short, blocks end together. If there are few tiles per block, all steps form one group.
  void uniteLastTiles(mlir::Value blocks, Last steps) {
    blocksOfLast = blocks;
    last = steps;
  }

  // The following functions emit their computations at the insertion point, with a zero derived
  // from t added to the extents: values that stayed live between tiles would occupy registers of
  // the compute role in all of its loops. A role that does nothing else may keep them.
  void setKept(bool keeps) { isKept = keeps; }

  /// The number of tiles.
  mlir::Value getTiles(mlir::ImplicitLocOpBuilder &b, mlir::Value t) const;
  /// The ids of tile t: the first is the fastest or, within a group, the second, followed by the
  /// third.
  llvm::SmallVector<mlir::Value> getIds(mlir::ImplicitLocOpBuilder &b, mlir::Value t) const;

private:
  mlir::Value getZero(mlir::ImplicitLocOpBuilder &b, mlir::Value t) const;
  llvm::SmallVector<mlir::Value> getExtents(mlir::ImplicitLocOpBuilder &b, mlir::Value zero) const;
  /// The number of steps of the second id that form a group.
  mlir::Value getHeight(mlir::ImplicitLocOpBuilder &b, mlir::Value zero) const;
  /// The number of the last steps of `all` that form the last group.
  mlir::Value getLast(mlir::ImplicitLocOpBuilder &b, mlir::Value all, mlir::Value tilesOfStep,
                      mlir::Value height) const;
  /// The ids of tile `number` if the second and the third id form groups.
  llvm::SmallVector<mlir::Value> getIdsOfGroup(mlir::ImplicitLocOpBuilder &b, mlir::Value number,
                                               llvm::ArrayRef<mlir::Value> extents,
                                               mlir::Value height) const;

  KernelOp kernel;
  mlir::ArrayAttr grid;
  int64_t group;
  BytesOfStep bytesOfStep;  ///< empty: no limit
  mlir::Value blocksOfLast; ///< null: the last tiles are grouped as others
  Last last = Last::TwoGroups;
  bool groupGoesOn = false, isKept = false;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLES_TILEORDER_H
