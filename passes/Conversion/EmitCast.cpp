// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between element types. Floats of 8 bits are bytes here, and are converted by integer
// arithmetic: the instructions for them saturate, and older machines have none.

#include "passes/Conversion/KernelEmitter.h"

#include <cmath>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static bool isFloat8(Type type) {
  return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8;
}

/// To f16, which holds every value of either format.
Value KernelEmitter::decodeFloat8(Value byte, Type type) {
  Type i16 = b.getIntegerType(16), f16 = b.getF16Type();
  auto word = [&](int64_t value) { return constant(b.getIntegerAttr(i16, value)); };
  Value wide = arith::ExtUIOp::create(b, i16, byte);
  // An e5m2 is the upper half of an f16.
  if (isa<Float8E5M2Type>(type))
    return bitcast(arith::ShLIOp::create(b, wide, word(8)), f16);
  // The exponent of an e4m3 is biased by 7, that of an f16 by 15: moved into place, all values are
  // too small by 2^8, subnormals too.
  Value magnitude = arith::AndIOp::create(b, wide, word(0x7f));
  Value sign = arith::ShLIOp::create(b, arith::AndIOp::create(b, wide, word(0x80)), word(8));
  Value moved = arith::OrIOp::create(b, sign, arith::ShLIOp::create(b, magnitude, word(7)));
  Value scaled =
      arith::MulFOp::create(b, bitcast(moved, f16), constant(b.getFloatAttr(f16, 256.0)));
  Value isNan = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, magnitude, word(0x7f));
  return arith::SelectOp::create(b, isNan, bitcast(word(0x7fff), f16), scaled);
}

/// From f32: to nearest, ties to even; what is too large becomes infinity, in e4m3 NaN.
Value KernelEmitter::encodeFloat8(Value x, Type type) {
  bool isE5M2 = isa<Float8E5M2Type>(type);
  int64_t fractionBits = isE5M2 ? 2 : 3, bias = isE5M2 ? 15 : 7;
  int64_t dropped = 23 - fractionBits, smallestExponent = 1 - bias;
  Type f32 = b.getF32Type(), i32Type = b.getI32Type();
  Value bits = bitcast(x, i32Type);
  Value magnitude = arith::AndIOp::create(b, bits, i32(0x7fffffff));
  // Normal: round to the bits that stay, a carry moving on into the exponent.
  Value odd = arith::AndIOp::create(b, arith::ShRUIOp::create(b, magnitude, i32(dropped)), i32(1));
  Value rounded = add(add(magnitude, i32((int64_t(1) << (dropped - 1)) - 1)), odd);
  Value normal =
      add(arith::ShRUIOp::create(b, rounded, i32(dropped)), i32(-((127 - bias) << fractionBits)));
  // Subnormal: added to a number whose last bit counts subnormals, the machine rounds it.
  double unit = std::ldexp(1.0, static_cast<int>(smallestExponent - fractionBits));
  Value magic = constant(b.getF32FloatAttr(static_cast<float>(std::ldexp(unit, 23))));
  Value sum = arith::AddFOp::create(b, bitcast(magnitude, f32), magic);
  Value magicBits = bitcast(magic, i32Type);
  Value subnormal = arith::SubIOp::create(b, bitcast(sum, i32Type), magicBits);
  Value isSmall = less(magnitude, i32((127 + smallestExponent) << 23));
  Value code = arith::SelectOp::create(b, isSmall, subnormal, normal);
  code = arith::MinUIOp::create(b, code, i32(isE5M2 ? 0x7c : 0x7f));
  Value isNan = less(i32(0x7f800000), magnitude);
  code = arith::SelectOp::create(b, isNan, i32(0x7f), code);
  Value sign = arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, i32(24)), i32(0x80));
  return arith::TruncIOp::create(b, b.getIntegerType(8), arith::OrIOp::create(b, code, sign));
}

/// To f32, rounded to odd: rounding that once more rounds as if there had been one step.
Value KernelEmitter::roundToOdd(Value x) {
  Value y = intrinsic("llvm.nvvm.d2f.rz", b.getF32Type(), x);
  Value back = arith::ExtFOp::create(b, b.getF64Type(), y);
  Value isInexact = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, back, x);
  Value last = arith::ExtUIOp::create(b, b.getI32Type(), isInexact);
  return bitcast(arith::OrIOp::create(b, bitcast(y, b.getI32Type()), last), b.getF32Type());
}

LogicalResult KernelEmitter::emitCast(tile::CastOp op) {
  Type from = tile::getElementType(op.getSource().getType());
  Type to = tile::getElementType(op.getResult().getType());
  Values source = getElements(op.getSource());
  // Narrow floats hold few integers: their sums would be rounded.
  if (!op.getReassoc() || to.getIntOrFloatBitWidth() < 32) {
    setElements(op.getResult(), castElements(source, from, to));
    return success();
  }
  // Positions of a thread's elements are sums of the first one and constants.
  Values elements;
  for (Value x : source) {
    auto sum = x.getDefiningOp<arith::AddIOp>();
    APInt constant;
    if (!sum || !matchPattern(sum.getRhs(), m_ConstantInt(&constant))) {
      elements.push_back(castElements(x, from, to).front());
      continue;
    }
    APFloat term = APFloat::getZero(cast<FloatType>(to).getFloatSemantics());
    term.convertFromAPInt(constant, /*IsSigned=*/true, APFloat::rmNearestTiesToEven);
    auto flags = arith::FastMathFlags::reassoc | arith::FastMathFlags::contract;
    Value base = castElements(sum.getLhs(), from, to).front();
    Value more = arith::ConstantOp::create(b, FloatAttr::get(to, term));
    elements.push_back(arith::AddFOp::create(b, base, more, flags));
  }
  setElements(op.getResult(), elements);
  return success();
}

/// A float of 16 bits in f32. Where it is one of a pair, it is taken out of the pair here: ptxas
/// keeps a half that is taken out in a register of its own for as long as it lives, a pair in one.
Value KernelEmitter::widenHalf(Value x) {
  Type f32 = b.getF32Type();
  auto taken = x.getDefiningOp<LLVM::ExtractElementOp>();
  APInt index;
  if (!taken || !matchPattern(taken.getPosition(), m_ConstantInt(&index)) ||
      taken.getVector().getType() != VectorType::get(2, x.getType()))
    return arith::ExtFOp::create(b, f32, x);
  bool isUpper = !index.isZero();
  if (x.getType().isF16())
    return arith::ExtFOp::create(b, f32, extract(taken.getVector(), isUpper));
  // A bf16 is the upper half of an f32.
  Value pair = bitcast(taken.getVector(), b.getI32Type());
  return bitcast(isUpper ? arith::AndIOp::create(b, pair, i32(-0x10000)).getResult()
                         : arith::ShLIOp::create(b, pair, i32(16)).getResult(),
                 f32);
}

Values KernelEmitter::castElements(ArrayRef<Value> source, Type from, Type to) {
  if (from == to)
    return Values(source);
  Type f32 = b.getF32Type();
  Values elements;
  if (isFloat8(from)) {
    for (Value x : source)
      elements.push_back(decodeFloat8(x, from));
    return castElements(elements, b.getF16Type(), to);
  }
  if (isFloat8(to)) {
    Values inF32;
    if (from.isF64())
      for (Value x : source)
        inF32.push_back(roundToOdd(x));
    else
      inF32 = castElements(source, from, f32);
    for (Value x : inF32)
      elements.push_back(encodeFloat8(x, to));
    return elements;
  }
  // Two at a time: one instruction, and the pair is in the register that an operand needs.
  bool isNarrow = to.isF16() || to.isBF16();
  if (from.isF32() && isNarrow && source.size() % 2 == 0) {
    StringRef name = to.isF16() ? "llvm.nvvm.ff2f16x2.rn" : "llvm.nvvm.ff2bf16x2.rn";
    for (size_t i = 0; i < source.size(); i += 2) {
      Value pair = intrinsic(name, VectorType::get(2, to), ValueRange{source[i + 1], source[i]});
      elements.push_back(extract(pair, 0));
      elements.push_back(extract(pair, 1));
    }
    return elements;
  }
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  for (Value x : source) {
    Value y = x;
    if (isa<FloatType>(from) && isa<FloatType>(to)) {
      // Between the two of 16 bits by way of f32, which holds both.
      if (fromBits == toBits)
        y = arith::TruncFOp::create(b, to, widenHalf(x));
      else if (fromBits == 16 && to.isF32())
        y = widenHalf(x);
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
