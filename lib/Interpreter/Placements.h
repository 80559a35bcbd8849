// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Locations of the accesses of tile and of tgpu in their views.

#ifndef TILEWRIGHT_LIB_INTERPRETER_PLACEMENTS_H
#define TILEWRIGHT_LIB_INTERPRETER_PLACEMENTS_H

#include "lib/Interpreter/Lowering.h"
#include "lib/Interpreter/MemorySteps.h"

#include <numeric>

namespace tilewright::interpreter {

/// Static and dynamic indices: `positions` holds the static ones, or kDynamic.
inline llvm::SmallVector<IntOperand, 4> mixedIndices(Lowering &lowering, mlir::ValueRange values,
                                                     llvm::ArrayRef<int64_t> positions) {
  llvm::SmallVector<IntOperand, 4> indices;
  for (int64_t position : positions) {
    if (!mlir::ShapedType::isDynamic(position)) {
      indices.push_back(IntOperand::fromConstant(position));
      continue;
    }
    indices.push_back(lowering.intOperand(values.front()));
    values = values.drop_front();
  }
  return indices;
}

/// The turn of a tile.atomic_add or tgpu.atomic_add.
template <typename OpT> std::optional<Turn> turnOf(Lowering &lowering, OpT op) {
  if (!op.getNumber())
    return std::nullopt;
  lowering.noteTurn();
  return Turn{lowering.intOperand(op.getNumber()), lowering.slotOf(op.getTurns()),
              mixedIndices(lowering, op.getTurnIndices(), *op.getStaticTurnIndices())};
}

/// The location of loads, stores and similar operations, which share this description.
template <typename OpT>
Placement placementOf(Lowering &lowering, OpT op, llvm::ArrayRef<int64_t> shape) {
  Placement place;
  place.view = lowering.slotOf(op.getView());
  place.indices = mixedIndices(lowering, op.getIndices(), op.getStaticIndices());
  place.shape.assign(shape.begin(), shape.end());
  if (std::optional<llvm::ArrayRef<int64_t>> dims = op.getDims()) {
    place.dims.assign(dims->begin(), dims->end());
  } else {
    place.dims.resize(shape.size());
    std::iota(place.dims.begin(), place.dims.end(), place.indices.size() - shape.size());
  }
  return place;
}

/// tile.load and tgpu.load.
template <typename OpT> mlir::LogicalResult lowerLoad(Lowering &lowering, OpT op) {
  Placement place = placementOf(lowering, op, lowering.shapeOf(op.getResult()));
  std::optional<ValueOperand> pad;
  if (mlir::Value value = op.getPad())
    pad = ValueOperand{lowering.slotOf(value), lowering.storage(value), false};
  lowering.emit(TransferStep::load(op, std::move(place), pad, lowering.result(op.getResult())));
  return mlir::success();
}

/// Stores and additions.
template <typename OpT>
mlir::LogicalResult lowerWrite(Lowering &lowering, OpT op, TransferKind kind, Placement place,
                               std::optional<Turn> turn = std::nullopt) {
  lowering.emit(TransferStep::write(op, kind, std::move(place),
                                    lowering.operand(op.getValueMutable()), std::move(turn)));
  return mlir::success();
}

/// tile.store and tgpu.store.
template <typename OpT> mlir::LogicalResult lowerStore(Lowering &lowering, OpT op) {
  return lowerWrite(lowering, op, TransferKind::Store,
                    placementOf(lowering, op, lowering.shapeOf(op.getValue())));
}

/// tile.atomic_add and tgpu.atomic_add.
template <typename OpT> mlir::LogicalResult lowerAtomicAdd(Lowering &lowering, OpT op) {
  Placement place = placementOf(lowering, op, lowering.shapeOf(op.getValue()));
  return lowerWrite(lowering, op, TransferKind::AtomicAdd, std::move(place), turnOf(lowering, op));
}

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_PLACEMENTS_H
