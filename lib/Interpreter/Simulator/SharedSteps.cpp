// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared memory: buffers, transfers of register tiles, cp.async.

#include "base/Numeric/MatMul.h"
#include "lib/Interpreter/Placements.h"
#include "lib/Interpreter/Simulator/SimulatedSteps.h"
#include "passes/Conversion/TileLayouts.h"

#include "base/Layout/Relations.h"

using namespace mlir;
using namespace tilewright::interpreter;

namespace tilewright::simulator {

int64_t warpsOf(Operation *op) {
  if (int64_t warps = tgpu::getExecutingWarps(op))
    return warps;
  return tgpu::warpsAttr.get(op->getParentOfType<tile::KernelOp>()).getInt();
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

void gather(Machine &machine, int64_t base, ArrayRef<int32_t> offsets, ElementType type,
            Storage storage, void *out) {
  size_t width = byteWidth(type);
  std::vector<char> raw(offsets.size() * width);
  for (auto [i, offset] : llvm::enumerate(offsets))
    std::memcpy(raw.data() + i * width, machine.memory() + base + offset, width);
  numeric::convertFromMemory(type, raw.data(), 1, storage, out, offsets.size());
}

void scatter(Machine &machine, int64_t base, ArrayRef<int32_t> offsets, ElementType type,
             Storage storage, const void *in) {
  size_t width = byteWidth(type);
  std::vector<char> raw(offsets.size() * width);
  numeric::convertToMemory(storage, in, type, raw.data(), 1, offsets.size());
  for (auto [i, offset] : llvm::enumerate(offsets))
    std::memcpy(machine.memory() + base + offset, raw.data() + i * width, width);
}

GlobalTile tileOf(const SimulatedFrame &frame, const Placement &place) {
  const View &view = frame.views[place.view];
  GlobalTile tile{view.type, view.data, {}, nullptr};
  bool isInside = true;
  for (unsigned d = 0; d < place.indices.size(); ++d) {
    if (llvm::is_contained(place.dims, d))
      continue;
    int64_t index = place.indices[d].read(frame);
    isInside &= index >= 0 && index < view.extents[d];
    if (isInside)
      tile.base += index * view.strides[d] * static_cast<int64_t>(byteWidth(view.type));
  }
  for (auto [t, d] : llvm::enumerate(place.dims)) {
    numeric::TileAxis &axis = tile.axes.emplace_back();
    axis.size = place.shape[t];
    axis.start = place.indices[d].read(frame);
    axis.extent = isInside ? view.extents[d] : 0;
    axis.stride = view.strides[d];
    if (d == 0 && view.pages) {
      auto offsets = std::make_shared<std::vector<int64_t>>();
      axis = view.rowsOfPages(axis.start, axis.size, *offsets);
      axis.extent = isInside ? axis.extent : 0;
      tile.rowOffsets = std::move(offsets);
    }
  }
  return tile;
}

void copyToShared(Machine &machine, const GlobalTile &tile, int64_t base,
                  ArrayRef<int32_t> offsets) {
  Storage storage = storageOf(tile.type);
  std::vector<char> elements(offsets.size() * storageBytes(storage));
  numeric::loadTile(tile.type, tile.base, tile.axes.data(), tile.axes.size(), storage, nullptr,
                    elements.data());
  scatter(machine, base, offsets, tile.type, storage, elements.data());
}

namespace {

/// Returns the pattern, or emits a diagnostic.
template <typename T> std::shared_ptr<const T> require(Operation *op, Result<T> result) {
  if (result)
    return std::make_shared<const T>(std::move(*result));
  op->emitOpError() << "cannot be simulated: " << result.message();
  return nullptr;
}

Datum denseFrom(Machine &machine, SimulatedFrame &frame, int64_t base, ArrayRef<int32_t> offsets,
                ElementType type, Storage storage) {
  BufferRef buffer(frame.pool.allocate(offsets.size() * storageBytes(storage)));
  gather(machine, base, offsets, type, storage, buffer.data());
  Datum value;
  value.setDense(std::move(buffer));
  return value;
}

void scatterValue(Machine &machine, SimulatedFrame &frame, int64_t base, ArrayRef<int32_t> offsets,
                  ElementType type, const ValueOperand &operand) {
  DenseElements elements(frame.pool, frame.values[operand.slot], offsets.size(), operand.storage);
  scatter(machine, base, offsets, type, operand.storage, elements.data());
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

LogicalResult lowerPlanned(Lowering &lowering, Operation *op, std::optional<uint64_t> offset) {
  if (!offset)
    return op->emitOpError("has no offset in shared memory; run tgpu-plan-shared-memory first");
  Slot slot = lowering.define(op->getResult(0));
  emit(lowering, op, [slot, at = static_cast<int64_t>(*offset)](auto &, auto &, auto &frame) {
    setNumber(frame, slot, at);
    return true;
  });
  return success();
}
LogicalResult lower(Lowering &lowering, tgpu::AllocOp op) {
  return lowerPlanned(lowering, op, op.getOffset());
}
LogicalResult lower(Lowering &lowering, tgpu::AllocRingOp op) {
  return lowerPlanned(lowering, op, op.getOffset());
}

LogicalResult lower(Lowering &lowering, tgpu::SlotOp op) {
  auto type = cast<tgpu::RingType>(op.getRing().getType());
  int64_t stages = type.getStages();
  int64_t bytes = llvm::alignTo(tgpu::getBytes(type.getSlot()), tgpu::getAlignment(type.getSlot()));
  Slot ring = lowering.slotOf(op.getRing());
  IntOperand use = lowering.intOperand(op.getUse());
  Slot slot = lowering.define(op.getBuffer());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &, auto &frame) {
    int64_t number = use.read(frame);
    if (number < 0)
      return machine.fail(op,
                          "requires a use that is not negative, but got " + std::to_string(number));
    setNumber(frame, slot, numberIn(frame, ring) + number % stages * bytes);
    return true;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Register tiles
//===----------------------------------------------------------------------===//

LogicalResult lower(Lowering &lowering, tgpu::ReadOp op) {
  auto tile = cast<RankedTensorType>(op.getResult().getType());
  auto type = cast<tgpu::SharedType>(op.getBuffer().getType());
  auto pattern = require(op, patternOf(tile, type, op.getTranspose(), /*writes=*/false));
  if (!pattern)
    return failure();
  Slot buffer = lowering.slotOf(op.getBuffer());
  ElementType memory = *interpreter::elementTypeOf(type);
  ValueResult result = lowering.result(op.getResult());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int64_t base = numberIn(frame, buffer);
    if (!machine.read(context, op, base, pattern->byWarp))
      return false;
    frame.values[result.slot] =
        denseFrom(machine, frame, base, pattern->offsets, memory, result.storage);
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::WriteSharedOp op) {
  auto tile = cast<RankedTensorType>(op.getValue().getType());
  auto type = cast<tgpu::SharedType>(op.getBuffer().getType());
  auto pattern = require(op, patternOf(tile, type, op.getTranspose(), /*writes=*/true));
  if (!pattern)
    return failure();
  Slot buffer = lowering.slotOf(op.getBuffer());
  ElementType memory = *interpreter::elementTypeOf(type);
  ValueOperand value = lowering.operand(op.getValueMutable());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int64_t base = numberIn(frame, buffer);
    if (!machine.write(context, op, base, pattern->byWarp))
      return false;
    scatterValue(machine, frame, base, pattern->offsets, memory, value);
    return true;
  });
  return success();
}

/// The number passes through the bytes of the buffer, as on the GPU.
LogicalResult lower(Lowering &lowering, tgpu::TakeTileOp op) {
  IntOperand tiles = lowering.intOperand(op.getTiles());
  bool all = op.getAll();
  bool isWritten = static_cast<bool>(op.getBuffer());
  Slot buffer = isWritten ? lowering.slotOf(op.getBuffer()) : Slot();
  Slot result = lowering.define(op.getTile());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int64_t base = isWritten ? numberIn(frame, buffer) : 0;
    if (isWritten && !machine.write(context, op, base, {Bytes{{0, sizeof(int32_t)}}}))
      return false;
    int64_t count = tiles.read(frame);
    auto tile = static_cast<int32_t>(all ? machine.takeTileOfAll(count) : machine.takeTile(count));
    if (isWritten)
      std::memcpy(machine.memory() + base, &tile, sizeof(tile));
    frame.values[result].setSplat(Scalar::fromInt(tile, Storage::I32));
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::PublishOp op) {
  SmallVector<IntOperand> values;
  for (Value value : op.getValues())
    values.push_back(lowering.intOperand(value));
  Slot buffer = lowering.slotOf(op.getBuffer());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int64_t base = numberIn(frame, buffer);
    int64_t bytes = static_cast<int64_t>(values.size() * sizeof(int32_t));
    if (!machine.write(context, op, base, {Bytes{{0, bytes}}}))
      return false;
    for (auto [i, value] : llvm::enumerate(values)) {
      auto word = static_cast<int32_t>(value.read(frame));
      std::memcpy(machine.memory() + base + i * sizeof(word), &word, sizeof(word));
    }
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::ReceiveOp op) {
  int64_t warps = warpsOf(op);
  Slot buffer = lowering.slotOf(op.getBuffer());
  SmallVector<Slot> results;
  for (Value value : op.getValues())
    results.push_back(lowering.define(value));
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int64_t base = numberIn(frame, buffer);
    int64_t bytes = static_cast<int64_t>(results.size() * sizeof(int32_t));
    std::vector<Bytes> byWarp(static_cast<size_t>(warps), Bytes{{0, bytes}});
    if (!machine.read(context, op, base, byWarp))
      return false;
    for (auto [i, result] : llvm::enumerate(results)) {
      int32_t word;
      std::memcpy(&word, machine.memory() + base + i * sizeof(word), sizeof(word));
      frame.values[result].setSplat(Scalar::fromInt(word, Storage::I32));
    }
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::GetTileOp op) {
  int64_t warps = warpsOf(op);
  Slot buffer = lowering.slotOf(op.getBuffer()), result = lowering.define(op.getTile());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int64_t base = numberIn(frame, buffer);
    std::vector<Bytes> byWarp(static_cast<size_t>(warps), Bytes{{0, sizeof(int32_t)}});
    if (!machine.read(context, op, base, byWarp))
      return false;
    int32_t tile;
    std::memcpy(&tile, machine.memory() + base, sizeof(tile));
    frame.values[result].setSplat(Scalar::fromInt(tile, Storage::I32));
    return true;
  });
  return success();
}

/// As in code generation: in registers if possible, else write, barrier, read, barrier.
LogicalResult lower(Lowering &lowering, tgpu::ConvertOp op) {
  auto from = cast<RankedTensorType>(op.getSource().getType());
  auto to = cast<RankedTensorType>(op.getResult().getType());
  Result<layout::RegisterLayout> source = tgpu::getRegisterLayout(from);
  Result<layout::RegisterLayout> target = tgpu::getRegisterLayout(to);
  const std::string &cause = source ? target.message() : source.message();
  if (!source || !target)
    return op.emitOpError() << "cannot be simulated: " << cause;
  using Kind = layout::Conversion::Kind;
  Kind kind = layout::convert(*source, *target).kind;
  ValueOperand value = lowering.operand(op.getSourceMutable());
  if (op.getInterleaved()) {
    ArrayRef<int64_t> shape = from.getShape();
    Interleaving order(shape[0], shape[1]);
    lowering.emit<TransposeStep>(op, value, order.shape, order.permutation,
                                 lowering.result(op.getResult()));
    return success();
  }
  if (kind == Kind::Registers || !op.getScratch()) {
    if (kind == Kind::SharedMemory)
      return op.emitOpError(
          "must have scratch memory to move elements between warps, but has none; "
          "add 'through'");
    Slot slot = lowering.define(op.getResult());
    emit(lowering, op, [=](auto &, auto &, auto &frame) {
      frame.values[slot] = take(frame, value);
      return true;
    });
    return success();
  }
  auto type = cast<tgpu::SharedType>(op.getScratch().getType());
  auto written = require(op, patternOf(from, type, false, /*writes=*/true));
  auto read = require(op, patternOf(to, type, false, /*writes=*/false));
  if (!written || !read)
    return failure();
  Slot scratch = lowering.slotOf(op.getScratch());
  ElementType memory = *interpreter::elementTypeOf(type);
  ValueResult result = lowering.result(op.getResult());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int64_t base = numberIn(frame, scratch);
    if (!machine.write(context, op, base, written->byWarp))
      return false;
    scatterValue(machine, frame, base, written->offsets, memory, value);
    machine.meetAll(context);
    if (!machine.read(context, op, base, read->byWarp))
      return false;
    frame.values[result.slot] =
        denseFrom(machine, frame, base, read->offsets, memory, result.storage);
    machine.meetAll(context);
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::FmaDotOp op) {
  auto tile = cast<RankedTensorType>(op.getResult().getType());
  auto aType = cast<tgpu::SharedType>(op.getA().getType());
  auto bType = cast<tgpu::SharedType>(op.getB().getType());
  auto a = require(op, patternOfFmaOperand(tile, aType, false, op.getTransposeA()));
  auto b = require(op, patternOfFmaOperand(tile, bType, true, op.getTransposeB()));
  if (!a || !b)
    return failure();
  Slot aSlot = lowering.slotOf(op.getA()), bSlot = lowering.slotOf(op.getB());
  ElementType memory = *interpreter::elementTypeOf(aType);
  ValueOperand acc = lowering.operand(op.getAccMutable());
  auto shape = numeric::MatMulShape::dense(tile.getDimSize(0), tile.getDimSize(1),
                                           aType.getShape()[op.getTransposeA() ? 0 : 1],
                                           op.getTransposeA(), op.getTransposeB());
  ValueResult result = lowering.result(op.getResult());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int64_t aBase = numberIn(frame, aSlot), bBase = numberIn(frame, bSlot);
    if (!machine.read(context, op, aBase, a->byWarp) ||
        !machine.read(context, op, bBase, b->byWarp))
      return false;
    Storage storage = result.storage;
    Datum lhs = denseFrom(machine, frame, aBase, a->offsets, memory, storage);
    Datum rhs = denseFrom(machine, frame, bBase, b->offsets, memory, storage);
    DenseElements sum(frame.pool, frame.values[acc.slot], result.count, storage);
    BufferRef out(frame.pool.allocate(result.bytes()));
    auto multiply = [&](auto tag) {
      using T = decltype(tag);
      numeric::matmul(shape, static_cast<const T *>(lhs.buffer.data()),
                      static_cast<const T *>(rhs.buffer.data()), static_cast<const T *>(sum.data()),
                      static_cast<T *>(out.data()));
    };
    storage == Storage::F64 ? multiply(double()) : multiply(float());
    frame.values[result.slot].setDense(std::move(out));
    return true;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// cp.async
//===----------------------------------------------------------------------===//

LogicalResult lower(Lowering &lowering, tgpu::CopyAsyncOp op) {
  auto type = cast<tgpu::SharedType>(op.getBuffer().getType());
  auto pattern = require(op, patternOfCopy(type, warpsOf(op)));
  if (!pattern)
    return failure();
  Placement place = placementOf(lowering, op, type.getShape());
  Slot buffer = lowering.slotOf(op.getBuffer());
  Bytes all = allBytes(type);
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int64_t base = numberIn(frame, buffer);
    if (!machine.writeByCopies(context, op, base, pattern->byWarp))
      return false;
    machine.poison(base, all);
    machine.start(context.copies, op,
                  [&machine, base, pattern = pattern, tile = tileOf(frame, place)] {
                    copyToShared(machine, tile, base, pattern->offsets);
                    return true;
                  });
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::CopyCommitOp op) {
  emit(lowering, op, [](auto &, auto &context, auto &) {
    ++context.copies.committed;
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::CopyWaitOp op) {
  emit(lowering, op,
       [pending = static_cast<int64_t>(op.getPending())](Machine &machine, auto &context, auto &) {
         return machine.waitForCopies(context, pending);
       });
  return success();
}

} // namespace

void addSharedSimulation(LoweringTable &table) {
  addLowerings<tgpu::TakeTileOp, tgpu::GetTileOp, tgpu::PublishOp, tgpu::ReceiveOp, tgpu::AllocOp,
               tgpu::AllocRingOp, tgpu::SlotOp, tgpu::ReadOp, tgpu::WriteSharedOp, tgpu::ConvertOp,
               tgpu::FmaDotOp, tgpu::CopyAsyncOp, tgpu::CopyCommitOp, tgpu::CopyWaitOp>(
      table, [](Lowering &lowering, auto op) { return lower(lowering, op); });
}

} // namespace tilewright::simulator
