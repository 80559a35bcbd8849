// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks what the form in order of a sum in memory relies on: that each instance adds one tile to a
// place, that its turn follows from its number, and that the kernel that adds can do what the one
// that reads does.

#include "passes/Tile/OrderRules.h"

#include "passes/Tile/KernelExpr.h"
#include "passes/Tile/LaunchNames.h"

#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Whether a value depends on a number of the grid other than the first. Results of a branch depend
/// on what it yields for them.
bool dependsOnOthers(Value value, KernelOp kernel) {
  llvm::SetVector<Value> values;
  values.insert(value);
  Block &body = kernel.getBody().front();
  for (size_t i = 0; i < values.size(); ++i) {
    auto argument = dyn_cast<BlockArgument>(values[i]);
    if (argument && argument.getOwner() == &body) {
      if (argument.getArgNumber() > kernel.getNumArgs())
        return true;
      continue;
    }
    Operation *op = argument ? argument.getOwner()->getParentOp() : values[i].getDefiningOp();
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      unsigned number = cast<OpResult>(values[i]).getResultNumber();
      values.insert(branch.getCondition());
      values.insert(branch.thenYield().getOperand(number));
      values.insert(branch.elseYield().getOperand(number));
      continue;
    }
    values.insert_range(op->getOperands());
    op->walk([&](Operation *inner) { values.insert_range(inner->getOperands()); });
  }
  return false;
}

class Rules {
public:
  explicit Rules(OrderedSum &sum) : sum(sum), op(sum.op), kernel(op->getParentOfType<KernelOp>()) {}

  LogicalResult check() {
    return success(succeeded(checkLoops()) && succeeded(checkNumber()) &&
                   succeeded(checkPlaces()) && succeeded(checkCompletion()));
  }

private:
  InFlightDiagnostic reject(Operation *at, const Twine &rule) { return at->emitOpError() << rule; }

  /// An instance adds one tile to a place.
  LogicalResult checkLoops() {
    sum.loop = op->getParentOfType<ForBlocksOp>();
    sum.accumulate = op->getParentOfType<AccumulateOp>();
    if (!sum.loop || sum.loop.getOrder() == BlockOrder::Descending)
      return reject(op, "adds in order only inside a tile.for_blocks that is ascending; remove 'in "
                        "order', or write such a loop");
    for (Operation *at = op; at->getParentOp() != kernel; at = at->getParentOp()) {
      Operation *parent = at->getParentOp();
      if (auto branch = dyn_cast<scf::IfOp>(parent)) {
        auto param = branch.getCondition().getDefiningOp<ParamOp>();
        if (!param || at->getParentRegion() == &branch.getElseRegion())
          return reject(op, "adds in order only in branches that a parameter takes; use 'when'");
        sum.branches.push_back(param.getExpr());
      } else if (parent != sum.loop && parent != sum.accumulate) {
        return reject(op, "adds in order only once for each block, but is inside another loop; "
                          "remove 'in order', or use tile.accumulate around tile.for_blocks")
                   .attachNote(parent->getLoc())
               << "the loop";
      }
    }
    return success();
  }

  /// The turn follows from the number of the instance.
  LogicalResult checkNumber() {
    kernel.getBody().walk([&](AnyOrderOp any) { (any.getCount() ? sum.order : sum.listed) = any; });
    auto position = op.getPosition().getDefiningOp<arith::MulIOp>();
    auto isSize = [&](Value value) {
      auto param = value.getDefiningOp<ParamOp>();
      APInt number;
      return (param && param.getExpr() == op.getSizeAttr()) ||
             (op.getSizeAttr().getKind() == ExprKind::Int &&
              matchPattern(value, m_ConstantInt(&number)) &&
              number.getSExtValue() == op.getSizeAttr().getValue());
    };
    bool isNumber = false;
    for (unsigned i = 0; position && sum.order && i < 2; ++i)
      isNumber |=
          position->getOperand(i) == sum.order.getResult() && isSize(position->getOperand(1 - i));
    if (!isNumber)
      return reject(op, "adds in order only from a position that is the result of "
                        "'tile.any_order ... of' times the number of positions (arith.muli), since "
                        "instances start in the order of their turns; compute it so");
    if (sum.listed) {
      auto list = dyn_cast<BlockArgument>(sum.listed.getList());
      if (!list || list.getOwner() != &kernel.getBody().front())
        return reject(sum.listed, "needs a list that is an argument of the kernel; pass it as one");
    }
    if (sum.order->getParentOp() != kernel || (sum.listed && sum.listed->getParentOp() != kernel))
      return reject(sum.order->getParentOp() != kernel ? sum.order : sum.listed,
                    "must be in the body of the kernel; move it out");
    if (dependsOnOthers(sum.order.getNumber(), kernel))
      return reject(sum.order, "needs a number that comes from the first one of the grid, where "
                               "tiles are added in order, since instances start in the order of "
                               "that; put it first");
    return success();
  }

  /// A place has a counter for all of its columns.
  LogicalResult checkPlaces() {
    if (getRank(op.getValue().getType()) != 2 || op.getStaticIndices().size() < 2)
      return reject(op, "adds in order only tiles with two dimensions, but got ")
             << op.getValue().getType();
    int64_t rank = getRank(op.getView().getType());
    SmallVector<int64_t> dims(op.getDims().value_or(ArrayRef<int64_t>{rank - 2, rank - 1}));
    bool isTransposed = dims[0] == rank - 1 && dims[1] == rank - 2;
    if ((!isTransposed && (dims[0] != rank - 2 || dims[1] != rank - 1)) ||
        op.getStaticIndices().back() != 0)
      return reject(op, "adds in order only whole rows of the last two dimensions, from column 0, "
                        "since all columns share a counter, but got column ")
             << (ShapedType::isDynamic(op.getStaticIndices().back())
                     ? "that is no constant"
                     : std::to_string(op.getStaticIndices().back()))
             << " of dimensions " << dims;
    Dim rows = getDims(op.getValue().getType())[isTransposed ? 1 : 0];
    if (!rows.isSymbol() || getDims(sum.completed.getType())[0] != rows)
      return reject(sum.completed, "must load as many rows as tile.contribute adds, by the same "
                                   "parameter, to do so as soon as they are complete, but got ")
             << sum.completed.getType() << " for " << op.getValue().getType();
    sum.rowsName = rows.symbol;
    return success();
  }

  /// The kernel can do what the other one does.
  LogicalResult checkCompletion() {
    for (KernelOp each : {kernel, sum.completing})
      for (auto extent : each.getGrid().getAsRange<ExprAttr>())
        if (!canEmitExpr(extent, each))
          return reject(op, "adds in order only with a grid that an instance can compute, but the "
                            "grid of @")
                 << each.getSymName() << " reads the device, or a function other than + - * and "
                 << "ceildiv, floordiv, mod, min, max and select";
    bool isCovered = true;
    Signature own(kernel), other(sum.completing);
    auto cover = [&](StringRef name) {
      isCovered &= own.findParam(name) || !other.findParam(name);
    };
    for (auto extent : sum.completing.getGrid().getAsRange<ExprAttr>())
      walkExpr(extent, [&](ExprAttr leaf) { cover(leaf.getName()); });
    sum.completing.getBody().walk([&](Operation *each) {
      if (auto param = dyn_cast<ParamOp>(each))
        walkExpr(param.getExpr(), [&](ExprAttr leaf) { cover(leaf.getName()); });
      for (Type type : each->getResultTypes()) {
        if (auto element = dyn_cast_or_null<ParamType>(getElementType(type)))
          cover(element.getName());
        if (isTile(type))
          for (Dim dim : getDims(type))
            if (dim.isSymbol())
              cover(dim.symbol.getValue());
      }
    });
    if (!isCovered)
      return reject(sum.completed, "is in a kernel that reads parameters which @")
             << kernel.getSymName() << " does not have; declare them there as well";
    return success();
  }

  OrderedSum &sum;
  ContributeOp op;
  KernelOp kernel;
};

} // namespace

LogicalResult tilewright::checkOrderedKernel(OrderedSum &sum) { return Rules(sum).check(); }

LogicalResult tilewright::checkOrderedParams(const OrderedSum &sum) {
  ContributeOp op = sum.op;
  KernelOp completing = sum.completing, kernel = op->getParentOfType<KernelOp>();
  CompleteOp completed = sum.completed;
  LaunchNames own(kernel, sum.adding), other(completing, sum.completion);
  StringRef differing;
  auto compare = [&](ExprAttr leaf) {
    bool isParam = leaf.getKind() == ExprKind::Name && leaf.getName() != sum.rowsName.getValue() &&
                   Signature(completing).findParam(leaf.getName());
    if (isParam && own.get(leaf) != other.get(leaf))
      differing = leaf.getName();
  };
  for (auto extent : completing.getGrid().getAsRange<ExprAttr>())
    walkExpr(extent, compare);
  completing.getBody().walk([&](ParamOp param) { walkExpr(param.getExpr(), compare); });
  if (differing.empty())
    return success();
  return completed.emitOpError("is in a kernel with another value of '")
         << differing << "' than @" << kernel.getSymName()
         << " has, which does the same in order; give it the same value, or another name";
}

bool tilewright::writesArgument(KernelOp kernel, unsigned argument) {
  llvm::SetVector<Value> views; // the array and its parts
  views.insert(kernel.getArgs()[argument]);
  for (size_t i = 0; i < views.size(); ++i)
    for (Operation *user : views[i].getUsers()) {
      auto effects = dyn_cast<MemoryEffectOpInterface>(user);
      if (effects && effects.getEffectOnValue<MemoryEffects::Write>(views[i]))
        return true;
      Operation *source = user->hasTrait<OpTrait::IsTerminator>() ? user->getParentOp() : user;
      for (Value result : source->getResults())
        if (isa<ViewType>(result.getType()))
          views.insert(result);
    }
  return false;
}
