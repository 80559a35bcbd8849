// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The expressions of grids, workspaces and conditions, as a bundle holds them: those of
// #tile.expr, over argument shapes, scalar arguments, bound parameters and sm_count(). Floats occur
// as arguments only, to be compared and asked whether they are finite.
//
// In JSON: 5, true, ["enum", "top_left"], ["type", "bf16"], ["name", "window_left"],
// ["dim", "q", 2], and ["ceildiv", a, b] for a call.
//
// Evaluation allocates nothing unless it fails.

#ifndef TILEWRIGHT_RUNTIME_EXPR_H
#define TILEWRIGHT_RUNTIME_EXPR_H

#include "runtime/Argument.h"
#include "runtime/Json.h"

namespace tilewright::runtime {

struct ArgumentSpec;

/// What an expression is evaluated over. `arguments[i]` belongs to argument i of the contract that
/// it was resolved against.
struct ExprInputs {
  const Argument *const *arguments = nullptr;
  int64_t smCount = 0;
};

class Expr {
public:
  /// Real is the kind of a value only, that of a float argument.
  enum class Kind : uint8_t { Integer, Flag, Enum, Type, Name, Dim, Call, Real };
  enum class Function : uint8_t {
    Add,
    Sub,
    Mul,
    CeilDiv,
    FloorDiv,
    Mod,
    Min,
    Max,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
    Not,
    Select,
    SmCount,
    Accumulator,
    Bits,
    Finite
  };

  static Expr integer(int64_t value);
  static Expr flag(bool value);
  static Expr symbol(Kind kind, std::string text); // an enum value or a type
  static Expr name(std::string name);
  static Expr dim(std::string argument, int64_t position);
  /// `function` is as #tile.expr spells it: "+", "ceildiv", "<", "lt", "sm_count" ...
  static Expected<Expr> call(const std::string &function, std::vector<Expr> operands);

  static Expected<Expr> parse(const Json &json, int depth = 0);
  Json toJson() const;
  /// As an author writes it, without parentheses that change nothing.
  std::string toString() const { return toString(0); }

  bool isLiteral() const { return kind <= Kind::Type; }
  /// Literals only.
  bool operator==(const Expr &other) const {
    return kind == other.kind && value == other.value && text == other.text;
  }

  /// Replaces parameters by their values and finds the arguments that names stand for. `where` is
  /// the owner, for messages; only conditions may read floats.
  Status resolve(const std::vector<std::pair<std::string, Expr>> &params,
                 const std::vector<ArgumentSpec> &arguments, const std::string &where,
                 bool isCondition = false);

  /// Resolved expressions only. Fails on overflow of 64 bits, division by zero, and operands of a
  /// wrong kind.
  Status evaluateInteger(const ExprInputs &inputs, int64_t &result) const;
  Status evaluateFlag(const ExprInputs &inputs, bool &result) const;
  /// A condition of a launch: as evaluateFlag, but one that reads the extent of an absent view
  /// holds.
  Status evaluateCondition(const ExprInputs &inputs, bool &result) const;

private:
  friend class ExprCode;
  struct Value {
    Kind kind;
    int64_t number; // of Real, the bits of the double
    const char *text;

    bool isNumber() const { return kind == Kind::Integer || kind == Kind::Real; }
    double real() const;
  };
  std::string toString(int leastPrecedence) const;
  Status evaluate(const ExprInputs &inputs, Value &result) const;
  Status evaluateCall(const ExprInputs &inputs, Value &result) const;
  bool readsAbsent(const ExprInputs &inputs) const;
  Status evaluateIntegers(int64_t a, int64_t b, Value &result) const;
  bool compareReals(double a, double b) const;

  Kind kind = Kind::Integer;
  Function function = Function::Add;
  int32_t argument = -1;
  int64_t value = 0;
  std::string text;
  std::vector<Expr> operands;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_EXPR_H
