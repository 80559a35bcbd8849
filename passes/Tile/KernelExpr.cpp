// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the operations that compute an expression.

#include "passes/Tile/KernelExpr.h"

#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

static bool readsDevice(ExprAttr expr) {
  return (expr.getKind() == ExprKind::Call && getFunction(expr) == Function::SmCount) ||
         llvm::any_of(expr.getOperands(), readsDevice);
}

/// Whether it is known when parameters are bound.
static bool isOfParameters(ExprAttr expr, const Signature &signature) {
  bool result = !readsDevice(expr);
  walkExpr(expr, [&](ExprAttr leaf) {
    if (leaf.getKind() == ExprKind::Dim ||
        (leaf.getKind() == ExprKind::Name && !signature.findParam(leaf.getName())))
      result = false;
  });
  return result;
}

bool tilewright::canEmitExpr(ExprAttr expr, KernelOp kernel) {
  Signature signature(kernel);
  if (isOfParameters(expr, signature))
    return true;
  if (expr.getKind() == ExprKind::Dim || expr.getKind() == ExprKind::Name)
    return signature.findArg(expr.getName()) >= 0;
  if (expr.getKind() != ExprKind::Call)
    return false;
  Function function = getFunction(expr);
  bool isSelect = function == Function::Select;
  if (function > Function::Max && !isSelect)
    return false;
  if (isSelect && !isOfParameters(expr.getOperands()[0], signature))
    return false;
  return llvm::all_of(expr.getOperands(),
                      [&](ExprAttr operand) { return canEmitExpr(operand, kernel); });
}

Value tilewright::emitExpr(OpBuilder &b, Location loc, ExprAttr expr, Type type, KernelOp kernel,
                           ValueRange args) {
  Signature signature(kernel);
  if (isOfParameters(expr, signature))
    return ParamOp::create(b, loc, type, expr);
  int argument = signature.findArg(expr.getName());
  if (expr.getKind() == ExprKind::Dim)
    return argument < 0 ? Value()
                        : DimOp::create(b, loc, b.getI32Type(), args[static_cast<size_t>(argument)],
                                        static_cast<uint64_t>(expr.getValue()))
                              .getResult();
  if (expr.getKind() == ExprKind::Name)
    return argument < 0 ? Value() : args[static_cast<size_t>(argument)];
  if (expr.getKind() != ExprKind::Call)
    return {};
  SmallVector<Value> values;
  for (auto [i, operand] : llvm::enumerate(expr.getOperands())) {
    bool isCondition = getFunction(expr) == Function::Select && i == 0;
    if (!values.emplace_back(
            emitExpr(b, loc, operand, isCondition ? b.getI1Type() : type, kernel, args)))
      return {};
  }
  auto binary = [&](auto op) -> Value {
    return decltype(op)::create(b, loc, values[0], values[1]).getResult();
  };
  switch (getFunction(expr)) {
  case Function::Add:
    return binary(arith::AddIOp());
  case Function::Sub:
    return binary(arith::SubIOp());
  case Function::Mul:
    return binary(arith::MulIOp());
  case Function::CeilDiv:
    return binary(arith::CeilDivSIOp());
  case Function::FloorDiv:
    return binary(arith::DivSIOp());
  case Function::Mod:
    return binary(arith::RemSIOp());
  case Function::Min:
    return binary(arith::MinSIOp());
  case Function::Max:
    return binary(arith::MaxSIOp());
  case Function::Select:
    return arith::SelectOp::create(b, loc, values[0], values[1], values[2]);
  default:
    return {};
  }
}
