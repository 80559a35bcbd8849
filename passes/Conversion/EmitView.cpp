// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views in global memory: their extents, single elements, regions that tiles cover, and what is
// known of how they are aligned.

#include "passes/Conversion/KernelEmitter.h"

#include "passes/Conversion/LoweringTable.h"

#include <limits>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using View = KernelEmitter::View;
using ViewRegion = KernelEmitter::ViewRegion;

KernelEmitter::View KernelEmitter::getView(Value value) {
  auto type = cast<tile::ViewType>(value.getType());
  ArrayRef<Value> list = get(value);
  size_t rank = type.getRank();
  View view{list[0], Values(list.slice(1, rank)), Values(list.slice(1 + rank, rank)),
            getScalarType(type.getElementType()), getElementBits(type.getElementType()) / 8};
  return view;
}

static LogicalResult emitDim(KernelEmitter &e, tile::DimOp op) {
  if (op.getView()) {
    e.set(op.getResult(), {e.getView(op.getView()).extents[op.getDim()]});
    return success();
  }
  auto found = e.captures.find(op.getCaptureAttr().getAttr());
  if (found == e.captures.end())
    return op.emitError() << "'" << op.getCaptureAttr() << "' is not a capture in the module";
  e.set(op.getResult(), {found->second[1 + op.getDim()]});
  return success();
}

static LogicalResult emitSubview(KernelEmitter &e, tile::SubviewOp op) {
  View view = e.getView(op.getSource());
  int64_t dim = op.getDim();
  Value offset = e.getScalar(op.getOffset());
  Value bytes = e.mul(e.mul(e.toI64(offset), view.strides[dim]), e.i64(view.bytes));
  Values list = e.get(op.getSource());
  list[0] = e.advance(view.base, bytes);
  list[1 + dim] = e.clampPart(offset, e.getScalar(op.getSize()), view.extents[dim]);
  e.set(op.getResult(), list);
  return success();
}

/// What is left of an extent beyond the offset, and no more than asked for; neither below 0.
Value KernelEmitter::clampPart(Value offset, Value asked, Value extent) {
  Value left = arith::SubIOp::create(b, extent, offset);
  Value size = arith::MinSIOp::create(b, left, asked);
  // An offset from an array of indices may have any value, also a negative one.
  Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, offset, i32(0));
  return arith::SelectOp::create(b, isInside, arith::MaxSIOp::create(b, size, i32(0)), i32(0));
}

static LogicalResult emitCaptured(KernelEmitter &e, tile::CapturedOp op) {
  auto found = e.captures.find(op.getCaptureAttr().getAttr());
  if (found == e.captures.end())
    return op.emitError() << "'" << op.getCaptureAttr() << "' is not a capture in the module";
  e.set(op.getResult(), found->second);
  return success();
}

static LogicalResult emitRepeat(KernelEmitter &e, tile::RepeatOp op) {
  View view = e.getView(op.getSource());
  size_t dim = op.getDim(), rank = view.extents.size();
  Value condition = e.getScalar(op.getCondition()), at = e.getScalar(op.getAt());
  Value extent = view.extents[dim], stride = view.strides[dim];
  auto choose = [&](Value repeated, Value usual) {
    return arith::SelectOp::create(e.b, condition, repeated, usual).getResult();
  };
  Values list = e.get(op.getSource());
  Value first = choose(e.toI64(at), e.i64(0));
  list[0] = e.advance(view.base, e.mul(e.mul(first, stride), e.i64(view.bytes)));
  Value all = e.i32(std::numeric_limits<int32_t>::max());
  list[1 + dim] = choose(arith::SelectOp::create(e.b, e.less(at, extent), all, e.i32(0)), extent);
  list[1 + rank + dim] = choose(e.i64(0), stride);
  e.set(op.getResult(), list);
  return success();
}

/// Of a view that repeats elements of another the alignment is that of the other, along dimensions
/// that do not repeat.
static Value getRoot(Value view) {
  while (auto repeat = view.getDefiningOp<tile::RepeatOp>())
    view = repeat.getSource();
  return isa<BlockArgument>(view) || view.getDefiningOp<tile::CapturedOp>() ? view : Value();
}

static LogicalResult emitAt(KernelEmitter &e, tile::AtOp op) {
  Values list;
  Type type = nullptr;
  if (op.getView()) {
    list = e.get(op.getView());
    type = op.getView().getType();
  } else {
    auto found = e.captures.find(op.getCaptureAttr().getAttr());
    if (found == e.captures.end())
      return op.emitError() << "'" << op.getCaptureAttr() << "' is not a capture in the module";
    list = found->second;
    type = e.module.lookupSymbol<tile::CaptureOp>(op.getCaptureAttr().getAttr()).getType();
  }
  auto viewType = dyn_cast<tile::ViewType>(type);
  if (!viewType) {
    e.set(op.getResult(), {list.front()});
    return success();
  }
  size_t rank = viewType.getRank(), dynamic = 0;
  int64_t bytes = getElementBits(viewType.getElementType()) / 8;
  Value inside, offset = e.i64(0);
  for (size_t d = 0; d < rank; ++d) {
    int64_t known = op.getStaticIndices()[d];
    Value index =
        ShapedType::isDynamic(known) ? e.getScalar(op.getIndices()[dynamic++]) : e.i32(known);
    inside = e.conjunction(inside, e.less(index, list[1 + d]));
    offset = e.add(offset, e.mul(e.toI64(index), list[1 + rank + d]));
  }
  Value address = e.advance(list[0], e.mul(offset, e.i64(bytes)));
  Type element = e.getScalarType(type);
  e.set(op.getResult(), e.loadGlobal(address, inside, element, 1, nullptr));
  return success();
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

KernelEmitter::ViewRegion KernelEmitter::getRegion(Value viewValue, OperandRange indices,
                                                   ArrayRef<int64_t> staticIndices,
                                                   std::optional<ArrayRef<int64_t>> dims,
                                                   ArrayRef<int64_t> tileShape) {
  ViewRegion region;
  region.view = getView(viewValue);
  region.shape.assign(tileShape.begin(), tileShape.end());
  int64_t tileRank = static_cast<int64_t>(tileShape.size());
  const View &view = region.view;
  int64_t rank = static_cast<int64_t>(view.extents.size());
  SmallVector<int64_t> along;
  for (int64_t i = 0; i < tileRank; ++i)
    along.push_back(dims ? (*dims)[i] : rank - tileRank + i);

  Values index;
  size_t dynamic = 0;
  for (int64_t known : staticIndices)
    index.push_back(ShapedType::isDynamic(known) ? getScalar(indices[dynamic++]) : i32(known));
  Value offset = i64(0), outer = i64(0);
  for (int64_t d = 0; d < rank; ++d) {
    if (llvm::is_contained(along, d)) {
      offset = add(offset, mul(toI64(index[d]), view.strides[d]));
      continue;
    }
    // A negative index is outside the view, so the sign may be dropped.
    Value part = mul(toU64(index[d]), view.strides[d]);
    offset = add(offset, part);
    outer = add(outer, part);
    region.inside = conjunction(region.inside, less(index[d], view.extents[d]));
  }
  region.outer = advance(view.base, mul(outer, i64(view.bytes)));
  region.origin = advance(view.base, mul(offset, i64(view.bytes)));
  region.viewValue = viewValue;
  region.root = getRoot(viewValue);
  region.runsAlongLast = along.empty() || along.back() == rank - 1;
  if (auto last = llvm::find(along, rank - 1); last != along.end())
    region.dense = last - along.begin();
  for (int64_t d : along) {
    region.index.push_back(index[d]);
    region.extent.push_back(view.extents[d]);
    region.stride.push_back(view.strides[d]);
  }
  return region;
}

bool KernelEmitter::isKnownAligned(Value viewValue, int64_t vector) {
  auto argument = dyn_cast<BlockArgument>(viewValue);
  auto found = argument && argument.getOwner() == &kernel.getBody().front()
                   ? aligned.find(argument.getArgNumber())
                   : aligned.end();
  if (found == aligned.end())
    return false;
  auto type = cast<tile::ViewType>(viewValue.getType());
  int64_t extent = type.getShape().back();
  int64_t bytes = getElementBits(type.getElementType()) / 8;
  bool endsEvenly = vector == 1 || (!ShapedType::isDynamic(extent) && extent % vector == 0);
  return endsEvenly && found->second % (vector * bytes) == 0;
}

/// The part of it that depends on an argument of the kernel alone; for loops computed at entry.
static Value isAlignedView(KernelEmitter &e, const View &view, Value viewValue, int64_t vector) {
  if (e.isKnownAligned(viewValue, vector))
    return e.constant(e.b.getBoolAttr(true));
  // In a role, entry means the entry of the role. Outside of loops nothing is gained by computing
  // it there, and after loops it would occupy a register across them.
  Value notShared;
  Operation *around = e.b.getInsertionBlock()->getParentOp();
  bool isInLoop =
      isa<LoopLikeOpInterface>(around) || around->getParentOfType<LoopLikeOpInterface>();
  Value &known = e.role || !isInLoop ? notShared : e.alignedViews[{viewValue, vector}];
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(e.b);
  if (isInLoop)
    e.b.setInsertionPoint(e.endOfEntry);
  auto is = [&](arith::CmpIPredicate predicate, Value value, Value wanted) {
    return arith::CmpIOp::create(e.b, predicate, value, wanted).getResult();
  };
  Value bits = LLVM::PtrToIntOp::create(e.b, e.b.getI64Type(), view.base);
  for (auto [stride, extent] :
       llvm::zip_equal(ArrayRef(view.strides).drop_back(), ArrayRef(view.extents).drop_back())) {
    // The stride of a dimension of one index is never used.
    Value zero = e.i64(0), bytes = e.mul(stride, e.i64(view.bytes));
    Value isUsed = is(arith::CmpIPredicate::sgt, extent, e.i32(1));
    bits = arith::OrIOp::create(e.b, bits, arith::SelectOp::create(e.b, isUsed, bytes, zero));
  }
  bits = arith::AndIOp::create(e.b, bits, e.i64(vector * view.bytes - 1));
  Value end = arith::AndIOp::create(e.b, view.extents.back(), e.i32(vector - 1));
  Value endsAligned = is(arith::CmpIPredicate::eq, end, e.i32(0));
  Value isAligned = e.conjunction(is(arith::CmpIPredicate::eq, bits, e.i64(0)), endsAligned);
  known = e.conjunction(is(arith::CmpIPredicate::eq, view.strides.back(), e.i64(1)), isAligned);
  return known;
}

Value KernelEmitter::isWhole(const ViewRegion &region) {
  Value whole = region.inside ? region.inside : constant(b.getBoolAttr(true));
  for (auto [index, extent, size] : llvm::zip_equal(region.index, region.extent, region.shape)) {
    Value last = add(index, i32(size - 1));
    Value endsInside = less(last, extent);
    whole = conjunction(whole, conjunction(less(index, extent), endsInside));
  }
  return whole;
}

Value KernelEmitter::isVectorisable(const ViewRegion &region, int64_t vector) {
  auto is = [&](Value value, Value wanted) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, wanted).getResult();
  };
  // Most of it depends on an argument alone, and is loop-invariant.
  if (region.root && region.runsAlongLast) {
    Value begin = arith::AndIOp::create(b, region.index.back(), i32(vector - 1));
    Value beginsAligned = is(begin, i32(0));
    Value isAligned =
        conjunction(isAlignedView(*this, getView(region.root), region.root, vector), beginsAligned);
    return region.root == region.viewValue
               ? isAligned
               : conjunction(isAligned, is(region.stride.back(), i64(1)));
  }
  Value bits = LLVM::PtrToIntOp::create(b, b.getI64Type(), region.origin);
  for (Value stride : ArrayRef(region.stride).drop_back())
    bits = arith::OrIOp::create(b, bits, mul(stride, i64(region.view.bytes)));
  bits = arith::AndIOp::create(b, bits, i64(vector * region.view.bytes - 1));
  // Runs then begin at multiples of their length, and the view ends at one.
  Value ends = arith::OrIOp::create(b, region.index.back(), region.extent.back());
  ends = arith::AndIOp::create(b, ends, i32(vector - 1));
  Value endsAligned = is(ends, i32(0));
  Value isAligned = conjunction(is(bits, i64(0)), endsAligned);
  return conjunction(is(region.stride.back(), i64(1)), isAligned);
}

void tgpu::registerViewLowerings(LoweringTable &table) {
  table.add<tile::DimOp>(emitDim);
  table.add<tile::SubviewOp>(emitSubview);
  table.add<tile::CapturedOp>(emitCaptured);
  table.add<tile::RepeatOp>(emitRepeat);
  table.add<tile::AtOp>(emitAt);
}
