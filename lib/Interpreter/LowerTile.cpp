// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations of tile on views and on the shape of tiles.

#include "lib/Interpreter/ElementwiseSteps.h"
#include "lib/Interpreter/Lowering.h"
#include "lib/Interpreter/MemorySteps.h"
#include "lib/Interpreter/Placements.h"
#include "lib/Interpreter/TileSteps.h"

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
  lowering.emit(std::make_unique<AwaitStep>(
      op, Turn{lowering.intOperand(op.getNumber()), lowering.slotOf(op.getTurns()),
               mixedIndices(lowering, op.getIndices(), op.getStaticIndices())}));
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
  lowering.emit<AtStep>(op, source, indices, lowering.result(op.getResult()));
  return success();
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
  lowering.emit<DimStep>(op, view, op.getDim(), lowering.define(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::SubviewOp op) {
  Slot source = lowering.slotOf(op.getSource());
  IntOperand offset = lowering.intOperand(op.getOffset());
  IntOperand size = lowering.intOperand(op.getSize());
  lowering.emit<SubviewStep>(op, source, op.getDim(), offset, size,
                             lowering.define(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::CapturedOp op) {
  tile::CaptureOp capture = findCapture(op, op.getCaptureAttr());
  if (!capture)
    return failure();
  Slot source = lowering.capture(capture);
  lowering.emit<CopyViewStep>(op, source, lowering.define(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::RepeatOp op) {
  Slot source = lowering.slotOf(op.getSource());
  IntOperand at = lowering.intOperand(op.getAt());
  IntOperand condition = lowering.intOperand(op.getCondition());
  lowering.emit<RepeatStep>(op, source, op.getDim(), at, condition,
                            lowering.define(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::FullOp op) {
  ValueOperand value = lowering.operand(op.getValueMutable());
  lowering.emit<CopyStep>(op, value, lowering.define(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::IotaOp op) {
  lowering.emit<IotaStep>(op, lowering.intOperand(op.getStart()), lowering.shapeOf(op.getResult()),
                          op.getDim(), lowering.result(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::ExpandOp op) {
  ValueOperand source = lowering.operand(op.getSourceMutable());
  lowering.emit<ExpandStep>(op, source, lowering.shapeOf(op.getResult()), op.getDim(),
                            lowering.result(op.getResult()));
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
  std::optional<ValueOperand> fill;
  if (Value value = op.getFill())
    fill = ValueOperand{lowering.slotOf(value), lowering.storage(value), false};
  IntOperand offset = lowering.intOperand(op.getOffset());
  lowering.emit<SliceStep>(op, source, lowering.shapeOf(op.getSource()), op.getDim(), offset,
                           lowering.shapeOf(op.getResult())[op.getDim()], fill,
                           lowering.result(op.getResult()));
  return success();
}

LogicalResult lower(Lowering &lowering, tile::ReduceOp op) {
  numeric::ReduceOp kind = numeric::ReduceOp::Sum;
  switch (op.getKind()) {
  case tile::ReduceKind::Add:
    kind = numeric::ReduceOp::Sum;
    break;
  case tile::ReduceKind::Mul:
    kind = numeric::ReduceOp::Product;
    break;
  case tile::ReduceKind::Max:
    kind = numeric::ReduceOp::Max;
    break;
  case tile::ReduceKind::Min:
    kind = numeric::ReduceOp::Min;
    break;
  case tile::ReduceKind::And:
    kind = numeric::ReduceOp::And;
    break;
  case tile::ReduceKind::Or:
    kind = numeric::ReduceOp::Or;
    break;
  }
  ValueOperand source = lowering.operand(op.getSourceMutable());
  if (!numeric::isSupported(kind, source.storage))
    return op.emitOpError() << "is not supported on " << tile::getElementType(op.getType())
                            << " by the CPU device";
  lowering.emit<ReduceStep>(op, kind, source, lowering.shapeOf(op.getSource()), op.getDim(),
                            lowering.result(op.getResult()));
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
  lowering.emit<DotStep>(op, lhs, rhs, acc, shape, tf32, lowering.result(op.getResult()));
  return success();
}

} // namespace

void addTileLowerings(LoweringTable &table) {
  addLowerings<tile::LoadOp, tile::GatherOp, tile::StoreOp, tile::AtomicAddOp, tile::AwaitOp,
               tile::ScatterAddOp, tile::AddAtOp, tile::AtOp, tile::DimOp, tile::SubviewOp,
               tile::CapturedOp, tile::RepeatOp, tile::FullOp, tile::IotaOp, tile::ExpandOp,
               tile::ReshapeOp, tile::TransposeOp, tile::SliceOp, tile::ReduceOp, tile::DotOp>(
      table, [](Lowering &lowering, auto op) { return lower(lowering, op); });
}

} // namespace tilewright::interpreter
