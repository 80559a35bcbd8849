// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An expression without MLIR: the contents of a #tile.expr, in a bundle and in text.

#ifndef TILEWRIGHT_BASE_EXPR_EXPR_H
#define TILEWRIGHT_BASE_EXPR_EXPR_H

#include "base/Expr/Function.h"
#include "base/Support/Status.h"

#include <vector>

namespace tilewright::expr {

class Expr {
public:
  using Kind = expr::Kind;

  Expr() = default; // 0
  static Expr integer(int64_t value);
  static Expr flag(bool value);
  static Expr real(double value);
  /// A literal that is an enum value or a type, or a name.
  static Expr symbol(Kind kind, std::string text);
  static Expr name(std::string name) { return symbol(Kind::Name, std::move(name)); }
  static Expr dim(std::string argument, int64_t position);
  static Expr call(Function function, std::vector<Expr> operands);
  /// By a name of the function. Errors: there is no such function, or it takes another number of
  /// operands.
  static Result<Expr> call(const std::string &function, std::vector<Expr> operands);

  Kind kind() const { return kindOfNode; }
  /// For a call.
  Function function() const { return functionOfCall; }
  const std::vector<Expr> &operands() const { return operandsOfCall; }
  std::vector<Expr> &operands() { return operandsOfCall; }
  /// For an integer or a flag; the position of a dim.
  int64_t value() const { return number; }
  /// An enum value, a type, a name, or the argument of a dim.
  const std::string &text() const { return word; }
  /// The position of the argument that a name or a dim refers to; -1: not resolved yet.
  int argument() const { return place; }
  void setArgument(int index) { place = index; }

  bool isLiteral() const { return kindOfNode <= Kind::Type; }
  /// Whether they are written equally.
  bool operator==(const Expr &other) const {
    return kindOfNode == other.kindOfNode && number == other.number && word == other.word &&
           (kindOfNode != Kind::Call || functionOfCall == other.functionOfCall) &&
           operandsOfCall == other.operandsOfCall;
  }

  /// In an author's syntax, without redundant parentheses. `hasOperators`: comparisons are infix,
  /// as everywhere except in the attribute itself.
  std::string toString(bool hasOperators = true) const {
    std::string text;
    print(text, 0, hasOperators);
    return text;
  }

private:
  void print(std::string &out, int leastPrecedence, bool hasOperators) const;

  Kind kindOfNode = Kind::Integer;
  Function functionOfCall = Function::Add;
  int32_t place = -1;
  int64_t number = 0; // bits of a real
  std::string word;
  std::vector<Expr> operandsOfCall;
};

} // namespace tilewright::expr

#endif // TILEWRIGHT_BASE_EXPR_EXPR_H
