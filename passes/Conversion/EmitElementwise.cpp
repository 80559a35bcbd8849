// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that are applied to each element separately: arith, math, select, map. On tiles,
// they are repeated for each register.

#include "passes/Conversion/ColumnBounds.h"
#include "passes/Conversion/DeferredLoads.h"
#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/LaneDraws.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/RaisedMaxima.h"

#include "dialect/Tile/Calls.h"
#include "passes/Conversion/ScalarMath.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static LogicalResult emitConstant(KernelEmitter &e, arith::ConstantOp op) {
  ThreadBuilder &b = e.b;
  Type element = e.getScalarType(op.getType());
  TypedAttr value = op.getValue();
  if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    if (!dense.isSplat())
      return op.emitError()
             << "a constant tile must have equal elements in all places; compute others, "
                "such as by tile.iota";
    value = cast<TypedAttr>(dense.getSplatValue<Attribute>());
  }
  if (auto integer = dyn_cast<IntegerAttr>(value); integer && integer.getType() != element)
    value = b.getIntegerAttr(element, integer.getInt());
  if (auto number = dyn_cast<FloatAttr>(value); number && isa<IntegerType>(element))
    value = b.getIntegerAttr(element, number.getValue().bitcastToAPInt());
  Value scalar = b.constant(value);
  if (!isa<RankedTensorType>(op.getType())) {
    e.set(op.getResult(), {scalar});
    return success();
  }
  e.setElements(op.getResult(),
                Values(e.getLayout(op, op.getType())->registersPerThread(), scalar));
  return success();
}

/// A branch taken by warps in which any row's factor differs from one; otherwise the elements pass
/// through. The vote tells ptxas that the branch is warp-uniform. `any` is the result of an earlier
/// vote, or null.
static scf::IfOp branchUnlessOnes(ThreadBuilder &b, const Values &elements, const Values &factors,
                                  Value any) {
  if (!any) {
    Value one = arith::ConstantOp::create(b, b.getFloatAttr(factors.front().getType(), 1.0));
    for (Value factor : llvm::SetVector<Value>(factors.begin(), factors.end())) {
      Value differs = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, factor, one);
      any = any ? arith::OrIOp::create(b, any, differs).getResult() : differs;
    }
    any = b.voteAny(any);
  }
  auto branch = scf::IfOp::create(b, ValueRange(elements).getTypes(), any, /*addThenBlock=*/true,
                                  /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b, elements);
  return branch;
}

/// Keeps conversions to operands of the next iteration's products before the branch, by empty
/// inline assembly. LLVM would sink them after it, where iterations join, and ptxas could not place
/// them between exponentials, each of which leaves seven cycles. Only after the last wait: before
/// it, a product may still read the registers that they will occupy.
static void keepOperandsBefore(KernelEmitter &e, Operation *branch) {
  auto loop = dyn_cast<scf::ForOp>(branch->getParentOp());
  if (!loop)
    return;
  llvm::SmallPtrSet<Operation *, 8> sinceWait;
  Operation *op = branch->getPrevNode();
  for (; op && !isa<WgmmaWaitOp>(op); op = op->getPrevNode())
    sinceWait.insert(op);
  if (!op)
    return;
  for (Value value : loop.getBody()->getTerminator()->getOperands())
    if (sinceWait.contains(value.getDefiningOp()) && KernelEmitter::isPacked(value.getType()))
      e.keepHere(value);
}

static LogicalResult emitElementwise(KernelEmitter &e, Operation *op) {
  ThreadBuilder &b = e.b;
  if (op->getNumResults() != 1)
    return op->emitError() << "'" << op->getName().getStringRef()
                           << "' must have one result to be lowered, but got "
                           << op->getNumResults();
  Value result = op->getResult(0);
  Type resultElement = tile::getElementType(result.getType());
  if (isa<arith::ExtFOp, arith::TruncFOp>(op)) {
    e.setElements(result,
                  castElements(b, e.getElements(op->getOperand(0)),
                               tile::getElementType(op->getOperand(0).getType()), resultElement));
    return success();
  }
  bool isIndexCast = isa<arith::IndexCastOp, arith::IndexCastUIOp>(op);
  // Arithmetic on 8-bit floats is done in f32, which represents them exactly; no double rounding
  // occurs.
  auto computeType = [&](Type type) -> Type {
    return isFloat8(type) ? b.getF32Type() : e.getScalarType(type);
  };
  Type element = computeType(resultElement);

  size_t count = 1;
  SmallVector<Values> operands;
  for (Value operand : op->getOperands()) {
    Type type = tile::getElementType(operand.getType());
    operands.push_back(e.getElements(operand));
    // Through an empty asm, which ptxas does not move before others.
    bool isCarried = isa<BlockArgument>(operand) && isa<RankedTensorType>(operand.getType());
    if (isCarried && keepPlaceAttr.isOn(op) && type.isF32())
      operands.back() = b.tiedAsm("", "~{memory}", operands.back(), {});
    if (isFloat8(type))
      operands.back() = castElements(b, operands.back(), type, b.getF32Type());
    count = std::max(count, operands.back().size());
  }
  Values elements;
  scf::IfOp branch;
  if (skipOnesAttr.isOn(op)) {
    keepOperandsBefore(e, op);
    auto expand = op->getOperand(1).getDefiningOp<tile::ExpandOp>();
    Value any = expand ? mayDifferFromOne(e, expand.getSource()) : Value();
    branch = branchUnlessOnes(b, operands[0], operands[1], any);
    b.setInsertionPointToEnd(branch.thenBlock());
  }
  for (size_t i = 0; i < count; ++i) {
    IRMapping mapping;
    Values at;
    for (auto [operand, list] : llvm::zip(op->getOperands(), operands)) {
      at.push_back(list[list.size() == 1 ? 0 : i]);
      mapping.map(operand, at.back());
    }
    if (isIndexCast) {
      unsigned from = at[0].getType().getIntOrFloatBitWidth(), to = element.getIntOrFloatBitWidth();
      bool isSigned = isa<arith::IndexCastOp>(op);
      elements.push_back(from == to  ? at[0]
                         : from > to ? arith::TruncIOp::create(b, element, at[0]).getResult()
                         : isSigned  ? arith::ExtSIOp::create(b, element, at[0]).getResult()
                                     : arith::ExtUIOp::create(b, element, at[0]).getResult());
      continue;
    }
    Operation *copy = b.clone(*op, mapping);
    skipOnesAttr.remove(copy);
    copy->getResult(0).setType(element);
    elements.push_back(copy->getResult(0));
  }
  if (branch) {
    scf::YieldOp::create(b, elements);
    b.setInsertionPointAfter(branch);
    elements = Values(branch.getResults());
  }
  if (isFloat8(resultElement))
    elements = castElements(b, elements, b.getF32Type(), resultElement);
  e.setElements(result, elements);
  return success();
}

//===----------------------------------------------------------------------===//
// math
//===----------------------------------------------------------------------===//

static LogicalResult emitMath(KernelEmitter &e, Operation *op) {
  ThreadBuilder &b = e.b;
  Type element = tile::getElementType(op->getResult(0).getType());
  if (isa<IntegerType>(element) && !isa<math::FPowIOp>(op))
    return emitElementwise(e, op);
  // Functions of 16-bit and 8-bit floats are computed in f32.
  Type computed = element.isF64() ? element : Type(b.getF32Type());
  SmallVector<Values> operands;
  for (Value operand : op->getOperands()) {
    Type type = tile::getElementType(operand.getType());
    operands.push_back(castElements(b, e.getElements(operand), type, computed));
  }
  ScalarMath math(b);
  Values elements;
  for (size_t i = 0; i < operands.front().size(); ++i) {
    Values at;
    for (const Values &list : operands)
      at.push_back(list[i]);
    Value value = math.emit(op, at);
    if (!value)
      return op->emitError() << "'" << op->getName().getStringRef() << "' cannot be lowered to "
                             << e.kernel.getTarget() << "; use another operation of arith or math";
    elements.push_back(value);
  }
  e.setElements(op->getResult(0), castElements(b, elements, computed, element));
  return success();
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

static void emitSelect(KernelEmitter &e, tile::SelectOp op) {
  Values ifTrue = e.getElements(op.getIfTrue()), ifFalse = e.getElements(op.getIfFalse()), elements;
  if (hasColumnBounds(e, op.getCondition())) {
    elements.resize(ifTrue.size());
    visitColumnBits(e, op.getCondition(), [&](int reg, Value is) {
      elements[reg] = arith::SelectOp::create(e.b, is, ifTrue[reg], ifFalse[reg]);
    });
    e.setElements(op.getResult(), elements);
    return;
  }
  Values condition = e.getElements(op.getCondition());
  for (size_t i = 0; i < ifTrue.size(); ++i)
    elements.push_back(arith::SelectOp::create(e.b, condition[condition.size() == 1 ? 0 : i],
                                               ifTrue[i], ifFalse[i]));
  e.setElements(op.getResult(), elements);
}

//===----------------------------------------------------------------------===//
// Scalar functions
//===----------------------------------------------------------------------===//

static LogicalResult emitMap(KernelEmitter &e, tile::MapOp op) {
  SmallVector<Values> operands;
  for (Value operand : op.getOperands())
    operands.push_back(isDeferredLoad(e, operand) ? Values() : e.getElements(operand));
  size_t count = e.getLayout(op, op.getResult().getType())->registersPerThread();
  if (auto function = e.module.lookupSymbol<func::FuncOp>(op.getFunction())) {
    uint64_t size = tile::Calls(e.module).getSize(function);
    if (size > tile::kMostOperations / count)
      return op->emitError() << "a thread must have at most " << tile::kMostOperations
                             << " operations of a mapped function, but got " << size << " of @"
                             << op.getFunction() << " for each of " << count
                             << " elements; use smaller blocks, more warps or a smaller function";
  }
  auto getArguments = [&](int i) {
    SmallVector<Values> arguments;
    for (auto [operand, list] : llvm::zip(op.getOperands(), operands)) {
      if (size_t(i) == list.size() && isDeferredLoad(e, operand))
        llvm::append_range(list, loadRun(e, operand, i));
      arguments.push_back({list[isa<RankedTensorType>(operand.getType()) ? i : 0]});
    }
    return arguments;
  };
  std::optional<LaneDraws> draws = findLaneDraws(e, op);
  Values numbers;
  if (draws) {
    FailureOr<Values> drawn = drawTogether(e, op, *draws, getArguments);
    if (failed(drawn))
      return failure();
    numbers = *drawn;
  }
  RandomOverride &random = e.state<RandomOverride>();
  Values elements;
  for (size_t i = 0; i < count; ++i) {
    if (draws)
      random = {draws->random, numbers[i], nullptr};
    Values results;
    if (failed(e.inlineCall(op, op.getFunction(), getArguments(int(i)), results)))
      return failure();
    elements.push_back(results.front());
  }
  random = {};
  e.setElements(op.getResult(), elements);
  return success();
}

static LogicalResult emitCompare(KernelEmitter &e, arith::CmpIOp op) {
  return emitColumnCompare(e, op) ? success() : emitElementwise(e, op);
}

static LogicalResult emitAnd(KernelEmitter &e, arith::AndIOp op) {
  return emitColumnAnd(e, op) ? success() : emitElementwise(e, op);
}

void tgpu::registerElementwiseLowerings(LoweringTable &table) {
  table.add<arith::ConstantOp>(emitConstant);
  table.add<arith::CmpIOp>(emitCompare);
  table.add<arith::AndIOp>(emitAnd);
  table.add<tile::SelectOp>(emitSelect);
  table.add<tile::MapOp>(emitMap);
  table.addDialect<arith::ArithDialect>(emitElementwise);
  table.addDialect<math::MathDialect>(emitMath);
}
