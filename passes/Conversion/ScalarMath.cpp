// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementary functions by argument reduction and a series. Coefficients are those of the Taylor
// series if they are simple, else interpolate at Chebyshev points (computed to 50 digits).

#include "passes/Conversion/ScalarMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

#include <limits>
#include <vector>

using namespace mlir;
using namespace tilewright::tgpu;

namespace {
constexpr double kLog2E = 1.4426950408889634, kLn2 = 0.6931471805599453;
constexpr double kLog10E = 0.4342944819032518, kLog10Of2 = 0.30102999566398120;
constexpr double kPi = 3.141592653589793;
// ln(2) in two parts: multiples of the first by exponents are exact.
constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLn2HighF32 = 0x1.62e000p-1, kLn2LowF32 = 0x1.0bfbe8p-15;
// pi / 2 in three parts, each the rounded remainder of the previous ones.
constexpr double kHalfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// 1 / k! from k = `first` on, every `step`-th, with alternating signs on request.
std::vector<double> factorials(int first, int step, int count, bool alternate) {
  std::vector<double> coefficients;
  double factorial = 1;
  for (int k = 2; k <= first; ++k)
    factorial *= k;
  for (int i = 0, k = first; i < count; ++i) {
    coefficients.push_back((alternate && i % 2 ? -1 : 1) / factorial);
    for (int j = 0; j < step; ++j)
      factorial *= ++k;
  }
  return coefficients;
}

/// 1 / (2 k + 1) from k = `first` on, with alternating signs on request.
std::vector<double> oddReciprocals(int first, int count, bool alternate) {
  std::vector<double> coefficients;
  for (int k = first; k < first + count; ++k)
    coefficients.push_back((alternate && k % 2 ? -1.0 : 1.0) / (2 * k + 1));
  return coefficients;
}
} // namespace

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value ScalarMath::constant(TypedAttr value) {
  Value &known = constants[value];
  if (!known)
    known = arith::ConstantOp::create(b, value);
  return known;
}
Value ScalarMath::number(double value, Value like) {
  return constant(b.getFloatAttr(like.getType(), value));
}
Value ScalarMath::add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
Value ScalarMath::sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
Value ScalarMath::mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
Value ScalarMath::div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
Value ScalarMath::fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
Value ScalarMath::abs(Value x) { return math::AbsFOp::create(b, x); }
Value ScalarMath::copySign(Value x, Value sign) { return math::CopySignOp::create(b, x, sign); }
Value ScalarMath::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, condition, x, y);
}
Value ScalarMath::isLess(Value x, Value y) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, y);
}
Value ScalarMath::isEqual(Value x, Value y) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, x, y);
}
Value ScalarMath::toF32(Value x) { return arith::TruncFOp::create(b, b.getF32Type(), x); }
Value ScalarMath::toF64(Value x) { return arith::ExtFOp::create(b, b.getF64Type(), x); }

Value ScalarMath::polynomial(Value x, llvm::ArrayRef<double> coefficients, size_t terms) {
  if (terms)
    coefficients = coefficients.take_front(terms);
  Value sum = number(coefficients.back(), x);
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = fma(sum, x, number(coefficient, x));
  return sum;
}

std::pair<Value, Value> ScalarMath::roundToInteger(Value x) {
  // The last bit of the sum counts ones; half of the added number keeps that for negative x.
  bool isF64 = x.getType().isF64();
  Value magic = number(isF64 ? 0x1.8p52 : 0x1.8p23, x);
  Value sum = add(x, magic);
  Type integer = isF64 ? b.getI64Type() : b.getI32Type();
  Value magicBits = arith::BitcastOp::create(b, integer, magic);
  Value bits = arith::SubIOp::create(b, arith::BitcastOp::create(b, integer, sum), magicBits);
  if (isF64)
    bits = arith::TruncIOp::create(b, b.getI32Type(), bits);
  return {sub(sum, magic), bits};
}

Value ScalarMath::scale(Value x, Value exponent) {
  bool isF64 = x.getType().isF64();
  Type integer = isF64 ? b.getI64Type() : b.getI32Type();
  auto i32 = [&](int value) { return constant(b.getI32IntegerAttr(value)); };
  auto powerOf2 = [&](Value n) {
    Value biased = arith::AddIOp::create(b, n, i32(isF64 ? 1023 : 127));
    if (isF64)
      biased = arith::ExtSIOp::create(b, integer, biased);
    Value shift = constant(b.getIntegerAttr(integer, isF64 ? 52 : 23));
    return arith::BitcastOp::create(b, x.getType(), arith::ShLIOp::create(b, biased, shift))
        .getResult();
  };
  Value half = arith::ShRSIOp::create(b, exponent, i32(1));
  Value rest = arith::SubIOp::create(b, exponent, half);
  Value second = powerOf2(rest);
  return mul(mul(x, powerOf2(half)), second);
}

//===----------------------------------------------------------------------===//
// Exponentials
//===----------------------------------------------------------------------===//

Value ScalarMath::exp2(Value x) {
  if (x.getType().isF32())
    return LLVM::CallIntrinsicOp::create(b, x.getType(),
                                         b.getStringAttr("llvm.nvvm.ex2.approx.ftz.f"), x)
        .getResult(0);
  // Outside this range, infinity and 0. A NaN passes through.
  Value low = number(-1080, x), high = number(1030, x);
  Value belowHigh = select(isLess(high, x), high, x);
  x = select(isLess(x, low), low, belowHigh);
  auto [whole, exponent] = roundToInteger(x);
  Value rest = mul(sub(x, whole), number(kLn2, x));
  return scale(polynomial(rest, factorials(0, 1, 14, false)), exponent);
}

Value ScalarMath::exp(Value x) {
  return x.getType().isF32() ? exp2(mul(x, number(kLog2E, x))) : scaledExp(x, 0);
}

Value ScalarMath::scaledExp(Value x, int plus) {
  bool isF64 = x.getType().isF64();
  // Outside this range, infinity and 0. A NaN passes through.
  Value low = number(isF64 ? -748 : -106, x), high = number(isF64 ? 714 : 92, x);
  Value belowHigh = select(isLess(high, x), high, x);
  x = select(isLess(x, low), low, belowHigh);
  auto [whole, exponent] = roundToInteger(mul(x, number(kLog2E, x)));
  Value rest = fma(whole, number(isF64 ? -kLn2Low : -kLn2LowF32, x),
                   fma(whole, number(isF64 ? -kLn2High : -kLn2HighF32, x), x));
  if (plus)
    exponent = arith::AddIOp::create(b, exponent, constant(b.getI32IntegerAttr(plus)));
  return scale(polynomial(rest, factorials(0, 1, isF64 ? 14 : 8, false)), exponent);
}

/// 2^n (e^r - 1) + (2^n - 1).
Value ScalarMath::expM1(Value x) {
  bool isF64 = x.getType().isF64();
  // From `large` on, 1 is less than half an ulp.
  Value large = number(isF64 ? 40 : 20, x), low = number(-50, x);
  Value aboveLow = select(isLess(x, low), low, x);
  Value clamped = select(isLess(large, x), large, aboveLow);
  auto [whole, exponent] = roundToInteger(mul(clamped, number(kLog2E, x)));
  Value rest = fma(whole, number(isF64 ? -kLn2High : -kLn2HighF32, x), clamped);
  rest = fma(whole, number(isF64 ? -kLn2Low : -kLn2LowF32, x), rest);
  Value series = mul(rest, polynomial(rest, factorials(1, 1, isF64 ? 14 : 8, false)));
  Value power = scale(number(1, x), exponent);
  Value result = fma(power, series, sub(power, number(1, x)));
  Value faraway = exp(x);
  return select(isLess(large, x), faraway, result);
}

/// h - 1 / (4 h) with h = e^|x| / 2, which overflows where the result does; below 1, the series.
Value ScalarMath::sinh(Value x) {
  Value magnitude = abs(x), h = scaledExp(magnitude, -1);
  Value faraway = copySign(sub(h, div(number(0.25, x), h)), x);
  auto coefficients = factorials(1, 2, x.getType().isF64() ? 10 : 6, false);
  Value nearby = mul(x, polynomial(mul(x, x), coefficients));
  return select(isLess(magnitude, number(1, x)), nearby, faraway);
}

Value ScalarMath::cosh(Value x) {
  Value h = scaledExp(abs(x), -1);
  return add(h, div(number(0.25, x), h));
}

Value ScalarMath::reciprocal(Value x) {
  return LLVM::CallIntrinsicOp::create(b, x.getType(),
                                       b.getStringAttr("llvm.nvvm.rcp.approx.ftz.f"), x)
      .getResult(0);
}

Value ScalarMath::tanh(Value x, arith::FastMathFlags allowed) {
  auto allows = [&](arith::FastMathFlags flag) { return bitEnumContainsAll(allowed, flag); };
  if (x.getType().isF32() && allows(arith::FastMathFlags::afn))
    return LLVM::TanhOp::create(b, x, LLVM::FastmathFlags::afn);
  Value magnitude = abs(x), one = number(1, x);
  if (x.getType().isF64()) {
    Value t = expM1(mul(magnitude, number(-2, x)));
    return copySign(div(t, add(t, number(2, x))), x);
  }
  // 1 - 2 / (1 + exp(2 x)): accurate to a few units of 2^-24, which is a large relative error near
  // 0.
  if (allows(arith::FastMathFlags::arcp)) {
    Value t = exp2(mul(x, number(2 * kLog2E, x)));
    return fma(reciprocal(add(one, t)), number(-2, x), one);
  }
  // (1 - t) / (1 + t) with t = exp(-2 |x|), which neither overflows nor loses 1; near 0, the
  // series.
  Value t = exp2(mul(magnitude, number(-2 * kLog2E, x)));
  Value above = add(one, t);
  Value ratio = div(sub(one, t), above);
  const double coefficients[] = {1, -1.0 / 3, 2.0 / 15, -17.0 / 315, 62.0 / 2835};
  Value series = mul(magnitude, polynomial(mul(x, x), coefficients));
  return copySign(select(isLess(magnitude, number(0.3, x)), series, ratio), x);
}

//===----------------------------------------------------------------------===//
// Logarithms
//===----------------------------------------------------------------------===//

/// x = 2^e m with m from sqrt(1/2) to sqrt(2), and ln(m) = 2 artanh((m - 1) / (m + 1)).
Value ScalarMath::preciseLog(Value x) {
  bool isF64 = x.getType().isF64();
  Type integer = isF64 ? b.getI64Type() : b.getI32Type();
  int64_t fractionBits = isF64 ? 52 : 23;
  auto whole = [&](int64_t value) { return constant(b.getIntegerAttr(integer, value)); };
  // Subnormals are made normal first.
  Value isSmall = isLess(x, number(isF64 ? 0x1p-1022 : 0x1p-126, x));
  Value normal = select(isSmall, mul(x, number(isF64 ? 0x1p54 : 0x1p25, x)), x);
  Value bits = arith::BitcastOp::create(b, integer, normal);
  // Counted from sqrt(1/2), so that the exponent of a number just below 1 is 0.
  int64_t offset = isF64 ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
  Value above = arith::SubIOp::create(b, bits, whole(offset));
  Value exponent = arith::ShRSIOp::create(b, above, whole(fractionBits));
  Value fraction = arith::AndIOp::create(b, above, whole((int64_t(1) << fractionBits) - 1));
  Value m =
      arith::BitcastOp::create(b, x.getType(), arith::AddIOp::create(b, fraction, whole(offset)));
  Value e = arith::SIToFPOp::create(b, x.getType(), exponent);
  e = select(isSmall, sub(e, number(isF64 ? 54 : 25, x)), e);
  Value one = number(1, x), d = sub(m, one);
  Value s = div(d, add(m, one)), z = mul(s, s);
  // 2 s (1 + z / 3 + ...) = d - s (d - 2 z / 3 - ...): what is added to d is small.
  std::vector<double> tail = oddReciprocals(1, isF64 ? 10 : 4, false);
  for (double &coefficient : tail)
    coefficient *= 2;
  Value rest = mul(s, sub(d, mul(z, polynomial(z, tail))));
  Value result = sub(d, sub(rest, mul(e, number(isF64 ? kLn2Low : kLn2LowF32, x))));
  result = fma(e, number(isF64 ? kLn2High : kLn2HighF32, x), result);
  Value zero = number(0, x), infinity = number(kInfinity, x);
  result = select(isEqual(x, infinity), infinity, result);
  result = select(isEqual(x, zero), number(-kInfinity, x), result);
  Value isNumber = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, x, zero);
  return select(isNumber, result, number(kNaN, x));
}

Value ScalarMath::log2(Value x) {
  if (x.getType().isF32())
    return LLVM::CallIntrinsicOp::create(b, x.getType(),
                                         b.getStringAttr("llvm.nvvm.lg2.approx.ftz.f"), x)
        .getResult(0);
  return mul(preciseLog(x), number(kLog2E, x));
}

Value ScalarMath::log(Value x) {
  return x.getType().isF32() ? mul(log2(x), number(kLn2, x)) : preciseLog(x);
}

/// ln(u) x / (u - 1) with u = 1 + x: the quotient corrects the rounding error of u.
Value ScalarMath::log1P(Value x) {
  Value one = number(1, x), infinity = number(kInfinity, x);
  Value u = add(one, x), d = sub(u, one);
  Value ratio = div(x, d);
  Value result = mul(preciseLog(u), ratio);
  result = select(isEqual(u, one), x, result);
  return select(isEqual(x, infinity), infinity, result);
}

//===----------------------------------------------------------------------===//
// The error function
//===----------------------------------------------------------------------===//

/// Below 1, x times a polynomial in x^2; from 1 on, 1 - 2^-p(x), p(x) = -log2(erfc(x)).
Value ScalarMath::erf(Value x) {
  static const double nearF32[] = {
      1.1283791658483509,   -0.37612626666720334,  0.11283594715160218,  -0.026854212010626412,
      0.005189087423433974, -0.000801686428716587, 7.875875062685488e-05};
  static const double farF32[] = {
      11.262853679099845,     11.583428796248791,     3.0639392219821566,
      0.05287127910579072,    -0.015814605505254948,  0.004602637798460698,
      -0.0012701445034966352, 0.00032821240594295696, -6.053317577917594e-05};
  static const double nearF64[] = {
      1.1283791670955126,      -0.37612638903183754,    0.1128379167095512,
      -0.02686617064512984,    0.0052239776254232985,   -0.000854832702193483,
      0.00012055332902888736,  -1.4925647567519332e-05, 1.6462045441468418e-06,
      -1.6364642158167616e-07, 1.4792401209404813e-08,  -1.216456005728345e-09,
      8.709045129053106e-11,   -4.230945824295338e-12};
  static const double farF64[] = {
      20.359943454935095,      26.206914606849555,      8.717061486505433,
      0.1177973625290249,      -0.04923688941654108,    0.020752516669724094,
      -0.008589379965344797,   0.003424952568249974,    -0.0012891579946450531,
      0.0004440999654688974,   -0.0001311457310378963,  2.6611646320120765e-05,
      2.1457715069453705e-06,  -6.479401805825562e-06,  4.899740882103756e-06,
      -2.9505410560796124e-06, 1.3820220169137737e-06,  -3.516764346712323e-07,
      1.2089431983607829e-07,  -1.7723552908643778e-07, 4.982611027371262e-08,
      5.3246786679130276e-08,  -2.5185889316399273e-08};
  bool isF64 = x.getType().isF64();
  Value magnitude = abs(x), one = number(1, x);
  Value nearby = mul(x, polynomial(mul(x, x), isF64 ? llvm::ArrayRef(nearF64) : nearF32));
  // The far polynomial is one of u, which runs from -1 at 1 to 1 where the result rounds to 1.
  double end = isF64 ? 6 : 4;
  Value isBeyond = isLess(number(end, x), magnitude);
  Value clamped = select(isBeyond, number(end, x), magnitude);
  Value u = mul(sub(clamped, number((1 + end) / 2, x)), number(2 / (end - 1), x));
  Value exponent = polynomial(u, isF64 ? llvm::ArrayRef(farF64) : farF32);
  Value faraway = copySign(sub(one, exp2(sub(number(0, x), exponent))), x);
  return select(isLess(one, magnitude), faraway, nearby);
}

/// e^(-x^2) p(t) / (1 + 2 x) with t = (x - c) / (x + c), for x up to where the result rounds to 0.
/// The rounding error of x^2 is known, and the exponential is corrected by it.
Value ScalarMath::erfc(Value x) {
  static const double ofF32[] = {1.2530080579001324,     -0.13562114482806312, -0.04756228936930903,
                                 0.1296466124297091,     -0.11927247426820817, 0.06829336743322621,
                                 -0.02379134803150263,   0.0025788453605382,   0.001996375739503498,
                                 -0.0007957492333968862, -0.000276390255573552};
  static const double ofF64[] = {
      1.2329951186255526,      -0.13962111684056286,    0.015379652102621091,
      0.0680970542547336,      -0.10103906603637362,    0.09373283499690535,
      -0.0663303658110103,     0.03716751556105671,     -0.016197734065502876,
      0.005031969765051122,    -0.0007577732963739462,  -0.00019925553476007838,
      0.0001506220523230599,   -2.4403160497192634e-05, -1.1224293594679385e-05,
      5.718067004785881e-06,   3.006053020270926e-07,   -8.356886054802244e-07,
      6.326381936013846e-08,   1.1597564919712835e-07,  -7.796210935750394e-09,
      -1.3952812123042382e-08, -1.907388627007971e-09};
  bool isF64 = x.getType().isF64();
  Value end = number(isF64 ? 28 : 11, x), center = number(isF64 ? 4 : 3, x);
  Value m = abs(x);
  m = select(isLess(end, m), end, m);
  Value minusSquare = mul(m, arith::NegFOp::create(b, m));
  Value lost = fma(m, m, minusSquare); // exact x^2 minus the rounded one
  Value power = scaledExp(minusSquare, 0);
  power = fma(power, arith::NegFOp::create(b, lost), power);
  Value above = add(m, center);
  Value t = div(sub(m, center), above);
  Value p = polynomial(t, isF64 ? llvm::ArrayRef(ofF64) : ofF32);
  Value result = mul(power, div(p, fma(m, number(2, x), number(1, x))));
  Value mirrored = sub(number(2, x), result);
  return select(isLess(x, number(0, x)), mirrored, result);
}

//===----------------------------------------------------------------------===//
// Powers
//===----------------------------------------------------------------------===//

/// A third of the exponent, steps of Halley's method (each triples the number of correct digits),
/// and one Newton step whose residual is exact to twice the digits.
Value ScalarMath::cbrt(Value x) {
  bool isF64 = x.getType().isF64();
  Type integer = isF64 ? b.getI64Type() : b.getI32Type();
  // Multiplied by 2^(3 n) if a step would involve subnormals, or its cube would overflow.
  Value magnitude = abs(x), one = number(1, x);
  Value isSmall = isLess(magnitude, number(isF64 ? 0x1p-900 : 0x1p-100, x));
  Value isLarge = isLess(number(isF64 ? 0x1p900 : 0x1p100, x), magnitude);
  auto choose = [&](double ofSmall, double ofLarge) {
    return select(isSmall, number(ofSmall, x), select(isLarge, number(ofLarge, x), one));
  };
  Value y = mul(magnitude, isF64 ? choose(0x1p120, 0x1p-120) : choose(0x1p48, 0x1p-48));
  // Two thirds of the exponent's bias, minus a constant that limits the error of the initial guess
  // to 3%.
  double bias = isF64 ? 1023 : 127;
  auto offset = static_cast<int64_t>((2 * bias / 3 - 0.03306235651) * (isF64 ? 0x1p52 : 0x1p23));
  auto whole = [&](int64_t value) { return constant(b.getIntegerAttr(integer, value)); };
  Value third = arith::DivUIOp::create(b, arith::BitcastOp::create(b, integer, y), whole(3));
  Value t =
      arith::BitcastOp::create(b, x.getType(), arith::AddIOp::create(b, third, whole(offset)));
  Value quarter = number(0.25, x), half = number(0.5, x);
  for (int step = 0; step < (isF64 ? 2 : 1); ++step) {
    Value cube = mul(mul(t, t), t);
    Value mean = fma(y, quarter, mul(cube, half));
    Value ratio = div(mul(sub(y, cube), quarter), mean);
    t = fma(t, ratio, t);
  }
  Value square = mul(t, t), minusCube = mul(square, arith::NegFOp::create(b, t));
  Value ofSquare = fma(t, t, arith::NegFOp::create(b, square)); // rounding error
  Value ofCube = fma(ofSquare, t, fma(square, t, minusCube));
  Value residual = sub(add(y, minusCube), ofCube);
  t = add(t, div(residual, mul(square, number(3, x))));
  t = mul(t, isF64 ? choose(0x1p-40, 0x1p40) : choose(0x1p-16, 0x1p16));
  // 0 and infinity are their own roots.
  Value root = copySign(t, x);
  return select(isEqual(add(x, x), x), x, root);
}

Value ScalarMath::power(Value x, Value y) {
  if (x.getType().isF32()) {
    Value wide = toF64(y);
    return toF32(power(toF64(x), wide));
  }
  Value zero = number(0, x), one = number(1, x), half = number(0.5, x);
  Value result = exp2(mul(y, log2(abs(x))));
  Value isWhole = isEqual(math::FloorOp::create(b, y), y);
  Value halved = mul(y, half);
  Value isHalvedWhole = isEqual(math::FloorOp::create(b, halved), halved);
  Value trueValue = constant(b.getBoolAttr(true));
  Value isOdd =
      arith::AndIOp::create(b, isWhole, arith::XOrIOp::create(b, isHalvedWhole, trueValue));
  // For a negative x, only integer powers are real; odd ones have its sign.
  Value isNegative = isLess(x, zero);
  Value isReal = arith::OrIOp::create(b, isWhole, arith::XOrIOp::create(b, isNegative, trueValue));
  result = select(isReal, select(isOdd, copySign(result, x), result), number(kNaN, x));
  Value isPowerOfOne = isEqual(x, one);
  Value isOne = arith::OrIOp::create(b, isEqual(y, zero), isPowerOfOne);
  return select(isOne, one, result);
}

//===----------------------------------------------------------------------===//
// Angles
//===----------------------------------------------------------------------===//

/// By the quadrant of the nearest multiple of pi / 2 and the series of the remainder.
std::pair<Value, Value> ScalarMath::sinCos(Value x) {
  bool isF64 = x.getType().isF64();
  Value wide = isF64 ? x : toF64(x);
  auto [whole, quadrant] = roundToInteger(mul(wide, number(2 / kPi, wide)));
  Value rest = wide;
  for (double part : kHalfPi)
    rest = fma(whole, number(-part, wide), rest);
  if (!isF64)
    rest = toF32(rest);
  Value z = mul(rest, rest);
  Value sine = mul(rest, polynomial(z, factorials(1, 2, isF64 ? 9 : 5, true)));
  Value cosine = polynomial(z, factorials(0, 2, isF64 ? 10 : 6, true));
  auto hasBit = [&, quadrant = quadrant](int bit, int plus) {
    auto i32 = [&](int value) { return constant(b.getI32IntegerAttr(value)); };
    Value shifted = plus ? arith::AddIOp::create(b, quadrant, i32(plus)).getResult() : quadrant;
    Value masked = arith::AndIOp::create(b, shifted, i32(bit));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked, i32(0)).getResult();
  };
  auto negateIf = [&](Value condition, Value value) {
    return select(condition, arith::NegFOp::create(b, value), value);
  };
  Value isOdd = hasBit(1, 0);
  Value sineSize = select(isOdd, cosine, sine);
  Value ofSine = negateIf(hasBit(2, 0), sineSize);
  Value cosineSize = select(isOdd, sine, cosine);
  return {ofSine, negateIf(hasBit(2, 1), cosineSize)};
}

/// Arguments above 1 by their reciprocals, those above tan(pi / 8) by a rotation of pi / 4.
Value ScalarMath::atan(Value x) {
  bool isF64 = x.getType().isF64();
  Value magnitude = abs(x), one = number(1, x);
  Value isSteep = isLess(one, magnitude);
  Value t = select(isSteep, div(one, magnitude), magnitude);
  Value isWide = isLess(number(0.41421356237309503, x), t);
  Value above = add(t, one);
  Value s = select(isWide, div(sub(t, one), above), t);
  Value angle = mul(s, polynomial(mul(s, s), oddReciprocals(0, isF64 ? 22 : 10, true)));
  angle = select(isWide, add(number(kPi / 4, x), angle), angle);
  angle = select(isSteep, sub(number(kPi / 2, x), angle), angle);
  return copySign(angle, x);
}

Value ScalarMath::atan2(Value y, Value x) {
  Value ax = abs(x), ay = abs(y), zero = number(0, x), one = number(1, x);
  Value isSteep = isLess(ax, ay);
  Value small = select(isSteep, ax, ay), large = select(isSteep, ay, ax);
  // 0 / 0 is 0 here, and infinity / infinity is 1.
  Value ratio = div(small, large), ofEqual = select(isEqual(large, zero), zero, one);
  Value t = select(isEqual(small, large), ofEqual, ratio);
  Value angle = atan(t);
  angle = select(isSteep, sub(number(kPi / 2, x), angle), angle);
  // By its sign, so that -0 counts as negative.
  Value isNegative = isLess(copySign(one, x), zero);
  angle = select(isNegative, sub(number(kPi, x), angle), angle);
  Value isNaN = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, y);
  Value result = copySign(angle, y);
  return select(isNaN, add(x, y), result);
}

Value ScalarMath::asinSeries(Value x) {
  static const double ofF32[] = {0.16666666337430908, 0.07500094543497424,  0.04459940152851218,
                                 0.03110066273549457, 0.017149238357677253, 0.03369084720283012};
  static const double ofF64[] = {0.16666666666666669,  0.07499999999998433,  0.04464285714635543,
                                 0.030381944138531247, 0.02237217294214989,  0.017352392720869973,
                                 0.013971212973552933, 0.011479177415184906, 0.01032281435018578,
                                 0.005457506718640358, 0.01740087944269402,  -0.014851887071247204,
                                 0.028757851367421566};
  Value z = mul(x, x);
  Value q = polynomial(z, x.getType().isF64() ? llvm::ArrayRef(ofF64) : ofF32);
  return fma(mul(x, z), q, x);
}

/// For magnitudes above 1/2, pi / 2 - 2 asin(sqrt((1 - |x|) / 2)); beyond 1 the root is NaN.
Value ScalarMath::asin(Value x) {
  Value magnitude = abs(x), half = number(0.5, x), isLarge = isLess(half, magnitude);
  Value root = math::SqrtOp::create(b, fma(magnitude, number(-0.5, x), half));
  Value series = asinSeries(select(isLarge, root, magnitude));
  auto [high, low] = halfPi(x);
  Value turned = add(fma(series, number(-2, x), high), low);
  return copySign(select(isLarge, turned, series), x);
}

Value ScalarMath::acos(Value x) {
  Value magnitude = abs(x), half = number(0.5, x), isLarge = isLess(half, magnitude);
  Value root = math::SqrtOp::create(b, fma(magnitude, number(-0.5, x), half));
  Value series = asinSeries(select(isLarge, root, x));
  auto [high, low] = halfPi(x);
  Value two = number(2, x), doubled = mul(series, two);
  Value lowPart = mul(low, two);
  Value obtuse = add(sub(mul(high, two), doubled), lowPart);
  Value faraway = select(isLess(x, number(0, x)), obtuse, doubled);
  return select(isLarge, faraway, sub(high, sub(series, low)));
}

std::pair<Value, Value> ScalarMath::halfPi(Value like) {
  bool isF64 = like.getType().isF64();
  double high = isF64 ? kHalfPi[0] : double(float(kHalfPi[0]));
  return {number(high, like), number(isF64 ? kHalfPi[1] : kHalfPi[0] - high, like)};
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

Value ScalarMath::emit(Operation *op, ValueRange operands) {
  Value x = operands[0], one = number(1, x);
  auto direct = [&](auto tag) {
    return decltype(tag)::create(b, TypeRange(x.getType()), operands, op->getAttrs())->getResult(0);
  };
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<math::Exp2Op>([&](auto) { return exp2(x); })
      .Case<math::ExpOp>([&](auto) { return exp(x); })
      .Case<math::ExpM1Op>([&](auto) { return expM1(x); })
      .Case<math::Log2Op>([&](auto) { return log2(x); })
      .Case<math::LogOp>([&](auto) { return log(x); })
      .Case<math::Log10Op>([&](auto) {
        return x.getType().isF32() ? mul(log2(x), number(kLog10Of2, x))
                                   : mul(preciseLog(x), number(kLog10E, x));
      })
      .Case<math::Log1pOp>([&](auto) { return log1P(x); })
      .Case<math::RsqrtOp>([&](auto) { return div(one, math::SqrtOp::create(b, x)); })
      .Case<math::SinOp>([&](auto) { return sinCos(x).first; })
      .Case<math::CosOp>([&](auto) { return sinCos(x).second; })
      .Case<math::TanOp>([&](auto) {
        auto [sine, cosine] = sinCos(x);
        return div(sine, cosine);
      })
      .Case<math::AtanOp>([&](auto) { return atan(x); })
      .Case<math::Atan2Op>([&](auto) { return atan2(x, operands[1]); })
      .Case<math::TanhOp>([&](math::TanhOp op) { return tanh(x, op.getFastmath()); })
      .Case<math::AsinOp>([&](auto) { return asin(x); })
      .Case<math::AcosOp>([&](auto) { return acos(x); })
      .Case<math::SinhOp>([&](auto) { return sinh(x); })
      .Case<math::CoshOp>([&](auto) { return cosh(x); })
      .Case<math::CbrtOp>([&](auto) { return cbrt(x); })
      .Case<math::ErfOp>([&](auto) { return erf(x); })
      .Case<math::ErfcOp>([&](auto) { return erfc(x); })
      .Case<math::PowFOp>([&](auto) { return power(x, operands[1]); })
      .Case<math::AbsFOp, math::CopySignOp, math::FmaOp, math::FloorOp, math::CeilOp, math::TruncOp,
            math::RoundOp, math::RoundEvenOp, math::SqrtOp>([&](auto op) { return direct(op); })
      .Default([](Operation *) { return Value(); });
}
