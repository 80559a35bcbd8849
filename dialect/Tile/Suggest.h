// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an author may have meant, for diagnostics.

#ifndef TILEWRIGHT_DIALECT_TILE_SUGGEST_H
#define TILEWRIGHT_DIALECT_TILE_SUGGEST_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace tilewright::tile {

/// The candidate that a mistyped name resembles most; empty if there is none.
llvm::StringRef findSimilar(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates);

/// The same for names of functions, also those of other languages: `div` is `floordiv`.
llvm::StringRef findSimilarFunction(llvm::StringRef name,
                                    llvm::ArrayRef<llvm::StringRef> candidates);

/// The operation that a name which is none resembles most, also one of another dialect: `tile.exp`
/// is `math.exp`. Empty if there is none.
llvm::StringRef findSimilarOperation(llvm::StringRef name, mlir::MLIRContext &context);

/// What makes a value of one type one of the other, as the end of a diagnostic: in a formula
/// "; write expand(..., 1)", else "; convert it with tile.expand dim 1". `value` is its text. In
/// the body of a kernel that is being parsed, a name that a type has in place of a parameter
/// explains the mismatch instead.
std::string suggestConversion(mlir::Type type, mlir::Type expected, bool inFormula,
                              llvm::StringRef value = "...");

/// The remedy for a name in a type that is no parameter: "did you mean 'BLOCK'?". `isElement`: it
/// stands for a type.
std::string suggestParameter(llvm::StringRef name, bool isElement,
                             llvm::ArrayRef<llvm::StringRef> params);

/// Calls `visit` for the names of parameters in a type. `isElement`: the name stands for a type.
void visitNames(mlir::Type type, llvm::function_ref<void(llvm::StringRef, bool isElement)> visit);

/// While one lives, the body of a kernel or program is being parsed by this thread: its parameters.
/// The operation does not exist yet, and its body already has types.
class ParsedParams {
public:
  ParsedParams(llvm::StringRef kernel, llvm::ArrayRef<llvm::StringRef> params);
  ~ParsedParams();
  ParsedParams(const ParsedParams &) = delete;
  ParsedParams &operator=(const ParsedParams &) = delete;

private:
  friend std::string suggestConversion(mlir::Type, mlir::Type, bool, llvm::StringRef);
  std::string explain(mlir::Type type) const;

  llvm::StringRef kernel;
  llvm::ArrayRef<llvm::StringRef> params;
  const ParsedParams *outer;
};

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_SUGGEST_H
