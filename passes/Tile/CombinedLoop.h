// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loop of a kernel whose states merge, and the kernels in which several instances share its
// iterations.

#ifndef TILEWRIGHT_PASSES_TILE_COMBINEDLOOP_H
#define TILEWRIGHT_PASSES_TILE_COMBINEDLOOP_H

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <optional>
#include <string>

namespace tilewright {

/// A loop in the body of a kernel that carries a tile of two dimensions, of which the kernel makes
/// what it stores to an argument. An array of states has a state in the place of the result, after
/// the number of the share.
struct CombinedLoop {
  /// Nothing if the kernel does something else, with the reason.
  static std::optional<CombinedLoop> get(mlir::scf::ForOp loop, std::string &reason);

  mlir::scf::ForOp loop;
  tile::KernelOp kernel;
  tile::StoreOp store;      ///< of the result
  mlir::BlockArgument view; ///< the argument of the kernel that it stores to
  mlir::FlatSymbolRefAttr combine;

  mlir::Type getStateType() const { return state().getType(); }
  mlir::Value state() const { return mlir::scf::ForOp(loop).getResult(0); }
  tile::ViewType getStatesType() const;

  /// A parameter with the default block() that is the extent of the tile along the dimension, if
  /// the kernel has an instance for each block of so many places of the result there. Then launches
  /// may bind it differently.
  mlir::StringAttr getFreeBlock(unsigned dim) const;
  /// The places of which `getFreeBlock` says that there are blocks, as an expression of the kernel.
  tile::ExprAttr getPlaces(unsigned dim) const;
  /// Whether the kernel computes each element of the result from the state at the same place, and
  /// from other values at that place, for blocks of any extents.
  bool isMadeInPlace() const;

  /// A copy of the kernel with an instance for each share, which stores its state. The last
  /// argument is the array of states.
  tile::KernelOp writeShare() const;
  /// Whether launches may bind the rows of blocks of the kernel that merges: those of few rows have
  /// registers for several states.
  bool mayMergeFewRows() const { return getFreeBlock(0) && isMadeInPlace(); }
  /// A copy of the kernel that merges the states of the array in order instead of the loop.
  tile::KernelOp writeMerge() const;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_COMBINEDLOOP_H
