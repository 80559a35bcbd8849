// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations of tile on views and on the shape of tiles.

#include "lib/Interpreter/InstanceCheck.h"
#include "lib/Interpreter/Lowering.h"
#include "lib/Interpreter/MemorySteps.h"
#include "lib/Interpreter/Placements.h"
#include "lib/Interpreter/TileSteps.h"

#include <algorithm>
#include <cstring>
#include <limits>

using namespace mlir;

namespace tilewright::interpreter {

namespace {

template <typename OpT>
Placement indexedPlacementOf(Lowering &lowering, OpT op, RankedTensorType tile) {
  Placement place = placementOf(lowering, op, tile.getShape());
  for (auto [t, d] : llvm::enumerate(place.dims))
    if (d == op.getAlong())
      place.along = t;
  place.at = lowering.operand(op.getAtMutable());
  return place;
}

LogicalResult lower(Lowering &lowering, tile::LoadOp op) { return lowerLoad(lowering, op); }

LogicalResult lower(Lowering &lowering, tile::GatherOp op) {
  Placement place = indexedPlacementOf(lowering, op, cast<RankedTensorType>(op.getType()));
  lowering.emit(
      TransferStep::load(op, std::move(place), std::nullopt, lowering.result(op.getResult())));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::StoreOp op) { return lowerStore(lowering, op); }

LogicalResult lower(Lowering &lowering, tile::AtomicAddOp op) {
  return lowerAtomicAdd(lowering, op);
}

LogicalResult lower(Lowering &lowering, tile::AwaitOp op) {
  lowering.noteTurn();
  Turn turn{lowering.intOperand(op.getNumber()), lowering.slotOf(op.getTurns()),
            mixedIndices(lowering, op.getIndices(), op.getStaticIndices())};
  lowering.emitFunction(op, [turn, op = op.getOperation()](Frame &frame) {
    const int32_t *counter = counterOf(frame, turn.counters, turn.indices);
    std::optional<std::string> message =
        counter ? awaitTurn(frame, counter, turn,
                            "the kernel must add as many tiles there, before tile.spread")
                : std::nullopt;
    return !message || frame.fail(op, std::move(*message));
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::ScatterAddOp op) {
  return lowerWrite(
      lowering, op, TransferKind::AtomicAdd,
      indexedPlacementOf(lowering, op, cast<RankedTensorType>(op.getValue().getType())));
}

/// Null, with a diagnostic, if there is none.
tile::CaptureOp findCapture(Operation *op, FlatSymbolRefAttr name) {
  auto capture = SymbolTable::lookupNearestSymbolFrom<tile::CaptureOp>(op, name);
  if (!capture)
    op->emitOpError() << "refers to " << name << ", which is not a capture";
  return capture;
}

LogicalResult lower(Lowering &lowering, tile::AtOp op) {
  Slot source;
  if (op.getCapture()) {
    tile::CaptureOp capture = findCapture(op, op.getCaptureAttr());
    if (!capture)
      return failure();
    source = lowering.capture(capture);
    if (!isa<tile::ViewType>(capture.getType())) {
      ValueOperand scalar{source, lowering.storage(op.getResult()), false};
      lowering.emit<CopyStep>(op, scalar, lowering.result(op.getResult()).slot);
      return success();
    }
  } else {
    source = lowering.slotOf(op.getView());
  }
  llvm::SmallVector<ValueOperand, 4> indices;
  OperandRange values = op.getIndices();
  for (int64_t position : op.getStaticIndices()) {
    if (ShapedType::isDynamic(position)) {
      indices.push_back({lowering.slotOf(values.front()), Storage::I32, false});
      values = values.drop_front();
    } else {
      Scalar scalar = Scalar::fromInt(position, Storage::I64);
      indices.push_back({lowering.constant(scalar), Storage::I64, false});
    }
  }
  ValueResult result = lowering.result(op.getResult());
  return emitElementwise(
      lowering, op, indices, result,
      [=, op = op.getOperation()](Frame &frame, const numeric::Operand *in, void *out, size_t n) {
        const View &view = frame.views[source];
        llvm::SmallVector<numeric::PointIndex, 4> points;
        for (auto [d, index] : llvm::enumerate(indices))
          points.push_back({in[d], index.storage, view.extents[d], view.strides[d]});
        // An elementwise step cannot fail by a text; the launch finds the first one in the frame.
        if (frame.check && !frame.failedOp)
          if (auto message = frame.check->noteLoad(frame.instance, view, points, n))
            (void)frame.fail(op, std::move(*message));
        numeric::loadPoints(view.type, view.data, points.data(), points.size(), result.storage,
                            nullptr, out, n);
        return numeric::OpError::None;
      },
      /*mayReuseOperands=*/false);
}

LogicalResult lower(Lowering &lowering, tile::AddAtOp op) {
  llvm::SmallVector<ValueOperand, 4> indices;
  bool isUniform = true;
  for (OpOperand &index : op.getIndicesMutable()) {
    isUniform &= !tile::isTile(index.get().getType());
    indices.push_back(lowering.operand(index));
  }
  ValueOperand value = lowering.operand(op.getValueMutable());
  lowering.emit<AddAtStep>(op, lowering.slotOf(op.getView()), value,
                           lowering.countOf(op.getValue()), indices, isUniform, op.getExact());
  return success();
}

LogicalResult lower(Lowering &lowering, tile::DimOp op) {
  tile::CaptureOp capture = op.getCapture() ? findCapture(op, op.getCaptureAttr()) : nullptr;
  if (op.getCapture() && !capture)
    return failure();
  Slot view = capture ? lowering.capture(capture) : lowering.slotOf(op.getView());
  Slot result = lowering.define(op.getResult());
  lowering.emitFunction(op, [view, result, dim = op.getDim()](Frame &frame) {
    frame.values[result].setSplat(Scalar::fromInt(frame.views[view].extents[dim], Storage::I32));
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::SubviewOp op) {
  Slot source = lowering.slotOf(op.getSource());
  IntOperand offset = lowering.intOperand(op.getOffset());
  IntOperand size = lowering.intOperand(op.getSize());
  Slot result = lowering.define(op.getResult());
  lowering.emitFunction(op, [=, dim = op.getDim(), op = op.getOperation()](Frame &frame) {
    int64_t from = offset.read(frame);
    if (from < 0)
      return frame.fail(op,
                        "requires an offset that is not negative, but got " + std::to_string(from));
    const View &in = frame.views[source];
    View &out = frame.views[result];
    out = in;
    int64_t left = std::max<int64_t>(in.extents[dim] - from, 0);
    out.extents[dim] = std::clamp<int64_t>(size.read(frame), 0, left);
    if (out.extents[dim] > 0 && out.data)
      out.data += from * in.strides[dim] * static_cast<int64_t>(byteWidth(in.type));
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::PagedOp op) {
  Slot pool = lowering.slotOf(op.getPool());
  std::optional<Slot> table;
  if (op.getTable())
    table = lowering.slotOf(op.getTable());
  llvm::SmallVector<IntOperand, 4> tableIndices;
  for (Value index : op.getTableIndices())
    tableIndices.push_back(lowering.intOperand(index));
  IntOperand page = lowering.intOperand(op.getPage()), size = lowering.intOperand(op.getSize());
  Slot result = lowering.define(op.getResult());
  int64_t together = std::max<int64_t>(op.getRowsTogether(), 1);
  lowering.emitFunction(op, [=](Frame &frame) {
    const View &in = frame.views[pool];
    View out;
    out.data = in.data;
    out.type = in.type;
    out.extents.assign(in.extents.begin() + 1, in.extents.end());
    out.strides.assign(in.strides.begin() + 1, in.strides.end());
    int64_t rows = std::max<int64_t>(size.read(frame), 0);
    if (table) {
      const View &numbers = frame.views[*table];
      Pages pages;
      pages.table = reinterpret_cast<const int32_t *>(numbers.data);
      pages.tableStride = numbers.strides.back();
      pages.tableCount = numbers.data ? numbers.extents.back() : 0;
      pages.rows = std::max<int64_t>(in.extents[1], 1);
      pages.count = in.extents[1] > 0 ? in.extents[0] : 0;
      pages.stride = in.strides[0];
      pages.together = together;
      for (auto [d, operand] : llvm::enumerate(tableIndices)) {
        int64_t index = operand.read(frame);
        if (index < 0 || index >= numbers.extents[d])
          pages.tableCount = 0;
        else
          pages.table += index * numbers.strides[d];
      }
      out.extents[0] = rows;
      out.pages = pages;
    } else {
      int64_t index = page.read(frame);
      bool isInside = index >= 0 && index < in.extents[0];
      out.extents[0] = isInside ? std::min(rows, in.extents[1]) : 0;
      if (isInside && out.data)
        out.data += index * in.strides[0] * static_cast<int64_t>(byteWidth(in.type));
    }
    frame.views[result] = std::move(out);
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::CapturedOp op) {
  tile::CaptureOp capture = findCapture(op, op.getCaptureAttr());
  if (!capture)
    return failure();
  Slot source = lowering.capture(capture);
  lowering.emitFunction(op, [source, result = lowering.define(op.getResult())](Frame &frame) {
    View copy = frame.views[source];
    frame.views[result] = std::move(copy);
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::RepeatOp op) {
  Slot source = lowering.slotOf(op.getSource());
  IntOperand at = lowering.intOperand(op.getAt());
  IntOperand condition = lowering.intOperand(op.getCondition());
  Slot result = lowering.define(op.getResult());
  lowering.emitFunction(op, [=, dim = op.getDim()](Frame &frame) {
    View out = frame.views[source];
    if (condition.read(frame) != 0) {
      int64_t index = at.read(frame);
      bool isInside = index >= 0 && index < out.extents[dim];
      if (isInside && out.data)
        out.data += index * out.strides[dim] * static_cast<int64_t>(byteWidth(out.type));
      out.extents[dim] = isInside ? std::numeric_limits<int32_t>::max() : 0;
      out.strides[dim] = 0;
    }
    frame.views[result] = std::move(out);
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::FullOp op) {
  ValueOperand value = lowering.operand(op.getValueMutable());
  lowering.emit<CopyStep>(op, value, lowering.define(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::IotaOp op) {
  IntOperand start = lowering.intOperand(op.getStart());
  ValueResult result = lowering.result(op.getResult());
  ArrayRef<int64_t> shape = lowering.shapeOf(op.getResult());
  int64_t outer = llvm::product_of(shape.take_front(op.getDim()));
  int64_t size = shape[op.getDim()], inner = llvm::product_of(shape.drop_front(op.getDim() + 1));
  lowering.emitFunction(op, [=](Frame &frame) {
    // Compute the distinct elements once; the leading and trailing dimensions repeat them.
    const int64_t distinct[2] = {size, outer == 1 ? 1 : inner};
    BufferRef buffer(frame.pool.allocate(distinct[0] * distinct[1] * storageBytes(result.storage)));
    numeric::iota(result.storage, distinct, 2, 0, start.read(frame), 1, buffer.data());
    Datum &out = frame.values[result.slot];
    if (outer > 1)
      out.setRepeated(std::move(buffer), outer, size * inner);
    else if (inner > 1)
      out.setRepeated(std::move(buffer), inner, 1);
    else
      out.setDense(std::move(buffer));
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::ExpandOp op) {
  ValueOperand source = lowering.operand(op.getSourceMutable());
  ValueResult result = lowering.result(op.getResult());
  ArrayRef<int64_t> shape = lowering.shapeOf(op.getResult());
  int64_t times = shape[op.getDim()], inner = llvm::product_of(shape.drop_front(op.getDim() + 1));
  lowering.emitFunction(op, [=](Frame &frame) {
    Datum value = take(frame, source);
    Datum &out = frame.values[result.slot];
    if (value.isSplat() || times == 1) {
      out = std::move(value);
      return true;
    }
    if (value.form == Form::Repeated) {
      int64_t count = result.count / times;
      bool isWhole = value.repeat * value.inner == count; // a single group, repeated
      if (value.inner == 1 && inner == 1) {
        out.setRepeated(std::move(value.buffer), value.repeat * times, 1);
        return true;
      }
      if (isWhole && inner == count) {
        out.setRepeated(std::move(value.buffer), value.repeat * times, value.inner);
        return true;
      }
      BufferRef dense(frame.pool.allocate(count * storageBytes(source.storage)));
      value.copyTo(dense.data(), count, source.storage);
      value.setDense(std::move(dense));
    }
    out.setRepeated(std::move(value.buffer), times, inner);
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::ReshapeOp op) {
  // The row-major order of elements, and hence the form, stays the same.
  ValueOperand source = lowering.operand(op.getSourceMutable());
  lowering.emit<CopyStep>(op, source, lowering.define(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::TransposeOp op) {
  ValueOperand source = lowering.operand(op.getSourceMutable());
  lowering.emit<TransposeStep>(op, source, lowering.shapeOf(op.getSource()), op.getPermutation(),
                               lowering.result(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::SliceOp op) {
  ValueOperand source = lowering.operand(op.getSourceMutable());
  std::optional<ValueOperand> fill; // a scalar; none: zero
  if (Value value = op.getFill())
    fill = ValueOperand{lowering.slotOf(value), lowering.storage(value), false};
  IntOperand offset = lowering.intOperand(op.getOffset());
  unsigned dim = op.getDim();
  Shape shape(lowering.shapeOf(op.getSource()));
  int64_t size = lowering.shapeOf(op.getResult())[dim];
  ValueResult result = lowering.result(op.getResult());
  lowering.emitFunction(op, [=, count = llvm::product_of(shape)](Frame &frame) {
    DenseElements in(frame.pool, frame.values[source.slot], count, source.storage);
    BufferRef buffer(frame.pool.allocate(result.bytes()));
    const Scalar zero = Scalar::fromInt(0, Storage::I64); // also the bits of a float's zero
    const Scalar &outside = fill ? frame.values[fill->slot].scalar : zero;
    numeric::slice(result.storage, in.data(), shape.data(), shape.size(), dim, offset.read(frame),
                   size, &outside, buffer.data());
    frame.values[result.slot].setDense(std::move(buffer));
    return true;
  });
  return success();
}

numeric::ReduceOp reduceOpOf(tile::ReduceKind kind) {
  switch (kind) {
  case tile::ReduceKind::Add:
    return numeric::ReduceOp::Sum;
  case tile::ReduceKind::Mul:
    return numeric::ReduceOp::Product;
  case tile::ReduceKind::Max:
    return numeric::ReduceOp::Max;
  case tile::ReduceKind::Min:
    return numeric::ReduceOp::Min;
  case tile::ReduceKind::And:
    return numeric::ReduceOp::And;
  case tile::ReduceKind::Or:
    return numeric::ReduceOp::Or;
  }
  llvm_unreachable("all kinds are listed");
}

/// What reductions and scans combine elements by.
template <typename OpT>
FailureOr<numeric::ReduceOp> getCombination(OpT op, const ValueOperand &source) {
  numeric::ReduceOp kind = reduceOpOf(op.getKind());
  if (numeric::isSupported(kind, source.storage))
    return kind;
  return op.emitOpError() << "is not supported on " << tile::getElementType(op.getType())
                          << " by the CPU device; convert it by tile.cast";
}

LogicalResult lower(Lowering &lowering, tile::ReduceOp op) {
  ValueOperand source = lowering.operand(op.getSourceMutable());
  FailureOr<numeric::ReduceOp> found = getCombination(op, source);
  if (failed(found))
    return failure();
  numeric::ReduceOp kind = *found;
  Shape shape(lowering.shapeOf(op.getSource()));
  ValueResult result = lowering.result(op.getResult());
  lowering.emitFunction(op, [=, dim = op.getDim(), count = llvm::product_of(shape)](Frame &frame) {
    const Datum &value = frame.values[source.slot];
    Datum &out = frame.values[result.slot];
    bool isIdempotent = kind != numeric::ReduceOp::Sum && kind != numeric::ReduceOp::Product;
    if (value.isSplat() && isIdempotent) {
      out.setSplat(value.scalar);
      return true;
    }
    DenseElements in(frame.pool, value, count, source.storage);
    BufferRef buffer(frame.pool.allocate(result.bytes()));
    numeric::reduce(kind, source.storage, in.data(), shape.data(), shape.size(), dim,
                    buffer.data());
    result.round(buffer.data(), result.count);
    if (result.count == 1) {
      Scalar element;
      std::memcpy(&element, buffer.data(), storageBytes(result.storage));
      out.setSplat(element);
    } else {
      out.setDense(std::move(buffer));
    }
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::ScanOp op) {
  ValueOperand source = lowering.operand(op.getSourceMutable());
  FailureOr<numeric::ReduceOp> found = getCombination(op, source);
  if (failed(found))
    return failure();
  numeric::ReduceOp kind = *found;
  Shape shape(lowering.shapeOf(op.getSource()));
  ValueResult result = lowering.result(op.getResult());
  lowering.emitFunction(op, [=, dim = op.getDim(), isReverse = op.getReverse()](Frame &frame) {
    DenseElements in(frame.pool, frame.values[source.slot], result.count, source.storage);
    BufferRef buffer(frame.pool.allocate(result.bytes()));
    numeric::scan(kind, source.storage, in.data(), shape.data(), shape.size(), dim, isReverse,
                  buffer.data());
    result.round(buffer.data(), result.count);
    frame.values[result.slot].setDense(std::move(buffer));
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tile::DotOp op) {
  ValueOperand lhs = lowering.operand(op.getLhsMutable());
  ValueOperand rhs = lowering.operand(op.getRhsMutable());
  std::optional<ValueOperand> acc;
  if (op.getAcc())
    acc = lowering.operand(op.getAccMutable()[0]);
  ArrayRef<int64_t> a = lowering.shapeOf(op.getLhs()), result = lowering.shapeOf(op.getResult());
  auto shape = numeric::MatMulShape::dense(result[0], result[1], a[op.getTransposeA() ? 0 : 1],
                                           op.getTransposeA(), op.getTransposeB());
  bool tf32 = op.getPrecision() == tile::DotPrecision::TF32 && !lowering.allF64();
  lowering.emit<DotStep>(op, lhs, rhs, acc, shape, tf32, lowering.result(op.getResult()),
                         op.getInterleaved());
  return success();
}

} // namespace

void addTileLowerings(LoweringTable &table) {
  addLowerings<tile::LoadOp, tile::GatherOp, tile::StoreOp, tile::AtomicAddOp, tile::AwaitOp,
               tile::ScatterAddOp, tile::AddAtOp, tile::AtOp, tile::DimOp, tile::SubviewOp,
               tile::PagedOp, tile::CapturedOp, tile::RepeatOp, tile::FullOp, tile::IotaOp,
               tile::ExpandOp, tile::ReshapeOp, tile::TransposeOp, tile::SliceOp, tile::ReduceOp,
               tile::ScanOp, tile::DotOp>(
      table, [](Lowering &lowering, auto op) { return lower(lowering, op); });
}

} // namespace tilewright::interpreter
