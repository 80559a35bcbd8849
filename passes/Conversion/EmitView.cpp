// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views in global memory: their extents, single elements, regions that tiles cover, and what is
// known of how they are aligned.

#include "passes/Conversion/KernelEmitter.h"

#include <limits>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

KernelEmitter::View KernelEmitter::getView(Value value) {
  auto type = cast<tile::ViewType>(value.getType());
  ArrayRef<Value> list = get(value);
  size_t rank = type.getRank();
  View view{list[0], Values(list.slice(1, rank)), Values(list.slice(1 + rank, rank)),
            getScalarType(type.getElementType()), getElementBits(type.getElementType()) / 8};
  return view;
}

LogicalResult KernelEmitter::emitDim(tile::DimOp op) {
  if (op.getView()) {
    set(op.getResult(), {getView(op.getView()).extents[op.getDim()]});
    return success();
  }
  auto found = captures.find(op.getCaptureAttr().getAttr());
  if (found == captures.end())
    return op.emitError() << "'" << op.getCaptureAttr() << "' is no capture of the module";
  set(op.getResult(), {found->second[1 + op.getDim()]});
  return success();
}

LogicalResult KernelEmitter::emitSubview(tile::SubviewOp op) {
  View view = getView(op.getSource());
  int64_t dim = op.getDim();
  Value offset = getScalar(op.getOffset());
  Value bytes = mul(mul(toI64(offset), view.strides[dim]), i64(view.bytes));
  Values list = get(op.getSource());
  list[0] = advance(view.base, bytes);
  list[1 + dim] = clampPart(offset, getScalar(op.getSize()), view.extents[dim]);
  set(op.getResult(), list);
  return success();
}

/// What is left of an extent beyond the offset, and no more than asked for; neither below 0.
Value KernelEmitter::clampPart(Value offset, Value asked, Value extent) {
  Value left = arith::SubIOp::create(b, extent, offset);
  Value size = arith::MinSIOp::create(b, left, asked);
  // An offset from an array of indices may be anything: before the view there is nothing.
  Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, offset, i32(0));
  return arith::SelectOp::create(b, isInside, arith::MaxSIOp::create(b, size, i32(0)), i32(0));
}

LogicalResult KernelEmitter::emitCaptured(tile::CapturedOp op) {
  auto found = captures.find(op.getCaptureAttr().getAttr());
  if (found == captures.end())
    return op.emitError() << "'" << op.getCaptureAttr() << "' is no capture of the module";
  set(op.getResult(), found->second);
  return success();
}

LogicalResult KernelEmitter::emitRepeat(tile::RepeatOp op) {
  View view = getView(op.getSource());
  size_t dim = op.getDim(), rank = view.extents.size();
  Value condition = getScalar(op.getCondition()), at = getScalar(op.getAt());
  Value extent = view.extents[dim], stride = view.strides[dim];
  auto choose = [&](Value repeated, Value usual) {
    return arith::SelectOp::create(b, condition, repeated, usual).getResult();
  };
  Values list = get(op.getSource());
  Value first = choose(toI64(at), i64(0));
  list[0] = advance(view.base, mul(mul(first, stride), i64(view.bytes)));
  Value all = i32(std::numeric_limits<int32_t>::max());
  list[1 + dim] = choose(arith::SelectOp::create(b, less(at, extent), all, i32(0)), extent);
  list[1 + rank + dim] = choose(i64(0), stride);
  set(op.getResult(), list);
  return success();
}

/// Of a view that repeats elements of another the alignment is that of the other, along dimensions
/// that do not repeat.
static Value getRoot(Value view) {
  while (auto repeat = view.getDefiningOp<tile::RepeatOp>())
    view = repeat.getSource();
  return isa<BlockArgument>(view) || view.getDefiningOp<tile::CapturedOp>() ? view : Value();
}

LogicalResult KernelEmitter::emitAt(tile::AtOp op) {
  Values list;
  Type type = nullptr;
  if (op.getView()) {
    list = get(op.getView());
    type = op.getView().getType();
  } else {
    auto found = captures.find(op.getCaptureAttr().getAttr());
    if (found == captures.end())
      return op.emitError() << "'" << op.getCaptureAttr() << "' is no capture of the module";
    list = found->second;
    type = module.lookupSymbol<tile::CaptureOp>(op.getCaptureAttr().getAttr()).getType();
  }
  auto viewType = dyn_cast<tile::ViewType>(type);
  if (!viewType) {
    set(op.getResult(), {list.front()});
    return success();
  }
  size_t rank = viewType.getRank(), dynamic = 0;
  int64_t bytes = getElementBits(viewType.getElementType()) / 8;
  Value inside, offset = i64(0);
  for (size_t d = 0; d < rank; ++d) {
    int64_t known = op.getStaticIndices()[d];
    Value index = ShapedType::isDynamic(known) ? getScalar(op.getIndices()[dynamic++]) : i32(known);
    inside = conjunction(inside, less(index, list[1 + d]));
    offset = add(offset, mul(toI64(index), list[1 + rank + d]));
  }
  Value address = advance(list[0], mul(offset, i64(bytes)));
  Type element = getScalarType(type);
  set(op.getResult(), loadGlobal(address, inside, element, 1, nullptr));
  return success();
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

KernelEmitter::Region KernelEmitter::getRegion(Value viewValue, OperandRange indices,
                                               ArrayRef<int64_t> staticIndices,
                                               std::optional<ArrayRef<int64_t>> dims,
                                               ArrayRef<int64_t> tileShape) {
  Region region;
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
    // A negative index is outside, wherever that would be: so no sign need be kept.
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

Value KernelEmitter::isAlignedView(const View &view, Value viewValue, int64_t vector) {
  if (isKnownAligned(viewValue, vector))
    return constant(b.getBoolAttr(true));
  // Of a role, entry is the role's own. Outside of loops nothing is gained by computing it there,
  // and behind them it would be kept in a register.
  Value notShared;
  Operation *around = b.getInsertionBlock()->getParentOp();
  bool isInLoop =
      isa<LoopLikeOpInterface>(around) || around->getParentOfType<LoopLikeOpInterface>();
  Value &known = role || !isInLoop ? notShared : alignedViews[{viewValue, vector}];
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(b);
  if (isInLoop)
    b.setInsertionPoint(endOfEntry);
  auto is = [&](arith::CmpIPredicate predicate, Value value, Value wanted) {
    return arith::CmpIOp::create(b, predicate, value, wanted).getResult();
  };
  Value bits = LLVM::PtrToIntOp::create(b, b.getI64Type(), view.base);
  for (auto [stride, extent] :
       llvm::zip_equal(ArrayRef(view.strides).drop_back(), ArrayRef(view.extents).drop_back())) {
    // The stride of a dimension of one index is never used.
    Value zero = i64(0), bytes = mul(stride, i64(view.bytes));
    Value isUsed = is(arith::CmpIPredicate::sgt, extent, i32(1));
    bits = arith::OrIOp::create(b, bits, arith::SelectOp::create(b, isUsed, bytes, zero));
  }
  bits = arith::AndIOp::create(b, bits, i64(vector * view.bytes - 1));
  Value end = arith::AndIOp::create(b, view.extents.back(), i32(vector - 1));
  Value endsAligned = is(arith::CmpIPredicate::eq, end, i32(0));
  Value isAligned = conjunction(is(arith::CmpIPredicate::eq, bits, i64(0)), endsAligned);
  known = conjunction(is(arith::CmpIPredicate::eq, view.strides.back(), i64(1)), isAligned);
  return known;
}

Value KernelEmitter::isWhole(const Region &region) {
  Value whole = region.inside ? region.inside : constant(b.getBoolAttr(true));
  for (auto [index, extent, size] : llvm::zip_equal(region.index, region.extent, region.shape)) {
    Value last = add(index, i32(size - 1));
    Value endsInside = less(last, extent);
    whole = conjunction(whole, conjunction(less(index, extent), endsInside));
  }
  return whole;
}

Value KernelEmitter::isVectorisable(const Region &region, int64_t vector) {
  auto is = [&](Value value, Value wanted) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, wanted).getResult();
  };
  // Of an argument most is known before any loop.
  if (region.root && region.runsAlongLast) {
    Value begin = arith::AndIOp::create(b, region.index.back(), i32(vector - 1));
    Value beginsAligned = is(begin, i32(0));
    Value isAligned =
        conjunction(isAlignedView(getView(region.root), region.root, vector), beginsAligned);
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
