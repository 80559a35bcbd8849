// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views in global memory: their extents, parts and single elements.

#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/LoweringTable.h"

#include <limits>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static LogicalResult emitDim(KernelEmitter &e, tile::DimOp op) {
  if (op.getView()) {
    e.set(op.getResult(), {getView(e, op.getView()).extents[op.getDim()]});
    return success();
  }
  const Values *list = e.getCapture(op, op.getCaptureAttr());
  if (!list)
    return failure();
  e.set(op.getResult(), {(*list)[1 + op.getDim()]});
  return success();
}

static void emitSubview(KernelEmitter &e, tile::SubviewOp op) {
  ThreadBuilder &b = e.b;
  View view = getView(e, op.getSource());
  int64_t dim = op.getDim();
  Value offset = e.getScalar(op.getOffset());
  Value bytes = b.mul(b.mul(b.toI64(offset), view.strides[dim]), b.i64(view.bytes));
  Values list = e.get(op.getSource());
  list[0] = b.advance(view.base, bytes);
  list[1 + dim] = clampPart(b, offset, e.getScalar(op.getSize()), view.extents[dim]);
  e.set(op.getResult(), list);
}

/// Copies find rows by the operation; its value has the bounds.
static void emitPaged(KernelEmitter &e, tile::PagedOp op) {
  ThreadBuilder &b = e.b;
  View pool = getView(e, op.getPool());
  Value size = arith::MaxSIOp::create(b, e.getScalar(op.getSize()), b.i32(0));
  Values list{pool.base, size};
  llvm::append_range(list, ArrayRef(pool.extents).drop_front(2));
  llvm::append_range(list, ArrayRef(pool.strides).drop_front());
  // After the view: a division for each tile, not for each copy. Strides of an argument are known
  // at the entry of a role, where the role still waits for its first tile.
  OpBuilder::InsertionGuard guard(b);
  auto argument = dyn_cast<BlockArgument>(op.getPool());
  if (e.role && argument && argument.getOwner() == &e.kernel.getBody().front())
    b.setInsertionPoint(b.threads.endOfEntry);
  Value rows = arith::DivUIOp::create(b, pool.strides[0], pool.strides[1]);
  list.push_back(arith::TruncIOp::create(b, b.getI32Type(), rows));
  e.set(op.getResult(), list);
}

static LogicalResult emitCaptured(KernelEmitter &e, tile::CapturedOp op) {
  const Values *list = e.getCapture(op, op.getCaptureAttr());
  if (!list)
    return failure();
  e.set(op.getResult(), *list);
  return success();
}

static void emitRepeat(KernelEmitter &e, tile::RepeatOp op) {
  ThreadBuilder &b = e.b;
  View view = getView(e, op.getSource());
  size_t dim = op.getDim(), rank = view.extents.size();
  Value condition = e.getScalar(op.getCondition()), at = e.getScalar(op.getAt());
  Value extent = view.extents[dim], stride = view.strides[dim];
  auto choose = [&](Value repeated, Value usual) {
    return arith::SelectOp::create(b, condition, repeated, usual).getResult();
  };
  Values list = e.get(op.getSource());
  Value first = choose(b.toI64(at), b.i64(0));
  list[0] = b.advance(view.base, b.mul(b.mul(first, stride), b.i64(view.bytes)));
  Value all = b.i32(std::numeric_limits<int32_t>::max());
  list[1 + dim] = choose(arith::SelectOp::create(b, b.less(at, extent), all, b.i32(0)), extent);
  list[1 + rank + dim] = choose(b.i64(0), stride);
  e.set(op.getResult(), list);
}

static LogicalResult emitAt(KernelEmitter &e, tile::AtOp op) {
  Values list;
  Type type = nullptr;
  if (op.getView()) {
    list = e.get(op.getView());
    type = op.getView().getType();
  } else {
    const Values *capture = e.getCapture(op, op.getCaptureAttr());
    if (!capture)
      return failure();
    list = *capture;
    type = e.module.lookupSymbol<tile::CaptureOp>(op.getCaptureAttr().getAttr()).getType();
  }
  auto viewType = dyn_cast<tile::ViewType>(type);
  if (!viewType) {
    e.set(op.getResult(), {list.front()});
    return success();
  }
  View view = getView(e, viewType, list);
  ElementPlace place =
      getElementPlace(e.b, view, getIndices(e, op.getIndices(), op.getStaticIndices()));
  e.set(op.getResult(), loadGlobal(e.b, place.address, place.inside, view.element, 1));
  return success();
}

void tgpu::registerViewLowerings(LoweringTable &table) {
  table.add<tile::DimOp>(emitDim);
  table.add<tile::SubviewOp>(emitSubview);
  table.add<tile::PagedOp>(emitPaged);
  table.add<tile::CapturedOp>(emitCaptured);
  table.add<tile::RepeatOp>(emitRepeat);
  table.add<tile::AtOp>(emitAt);
}
