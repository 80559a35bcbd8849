// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The expressions of grids, workspaces and conditions (base/Expr), as a bundle holds them: over
// argument shapes, scalar arguments, bound parameters and sm_count(). Floats occur only as
// arguments, in comparisons and tests for finiteness.
//
// In JSON: 5, true, ["enum", "top_left"], ["type", "bf16"], ["name", "window_left"],
// ["dim", "q", 2], and ["ceildiv", a, b] for a call.

#ifndef TILEWRIGHT_RUNTIME_EXPR_H
#define TILEWRIGHT_RUNTIME_EXPR_H

#include "base/Expr/Expr.h"
#include "runtime/Json.h"

namespace tilewright::runtime {

using expr::Expr;
/// Of an expression in a bundle.
inline constexpr unsigned maxExprDepth = 64;
struct ArgumentSpec;

Result<Expr> parseExpr(const Json &json, int depth = 0);
Json toJson(const Expr &expr);

/// Replaces parameters by their values, finds the arguments that names refer to, and checks that
/// the expression and all of its calls have values of the required kinds. `where` is the owner, for
/// messages; only conditions may read floats.
Status resolveExpr(Expr &expr, expr::Kind wanted,
                   const std::vector<std::pair<std::string, Expr>> &params,
                   const std::vector<ArgumentSpec> &arguments, const std::string &where,
                   bool isCondition = false);

/// The kind of a resolved expression's value.
expr::Kind kindOf(const Expr &expr, const std::vector<ArgumentSpec> &arguments);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_EXPR_H
