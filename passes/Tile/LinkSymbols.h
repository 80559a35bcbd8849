// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions and captures as tile-link compares and joins them.

#ifndef TILEWRIGHT_PASSES_TILE_LINKSYMBOLS_H
#define TILEWRIGHT_PASSES_TILE_LINKSYMBOLS_H

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace tilewright {

/// "function", "capture", "kernel", "program" or "symbol".
llvm::StringRef describeSymbol(mlir::Operation *op);

/// Of a function or a capture.
mlir::Type getSymbolType(mlir::Operation *op);

/// Equal, or one says `!tile.param<X>` where the other names a float.
bool typesMatch(mlir::Type a, mlir::Type b);

/// What a kernel's file lets others replace: functions that say so, and those it leaves without a
/// body.
bool isReplaceable(mlir::Operation *op);

/// What each file requires of a capture that both have.
void addConstraints(tile::CaptureOp capture, tile::CaptureOp other);

/// "@a, @b"; "nothing".
std::string listNames(llvm::ArrayRef<mlir::StringAttr> names);

/// Whether the file mentions the symbol.
bool isUsed(mlir::ModuleOp file, mlir::Operation *symbol);

/// Symbols that `op` mentions, each with the operation that does.
llvm::MapVector<mlir::StringAttr, mlir::Operation *> getUsedSymbols(mlir::Operation *op);

/// What two files make of a function that one would have replaced, behind the second: by the value
/// of `tile.replaceable`.
mlir::func::FuncOp joinFunctions(mlir::func::FuncOp before, mlir::func::FuncOp after,
                                 mlir::StringAttr rule, mlir::StringAttr name);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_LINKSYMBOLS_H
