// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What each bit of an integer in a mapped function is, in terms of the positions of an element in
// its tile: a constant, a copy of one bit of a position, or any function of some of these bits.
// Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_POSITIONBITS_H
#define TILEWRIGHT_PASSES_CONVERSION_POSITIONBITS_H

#include "dialect/Tile/Tile.h"

#include <array>

namespace tilewright::tgpu {

/// A set of bits of the positions in a tile, {along dimension 0, along dimension 1}. Bit k of a
/// position is that of the distance from the first row or column of the tile.
using PositionSet = std::array<uint64_t, 2>;

struct BitFact {
  enum Kind { Zero, One, Copy, Function };
  Kind kind = Function;
  /// The bits of positions that this one may depend on; for Copy, the one that it equals. None: the
  /// bit is the same for all elements.
  PositionSet depends = {~uint64_t(0), ~uint64_t(0)};

  bool isConstant() const { return kind == Zero || kind == One; }
};
/// Lowest bit first.
using BitFacts = llvm::SmallVector<BitFact, 32>;

/// Knows the values at the top level of the function of a tile.map.
class PositionBits {
public:
  PositionBits(tile::MapOp map, mlir::Block &body);

  /// Facts of an integer of the body.
  BitFacts get(mlir::Value value);

private:
  BitFacts compute(mlir::Value value);

  llvm::DenseMap<mlir::Value, BitFacts> known;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_POSITIONBITS_H
