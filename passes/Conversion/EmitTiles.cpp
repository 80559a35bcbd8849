// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations between elements of a tile: full, iota, expand, transpose, reduce, and changes of
// layout.

#include "passes/Conversion/KernelEmitter.h"

#include "base/Layout/Relations.h"
#include "passes/Conversion/LoweringTable.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

//===----------------------------------------------------------------------===//
// Scratch memory
//===----------------------------------------------------------------------===//

/// Memory that an operation uses while it runs, between barriers.
static Value getScratch(KernelEmitter &e, int64_t bytes) {
  e.scratchBytes = std::max(e.scratchBytes, bytes);
  OpBuilder::InsertionGuard guard(e.b);
  if (!e.scratch) {
    e.b.setInsertionPoint(e.func);
    e.scratch = LLVM::GlobalOp::create(e.b, LLVM::LLVMArrayType::get(e.b.getI8Type(), 0),
                                       /*isConstant=*/false, LLVM::Linkage::Internal,
                                       (e.func.getName() + "_scratch").str(), Attribute(),
                                       /*alignment=*/16, /*addrSpace=*/3);
  }
  e.b.setInsertionPoint(e.endOfEntry);
  return LLVM::AddressOfOp::create(e.b, LLVM::LLVMPointerType::get(e.b.getContext(), 3),
                                   e.scratch.getSymNameAttr());
}

Values KernelEmitter::splitRow(Value row, ArrayRef<int64_t> shape) {
  Values indices;
  for (int64_t extent : llvm::reverse(shape.drop_back())) {
    indices.push_back(arith::RemUIOp::create(b, row, i32(extent)));
    row = arith::DivUIOp::create(b, row, i32(extent));
  }
  std::reverse(indices.begin(), indices.end());
  return indices;
}

/// The number of an element, counted along rows.
static Value linearise(KernelEmitter &e, ArrayRef<Value> indices, ArrayRef<int64_t> shape) {
  Value number = indices.front();
  for (auto [index, extent] : llvm::zip_equal(indices.drop_front(), shape.drop_front()))
    number = e.add(e.mul(number, e.i32(extent)), index);
  return number;
}

/// The indices of the element in register `reg`: one for each dimension of the shape, of which
/// all but the last may share the rows of the layout.
static Values indicesOf(KernelEmitter &e, const RegisterLayout &layout, ArrayRef<int64_t> shape,
                        int reg) {
  if (shape.size() == 1)
    return {e.coord(layout, 0, reg)};
  Values indices = e.splitRow(e.coord(layout, 0, reg), shape);
  indices.push_back(e.coord(layout, 1, reg));
  return indices;
}

/// Writes a tile to scratch memory and reads each element of the result from place `from` of it,
/// counted along rows; `from` is given the indices of the element of the result.
static LogicalResult rearrange(KernelEmitter &e, Operation *op, Value source, Value result,
                               llvm::function_ref<Value(ArrayRef<Value>)> place) {
  constexpr int64_t mostStaticBytes = 48 * 1024;
  auto type = cast<RankedTensorType>(source.getType());
  ArrayRef<int64_t> shape = cast<RankedTensorType>(result.getType()).getShape();
  const RegisterLayout &from = *e.getLayout(op, type), &to = *e.getLayout(op, result.getType());
  int64_t elementBytes = getElementBits(type.getElementType()) / 8;
  int64_t bytes = elementBytes * type.getNumElements();
  if (bytes > mostStaticBytes)
    return op->emitError() << "elements change threads through scratch memory, which holds at most "
                           << mostStaticBytes << " bytes, but the tile has " << bytes
                           << "; use smaller blocks";
  if (failed(e.beginExchange(op, /*usesScratch=*/true)))
    return failure();
  Value base = getScratch(e, bytes);
  auto address = [&](Value number) { return e.advance(base, e.mul(number, e.i32(elementBytes))); };
  Values elements = e.getElements(source), moved;
  for (auto [reg, value] : llvm::enumerate(elements))
    if (KernelEmitter::isCanonicalRegister(from, static_cast<int>(reg)))
      e.storeVector(
          address(linearise(e, indicesOf(e, from, type.getShape(), reg), type.getShape())), value);
  e.barrier();
  for (int reg = 0; reg < to.registersPerThread(); ++reg)
    moved.push_back(
        e.loadVector(address(place(indicesOf(e, to, shape, reg))), elements.front().getType(), 1)
            .front());
  e.barrier();
  e.setElements(result, moved);
  return success();
}

//===----------------------------------------------------------------------===//
// Elements by their indices
//===----------------------------------------------------------------------===//

static LogicalResult emitFull(KernelEmitter &e, tile::FullOp op) {
  size_t count = e.getLayout(op, op.getResult().getType())->registersPerThread();
  e.setElements(op.getResult(), Values(count, e.getScalar(op.getValue())));
  return success();
}

static LogicalResult emitIota(KernelEmitter &e, tile::IotaOp op) {
  const RegisterLayout &layout = *e.getLayout(op, op.getResult().getType());
  int dim = static_cast<int>(op.getDim());
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  if (shape.size() > 2) {
    Values elements;
    for (int reg = 0; reg < layout.registersPerThread(); ++reg)
      elements.push_back(e.add(e.getScalar(op.getStart()), indicesOf(e, layout, shape, reg)[dim]));
    e.setElements(op.getResult(), elements);
    return success();
  }
  Value first = e.add(e.getScalar(op.getStart()), e.threadCoord(layout, dim));
  llvm::DenseMap<int64_t, Value> known; // most registers share their coordinate with others
  Values elements;
  for (int reg = 0; reg < layout.registersPerThread(); ++reg) {
    int64_t part = layout.registerPart(reg)[dim];
    Value &element = known[part];
    if (!element)
      element = e.add(first, e.i32(part));
    elements.push_back(element);
  }
  e.setElements(op.getResult(), elements);
  return success();
}

/// The registers of `from` in the order of `to`, where threads can rename them.
static std::optional<std::vector<int>> renaming(const RegisterLayout &from,
                                                const RegisterLayout &to) {
  if (from.shape() != to.shape())
    return std::nullopt;
  layout::Conversion conversion = layout::convert(from, to);
  if (conversion.kind != layout::Conversion::Kind::Registers)
    return std::nullopt;
  return conversion.sourceRegister;
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
      return linearise(e, kept, shape);
    });
  }
  layout::ReductionPlan plan = layout::reductionPlan(to, static_cast<int>(op.getDim()));
  std::optional<std::vector<int>> source = renaming(from, plan.result);
  if (!source)
    return op.emitError() << "the operand must lie as slice<" << op.getDim()
                          << "> of the result does, but got " << op.getSource().getType()
                          << "; convert it first";
  Values elements = e.getElements(op.getSource()), result;
  for (int reg : plan.resultRegister)
    result.push_back(elements[(*source)[reg]]);
  e.setElements(op.getResult(), result);
  return success();
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
      return linearise(e, permuted, shape);
    });
  }
  bool isExchange = from.rank() == 2 && !isIdentity;
  std::optional<std::vector<int>> source = renaming(isExchange ? from.transposed() : from, to);
  if (!source)
    return op.emitError() << "a transposed tile must stay in its threads, but got "
                          << op.getSource().getType() << " to " << op.getResult().getType()
                          << "; exchange it through shared memory (tgpu.write, tgpu.read)";
  Values elements = e.getElements(op.getSource()), result;
  for (int reg : *source)
    result.push_back(elements[reg]);
  e.setElements(op.getResult(), result);
  return success();
}

/// Elements keep their order along rows.
static LogicalResult emitReshape(KernelEmitter &e, tile::ReshapeOp op) {
  const RegisterLayout &to = *e.getLayout(op, op.getResult().getType());
  const RegisterLayout &from = *e.getLayout(op, op.getSource().getType());
  if (std::optional<std::vector<int>> source = renaming(from, to)) {
    Values elements = e.getElements(op.getSource()), result;
    for (int reg : *source)
      result.push_back(elements[reg]);
    e.setElements(op.getResult(), result);
    return success();
  }
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getResult().getType()).getShape();
  return rearrange(e, op, op.getSource(), op.getResult(),
                   [&](ArrayRef<Value> indices) { return linearise(e, indices, shape); });
}

static LogicalResult emitSlice(KernelEmitter &e, tile::SliceOp op) {
  auto type = cast<RankedTensorType>(op.getSource().getType());
  int64_t dim = op.getDim();
  Value offset = e.getScalar(op.getOffset()), extent = e.i32(type.getDimSize(dim)), zero = e.i32(0);
  Values inside;
  auto place = [&](ArrayRef<Value> indices) {
    Values at(indices);
    // As unsigned numbers, positions before the tile are beyond its end. The sum may wrap around,
    // but not into the tile.
    Value index = e.add(at[dim], offset);
    inside.push_back(arith::CmpIOp::create(e.b, arith::CmpIPredicate::ult, index, extent));
    at[dim] = arith::SelectOp::create(e.b, inside.back(), index, zero);
    return linearise(e, at, type.getShape());
  };
  if (failed(rearrange(e, op, op.getSource(), op.getResult(), place)))
    return failure();
  Values elements = e.getElements(op.getResult());
  Value fill = op.getFill() ? e.getScalar(op.getFill())
                            : e.constant(e.b.getZeroAttr(elements.front().getType()));
  for (auto [element, isInside] : llvm::zip_equal(elements, inside))
    element = arith::SelectOp::create(e.b, isInside, element, fill);
  e.setElements(op.getResult(), elements);
  return success();
}

//===----------------------------------------------------------------------===//
// Reduction
//===----------------------------------------------------------------------===//

Value KernelEmitter::combine(tile::ReduceKind kind, Value x, Value y) {
  bool isFloat = isa<FloatType>(x.getType());
  auto either = [&](auto floatTag, auto integerTag) -> Value {
    if (isFloat)
      return decltype(floatTag)::create(b, x, y);
    return decltype(integerTag)::create(b, x, y);
  };
  switch (kind) {
  case tile::ReduceKind::Add:
    return either(arith::AddFOp(), arith::AddIOp());
  case tile::ReduceKind::Mul:
    return either(arith::MulFOp(), arith::MulIOp());
  case tile::ReduceKind::Max:
    return either(arith::MaximumFOp(), arith::MaxSIOp());
  case tile::ReduceKind::Min:
    return either(arith::MinimumFOp(), arith::MinSIOp());
  case tile::ReduceKind::And:
    return arith::AndIOp::create(b, x, y);
  case tile::ReduceKind::Or:
    return arith::OrIOp::create(b, x, y);
  }
  return nullptr;
}

/// `mode` is "bfly" or "idx"; `other` the mask or the lane.
Value KernelEmitter::shuffle(StringRef mode, Value value, Value other) {
  Type type = value.getType(), i32Type = b.getI32Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  std::string name = ("llvm.nvvm.shfl.sync." + mode + (type.isF32() ? ".f32" : ".i32")).str();
  auto move = [&](Value word) {
    return intrinsic(name, word.getType(), {i32(-1), word, other, i32(31)});
  };
  if (bits == 32)
    return move(value);
  if (bits == 64) {
    Value words = bitcast(value, VectorType::get(2, i32Type));
    name = ("llvm.nvvm.shfl.sync." + mode + ".i32").str();
    return bitcast(vectorOf({move(extract(words, 0)), move(extract(words, 1))}), type);
  }
  Type integer = b.getIntegerType(bits);
  Value word = arith::ExtUIOp::create(b, i32Type, bitcast(value, integer));
  return bitcast(arith::TruncIOp::create(b, integer, move(word)), type);
}

/// A linear chain of additions: ptxas interleaves each with the exponentials of a softmax, where a
/// tree would take registers for its partial sums.
/// The registers of by_thread are those of slice, in their order.
static void emitThreadSum(KernelEmitter &e, ThreadSumOp op) {
  const RegisterLayout &from = *e.getLayout(op, op.getSource().getType());
  layout::ReductionPlan plan = layout::reductionPlan(from, static_cast<int>(op.getDim()));
  Values sums(plan.result.registersPerThread());
  for (auto [reg, value] : llvm::enumerate(e.getElements(op.getSource()))) {
    Value &sum = sums[plan.resultRegister[reg]];
    sum = sum ? e.combine(tile::ReduceKind::Add, sum, value) : value;
  }
  e.setElements(op.getResult(), sums);
}

static LogicalResult emitReduce(KernelEmitter &e, tile::ReduceOp op) {
  Type type = op.getSource().getType();
  const RegisterLayout &from = *e.getLayout(op, type);
  const RegisterLayout &to = *e.getLayout(op, op.getResult().getType());
  Type element = e.getScalarType(type);
  if (from.rank() != 2 || cast<RankedTensorType>(type).getRank() != 2)
    return op.emitError() << "only tiles of rank 2 can be reduced here, but got " << type
                          << "; reshape it to a matrix first";
  layout::ReductionPlan plan = layout::reductionPlan(from, static_cast<int>(op.getDim()));
  std::optional<std::vector<int>> order = renaming(plan.result, to);
  if (!order)
    return op.emitError() << "the result must lie as slice<" << op.getDim()
                          << "> of the operand does, but got " << op.getResult().getType()
                          << "; convert it afterwards";

  // Within the thread a balanced tree: short dependence chains, and a smaller error of sums.
  SmallVector<Values> parts(plan.result.registersPerThread());
  for (auto [reg, value] : llvm::enumerate(e.getElements(op.getSource())))
    parts[plan.resultRegister[reg]].push_back(value);
  Values result;
  for (Values &part : parts) {
    while (part.size() > 1) {
      Values next;
      for (size_t i = 0; i + 1 < part.size(); i += 2)
        next.push_back(e.combine(op.getKind(), part[i], part[i + 1]));
      if (part.size() % 2)
        next.push_back(part.back());
      part = std::move(next);
    }
    result.push_back(part.front());
  }
  for (int mask : plan.laneMasks)
    for (Value &value : result)
      value = e.combine(op.getKind(), value, e.shuffle("bfly", value, e.i32(mask)));

  if (plan.acrossWarps()) {
    int64_t bytes = std::max<int64_t>(element.getIntOrFloatBitWidth(), 8) / 8;
    int64_t length = plan.result.shape()[0], numParts = 1;
    for (const layout::WarpGroup &group : plan.warpGroups)
      numParts *= group.extent;
    Value row = e.threadNumber(
        [&](int w, int) {
          int64_t part = 0, scale = 1;
          for (const layout::WarpGroup &group : plan.warpGroups) {
            part += w / group.place % group.extent * scale;
            scale *= group.extent;
          }
          return part * length;
        },
        from.warpDigits());
    if (!row)
      return op.emitError() << "warps that share " << type << " do not form a grid";
    if (failed(e.beginExchange(op, /*usesScratch=*/true)))
      return failure();
    Value base = getScratch(e, numParts * length * bytes);
    auto address = [&](Value first, int reg) {
      return e.advance(base, e.mul(e.add(first, e.coord(plan.result, 0, reg)), e.i32(bytes)));
    };
    for (auto [reg, value] : llvm::enumerate(result))
      e.storeVector(address(row, reg), value);
    e.barrier();
    // All warps combine in the same order, so they agree to the last bit.
    for (auto [reg, value] : llvm::enumerate(result)) {
      value = nullptr;
      for (int64_t part = 0; part < numParts; ++part) {
        Value next = e.loadVector(address(e.i32(part * length), reg), element, 1).front();
        value = value ? e.combine(op.getKind(), value, next) : next;
      }
    }
    e.barrier();
  }

  Values ordered;
  for (int reg : *order)
    ordered.push_back(result[reg]);
  e.setElements(op.getResult(), ordered);
  return success();
}

//===----------------------------------------------------------------------===//
// Changes of layout
//===----------------------------------------------------------------------===//

static LogicalResult emitConvert(KernelEmitter &e, ConvertOp op) {
  const RegisterLayout &from = *e.getLayout(op, op.getSource().getType());
  const RegisterLayout &to = *e.getLayout(op, op.getResult().getType());
  layout::Conversion conversion = layout::convert(from, to);
  Values source = e.getElements(op.getSource()), result;
  if (conversion.kind == layout::Conversion::Kind::Registers) {
    for (int reg : conversion.sourceRegister)
      result.push_back(source[reg]);
    e.setElements(op.getResult(), result);
    return success();
  }

  if (op.getScratch()) {
    auto type = cast<SharedType>(op.getScratch().getType());
    auto tile = cast<RankedTensorType>(op.getSource().getType());
    if (type.getShape() != tile.getShape() || type.getElementType() != tile.getElementType())
      return op.emitError()
             << "scratch memory must have the shape and elements of the tile, but got " << type;
    Value buffer = e.getScalar(op.getScratch());
    if (failed(e.beginExchange(op, /*usesScratch=*/false)))
      return failure();
    if (failed(e.writeShared(op, op.getSource(), buffer, type, /*exchanged=*/false)))
      return failure();
    e.barrier();
    if (failed(e.readShared(op, buffer, type, /*exchanged=*/false, op.getResult())))
      return failure();
    e.barrier();
    return success();
  }
  if (conversion.kind != layout::Conversion::Kind::Shuffle)
    return op.emitError() << "elements change warps, for which the conversion needs scratch memory "
                             "(through)";

  // Lane l takes from lane other(l); where lanes take different registers, one shuffle for each.
  for (int reg = 0; reg < to.registersPerThread(); ++reg) {
    std::map<int, uint32_t> lanesOf;
    std::array<int, layout::kLanes> other;
    bool isUniform = true;
    for (int l = 0; l < layout::kLanes; ++l) {
      layout::Owner owner = layout::shuffleSource(from, to, 0, l, reg);
      other[l] = owner.lane;
      lanesOf[owner.reg] |= uint32_t(1) << l;
      for (int w = 1; w < e.numWarps; ++w) {
        layout::Owner same = layout::shuffleSource(from, to, w, l, reg);
        isUniform &= same.lane == owner.lane && same.reg == owner.reg;
      }
    }
    Value lanes = isUniform ? e.threadNumber([&](int, int l) { return other[l]; }, {}) : Value();
    if (!lanes)
      return op.emitError() << "this conversion needs scratch memory (through)";
    Value value;
    for (auto [sourceReg, mask] : lanesOf) {
      Value moved = e.shuffle("idx", source[sourceReg], lanes);
      if (!value) {
        value = moved;
        continue;
      }
      Value bit = arith::AndIOp::create(
          e.b, arith::ShRUIOp::create(e.b, e.i32(int32_t(mask)), e.lane), e.i32(1));
      Value takes = arith::CmpIOp::create(e.b, arith::CmpIPredicate::ne, bit, e.i32(0));
      value = arith::SelectOp::create(e.b, takes, moved, value);
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
  table.add<tile::ReduceOp>(emitReduce);
  table.add<ThreadSumOp>(emitThreadSum);
  table.add<ConvertOp>(emitConvert);
}
