// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views in global memory: their extents, single elements, and tiles between them and registers.
//
// An access of a tile is written twice: in vectors, taken where strides, pointer and indices allow
// it (one test for the whole block), and by elements. Each access carries its own predicate, so
// there are no further branches.

#include "passes/Conversion/KernelEmitter.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

KernelEmitter::View KernelEmitter::getView(Value value) {
  auto type = cast<tile::ViewType>(value.getType());
  ArrayRef<Value> list = get(value);
  size_t rank = type.getRank();
  View view{list[0], Values(list.slice(1, rank)), Values(list.slice(1 + rank, rank)),
            getScalarType(type.getElementType()), getElementBits(type.getElementType()) / 8};
  return view;
}

LogicalResult KernelEmitter::emitDim(tile::DimOp op) {
  set(op.getResult(), {getView(op.getView()).extents[op.getDim()]});
  return success();
}

LogicalResult KernelEmitter::emitSubview(tile::SubviewOp op) {
  View view = getView(op.getSource());
  int64_t dim = op.getDim();
  Value offset = getScalar(op.getOffset());
  Value bytes = mul(mul(toI64(offset), view.strides[dim]), i64(view.bytes));
  // What is left of the source beyond the offset, and no more than asked for; neither below 0.
  Value left = arith::SubIOp::create(b, view.extents[dim], offset);
  Value size = arith::MinSIOp::create(b, left, getScalar(op.getSize()));
  Values list = get(op.getSource());
  list[0] = advance(view.base, bytes);
  list[1 + dim] = arith::MaxSIOp::create(b, size, i32(0));
  set(op.getResult(), list);
  return success();
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
// One run of elements
//===----------------------------------------------------------------------===//

namespace {
/// How the registers of an access of `bits` in all are written in PTX.
struct AsmShape {
  unsigned wordBits, numWords;
  std::string suffix;   ///< .v4.b32
  StringRef constraint; ///< r
};
} // namespace

/// Words are at least as wide as elements.
static AsmShape getAsmShape(unsigned elementBits, size_t count) {
  unsigned bits = elementBits * static_cast<unsigned>(count);
  unsigned wordBits = elementBits == 64 || bits == 64 ? 64 : bits >= 32 ? 32 : 16;
  unsigned numWords = std::max(1u, bits / wordBits);
  std::string suffix = numWords > 1 ? ".v" + std::to_string(numWords) : "";
  suffix += ".b" + std::to_string(std::min(bits, wordBits));
  return {wordBits, numWords, suffix, wordBits == 64 ? "l" : wordBits == 32 ? "r" : "h"};
}

/// {$0, $1} from operand `first` on.
static std::string operandList(unsigned first, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return count > 1 ? "{" + text + "}" : text;
}

Values KernelEmitter::loadGlobal(Value address, Value inside, Type element, int64_t count,
                                 Value pad) {
  bool isFlag = element.isInteger(1);
  Type memory = isFlag ? b.getI8Type() : element;
  unsigned elementBits = memory.getIntOrFloatBitWidth();
  AsmShape shape = getAsmShape(elementBits, count);
  Type word = b.getIntegerType(shape.wordBits);

  // Every word begins as pads.
  Value padWord = zero(word);
  if (pad && !(isFlag)) {
    unsigned perWord = shape.wordBits / elementBits;
    Values copies(std::max(1u, perWord), pad);
    if (elementBits == 8)
      padWord = arith::ExtUIOp::create(b, word, bitcast(pad, memory));
    else
      padWord = bitcast(copies.size() == 1 ? pad : vectorOf(copies), word);
  } else if (pad) {
    padWord = arith::ExtUIOp::create(b, word, pad);
  }

  std::string text, constraints;
  unsigned n = shape.numWords;
  std::string type = ".b" + std::to_string(shape.wordBits);
  for (unsigned i = 0; i < n; ++i) {
    text += "mov" + type + " $" + std::to_string(i) + ", $" + std::to_string(n + 2) + "; ";
    constraints += ("=&" + shape.constraint + ",").str();
  }
  text += "@$" + std::to_string(n + 1) + " ld.global" + shape.suffix + " " + operandList(0, n) +
          ", [$" + std::to_string(n) + "];";
  constraints += ("l,b," + shape.constraint + ",~{memory}").str();
  if (!inside)
    inside = constant(b.getBoolAttr(true));
  SmallVector<Type> words(n, word);
  Type result = n == 1 ? word : LLVM::LLVMStructType::getLiteral(b.getContext(), words);
  Value loaded = inlineAsm(text, constraints, result, {address, inside, padWord});

  Values list;
  for (unsigned i = 0; i < n; ++i)
    list.push_back(n == 1 ? loaded : extract(loaded, i));
  if (isFlag)
    return {arith::CmpIOp::create(b, arith::CmpIPredicate::ne, list[0], zero(word)).getResult()};
  if (elementBits == 8 && count == 1)
    return {arith::TruncIOp::create(b, memory, list[0]).getResult()};
  if (elementBits == shape.wordBits) {
    for (Value &value : list)
      value = bitcast(value, element);
    return list;
  }
  Values elements;
  for (Value value : list) {
    unsigned perWord = shape.wordBits / elementBits;
    Value vector = bitcast(value, VectorType::get(perWord, element));
    for (unsigned i = 0; i < perWord; ++i)
      elements.push_back(extract(vector, i));
  }
  return elements;
}

void KernelEmitter::storeGlobal(Value address, Value inside, ArrayRef<Value> elements) {
  Type element = elements.front().getType();
  unsigned bits = std::max(8u, element.getIntOrFloatBitWidth());
  AsmShape shape = getAsmShape(bits, elements.size());
  Type word = b.getIntegerType(shape.wordBits);
  Values words;
  if (bits == 8 && elements.size() == 1) {
    words.push_back(arith::ExtUIOp::create(b, word, elements[0]));
  } else {
    unsigned perWord = shape.wordBits / bits;
    for (size_t i = 0; i < elements.size(); i += perWord)
      words.push_back(
          bitcast(perWord == 1 ? elements[i] : vectorOf(elements.slice(i, perWord)), word));
  }
  unsigned n = shape.numWords;
  std::string text = "st.global" + shape.suffix + " [$0], " + operandList(1, n) + ";";
  std::string constraints = "l";
  for (unsigned i = 0; i < n; ++i)
    constraints += ("," + shape.constraint).str();
  Values operands{address};
  llvm::append_range(operands, words);
  if (inside) {
    text = "@$" + std::to_string(n + 1) + " " + text;
    constraints += ",b";
    operands.push_back(inside);
  }
  inlineAsm(text, constraints + ",~{memory}", nullptr, operands);
}

//===----------------------------------------------------------------------===//
// Tiles
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
  region.isArgument = isa<BlockArgument>(viewValue);
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
    Value bytes = arith::SelectOp::create(b, is(arith::CmpIPredicate::sgt, extent, i32(1)),
                                          mul(stride, i64(view.bytes)), i64(0));
    bits = arith::OrIOp::create(b, bits, bytes);
  }
  bits = arith::AndIOp::create(b, bits, i64(vector * view.bytes - 1));
  Value end = arith::AndIOp::create(b, view.extents.back(), i32(vector - 1));
  known = conjunction(is(arith::CmpIPredicate::eq, view.strides.back(), i64(1)),
                      conjunction(is(arith::CmpIPredicate::eq, bits, i64(0)),
                                  is(arith::CmpIPredicate::eq, end, i32(0))));
  return known;
}

Value KernelEmitter::isWhole(const Region &region) {
  Value whole = region.inside ? region.inside : constant(b.getBoolAttr(true));
  for (auto [index, extent, size] : llvm::zip_equal(region.index, region.extent, region.shape)) {
    Value last = add(index, i32(size - 1));
    whole = conjunction(whole, conjunction(less(index, extent), less(last, extent)));
  }
  return whole;
}

Value KernelEmitter::isVectorisable(const Region &region, int64_t vector) {
  auto is = [&](Value value, Value wanted) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, wanted).getResult();
  };
  // Of an argument most is known before any loop.
  if (region.isArgument && region.runsAlongLast) {
    Value begin = arith::AndIOp::create(b, region.index.back(), i32(vector - 1));
    return conjunction(isAlignedView(region.view, region.viewValue, vector), is(begin, i32(0)));
  }
  Value bits = LLVM::PtrToIntOp::create(b, b.getI64Type(), region.origin);
  for (Value stride : ArrayRef(region.stride).drop_back())
    bits = arith::OrIOp::create(b, bits, mul(stride, i64(region.view.bytes)));
  bits = arith::AndIOp::create(b, bits, i64(vector * region.view.bytes - 1));
  // Runs then begin at multiples of their length, and the view ends at one.
  Value ends = arith::OrIOp::create(b, region.index.back(), region.extent.back());
  ends = arith::AndIOp::create(b, ends, i32(vector - 1));
  return conjunction(is(region.stride.back(), i64(1)),
                     conjunction(is(bits, i64(0)), is(ends, i32(0))));
}

/// The longest run of registers that is consecutive along the last dimension, starts at a multiple
/// of its length in every thread, and is no wider than 16 bytes.
int64_t KernelEmitter::globalVector(const RegisterLayout &layout, int64_t bytes) {
  int last = layout.rank() - 1;
  int64_t vector = 1;
  while (layout.vectorLength(last) % (2 * vector) == 0 && 2 * vector * bytes <= 16)
    vector *= 2;
  auto isAligned = [&] {
    for (int w = 0; w < numWarps; ++w)
      for (int l = 0; l < layout::kLanes; ++l)
        if ((layout.warpPart(w)[last] + layout.lanePart(l)[last]) % vector != 0)
          return false;
    for (int reg = 0; reg < layout.registersPerThread(); reg += vector)
      if (layout.registerPart(reg)[last] % vector != 0)
        return false;
    return true;
  };
  while (vector > 1 && !isAligned())
    vector /= 2;
  return vector;
}

void KernelEmitter::forEachRun(const Region &region, const RegisterLayout &layout, int64_t vector,
                               Value condition, llvm::function_ref<void(int, Value, Value)> access,
                               std::optional<size_t> unit, bool isInside) {
  int rank = layout.rank();
  size_t last = region.shape.size() - 1;
  if (vector > 1)
    unit = last;
  // Registers share most of their coordinates: addresses and bounds are made once for each.
  struct Part {
    Value offset, inside;
  };
  llvm::DenseMap<int64_t, Part> parts[2];
  // Dimensions whose offset is not that of the thread plus that of the register.
  auto isSplit = [&](int d) { return (d == 0 && last > 1) || d == region.gathered; };
  // The thread's row is added before it is widened and multiplied: one product, and nothing that a
  // loop between this access and another would have to keep.
  Values start = region.index;
  for (int d = 0; d < rank; ++d)
    if (!isSplit(d)) {
      Value &index = start[d == rank - 1 ? last : 0];
      index = add(index, threadCoord(layout, d));
    }
  Value base = region.outer;
  for (auto [dim, index] : llvm::enumerate(start)) {
    Value offset = toI64(index);
    base = advance(
        base, mul(dim == unit ? offset : mul(offset, region.stride[dim]), i64(region.view.bytes)));
  }
  auto getPart = [&](int d, int64_t at, int reg) {
    Part &part = parts[d][at];
    if (part.offset)
      return part;
    size_t dim = d == rank - 1 ? last : 0;
    bool isUnit = dim == unit;
    Value coordinate = add(threadCoord(layout, d), i32(at));
    if (!isSplit(d)) {
      part.offset =
          mul(isUnit ? i64(at) : mul(i64(at), region.stride[dim]), i64(region.view.bytes));
      if (!isInside)
        part.inside = less(add(region.index[dim], coordinate), region.extent[dim]);
      return part;
    }
    Values indices;
    if (d == region.gathered) {
      indices.resize(dim);
      indices.push_back(region.gatheredAt[reg]);
    } else {
      indices = splitRow(coordinate, region.shape);
    }
    part.offset = i64(0);
    for (auto [i, index] : llvm::enumerate(indices)) {
      if (!index)
        continue;
      part.offset = add(part.offset, mul(toI64(index), region.stride[i]));
      if (!isInside)
        part.inside = conjunction(part.inside, less(add(region.index[i], index), region.extent[i]));
    }
    part.offset = mul(part.offset, i64(region.view.bytes));
    return part;
  };
  for (int reg = 0; reg < layout.registersPerThread(); reg += static_cast<int>(vector)) {
    Value address = base, inside = condition;
    for (int d = 0; d < rank; ++d) {
      Part part = getPart(d, layout.registerPart(reg)[d], reg);
      address = advance(address, part.offset);
      inside = conjunction(inside, part.inside);
    }
    access(reg, address, inside);
  }
}

LogicalResult KernelEmitter::emitLoad(LoadOp op) {
  const RegisterLayout &layout = *getLayout(op, op.getResult().getType());
  Region region = getRegion(op.getView(), op.getIndices(), op.getStaticIndices(), op.getDims(),
                            cast<RankedTensorType>(op.getResult().getType()).getShape());
  Value pad = op.getPad() ? getScalar(op.getPad()) : Value();
  Type element = region.view.element;
  auto loadAll = [&](int64_t vector) {
    Values elements;
    forEachRun(region, layout, vector, region.inside, [&](int, Value address, Value inside) {
      llvm::append_range(elements, loadGlobal(address, inside, element, vector, pad));
    });
    return elements;
  };
  int64_t vector = element.isInteger(1) ? 1 : globalVector(layout, region.view.bytes);
  if (vector == 1) {
    setElements(op.getResult(), loadAll(1));
    return success();
  }
  auto branch = scf::IfOp::create(b, SmallVector<Type>(layout.registersPerThread(), element),
                                  isVectorisable(region, vector),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.thenBlock());
    scf::YieldOp::create(b, loadAll(vector));
    b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b, loadAll(1));
  }
  setElements(op.getResult(), llvm::to_vector(ValueRange(branch.getResults())));
  return success();
}

LogicalResult KernelEmitter::emitStore(StoreOp op) {
  const RegisterLayout &layout = *getLayout(op, op.getValue().getType());
  Region region = getRegion(op.getView(), op.getIndices(), op.getStaticIndices(), op.getDims(),
                            cast<RankedTensorType>(op.getValue().getType()).getShape());
  Values elements = getElements(op.getValue());
  Value condition = conjunction(region.inside, isCanonicalThread(layout));
  auto storeAll = [&](int64_t vector) {
    forEachRun(region, layout, vector, condition, [&](int reg, Value address, Value inside) {
      if (isCanonicalRegister(layout, reg))
        storeGlobal(address, inside, ArrayRef(elements).slice(reg, vector));
    });
  };
  int64_t vector =
      elements.front().getType().isInteger(1) ? 1 : globalVector(layout, region.view.bytes);
  if (vector == 1) {
    storeAll(1);
    return success();
  }
  auto branch = scf::IfOp::create(b, TypeRange(), isVectorisable(region, vector),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  for (auto [block, length] :
       {std::pair(branch.thenBlock(), vector), std::pair(branch.elseBlock(), int64_t(1))}) {
    b.setInsertionPointToEnd(block);
    storeAll(length);
    scf::YieldOp::create(b);
  }
  return success();
}
