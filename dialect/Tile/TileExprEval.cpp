// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluation of expressions, in 64-bit integers with every overflow reported.

#include "dialect/Tile/TileExprEval.h"

#include "dialect/Tile/TileExpr.h"
#include "dialect/Tile/TileParsing.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

template <typename... Parts> llvm::Error makeError(Parts &&...parts) {
  std::string text;
  llvm::raw_string_ostream os(text);
  (os << ... << parts);
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

/// Unknown operands are not checked.
llvm::Error checkKinds(ExprAttr call) {
  auto kinds = llvm::map_to_vector(call.getOperands(), [](ExprAttr operand) {
    return operand.isConstant() ? static_cast<expr::Kind>(operand.getKind()) : expr::Kind::Name;
  });
  std::string rejection = expr::checkCall(getFunction(call), kinds.data()).rejection;
  return rejection.empty() ? llvm::Error::success()
                           : makeError("'", toString(call), "' ", rejection);
}

/// A call all of whose operands are literals.
llvm::Expected<ExprAttr> evaluateCall(ExprAttr call) {
  using expr::Function;
  if (llvm::Error error = checkKinds(call))
    return std::move(error);
  MLIRContext *context = call.getContext();
  ArrayRef<ExprAttr> operands = call.getOperands();
  ExprAttr a = operands.front();
  Function function = getFunction(call);
  switch (function) {
  case Function::Not:
    return ExprAttr::getFlag(context, !a.getValue());
  case Function::Accumulator:
    return ExprAttr::getType(
        context, getTypeSpelling(getAccumulatorType(getTypeBySpelling(context, a.getName()))));
  case Function::Bits:
    return ExprAttr::getInt(context,
                            getTypeBySpelling(context, a.getName()).getIntOrFloatBitWidth());
  case Function::Finite:
    return ExprAttr::getFlag(context, std::isfinite(a.getNumber()));
  default:
    break;
  }
  ExprAttr b = operands[1];
  if (a.getKind() == ExprKind::Float || b.getKind() == ExprKind::Float)
    return ExprAttr::getFlag(context, expr::compareReals(function, a.getNumber(), b.getNumber()));
  if (a.getKind() != ExprKind::Int)
    return ExprAttr::getFlag(context, (a == b) == (function == Function::Equal));
  int64_t result;
  expr::Fault fault = expr::compute(function, a.getValue(), b.getValue(), result);
  if (fault != expr::Fault::None)
    return makeError(expr::faultText(fault, toString(call)));
  return expr::isComparison(function) ? ExprAttr::getFlag(context, result != 0)
                                      : ExprAttr::getInt(context, result);
}

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
  using expr::Function;
  Function function = getFunction(expr);
  if (isChosenBlock(expr))
    return makeError(expr.getName(),
                     "() is chosen by tile-choose-blocks, which has not run; run that pass first");
  if (function == Function::Replaced && environment.replaced)
    return ExprAttr::getFlag(context, environment.replaced(expr.getOperands().front().getName()));
  if (function == Function::Replaced)
    return expr;
  if (expr::isOfTarget(function))
    return makeError(expr.getName(),
                     "() is bound by tile-bind-target, which has not run; run that pass first");
  if (function == Function::SmCount)
    return environment.smCount ? ExprAttr::getInt(context, *environment.smCount) : expr;

  SmallVector<ExprAttr> operands(expr.getOperands());
  auto rebuild = [&] {
    return ExprAttr::get(context, ExprKind::Call, 0, expr.getName(), operands);
  };
  size_t numReduced = 0;
  bool isAnd = function == Function::And;
  if (isAnd || function == Function::Or || function == Function::Select) {
    llvm::Expected<ExprAttr> condition = reduceExpr(operands[0], environment);
    if (!condition)
      return condition;
    operands[0] = *condition;
    numReduced = 1;
    if (condition->isConstant()) {
      if (llvm::Error error = checkKinds(rebuild()))
        return std::move(error);
      bool value = condition->getValue();
      if (function == Function::Select)
        return reduceExpr(operands[value ? 1 : 2], environment);
      if (value != isAnd)
        return *condition;
      llvm::Expected<ExprAttr> other = reduceExpr(operands[1], environment);
      if (!other)
        return other;
      operands[1] = *other;
      if (llvm::Error error = checkKinds(rebuild()))
        return std::move(error);
      return other;
    }
    if (function != Function::Select) { // x and true, x or false
      llvm::Expected<ExprAttr> other = reduceExpr(operands[1], environment);
      if (!other)
        return other;
      operands[1] = *other;
      numReduced = 2;
      if (other->getKind() == ExprKind::Flag && (other->getValue() != 0) == isAnd) {
        if (llvm::Error error = checkKinds(rebuild()))
          return std::move(error);
        return operands[0];
      }
    }
  }

  for (ExprAttr &operand : llvm::drop_begin(operands, numReduced)) {
    llvm::Expected<ExprAttr> reduced = reduceExpr(operand, environment);
    if (!reduced)
      return reduced;
    operand = *reduced;
  }
  ExprAttr call = rebuild();
  if (llvm::all_of(operands, [](ExprAttr operand) { return operand.isConstant(); }))
    return evaluateCall(call);
  if (function == Function::Mul) // once x, as people read it in errors
    for (unsigned i : {0u, 1u})
      if (operands[i].getKind() == ExprKind::Int && operands[i].getValue() == 1)
        return operands[1 - i];
  return call;
}

llvm::Expected<ExprAttr> tilewright::tile::evaluateExpr(ExprAttr expr,
                                                        const ExprEnvironment &environment) {
  llvm::Expected<ExprAttr> value = reduceExpr(expr, environment);
  if (!value || value->isConstant())
    return value;
  return makeError("'", toString(expr), "' needs a value for '", toString(*value), "'");
}

namespace {

/// A literal of kind Int or Flag.
struct Scalar {
  ExprKind kind;
  int64_t value;
};

/// Computes integers and flags without creating attributes, which takes most of the time of
/// reduceExpr. Nullopt for everything else, and for what reduceExpr reports as an error.
class ScalarEvaluation {
public:
  explicit ScalarEvaluation(const ExprEnvironment &environment) : environment(environment) {}

  std::optional<Scalar> get(ExprAttr expr) const {
    switch (expr.getKind()) {
    case ExprKind::Int:
    case ExprKind::Flag:
      return Scalar{expr.getKind(), expr.getValue()};
    case ExprKind::Name: {
      ExprAttr value = environment.name ? environment.name(expr.getName()) : ExprAttr();
      if (!value || (value.getKind() != ExprKind::Int && value.getKind() != ExprKind::Flag))
        return std::nullopt;
      return Scalar{value.getKind(), value.getValue()};
    }
    case ExprKind::Dim:
      if (environment.dim)
        if (std::optional<int64_t> extent = environment.dim(expr.getName(), expr.getValue()))
          return Scalar{ExprKind::Int, *extent};
      return std::nullopt;
    case ExprKind::Call:
      return getCall(expr);
    default:
      return std::nullopt;
    }
  }

private:
  std::optional<Scalar> getCall(ExprAttr call) const {
    using expr::Function;
    Function function = getFunction(call);
    ArrayRef<ExprAttr> operands = call.getOperands();
    if (function > Function::NotEqual) // not a function of two numbers
      return getChoice(function, operands);
    std::optional<Scalar> a = get(operands[0]), b = a ? get(operands[1]) : std::nullopt;
    if (!b || a->kind != ExprKind::Int || b->kind != ExprKind::Int)
      return std::nullopt;
    int64_t result;
    if (expr::compute(function, a->value, b->value, result) != expr::Fault::None)
      return std::nullopt;
    return Scalar{expr::isComparison(function) ? ExprKind::Flag : ExprKind::Int, result};
  }

  /// As in reduceExpr, an operand that is irrelevant may have no value, but its kind is checked if
  /// it is a literal.
  std::optional<Scalar> getChoice(expr::Function function, ArrayRef<ExprAttr> operands) const {
    using expr::Function;
    bool isSelect = function == Function::Select;
    if (!isSelect && function != Function::And && function != Function::Or)
      return std::nullopt;
    std::optional<Scalar> condition = get(operands[0]);
    if (!condition || condition->kind != ExprKind::Flag)
      return std::nullopt;
    if (isSelect) {
      ExprAttr other = operands[condition->value ? 2 : 1];
      std::optional<Scalar> value = get(operands[condition->value ? 1 : 2]);
      return value && other.isConstant() && other.getKind() != value->kind ? std::nullopt : value;
    }
    if ((condition->value != 0) != (function == Function::And) && !operands[1].isConstant())
      return condition;
    std::optional<Scalar> other = get(operands[1]);
    if (!other || other->kind != ExprKind::Flag)
      return std::nullopt;
    return (condition->value != 0) == (function == Function::And) ? other : condition;
  }

  const ExprEnvironment &environment;
};

} // namespace

llvm::Expected<int64_t> tilewright::tile::evaluateInt(ExprAttr expr,
                                                      const ExprEnvironment &environment) {
  if (auto known = ScalarEvaluation(environment).get(expr); known && known->kind == ExprKind::Int)
    return known->value;
  llvm::Expected<ExprAttr> value = evaluateExpr(expr, environment);
  if (!value)
    return value.takeError();
  if (value->getKind() != ExprKind::Int)
    return makeError("'", toString(expr), "' must be an integer, but got '", toString(*value), "'");
  return value->getValue();
}

llvm::Expected<bool> tilewright::tile::evaluateFlag(ExprAttr expr,
                                                    const ExprEnvironment &environment) {
  if (auto known = ScalarEvaluation(environment).get(expr); known && known->kind == ExprKind::Flag)
    return known->value != 0;
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

std::string tilewright::tile::toString(ExprAttr expr) { return toExpr(expr).toString(); }
