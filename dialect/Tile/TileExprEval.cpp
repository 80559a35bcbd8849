// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluation of expressions, in 64-bit integers with every overflow reported.

#include "dialect/Tile/TileExprEval.h"

#include "dialect/Tile/TileParsing.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace tilewright::tile;

namespace {

template <typename... Parts> llvm::Error makeError(Parts &&...parts) {
  std::string text;
  llvm::raw_string_ostream os(text);
  (os << ... << parts);
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

llvm::Error wrongKind(ExprAttr expr, StringRef wanted, ExprAttr operand) {
  return makeError("operands of '", expr.getName(), "' must be ", wanted, ", but got '",
                   toString(operand), "' in '", toString(expr), "'");
}

/// A call all of whose operands are literals.
class Call {
public:
  explicit Call(ExprAttr expr) : expr(expr), name(expr.getName()) {}

  llvm::Expected<ExprAttr> evaluate() {
    MLIRContext *context = expr.getContext();
    ArrayRef<ExprAttr> operands = expr.getOperands();
    if (name == "==" || name == "ne") {
      if (hasFloat())
        return flag((operands[0].getNumber() == operands[1].getNumber()) == (name == "=="));
      if (operands[0].getKind() != operands[1].getKind())
        return wrongKind(expr, "of one kind", operands[1]);
      return ExprAttr::getFlag(context, (operands[0] == operands[1]) == (name == "=="));
    }
    if (name == "not") {
      if (operands[0].getKind() != ExprKind::Flag)
        return wrongKind(expr, "flags", operands[0]);
      return ExprAttr::getFlag(context, !operands[0].getValue());
    }
    if (name == "accumulator" || name == "bits") {
      if (operands[0].getKind() != ExprKind::Type)
        return wrongKind(expr, "types", operands[0]);
      Type type = getTypeBySpelling(context, operands[0].getName());
      if (name == "bits")
        return ExprAttr::getInt(context, type.getIntOrFloatBitWidth());
      return ExprAttr::getType(context, getTypeSpelling(getAccumulatorType(type)));
    }
    if (name == "finite") {
      if (operands[0].getKind() != ExprKind::Float)
        return wrongKind(expr, "floats", operands[0]);
      return flag(std::isfinite(operands[0].getNumber()));
    }
    if (hasFloat() && (name.starts_with("<") || name.starts_with(">")))
      return compareFloats(operands[0].getNumber(), operands[1].getNumber());
    for (ExprAttr operand : operands)
      if (operand.getKind() != ExprKind::Int)
        return wrongKind(expr, "integers", operand);
    if (operands.size() != 2)
      return makeError("unknown function '", name, "' in '", toString(expr), "'");
    return evaluateIntegers(operands[0].getValue(), operands[1].getValue());
  }

private:
  /// Numbers, of which one at least is a float.
  bool hasFloat() const {
    auto isFloat = [](ExprAttr operand) { return operand.getKind() == ExprKind::Float; };
    auto isNumber = [&](ExprAttr operand) {
      return isFloat(operand) || operand.getKind() == ExprKind::Int;
    };
    return llvm::any_of(expr.getOperands(), isFloat) && llvm::all_of(expr.getOperands(), isNumber);
  }

  ExprAttr compareFloats(double a, double b) {
    if (name == "<")
      return flag(a < b);
    if (name == "<=")
      return flag(a <= b);
    return flag(name == ">" ? a > b : a >= b);
  }

  llvm::Expected<ExprAttr> evaluateIntegers(int64_t a, int64_t b) {
    if (name == "<")
      return flag(a < b);
    if (name == "<=")
      return flag(a <= b);
    if (name == ">")
      return flag(a > b);
    if (name == ">=")
      return flag(a >= b);
    if (name == "min")
      return integer(std::min(a, b));
    if (name == "max")
      return integer(std::max(a, b));
    int64_t result;
    if (name == "+")
      return llvm::AddOverflow(a, b, result) ? overflows() : integer(result);
    if (name == "-")
      return llvm::SubOverflow(a, b, result) ? overflows() : integer(result);
    if (name == "*")
      return llvm::MulOverflow(a, b, result) ? overflows() : integer(result);
    if (b == 0)
      return makeError("division by zero in '", toString(expr), "'");
    bool overflow = a == std::numeric_limits<int64_t>::min() && b == -1;
    if (name == "mod") { // has the sign of the divisor, as floordiv asks
      int64_t remainder = overflow ? 0 : a % b;
      return integer(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
    }
    if (name == "ceildiv")
      return overflow ? overflows() : integer(llvm::divideCeilSigned(a, b));
    if (name == "floordiv")
      return overflow ? overflows() : integer(llvm::divideFloorSigned(a, b));
    return makeError("unknown function '", name, "' in '", toString(expr), "'");
  }

  ExprAttr flag(bool value) { return ExprAttr::getFlag(expr.getContext(), value); }
  llvm::Expected<ExprAttr> integer(int64_t value) {
    return ExprAttr::getInt(expr.getContext(), value);
  }
  llvm::Expected<ExprAttr> overflows() {
    return makeError("overflow of 64 bits in '", toString(expr), "'");
  }

  ExprAttr expr;
  StringRef name;
};

} // namespace

llvm::Expected<ExprAttr> tilewright::tile::reduceExpr(ExprAttr expr,
                                                      const ExprEnvironment &environment) {
  MLIRContext *context = expr.getContext();
  if (expr.isConstant())
    return expr;
  if (expr.getKind() == ExprKind::Name) {
    ExprAttr value = environment.name ? environment.name(expr.getName()) : ExprAttr();
    return value ? value : expr;
  }
  if (expr.getKind() == ExprKind::Dim) {
    std::optional<int64_t> extent;
    if (environment.dim)
      extent = environment.dim(expr.getName(), expr.getValue());
    return extent ? ExprAttr::getInt(context, *extent) : expr;
  }
  StringRef name = expr.getName();
  if (name == "block")
    return makeError("block() is chosen by tile-choose-blocks, which has not run");
  if (name == "sm_count")
    return environment.smCount ? ExprAttr::getInt(context, *environment.smCount) : expr;

  SmallVector<ExprAttr> operands(expr.getOperands());
  auto rebuild = [&] { return ExprAttr::get(context, ExprKind::Call, 0, name, operands); };
  if (name == "select" || name == "and" || name == "or") {
    llvm::Expected<ExprAttr> condition = reduceExpr(operands[0], environment);
    if (!condition)
      return condition;
    operands[0] = *condition;
    if (condition->isConstant()) {
      if (condition->getKind() != ExprKind::Flag)
        return wrongKind(rebuild(), name == "select" ? "a flag and two values" : "flags",
                         *condition);
      bool value = condition->getValue();
      if (name == "select")
        return reduceExpr(operands[value ? 1 : 2], environment);
      if (value == (name == "or"))
        return *condition;
      llvm::Expected<ExprAttr> other = reduceExpr(operands[1], environment);
      if (other && other->isConstant() && other->getKind() != ExprKind::Flag)
        return wrongKind(rebuild(), "flags", *other);
      return other;
    }
  }

  for (ExprAttr &operand : operands) {
    llvm::Expected<ExprAttr> reduced = reduceExpr(operand, environment);
    if (!reduced)
      return reduced;
    operand = *reduced;
  }
  ExprAttr call = rebuild();
  if (llvm::all_of(operands, [](ExprAttr operand) { return operand.isConstant(); }))
    return Call(call).evaluate();
  return call;
}

llvm::Expected<ExprAttr> tilewright::tile::evaluateExpr(ExprAttr expr,
                                                        const ExprEnvironment &environment) {
  llvm::Expected<ExprAttr> value = reduceExpr(expr, environment);
  if (!value || value->isConstant())
    return value;
  return makeError("'", toString(expr), "' needs a value for '", toString(*value), "'");
}

llvm::Expected<int64_t> tilewright::tile::evaluateInt(ExprAttr expr,
                                                      const ExprEnvironment &environment) {
  llvm::Expected<ExprAttr> value = evaluateExpr(expr, environment);
  if (!value)
    return value.takeError();
  if (value->getKind() != ExprKind::Int)
    return makeError("'", toString(expr), "' must be an integer, but got '", toString(*value), "'");
  return value->getValue();
}

llvm::Expected<bool> tilewright::tile::evaluateFlag(ExprAttr expr,
                                                    const ExprEnvironment &environment) {
  llvm::Expected<ExprAttr> value = evaluateExpr(expr, environment);
  if (!value)
    return value.takeError();
  if (value->getKind() != ExprKind::Flag)
    return makeError("'", toString(expr), "' must be a flag, but got '", toString(*value), "'");
  return value->getValue() != 0;
}

std::string tilewright::tile::toString(ParamDeclAttr decl) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printParamDecl(os, decl);
  return text;
}

std::string tilewright::tile::toString(ExprAttr expr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  printExprText(os, expr);
  return text;
}
