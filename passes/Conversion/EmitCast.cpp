// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between element types. Floats of 8 bits are bytes here, and are converted by integer
// arithmetic: the instructions for them saturate, and older machines have none.

#include "passes/Conversion/KernelEmitter.h"

#include "passes/Conversion/LoweringTable.h"

#include <cmath>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static bool isFloat8(Type type) {
  return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8;
}

/// To f16, which holds every value of either format.
static Value decodeFloat8(KernelEmitter &e, Value byte, Type type) {
  Type i16 = e.b.getIntegerType(16), f16 = e.b.getF16Type();
  auto word = [&](int64_t value) { return e.constant(e.b.getIntegerAttr(i16, value)); };
  Value wide = arith::ExtUIOp::create(e.b, i16, byte);
  // An e5m2 is the upper half of an f16.
  if (isa<Float8E5M2Type>(type))
    return e.bitcast(arith::ShLIOp::create(e.b, wide, word(8)), f16);
  // The exponent of an e4m3 is biased by 7, that of an f16 by 15: moved into place, all values are
  // too small by 2^8, subnormals too.
  Value magnitude = arith::AndIOp::create(e.b, wide, word(0x7f));
  Value sign = arith::ShLIOp::create(e.b, arith::AndIOp::create(e.b, wide, word(0x80)), word(8));
  Value moved = arith::OrIOp::create(e.b, sign, arith::ShLIOp::create(e.b, magnitude, word(7)));
  Value scaled =
      arith::MulFOp::create(e.b, e.bitcast(moved, f16), e.constant(e.b.getFloatAttr(f16, 256.0)));
  Value isNan = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, magnitude, word(0x7f));
  return arith::SelectOp::create(e.b, isNan, e.bitcast(word(0x7fff), f16), scaled);
}

/// From f32: to nearest, ties to even; what is too large becomes infinity, in e4m3 NaN.
static Value encodeFloat8(KernelEmitter &e, Value x, Type type) {
  bool isE5M2 = isa<Float8E5M2Type>(type);
  int64_t fractionBits = isE5M2 ? 2 : 3, bias = isE5M2 ? 15 : 7;
  int64_t dropped = 23 - fractionBits, smallestExponent = 1 - bias;
  Type f32 = e.b.getF32Type(), i32Type = e.b.getI32Type();
  Value bits = e.bitcast(x, i32Type);
  Value magnitude = arith::AndIOp::create(e.b, bits, e.i32(0x7fffffff));
  // Normal: round to the bits that stay, a carry moving on into the exponent.
  Value odd =
      arith::AndIOp::create(e.b, arith::ShRUIOp::create(e.b, magnitude, e.i32(dropped)), e.i32(1));
  Value rounded = e.add(e.add(magnitude, e.i32((int64_t(1) << (dropped - 1)) - 1)), odd);
  Value normal = e.add(arith::ShRUIOp::create(e.b, rounded, e.i32(dropped)),
                       e.i32(-((127 - bias) << fractionBits)));
  // Subnormal: added to a number whose last bit counts subnormals, the machine rounds it.
  double unit = std::ldexp(1.0, static_cast<int>(smallestExponent - fractionBits));
  Value magic = e.constant(e.b.getF32FloatAttr(static_cast<float>(std::ldexp(unit, 23))));
  Value sum = arith::AddFOp::create(e.b, e.bitcast(magnitude, f32), magic);
  Value magicBits = e.bitcast(magic, i32Type);
  Value subnormal = arith::SubIOp::create(e.b, e.bitcast(sum, i32Type), magicBits);
  Value isSmall = e.less(magnitude, e.i32((127 + smallestExponent) << 23));
  Value code = arith::SelectOp::create(e.b, isSmall, subnormal, normal);
  code = arith::MinUIOp::create(e.b, code, e.i32(isE5M2 ? 0x7c : 0x7f));
  Value isNan = e.less(e.i32(0x7f800000), magnitude);
  code = arith::SelectOp::create(e.b, isNan, e.i32(0x7f), code);
  Value sign =
      arith::AndIOp::create(e.b, arith::ShRUIOp::create(e.b, bits, e.i32(24)), e.i32(0x80));
  return arith::TruncIOp::create(e.b, e.b.getIntegerType(8), arith::OrIOp::create(e.b, code, sign));
}

/// To f32, rounded to odd: rounding that once more rounds as if there had been one step.
static Value roundToOdd(KernelEmitter &e, Value x) {
  Value y = e.intrinsic("llvm.nvvm.d2f.rz", e.b.getF32Type(), x);
  Value back = arith::ExtFOp::create(e.b, e.b.getF64Type(), y);
  Value isInexact = arith::CmpFOp::create(e.b, arith::CmpFPredicate::UNE, back, x);
  Value last = arith::ExtUIOp::create(e.b, e.b.getI32Type(), isInexact);
  return e.bitcast(arith::OrIOp::create(e.b, e.bitcast(y, e.b.getI32Type()), last),
                   e.b.getF32Type());
}

static LogicalResult emitCast(KernelEmitter &e, tile::CastOp op) {
  Type from = tile::getElementType(op.getSource().getType());
  Type to = tile::getElementType(op.getResult().getType());
  Values source = e.getElements(op.getSource());
  // Narrow floats hold few integers: their sums would be rounded.
  if (!op.getReassoc() || to.getIntOrFloatBitWidth() < 32) {
    e.setElements(op.getResult(), e.castElements(source, from, to));
    return success();
  }
  // Positions of a thread's elements are sums of the first one and constants.
  Values elements;
  for (Value x : source) {
    auto sum = x.getDefiningOp<arith::AddIOp>();
    APInt constant;
    if (!sum || !matchPattern(sum.getRhs(), m_ConstantInt(&constant))) {
      elements.push_back(e.castElements(x, from, to).front());
      continue;
    }
    APFloat term = APFloat::getZero(cast<FloatType>(to).getFloatSemantics());
    term.convertFromAPInt(constant, /*IsSigned=*/true, APFloat::rmNearestTiesToEven);
    auto flags = arith::FastMathFlags::reassoc | arith::FastMathFlags::contract;
    Value base = e.castElements(sum.getLhs(), from, to).front();
    Value more = arith::ConstantOp::create(e.b, FloatAttr::get(to, term));
    elements.push_back(arith::AddFOp::create(e.b, base, more, flags));
  }
  e.setElements(op.getResult(), elements);
  return success();
}

/// A float of 16 bits in f32. Where it is one of a pair, it is taken out of the pair here: ptxas
/// keeps a half that is taken out in a register of its own for as long as it lives, a pair in one.
static Value widenHalf(KernelEmitter &e, Value x) {
  Type f32 = e.b.getF32Type();
  auto taken = x.getDefiningOp<LLVM::ExtractElementOp>();
  APInt index;
  if (!taken || !matchPattern(taken.getPosition(), m_ConstantInt(&index)) ||
      taken.getVector().getType() != VectorType::get(2, x.getType()))
    return arith::ExtFOp::create(e.b, f32, x);
  bool isUpper = !index.isZero();
  if (x.getType().isF16())
    return arith::ExtFOp::create(e.b, f32, e.extract(taken.getVector(), isUpper));
  // A bf16 is the upper half of an f32.
  Value pair = e.bitcast(taken.getVector(), e.b.getI32Type());
  return e.bitcast(isUpper ? arith::AndIOp::create(e.b, pair, e.i32(-0x10000)).getResult()
                           : arith::ShLIOp::create(e.b, pair, e.i32(16)).getResult(),
                   f32);
}

Values KernelEmitter::castElements(ArrayRef<Value> source, Type from, Type to) {
  if (from == to)
    return Values(source);
  Type f32 = b.getF32Type();
  Values elements;
  if (isFloat8(from)) {
    for (Value x : source)
      elements.push_back(decodeFloat8(*this, x, from));
    return castElements(elements, b.getF16Type(), to);
  }
  if (isFloat8(to)) {
    Values inF32;
    if (from.isF64())
      for (Value x : source)
        inF32.push_back(roundToOdd(*this, x));
    else
      inF32 = castElements(source, from, f32);
    for (Value x : inF32)
      elements.push_back(encodeFloat8(*this, x, to));
    return elements;
  }
  // Two at a time: one instruction writes the pair into the register that an operand needs.
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
        y = arith::TruncFOp::create(b, to, widenHalf(*this, x));
      else if (fromBits == 16 && to.isF32())
        y = widenHalf(*this, x);
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

void tgpu::registerCastLowerings(LoweringTable &table) { table.add<tile::CastOp>(emitCast); }
