// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-expand-composites: replaces operations that are made of others, so that devices need not
// know them.

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

#include <utility>

namespace tilewright {
#define GEN_PASS_DEF_TILEEXPANDCOMPOSITES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Creates the parts of one operation before it.
class Expander {
public:
  explicit Expander(Operation *op) : b(op), loc(op->getLoc()) {}

  template <typename OpT> void expandExtremum(OpT op, ReduceKind kind) {
    auto type = cast<RankedTensorType>(op.getSource().getType());
    auto [value, index] = find(kind, op.getSource(), op.getDim(), iota(type, op.getDim(), i32(0)));
    op.replaceAllUsesWith(ValueRange{value, index});
    op.erase();
  }
  void expand(TopKOp op);
  void expandAsRow(TopKOp op);
  void expand(ConcatOp op);
  void expand(InsertOp op) {
    op.replaceAllUsesWith(insert(op.getPart(), op.getInto(), op.getDim(), op.getOffset()));
    op.erase();
  }

private:
  Value i32(int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }
  Value full(Value scalar, Type like) {
    auto type = cast<RankedTensorType>(like).clone(scalar.getType());
    return FullOp::create(b, loc, type, scalar);
  }
  Value iota(Type like, int64_t dim, Value start) {
    auto type = cast<RankedTensorType>(like).clone(b.getI32Type());
    return IotaOp::create(b, loc, type, start, dim);
  }
  Value compare(arith::CmpIPredicate predicate, Value lhs, Value rhs) {
    return arith::CmpIOp::create(b, loc, predicate, lhs, rhs);
  }
  Value select(Value condition, Value ifTrue, Value ifFalse) {
    return SelectOp::create(b, loc, ifTrue.getType(), condition, ifTrue, ifFalse);
  }
  Value reduce(ReduceKind kind, Value source, int64_t dim) {
    auto type = cast<RankedTensorType>(source.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.erase(shape.begin() + dim);
    return ReduceOp::create(b, loc, type.clone(shape), kind, source, dim);
  }
  /// The number that no element comes after.
  Value last(ReduceKind kind, Type element);
  std::pair<Value, Value> find(ReduceKind kind, Value source, int64_t dim, Value positions);
  Value insert(Value part, Value into, int64_t dim, Value offset);

  OpBuilder b;
  Location loc;
};

Value Expander::last(ReduceKind kind, Type element) {
  bool isLeast = kind == ReduceKind::Max;
  TypedAttr number;
  if (auto type = dyn_cast<FloatType>(element)) {
    const llvm::fltSemantics &semantics = type.getFloatSemantics();
    number = FloatAttr::get(type, APFloat::semanticsHasInf(semantics)
                                      ? APFloat::getInf(semantics, isLeast)
                                      : APFloat::getLargest(semantics, isLeast));
  } else {
    unsigned width = element.getIntOrFloatBitWidth();
    number = IntegerAttr::get(element, isLeast ? APInt::getSignedMinValue(width)
                                               : APInt::getSignedMaxValue(width));
  }
  return arith::ConstantOp::create(b, loc, number);
}

/// The extremum along a dimension, and the least of `positions` that has it. NaN is unequal to
/// itself; if the extremum is NaN, a position of a NaN is taken.
std::pair<Value, Value> Expander::find(ReduceKind kind, Value source, int64_t dim,
                                       Value positions) {
  auto type = cast<RankedTensorType>(source.getType());
  Value extremum = reduce(kind, source, dim);
  Value each = ExpandOp::create(b, loc, type, extremum, dim);
  Value isIt;
  if (isa<FloatType>(type.getElementType())) {
    Value isEqual = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, source, each);
    Value isNaN = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, source, source);
    isIt = arith::OrIOp::create(b, loc, isEqual, isNaN);
  } else {
    isIt = compare(arith::CmpIPredicate::eq, source, each);
  }
  Value beyond = full(i32(type.getDimSize(dim)), type);
  return {extremum, reduce(ReduceKind::Min, select(isIt, positions, beyond), dim)};
}

// On a GPU, a tile has a rank of 1 or more, after a reduction, too.
void Expander::expandAsRow(TopKOp op) {
  auto toRow = [](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    return tensor.clone({1, tensor.getDimSize(0)});
  };
  Type values = op.getValues().getType(), indices = op.getIndices().getType();
  Value row = ReshapeOp::create(b, loc, toRow(op.getSource().getType()), op.getSource());
  auto ofRow =
      TopKOp::create(b, loc, toRow(values), toRow(indices), row, /*dim=*/1, op.getSmallest());
  Value results[] = {ReshapeOp::create(b, loc, values, ofRow.getValues()),
                     ReshapeOp::create(b, loc, indices, ofRow.getIndices())};
  op.replaceAllUsesWith(ValueRange(results));
  op.erase();
  Expander(ofRow).expand(ofRow);
}

// Each round takes an extremum away by moving its position beyond the tile, so that an element
// which equals what stands for those that are gone is still found.
void Expander::expand(TopKOp op) {
  if (cast<RankedTensorType>(op.getSource().getType()).getRank() == 1)
    return expandAsRow(op);
  ReduceKind kind = op.getSmallest() ? ReduceKind::Min : ReduceKind::Max;
  Value source = op.getSource();
  auto type = cast<RankedTensorType>(source.getType());
  auto valuesType = cast<RankedTensorType>(op.getValues().getType());
  auto indicesType = cast<RankedTensorType>(op.getIndices().getType());
  int64_t dim = op.getDim();
  Value zero = i32(0), all = iota(type, dim, zero);
  Value beyond = full(i32(type.getDimSize(dim)), type);
  Value gone = full(last(kind, type.getElementType()), type);
  Value none = full(last(kind, type.getElementType()), valuesType),
        nowhere = full(zero, valuesType);
  Value order = iota(valuesType, dim, zero);
  auto rounds = scf::ForOp::create(b, loc, zero, i32(valuesType.getDimSize(dim)), i32(1),
                                   ValueRange{all, none, nowhere});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(rounds.getBody());
  Value positions = rounds.getRegionIterArg(0);
  Value isGone = compare(arith::CmpIPredicate::eq, positions, beyond);
  auto [value, index] = find(kind, select(isGone, gone, source), dim, positions);
  Value isNow =
      compare(arith::CmpIPredicate::eq, order, full(rounds.getInductionVar(), valuesType));
  Value values =
      select(isNow, ExpandOp::create(b, loc, valuesType, value, dim), rounds.getRegionIterArg(1));
  Value indices =
      select(isNow, ExpandOp::create(b, loc, indicesType, index, dim), rounds.getRegionIterArg(2));
  Value taken = ExpandOp::create(b, loc, positions.getType(), index, dim);
  Value isTaken = compare(arith::CmpIPredicate::eq, positions, taken);
  scf::YieldOp::create(b, loc, ValueRange{select(isTaken, beyond, positions), values, indices});
  op.replaceAllUsesWith(rounds.getResults().drop_front());
  op.erase();
}

Value Expander::insert(Value part, Value into, int64_t dim, Value offset) {
  Type type = into.getType();
  Value start = arith::SubIOp::create(b, loc, i32(0), offset);
  Value moved = SliceOp::create(b, loc, type, part, dim, start, /*fill=*/Value());
  // As an unsigned number, a position before the part is beyond its end.
  Value extent = i32(cast<RankedTensorType>(part.getType()).getDimSize(dim));
  Value isInside = compare(arith::CmpIPredicate::ult, iota(type, dim, start), full(extent, type));
  return select(isInside, moved, into);
}

void Expander::expand(ConcatOp op) {
  Type type = op.getResult().getType();
  int64_t dim = op.getDim(), begin = 0;
  Value result;
  for (Value part : op.getSources()) {
    if (!result)
      result = SliceOp::create(b, loc, type, part, dim, i32(0), /*fill=*/Value());
    else
      result = insert(part, result, dim, i32(begin));
    begin += cast<RankedTensorType>(part.getType()).getDimSize(dim);
  }
  op.replaceAllUsesWith(result);
  op.erase();
}

struct TileExpandCompositesPass
    : tilewright::impl::TileExpandCompositesBase<TileExpandCompositesPass> {
  using TileExpandCompositesBase::TileExpandCompositesBase;

  void runOnOperation() override {
    getOperation()->walk([](Operation *op) {
      // A symbolic tile has no extents yet.
      if (op->getNumResults() == 0 || !isa<RankedTensorType>(op->getResult(0).getType()))
        return;
      llvm::TypeSwitch<Operation *>(op)
          .Case([](ArgMaxOp each) { Expander(each).expandExtremum(each, ReduceKind::Max); })
          .Case([](ArgMinOp each) { Expander(each).expandExtremum(each, ReduceKind::Min); })
          .Case<TopKOp, ConcatOp, InsertOp>([](auto each) { Expander(each).expand(each); });
    });
  }
};

} // namespace
