// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between element types, reductions, shuffles. 8-bit floats are stored as bytes. To
// them, integer arithmetic converts, since the instructions saturate; from them, instructions do
// where the GPU has these.

#include "passes/Conversion/ElementOps.h"

#include "base/Layout/Relations.h"

#include "mlir/IR/Matchers.h"

#include <cmath>
#include <string>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/// To f16, which holds every value of either format.
static Value decodeFloat8(ThreadBuilder &b, Value byte, Type type) {
  Type i16 = b.getIntegerType(16), f16 = b.getF16Type();
  auto word = [&](int64_t value) { return b.constant(b.getIntegerAttr(i16, value)); };
  Value wide = arith::ExtUIOp::create(b, i16, byte);
  // An e5m2 is the upper half of an f16.
  if (isa<Float8E5M2Type>(type))
    return b.bitcast(arith::ShLIOp::create(b, wide, word(8)), f16);
  // The exponent of an e4m3 is biased by 7, that of an f16 by 15: after the shift, all values are
  // too small by 2^8, including subnormals.
  Value magnitude = arith::AndIOp::create(b, wide, word(0x7f));
  Value sign = arith::ShLIOp::create(b, arith::AndIOp::create(b, wide, word(0x80)), word(8));
  Value moved = arith::OrIOp::create(b, sign, arith::ShLIOp::create(b, magnitude, word(7)));
  Value scaled =
      arith::MulFOp::create(b, b.bitcast(moved, f16), b.constant(b.getFloatAttr(f16, 256.0)));
  Value isNan = b.equal(magnitude, word(0x7f));
  return arith::SelectOp::create(b, isNan, b.bitcast(word(0x7fff), f16), scaled);
}

/// Two at a time, by an instruction of the GPUs that multiply 8-bit floats.
static Values decodeFloat8Pairs(ThreadBuilder &b, ArrayRef<Value> bytes, Type type) {
  StringRef name =
      isa<Float8E5M2Type>(type) ? "llvm.nvvm.e5m2x2.to.f16x2.rn" : "llvm.nvvm.e4m3x2.to.f16x2.rn";
  Values elements;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    Value word = b.bitcast(b.vectorOf(bytes.slice(i, 2)), b.getIntegerType(16));
    Value pair = b.intrinsic(name, VectorType::get(2, b.getF16Type()), word);
    elements.push_back(b.extract(pair, 0));
    elements.push_back(b.extract(pair, 1));
  }
  return elements;
}

/// A word that holds two bytes one after the other, and the place of the first one.
static std::pair<Value, unsigned> getWordOf(ThreadBuilder &b, Value low, Value high) {
  Type i32Type = b.getI32Type();
  auto first = low.getDefiningOp<LLVM::ExtractElementOp>();
  auto second = high.getDefiningOp<LLVM::ExtractElementOp>();
  APInt place, next;
  if (first && second && first.getVector() == second.getVector() &&
      first.getVector().getType() == VectorType::get(4, b.getIntegerType(8)) &&
      matchPattern(first.getPosition(), m_ConstantInt(&place)) &&
      matchPattern(second.getPosition(), m_ConstantInt(&next)) &&
      next.getZExtValue() == place.getZExtValue() + 1)
    return {b.bitcast(first.getVector(), i32Type), unsigned(place.getZExtValue())};
  Value pair = b.bitcast(b.vectorOf({low, high}), b.getIntegerType(16));
  return {arith::ExtUIOp::create(b, i32Type, pair), 0};
}

/// From i8 to f16, exactly, two at a time. With its sign bit flipped, a byte is the number plus
/// 128; as the lower byte of an f16 of 1024, whose last bit is 1, it is that plus 1024. One
/// permutation and one subtraction give two elements, besides the flips of a word.
static Values decodeInt8(ThreadBuilder &b, ArrayRef<Value> bytes) {
  Type i32Type = b.getI32Type(), pairType = VectorType::get(2, b.getF16Type());
  Value offset = b.constant(
      DenseElementsAttr::get(cast<ShapedType>(pairType), b.getFloatAttr(b.getF16Type(), 1152.0)));
  Values elements;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    bool isLast = i + 1 == bytes.size();
    auto [word, place] = getWordOf(b, bytes[i], bytes[isLast ? i : i + 1]);
    Value flipped = arith::XOrIOp::create(b, word, b.i32(int32_t(0x80808080)));
    // The bytes of the second operand are numbers 4 to 7.
    Value selector = b.i32(0x4040 | (place + 1) << 8 | place);
    Value moved =
        b.intrinsic("llvm.nvvm.prmt", i32Type, ValueRange{flipped, b.i32(0x64646464), selector});
    Value pair = arith::SubFOp::create(b, b.bitcast(moved, pairType), offset);
    elements.push_back(b.extract(pair, 0));
    if (!isLast)
      elements.push_back(b.extract(pair, 1));
  }
  return elements;
}

/// From f32: to nearest, ties to even, and to the ends of the range; NaN becomes 0.
static Value encodeInt8(ThreadBuilder &b, Value x) {
  Value most = b.constant(b.getF32FloatAttr(127)), least = b.constant(b.getF32FloatAttr(-128));
  Value inside = arith::MaximumFOp::create(b, arith::MinimumFOp::create(b, x, most), least);
  Value rounded = b.intrinsic("llvm.nvvm.f2i.rn", b.getI32Type(), inside);
  return arith::TruncIOp::create(b, b.getIntegerType(8), rounded);
}

/// From f32: to nearest, ties to even; values that are too large become infinity, in e4m3 NaN.
static Value encodeFloat8(ThreadBuilder &b, Value x, Type type) {
  bool isE5M2 = isa<Float8E5M2Type>(type);
  int64_t fractionBits = isE5M2 ? 2 : 3, bias = isE5M2 ? 15 : 7;
  int64_t dropped = 23 - fractionBits, smallestExponent = 1 - bias;
  Type f32 = b.getF32Type(), i32Type = b.getI32Type();
  Value bits = b.bitcast(x, i32Type);
  Value magnitude = arith::AndIOp::create(b, bits, b.i32(0x7fffffff));
  // Normal: round to the remaining bits; a carry propagates into the exponent.
  Value odd =
      arith::AndIOp::create(b, arith::ShRUIOp::create(b, magnitude, b.i32(dropped)), b.i32(1));
  Value rounded = b.add(b.add(magnitude, b.i32((int64_t(1) << (dropped - 1)) - 1)), odd);
  Value normal = b.add(arith::ShRUIOp::create(b, rounded, b.i32(dropped)),
                       b.i32(-((127 - bias) << fractionBits)));
  // Subnormal: rounded by an addition to a number whose last bit is one unit of the subnormals.
  double unit = std::ldexp(1.0, static_cast<int>(smallestExponent - fractionBits));
  Value magic = b.constant(b.getF32FloatAttr(static_cast<float>(std::ldexp(unit, 23))));
  Value sum = arith::AddFOp::create(b, b.bitcast(magnitude, f32), magic);
  Value magicBits = b.bitcast(magic, i32Type);
  Value subnormal = arith::SubIOp::create(b, b.bitcast(sum, i32Type), magicBits);
  Value isSmall = b.less(magnitude, b.i32((127 + smallestExponent) << 23));
  Value code = arith::SelectOp::create(b, isSmall, subnormal, normal);
  code = arith::MinUIOp::create(b, code, b.i32(isE5M2 ? 0x7c : 0x7f));
  Value isNan = b.less(b.i32(0x7f800000), magnitude);
  code = arith::SelectOp::create(b, isNan, b.i32(0x7f), code);
  Value sign = arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, b.i32(24)), b.i32(0x80));
  return arith::TruncIOp::create(b, b.getIntegerType(8), arith::OrIOp::create(b, code, sign));
}

/// Two at a time, by an instruction that saturates, of the GPUs that multiply 8-bit floats.
static Values encodeFloat8Pairs(ThreadBuilder &b, ArrayRef<Value> source, Type type) {
  StringRef name =
      isa<Float8E5M2Type>(type) ? "llvm.nvvm.ff.to.e5m2x2.rn" : "llvm.nvvm.ff.to.e4m3x2.rn";
  Values elements;
  for (size_t i = 0; i < source.size(); i += 2) {
    Value word = b.intrinsic(name, b.getIntegerType(16), ValueRange{source[i + 1], source[i]});
    Value pair = b.bitcast(word, VectorType::get(2, b.getIntegerType(8)));
    elements.push_back(b.extract(pair, 0));
    elements.push_back(b.extract(pair, 1));
  }
  return elements;
}

/// Limited to the finite values of a type; NaN stays NaN.
static Value saturate(ThreadBuilder &b, Value x, Type type) {
  APFloat largest = APFloat::getLargest(cast<FloatType>(type).getFloatSemantics());
  bool losesInfo;
  largest.convert(cast<FloatType>(x.getType()).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
  Value most = b.constant(b.getFloatAttr(x.getType(), largest));
  Value least = b.constant(b.getFloatAttr(x.getType(), -largest));
  return arith::MaximumFOp::create(b, arith::MinimumFOp::create(b, x, most), least);
}

/// To f32, rounded to odd: a second rounding then gives the same result as a single one.
static Value roundToOdd(ThreadBuilder &b, Value x) {
  Value y = b.intrinsic("llvm.nvvm.d2f.rz", b.getF32Type(), x);
  Value back = arith::ExtFOp::create(b, b.getF64Type(), y);
  Value isInexact = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, back, x);
  Value last = arith::ExtUIOp::create(b, b.getI32Type(), isInexact);
  return b.bitcast(arith::OrIOp::create(b, b.bitcast(y, b.getI32Type()), last), b.getF32Type());
}

/// A 16-bit float as f32. An element of a pair is extracted at this point: ptxas keeps an extracted
/// half in a separate register as long as it is live, a pair in one.
static Value widenHalf(ThreadBuilder &b, Value x) {
  Type f32 = b.getF32Type();
  auto taken = x.getDefiningOp<LLVM::ExtractElementOp>();
  APInt index;
  if (!taken || !matchPattern(taken.getPosition(), m_ConstantInt(&index)) ||
      taken.getVector().getType() != VectorType::get(2, x.getType()))
    return arith::ExtFOp::create(b, f32, x);
  bool isUpper = !index.isZero();
  if (x.getType().isF16())
    return arith::ExtFOp::create(b, f32, b.extract(taken.getVector(), isUpper));
  // A bf16 is the upper half of an f32.
  Value pair = b.bitcast(taken.getVector(), b.getI32Type());
  return b.bitcast(isUpper ? arith::AndIOp::create(b, pair, b.i32(-0x10000)).getResult()
                           : arith::ShLIOp::create(b, pair, b.i32(16)).getResult(),
                   f32);
}

Values tgpu::castElements(ThreadBuilder &b, ArrayRef<Value> source, Type from, Type to,
                          bool hasFloat8, bool saturates) {
  if (saturates && to.isInteger(8)) {
    Values inF32, elements;
    if (from.isF64())
      for (Value x : source)
        inF32.push_back(roundToOdd(b, x));
    else
      inF32 = castElements(b, source, from, b.getF32Type(), hasFloat8);
    for (Value x : inF32)
      elements.push_back(encodeInt8(b, x));
    return elements;
  }
  if (from.isInteger(8) && isa<FloatType>(to))
    return castElements(b, decodeInt8(b, source), b.getF16Type(), to, hasFloat8);
  bool isByInstruction = hasFloat8 && isFloat8(to) && !from.isF64() && source.size() % 2 == 0;
  if (saturates && isByInstruction)
    return encodeFloat8Pairs(b, castElements(b, source, from, b.getF32Type(), hasFloat8), to);
  if (saturates) {
    // In f32, which holds the limits of narrower types.
    Type wide = isFloat8(from) || from.getIntOrFloatBitWidth() < 32 ? b.getF32Type() : from;
    Values limited;
    bool isInteger = isa<IntegerType>(to);
    for (Value x : castElements(b, source, from, wide, hasFloat8))
      limited.push_back(isInteger ? b.intrinsic("llvm.fptosi.sat", to, x) : saturate(b, x, to));
    return isInteger ? limited : castElements(b, limited, wide, to, hasFloat8);
  }
  if (from == to)
    return Values(source);
  Type f32 = b.getF32Type();
  Values elements;
  if (isFloat8(from)) {
    if (hasFloat8 && source.size() % 2 == 0)
      elements = decodeFloat8Pairs(b, source, from);
    else
      for (Value x : source)
        elements.push_back(decodeFloat8(b, x, from));
    return castElements(b, elements, b.getF16Type(), to);
  }
  if (isFloat8(to)) {
    Values inF32;
    if (from.isF64())
      for (Value x : source)
        inF32.push_back(roundToOdd(b, x));
    else
      inF32 = castElements(b, source, from, f32);
    for (Value x : inF32)
      elements.push_back(encodeFloat8(b, x, to));
    return elements;
  }
  // Two at a time: one instruction writes the pair to the register that an operand needs.
  bool isNarrow = to.isF16() || to.isBF16();
  if (isNarrow && (from.isF16() || from.isBF16()) && source.size() % 2 == 0)
    return castElements(b, castElements(b, source, from, f32), f32, to);
  if (from.isF32() && isNarrow && source.size() % 2 == 0) {
    StringRef name = to.isF16() ? "llvm.nvvm.ff2f16x2.rn" : "llvm.nvvm.ff2bf16x2.rn";
    for (size_t i = 0; i < source.size(); i += 2) {
      Value pair = b.intrinsic(name, VectorType::get(2, to), ValueRange{source[i + 1], source[i]});
      elements.push_back(b.extract(pair, 0));
      elements.push_back(b.extract(pair, 1));
    }
    return elements;
  }
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  for (Value x : source) {
    Value y = x;
    if (isa<FloatType>(from) && isa<FloatType>(to)) {
      // Conversions between the two 16-bit types go through f32, which represents both.
      if (fromBits == toBits)
        y = arith::TruncFOp::create(b, to, widenHalf(b, x));
      else if (fromBits == 16 && to.isF32())
        y = widenHalf(b, x);
      else if (fromBits < toBits)
        y = arith::ExtFOp::create(b, to, x);
      else
        y = arith::TruncFOp::create(b, to, x);
    } else if (isa<FloatType>(to)) {
      y = from.isInteger(1) ? arith::UIToFPOp::create(b, to, x).getResult()
                            : arith::SIToFPOp::create(b, to, x).getResult();
    } else if (isa<FloatType>(from)) {
      y = arith::FPToSIOp::create(b, to, x);
    } else if (fromBits > toBits) {
      y = arith::TruncIOp::create(b, to, x);
    } else {
      y = from.isInteger(1) ? arith::ExtUIOp::create(b, to, x).getResult()
                            : arith::ExtSIOp::create(b, to, x).getResult();
    }
    elements.push_back(y);
  }
  return elements;
}

//===----------------------------------------------------------------------===//
// Reductions and shuffles
//===----------------------------------------------------------------------===//

Value tgpu::combine(ThreadBuilder &b, tile::ReduceKind kind, Value x, Value y) {
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
Value tgpu::shuffle(ThreadBuilder &b, StringRef mode, Value value, Value other) {
  Type type = value.getType(), i32Type = b.getI32Type();
  unsigned bits = type.getIntOrFloatBitWidth();
  std::string name = ("llvm.nvvm.shfl.sync." + mode + (type.isF32() ? ".f32" : ".i32")).str();
  auto move = [&](Value word) {
    return b.intrinsic(name, word.getType(), {b.i32(-1), word, other, b.i32(31)});
  };
  if (bits == 32)
    return move(value);
  if (bits == 64) {
    Value words = b.bitcast(value, VectorType::get(2, i32Type));
    name = ("llvm.nvvm.shfl.sync." + mode + ".i32").str();
    return b.bitcast(b.vectorOf({move(b.extract(words, 0)), move(b.extract(words, 1))}), type);
  }
  Type integer = b.getIntegerType(bits);
  Value word = arith::ExtUIOp::create(b, i32Type, b.bitcast(value, integer));
  return b.bitcast(arith::TruncIOp::create(b, integer, move(word)), type);
}

std::optional<std::vector<int>> tgpu::getRenaming(const layout::RegisterLayout &from,
                                                  const layout::RegisterLayout &to) {
  if (from.shape() != to.shape())
    return std::nullopt;
  layout::Conversion conversion = layout::convert(from, to);
  if (conversion.kind != layout::Conversion::Kind::Registers)
    return std::nullopt;
  return conversion.sourceRegister;
}
