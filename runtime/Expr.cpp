// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading, resolving and evaluating expressions.

#include "runtime/Expr.h"

#include "runtime/Manifest.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

constexpr int maxDepth = 64;

struct FunctionRow {
  const char *name; // an operator where `alias` is a function
  const char *alias;
  unsigned arity;
};

/// In the order of Expr::Function.
constexpr FunctionRow functions[] = {{"+", nullptr, 2},        {"-", nullptr, 2},
                                     {"*", nullptr, 2},        {"ceildiv", nullptr, 2},
                                     {"floordiv", nullptr, 2}, {"mod", nullptr, 2},
                                     {"min", nullptr, 2},      {"max", nullptr, 2},
                                     {"<", "lt", 2},           {"<=", "le", 2},
                                     {">", "gt", 2},           {">=", "ge", 2},
                                     {"==", "eq", 2},          {"ne", nullptr, 2},
                                     {"and", nullptr, 2},      {"or", nullptr, 2},
                                     {"not", nullptr, 1},      {"select", nullptr, 3},
                                     {"sm_count", nullptr, 0}, {"accumulator", nullptr, 1},
                                     {"bits", nullptr, 1},     {"finite", nullptr, 1}};

Status bad(std::string message) { return Status::failure(Code::BadBundle, std::move(message)); }

} // namespace

Expr Expr::integer(int64_t value) {
  Expr expr;
  expr.value = value;
  return expr;
}

Expr Expr::flag(bool value) {
  Expr expr;
  expr.kind = Kind::Flag;
  expr.value = value;
  return expr;
}

Expr Expr::symbol(Kind kind, std::string text) {
  Expr expr;
  expr.kind = kind;
  expr.text = std::move(text);
  return expr;
}

Expr Expr::name(std::string name) { return symbol(Kind::Name, std::move(name)); }

Expr Expr::dim(std::string argument, int64_t position) {
  Expr expr = symbol(Kind::Dim, std::move(argument));
  expr.value = position;
  return expr;
}

Expected<Expr> Expr::call(const std::string &function, std::vector<Expr> operands) {
  for (size_t i = 0; i < std::size(functions); ++i) {
    const FunctionRow &row = functions[i];
    if (function != row.name && (!row.alias || function != row.alias))
      continue;
    if (operands.size() != row.arity)
      return bad("function '" + function + "' of an expression takes " + std::to_string(row.arity) +
                 " operands, but got " + std::to_string(operands.size()));
    Expr expr = symbol(Kind::Call, row.name);
    expr.function = Function(i);
    expr.operands = std::move(operands);
    return expr;
  }
  return bad("unknown function '" + function + "' in an expression");
}

Expected<Expr> Expr::parse(const Json &json, int depth) {
  if (depth > maxDepth)
    return bad("an expression has more than 64 levels of nesting");
  if (json.kind == Json::Kind::Integer)
    return integer(json.number);
  if (json.kind == Json::Kind::Flag)
    return flag(json.truth);
  if (json.kind != Json::Kind::Array || json.items.empty() ||
      json.items[0].kind != Json::Kind::String)
    return bad("an expression must be an integer, a flag or a list that starts with a string, but "
               "got '" +
               json.write() + "'");
  const std::string &head = json.items[0].text;
  bool hasName = json.items.size() > 1 && json.items[1].kind == Json::Kind::String;
  if (head == "enum" || head == "type" || head == "name") {
    if (!hasName || json.items.size() != 2)
      return bad("'" + head + "' of an expression takes one string, but got '" + json.write() +
                 "'");
    const std::string &text = json.items[1].text;
    if (head == "type" && !parseElementType(text))
      return bad("unknown element type '" + text + "'");
    return symbol(head == "enum" ? Kind::Enum : head == "type" ? Kind::Type : Kind::Name, text);
  }
  if (head == "dim") {
    if (!hasName || json.items.size() != 3 || json.items[2].kind != Json::Kind::Integer)
      return bad("'dim' of an expression takes an argument and a position, but got '" +
                 json.write() + "'");
    return dim(json.items[1].text, json.items[2].number);
  }
  std::vector<Expr> operands;
  for (size_t i = 1; i < json.items.size(); ++i) {
    Expected<Expr> operand = parse(json.items[i], depth + 1);
    if (!operand)
      return operand;
    operands.push_back(std::move(*operand));
  }
  return call(head, std::move(operands));
}

Json Expr::toJson() const {
  switch (kind) {
  case Kind::Integer:
    return Json::integer(value);
  case Kind::Flag:
    return Json::flag(value != 0);
  case Kind::Enum:
    return Json::array({Json::string("enum"), Json::string(text)});
  case Kind::Type:
    return Json::array({Json::string("type"), Json::string(text)});
  case Kind::Name:
    return Json::array({Json::string("name"), Json::string(text)});
  case Kind::Dim:
    return Json::array({Json::string("dim"), Json::string(text), Json::integer(value)});
  case Kind::Call:
  case Kind::Real:
    break;
  }
  Json json = Json::array({Json::string(text)});
  for (const Expr &operand : operands)
    json.items.push_back(operand.toJson());
  return json;
}

/// 0: a comparison, 1: a sum, 2: a product, 3: what needs no parentheses.
static int precedenceOf(Expr::Function function) {
  using Function = Expr::Function;
  if (function >= Function::Less && function <= Function::Equal)
    return 0;
  return function == Function::Add || function == Function::Sub ? 1
         : function == Function::Mul                            ? 2
                                                                : 3;
}

std::string Expr::toString(int leastPrecedence) const {
  switch (kind) {
  case Kind::Integer:
    return std::to_string(value);
  case Kind::Flag:
    return value ? "true" : "false";
  case Kind::Enum:
    return '"' + text + '"';
  case Kind::Type:
  case Kind::Name:
    return text;
  case Kind::Dim:
    return "dim(" + text + ", " + std::to_string(value) + ")";
  case Kind::Call:
  case Kind::Real:
    break;
  }
  int precedence = precedenceOf(function);
  if (precedence < 3) {
    // Left-associative: an equal operator on the right needs parentheses; comparisons on both
    // sides.
    std::string out = operands[0].toString(std::max(precedence, 1)) + " " + text + " " +
                      operands[1].toString(precedence + 1);
    return precedence < leastPrecedence ? "(" + out + ")" : out;
  }
  std::string out = text + "(";
  for (size_t i = 0; i < operands.size(); ++i)
    out += (i == 0 ? "" : ", ") + operands[i].toString();
  return out + ")";
}

Status Expr::resolve(const std::vector<std::pair<std::string, Expr>> &params,
                     const std::vector<ArgumentSpec> &arguments, const std::string &where,
                     bool isCondition) {
  for (Expr &operand : operands)
    if (Status status = operand.resolve(params, arguments, where, isCondition); !status)
      return status;
  if (kind != Kind::Name && kind != Kind::Dim)
    return Status::success();
  if (kind == Kind::Name)
    for (const auto &param : params)
      if (param.first == text) {
        Expr bound = param.second; // may be a part of this
        *this = std::move(bound);
        return Status::success();
      }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name != text)
      continue;
    const ArgumentSpec &spec = arguments[i];
    argument = int32_t(i);
    if (kind == Kind::Name) {
      bool isReal = spec.type == ElementType::F32 || spec.type == ElementType::F64;
      if (spec.isView || (isFloat(spec.type) && !(isReal && isCondition)))
        return bad("'" + text + "' in an expression of " + where + " must be a parameter or an " +
                   (isCondition ? "integer, f32 or f64 scalar" : "integer scalar"));
      return Status::success();
    }
    if (!spec.isView || value < 0 || value >= int64_t(spec.extents.size()))
      return bad("'" + toString() + "' of " + where + " names no dimension of a view");
    return Status::success();
  }
  return bad("'" + text + "' in an expression of " + where +
             " is neither a parameter nor an argument");
}

Status Expr::evaluateInteger(const ExprInputs &inputs, int64_t &result) const {
  Value value;
  if (Status status = evaluate(inputs, value); !status)
    return status;
  if (value.kind != Kind::Integer)
    return bad("'" + toString() + "' must be an integer");
  result = value.number;
  return Status::success();
}

Status Expr::evaluateFlag(const ExprInputs &inputs, bool &result) const {
  Value value;
  if (Status status = evaluate(inputs, value); !status)
    return status;
  if (value.kind != Kind::Flag)
    return bad("'" + toString() + "' must be a flag");
  result = value.number != 0;
  return Status::success();
}

Status Expr::evaluateCondition(const ExprInputs &inputs, bool &result) const {
  Status status = evaluateFlag(inputs, result);
  if (status.ok() && result)
    return status;
  if (!readsAbsent(inputs))
    return status;
  result = true;
  return Status::success();
}

bool Expr::readsAbsent(const ExprInputs &inputs) const {
  if (kind == Kind::Dim && inputs.arguments[argument]->kind == Argument::Kind::Absent)
    return true;
  for (const Expr &operand : operands)
    if (operand.readsAbsent(inputs))
      return true;
  return false;
}

Status Expr::evaluate(const ExprInputs &inputs, Value &result) const {
  switch (kind) {
  case Kind::Integer:
  case Kind::Flag:
  case Kind::Enum:
  case Kind::Type:
    result = {kind, value, text.c_str()};
    return Status::success();
  case Kind::Name: {
    const Argument &scalar = *inputs.arguments[argument];
    if (isFloat(scalar.type)) {
      double real = scalar.real();
      result = {Kind::Real, 0, ""};
      std::memcpy(&result.number, &real, sizeof(real));
      return Status::success();
    }
    bool isFlag = scalar.type == ElementType::I1;
    result = {isFlag ? Kind::Flag : Kind::Integer,
              isFlag ? (scalar.bits & 0xff) != 0 : scalar.integer(), ""};
    return Status::success();
  }
  case Kind::Dim: {
    const Argument &view = *inputs.arguments[argument];
    result = {Kind::Integer, view.kind == Argument::Kind::View ? view.extents[value] : 0, ""};
    return Status::success();
  }
  case Kind::Call:
    return evaluateCall(inputs, result);
  case Kind::Real:
    break;
  }
  return bad("a float that is no argument in '" + toString() + "'");
}

double Expr::Value::real() const {
  if (kind == Kind::Integer)
    return double(number);
  double real;
  std::memcpy(&real, &number, sizeof(real));
  return real;
}

bool Expr::compareReals(double a, double b) const {
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

Status Expr::evaluateCall(const ExprInputs &inputs, Value &result) const {
  auto wrongKind = [&](const char *wanted) {
    return bad("operands of '" + text + "' must be " + wanted + " in '" + toString() + "'");
  };
  if (function == Function::SmCount) {
    result = {Kind::Integer, inputs.smCount, ""};
    return Status::success();
  }
  Value a;
  if (Status status = operands[0].evaluate(inputs, a); !status)
    return status;
  switch (function) {
  case Function::Select:
    if (a.kind != Kind::Flag)
      return wrongKind("a flag and two values");
    return operands[a.number ? 1 : 2].evaluate(inputs, result);
  case Function::And:
  case Function::Or: // the second operand is not computed where the first decides
    if (a.kind != Kind::Flag)
      return wrongKind("flags");
    if ((a.number != 0) == (function == Function::Or)) {
      result = a;
      return Status::success();
    }
    if (Status status = operands[1].evaluate(inputs, result); !status)
      return status;
    return result.kind == Kind::Flag ? Status::success() : wrongKind("flags");
  case Function::Not:
    if (a.kind != Kind::Flag)
      return wrongKind("flags");
    result = {Kind::Flag, !a.number, ""};
    return Status::success();
  case Function::Accumulator:
  case Function::Bits: {
    std::optional<ElementType> type;
    if (a.kind == Kind::Type)
      type = parseElementType(a.text);
    if (!type)
      return wrongKind("types");
    if (function == Function::Bits)
      result = {Kind::Integer, *type == ElementType::I1 ? 1 : int64_t(byteWidth(*type)) * 8, ""};
    else
      result = {Kind::Type, 0, *type == ElementType::F64 ? "f64" : "f32"};
    return Status::success();
  }
  case Function::Finite:
    if (a.kind != Kind::Real)
      return wrongKind("floats");
    result = {Kind::Flag, std::isfinite(a.real()), ""};
    return Status::success();
  default:
    break;
  }
  Value b;
  if (Status status = operands[1].evaluate(inputs, b); !status)
    return status;
  bool isComparison = function >= Function::Less && function <= Function::NotEqual;
  if (isComparison && a.isNumber() && b.isNumber() &&
      (a.kind == Kind::Real || b.kind == Kind::Real)) {
    result = {Kind::Flag, compareReals(a.real(), b.real()), ""};
    return Status::success();
  }
  if (function == Function::Equal || function == Function::NotEqual) {
    if (a.kind != b.kind)
      return wrongKind("of one kind");
    bool same = a.number == b.number && std::strcmp(a.text, b.text) == 0;
    result = {Kind::Flag, same == (function == Function::Equal), ""};
    return Status::success();
  }
  if (a.kind != Kind::Integer || b.kind != Kind::Integer)
    return wrongKind("integers");
  return evaluateIntegers(a.number, b.number, result);
}

Status Expr::evaluateIntegers(int64_t a, int64_t b, Value &result) const {
  auto overflows = [&] { return bad("overflow of 64 bits in '" + toString() + "'"); };
  result = {Kind::Integer, 0, ""};
  int64_t &number = result.number;
  switch (function) {
  case Function::Add:
    return __builtin_add_overflow(a, b, &number) ? overflows() : Status::success();
  case Function::Sub:
    return __builtin_sub_overflow(a, b, &number) ? overflows() : Status::success();
  case Function::Mul:
    return __builtin_mul_overflow(a, b, &number) ? overflows() : Status::success();
  case Function::Min:
    number = std::min(a, b);
    return Status::success();
  case Function::Max:
    number = std::max(a, b);
    return Status::success();
  case Function::Less:
    result = {Kind::Flag, a < b, ""};
    return Status::success();
  case Function::LessEqual:
    result = {Kind::Flag, a <= b, ""};
    return Status::success();
  case Function::Greater:
    result = {Kind::Flag, a > b, ""};
    return Status::success();
  case Function::GreaterEqual:
    result = {Kind::Flag, a >= b, ""};
    return Status::success();
  default:
    break;
  }
  if (b == 0)
    return bad("division by zero in '" + toString() + "'");
  bool isExtreme = a == std::numeric_limits<int64_t>::min() && b == -1;
  if (function == Function::Mod) { // has the sign of the divisor, as floordiv asks
    int64_t remainder = isExtreme ? 0 : a % b;
    number = remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
    return Status::success();
  }
  if (isExtreme)
    return overflows();
  int64_t quotient = a / b;
  bool isInexact = a % b != 0, isNegative = (a < 0) != (b < 0);
  if (function == Function::CeilDiv)
    number = quotient + (isInexact && !isNegative);
  else
    number = quotient - (isInexact && isNegative);
  return Status::success();
}
