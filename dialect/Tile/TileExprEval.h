// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of the expressions that parameters, grids and workspaces are written in. Used when
// parameters are bound and again at launch, when shapes and scalars are known.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEEXPREVAL_H
#define TILEWRIGHT_DIALECT_TILE_TILEEXPREVAL_H

#include "dialect/Tile/Tile.h"

#include "llvm/Support/Error.h"

#include <functional>
#include <optional>
#include <string>

namespace tilewright::tile {

/// The known leaves of an expression. An empty function knows none.
struct ExprEnvironment {
  /// The literal value of a parameter or scalar argument; null if it is not known.
  std::function<ExprAttr(llvm::StringRef name)> name;
  /// The extent of an argument along a dimension.
  std::function<std::optional<int64_t>(llvm::StringRef argument, int64_t dim)> dim;
  /// Multiprocessors of the device; cores on the CPU.
  std::optional<int64_t> smCount;
  /// Whether a linked file replaces a function.
  std::function<bool(llvm::StringRef function)> replaced;
};

/// Replaces the leaves that `environment` knows and computes all constant parts. `select`, `and`
/// and `or` do not compute an operand that a known condition makes irrelevant. Fails on operands of
/// the wrong kind, division by zero and overflow of 64 bits.
llvm::Expected<ExprAttr> reduceExpr(ExprAttr expr, const ExprEnvironment &environment);

/// As reduceExpr, but fails if a leaf remains: the result is a literal.
llvm::Expected<ExprAttr> evaluateExpr(ExprAttr expr, const ExprEnvironment &environment);
llvm::Expected<int64_t> evaluateInt(ExprAttr expr, const ExprEnvironment &environment);
llvm::Expected<bool> evaluateFlag(ExprAttr expr, const ExprEnvironment &environment);

/// In an author's syntax.
std::string toString(ExprAttr expr);
std::string toString(ParamDeclAttr decl);

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_TILEEXPREVAL_H
