// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers operations with nested code: scf, calls, tile.map and the block loop.

#include "lib/Interpreter/Lowering.h"
#include "lib/Interpreter/TileSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tilewright::interpreter {

LogicalResult lowerFor(Lowering &lowering, scf::ForOp op, std::unique_ptr<ForStep> step) {
  // The step is emitted after its body, but owns the body from the start.
  step->lower = lowering.intOperand(op.getLowerBound());
  step->upper = lowering.intOperand(op.getUpperBound());
  step->step = lowering.intOperand(op.getStep());
  step->isUnsigned = op.getUnsignedCmp();
  step->inductionStorage = lowering.storage(op.getInductionVar());
  step->induction = lowering.define(op.getInductionVar());
  llvm::SmallVector<Slot> carried = lowering.defineAll(op.getRegionIterArgs());
  step->inits = lowering.movesTo(op.getInitArgsMutable(), carried);
  if (failed(lowering.lowerBlock(*op.getBody(), step->body.code)))
    return failure();
  step->body.moves = lowering.movesTo(op.getBody()->getTerminator()->getOpOperands(), carried);
  lowering.defineAll(op.getResults());
  step->results = lowering.movesFrom(carried, op.getResults());
  lowering.emit(std::move(step));
  return success();
}

namespace {

/// If elements take different paths, loops (and branches that contain one) are executed per
/// element.
LogicalResult lowerForEachElement(Lowering &lowering, Operation *op) {
  llvm::SmallVector<Slot> results = lowering.defineAll(op->getResults());
  return lowering.lowerPerElement(op, results);
}

LogicalResult lower(Lowering &lowering, scf::ForOp op) {
  if (lowering.isLifted())
    return lowerForEachElement(lowering, op);
  return lowerFor(lowering, op, std::make_unique<ForStep>(op));
}

LogicalResult lower(Lowering &lowering, tile::SpreadOp op) {
  auto step = std::make_unique<SpreadStep>(op);
  step->lower = IntOperand::fromConstant(0);
  step->upper = lowering.intOperand(op.getCount());
  step->step = IntOperand::fromConstant(1);
  step->inductionStorage = lowering.storage(op.getNumber());
  step->induction = lowering.define(op.getNumber());
  if (failed(lowering.lowerBlock(op.getBody().front(), step->body.code)))
    return failure();
  lowering.emit(std::move(step));
  return success();
}

LogicalResult lower(Lowering &lowering, scf::WhileOp op) {
  if (lowering.isLifted())
    return lowerForEachElement(lowering, op);
  auto step = std::make_unique<WhileStep>(op);
  llvm::SmallVector<Slot> before = lowering.defineAll(op.getBeforeArguments());
  llvm::SmallVector<Slot> after = lowering.defineAll(op.getAfterArguments());
  step->inits = lowering.movesTo(op.getInitsMutable(), before);
  if (failed(lowering.lowerBlock(*op.getBeforeBody(), step->before)))
    return failure();
  scf::ConditionOp condition = op.getConditionOp();
  step->condition = lowering.slotOf(condition.getCondition());
  step->toAfter = lowering.movesTo(condition->getOpOperands().drop_front(), after);
  if (failed(lowering.lowerBlock(*op.getAfterBody(), step->after.code)))
    return failure();
  step->after.moves = lowering.movesTo(op.getYieldOp()->getOpOperands(), before);
  lowering.defineAll(op.getResults());
  step->results = lowering.movesFrom(after, op.getResults());
  lowering.emit(std::move(step));
  return success();
}

/// A branch of an scf.if; a missing else passes nothing on.
LogicalResult lowerBranch(Lowering &lowering, Region &branch, ArrayRef<Slot> results, Body &into) {
  if (branch.empty())
    return success();
  if (failed(lowering.lowerBlock(branch.front(), into.code)))
    return failure();
  into.moves = lowering.movesTo(branch.front().getTerminator()->getOpOperands(), results);
  return success();
}

/// Whether code may fail, or not terminate, for elements that would not have executed it.
bool isUnsafeToSpeculate(Operation *root) {
  WalkResult result = root->walk([&](Operation *op) {
    if (isa<scf::ForOp, scf::WhileOp>(op))
      return WalkResult::interrupt();
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      return callee && isUnsafeToSpeculate(callee) ? WalkResult::interrupt()
                                                   : WalkResult::advance();
    }
    bool divides = isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
                       arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp>(op);
    llvm::APInt divisor;
    if (divides && !(matchPattern(op->getOperand(1), m_ConstantInt(&divisor)) &&
                     !divisor.isZero() && !divisor.isAllOnes()))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return result.wasInterrupted();
}

LogicalResult lowerLiftedIf(Lowering &lowering, scf::IfOp op) {
  auto step = std::make_unique<SelectingIfStep>(op);
  step->condition = lowering.slotOf(op.getCondition());
  llvm::SmallVector<Slot> thenSlots, elseSlots;
  for (unsigned i = 0; i < op.getNumResults(); ++i) {
    thenSlots.push_back(lowering.newSlot());
    elseSlots.push_back(lowering.newSlot());
  }
  if (failed(lowerBranch(lowering, op.getThenRegion(), thenSlots, step->thenRegion)) ||
      failed(lowerBranch(lowering, op.getElseRegion(), elseSlots, step->elseRegion)))
    return failure();

  llvm::SmallVector<Slot> results;
  for (auto [value, thenSlot, elseSlot] : llvm::zip_equal(op.getResults(), thenSlots, elseSlots)) {
    ValueResult result = lowering.result(value);
    results.push_back(result.slot);
    step->thenResults.push_back({thenSlot, result.slot, false, true});
    step->elseResults.push_back({elseSlot, result.slot, false, true});
    ValueOperand operands[] = {{step->condition, Storage::I1, false},
                               {thenSlot, result.storage, true},
                               {elseSlot, result.storage, true}};
    auto select = std::make_unique<SelectStep>(op, operands, result);
    select->releases = {thenSlot, elseSlot};
    step->selects.steps.push_back(std::move(select));
  }
  if (isUnsafeToSpeculate(op)) {
    Code code;
    if (failed(lowering.withCode(code, [&] { return lowering.lowerPerElement(op, results); })))
      return failure();
    step->perElement = std::move(code);
  }
  lowering.emit(std::move(step));
  return success();
}

LogicalResult lower(Lowering &lowering, scf::IfOp op) {
  if (lowering.isLifted())
    return lowerLiftedIf(lowering, op);
  auto step = std::make_unique<IfStep>(op);
  step->condition = lowering.slotOf(op.getCondition());
  llvm::SmallVector<Slot> results = lowering.defineAll(op.getResults());
  if (failed(lowerBranch(lowering, op.getThenRegion(), results, step->thenRegion)) ||
      failed(lowerBranch(lowering, op.getElseRegion(), results, step->elseRegion)))
    return failure();
  lowering.emit(std::move(step));
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult lowerCallLike(Lowering &lowering, Operation *op, FlatSymbolRefAttr callee,
                            ArrayRef<int64_t> lift) {
  for (Value operand : op->getOperands())
    if (Lowering::isView(operand))
      return op->emitOpError("must pass tiles and scalars to run on the CPU device, but got ")
             << operand.getType() << "; load a tile and pass it";
  Code code;
  llvm::SmallVector<ValueOperand> results;
  if (failed(lowering.inlineFunction(op, callee, lowering.callArguments(op->getOpOperands()), lift,
                                     code, results)))
    return failure();
  lowering.append(std::move(code));
  // A result may be an argument, or be returned twice, so it gets its own slot.
  Moves moves;
  for (auto [value, from] : llvm::zip_equal(op->getResults(), results))
    moves.push_back({from.slot, lowering.define(value), false, from.dies});
  if (moves.size() == 1)
    lowering.emit<CopyStep>(op, results[0], moves[0].to);
  else
    lowering.emit<MoveStep>(op, std::move(moves));
  return success();
}

LogicalResult lower(Lowering &lowering, func::CallOp op) {
  llvm::SmallVector<int64_t> lift(lowering.lift());
  return lowerCallLike(lowering, op, op.getCalleeAttr(), lift);
}

LogicalResult lower(Lowering &lowering, tile::MapOp op) {
  ArrayRef<int64_t> shape = lowering.shapeOf(op.getResult());
  // A tile of rank 0 is one element.
  llvm::SmallVector<int64_t> lift(shape);
  if (lift.empty())
    lift.push_back(1);
  return lowerCallLike(lowering, op, op.getFunctionAttr(), lift);
}

//===----------------------------------------------------------------------===//
// Block loop
//===----------------------------------------------------------------------===//

LogicalResult lowerMask(Lowering &lowering, tile::ForBlocksOp op, BlockLoopStep &step) {
  step.against = lowering.newSlot();
  step.block = lowering.newSlot();
  llvm::SmallVector<Lowering::CallArgument> arguments;
  auto next = op.getMaskOperands().begin();
  for (size_t i = 0, e = op.getMaskOperands().size() + 2; i < e; ++i) {
    if (i == op.getAgainstPosition())
      arguments.push_back({step.against, true});
    else if (i == op.getBlockPosition())
      arguments.push_back({step.block, true});
    else
      arguments.push_back({lowering.slotOf(*next++), false});
  }
  llvm::SmallVector<ValueOperand> results;
  const int64_t lift[] = {step.rows, step.columns};
  if (failed(lowering.inlineFunction(op, op.getMaskAttr(), arguments, lift, step.mask, results)))
    return failure();
  if (results.size() != 1 || results[0].storage != Storage::I1)
    return op.emitOpError("requires a mask function that returns one i1");
  step.maskResult = results[0].slot;
  return success();
}

LogicalResult lowerRanges(Lowering &lowering, tile::ForBlocksOp op, BlockLoopStep &step) {
  BlockLoopStep::Ranges ranges;
  llvm::SmallVector<Lowering::CallArgument> arguments;
  for (Slot *slot : {&ranges.againstBegin, &ranges.againstEnd, &ranges.lower, &ranges.upper}) {
    *slot = lowering.newSlot();
    arguments.push_back({*slot, false});
  }
  for (Value operand : op.getMaskOperands())
    arguments.push_back({lowering.slotOf(operand), false});
  llvm::SmallVector<ValueOperand> results;
  if (failed(lowering.inlineFunction(op, op.getRangesAttr(), arguments, {}, ranges.code, results)))
    return failure();
  // The `tight` flag is not used: the device computes the mask of every block that is not full.
  if (results.size() != 5)
    return op.emitOpError("requires a function of ranges that returns four i32 and an i1");
  IntOperand *bounds[] = {&ranges.mayBegin, &ranges.mayEnd, &ranges.mustBegin, &ranges.mustEnd};
  for (auto [bound, result] : llvm::zip(bounds, results)) {
    if (result.storage != Storage::I32)
      return op.emitOpError("requires a function of ranges that returns four i32 and an i1");
    *bound = {result.slot, result.storage, false, 0};
  }
  step.ranges = std::move(ranges);
  return success();
}

LogicalResult lower(Lowering &lowering, tile::ForBlocksOp op) {
  auto step = std::make_unique<BlockLoopStep>(op);
  ArrayRef<int64_t> shape = lowering.shapeOf(op.getKeep());
  step->rows = shape[0];
  step->columns = shape[1];
  step->isDescending = op.getOrder() == tile::BlockOrder::Descending;
  if (Value condition = op.getOrderCondition())
    step->orderCondition = lowering.slotOf(condition);
  step->lower = lowering.intOperand(op.getLower());
  step->upper = lowering.intOperand(op.getUpper());
  step->start = lowering.intOperand(op.getStart());
  step->limit = lowering.intOperand(op.getLimit());
  if (op.getMask() && failed(lowerMask(lowering, op, *step)))
    return failure();
  if (op.getRanges() && failed(lowerRanges(lowering, op, *step)))
    return failure();
  if (Value view = op.getList()) {
    BlockLoopStep::List list;
    list.view = lowering.slotOf(view);
    list.blocksOfEntry = op.getBlocksOfEntry();
    for (Value index : op.getListIndices())
      list.indices.push_back(lowering.intOperand(index));
    if (Value count = op.getCount())
      list.count = lowering.intOperand(count);
    step->list = std::move(list);
  }
  step->induction = lowering.define(op.getBlockStart());
  step->keep = lowering.define(op.getKeep());
  llvm::SmallVector<Slot> carried = lowering.defineAll(op.getRegionIterArgs());
  step->inits = lowering.movesTo(op.getInitArgsMutable(), carried);
  Block &body = op.getBody().front();
  if (failed(lowering.lowerBlock(body, step->body.code)))
    return failure();
  step->body.moves = lowering.movesTo(body.getTerminator()->getOpOperands(), carried);
  lowering.defineAll(op.getResults());
  step->results = lowering.movesFrom(carried, op.getResults());
  lowering.emit(std::move(step));
  return success();
}

} // namespace

void addControlLowerings(LoweringTable &table) {
  addLowerings<scf::ForOp, tile::SpreadOp, scf::WhileOp, scf::IfOp, func::CallOp, tile::MapOp,
               tile::ForBlocksOp>(table,
                                  [](Lowering &lowering, auto op) { return lower(lowering, op); });
}

} // namespace tilewright::interpreter
