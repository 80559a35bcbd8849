// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits values of a mapped function into terms.

#include "passes/Tgpu/Math/MapTerms.h"

#include "passes/FastMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

Terms TermSplitter::split(Value value) {
  auto [it, isNew] = known.try_emplace(value);
  if (!isNew)
    return it->second;
  Terms terms = compute(value);
  known[value] = terms;
  return terms;
}

Value TermSplitter::getRows(const Terms &terms) {
  if (terms.rows || !terms.uniform)
    return terms.rows;
  return at({terms.uniform}, [&](OpBuilder &b) -> Value {
    return tile::FullOp::create(b, map.getLoc(), typeOfRows(terms.uniform.getType()),
                                terms.uniform);
  });
}

void TermSplitter::eraseUnused() {
  for (Operation *op : llvm::reverse(built))
    if (isOpTriviallyDead(op))
      op->erase();
}

/// Builds an operation before the loop, if its operands are known there, else at the map.
Value TermSplitter::at(ValueRange operands, Build build) {
  bool isInvariant = loop && llvm::all_of(operands, [&](Value operand) {
                       return loop.isDefinedOutsideOfLoop(operand);
                     });
  return buildBefore(isInvariant ? loop.getOperation() : map.getOperation(), build);
}
Value TermSplitter::atColumns(ValueRange operands, Build build) {
  return keepsColumns ? at(operands, build) : buildBefore(map, build);
}
Value TermSplitter::buildBefore(Operation *op, Build build) {
  OpBuilder b(op);
  Value result = build(b);
  built.push_back(result.getDefiningOp());
  return result;
}

static Terms whole(Value value) {
  Terms terms;
  terms.varying = value;
  return terms;
}

/// Whether the operation also exists for tiles, element by element. Others, such as the read of one
/// element, take only scalars.
static bool isElementwise(Operation *op) {
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) || isa<tile::CastOp>(op);
}

Terms TermSplitter::compute(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    Terms terms = ofOperand(map.getOperands()[argument.getArgNumber()]);
    return terms.isUniform() && !terms.uniform ? whole(value) : terms;
  }
  Operation *op = value.getDefiningOp();
  SmallVector<Terms> operands;
  for (Value operand : op->getOperands())
    operands.push_back(split(operand));
  if (op->getNumRegions() == 0 && op->getNumResults() == 1 && isPure(op) &&
      llvm::all_of(operands, [](const Terms &each) { return each.isForRows(); })) {
    bool hasRows = llvm::any_of(operands, [](const Terms &each) { return each.rows; });
    return hasRows && !isElementwise(op) ? whole(value) : ofRows(op, operands);
  }
  if (auto cast = dyn_cast<tile::CastOp>(op); cast && cast.getReassoc())
    return operands[0].varying ? whole(value) : convert(cast, operands[0]);
  if ((!isa<arith::AddIOp, arith::SubIOp>(op) && !mayReassociate(op)) ||
      llvm::all_of(operands, [](const Terms &each) { return each.isWhole(); }))
    return whole(value);
  if (isa<arith::AddFOp, arith::AddIOp>(op))
    return add(op, operands[0], operands[1], /*isSum=*/true);
  if (isa<arith::SubFOp, arith::SubIOp>(op))
    return add(op, operands[0], operands[1], /*isSum=*/false);
  if (isa<arith::MulFOp>(op))
    for (unsigned i : {0, 1})
      if (operands[i].isUniform())
        return multiply(op, operands[1 - i], operands[i].uniform);
  return whole(value);
}

Terms TermSplitter::ofOperand(Value operand) {
  Terms terms;
  Location loc = map.getLoc();
  auto tile = dyn_cast<RankedTensorType>(operand.getType());
  if (!tile)
    terms.uniform = operand;
  else if (auto full = operand.getDefiningOp<tile::FullOp>())
    terms.uniform = full.getValue();
  else if (auto expand = operand.getDefiningOp<tile::ExpandOp>();
           expand && expand.getDim() == 1 &&
           expand.getSource().getType() == typeOfRows(tile.getElementType()))
    terms.rows = expand.getSource();
  else if (auto iota = operand.getDefiningOp<tile::IotaOp>()) {
    Value start = iota.getStart();
    if (iota.getDim() == 0)
      terms.rows = at({start}, [&](OpBuilder &b) -> Value {
        return tile::IotaOp::create(b, loc, typeOfRows(start.getType()), start, 0);
      });
    else {
      terms.uniform = start;
      Value zero = at({}, [&](OpBuilder &b) -> Value {
        return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
      });
      terms.columns = atColumns({zero}, [&](OpBuilder &b) -> Value {
        return tile::IotaOp::create(b, loc, tile, zero, 1);
      });
    }
  }
  return terms;
}

/// An operation whose operands depend on rows, or on nothing.
Terms TermSplitter::ofRows(Operation *op, ArrayRef<Terms> operands) {
  Terms terms;
  bool hasRows = llvm::any_of(operands, [](const Terms &each) { return each.rows; });
  SmallVector<Value> values;
  for (const Terms &each : operands)
    values.push_back(hasRows ? getRows(each) : each.uniform);
  Type type = op->getResult(0).getType();
  Value result = at(values, [&](OpBuilder &b) {
    Operation *copy = b.clone(*op);
    copy->setOperands(values);
    copy->getResult(0).setType(hasRows ? typeOfRows(type) : type);
    return copy->getResult(0);
  });
  (hasRows ? terms.rows : terms.uniform) = result;
  return terms;
}

Terms TermSplitter::convert(tile::CastOp op, const Terms &source) {
  Terms terms = source;
  Type type = op.getResult().getType();
  auto convertTo = [&](OpBuilder &b, Value value, Type to) -> Value {
    return tile::CastOp::create(b, op.getLoc(), to, value, /*reassoc=*/true);
  };
  if (Value columns = source.columns)
    terms.columns = atColumns({columns}, [&](OpBuilder &b) {
      return convertTo(b, columns, cast<RankedTensorType>(columns.getType()).clone(type));
    });
  if (Value rows = source.rows)
    terms.rows = at({rows}, [&](OpBuilder &b) { return convertTo(b, rows, typeOfRows(type)); });
  if (Value uniform = source.uniform)
    terms.uniform = at({uniform}, [&](OpBuilder &b) { return convertTo(b, uniform, type); });
  return terms;
}

/// x + y or x - y, as an integer or a float operation, depending on the type.
static Value create(OpBuilder &b, Operation *op, Value x, Value y, bool isSum) {
  Location loc = op->getLoc();
  if (isa<arith::AddIOp, arith::SubIOp>(op))
    return isSum ? arith::AddIOp::create(b, loc, x, y).getResult()
                 : arith::SubIOp::create(b, loc, x, y).getResult();
  arith::FastMathFlagsAttr flags = cast<arith::ArithFastMathInterface>(op).getFastMathFlagsAttr();
  return isSum ? arith::AddFOp::create(b, loc, x, y, flags).getResult()
               : arith::SubFOp::create(b, loc, x, y, flags).getResult();
}

Terms TermSplitter::add(Operation *op, Terms x, Terms y, bool isSum) {
  Terms terms;
  terms.varying = x.varying ? x.varying : y.varying;
  if (y.varying && (x.varying || !isSum)) {
    if (!x.varying)
      return whole(op->getResult(0));
    // At the end of the function, where both are known.
    OpBuilder b(function.getBody().front().getTerminator());
    terms.varying = create(b, op, x.varying, y.varying, isSum);
  }
  bool subtractsY = y.subtractsColumns == isSum;
  if (x.columns && y.columns) {
    terms.subtractsColumns = x.subtractsColumns;
    terms.columns = atColumns({x.columns, y.columns}, [&](OpBuilder &b) {
      return create(b, op, x.columns, y.columns, subtractsY == x.subtractsColumns);
    });
  } else {
    terms.columns = x.columns ? x.columns : y.columns;
    terms.subtractsColumns = x.columns ? x.subtractsColumns : subtractsY;
  }

  bool hasX = x.rows || x.uniform, hasY = y.rows || y.uniform;
  if (!hasY || (!hasX && isSum)) {
    terms.rows = hasY ? y.rows : x.rows;
    terms.uniform = hasY ? y.uniform : x.uniform;
    return terms;
  }
  if (!hasX)
    x.uniform = at({}, [&](OpBuilder &b) -> Value {
      TypedAttr zero = b.getZeroAttr(op->getResult(0).getType());
      return arith::ConstantOp::create(b, op->getLoc(), zero);
    });
  bool hasRows = x.rows || y.rows;
  Value left = hasRows ? getRows(x) : x.uniform, right = hasRows ? getRows(y) : y.uniform;
  Value sum = at({left, right}, [&](OpBuilder &b) { return create(b, op, left, right, isSum); });
  (hasRows ? terms.rows : terms.uniform) = sum;
  return terms;
}

Terms TermSplitter::multiply(Operation *op, Terms terms, Value factor) {
  arith::FastMathFlagsAttr flags = cast<arith::ArithFastMathInterface>(op).getFastMathFlagsAttr();
  Location loc = op->getLoc();
  auto build = [&](OpBuilder &b, Value value) -> Value {
    Value factors = factor;
    if (value.getType() != factor.getType())
      factors = at({factor}, [&](OpBuilder &before) -> Value {
        return tile::FullOp::create(before, loc, value.getType(), factor);
      });
    return arith::MulFOp::create(b, loc, value, factors, flags);
  };
  if (terms.varying)
    return whole(op->getResult(0));
  if (Value columns = terms.columns)
    terms.columns = atColumns({columns, factor}, [&](OpBuilder &b) { return build(b, columns); });
  if (Value rows = terms.rows)
    terms.rows = at({rows, factor}, [&](OpBuilder &b) { return build(b, rows); });
  if (Value uniform = terms.uniform)
    terms.uniform = at({uniform, factor}, [&](OpBuilder &b) { return build(b, uniform); });
  return terms;
}
