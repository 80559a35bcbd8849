// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lowering of #tile.expr to operations of arith. base/Expr defines what the functions compute.

#include "passes/ExprLowering.h"

#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using expr::Function;

bool tilewright::isNotNegative(tile::ExprAttr expr) {
  switch (expr.getKind()) {
  case tile::ExprKind::Dim:
    return true;
  case tile::ExprKind::Int:
    return expr.getValue() >= 0;
  case tile::ExprKind::Call:
    return llvm::is_contained({Function::Add, Function::Mul, Function::CeilDiv, Function::FloorDiv,
                               Function::Mod, Function::Min, Function::Max},
                              tile::getFunction(expr)) &&
           llvm::all_of(expr.getOperands(), isNotNegative);
  default:
    return false;
  }
}

/// Whether the evaluation may be undefined: a division by zero, or of the smallest integer by -1.
static bool mayBeUndefined(tile::ExprAttr expr) {
  if (expr.getKind() != tile::ExprKind::Call)
    return false;
  if (llvm::is_contained({Function::CeilDiv, Function::FloorDiv, Function::Mod},
                         tile::getFunction(expr))) {
    tile::ExprAttr divisor = expr.getOperands()[1];
    if (divisor.getKind() != tile::ExprKind::Int || divisor.getValue() == 0 ||
        divisor.getValue() == -1)
      return true;
  }
  return llvm::any_of(expr.getOperands(), mayBeUndefined);
}

static Value fail(const ExprLowering &lowering, const Twine &message) {
  if (lowering.fail)
    lowering.fail(message);
  return nullptr;
}

static Value makeInteger(const ExprLowering &lowering, int64_t value) {
  ImplicitLocOpBuilder &b = lowering.b;
  APInt bits(lowering.width, static_cast<uint64_t>(value), /*isSigned=*/true,
             /*implicitTrunc=*/true);
  return arith::ConstantOp::create(b, b.getIntegerAttr(b.getIntegerType(lowering.width), bits));
}

static Value makeFlag(const ExprLowering &lowering, bool value) {
  return arith::ConstantOp::create(lowering.b, lowering.b.getBoolAttr(value));
}

static Value lowerDivision(const ExprLowering &lowering, tile::ExprAttr expr, Value x, Value y) {
  ImplicitLocOpBuilder &b = lowering.b;
  Function function = tile::getFunction(expr);
  if (lowering.isPlain && lowering.isPlain(expr)) {
    // An unsigned division by a constant is a few instructions.
    if (function == Function::CeilDiv) {
      Value less = b.createOrFold<arith::AddIOp>(y, makeInteger(lowering, -1));
      return arith::DivUIOp::create(b, b.createOrFold<arith::AddIOp>(x, less), y);
    }
    if (function == Function::FloorDiv)
      return arith::DivSIOp::create(b, x, y);
    return arith::RemSIOp::create(b, x, y);
  }
  if (function == Function::CeilDiv)
    return arith::CeilDivSIOp::create(b, x, y);
  Value quotient = arith::FloorDivSIOp::create(b, x, y);
  if (function == Function::FloorDiv)
    return quotient;
  return arith::SubIOp::create(b, x, arith::MulIOp::create(b, quotient, y));
}

/// and, or and select. An operand that may be undefined is evaluated in a separate branch.
static Value lowerChoice(const ExprLowering &lowering, tile::ExprAttr expr) {
  ImplicitLocOpBuilder &b = lowering.b;
  Function function = tile::getFunction(expr);
  ArrayRef<tile::ExprAttr> operands = expr.getOperands();
  Value condition = lowerExpr(lowering, operands[0]);
  if (!condition)
    return nullptr;
  // An operand, or null if the condition alone determines the result.
  tile::ExprAttr yes = function == Function::Or ? nullptr : operands[1];
  tile::ExprAttr no = function == Function::Select ? operands[2]
                      : function == Function::Or   ? operands[1]
                                                   : nullptr;
  tile::ExprAttr choices[2] = {yes, no};
  if (llvm::none_of(operands.drop_front(), mayBeUndefined)) {
    Value first = lowerExpr(lowering, operands[1]);
    if (!first)
      return nullptr;
    if (function == Function::And)
      return arith::AndIOp::create(b, condition, first);
    if (function == Function::Or)
      return arith::OrIOp::create(b, condition, first);
    Value second = lowerExpr(lowering, operands[2]);
    return second ? arith::SelectOp::create(b, condition, first, second) : Value();
  }
  Value values[2];
  Block *blocks[2] = {new Block, new Block};
  for (auto [block, value, operand] : llvm::zip_equal(blocks, values, choices)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(block);
    value = operand ? lowerExpr(lowering, operand) : makeFlag(lowering, function == Function::Or);
  }
  if (!values[0] || !values[1]) {
    for (Block *block : blocks)
      delete block;
    return nullptr;
  }
  auto branch = scf::IfOp::create(b, values[0].getType(), condition, /*addThenBlock=*/false,
                                  /*addElseBlock=*/false);
  for (auto [region, block, value] : llvm::zip_equal(branch->getRegions(), blocks, values)) {
    region.push_back(block);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(block);
    scf::YieldOp::create(b, value);
  }
  return branch.getResult(0);
}

static std::optional<arith::CmpIPredicate> getPredicate(Function function) {
  using Predicate = arith::CmpIPredicate;
  switch (function) {
  case Function::Equal:
    return Predicate::eq;
  case Function::NotEqual:
    return Predicate::ne;
  case Function::Less:
    return Predicate::slt;
  case Function::LessEqual:
    return Predicate::sle;
  case Function::Greater:
    return Predicate::sgt;
  case Function::GreaterEqual:
    return Predicate::sge;
  default:
    return std::nullopt;
  }
}

static Value lowerCall(const ExprLowering &lowering, tile::ExprAttr expr) {
  ImplicitLocOpBuilder &b = lowering.b;
  Function function = tile::getFunction(expr);
  if (llvm::is_contained({Function::And, Function::Or, Function::Select}, function))
    return lowerChoice(lowering, expr);
  SmallVector<Value, 2> operands;
  for (tile::ExprAttr operand : expr.getOperands()) {
    operands.push_back(lowerExpr(lowering, operand));
    if (!operands.back())
      return nullptr;
  }
  if (std::optional<arith::CmpIPredicate> predicate = getPredicate(function))
    return arith::CmpIOp::create(b, *predicate, operands[0], operands[1]);
  switch (function) {
  case Function::Add:
    return b.createOrFold<arith::AddIOp>(operands[0], operands[1]);
  case Function::Sub:
    return b.createOrFold<arith::SubIOp>(operands[0], operands[1]);
  case Function::Mul:
    return b.createOrFold<arith::MulIOp>(operands[0], operands[1]);
  case Function::CeilDiv:
  case Function::FloorDiv:
  case Function::Mod:
    return lowerDivision(lowering, expr, operands[0], operands[1]);
  case Function::Min:
    return arith::MinSIOp::create(b, operands[0], operands[1]);
  case Function::Max:
    return arith::MaxSIOp::create(b, operands[0], operands[1]);
  case Function::Not:
    return arith::XOrIOp::create(b, operands[0], makeFlag(lowering, true));
  default:
    return fail(lowering,
                "'" + expr.getName() +
                    "' is supported on the device only as the extent of the last grid id; let the "
                    "caller pass it as an argument");
  }
}

Value tilewright::lowerExpr(const ExprLowering &lowering, tile::ExprAttr expr) {
  switch (expr.getKind()) {
  case tile::ExprKind::Int:
    return makeInteger(lowering, expr.getValue());
  case tile::ExprKind::Flag:
    return makeFlag(lowering, expr.getValue());
  case tile::ExprKind::Enum:
  case tile::ExprKind::Type:
  case tile::ExprKind::Float:
    return fail(lowering,
                "'" + expr.getName() + "' must have been folded before code is generated");
  case tile::ExprKind::Name:
  case tile::ExprKind::Dim: {
    if (Value value = lowering.leaf(expr))
      return value;
    return fail(lowering, "'" + expr.getName() + "' names neither an argument nor a parameter");
  }
  case tile::ExprKind::Call:
    return lowerCall(lowering, expr);
  }
  llvm_unreachable("all kinds have been handled");
}
