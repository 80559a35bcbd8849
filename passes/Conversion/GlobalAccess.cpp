// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views, regions that tiles cover, their alignment, and accesses to runs. Each access has a
// separate predicate.

#include "passes/Conversion/GlobalAccess.h"

#include "dialect/Tile/TileExpr.h"
#include "passes/Conversion/ThreadCoords.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

namespace {
/// By the view and the number of elements.
struct AlignedTests : llvm::DenseMap<std::pair<Value, int64_t>, Value> {};
} // namespace

View tgpu::getView(KernelEmitter &e, Value value) {
  return getView(e, cast<tile::ViewType>(value.getType()), e.get(value));
}

View tgpu::getView(KernelEmitter &e, tile::ViewType type, ArrayRef<Value> list) {
  size_t rank = type.getRank();
  return {list[0], Values(list.slice(1, rank)), Values(list.slice(1 + rank, rank)),
          e.getScalarType(type.getElementType()), getElementBits(type.getElementType()) / 8};
}

Values tgpu::getIndices(KernelEmitter &e, OperandRange indices, ArrayRef<int64_t> staticIndices) {
  Values list;
  size_t dynamic = 0;
  for (int64_t known : staticIndices)
    list.push_back(ShapedType::isDynamic(known) ? e.getScalar(indices[dynamic++]) : e.b.i32(known));
  return list;
}

ElementPlace tgpu::getElementPlace(ThreadBuilder &b, const View &view, ArrayRef<Value> indices,
                                   Value condition) {
  Value inside = condition, offset = b.i64(0);
  for (auto [index, extent, stride] : llvm::zip(indices, view.extents, view.strides)) {
    inside = b.conjunction(inside, b.less(index, extent));
    offset = b.add(offset, b.mul(b.toI64(index), stride));
  }
  return {b.advance(view.base, b.mul(offset, b.i64(view.bytes))), inside};
}

Value tgpu::clampPart(ThreadBuilder &b, Value offset, Value asked, Value extent) {
  Value left = arith::SubIOp::create(b, extent, offset);
  Value size = arith::MinSIOp::create(b, left, asked);
  // An offset from an array of indices may have any value, including negative ones.
  Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::sge, offset, b.i32(0));
  return arith::SelectOp::create(b, isInside, arith::MaxSIOp::create(b, size, b.i32(0)), b.i32(0));
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

/// A view that repeats elements of another has the alignment of the other, along dimensions that do
/// not repeat; a part of an argument has that of the argument, all of whose strides count.
static Value getRoot(KernelEmitter &e, Value view) {
  while (auto repeat = view.getDefiningOp<tile::RepeatOp>())
    view = repeat.getSource();
  if (auto paged = view.getDefiningOp<tile::PagedOp>())
    return paged.getPool();
  if (BlockArgument argument = getAlignedArgument(e.kernel, view))
    return argument;
  return isa<BlockArgument>(view) || view.getDefiningOp<tile::CapturedOp>() ? view : Value();
}

ViewRegion tgpu::getRegion(KernelEmitter &e, Value viewValue, OperandRange indices,
                           ArrayRef<int64_t> staticIndices, std::optional<ArrayRef<int64_t>> dims,
                           ArrayRef<int64_t> tileShape) {
  ThreadBuilder &b = e.b;
  ViewRegion region;
  region.view = getView(e, viewValue);
  region.shape.assign(tileShape.begin(), tileShape.end());
  int64_t tileRank = static_cast<int64_t>(tileShape.size());
  const View &view = region.view;
  int64_t rank = static_cast<int64_t>(view.extents.size());
  SmallVector<int64_t> along;
  for (int64_t i = 0; i < tileRank; ++i)
    along.push_back(dims ? (*dims)[i] : rank - tileRank + i);

  Values index = getIndices(e, indices, staticIndices);
  Value offset = b.i64(0), outer = b.i64(0);
  for (int64_t d = 0; d < rank; ++d) {
    if (llvm::is_contained(along, d)) {
      offset = b.add(offset, b.mul(b.toI64(index[d]), view.strides[d]));
      continue;
    }
    // A negative index is outside the view, so the sign may be dropped.
    Value part = b.mul(b.toU64(index[d]), view.strides[d]);
    offset = b.add(offset, part);
    outer = b.add(outer, part);
    region.inside = b.conjunction(region.inside, b.less(index[d], view.extents[d]));
  }
  region.outer = b.advance(view.base, b.mul(outer, b.i64(view.bytes)));
  region.origin = b.advance(view.base, b.mul(offset, b.i64(view.bytes)));
  region.viewValue = viewValue;
  region.root = getRoot(e, viewValue);
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

bool tgpu::isKnownAligned(KernelEmitter &e, Value viewValue, int64_t vector) {
  int64_t alignment = e.getAlignment(viewValue);
  if (alignment == 0)
    return false;
  auto type = cast<tile::ViewType>(viewValue.getType());
  int64_t extent = type.getShape().back();
  int64_t bytes = getElementBits(type.getElementType()) / 8;
  bool endsEvenly = vector == 1 || (!ShapedType::isDynamic(extent) && extent % vector == 0);
  return endsEvenly && alignment % (vector * bytes) == 0;
}

/// The part that depends only on an argument of the kernel; for loops, computed at entry.
static Value isAlignedView(KernelEmitter &e, const View &view, Value viewValue, int64_t vector) {
  ThreadBuilder &b = e.b;
  if (isKnownAligned(e, viewValue, vector))
    return b.constant(b.getBoolAttr(true));
  // In a role, entry means the entry of the role. Outside of loops nothing is gained by computing
  // it there, and after loops it would occupy a register across them.
  Value notShared;
  Operation *around = b.getInsertionBlock()->getParentOp();
  bool isInLoop =
      isa<LoopLikeOpInterface>(around) || around->getParentOfType<LoopLikeOpInterface>();
  Value &known = e.role || !isInLoop ? notShared : e.state<AlignedTests>()[{viewValue, vector}];
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(b);
  if (isInLoop)
    b.setInsertionPoint(b.threads.endOfEntry);
  auto is = [&](arith::CmpIPredicate predicate, Value value, Value wanted) {
    return arith::CmpIOp::create(b, predicate, value, wanted).getResult();
  };
  Value bits = LLVM::PtrToIntOp::create(b, b.getI64Type(), view.base);
  for (auto [stride, extent] :
       llvm::zip_equal(ArrayRef(view.strides).drop_back(), ArrayRef(view.extents).drop_back())) {
    // The stride of a dimension with one index is never used.
    Value zero = b.i64(0), bytes = b.mul(stride, b.i64(view.bytes));
    Value isUsed = is(arith::CmpIPredicate::sgt, extent, b.i32(1));
    bits = arith::OrIOp::create(b, bits, arith::SelectOp::create(b, isUsed, bytes, zero));
  }
  bits = arith::AndIOp::create(b, bits, b.i64(vector * view.bytes - 1));
  Value end = arith::AndIOp::create(b, view.extents.back(), b.i32(vector - 1));
  Value endsAligned = b.equal(end, b.i32(0));
  Value isAligned = b.conjunction(b.equal(bits, b.i64(0)), endsAligned);
  known = b.conjunction(b.equal(view.strides.back(), b.i64(1)), isAligned);
  return known;
}

Value tgpu::isWhole(ThreadBuilder &b, const ViewRegion &region) {
  Value whole = region.inside ? region.inside : b.constant(b.getBoolAttr(true));
  for (auto [index, extent, size] : llvm::zip_equal(region.index, region.extent, region.shape)) {
    Value last = b.add(index, b.i32(size - 1));
    Value endsInside = b.less(last, extent);
    whole = b.conjunction(whole, b.conjunction(b.less(index, extent), endsInside));
  }
  return whole;
}

Value tgpu::isVectorizable(KernelEmitter &e, const ViewRegion &region, int64_t vector) {
  ThreadBuilder &b = e.b;
  // Most of it depends only on an argument, and is loop-invariant.
  if (region.root && region.runsAlongLast) {
    Value begin = arith::AndIOp::create(b, region.index.back(), b.i32(vector - 1));
    Value beginsAligned = b.equal(begin, b.i32(0));
    Value isAligned = b.conjunction(isAlignedView(e, getView(e, region.root), region.root, vector),
                                    beginsAligned);
    // A view that repeats elements may repeat along the last dimension; a part of an argument does
    // not.
    bool hasStrideOfRoot =
        region.root == region.viewValue || getAlignedArgument(e.kernel, region.viewValue);
    return hasStrideOfRoot ? isAligned
                           : b.conjunction(isAligned, b.equal(region.stride.back(), b.i64(1)));
  }
  Value bits = LLVM::PtrToIntOp::create(b, b.getI64Type(), region.origin);
  for (Value stride : ArrayRef(region.stride).drop_back())
    bits = arith::OrIOp::create(b, bits, b.mul(stride, b.i64(region.view.bytes)));
  bits = arith::AndIOp::create(b, bits, b.i64(vector * region.view.bytes - 1));
  // Runs then begin at multiples of their length, and the view ends at one.
  Value ends = arith::OrIOp::create(b, region.index.back(), region.extent.back());
  ends = arith::AndIOp::create(b, ends, b.i32(vector - 1));
  Value endsAligned = b.equal(ends, b.i32(0));
  Value isAligned = b.conjunction(b.equal(bits, b.i64(0)), endsAligned);
  return b.conjunction(b.equal(region.stride.back(), b.i64(1)), isAligned);
}

//===----------------------------------------------------------------------===//
// One run of elements
//===----------------------------------------------------------------------===//

namespace {
/// The PTX notation of the registers of an access of `bits` in total.
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

/// {$0, $1}, without braces for a single one.
static std::string wordList(unsigned first, unsigned count) {
  return count > 1 ? "{" + operandList(first, count) + "}" : operandList(first, count);
}

Values tgpu::loadGlobal(ThreadBuilder &b, Value address, Value inside, Type element, int64_t count,
                        Value pad) {
  bool isFlag = element.isInteger(1);
  Type memory = isFlag ? b.getI8Type() : element;
  unsigned elementBits = memory.getIntOrFloatBitWidth();
  AsmShape shape = getAsmShape(elementBits, count);
  Type word = b.getIntegerType(shape.wordBits);

  // Each word initially holds the padding.
  Value padWord = b.zero(word);
  if (pad && !(isFlag)) {
    unsigned perWord = shape.wordBits / elementBits;
    Values copies(std::max(1u, perWord), pad);
    if (elementBits == 8)
      padWord = arith::ExtUIOp::create(b, word, b.bitcast(pad, memory));
    else
      padWord = b.bitcast(copies.size() == 1 ? pad : b.vectorOf(copies), word);
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
  text += "@$" + std::to_string(n + 1) + " ld.global" + shape.suffix + " " + wordList(0, n) +
          ", [$" + std::to_string(n) + "];";
  constraints += ("l,b," + shape.constraint + ",~{memory}").str();
  if (!inside)
    inside = b.constant(b.getBoolAttr(true));
  SmallVector<Type> words(n, word);
  Type result = n == 1 ? word : LLVM::LLVMStructType::getLiteral(b.getContext(), words);
  Value loaded = b.inlineAsm(text, constraints, result, {address, inside, padWord});

  Values list;
  for (unsigned i = 0; i < n; ++i)
    list.push_back(n == 1 ? loaded : b.extract(loaded, i));
  if (isFlag)
    return {b.notEqual(list[0], b.zero(word))};
  if (elementBits == 8 && count == 1)
    return {arith::TruncIOp::create(b, memory, list[0]).getResult()};
  return b.unpackWords(list, element);
}

void tgpu::storeGlobal(ThreadBuilder &b, Value address, Value inside, ArrayRef<Value> elements) {
  Type element = elements.front().getType();
  unsigned bits = std::max(8u, element.getIntOrFloatBitWidth());
  AsmShape shape = getAsmShape(bits, elements.size());
  Values words;
  if (bits == 8 && elements.size() == 1)
    words.push_back(arith::ExtUIOp::create(b, b.getIntegerType(shape.wordBits), elements[0]));
  else
    words = b.packWords(elements, shape.wordBits);
  unsigned n = shape.numWords;
  std::string text = "st.global" + shape.suffix + " [$0], " + wordList(1, n) + ";";
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
  b.inlineAsm(text, constraints + ",~{memory}", nullptr, operands);
}

//===----------------------------------------------------------------------===//
// Runs of a tile
//===----------------------------------------------------------------------===//

/// The longest run of registers that is consecutive along the last dimension, starts at a multiple
/// of its length in every thread, and is no wider than 16 bytes.
int64_t tgpu::getRunLength(const RegisterLayout &layout, int64_t bytes) {
  int last = layout.rank() - 1;
  int64_t vector = 1;
  while (layout.vectorLength(last) % (2 * vector) == 0 && 2 * vector * bytes <= 16)
    vector *= 2;
  auto isAligned = [&] {
    for (int w = 0; w < layout.numWarps(); ++w)
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

void tgpu::forEachRun(ThreadBuilder &b, const ViewRegion &region, const RegisterLayout &layout,
                      int64_t vector, Value condition,
                      llvm::function_ref<void(int, Value, Value)> access,
                      std::optional<size_t> unit, bool isInside) {
  int rank = layout.rank();
  size_t last = region.shape.size() - 1;
  if (vector > 1)
    unit = last;
  // Registers share most of their coordinates: addresses and bounds are computed once for each.
  struct Part {
    Value offset, inside;
  };
  llvm::DenseMap<int64_t, Part> parts[2];
  // Dimensions whose offset is not the sum of a thread part and a register part.
  auto isSplit = [&](int d) { return (d == 0 && last > 1) || d == region.gathered; };
  // The thread's row is added before the index is widened and multiplied: this takes one
  // product, and no value that would stay live across loops between accesses.
  Values start = region.index;
  for (int d = 0; d < rank; ++d)
    if (!isSplit(d)) {
      Value &index = start[d == rank - 1 ? last : 0];
      index = b.add(index, getThreadCoord(b, layout, d));
    }
  Value base = region.outer;
  for (auto [dim, index] : llvm::enumerate(start)) {
    Value offset = b.toI64(index);
    base = b.advance(base, b.mul(dim == unit ? offset : b.mul(offset, region.stride[dim]),
                                 b.i64(region.view.bytes)));
  }
  auto getPart = [&](int d, int64_t at, int reg) {
    Part &part = parts[d][at];
    if (part.offset)
      return part;
    size_t dim = d == rank - 1 ? last : 0;
    bool isUnit = dim == unit;
    Value coordinate = b.add(getThreadCoord(b, layout, d), b.i32(at));
    if (!isSplit(d)) {
      part.offset = b.mul(isUnit ? b.i64(at) : b.mul(b.i64(at), region.stride[dim]),
                          b.i64(region.view.bytes));
      if (!isInside)
        part.inside = b.less(b.add(region.index[dim], coordinate), region.extent[dim]);
      return part;
    }
    Values indices;
    if (d == region.gathered) {
      indices.resize(dim);
      indices.push_back(region.gatheredAt[reg]);
    } else {
      indices = splitRow(b, coordinate, region.shape);
    }
    part.offset = b.i64(0);
    for (auto [i, index] : llvm::enumerate(indices)) {
      if (!index)
        continue;
      part.offset = b.add(part.offset, b.mul(b.toI64(index), region.stride[i]));
      if (!isInside)
        part.inside =
            b.conjunction(part.inside, b.less(b.add(region.index[i], index), region.extent[i]));
    }
    part.offset = b.mul(part.offset, b.i64(region.view.bytes));
    return part;
  };
  for (int reg = 0; reg < layout.registersPerThread(); reg += static_cast<int>(vector)) {
    Value address = base, inside = condition;
    for (int d = 0; d < rank; ++d) {
      Part part = getPart(d, layout.registerPart(reg)[d], reg);
      address = b.advance(address, part.offset);
      inside = b.conjunction(inside, part.inside);
    }
    access(reg, address, inside);
  }
}

Values tgpu::loadRegion(KernelEmitter &e, const ViewRegion &region, const RegisterLayout &layout,
                        Value pad) {
  ThreadBuilder &b = e.b;
  Type element = region.view.element;
  auto loadAll = [&](int64_t vector) {
    Values elements;
    forEachRun(b, region, layout, vector, region.inside, [&](int, Value address, Value inside) {
      llvm::append_range(elements, loadGlobal(b, address, inside, element, vector, pad));
    });
    return elements;
  };
  bool isGatheredAlongRuns = region.gathered == layout.rank() - 1;
  int64_t vector =
      element.isInteger(1) || isGatheredAlongRuns ? 1 : getRunLength(layout, region.view.bytes);
  if (vector == 1)
    return loadAll(1);
  // LLVM would divide words into the bytes that leave a branch, which takes two instructions each.
  constexpr int64_t bytesOfWord = 4;
  bool isOfWords = element.getIntOrFloatBitWidth() == 8 && vector % bytesOfWord == 0;
  auto wordsOf = [&](Values elements) {
    if (!isOfWords)
      return elements;
    Values words;
    for (ArrayRef<Value> rest = elements; !rest.empty(); rest = rest.drop_front(bytesOfWord))
      words.push_back(b.bitcast(b.vectorOf(rest.take_front(bytesOfWord)), b.getI32Type()));
    return words;
  };
  int64_t count = layout.registersPerThread() / (isOfWords ? bytesOfWord : 1);
  SmallVector<Type> types(count, isOfWords ? b.getI32Type() : element);
  auto branch = scf::IfOp::create(b, types, isVectorizable(e, region, vector),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.thenBlock());
    scf::YieldOp::create(b, wordsOf(loadAll(vector)));
    b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b, wordsOf(loadAll(1)));
  }
  Values results(branch.getResults());
  if (!isOfWords)
    return results;
  Values elements;
  for (Value word : results) {
    Value bytes = b.bitcast(word, VectorType::get(bytesOfWord, element));
    for (int64_t i = 0; i < bytesOfWord; ++i)
      elements.push_back(b.extract(bytes, i));
  }
  return elements;
}
