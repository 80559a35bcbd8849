// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the form in order into a kernel: under its flag, the turns of the additions, the order of
// the instances, and the work of the kernel that reads the sums.

#include "passes/Tile/OrderedKernel.h"

#include "passes/Tile/AppendArgument.h"
#include "passes/Tile/KernelExpr.h"

#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

ViewType tilewright::getTurnsType(const OrderedSum &sum) {
  auto sums = cast<ViewType>(ContributeOp(sum.op).getView().getType());
  SmallVector<int64_t> unknown(sums.getRank() - 1, ShapedType::kDynamic);
  SmallVector<StringAttr> unnamed(sums.getRank() - 1);
  MLIRContext *context = sums.getContext();
  return ViewType::get(context, unknown, unnamed, IntegerType::get(context, 32));
}

namespace {

class KernelWriter {
public:
  KernelWriter(OrderedSum &sum, int64_t multiprocessors)
      : sum(sum), op(sum.op), kernel(op->getParentOfType<KernelOp>()), completing(sum.completing),
        completed(sum.completed), accumulate(sum.accumulate), order(sum.order), listed(sum.listed),
        context(op.getContext()), flag(op.getFlagAttr()), multiprocessors(multiprocessors) {}

  void run() {
    // Arguments of the form in order exist only with its flag.
    ExprAttr onlyInOrder = ExprAttr::getName(context, flag);
    turns = append("turns", getTurnsType(sum), /*isOptional=*/false, onlyInOrder);
    LaunchOp adding = sum.adding, completion = sum.completion;
    for (auto [i, value] : llvm::enumerate(completion.getArgs())) {
      bool isSum = i == cast<BlockArgument>(completed.getView()).getArgNumber();
      Value own = isSum ? op.getView() : Value();
      ExprAttr condition = getCondition(completing, i);
      for (unsigned j = 0; !own && j < adding.getArgs().size(); ++j)
        if (adding.getArgs()[j] == value && getCondition(kernel, j) == condition)
          own = kernel.getArgs()[j];
      if (!own) {
        bool isOptional = completing.getArgOptional()[i];
        own = append(cast<StringAttr>(completing.getArgNames()[i]).getValue(),
                     completing.getArgs()[i].getType(), isOptional,
                     condition ? call(Function::And, {onlyInOrder, condition}) : onlyInOrder);
        sum.appended.push_back(value);
      }
      arguments.push_back(own);
    }
    writeLate();
    writeTurns();
    writeCompletion();
    op.erase();
  }

private:
  ExprAttr call(Function function, ArrayRef<ExprAttr> operands) const {
    return makeCall(context, function, operands);
  }
  Value constant(OpBuilder &b, int64_t value) {
    return arith::ConstantOp::create(b, op.getLoc(),
                                     b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  Value param(OpBuilder &b, ExprAttr expr, Type type) {
    return ParamOp::create(b, op.getLoc(), type, expr);
  }
  Value extent(OpBuilder &b, unsigned gridDim) {
    return emitExpr(b, op.getLoc(), cast<ExprAttr>(kernel.getGrid()[gridDim]), b.getI32Type(),
                    kernel, kernel.getArgs());
  }

  /// The condition on which an argument exists; null: always.
  static ExprAttr getCondition(KernelOp kernel, unsigned argument) {
    DictionaryAttr conditions = kernel.getArgConditionsAttr();
    StringAttr name = cast<StringAttr>(kernel.getArgNames()[argument]);
    return conditions ? conditions.getAs<ExprAttr>(name) : ExprAttr();
  }

  Value append(StringRef name, Type type, bool isOptional, ExprAttr condition) {
    std::string free = getFreeName(kernel, name.str());
    Value value = appendArgument(kernel, free, type, isOptional, op.getLoc());
    if (isOptional)
      return value;
    NamedAttrList conditions(kernel.getArgConditionsAttr());
    conditions.set(free, condition);
    kernel.setArgConditionsAttr(conditions.getDictionary(context));
    return value;
  }

  /// Instances that add in order start with the last positions of a place, so that the next one
  /// gets its turn one round later. Where sums are staggered, the last instances would then take
  /// longest; so those of the last heads start with the first positions, the longest of them first,
  /// and go through the blocks from the last on.
  void writeLate() {
    OpBuilder b(&kernel.getBody().front(), kernel.getBody().front().begin());
    // After the parameters and extents that the kernel reads first.
    b.setInsertionPoint(listed && listed->isBeforeInBlock(order) ? listed : order);
    Location loc = op.getLoc();
    Type i1 = b.getI1Type(), i32 = b.getI32Type();
    ordered = param(b, ExprAttr::getName(context, flag), i1);
    ExprAttr staggered = op.getStaggeredConditionAttr(), banded = op.getBandedConditionAttr();
    ExprAttr isLate =
        call(Function::And, {ExprAttr::getName(context, flag),
                             staggered ? staggered : ExprAttr::getFlag(context, false)});
    if (banded)
      isLate = call(Function::And, {isLate, call(Function::Not, {banded})});
    auto branch =
        scf::IfOp::create(b, loc, TypeRange(i1), param(b, isLate, i1), /*addThenBlock=*/true,
                          /*addElseBlock=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      Value instances = extent(b, 0);
      if (listed) { // without a list in launches that have none
        Value length = DimOp::create(b, loc, i32, listed.getList(), 0);
        instances = listed.getConditionAttr()
                        ? arith::SelectOp::create(b, loc, param(b, listed.getConditionAttr(), i1),
                                                  length, instances)
                              .getResult()
                        : length;
      }
      Value head, heads;
      for (unsigned dim = kernel.getGridIds().size() - 1; dim > 0; --dim) {
        Value id = kernel.getGridIds()[dim], size = extent(b, dim);
        head = head ? arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, head, size), id)
                          .getResult()
                    : id;
        heads = heads ? arith::MulIOp::create(b, loc, heads, size).getResult() : size;
      }
      if (!head) {
        head = constant(b, 0);
        heads = constant(b, 1);
      }
      scf::YieldOp::create(b, loc, isLastHead(b, head, heads, instances));
      b.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(b, loc,
                           arith::ConstantOp::create(b, loc, b.getBoolAttr(false)).getResult());
    }
    late = branch.getResult(0);
    if (listed)
      replaceListed();
    replaceOrder();
    sum.loop.setOrder(BlockOrder::Descending);
    sum.loop.getOrderConditionMutable().assign(late);
  }

  /// Whether a head (the numbers of the grid but the first) is among the last: those with the last
  /// two instances for each of the multiprocessors, or all, if there are fewer than four. The tile
  /// order of launches puts as many tiles into its last group; where a GPU has fewer
  /// multiprocessors, some of the last heads are outside of it, which only takes time. None is
  /// among the last if a head has no instances.
  Value isLastHead(OpBuilder &b, Value head, Value heads, Value instances) {
    Location loc = op.getLoc();
    auto compare = [&](arith::CmpIPredicate predicate, Value x, Value y) -> Value {
      return arith::CmpIOp::create(b, loc, predicate, x, y);
    };
    Value left = arith::SubIOp::create(b, loc, heads, head);
    Value toEnd = arith::MulIOp::create(b, loc, left, instances);
    Value most = arith::AddIOp::create(b, loc, instances, constant(b, 2 * multiprocessors));
    Value isLast = compare(arith::CmpIPredicate::slt, toEnd, most);
    Value all = arith::MulIOp::create(b, loc, heads, instances);
    Value areFew = compare(arith::CmpIPredicate::slt, all, constant(b, 4 * multiprocessors));
    Value isOne = arith::OrIOp::create(b, loc, isLast, areFew);
    Value exist = compare(arith::CmpIPredicate::sgt, instances, constant(b, 0));
    return arith::AndIOp::create(b, loc, isOne, exist);
  }

  void replaceListed() {
    OpBuilder b(listed);
    Location loc = listed.getLoc();
    Value takes = late;
    if (ExprAttr condition = listed.getConditionAttr())
      takes = arith::AndIOp::create(b, loc, late, param(b, condition, b.getI1Type()));
    auto branch = scf::IfOp::create(b, loc, TypeRange(b.getI32Type()), takes, true, true);
    b.setInsertionPointToStart(branch.thenBlock());
    Value at =
        AtOp::create(b, loc, b.getI32Type(), FlatSymbolRefAttr(), listed.getList(),
                     ValueRange(listed.getNumber()), b.getDenseI64ArrayAttr(ShapedType::kDynamic));
    scf::YieldOp::create(b, loc, at);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc, listed.getNumber());
    listed.replaceAllUsesWith(branch.getResult(0));
    listed.erase();
  }

  void replaceOrder() {
    OpBuilder b(order);
    Location loc = order.getLoc();
    Value given = order.getNumber(), count = order.getCount();
    Value last = arith::SubIOp::create(b, loc, count, constant(b, 1));
    Value fromLast = arith::SubIOp::create(b, loc, last, given);
    Value isThere =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, fromLast, constant(b, 0));
    Value isReversed = arith::AndIOp::create(b, loc, ordered, isThere);
    Value early = arith::SelectOp::create(b, loc, isReversed, fromLast, given);
    Value chosen = arith::SelectOp::create(b, loc, late, given, early);
    order.replaceAllUsesWith(chosen);
    number = chosen;
    order.erase();
  }

  /// The turn: how many of the instances that add to the place come before.
  void writeTurns() {
    OpBuilder b(op);
    Location loc = op.getLoc();
    auto branch = scf::IfOp::create(b, loc, ordered, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    Value size = param(b, op.getSizeAttr(), b.getI32Type());
    Value fromHere = arith::SubIOp::create(b, loc, op.getEnd(), op.getPosition());
    Value others = arith::SubIOp::create(b, loc, fromHere, constant(b, 1));
    Value behind = arith::DivSIOp::create(b, loc, others, size);
    Value first = arith::DivSIOp::create(b, loc, op.getFirst(), size);
    Value before = arith::SubIOp::create(b, loc, number, first);
    Value turn = arith::SelectOp::create(b, loc, late, before, behind);
    SmallVector<Value> places;
    SmallVector<int64_t> staticPlaces;
    getPlace(op.getIndices(), op.getStaticIndices(), places, staticPlaces);
    AtomicAddOp::create(b, loc, op.getValue(), op.getView(), op.getIndices(),
                        op.getStaticIndicesAttr(), op.getDimsAttr(), turn, turns, places,
                        b.getDenseI64ArrayAttr(staticPlaces));
    b.setInsertionPointToStart(branch.elseBlock());
    AtomicAddOp::create(b, loc, op.getValue(), op.getView(), op.getIndices(),
                        op.getStaticIndicesAttr(), op.getDimsAttr());
  }

  /// All indices but the last.
  static void getPlace(OperandRange indices, ArrayRef<int64_t> staticIndices,
                       SmallVector<Value> &places, SmallVector<int64_t> &staticPlaces) {
    staticPlaces.assign(staticIndices.begin(), staticIndices.end() - 1);
    places.assign(indices.begin(), indices.end());
    if (ShapedType::isDynamic(staticIndices.back()))
      places.pop_back();
  }

  /// At the end of the kernel: for each instance of the kernel that reads the sums, what it does,
  /// as soon as they are complete.
  void writeCompletion() {
    OpBuilder b(context);
    b.setInsertionPointToEnd(&kernel.getBody().front());
    Location loc = completed.getLoc();
    auto branch = scf::IfOp::create(b, loc, ordered, /*withElseRegion=*/false);
    b.setInsertionPointToStart(branch.thenBlock());
    SmallVector<Value> extents;
    Value all;
    for (auto each : completing.getGrid().getAsRange<ExprAttr>()) {
      extents.push_back(emitExpr(b, loc, each, b.getI32Type(), completing, arguments));
      all = all ? arith::MulIOp::create(b, loc, all, extents.back()).getResult() : extents.back();
    }
    // Multiprocessors divide the numbers in the order in which sums become complete: terms of
    // another sum that share an instance come one after the other.
    Value groups;
    int shared = -1;
    if (accumulate) {
      groups =
          extent(b, cast<BlockArgument>(accumulate.getId()).getArgNumber() - kernel.getNumArgs());
      for (auto [own, other] : llvm::zip(op.getIndices(), completed.getIndices()))
        if (auto id = dyn_cast<BlockArgument>(other); id && isTerm(own))
          shared = static_cast<int>(id.getArgNumber()) - static_cast<int>(completing.getNumArgs());
    }
    auto spread = SpreadOp::create(b, loc, all);
    Block &body = spread.getBody().emplaceBlock();
    body.addArgument(b.getI32Type(), loc);
    b.setInsertionPointToStart(&body);
    IRMapping map;
    map.map(completing.getArgs(), arguments);
    Value rest = body.getArgument(0);
    for (auto [i, id] : llvm::enumerate(completing.getGridIds())) {
      bool isLast = i + 1 == extents.size();
      Value own = isLast ? rest : arith::RemSIOp::create(b, loc, rest, extents[i]).getResult();
      if (!isLast)
        rest = arith::DivSIOp::create(b, loc, rest, extents[i]);
      if (static_cast<int>(i) == shared) {
        Value ofGroup = arith::DivSIOp::create(b, loc, own, groups);
        Value group = arith::RemSIOp::create(b, loc, own, groups);
        Value begin = arith::MulIOp::create(b, loc, group, accumulate.getCount());
        own = arith::AddIOp::create(b, loc, begin, ofGroup);
      }
      map.map(id, own);
    }
    for (Operation &each : completing.getBody().front()) {
      if (&each == completed.getOperation())
        map.map(completed.getResult(), loadComplete(b, map));
      else
        b.clone(each, map);
    }
    SpreadOp::ensureTerminator(spread.getBody(), b, loc);
  }

  /// Whether an index is the number of the term, where a parameter may choose another. That affects
  /// the order alone.
  bool isTerm(Value index) {
    auto select = index.getDefiningOp<arith::SelectOp>();
    return index == accumulate.getNumber() ||
           (select && select.getTrueValue() == accumulate.getNumber() &&
            select.getCondition().getDefiningOp<ParamOp>());
  }

  /// Waits until all instances that add to the place have done so. If there are none, nothing is in
  /// the array, so the view is empty.
  Value loadComplete(OpBuilder &b, const IRMapping &map) {
    Location loc = completed.getLoc();
    Value first = map.lookup(completed.getFirst()), end = map.lookup(completed.getEnd());
    Value size = param(b, op.getSizeAttr(), b.getI32Type()), zero = constant(b, 0);
    Value one = constant(b, 1);
    Value isThere = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, end, first);
    Value lastPosition = arith::SubIOp::create(b, loc, end, one);
    Value last = arith::DivSIOp::create(b, loc, lastPosition, size);
    Value begin = arith::DivSIOp::create(b, loc, first, size);
    Value others = arith::SubIOp::create(b, loc, last, begin);
    Value added = arith::AddIOp::create(b, loc, others, one);
    Value awaited = arith::SelectOp::create(b, loc, isThere, added, zero);
    SmallVector<Value> places, indices;
    SmallVector<int64_t> staticPlaces;
    getPlace(completed.getIndices(), completed.getStaticIndices(), places, staticPlaces);
    for (Value &place : places)
      place = map.lookup(place);
    for (Value index : completed.getIndices())
      indices.push_back(map.lookup(index));
    AwaitOp::create(b, loc, awaited, turns, places, b.getDenseI64ArrayAttr(staticPlaces));
    int64_t rowDim = cast<ViewType>(op.getView().getType()).getRank() - 2;
    Value rows = DimOp::create(b, loc, b.getI32Type(), op.getView(), rowDim);
    Value own = arith::SelectOp::create(b, loc, isThere, rows, zero);
    Value view = SubviewOp::create(b, loc, op.getView().getType(), op.getView(),
                                   b.getI64IntegerAttr(rowDim), zero, own, ExprAttr());
    return LoadOp::create(b, loc, completed.getType(), view, indices,
                          completed.getStaticIndicesAttr(), DenseI64ArrayAttr(), Value());
  }

  OrderedSum &sum;
  ContributeOp op;
  KernelOp kernel, completing;
  CompleteOp completed;
  AccumulateOp accumulate;
  AnyOrderOp order, listed;
  MLIRContext *context;
  StringAttr flag;
  int64_t multiprocessors;
  SmallVector<Value> arguments; ///< of the kernel, for each of the one that reads the sums
  Value turns, ordered, late, number;
};

} // namespace

void tilewright::writeOrderedKernel(OrderedSum &sum, int64_t multiprocessors) {
  KernelWriter(sum, multiprocessors).run();
}
