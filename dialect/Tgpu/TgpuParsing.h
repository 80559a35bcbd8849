// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Directives of the declarative assembly formats.

#ifndef TILEWRIGHT_DIALECT_TGPU_TGPUPARSING_H
#define TILEWRIGHT_DIALECT_TGPU_TGPUPARSING_H

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/TileParsing.h"

namespace tilewright::tgpu {

using tile::parseInt;
using tile::printInt;

/// The type of a ring; the result is its slot.
mlir::ParseResult parseSlotType(mlir::OpAsmParser &parser, mlir::Type &ring, mlir::Type &slot);
void printSlotType(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type ring,
                   mlir::Type slot);

/// One type for two values.
mlir::ParseResult parseSameType(mlir::OpAsmParser &parser, mlir::Type &a, mlir::Type &b);
void printSameType(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type a, mlir::Type b);

/// The tile of a pending result.
mlir::ParseResult parsePendingTile(mlir::OpAsmParser &parser, mlir::Type &pending);
void printPendingTile(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::Type pending);

/// `: tile, ...`: results, and operands pending on them; nothing for none.
mlir::ParseResult parseWaitTypes(mlir::OpAsmParser &parser,
                                 llvm::SmallVectorImpl<mlir::Type> &pending,
                                 llvm::SmallVectorImpl<mlir::Type> &tiles);
void printWaitTypes(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::TypeRange pending,
                    mlir::TypeRange tiles);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_DIALECT_TGPU_TGPUPARSING_H
