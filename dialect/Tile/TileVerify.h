// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules that verifiers of operations on tiles share. Each emits an error of the operation.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEVERIFY_H
#define TILEWRIGHT_DIALECT_TILE_TILEVERIFY_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tile {

mlir::LogicalResult verifyTileDimension(mlir::Operation *op, int64_t dim, int64_t rank);
/// The elements of the result.
mlir::LogicalResult verifyResultElements(mlir::Operation *op, mlir::Type expected,
                                         mlir::Type actual);
/// The shape of the result.
mlir::LogicalResult verifyResultShape(mlir::Operation *op, llvm::ArrayRef<Dim> expected,
                                      mlir::Type actual);
/// A number that elements of a type can have (tile.constant); "must <verb> an integer".
mlir::LogicalResult verifyNumber(mlir::Operation *op, mlir::Attribute value, mlir::Type element,
                                 llvm::StringRef verb = "have");

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_TILEVERIFY_H
