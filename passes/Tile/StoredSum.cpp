// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads how a kernel computes and uses the sums of a tile.accumulate.

#include "passes/Tile/StoredSum.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Follows a sum from what is yielded back to the argument of the body.
class SumTracer {
public:
  explicit SumTracer(BlockArgument sum) : sum(sum) { values.insert(sum); }

  /// Null, or an operation that does something else.
  Operation *findOtherUse(OpOperand &yielded) {
    if (!trace(yielded, sum))
      return yielded.get().getDefiningOp() ? yielded.get().getDefiningOp() : yielded.getOwner();
    for (Value value : values)
      for (OpOperand &use : value.getUses())
        if (!known.contains(&use))
          return use.getOwner();
    return nullptr;
  }

private:
  /// Whether the operand is `start` plus terms.
  bool trace(OpOperand &operand, Value start) {
    known.insert(&operand);
    Value value = operand.get();
    if (value == start)
      return true;
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    values.insert(value);
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (auto dot = dyn_cast<DotOp>(op))
      return dot.getAcc() && trace(dot.getAccMutable()[0], start);
    if (isa<arith::AddFOp>(op)) // the other operand does not lead to the start
      return trace(op->getOpOperand(0), start) || trace(op->getOpOperand(1), start);
    if (isa<arith::SelectOp>(op))
      return trace(op->getOpOperand(1), start) && trace(op->getOpOperand(2), start);
    if (auto branch = dyn_cast<scf::IfOp>(op))
      return !branch.getElseRegion().empty() &&
             trace(branch.thenYield()->getOpOperand(number), start) &&
             trace(branch.elseYield()->getOpOperand(number), start);
    if (auto loop = dyn_cast<LoopLikeOpInterface>(op)) {
      MutableArrayRef<OpOperand> inits = loop.getInitsMutable();
      auto yields = loop.getYieldedValuesMutable();
      if (number >= inits.size() || !yields || number >= yields->size())
        return false;
      BlockArgument old = loop.getRegionIterArgs()[number];
      values.insert(old);
      return trace((*yields)[number], old) && trace(inits[number], start);
    }
    return false;
  }

  BlockArgument sum;
  llvm::SetVector<Value> values; ///< the sum on its way
  llvm::DenseSet<OpOperand *> known;
};

} // namespace

LogicalResult tilewright::checkSums(AccumulateOp op) {
  Operation *yield = op.getBody().front().getTerminator();
  for (auto [i, sum] : llvm::enumerate(op.getSums()))
    if (Operation *other = SumTracer(sum).findOtherUse(yield->getOpOperand(i))) {
      (op.emitOpError() << "may only add to its sums, by tile.dot or arith.addf, but does something "
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

/// Adds `value` and what it is computed from, operands first. False if a part is neither the sum,
/// nor elementwise, nor a scalar argument of the kernel.
static bool collect(Value value, StoredSum &sum, KernelOp kernel,
                    llvm::SetVector<Operation *> &ops) {
  if (value == sum.result)
    return true;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    bool isScalar = argument.getOwner() == &kernel.getBody().front() &&
                    argument.getArgNumber() < kernel.getNumArgs() &&
                    !isa<ViewType>(argument.getType());
    if (isScalar && !llvm::is_contained(sum.arguments, argument.getArgNumber()))
      sum.arguments.push_back(argument.getArgNumber());
    return isScalar;
  }
  Operation *op = value.getDefiningOp();
  if (ops.contains(op))
    return true;
  if (!isElementwise(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
        return !collect(operand, sum, kernel, ops);
      }))
    return false;
  ops.insert(op);
  return true;
}

/// Adds the operations from an argument of the kernel to a part of it; returns the argument.
static BlockArgument collectParts(Value view, llvm::SetVector<Operation *> &parts) {
  if (auto argument = dyn_cast<BlockArgument>(view))
    return argument;
  Operation *op = view.getDefiningOp();
  if (auto part = dyn_cast<SubviewOp>(op)) {
    BlockArgument all = collectParts(part.getSource(), parts);
    parts.insert(op);
    return all;
  }
  auto select = dyn_cast<arith::SelectOp>(op);
  if (!select)
    return {};
  BlockArgument a = collectParts(select.getTrueValue(), parts);
  BlockArgument b = collectParts(select.getFalseValue(), parts);
  parts.insert(op);
  return a == b ? a : BlockArgument();
}

std::optional<StoredSum> StoredSum::get(KernelOp kernel, OpResult result, std::string &reason) {
  StoredSum sum;
  sum.result = result;
  std::string name = "sum " + std::to_string(result.getResultNumber());
  llvm::SetVector<Operation *> after, ops, parts;
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
        reason = name + " has a use that is neither its only store nor elementwise";
        return std::nullopt;
      }
    }
  if (!sum.store) {
    reason = name + " is not stored";
    return std::nullopt;
  }
  if (!collect(sum.store.getValue(), sum, kernel, ops) ||
      llvm::any_of(after, [&](Operation *op) { return !ops.contains(op); })) {
    reason = name + " is combined with values of the instance before it is stored";
    return std::nullopt;
  }
  sum.epilogue.assign(ops.begin(), ops.end());
  sum.view = collectParts(sum.store.getView(), parts);
  sum.parts.assign(parts.begin(), parts.end());
  ArrayRef<int64_t> places = sum.store.getStaticIndices();
  bool isRows = getRank(result.getType()) == 2 && !sum.store.getDims() && places.size() >= 2 &&
                places.back() == 0;
  if (!isRows || !sum.view || sum.view.getOwner() != &kernel.getBody().front() ||
      Signature(kernel).mayBeAbsent(sum.view.getArgNumber())) {
    reason = name + " is not stored to whole rows of an array that is always there";
    return std::nullopt;
  }
  sum.arguments.push_back(sum.view.getArgNumber());
  MLIRContext *context = kernel.getContext();
  for (Operation *op = sum.store; op->getParentOp() != kernel; op = op->getParentOp()) {
    auto branch = dyn_cast<scf::IfOp>(op->getParentOp());
    auto flag = branch ? branch.getCondition().getDefiningOp<ParamOp>() : ParamOp();
    if (!flag) {
      reason = name + " is stored under a condition that is no parameter";
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
