// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions of single values, by the functions of the loops.

#include "base/Numeric/ElementType.h"

#define TILEWRIGHT_ISA baseline
#include "base/Numeric/Isa/NarrowFloat.h"

using namespace tilewright;
using namespace tilewright::numeric;
using baseline::BF16Format;
using baseline::E4M3Format;
using baseline::E5M2Format;
using baseline::F16Format;
using baseline::roundToOdd;

float tilewright::numeric::f16ToFloat(uint16_t bits) { return F16Format::decode(bits); }
float tilewright::numeric::bf16ToFloat(uint16_t bits) { return BF16Format::decode(bits); }
float tilewright::numeric::e4m3ToFloat(uint8_t bits) { return E4M3Format::decode(bits); }
float tilewright::numeric::e5m2ToFloat(uint8_t bits) { return E5M2Format::decode(bits); }
uint16_t tilewright::numeric::floatToF16(float value) { return F16Format::encode(value); }
uint16_t tilewright::numeric::floatToBF16(float value) { return BF16Format::encode(value); }
uint8_t tilewright::numeric::floatToE4M3(float value) { return E4M3Format::encode(value); }
uint8_t tilewright::numeric::floatToE5M2(float value) { return E5M2Format::encode(value); }
uint16_t tilewright::numeric::doubleToF16(double value) {
  return F16Format::encode(roundToOdd(value));
}
uint16_t tilewright::numeric::doubleToBF16(double value) {
  return BF16Format::encode(roundToOdd(value));
}
uint8_t tilewright::numeric::doubleToE4M3(double value) {
  return E4M3Format::encode(roundToOdd(value));
}
uint8_t tilewright::numeric::doubleToE5M2(double value) {
  return E5M2Format::encode(roundToOdd(value));
}

double tilewright::numeric::roundToType(double value, ElementType type) {
  switch (type) {
  case ElementType::F32:
    return float(value);
  case ElementType::F16:
    return F16Format::round(roundToOdd(value));
  case ElementType::BF16:
    return BF16Format::round(roundToOdd(value));
  case ElementType::E4M3:
    return E4M3Format::round(roundToOdd(value));
  case ElementType::E5M2:
    return E5M2Format::round(roundToOdd(value));
  default:
    return value;
  }
}
