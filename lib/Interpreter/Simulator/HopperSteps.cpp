// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations of sm_90a: copies by TMA, and products of a warpgroup.

#include "base/Numeric/MatMul.h"
#include "dialect/Tile/Origin.h"
#include "lib/Interpreter/Placements.h"
#include "lib/Interpreter/Simulator/SimulatedSteps.h"
#include "lib/Interpreter/TileSteps.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;
using namespace tilewright::interpreter;

namespace tilewright::simulator {

namespace {

constexpr int64_t kTmaAlignment = 16;

//===----------------------------------------------------------------------===//
// TMA
//===----------------------------------------------------------------------===//

/// Boxes of a view, copied from or to a buffer through its tensor map.
struct TmaCopy {
  template <typename OpT> static FailureOr<TmaCopy> of(Lowering &lowering, OpT op) {
    auto definition = op.getMap().template getDefiningOp<tgpu::TensorMapOp>();
    if (!definition)
      return op.emitOpError("requires the result of tgpu.tensor_map, but got ")
             << tile::describeOrigin(op.getMap());
    TmaCopy copy;
    copy.op = op;
    copy.map = cast<tgpu::TensorMapType>(definition.getMap().getType());
    copy.type = cast<tgpu::SharedType>(op.getBuffer().getType());
    copy.view = lowering.slotOf(definition.getView());
    copy.buffer = lowering.slotOf(op.getBuffer());
    copy.indices = mixedIndices(lowering, op.getIndices(), op.getStaticIndices());
    if constexpr (std::is_same_v<OpT, tgpu::TmaLoadOp>)
      if (op.getPages()) {
        copy.paged = lowering.slotOf(op.getPages());
        return copy;
      }
    if (copy.map.isRagged()) {
      copy.begin = lowering.intOperand(op.getBegin());
      copy.size = lowering.intOperand(op.getSize());
    }
    return copy;
  }

  /// The rows of the buffer.
  int64_t rows() const {
    int64_t count = 1;
    for (int64_t extent : type.getShape().drop_back())
      count *= extent;
    return count;
  }

  /// Checks what the runtime requires of an argument with a tensor map.
  bool check(Machine &machine, const SimulatedFrame &frame) const {
    const View &memory = frame.views[view];
    int64_t width = static_cast<int64_t>(byteWidth(memory.type));
    bool isAligned = reinterpret_cast<uintptr_t>(memory.data) % kTmaAlignment == 0;
    for (auto [d, stride] : llvm::enumerate(memory.strides)) {
      bool isLast = d + 1 == memory.rank();
      isAligned &=
          memory.extents[d] <= 1 || (isLast ? stride == 1 : stride * width % kTmaAlignment == 0);
    }
    if (!isAligned)
      return machine.fail(
          op, "must have a tensor map of a view whose start and strides are "
              "multiples of 16 bytes, and its last dimension contiguous, but got "
              "a start with the remainder " +
                  std::to_string(reinterpret_cast<uintptr_t>(memory.data) % kTmaAlignment) +
                  " and strides of " +
                  llvm::join(llvm::map_range(memory.strides,
                                             [](int64_t stride) { return std::to_string(stride); }),
                             ", ") +
                  " elements");
    if (paged && memory.extents[0] > 1 &&
        (memory.strides[1] == 0 || memory.strides[0] % memory.strides[1] != 0))
      return machine.fail(op, "must have a tensor map of pages whose stride is a multiple of that "
                              "of their rows, but got " +
                                  std::to_string(memory.strides[0]) + " and " +
                                  std::to_string(memory.strides[1]));
    if (paged && frame.views[*paged].pages && indices[1].read(frame) % map.getBox()[1] != 0)
      return machine.fail(op, "begins at row " + std::to_string(indices[1].read(frame)) +
                                  " of its sequence, which must be a multiple of the " +
                                  std::to_string(map.getBox()[1]) + " rows of a box");
    int64_t row = map.getRagged() < 0 ? 0 : indices[map.getRagged()].read(frame);
    return row >= 0 ||
           machine.fail(op, "begins before its part of the view, at row " + std::to_string(row) +
                                "; a ragged tensor map clips only at the end of a part");
  }

  struct Box {
    GlobalTile tile;
    Offsets offsets;
    int64_t row = 0; ///< of the buffer
  };

  /// Stores and additions write every 16-byte chunk that begins in the view as a whole.
  bool checkStored(Machine &machine, ArrayRef<Box> boxes) const {
    for (const Box &box : boxes) {
      const numeric::TileAxis &row = box.tile.axes.back();
      int64_t width = static_cast<int64_t>(byteWidth(box.tile.type));
      bool isInside = llvm::all_of(box.tile.axes, [](const numeric::TileAxis &axis) {
        return axis.start < axis.extent && axis.start + axis.size > 0;
      });
      bool reachesEnd = row.start + row.size >= row.extent;
      if (isInside && reachesEnd && row.extent * width % kTmaAlignment != 0) {
        machine.fail(op, "writes whole chunks of 16 bytes, and thus beyond rows of " +
                             std::to_string(row.extent * width) +
                             " bytes; rows must be a multiple of 16 bytes, or be stored by "
                             "tgpu.store");
        return false;
      }
    }
    return true;
  }
  /// The bytes that stores and additions read, relative to `base`, where the buffer begins: columns
  /// past the end of the view are not copied. Of the boxes in one of `groups` equal shares of the
  /// buffer's rows.
  Bytes readBytes(ArrayRef<Box> boxes, int64_t base, int64_t groups, int64_t group) const {
    int64_t rowsOfGroup = rows() / groups;
    auto inside = [](const Box &box) {
      const numeric::TileAxis &row = box.tile.axes.back();
      return std::clamp<int64_t>(row.extent - row.start, 0, row.size);
    };
    if (groups == 1 &&
        llvm::all_of(boxes, [&](const Box &b) { return inside(b) == b.tile.axes.back().size; }))
      return allBytes(type);
    int64_t width = tgpu::getElementBits(type.getElementType()) / 8;
    std::vector<int64_t> first;
    for (const Box &box : boxes) {
      if (box.row / rowsOfGroup != group)
        continue;
      for (auto [i, offset] : llvm::enumerate(box.offsets))
        if (static_cast<int64_t>(i) % box.tile.axes.back().size < inside(box))
          first.push_back(offset - base);
    }
    llvm::sort(first);
    Bytes bytes;
    for (int64_t begin : first) {
      if (bytes.empty() || bytes.back().end != begin)
        bytes.push_back({begin, begin});
      bytes.back().end = begin + width;
    }
    return bytes;
  }

  std::vector<Box> boxes(const SimulatedFrame &frame) const {
    const View &memory = frame.views[view];
    ArrayRef<int64_t> extents = map.getBox();
    int64_t rowDim = tgpu::TensorMapType(map).getRowDim();
    std::vector<Box> result;
    for (BoxPattern &pattern : patternOfBoxes(map, type, numberIn(frame, buffer))) {
      Box &box = result.emplace_back();
      box.offsets = std::move(pattern.offsets);
      box.row = pattern.row;
      box.tile.type = memory.type;
      box.tile.base = memory.data;
      for (auto [d, extent] : llvm::enumerate(extents)) {
        numeric::TileAxis &axis = box.tile.axes.emplace_back();
        axis.size = extent;
        axis.start = indices[d].read(frame);
        if (d + 1 == extents.size())
          axis.start += pattern.column;
        else if (static_cast<int64_t>(d) == rowDim)
          axis.start += pattern.row;
        axis.extent = memory.extents[d];
        axis.stride = memory.strides[d];
        if (static_cast<int64_t>(d) != map.getRagged())
          continue;
        if (paged) { // up to the end of the page or the sequence
          const View &rows = frame.views[*paged];
          View::RowPlace place = rows.findRow(axis.start);
          box.tile.base = rows.data + place.offset * static_cast<int64_t>(byteWidth(memory.type));
          axis.start = 0;
          axis.extent = place.left;
          continue;
        }
        // The bounds are clamped as by tile.subview.
        int64_t first = begin.read(frame), left = axis.extent - first;
        axis.extent = first < 0 ? 0 : std::max<int64_t>(std::min(left, size.read(frame)), 0);
        if (axis.extent > 0)
          box.tile.base += first * axis.stride * static_cast<int64_t>(byteWidth(memory.type));
      }
    }
    return result;
  }

  Operation *op = nullptr;
  tgpu::TensorMapType map;
  tgpu::SharedType type;
  Slot view = 0, buffer = 0;
  llvm::SmallVector<IntOperand, 4> indices;
  IntOperand begin, size;    ///< of the part, if the map is ragged
  std::optional<Slot> paged; ///< the view of a copy of rows of pages
};

/// A copy that arrives at a barrier.
struct Arrival {
  template <typename OpT>
  Arrival(Lowering &lowering, OpT op)
      : barriers(lowering.slotOf(op.getBarriers())), use(lowering.intOperand(op.getUse())),
        stages(cast<tgpu::BarriersType>(op.getBarriers().getType()).getStages()) {}

  /// Starts the copy, which `write` executes.
  bool start(Machine &machine, Context &context, SimulatedFrame &frame, Operation *op, int64_t base,
             const Bytes &bytes, std::function<void()> write) const {
    int64_t number = use.read(frame);
    if (number < 0)
      return machine.fail(op,
                          "requires a use that is not negative, but got " + std::to_string(number));
    auto barrier = static_cast<unsigned>(numberIn(frame, barriers) + number % stages);
    int64_t phase = number / stages;
    if (!machine.checkPhase(context, op, barrier, phase, context.firstWarp) ||
        !machine.writeByTma(context, op, base, bytes, barrier, phase))
      return false;
    machine.poison(base, bytes);
    int64_t count = bytes.front().end;
    machine.defer(
        op, /*wakes=*/true,
        [=, &machine, write = std::move(write), issuer = machine.clockOf(context.firstWarp)] {
          write();
          return machine.deliver(op, barrier, phase, count, issuer);
        });
    return !machine.fault();
  }

  Slot barriers;
  IntOperand use;
  int64_t stages;
};

/// Users of the map refer to the argument directly.
LogicalResult lower(Lowering &lowering, tgpu::TensorMapOp op) {
  lowering.define(op.getMap());
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::TmaLoadOp op) {
  FailureOr<TmaCopy> copy = TmaCopy::of(lowering, op);
  if (failed(copy))
    return failure();
  Arrival arrival(lowering, op);
  emit(lowering, op,
       [copy = *copy, arrival](Machine &machine, auto &context, SimulatedFrame &frame) {
         if (!copy.check(machine, frame))
           return false;
         auto write = [&machine, boxes = copy.boxes(frame)] {
           for (const TmaCopy::Box &box : boxes)
             copyToShared(machine, box.tile, 0, box.offsets);
         };
         return arrival.start(machine, context, frame, copy.op, numberIn(frame, copy.buffer),
                              allBytes(copy.type), write);
       });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::BulkLoadOp op) {
  auto type = cast<tgpu::SharedType>(op.getBuffer().getType());
  Placement place;
  place.view = lowering.slotOf(op.getView());
  place.indices = mixedIndices(lowering, op.getIndices(), op.getStaticIndices());
  place.shape.assign(type.getShape().begin(), type.getShape().end());
  place.dims.push_back(static_cast<unsigned>(place.indices.size()) - 1);
  Arrival arrival(lowering, op);
  Slot buffer = lowering.slotOf(op.getBuffer());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    GlobalTile tile = tileOf(frame, place);
    numeric::TileAxis &axis = tile.axes.front();
    int64_t width = static_cast<int64_t>(byteWidth(tile.type));
    // Nothing is written beyond the view: those bytes stay poisoned.
    int64_t count = std::clamp<int64_t>(axis.extent - axis.start, 0, axis.size);
    char *first = tile.base + axis.start * width;
    if (count > 0 && (axis.start < 0 || axis.stride != 1 ||
                      reinterpret_cast<uintptr_t>(first) % kTmaAlignment != 0))
      return machine.fail(op,
                          "requires a contiguous row that starts at a multiple of 16 bytes, but "
                          "got stride " +
                              std::to_string(axis.stride) + " and a start with the remainder " +
                              std::to_string(reinterpret_cast<uintptr_t>(first) % kTmaAlignment));
    int64_t base = numberIn(frame, buffer);
    auto write = [=, &machine] { std::copy_n(first, count * width, machine.memory() + base); };
    return arrival.start(machine, context, frame, op, base, allBytes(type), write);
  });
  return success();
}

template <typename OpT> LogicalResult lowerStore(Lowering &lowering, OpT op, bool adds) {
  FailureOr<TmaCopy> copy = TmaCopy::of(lowering, op);
  if (failed(copy))
    return failure();
  bool perWarpgroup = op.getPerWarpgroup();
  emit(lowering, op, [=, copy = *copy](Machine &machine, auto &context, SimulatedFrame &frame) {
    if (!copy.check(machine, frame))
      return false;
    std::vector<TmaCopy::Box> boxes = copy.boxes(frame);
    int64_t base = numberIn(frame, copy.buffer);
    if (!copy.checkStored(machine, boxes))
      return false;
    unsigned groups = perWarpgroup ? context.numWarps / Target::warpsOfGroup : 1;
    for (unsigned group = 0; group < groups; ++group)
      if (!machine.readByStore(context, copy.op, base, copy.readBytes(boxes, base, groups, group),
                               context.firstWarp + group * Target::warpsOfGroup))
        return false;
    machine.start(context.stores, copy.op, [&machine, adds, boxes = std::move(boxes)] {
      for (const TmaCopy::Box &box : boxes) {
        const GlobalTile &tile = box.tile;
        Storage storage = storageOf(tile.type);
        std::vector<char> elements(box.offsets.size() * storageBytes(storage));
        gather(machine, 0, box.offsets, tile.type, storage, elements.data());
        (adds ? numeric::addTile : numeric::storeTile)(
            storage, elements.data(), tile.type, tile.base, tile.axes.data(), tile.axes.size());
      }
      return true;
    });
    return !machine.fault();
  });
  return success();
}
LogicalResult lower(Lowering &lowering, tgpu::TmaStoreOp op) {
  return lowerStore(lowering, op, false);
}
LogicalResult lower(Lowering &lowering, tgpu::TmaReduceAddOp op) {
  return lowerStore(lowering, op, true);
}

LogicalResult lower(Lowering &lowering, tgpu::BulkCommitOp op) {
  emit(lowering, op, [](auto &, auto &context, auto &) {
    ++context.stores.committed;
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::BulkWaitOp op) {
  emit(lowering, op,
       [pending = static_cast<int64_t>(op.getPending()),
        read = op.getRead()](Machine &machine, auto &context, auto &) {
         return machine.waitForStores(context, pending, /*reachesMemory=*/!read);
       });
  return success();
}

//===----------------------------------------------------------------------===//
// Order among blocks
//===----------------------------------------------------------------------===//

template <typename OpT> LogicalResult lowerBlockTurn(Lowering &lowering, OpT op, bool awaits) {
  Slot turns = lowering.slotOf(op.getTurns());
  auto indices = mixedIndices(lowering, op.getIndices(), op.getStaticIndices());
  IntOperand number = lowering.intOperand(op.getNumber());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    int32_t *counter = interpreter::counterOf(frame, turns, indices);
    int64_t turn = number.read(frame);
    return awaits ? machine.awaitTurn(context, op, counter, turn)
                  : machine.endTurn(context, op, counter, turn);
  });
  return success();
}
LogicalResult lower(Lowering &lowering, tgpu::AwaitTurnOp op) {
  return lowerBlockTurn(lowering, op, true);
}
LogicalResult lower(Lowering &lowering, tgpu::EndTurnOp op) {
  return lowerBlockTurn(lowering, op, false);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// An operand in shared memory. Its bytes depend on the buffer's offset.
class WgmmaOperandPatterns {
public:
  WgmmaOperandPatterns(tgpu::SharedType type, bool isB, bool transpose, int64_t warpgroups)
      : type(type), isB(isB), transpose(transpose), warpgroups(warpgroups) {}

  const Result<TilePattern> &at(int64_t address) {
    auto it = patterns.find(address);
    if (it == patterns.end())
      it = patterns
               .emplace(address, patternOfWgmmaOperand(type, address, isB, transpose, warpgroups))
               .first;
    return it->second;
  }

private:
  tgpu::SharedType type;
  bool isB, transpose;
  int64_t warpgroups;
  std::map<int64_t, Result<TilePattern>> patterns;
};

struct WgmmaCode {
  Operation *op;
  std::shared_ptr<WgmmaOperandPatterns> a, b; ///< a is null if it is in registers
  Slot aSlot, bSlot;
  ElementType element;
  std::optional<Slot> acc;
  bool isAccPending = false;
  int64_t rows, columns, depth;
  int64_t firstColumn, columnsOfB; ///< that are multiplied, of those that operand b has
};

std::vector<float> operandElements(Machine &machine, const Offsets &offsets, ElementType element) {
  std::vector<float> elements(offsets.size());
  gather(machine, 0, offsets, element, Storage::F32, elements.data());
  return elements;
}

/// Reads the operands and multiplies, when the machine executes the product.
bool multiply(const WgmmaCode &code, Machine &machine, SimulatedFrame &frame, Product &product,
              const TilePattern *a, const Datum &aValue, const TilePattern &b, const Datum &acc) {
  int64_t count = code.rows * code.columns;
  std::vector<float> lhs, rhs = operandElements(machine, b.offsets, code.element);
  if (a) {
    lhs = operandElements(machine, a->offsets, code.element);
  } else {
    lhs.resize(code.rows * code.depth);
    aValue.copyTo(lhs.data(), code.rows * code.depth, Storage::F32);
  }
  if (code.element == ElementType::F32) {
    llvm::transform(lhs, lhs.begin(), roundToTF32);
    llvm::transform(rhs, rhs.begin(), roundToTF32);
  }
  std::vector<float> sum;
  if (code.acc) {
    sum.resize(count);
    acc.copyTo(sum.data(), count, Storage::F32);
  }
  BufferRef out(frame.pool.allocate(count * sizeof(float)));
  auto shape = numeric::MatMulShape::dense(code.rows, code.columns, code.depth);
  shape.ldb = code.columnsOfB;
  numeric::matmul(shape, lhs.data(), rhs.data() + code.firstColumn, code.acc ? sum.data() : nullptr,
                  static_cast<float *>(out.data()));
  product.result.setDense(std::move(out));
  return true;
}

/// Products of elements that take about as long as a step.
constexpr int64_t kProductsOfStep = 1 << 13;

bool startProduct(const WgmmaCode &code, Slot result, Machine &machine, Context &context,
                  SimulatedFrame &frame) {
  if (!machine.countSteps(context, code.op,
                          code.rows * code.columns * code.depth / kProductsOfStep))
    return false;
  auto patternAt = [&](WgmmaOperandPatterns &patterns, Slot slot) -> const TilePattern * {
    const Result<TilePattern> &pattern = patterns.at(numberIn(frame, slot));
    if (pattern)
      return &*pattern;
    machine.fail(code.op, "cannot be simulated: " + pattern.message());
    return nullptr;
  };
  const TilePattern *a = nullptr, *b = patternAt(*code.b, code.bSlot);
  if (!b || !machine.readByProduct(context, code.op, b->byWarp))
    return false;
  Datum aValue, acc;
  if (code.a) {
    a = patternAt(*code.a, code.aSlot);
    if (!a || !machine.readByProduct(context, code.op, a->byWarp))
      return false;
  } else {
    aValue = frame.values[code.aSlot];
  }
  std::shared_ptr<Product> before;
  if (!context.started.empty())
    before = context.started.back();
  std::shared_ptr<Product> chained;
  if (code.isAccPending)
    chained = context.started[numberIn(frame, *code.acc)];
  else if (code.acc)
    acc = frame.values[*code.acc];

  auto product = std::make_shared<Product>();
  setNumber(frame, result, static_cast<int64_t>(context.started.size()));
  context.started.push_back(product);
  product->group = context.products.open();
  // Products of a warpgroup are executed in order.
  DeferredRef work = machine.start(context.products, code.op,
                                   [&code, &machine, &frame, product = product.get(), a, b, aValue,
                                    acc, before, chained]() mutable {
                                     if (before && before->work && !machine.force(*before->work))
                                       return false;
                                     bool done = multiply(code, machine, frame, *product, a, aValue,
                                                          *b, chained ? chained->result : acc);
                                     before.reset();
                                     chained.reset();
                                     aValue = acc = Datum();
                                     return done;
                                   });
  product->work = work;
  return !machine.fault();
}

LogicalResult lower(Lowering &lowering, tgpu::WgmmaOp op) {
  RankedTensorType tile = cast<tgpu::PendingType>(op.getResult().getType()).getTile();
  int64_t groups = cast<tgpu::WgmmaAttr>(tile.getEncoding()).getWarpgroups();
  auto bType = cast<tgpu::SharedType>(op.getB().getType());
  auto code = std::make_shared<WgmmaCode>();
  code->op = op;
  code->b = std::make_shared<WgmmaOperandPatterns>(bType, true, op.getTransposeB(), groups);
  code->bSlot = lowering.slotOf(op.getB());
  code->aSlot = lowering.slotOf(op.getA());
  if (auto aType = dyn_cast<tgpu::SharedType>(op.getA().getType()))
    code->a = std::make_shared<WgmmaOperandPatterns>(aType, false, op.getTransposeA(), groups);
  code->element = *interpreter::elementTypeOf(bType);
  if (Value acc = op.getAddend()) {
    code->acc = lowering.slotOf(acc);
    code->isAccPending = isa<tgpu::PendingType>(acc.getType());
  }
  code->rows = tile.getDimSize(0);
  code->columns = tile.getDimSize(1);
  code->depth = bType.getShape()[op.getTransposeB() ? 1 : 0];
  code->firstColumn = static_cast<int64_t>(op.getColumns().value_or(0));
  code->columnsOfB = bType.getShape()[op.getTransposeB() ? 0 : 1];
  Slot result = lowering.define(op.getResult());
  emit(lowering, op, [code, result](Machine &machine, auto &context, auto &frame) {
    return startProduct(*code, result, machine, context, frame);
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::WgmmaCommitOp op) {
  emit(lowering, op, [](auto &, auto &context, auto &) {
    ++context.products.committed;
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::WgmmaWaitOp op) {
  struct Tile {
    Slot from, to;
    bool isLastUse; ///< of each product
  };
  llvm::SmallVector<Tile> tiles;
  for (auto [pending, result] : llvm::zip_equal(op.getTiles(), op.getResults())) {
    Operation *product = pending.getDefiningOp();
    bool isLastUse = product && pending.hasOneUse() && product->getBlock() == op->getBlock();
    tiles.push_back({lowering.slotOf(pending), lowering.define(result), isLastUse});
  }
  int64_t pending = op.getPending();
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    if (!machine.waitForProducts(context, pending))
      return false;
    for (auto [from, to, isLastUse] : tiles) {
      Product &product = *context.started[numberIn(frame, from)];
      if (product.group > context.products.finished) {
        machine.fail(op, "must yield tiles that are complete, but got one that may still be in "
                         "flight; leave fewer groups pending");
        machine.note(product.work->op, "the product");
        return false;
      }
      frame.values[to] = isLastUse ? std::move(product.result) : product.result;
    }
    return true;
  });
  return success();
}

} // namespace

void addHopperSimulation(LoweringTable &table) {
  addLowerings<tgpu::TensorMapOp, tgpu::TmaLoadOp, tgpu::BulkLoadOp, tgpu::TmaStoreOp,
               tgpu::TmaReduceAddOp, tgpu::BulkCommitOp, tgpu::BulkWaitOp, tgpu::AwaitTurnOp,
               tgpu::EndTurnOp, tgpu::WgmmaOp, tgpu::WgmmaCommitOp, tgpu::WgmmaWaitOp>(
      table, [](Lowering &lowering, auto op) { return lower(lowering, op); });
}

} // namespace tilewright::simulator
