// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of functions, and the kinds of their operands.

#include "base/Expr/Function.h"

#include <iterator>

namespace tilewright::expr {

/// In the order of Function.
static constexpr FunctionRow table[] = {{"+", "", 2},
                                        {"-", "", 2},
                                        {"*", "", 2},
                                        {"ceildiv", "ceildiv", 2},
                                        {"floordiv", "floordiv", 2},
                                        {"mod", "mod", 2},
                                        {"min", "min", 2},
                                        {"max", "max", 2},
                                        {"<", "lt", 2},
                                        {"<=", "le", 2},
                                        {">", "gt", 2},
                                        {">=", "ge", 2},
                                        {"==", "eq", 2},
                                        {"ne", "ne", 2},
                                        {"and", "and", 2},
                                        {"or", "or", 2},
                                        {"not", "not", 1},
                                        {"select", "select", 3},
                                        {"sm_count", "sm_count", 0},
                                        {"accumulator", "accumulator", 1},
                                        {"bits", "bits", 1},
                                        {"finite", "finite", 1},
                                        {"block", "block", 0},
                                        {"block_in", "block_in", 1},
                                        {"replaced", "replaced", 1},
                                        {"multiprocessors", "multiprocessors", 0},
                                        {"on_gpu", "on_gpu", 0},
                                        {"has_roles", "has_roles", 0},
                                        {"adds_in_order", "adds_in_order", 0},
                                        {"padded", "padded", 1},
                                        {"padded_for", "padded_for", 4},
                                        {"ascending", "ascending", 1},
                                        {"within", "within", 3},
                                        {"within_first", "within_first", 5}};
static_assert(std::size(table) == size_t(Function::WithinFirst) + 1, "a row for each function");

std::string_view kindName(Kind kind) {
  static constexpr std::string_view names[] = {"int",  "flag", "enum", "type",
                                               "name", "dim",  "call", "float"};
  return names[size_t(kind)];
}

const FunctionRow &rowOf(Function function) { return table[size_t(function)]; }

std::optional<Function> findFunction(std::string_view name) {
  for (size_t i = 0; i < std::size(table); ++i)
    if (table[i].name == name || (table[i].called == name && !name.empty()))
      return Function(i);
  return std::nullopt;
}

std::string listFunctions() {
  std::string text;
  for (const FunctionRow &row : table)
    if (!row.called.empty())
      text += (text.empty() ? "" : ", ") + std::string(row.called);
  return text + " and dim";
}

int precedenceOf(Function function) {
  if (!rowOf(function).isOperator())
    return 3;
  if (isComparison(function))
    return 0;
  return function == Function::Mul ? 2 : 1;
}

static std::string quoted(Function function) {
  return "'" + std::string(rowOf(function).name) + "'";
}

CallKind checkCall(Function function, const Kind *operands) {
  auto fits = [](Kind kind, Kind wanted) { return kind == wanted || kind == Kind::Name; };
  auto isNumber = [&](unsigned i) {
    return operands[i] == Kind::Integer || operands[i] == Kind::Real;
  };
  auto reject = [&](const std::string &text) { return CallKind{Kind::Integer, text}; };
  auto nameOf = [&](unsigned i) { return std::string(kindName(operands[i])); };
  /// The result kind `kind` if the operands are of kind `wanted`.
  auto expect = [&](Kind wanted, Kind kind, unsigned count) -> CallKind {
    for (unsigned i = 0; i < count; ++i)
      if (!fits(operands[i], wanted))
        return reject("must apply " + quoted(function) + " to a value of kind " +
                      std::string(kindName(wanted)) + ", but got " + nameOf(i));
    return {kind, {}};
  };
  auto expectSame = [&](unsigned i, unsigned j, Kind kind) -> CallKind {
    if (fits(operands[i], operands[j]) || operands[j] == Kind::Name)
      return {kind, {}};
    return reject("must apply " + quoted(function) + " to values of one kind, but got " +
                  nameOf(i) + " and " + nameOf(j));
  };
  switch (function) {
  case Function::Equal:
  case Function::NotEqual:
    return isNumber(0) && isNumber(1) ? CallKind{Kind::Flag, {}} : expectSame(0, 1, Kind::Flag);
  case Function::Less:
  case Function::LessEqual:
  case Function::Greater:
  case Function::GreaterEqual: {
    // Floats are valid in place of integers.
    Kind kinds[] = {isNumber(0) ? Kind::Integer : operands[0],
                    isNumber(1) ? Kind::Integer : operands[1]};
    operands = kinds;
    return expect(Kind::Integer, Kind::Flag, 2);
  }
  case Function::And:
  case Function::Or:
    return expect(Kind::Flag, Kind::Flag, 2);
  case Function::Not:
    return expect(Kind::Flag, Kind::Flag, 1);
  case Function::Select:
    if (CallKind condition = expect(Kind::Flag, Kind::Flag, 1); !condition.rejection.empty())
      return condition;
    return expectSame(1, 2, operands[1] == Kind::Name ? operands[2] : operands[1]);
  case Function::Accumulator:
    return expect(Kind::Type, Kind::Type, 1);
  case Function::Bits:
    return expect(Kind::Type, Kind::Integer, 1);
  case Function::Finite:
    return expect(Kind::Real, Kind::Flag, 1);
  case Function::Replaced:
    return expect(Kind::Enum, Kind::Flag, 1);
  case Function::SmCount:
  case Function::Multiprocessors:
    return {};
  case Function::OnGpu:
  case Function::HasRoles:
  case Function::AddsInOrder:
    return {Kind::Flag, {}};
  case Function::Padded:
    return expect(Kind::Integer, Kind::Integer, 1);
  case Function::PaddedFor: {
    constexpr Kind wanted[] = {Kind::Enum, Kind::Integer, Kind::Integer, Kind::Type};
    for (const Kind *each = wanted; each != std::end(wanted); ++each, ++operands)
      if (CallKind kind = expect(*each, Kind::Integer, 1); !kind.rejection.empty())
        return kind;
    return {};
  }
  default:
    return expect(Kind::Integer, Kind::Integer, 2);
  }
}

std::string faultText(Fault fault, const std::string &expression) {
  auto fail = [&](const char *what) { return what + (" in '" + expression + "'"); };
  return fault == Fault::Overflow ? fail("overflow of 64 bits") : fail("division by zero");
}

} // namespace tilewright::expr
