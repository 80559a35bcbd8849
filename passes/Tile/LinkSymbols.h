// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparison and composition of functions and captures for tile-link.

#ifndef TILEWRIGHT_PASSES_TILE_LINKSYMBOLS_H
#define TILEWRIGHT_PASSES_TILE_LINKSYMBOLS_H

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

#include <string>

namespace tilewright {

/// "function", "capture", "kernel", "program" or "symbol".
llvm::StringRef describeSymbol(mlir::Operation *op);

/// The type of a function or a capture.
mlir::Type getSymbolType(mlir::Operation *op);

/// Whether the types are equal, or one has `!tile.param<X>` where the other has a float type.
bool typesMatch(mlir::Type a, mlir::Type b);

/// Whether a kernel's file lets others replace the symbol: it is marked tile.replaceable, or is a
/// function without a body.
bool isReplaceable(mlir::Operation *op);

/// Adds the requirements of `other` to a capture that both files declare.
void addConstraints(tile::CaptureOp capture, tile::CaptureOp other);

/// "@a, @b"; "nothing".
std::string listNames(llvm::ArrayRef<mlir::StringAttr> names);

/// Whether the file mentions the symbol.
bool isUsed(mlir::ModuleOp file, mlir::Operation *symbol);

/// The symbols that `op` mentions, each with the operation that mentions it.
llvm::MapVector<mlir::StringAttr, mlir::Operation *> getUsedSymbols(mlir::Operation *op);

/// Composes the functions of two files that replace the same function, by the rule in
/// `tile.replaceable`, and inserts the result after the second.
mlir::func::FuncOp joinFunctions(mlir::func::FuncOp before, mlir::func::FuncOp after,
                                 mlir::StringAttr rule, mlir::StringAttr name);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_LINKSYMBOLS_H
