// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes expressions over a launch in a kernel.

#ifndef TILEWRIGHT_PASSES_TILE_KERNELEXPR_H
#define TILEWRIGHT_PASSES_TILE_KERNELEXPR_H

#include "dialect/Tile/Tile.h"

namespace tilewright {

/// Whether emitExpr() has a value for the expression: it reads no device, and calls only functions
/// of integers.
bool canEmitExpr(tile::ExprAttr expr, tile::KernelOp kernel);

/// The value of an expression, such as an extent of `kernel`'s grid. `args` are the values of its
/// arguments. Extents are not negative.
mlir::Value emitExpr(mlir::OpBuilder &b, mlir::Location loc, tile::ExprAttr expr, mlir::Type type,
                     tile::KernelOp kernel, mlir::ValueRange args);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_KERNELEXPR_H
