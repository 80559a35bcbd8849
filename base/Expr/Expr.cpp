// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Construction and printing of expressions.

#include "base/Expr/Expr.h"

#include <cstdio>
#include <cstring>

namespace tilewright::expr {

Expr Expr::integer(int64_t value) {
  Expr expr;
  expr.number = value;
  return expr;
}

Expr Expr::flag(bool value) {
  Expr expr = integer(value);
  expr.kindOfNode = Kind::Flag;
  return expr;
}

Expr Expr::real(double value) {
  Expr expr;
  expr.kindOfNode = Kind::Real;
  std::memcpy(&expr.number, &value, sizeof(value));
  return expr;
}

Expr Expr::symbol(Kind kind, std::string text) {
  Expr expr;
  expr.kindOfNode = kind;
  expr.word = std::move(text);
  return expr;
}

Expr Expr::dim(std::string argument, int64_t position) {
  Expr expr = symbol(Kind::Dim, std::move(argument));
  expr.number = position;
  return expr;
}

Expr Expr::call(Function function, std::vector<Expr> operands) {
  assert(operands.size() == rowOf(function).arity && "checked where expressions are read");
  Expr expr;
  expr.kindOfNode = Kind::Call;
  expr.functionOfCall = function;
  expr.operandsOfCall = std::move(operands);
  return expr;
}

Result<Expr> Expr::call(const std::string &function, std::vector<Expr> operands) {
  std::optional<Function> found = findFunction(function);
  if (!found)
    return Status::failure(
        Code::BadBundle, "the functions of expressions must be known, but got '" + function + "'");
  unsigned arity = rowOf(*found).arity;
  if (operands.size() != arity)
    return Status::failure(Code::BadBundle, "function '" + function + "' of an expression takes " +
                                                std::to_string(arity) + " operands, but got " +
                                                std::to_string(operands.size()));
  return call(*found, std::move(operands));
}

/// In MLIR's string syntax.
static void printQuoted(std::string &out, const std::string &text) {
  out += '"';
  for (unsigned char c : text) {
    char escape[4];
    std::snprintf(escape, sizeof(escape), "\\%02X", c);
    if (c == '\\')
      out += "\\\\";
    else if (c < ' ' || c > '~' || c == '"')
      out += escape;
    else
      out += char(c);
  }
  out += '"';
}

void Expr::print(std::string &out, int leastPrecedence, bool hasOperators) const {
  switch (kindOfNode) {
  case Kind::Integer:
    out += std::to_string(number);
    return;
  case Kind::Flag:
    out += number ? "true" : "false";
    return;
  case Kind::Enum:
    printQuoted(out, word);
    return;
  case Kind::Type:
  case Kind::Name:
    out += word;
    return;
  case Kind::Dim:
    out += "dim(" + word + ", " + std::to_string(number) + ")";
    return;
  case Kind::Real: {
    double value;
    std::memcpy(&value, &number, sizeof(value));
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%.9g", value);
    out += digits;
    return;
  }
  case Kind::Call:
    break;
  }
  const FunctionRow &row = rowOf(functionOfCall);
  int precedence = precedenceOf(functionOfCall);
  if (precedence == 3 || (precedence == 0 && !hasOperators)) {
    out += std::string(row.called) + "(";
    for (size_t i = 0; i < operandsOfCall.size(); ++i) {
      out += i == 0 ? "" : ", ";
      operandsOfCall[i].print(out, 0, hasOperators);
    }
    out += ")";
    return;
  }
  out += precedence < leastPrecedence ? "(" : "";
  // Left-associative: an equal operator on the right needs parentheses; comparisons on both sides.
  operandsOfCall[0].print(out, std::max(precedence, 1), hasOperators);
  out += " " + std::string(row.name) + " ";
  operandsOfCall[1].print(out, precedence + 1, hasOperators);
  out += precedence < leastPrecedence ? ")" : "";
}

} // namespace tilewright::expr
