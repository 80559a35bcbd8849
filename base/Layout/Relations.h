// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Relations between two register layouts: changes of layout, reductions, broadcasts.

#ifndef TILEWRIGHT_BASE_LAYOUT_RELATIONS_H
#define TILEWRIGHT_BASE_LAYOUT_RELATIONS_H

#include "base/Layout/RegisterLayout.h"

namespace tilewright::layout {

/// How a tile changes its layout; each kind includes the ones before it.
struct Conversion {
  enum class Kind : uint8_t {
    Registers,   ///< every thread holds the elements it needs: registers are renamed, nothing moves
    Shuffle,     ///< every warp holds the elements it needs
    SharedMemory ///< elements change warps
  };
  Kind kind = Kind::SharedMemory;

  /// For Registers: register r of the result is register sourceRegister[r] of the source, in every
  /// thread.
  std::vector<int> sourceRegister;

  bool isIdentity() const;
};

/// Preconditions: equal shapes. Another number of warps needs shared memory.
Conversion convert(const RegisterLayout &from, const RegisterLayout &to);

/// The holder in the warp of the element that thread (warp, lane) needs in register `reg` of `to`;
/// the same lane where it can be. Precondition: convert() returned Shuffle or Registers.
Owner shuffleSource(const RegisterLayout &from, const RegisterLayout &to, int warp, int lane,
                    int reg);

/// A digit of the warp number: warps w and w + i * place, 0 < i < extent, belong together.
struct WarpGroup {
  int place = 1, extent = 1;
};

/// How to reduce along a dimension, in this order; afterwards every thread holds its part of
/// `result` (all lanes and, if they were combined, all warps of a row agree).
struct ReductionPlan {
  RegisterLayout result;

  /// Inside a thread: register r of the parent is combined into register resultRegister[r] of the
  /// result. Read the other way it is the broadcast of a slice back to the parent.
  std::vector<int> resultRegister;

  /// Then among lanes: shfl.sync.bfly with each mask in turn, smallest first.
  std::vector<int> laneMasks;

  /// Then among warps, through shared memory: the digits of the warp number that `dim` was spread
  /// over. Empty: a warp has whole rows.
  std::vector<WarpGroup> warpGroups;

  bool acrossWarps() const { return !warpGroups.empty(); }
};

/// Precondition: rank 2, dim 0 or 1; or rank 1 and dim 0, whose result has shape [1].
ReductionPlan reductionPlan(const RegisterLayout &layout, int dim);

} // namespace tilewright::layout

#endif // TILEWRIGHT_BASE_LAYOUT_RELATIONS_H
