// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations between elements of a tile: full, iota, expand, transpose, scan, and changes of
// layout.

#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/Exchange.h"

#include "base/Layout/Relations.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/SharedAccess.h"
#include "passes/Conversion/ThreadCoords.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

/// The number of an element, counted along rows.
static Value linearize(ThreadBuilder &b, ArrayRef<Value> indices, ArrayRef<int64_t> shape) {
  Value number = indices.front();
  for (auto [index, extent] : llvm::zip_equal(indices.drop_front(), shape.drop_front()))
    number = b.add(b.mul(number, b.i32(extent)), index);
  return number;
}

/// The indices of the element in register `reg`: one for each dimension of the shape; all
/// dimensions but the last may share the rows of the layout.
static Values indicesOf(ThreadBuilder &b, const RegisterLayout &layout, ArrayRef<int64_t> shape,
                        int reg) {
  if (shape.size() == 1)
    return {getCoord(b, layout, 0, reg)};
  Values indices = splitRow(b, getCoord(b, layout, 0, reg), shape);
  indices.push_back(getCoord(b, layout, 1, reg));
  return indices;
}

/// Writes the elements of a tile of `type` to scratch memory, and reads each element of the result
/// from a position of it, counted along rows; `place` receives the indices of the element of the
/// result.
static FailureOr<Values> rearrange(KernelEmitter &e, Operation *op, ArrayRef<Value> elements,
                                   RankedTensorType type, RankedTensorType result,
                                   llvm::function_ref<Value(ArrayRef<Value>)> place) {
  ThreadBuilder &b = e.b;
  constexpr int64_t mostStaticBytes = 48 * 1024;
  ArrayRef<int64_t> shape = result.getShape();
  const RegisterLayout &from = *e.getLayout(op, type), &to = *e.getLayout(op, result);
  int64_t elementBytes = getElementBits(type.getElementType()) / 8;
  int64_t bytes = elementBytes * type.getNumElements();
  if (bytes > mostStaticBytes)
    return op->emitError() << "an exchange between threads has at most " << mostStaticBytes
                           << " bytes of scratch memory, but the tile needs " << bytes
                           << "; use smaller blocks";
  if (failed(beginExchange(e, op, /*usesScratch=*/true)))
    return failure();
  Value base = getScratch(e, bytes);
  auto address = [&](Value number) { return b.advance(base, b.mul(number, b.i32(elementBytes))); };
  Values moved;
  for (auto [reg, value] : llvm::enumerate(elements))
    if (isCanonicalRegister(from, static_cast<int>(reg)))
      storeVector(b,
                  address(linearize(b, indicesOf(b, from, type.getShape(), reg), type.getShape())),
                  value);
  syncWarps(e);
  for (int reg = 0; reg < to.registersPerThread(); ++reg)
    moved.push_back(
        loadVector(b, address(place(indicesOf(b, to, shape, reg))), elements.front().getType(), 1)
            .front());
  syncWarps(e);
  return moved;
}

/// The same for the tiles of an operation.
static LogicalResult rearrange(KernelEmitter &e, Operation *op, Value source, Value result,
                               llvm::function_ref<Value(ArrayRef<Value>)> place) {
  FailureOr<Values> moved =
      rearrange(e, op, e.getElements(source), cast<RankedTensorType>(source.getType()),
                cast<RankedTensorType>(result.getType()), place);
  if (failed(moved))
    return failure();
  e.setElements(result, *moved);
  return success();
}

//===----------------------------------------------------------------------===//
// Elements by their indices
//===----------------------------------------------------------------------===//

static void emitFull(KernelEmitter &e, tile::FullOp op) {
  size_t count = e.getLayout(op, op.getResult().getType())->registersPerThread();
  e.setElements(op.getResult(), Values(count, e.getScalar(op.getValue())));
}

static void emitIota(KernelEmitter &e, tile::IotaOp op) {
  ThreadBuilder &b = e.b;
  const RegisterLayout &layout = *e.getLayout(op, op.getResult().getType());
  int dim = static_cast<int>(op.getDim());
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  if (shape.size() > 2) {
    Values elements;
    for (int reg = 0; reg < layout.registersPerThread(); ++reg)
      elements.push_back(b.add(e.getScalar(op.getStart()), indicesOf(b, layout, shape, reg)[dim]));
    e.setElements(op.getResult(), elements);
    return;
  }
  Value first = b.add(e.getScalar(op.getStart()), getThreadCoord(b, layout, dim));
  llvm::DenseMap<int64_t, Value> known; // most registers share their coordinate with others
  Values elements;
  for (int reg = 0; reg < layout.registersPerThread(); ++reg) {
    int64_t part = layout.registerPart(reg)[dim];
    Value &element = known[part];
    if (!element)
      element = b.add(first, b.i32(part));
    elements.push_back(element);
  }
  e.setElements(op.getResult(), elements);
}

/// The elements of `result` are those of `source` in these registers.
static LogicalResult takeRegisters(KernelEmitter &e, Value result, Value source,
                                   ArrayRef<int> registers) {
  Values elements = e.getElements(source), taken;
  for (int reg : registers)
    taken.push_back(elements[reg]);
  e.setElements(result, taken);
  return success();
}

static LogicalResult emitExpand(KernelEmitter &e, tile::ExpandOp op) {
  Type type = op.getResult().getType();
  const RegisterLayout &from = *e.getLayout(op, op.getSource().getType());
  const RegisterLayout &to = *e.getLayout(op, type);
  if (tile::getRank(type) > 2) {
    int64_t dim = op.getDim();
    SmallVector<int64_t> shape(cast<RankedTensorType>(op.getSource().getType()).getShape());
    return rearrange(e, op, op.getSource(), op.getResult(), [&](ArrayRef<Value> indices) {
      Values kept(indices);
      kept.erase(kept.begin() + dim);
      return linearize(e.b, kept, shape);
    });
  }
  layout::ReductionPlan plan = layout::reductionPlan(to, static_cast<int>(op.getDim()));
  std::optional<std::vector<int>> source = getRenaming(from, plan.result);
  if (!source)
    return op.emitError() << "the operand must have the layout slice<" << op.getDim()
                          << "> of the result's layout, but got " << op.getSource().getType()
                          << "; convert it first";
  SmallVector<int> registers;
  for (int reg : plan.resultRegister)
    registers.push_back((*source)[reg]);
  return takeRegisters(e, op.getResult(), op.getSource(), registers);
}

static LogicalResult emitTranspose(KernelEmitter &e, tile::TransposeOp op) {
  const RegisterLayout &to = *e.getLayout(op, op.getResult().getType());
  const RegisterLayout &from = *e.getLayout(op, op.getSource().getType());
  ArrayRef<int64_t> permutation = op.getPermutation();
  bool isIdentity = llvm::is_sorted(permutation);
  if (permutation.size() > 2 && !isIdentity) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getSource().getType()).getShape();
    return rearrange(e, op, op.getSource(), op.getResult(), [&](ArrayRef<Value> indices) {
      Values permuted(indices.size());
      for (auto [i, dim] : llvm::enumerate(permutation))
        permuted[dim] = indices[i];
      return linearize(e.b, permuted, shape);
    });
  }
  bool isExchange = from.rank() == 2 && !isIdentity;
  std::optional<std::vector<int>> source = getRenaming(isExchange ? from.transposed() : from, to);
  if (!source)
    return op.emitError() << "a transpose must not move elements between threads, but got "
                          << op.getSource().getType() << " to " << op.getResult().getType()
                          << "; exchange it through shared memory (tgpu.write, tgpu.read)";
  return takeRegisters(e, op.getResult(), op.getSource(), *source);
}

/// Elements keep their order along rows.
static LogicalResult emitReshape(KernelEmitter &e, tile::ReshapeOp op) {
  const RegisterLayout &to = *e.getLayout(op, op.getResult().getType());
  const RegisterLayout &from = *e.getLayout(op, op.getSource().getType());
  if (std::optional<std::vector<int>> source = getRenaming(from, to))
    return takeRegisters(e, op.getResult(), op.getSource(), *source);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  return rearrange(e, op, op.getSource(), op.getResult(),
                   [&](ArrayRef<Value> indices) { return linearize(e.b, indices, shape); });
}

static LogicalResult emitSlice(KernelEmitter &e, tile::SliceOp op) {
  ThreadBuilder &b = e.b;
  auto type = cast<RankedTensorType>(op.getSource().getType());
  int64_t dim = op.getDim();
  Value offset = e.getScalar(op.getOffset()), extent = b.i32(type.getDimSize(dim)), zero = b.i32(0);
  Values inside;
  auto place = [&](ArrayRef<Value> indices) {
    Values at(indices);
    // As unsigned numbers, positions before the tile are beyond its end. The sum may wrap, but not
    // into the tile.
    Value index = b.add(at[dim], offset);
    inside.push_back(arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index, extent));
    at[dim] = arith::SelectOp::create(b, inside.back(), index, zero);
    return linearize(b, at, type.getShape());
  };
  if (failed(rearrange(e, op, op.getSource(), op.getResult(), place)))
    return failure();
  Values elements = e.getElements(op.getResult());
  Value fill = op.getFill() ? e.getScalar(op.getFill())
                            : b.constant(b.getZeroAttr(elements.front().getType()));
  for (auto [element, isInside] : llvm::zip_equal(elements, inside))
    element = arith::SelectOp::create(b, isInside, element, fill);
  e.setElements(op.getResult(), elements);
  return success();
}

/// In rounds: after the one of distance d, an element combines 2 d elements (Hillis and Steele).
static LogicalResult emitScan(KernelEmitter &e, tile::ScanOp op) {
  ThreadBuilder &b = e.b;
  auto type = cast<RankedTensorType>(op.getSource().getType());
  int64_t dim = op.getDim(), extent = type.getDimSize(dim);
  Values sums = e.getElements(op.getSource());
  for (int64_t distance = 1; distance < extent; distance *= 2) {
    Values inside;
    auto place = [&](ArrayRef<Value> indices) {
      Values at(indices);
      // As an unsigned number, a position before the tile is beyond its end.
      Value index = b.add(at[dim], b.i32(op.getReverse() ? distance : -distance));
      inside.push_back(arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index, b.i32(extent)));
      at[dim] = arith::SelectOp::create(b, inside.back(), index, at[dim]);
      return linearize(b, at, type.getShape());
    };
    FailureOr<Values> others = rearrange(e, op, sums, type, type, place);
    if (failed(others))
      return failure();
    for (auto [sum, other, isInside] : llvm::zip_equal(sums, *others, inside))
      sum = arith::SelectOp::create(b, isInside, combine(b, op.getKind(), other, sum), sum);
  }
  e.setElements(op.getResult(), sums);
  return success();
}

//===----------------------------------------------------------------------===//
// Changes of layout
//===----------------------------------------------------------------------===//

/// A thread has columns 16 a + 8 b + 2 c + d of an accumulator for one c, which become its columns
/// 16 a + 4 c + 2 b + d of operand a.
static LogicalResult emitInterleave(KernelEmitter &e, ConvertOp op, const RegisterLayout &from,
                                    const RegisterLayout &to) {
  std::map<layout::Coord, int> registers;
  for (int reg = 0; reg < from.registersPerThread(); ++reg)
    registers[from.registerPart(reg)] = reg;
  SmallVector<int> sources;
  for (int reg = 0; reg < to.registersPerThread(); ++reg) {
    auto [row, column] = to.registerPart(reg);
    auto it = registers.find({row, column - column % 4 + column / 2 % 2 * 8 + column % 2});
    assert(column % 16 < 4 && it != registers.end() &&
           "not the layouts that the verifier requires");
    sources.push_back(it->second);
  }
  return takeRegisters(e, op.getResult(), op.getSource(), sources);
}

static LogicalResult emitConvert(KernelEmitter &e, ConvertOp op) {
  ThreadBuilder &b = e.b;
  const RegisterLayout &from = *e.getLayout(op, op.getSource().getType());
  const RegisterLayout &to = *e.getLayout(op, op.getResult().getType());
  if (op.getInterleaved())
    return emitInterleave(e, op, from, to);
  layout::Conversion conversion = layout::convert(from, to);
  if (conversion.kind == layout::Conversion::Kind::Registers)
    return takeRegisters(e, op.getResult(), op.getSource(), conversion.sourceRegister);

  if (op.getScratch()) {
    auto type = cast<SharedType>(op.getScratch().getType());
    auto tile = cast<RankedTensorType>(op.getSource().getType());
    if (type.getShape() != tile.getShape() || type.getElementType() != tile.getElementType())
      return op.emitError()
             << "scratch memory must have the shape and elements of the tile, but got " << type;
    Value buffer = e.getScalar(op.getScratch());
    if (failed(beginExchange(e, op, /*usesScratch=*/false)))
      return failure();
    if (failed(writeShared(e, op, op.getSource(), buffer, type, /*exchanged=*/false)))
      return failure();
    syncWarps(e);
    if (failed(readShared(e, op, buffer, type, /*exchanged=*/false, op.getResult())))
      return failure();
    syncWarps(e);
    return success();
  }
  if (conversion.kind != layout::Conversion::Kind::Shuffle)
    return op.emitError() << "a conversion that moves elements between warps must have scratch "
                             "memory, but has none; add 'through'";

  Values source = e.getElements(op.getSource()), result;
  // Lane l reads from lane other(l); if lanes read different registers, one shuffle for each.
  for (int reg = 0; reg < to.registersPerThread(); ++reg) {
    std::map<int, uint32_t> lanesOf;
    std::array<int, layout::kLanes> other;
    bool isUniform = true;
    for (int l = 0; l < layout::kLanes; ++l) {
      layout::Owner owner = layout::shuffleSource(from, to, 0, l, reg);
      other[l] = owner.lane;
      lanesOf[owner.reg] |= uint32_t(1) << l;
      for (int w = 1; w < b.threads.numWarps; ++w) {
        layout::Owner same = layout::shuffleSource(from, to, w, l, reg);
        isUniform &= same.lane == owner.lane && same.reg == owner.reg;
      }
    }
    Value lanes =
        isUniform ? getThreadNumber(b, [&](int, int l) { return other[l]; }, {}) : Value();
    if (!lanes)
      return op.emitError()
             << "a conversion whose warps move elements differently must have scratch "
                "memory, but has none; add 'through'";
    Value value;
    for (auto [sourceReg, mask] : lanesOf) {
      Value moved = shuffle(b, "idx", source[sourceReg], lanes);
      if (!value) {
        value = moved;
        continue;
      }
      Value bit = arith::AndIOp::create(
          b, arith::ShRUIOp::create(b, b.i32(int32_t(mask)), b.threads.lane), b.i32(1));
      Value takes = b.notEqual(bit, b.i32(0));
      value = arith::SelectOp::create(b, takes, moved, value);
    }
    result.push_back(value);
  }
  e.setElements(op.getResult(), result);
  return success();
}

void tgpu::registerTileLowerings(LoweringTable &table) {
  table.add<tile::FullOp>(emitFull);
  table.add<tile::IotaOp>(emitIota);
  table.add<tile::ExpandOp>(emitExpand);
  table.add<tile::TransposeOp>(emitTranspose);
  table.add<tile::ReshapeOp>(emitReshape);
  table.add<tile::SliceOp>(emitSlice);
  table.add<tile::ScanOp>(emitScan);
  table.add<ConvertOp>(emitConvert);
}
