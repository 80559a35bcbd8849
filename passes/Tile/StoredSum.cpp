// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads how a kernel computes and uses the sums of a tile.accumulate.

#include "passes/Tile/StoredSum.h"
#include "dialect/Tile/Origin.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Support/DebugStringHelper.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Follows a sum from what is yielded back to the argument of the body. Chains of operations may be
/// long, so there is no recursion.
class SumTracer {
public:
  explicit SumTracer(BlockArgument sum) : sum(sum) { findDependent(); }

  /// Null, or an operation that does something else.
  Operation *findOtherUse(OpOperand &yielded) {
    llvm::SetVector<Value> values; // the sum on its way
    values.insert(sum);
    add(yielded, sum);
    for (size_t i = 0; i < wanted.size(); ++i) {
      auto [operand, start] = wanted[i];
      if (operand->get() == start)
        continue;
      Operation *op = operand->get().getDefiningOp();
      if (!op || !dependent.contains(operand->get())) // another value instead of the sum
        return operand->getOwner();
      if (!addOperands(*operand, start))
        return op;
      values.insert(operand->get());
      values.insert(start);
    }
    for (Value value : values)
      for (OpOperand &use : value.getUses())
        if (!known.contains(&use))
          return use.getOwner();
    return nullptr;
  }

private:
  /// All values that depend on the sum.
  void findDependent() {
    dependent.insert(sum);
    for (size_t i = 0; i < dependent.size(); ++i)
      for (OpOperand &use : dependent[i].getUses()) {
        Operation *user = use.getOwner();
        if (auto loop = dyn_cast<LoopLikeOpInterface>(user))
          if (BlockArgument argument = loop.getTiedLoopRegionIterArg(&use))
            dependent.insert(argument);
        dependent.insert_range(user->getResults());
        if (user->hasTrait<OpTrait::IsTerminator>() &&
            user->getParentOp() != sum.getParentRegion()->getParentOp())
          dependent.insert_range(user->getParentOp()->getResults());
      }
  }

  void add(OpOperand &operand, Value start) {
    if (known.insert(&operand).second)
      wanted.push_back({&operand, start});
  }

  /// Adds the operands that must be `start` plus terms, so that the operand is. False if the
  /// operation is not known to pass a sum on.
  bool addOperands(OpOperand &operand, Value start) {
    Operation *op = operand.get().getDefiningOp();
    unsigned number = cast<OpResult>(operand.get()).getResultNumber();
    if (auto dot = dyn_cast<DotOp>(op)) {
      if (!dot.getAcc())
        return false;
      add(dot.getAccMutable()[0], start);
      return true;
    }
    if (isa<arith::AddFOp>(op)) {
      add(op->getOpOperand(dependent.contains(op->getOperand(0)) ? 0 : 1), start);
      return true;
    }
    if (isa<arith::SelectOp>(op)) {
      add(op->getOpOperand(1), start);
      add(op->getOpOperand(2), start);
      return true;
    }
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      if (branch.getElseRegion().empty())
        return false;
      add(branch.thenYield()->getOpOperand(number), start);
      add(branch.elseYield()->getOpOperand(number), start);
      return true;
    }
    auto loop = dyn_cast<LoopLikeOpInterface>(op);
    MutableArrayRef<OpOperand> inits = loop ? loop.getInitsMutable() : MutableArrayRef<OpOperand>();
    auto yields = loop ? loop.getYieldedValuesMutable() : std::nullopt;
    if (number >= inits.size() || !yields || number >= yields->size())
      return false;
    add((*yields)[number], loop.getRegionIterArgs()[number]);
    add(inits[number], start);
    return true;
  }

  BlockArgument sum;
  llvm::SetVector<Value> dependent;
  llvm::DenseSet<OpOperand *> known;
  SmallVector<std::pair<OpOperand *, Value>> wanted;
};

} // namespace

LogicalResult tilewright::checkSums(AccumulateOp op) {
  Operation *yield = op.getBody().front().getTerminator();
  for (auto [i, sum] : llvm::enumerate(op.getSums()))
    if (Operation *other = SumTracer(sum).findOtherUse(yield->getOpOperand(i))) {
      (op.emitOpError()
       << "may only add to its sums, by tile.dot or arith.addf, but does something "
          "else with sum "
       << i << "; compute it after the loop, or write a loop (scf.for)")
              .attachNote(other->getLoc())
          << "used here";
      return failure();
    }
  return success();
}

//===----------------------------------------------------------------------===//
// What the kernel makes of a sum
//===----------------------------------------------------------------------===//

/// Whether it computes each element from those at the same place, so that blocks may have other
/// extents.
static bool isElementwise(Operation *op) {
  return isa<CastOp, FullOp, tile::ConstantOp, arith::ConstantOp>(op) ||
         (OpTrait::hasElementwiseMappableTraits(op) && isMemoryEffectFree(op));
}

/// The operations from the sum to `value`, operands first. Nothing if a part is neither the sum,
/// nor elementwise, nor a scalar argument of the kernel.
static std::optional<llvm::SetVector<Operation *>> collect(Value value, StoredSum &sum,
                                                           KernelOp kernel) {
  llvm::SetVector<Value> values;
  llvm::SetVector<Operation *> ops;
  values.insert(value);
  for (size_t i = 0; i < values.size(); ++i) {
    auto argument = dyn_cast<BlockArgument>(values[i]);
    Operation *op = values[i].getDefiningOp();
    if (values[i] == sum.result)
      continue;
    if (argument && argument.getOwner() == &kernel.getBody().front() &&
        argument.getArgNumber() < kernel.getNumArgs() && !isa<ViewType>(argument.getType())) {
      sum.arguments.push_back(argument.getArgNumber());
      continue;
    }
    if (!op || !isElementwise(op))
      return std::nullopt;
    ops.insert(op);
    values.insert_range(op->getOperands());
  }
  return topologicalSort(ops);
}

/// The argument of the kernel that a view is a part of; null if there is none. `parts` gets the
/// operations from the argument to the view, operands first.
static BlockArgument findWhole(Value view, SmallVector<Operation *> &parts) {
  llvm::SetVector<Value> values;
  llvm::SetVector<Operation *> ops;
  BlockArgument whole;
  values.insert(view);
  for (size_t i = 0; i < values.size(); ++i) {
    auto argument = dyn_cast<BlockArgument>(values[i]);
    if (argument && (!whole || whole == argument)) {
      whole = argument;
      continue;
    }
    Operation *op = values[i].getDefiningOp();
    if (auto part = dyn_cast_or_null<SubviewOp>(op)) {
      values.insert(part.getSource());
    } else if (auto select = dyn_cast_or_null<arith::SelectOp>(op)) {
      values.insert(select.getTrueValue());
      values.insert(select.getFalseValue());
    } else {
      return {};
    }
    ops.insert(op);
  }
  ops = topologicalSort(ops);
  parts.assign(ops.begin(), ops.end());
  return whole;
}

std::optional<StoredSum> StoredSum::get(KernelOp kernel, OpResult result, std::string &reason) {
  StoredSum sum;
  sum.result = result;
  std::string name = "sum " + std::to_string(result.getResultNumber());
  llvm::SetVector<Operation *> after;
  llvm::SetVector<Value> values;
  values.insert(result);
  for (size_t i = 0; i < values.size(); ++i)
    for (OpOperand &use : values[i].getUses()) {
      auto store = dyn_cast<StoreOp>(use.getOwner());
      if (store && use.getOperandNumber() == 0 && !sum.store) {
        sum.store = store;
      } else if (isElementwise(use.getOwner())) {
        after.insert(use.getOwner());
        values.insert_range(use.getOwner()->getResults());
      } else {
        reason = name + " must have elementwise uses and one store, but got '" +
                 use.getOwner()->getName().getStringRef().str() + "'";
        return std::nullopt;
      }
    }
  if (!sum.store) {
    reason = name + " must be stored, but has no store";
    return std::nullopt;
  }
  std::optional<llvm::SetVector<Operation *>> ops = collect(sum.store.getValue(), sum, kernel);
  if (!ops || llvm::any_of(after, [&](Operation *op) { return !ops->contains(op); })) {
    reason = name + " must be stored without values of the instance, but is combined with some";
    return std::nullopt;
  }
  sum.epilogue.assign(ops->begin(), ops->end());
  sum.view = findWhole(sum.store.getView(), sum.parts);
  ArrayRef<int64_t> places = sum.store.getStaticIndices();
  bool isRows = getRank(result.getType()) == 2 && !sum.store.getDims() && places.size() >= 2 &&
                places.back() == 0;
  if (!isRows || !sum.view || sum.view.getOwner() != &kernel.getBody().front() ||
      Signature(kernel).mayBeAbsent(sum.view.getArgNumber())) {
    reason =
        name + " must be stored to whole rows of an array that is always there, but got " +
        (isRows ? describeOrigin(sum.store.getView()) + ", which may be absent or another array"
                : "parts of rows of " + debugString(sum.store.getView().getType()));
    return std::nullopt;
  }
  sum.arguments.push_back(sum.view.getArgNumber());
  MLIRContext *context = kernel.getContext();
  for (Operation *op = sum.store; op->getParentOp() != kernel; op = op->getParentOp()) {
    auto branch = dyn_cast<scf::IfOp>(op->getParentOp());
    auto flag = branch ? branch.getCondition().getDefiningOp<ParamOp>() : ParamOp();
    if (!flag) {
      reason = name + " must be stored under conditions that are parameters, but got " +
               (branch ? describeOrigin(branch.getCondition())
                       : "'" + op->getParentOp()->getName().getStringRef().str() + "'");
      return std::nullopt;
    }
    bool isElse = op->getParentRegion() == &branch.getElseRegion();
    sum.conditions.push_back(
        isElse ? ExprAttr::get(context, ExprKind::Call, 0, "not", {flag.getExpr()})
               : flag.getExpr());
  }
  return sum;
}

std::string StoredSum::getName(KernelOp kernel) const {
  return "sum_" + cast<StringAttr>(kernel.getArgNames()[view.getArgNumber()]).str();
}

void StoredSum::addInstead(const IRMapping &copy, Value array) const {
  auto own = cast<StoreOp>(copy.lookup(StoreOp(store).getOperation()));
  OpBuilder b(own);
  IRMapping map;
  map.map(copy.lookup(Value(view)), array);
  for (Operation *part : parts) {
    Operation *other = b.clone(*copy.lookup(part), map);
    auto type = cast<ViewType>(other->getResult(0).getType());
    other->getResult(0).setType(
        ViewType::get(type.getContext(), type.getShape(), type.getSymbols(), getElementType()));
  }
  AtomicAddOp::create(b, own.getLoc(), copy.lookup(Value(result)),
                      map.lookupOrDefault(own.getView()), own.getIndices(),
                      own.getStaticIndicesAttr(), own.getDimsAttr());
  own.erase();
}
