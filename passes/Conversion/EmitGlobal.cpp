// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements of views in global memory, and tiles between them and registers.
//
// An access of a tile is written twice: in vectors, taken where strides, pointer and indices allow
// it (one test for the whole block), and by elements. Each access carries its own predicate, so
// there are no further branches.

#include "passes/Conversion/KernelEmitter.h"

#include "passes/Conversion/LoweringTable.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;
using ViewRegion = KernelEmitter::ViewRegion;

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

  // Each word initially holds the padding.
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

static void storeGlobal(KernelEmitter &e, Value address, Value inside, ArrayRef<Value> elements) {
  Type element = elements.front().getType();
  unsigned bits = std::max(8u, element.getIntOrFloatBitWidth());
  AsmShape shape = getAsmShape(bits, elements.size());
  Type word = e.b.getIntegerType(shape.wordBits);
  Values words;
  if (bits == 8 && elements.size() == 1) {
    words.push_back(arith::ExtUIOp::create(e.b, word, elements[0]));
  } else {
    unsigned perWord = shape.wordBits / bits;
    for (size_t i = 0; i < elements.size(); i += perWord)
      words.push_back(
          e.bitcast(perWord == 1 ? elements[i] : e.vectorOf(elements.slice(i, perWord)), word));
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
  e.inlineAsm(text, constraints + ",~{memory}", nullptr, operands);
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

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

void KernelEmitter::forEachRun(const ViewRegion &region, const RegisterLayout &layout,
                               int64_t vector, Value condition,
                               llvm::function_ref<void(int, Value, Value)> access,
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
  // The thread's row is added before the index is widened and multiplied: this takes one product,
  // and no value that would stay live across loops between accesses.
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

static LogicalResult emitStore(KernelEmitter &e, StoreOp op) {
  const RegisterLayout &layout = *e.getLayout(op, op.getValue().getType());
  ViewRegion region =
      e.getRegion(op.getView(), op.getIndices(), op.getStaticIndices(), op.getDims(),
                  cast<RankedTensorType>(op.getValue().getType()).getShape());
  Values elements = e.getElements(op.getValue());
  Value condition = e.conjunction(region.inside, e.isCanonicalThread(layout));
  auto storeAll = [&](int64_t vector) {
    e.forEachRun(region, layout, vector, condition, [&](int reg, Value address, Value inside) {
      if (KernelEmitter::isCanonicalRegister(layout, reg))
        storeGlobal(e, address, inside, ArrayRef(elements).slice(reg, vector));
    });
  };
  int64_t vector =
      elements.front().getType().isInteger(1) ? 1 : e.globalVector(layout, region.view.bytes);
  if (vector == 1) {
    storeAll(1);
    return success();
  }
  auto branch = scf::IfOp::create(e.b, TypeRange(), e.isVectorisable(region, vector),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(e.b);
  for (auto [block, length] :
       {std::pair(branch.thenBlock(), vector), std::pair(branch.elseBlock(), int64_t(1))}) {
    e.b.setInsertionPointToEnd(block);
    storeAll(length);
    scf::YieldOp::create(e.b);
  }
  return success();
}

void tgpu::registerGlobalLowerings(LoweringTable &table) { table.add<StoreOp>(emitStore); }
