// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of expressions: their names and operands, the kinds of their operands and results,
// and their values. Parser, verifier and binding of the tile dialect, bundles, launches and the
// code of grids all use this table.

#ifndef TILEWRIGHT_BASE_EXPR_FUNCTION_H
#define TILEWRIGHT_BASE_EXPR_FUNCTION_H

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright::expr {

/// A node of an expression, or the kind of its value. As the kind of a value, Name is a kind that
/// is not known yet, and Dim and Call do not occur. In the order of tile::ExprKind.
enum class Kind : uint8_t { Integer, Flag, Enum, Type, Name, Dim, Call, Real };
/// int, flag, enum, type, ..., float.
std::string_view kindName(Kind kind);

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
  Finite,
  Block, // the following occur in kernels, but not in bundles
  BlockIn,
  Replaced,
  Multiprocessors, // to PaddedFor: become other expressions when the target is bound
  OnGpu,
  HasRoles,
  AddsInOrder, // of tile-combine-sums
  Padded,
  PaddedFor,
  Ascending,
  Within,
  WithinFirst
};

struct FunctionRow {
  std::string_view name;   ///< name in expressions; the symbol of an operator
  std::string_view called; ///< name in kernels; empty for + - *
  unsigned arity;

  /// Whether it is an infix operator; comparisons may also be functions.
  bool isOperator() const { return name != called; }
};
const FunctionRow &rowOf(Function function);
/// By either name. Nothing if there is no such function.
std::optional<Function> findFunction(std::string_view name);
/// "ceildiv, floordiv, ... and dim": the functions that an author may call.
std::string listFunctions();

/// Whether tile-bind-target replaces it: its value depends on facts about targets.
constexpr bool isOfTarget(Function function) {
  return function >= Function::Multiprocessors && function <= Function::PaddedFor;
}
constexpr bool isComparison(Function function) {
  return function >= Function::Less && function <= Function::NotEqual;
}
/// 0: a comparison, 1: a sum, 2: a product, 3: needs no parentheses.
int precedenceOf(Function function);

/// The kind of a call's value, or the error in its operands: "must apply '+' to a value of kind
/// int, but got flag".
struct CallKind {
  Kind kind = Kind::Integer;
  std::string rejection; ///< empty: none
};
/// `operands` has as many kinds as the function takes operands. Not for block() and rules for
/// elements, which are not part of expressions.
CallKind checkCall(Function function, const Kind *operands);

/// The reason why a call has no value.
enum class Fault : uint8_t { None, Overflow, DivisionByZero };
/// "overflow of 64 bits in 'x + 1'".
std::string faultText(Fault fault, const std::string &expression);

/// Add to NotEqual of 64-bit integers; of flags, which are 0 and 1, Equal and NotEqual. Divisions
/// round up, or down as mod does, whose value has the sign of the divisor.
inline Fault compute(Function function, int64_t a, int64_t b, int64_t &result) {
  switch (function) {
  case Function::Add:
    return __builtin_add_overflow(a, b, &result) ? Fault::Overflow : Fault::None;
  case Function::Sub:
    return __builtin_sub_overflow(a, b, &result) ? Fault::Overflow : Fault::None;
  case Function::Mul:
    return __builtin_mul_overflow(a, b, &result) ? Fault::Overflow : Fault::None;
  case Function::CeilDiv:
  case Function::FloorDiv:
  case Function::Mod: {
    if (b == 0)
      return Fault::DivisionByZero;
    // For nonnegative numbers, the narrow division takes a third of the time.
    if (uint64_t(a | b) <= std::numeric_limits<uint32_t>::max()) {
      uint32_t quotient = uint32_t(a) / uint32_t(b), remainder = uint32_t(a) % uint32_t(b);
      result = function == Function::Mod       ? remainder
               : function == Function::CeilDiv ? int64_t(quotient) + (remainder != 0)
                                               : quotient;
      return Fault::None;
    }
    if (b == -1) { // the division would trap for the smallest integer
      if (function != Function::Mod)
        return __builtin_sub_overflow(0, a, &result) ? Fault::Overflow : Fault::None;
      result = 0;
      return Fault::None;
    }
    int64_t quotient = a / b, remainder = a % b;
    bool isBelow = remainder != 0 && (remainder < 0) != (b < 0);
    result = function == Function::Mod       ? remainder + (isBelow ? b : 0)
             : function == Function::CeilDiv ? quotient + (remainder != 0 && !isBelow)
                                             : quotient - isBelow;
    return Fault::None;
  }
  case Function::Min:
    result = std::min(a, b);
    return Fault::None;
  case Function::Max:
    result = std::max(a, b);
    return Fault::None;
  case Function::Less:
    result = a < b;
    return Fault::None;
  case Function::LessEqual:
    result = a <= b;
    return Fault::None;
  case Function::Greater:
    result = a > b;
    return Fault::None;
  case Function::GreaterEqual:
    result = a >= b;
    return Fault::None;
  case Function::Equal:
    result = a == b;
    return Fault::None;
  default:
    result = a != b;
    return Fault::None;
  }
}

/// A comparison of floats.
inline bool compareReals(Function function, double a, double b) {
  switch (function) {
  case Function::Less:
    return a < b;
  case Function::LessEqual:
    return a <= b;
  case Function::Greater:
    return a > b;
  case Function::GreaterEqual:
    return a >= b;
  case Function::Equal:
    return a == b;
  default:
    return a != b;
  }
}

} // namespace tilewright::expr

#endif // TILEWRIGHT_BASE_EXPR_FUNCTION_H
