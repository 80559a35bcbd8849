// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts between the attribute of an expression and base/Expr, which defines the semantics.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEEXPR_H
#define TILEWRIGHT_DIALECT_TILE_TILEEXPR_H

#include "base/Expr/Expr.h"
#include "dialect/Tile/Tile.h"

namespace tilewright::tile {

/// Precondition: a call, whose name the parser has checked.
inline expr::Function getFunction(ExprAttr call) {
  return *expr::findFunction(std::string_view(call.getName()));
}

/// Precondition: as many operands as the function takes.
inline ExprAttr makeCall(mlir::MLIRContext *context, expr::Function function,
                         llvm::ArrayRef<ExprAttr> operands) {
  return ExprAttr::get(context, ExprKind::Call, 0, expr::rowOf(function).name, operands);
}

expr::Expr toExpr(ExprAttr expr);

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_TILEEXPR_H
