// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates flags of scalar functions that depend only on parameters.

#include "passes/Blocks/FlagEvaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

/// The maximum depth of evaluation: a flag may be a function of functions, and so on.
static constexpr unsigned mostCallsOfFlags = 256, mostNestedFlags = 256;

std::optional<bool> FlagEvaluator::evaluate(FlatSymbolRefAttr name) {
  auto function = name ? symbols.lookup<func::FuncOp>(name.getValue()) : func::FuncOp();
  if (!function || function.isExternal() || ++calls > mostCallsOfFlags)
    return std::nullopt;
  auto result = dyn_cast<func::ReturnOp>(function.getBody().back().getTerminator());
  return result ? evaluate(result.getOperand(0)) : std::nullopt;
}

std::optional<bool> FlagEvaluator::evaluate(Value value) {
  Operation *op = value.getDefiningOp();
  APInt constant;
  if (!op || !value.getType().isInteger(1))
    return std::nullopt;
  auto [it, isNew] = known.try_emplace(value);
  if (!isNew || nesting >= mostNestedFlags)
    return it->second;
  ++nesting;
  std::optional<bool> result;
  if (matchPattern(value, m_ConstantInt(&constant))) {
    result = constant.isOne();
  } else if (auto param = dyn_cast<ParamOp>(op)) {
    llvm::Expected<ExprAttr> flag = reduceExpr(param.getExpr(), getEnvironment(bindings));
    if (flag && flag->getKind() == ExprKind::Flag)
      result = flag->getValue() != 0;
    llvm::consumeError(flag.takeError());
  } else if (isa<arith::OrIOp, arith::AndIOp>(op)) {
    bool deciding = isa<arith::OrIOp>(op);
    std::optional<bool> a = evaluate(op->getOperand(0)), b = evaluate(op->getOperand(1));
    if (a == deciding || b == deciding)
      result = deciding;
    else if (a && b)
      result = !deciding;
  } else if (auto call = dyn_cast<func::CallOp>(op); call && call.getNumResults() == 1) {
    result = evaluate(call.getCalleeAttr());
  }
  --nesting;
  known[value] = result;
  return result;
}
