// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of a tile with a uniform factor.

#ifndef TILEWRIGHT_PASSES_TILE_UNIFORMFACTOR_H
#define TILEWRIGHT_PASSES_TILE_UNIFORMFACTOR_H

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <optional>

namespace tilewright {

/// The scalar that every element of a tile equals: the operand of `tile.full`, or a constant.
struct UniformFactor {
  mlir::Value scalar;
  mlir::FloatAttr constant;

  explicit operator bool() const { return scalar || constant; }
  mlir::Value materialize(mlir::OpBuilder &builder, mlir::Location loc) const;
};

/// Empty if the elements of the tile may differ.
UniformFactor getUniformFactor(mlir::Value tile);

/// A product of a tile and a uniform one.
struct ScaledTile {
  mlir::Value tile, uniform;
  UniformFactor factor;
};

std::optional<ScaledTile> matchScaledTile(mlir::arith::MulFOp op);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_UNIFORMFACTOR_H
