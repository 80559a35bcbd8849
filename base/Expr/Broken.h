// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Why a condition does not hold, and what would make it hold.

#ifndef TILEWRIGHT_BASE_EXPR_BROKEN_H
#define TILEWRIGHT_BASE_EXPR_BROKEN_H

#include "base/Expr/Expr.h"

#include <functional>

namespace tilewright::expr {

/// ", but got dim(bias, 3) = 7, dim(k, 2) = 30": the names and extents that the condition reads.
/// `valueOf` gives the text of each. Empty if the condition reads none.
std::string listOperands(const Expr &condition,
                         const std::function<std::string(const Expr &)> &valueOf);

/// "; give 'bias' an extent of 1 or 30 along dimension 3", if the condition allows a few values of
/// one extent or scalar, which each comparison has on its left side; else empty.
std::string suggestValues(const Expr &condition,
                          const std::function<std::string(const Expr &)> &valueOf);

} // namespace tilewright::expr

#endif // TILEWRIGHT_BASE_EXPR_BROKEN_H
