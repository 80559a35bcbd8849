// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expressions of kernels in terms of programs.

#include "passes/Tile/LaunchNames.h"

#include "dialect/Tile/TileExpr.h"
#include "dialect/Tile/TileExprEval.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

ExprAttr tilewright::makeDim(MLIRContext *context, StringRef name, int64_t dim) {
  return ExprAttr::get(context, ExprKind::Dim, dim, name, {});
}

ExprAttr tilewright::rewriteExpr(ExprAttr expr,
                                 function_ref<std::optional<ExprAttr>(ExprAttr)> replace) {
  if (std::optional<ExprAttr> other = replace(expr))
    return *other;
  if (expr.getKind() != ExprKind::Call)
    return expr;
  SmallVector<ExprAttr> operands;
  for (ExprAttr operand : expr.getOperands())
    if (!operands.emplace_back(rewriteExpr(operand, replace)))
      return {};
  return ExprAttr::get(expr.getContext(), ExprKind::Call, expr.getValue(), expr.getName(),
                       operands);
}

ExprAttr tilewright::both(ExprAttr a, ExprAttr b) {
  if (!a || !b)
    return a ? a : b;
  return makeCall(a.getContext(), Function::And, {a, b});
}

bool tilewright::isFalse(ExprAttr condition) {
  ExprEnvironment environment;
  environment.name = [](StringRef) { return ExprAttr(); };
  llvm::Expected<ExprAttr> flag = reduceExpr(condition, environment);
  bool result = flag && flag->getKind() == ExprKind::Flag && !flag->getValue();
  llvm::consumeError(flag.takeError());
  return result;
}

static ExprAttr toExpr(Value value, KernelOp kernel, unsigned depth) {
  constexpr unsigned mostSteps = 8;
  MLIRContext *context = value.getContext();
  Operation *op = value.getDefiningOp();
  if (!op || depth > mostSteps)
    return {};
  if (auto param = dyn_cast<ParamOp>(op))
    return param.getExpr();
  if (auto dim = dyn_cast<DimOp>(op)) {
    auto view = dyn_cast<BlockArgument>(dim.getView());
    if (!view || view.getOwner() != &kernel.getBody().front())
      return {};
    auto name = cast<StringAttr>(kernel.getArgNames()[view.getArgNumber()]);
    return makeDim(context, name, static_cast<int64_t>(dim.getDim()));
  }
  IntegerAttr number;
  if (matchPattern(op, m_Constant(&number)))
    return ExprAttr::getInt(context, number.getInt());
  if (!isa<arith::MulIOp, arith::DivSIOp, arith::CeilDivSIOp>(op))
    return {};
  ExprAttr a = toExpr(op->getOperand(0), kernel, depth + 1);
  ExprAttr b = toExpr(op->getOperand(1), kernel, depth + 1);
  if (!a || !b)
    return {};
  if (isa<arith::MulIOp>(op))
    return makeCall(context, Function::Mul, {a, b});
  ExprAttr divisor = makeCall(context, Function::Max, {b, ExprAttr::getInt(context, 1)});
  return makeCall(context, isa<arith::DivSIOp>(op) ? Function::FloorDiv : Function::CeilDiv,
                  {a, divisor});
}

ExprAttr tilewright::toExpr(Value value, KernelOp kernel) {
  return ::toExpr(value, kernel, /*depth=*/0);
}

LaunchNames::LaunchNames(KernelOp kernel, LaunchOp launch)
    : kernel(kernel), program(launch->getParentOfType<ProgramOp>()), launch(launch) {}

ExprAttr LaunchNames::get(ExprAttr expr) const {
  return rewriteExpr(expr, [&](ExprAttr part) -> std::optional<ExprAttr> {
    if (part.getKind() == ExprKind::Name)
      return getParam(part);
    if (part.getKind() == ExprKind::Dim)
      return getDim(part);
    return std::nullopt;
  });
}

ExprAttr LaunchNames::getExtent(Dim dim) const {
  MLIRContext *context = LaunchOp(launch).getContext();
  if (dim.isSymbol())
    return get(ExprAttr::getName(context, dim.symbol));
  return dim.isUnknown() ? ExprAttr() : ExprAttr::getInt(context, dim.extent);
}

ExprAttr LaunchNames::getBits(Type type) const {
  Type element = getElementType(type);
  MLIRContext *context = element.getContext();
  auto param = dyn_cast<ParamType>(element);
  ExprAttr own = param ? get(ExprAttr::getName(context, param.getName()))
                       : ExprAttr::getType(context, getTypeSpelling(element));
  return own ? makeCall(context, Function::Bits, {own}) : ExprAttr();
}

ExprAttr LaunchNames::getInstances() const {
  ExprAttr instances;
  for (auto extent : KernelOp(cast<KernelOp>(kernel.op)).getGrid().getAsRange<ExprAttr>()) {
    ExprAttr own = get(extent);
    if (!own)
      return {};
    instances = instances ? makeCall(own.getContext(), Function::Mul, {instances, own}) : own;
  }
  return instances;
}

StringAttr LaunchNames::getArgument(unsigned number) const {
  auto passed = dyn_cast<BlockArgument>(LaunchOp(launch).getArgs()[number]);
  return passed ? cast<StringAttr>(program.argNames[passed.getArgNumber()]) : StringAttr();
}

ExprAttr LaunchNames::getParam(ExprAttr name) const {
  ParamDeclAttr param = kernel.findParam(name.getName());
  if (!param)
    return {};
  if (param.getDerived())
    return get(param.getDefaultValue());
  LaunchOp given = launch;
  for (auto [own, value] : llvm::zip(given.getWithNames().getAsRange<StringAttr>(),
                                     given.getWithValues().getAsRange<ExprAttr>()))
    if (own.getValue() == name.getName())
      return value;
  if (program.findParam(name.getName()))
    return name;
  return param.getDefaultValue() ? get(param.getDefaultValue()) : ExprAttr();
}

ExprAttr LaunchNames::getDim(ExprAttr dim) const {
  int number = kernel.findArg(dim.getName());
  if (number < 0)
    return dim; // of a capture
  if (auto workspace = LaunchOp(launch).getArgs()[number].getDefiningOp<WorkspaceOp>())
    return cast<ExprAttr>(workspace.getExtents()[static_cast<size_t>(dim.getValue())]);
  StringAttr argument = getArgument(number);
  return argument ? makeDim(dim.getContext(), argument, dim.getValue()) : ExprAttr();
}

bool LaunchNames::isSameInProgram(StringRef name) const {
  ParamDeclAttr param = program.findParam(name);
  ExprAttr same = ExprAttr::getName(LaunchOp(launch).getContext(), name), own = get(same);
  return param && own && (own == same || (param.getDerived() && own == param.getDefaultValue()));
}
