// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows facts about a row without kept pairs from operation to operation.

#include "passes/Tgpu/Analysis/IdleRounds.h"

#include "passes/Tile/PositiveRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Facts about all elements of a row.
struct Known {
  enum Kind { Nothing, False, Zero, One, MinusInfinity, Carried } kind = Nothing;
  Value argument; ///< of the loop, whose elements they are, where Carried

  bool operator==(const Known &other) const {
    return kind == other.kind && argument == other.argument;
  }
};

/// The scalar of a splat, or the scalar itself.
Value getNumber(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<tile::FullOp, tile::ExpandOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

class RowTracker {
public:
  explicit RowTracker(tile::ForBlocksOp loop) : loop(loop) {}

  bool run() {
    known[loop.getKeep()] = {Known::False, {}};
    for (Value argument : loop.getRegionIterArgs())
      known[argument] = {Known::Carried, argument};
    visit(loop.getBody().front());
    Operation *yield = loop.getBody().front().getTerminator();
    return llvm::all_of(llvm::enumerate(yield->getOperands()), [&](auto each) {
      return get(each.value()) == Known{Known::Carried, loop.getRegionIterArgs()[each.index()]};
    });
  }

private:
  Known get(Value value) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    APFloat number(0.0);
    Value scalar = getNumber(value);
    if (!scalar || !matchPattern(scalar, m_ConstantFloat(&number)))
      return {};
    if (number.isInfinity() && number.isNegative())
      return {Known::MinusInfinity, {}};
    if (number.isPosZero())
      return {Known::Zero, {}};
    return {};
  }

  void visit(Block &block) {
    for (Operation &op : block.without_terminator()) {
      if (auto branch = dyn_cast<scf::IfOp>(op))
        visitIf(branch);
      else if (op.getNumResults() == 1)
        known[op.getResult(0)] = evaluate(&op);
    }
  }

  void visitIf(scf::IfOp branch) {
    if (!branch.elseBlock()) // which has no results
      return;
    for (Block *block : {branch.thenBlock(), branch.elseBlock()})
      visit(*block);
    for (auto [result, one, other] :
         llvm::zip_equal(branch.getResults(), branch.thenYield().getOperands(),
                         branch.elseYield().getOperands())) {
      Known of = get(one);
      known[result] = of == get(other) ? of : Known();
    }
  }

  Known evaluate(Operation *op) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return get(constant.getResult());
    if (isa<tile::FullOp, tile::ExpandOp>(op))
      return get(op->getOperand(0));
    if (isa<tile::CastOp>(op)) {
      // Other types may be rounded, and not all types have infinities.
      Known of = get(op->getOperand(0));
      return of.kind == Known::Zero || of.kind == Known::One ? of : Known();
    }
    if (auto select = dyn_cast<tile::SelectOp>(op))
      return evaluateSelect(select.getCondition(), select.getIfTrue(), select.getIfFalse());
    if (auto select = dyn_cast<arith::SelectOp>(op))
      return evaluateSelect(select.getCondition(), select.getTrueValue(), select.getFalseValue());
    if (auto reduce = dyn_cast<tile::ReduceOp>(op))
      return evaluateReduce(reduce);
    if (auto map = dyn_cast<tile::MapOp>(op))
      return evaluateMap(map);
    if (auto dot = dyn_cast<tile::DotOp>(op)) {
      bool addsZero = dot.getAcc() && !dot.getTransposeA() && is(dot.getLhs(), Known::Zero);
      return addsZero ? get(dot.getAcc()) : Known();
    }
    if (isa<math::Exp2Op, math::ExpOp>(op)) {
      Known::Kind kind = get(op->getOperand(0)).kind;
      return {kind == Known::MinusInfinity ? Known::Zero
              : kind == Known::Zero        ? Known::One
                                           : Known::Nothing,
              {}};
    }
    return op->getNumOperands() == 2 ? evaluateBinary(op) : Known();
  }

  bool is(Value value, Known::Kind kind) { return get(value).kind == kind; }

  Known evaluateSelect(Value condition, Value ifTrue, Value ifFalse) {
    Known otherwise = get(ifFalse);
    return is(condition, Known::False) || get(ifTrue) == otherwise ? otherwise : Known();
  }

  Known evaluateReduce(tile::ReduceOp reduce) {
    Known of = get(reduce.getSource());
    bool isLowest = reduce.getKind() == tile::ReduceKind::Max && of.kind == Known::MinusInfinity;
    bool isEmpty = reduce.getKind() == tile::ReduceKind::Add && of.kind == Known::Zero;
    return isLowest || isEmpty ? of : Known();
  }

  Known evaluateBinary(Operation *op) {
    Value lhs = op->getOperand(0), rhs = op->getOperand(1);
    if (auto compare = dyn_cast<arith::CmpFOp>(op))
      return {isNotAbove(compare) ? Known::False : Known::Nothing, {}};
    if (isa<arith::SubFOp>(op)) {
      if (is(lhs, Known::MinusInfinity) && isAboveMinusInfinity(rhs))
        return get(lhs);
      bool isSame = is(lhs, Known::Carried) && get(lhs) == get(rhs);
      return {isSame ? Known::Zero : Known::Nothing, {}};
    }
    for (auto [x, y] : {std::pair(lhs, rhs), std::pair(rhs, lhs)}) {
      if (isa<arith::MaximumFOp, arith::MaxNumFOp>(op) && is(y, Known::MinusInfinity))
        return get(x);
      if (isa<arith::AddFOp>(op) && is(y, Known::Zero))
        return get(x);
      if (isa<arith::MulFOp>(op) && is(y, Known::One))
        return get(x);
      if (isa<arith::MulFOp>(op) && is(x, Known::Zero))
        return get(x);
      if (isa<arith::MulFOp>(op) && is(x, Known::MinusInfinity) && isPositive(y, op))
        return get(x);
      if (isa<arith::AndIOp>(op) && is(x, Known::False))
        return get(x);
    }
    return {};
  }

  /// x > x + c for a constant c >= 0.
  bool isNotAbove(arith::CmpFOp compare) {
    auto sum = compare.getRhs().getDefiningOp<arith::AddFOp>();
    if (compare.getPredicate() != arith::CmpFPredicate::OGT || !sum ||
        !is(compare.getLhs(), Known::Carried))
      return false;
    for (auto [x, y] :
         {std::pair(sum.getLhs(), sum.getRhs()), std::pair(sum.getRhs(), sum.getLhs())}) {
      APFloat number(0.0);
      if (get(x) == get(compare.getLhs()) && matchPattern(getNumber(y), m_ConstantFloat(&number)) &&
          !number.isNegative() && !number.isNaN())
        return true;
    }
    return false;
  }

  /// Positive by the constraints of the kernel, or a value that an enclosing branch has compared
  /// with 0.
  static bool isPositive(Value value, Operation *at) {
    Value scalar = getNumber(value);
    APFloat number(0.0);
    if (matchPattern(scalar, m_ConstantFloat(&number)))
      return !number.isNegative() && !number.isZero() && !number.isNaN();
    if (findPositiveRange(scalar))
      return true;
    for (Operation *parent = at->getParentOp(); parent; parent = parent->getParentOp()) {
      auto branch = dyn_cast<scf::IfOp>(parent);
      if (!branch || !branch.getThenRegion().isAncestor(at->getParentRegion()))
        continue;
      llvm::SetVector<Value> conditions;
      conditions.insert(branch.getCondition());
      for (size_t i = 0; i < conditions.size(); ++i) {
        Value condition = conditions[i];
        if (auto both = condition.getDefiningOp<arith::AndIOp>())
          conditions.insert(both->operand_begin(), both->operand_end());
        auto compare = condition.getDefiningOp<arith::CmpFOp>();
        if (compare && compare.getPredicate() == arith::CmpFPredicate::OGT &&
            compare.getLhs() == scalar && matchPattern(compare.getRhs(), m_AnyZeroFloat()))
          return true;
      }
    }
    return false;
  }

  /// Whether it is a running maximum that starts at a finite number.
  bool isAboveMinusInfinity(Value value) {
    Known of = get(value);
    if (of.kind != Known::Carried)
      return false;
    unsigned number = cast<BlockArgument>(of.argument).getArgNumber() -
                      loop.getRegionIterArgs().front().getArgNumber();
    return beginsFinite(loop.getInitArgs()[number]) &&
           onlyRises(loop.getBody().front().getTerminator()->getOperand(number), of.argument);
  }
  /// Whether a value is a finite constant, or a maximum of several values of which one is.
  static bool beginsFinite(Value init) {
    llvm::SetVector<Value> reached;
    reached.insert(getNumber(init));
    for (size_t i = 0; i < reached.size(); ++i) {
      APFloat number(0.0);
      if (matchPattern(reached[i], m_ConstantFloat(&number))) {
        if (number.isFinite())
          return true;
      } else if (auto maximum = reached[i].getDefiningOp<arith::MaximumFOp>()) {
        reached.insert(getNumber(maximum.getLhs()));
        reached.insert(getNumber(maximum.getRhs()));
      }
    }
    return false;
  }

  /// Whether a value is the argument, or a maximum of it and another value, for all choices of
  /// selects.
  static bool onlyRises(Value value, Value argument) {
    llvm::SetVector<Value> reached;
    reached.insert(value);
    for (size_t i = 0; i < reached.size(); ++i) {
      if (reached[i] == argument)
        continue;
      if (auto select = reached[i].getDefiningOp<tile::SelectOp>()) {
        reached.insert(select.getIfTrue());
        reached.insert(select.getIfFalse());
        continue;
      }
      auto maximum = reached[i].getDefiningOp<arith::MaximumFOp>();
      if (!maximum || !llvm::is_contained(maximum->getOperands(), argument))
        return false;
    }
    return true;
  }

  /// A function of elements.
  Known evaluateMap(tile::MapOp map) {
    auto function = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(map, map.getFunctionAttr());
    if (!function || !function.getBody().hasOneBlock() || map->getNumResults() != 1)
      return {};
    // Functions of single elements. Other functions may apply functions, to any depth.
    if (function.walk([](tile::MapOp) { return WalkResult::interrupt(); }).wasInterrupted())
      return {};
    Block &body = function.getBody().front();
    // Facts from an earlier call of the same function do not hold for this one.
    function.walk([&](Operation *op) {
      for (Value result : op->getResults())
        known.erase(result);
    });
    for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), map.getOperands()))
      known[argument] = get(operand);
    visit(body);
    return get(body.getTerminator()->getOperand(0));
  }

  tile::ForBlocksOp loop;
  llvm::DenseMap<Value, Known> known;
};

} // namespace

bool tgpu::leavesIdleRows(tile::ForBlocksOp loop) {
  return loop.getNumResults() > 0 && RowTracker(loop).run();
}

Value tgpu::getFirstOfAll(Value lowerBound) {
  auto first = lowerBound.getDefiningOp<FirstRoundOp>();
  return first ? first.getAll() : lowerBound;
}

void tgpu::writeMissedTurns(scf::ForOp front, Value turns, Value end, int64_t roundsWithout) {
  for (Value init : front.getInitArgs()) {
    auto idle = init.getDefiningOp<scf::ForOp>();
    if (!idle || !idleRoundsAttr.isOn(idle))
      continue;
    // In each iteration, as in the other loop: if turns were taken after the loop, warpgroups that
    // release slots only after their turns would deadlock.
    ImplicitLocOpBuilder b(front.getLoc(), idle.getBody()->getTerminator());
    Value without = arith::ConstantOp::create(
        b, b.getIntegerAttr(end.getType(), static_cast<int32_t>(roundsWithout)));
    Value taken = arith::SubIOp::create(b, end, without);
    Value takes =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, idle.getInductionVar(), taken);
    auto branch = scf::IfOp::create(b, takes, /*withElseRegion=*/false);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    TakeTurnOp::create(b, turns);
    PassTurnOp::create(b, turns);
    return;
  }
}
