// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an author may have meant, for diagnostics.

#ifndef TILEWRIGHT_DIALECT_TILE_SUGGEST_H
#define TILEWRIGHT_DIALECT_TILE_SUGGEST_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace tilewright::tile {

/// The candidate that a mistyped name resembles most; empty if there is none.
llvm::StringRef findSimilar(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates);

/// The same for names of functions, also those of other languages: `div` is `floordiv`.
llvm::StringRef findSimilarFunction(llvm::StringRef name,
                                    llvm::ArrayRef<llvm::StringRef> candidates);

/// What makes a value of one type one of the other, as the end of a diagnostic: in a formula
/// "; write expand(..., 1)", else "; convert it with tile.expand dim 1".
std::string suggestConversion(mlir::Type type, mlir::Type expected, bool inFormula);

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_SUGGEST_H
