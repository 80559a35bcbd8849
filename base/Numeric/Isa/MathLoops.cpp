// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transcendental functions. The float versions of exp, exp2, log, log2 and tanh are written here,
// as range reduction and polynomial without branches, because libm's are called element by element;
// the others and all double versions are libm's.
//
// The polynomials are minimax fits; the error stated with each is that of the exact polynomial,
// relative to the function.

#include "base/Numeric/Isa/Loops.h"

#include <math.h>

namespace tilewright::numeric::TILEWRIGHT_ISA {
namespace {

constexpr float infinity = __builtin_inff();
constexpr float notANumber = __builtin_nanf("");

/// Adding and subtracting it rounds a float of magnitude below 2^22 to an integer, whose value is
/// also in the low bits of the sum.
constexpr float roundMagic = 0x1.8p23f;

/// value * 2^n for n in [-252, 254], where the result may be subnormal or infinite: the first
/// product is exact, so there is one rounding.
TILEWRIGHT_INLINE float scaleByPowerOfTwo(float value, int32_t n) {
  int32_t half = n >> 1;
  float first = bitsAs<float>(uint32_t(half + 127) << 23);
  float second = bitsAs<float>(uint32_t(n - half + 127) << 23);
  return value * first * second;
}

struct Exp2Float {
  static TILEWRIGHT_INLINE float apply(float x) {
    // Beyond these the result is 0 or infinity anyway. A NaN passes.
    float clamped = x < -151.0f ? -151.0f : x;
    clamped = clamped > 129.0f ? 129.0f : clamped;
    float shifted = clamped + roundMagic;
    int32_t n = bitsAs<int32_t>(shifted) - bitsAs<int32_t>(roundMagic);
    float f = clamped - (shifted - roundMagic);
    // 2^f = 1 + f q(f) on [-1/2, 1/2]: 2.6e-9.
    float q = polynomial(f, 0x1.62e432p-1f, 0x1.ebfbe2p-3f, 0x1.c6ae72p-5f, 0x1.3b270ep-7f,
                         0x1.5f7278p-10f, 0x1.470b3ap-13f);
    return scaleByPowerOfTwo(mulAdd(f, q, 1.0f), n);
  }
};

struct ExpFloat {
  static TILEWRIGHT_INLINE float apply(float x) {
    float clamped = x < -105.0f ? -105.0f : x;
    clamped = clamped > 89.5f ? 89.5f : clamped;
    float shifted = mulAdd(clamped, 0x1.715476p0f, roundMagic);
    int32_t n = bitsAs<int32_t>(shifted) - bitsAs<int32_t>(roundMagic);
    float whole = shifted - roundMagic;
    // x - n ln 2, where n times the upper part of ln 2 is exact.
    float r = mulAdd(whole, -0x1.62e4p-1f, clamped);
    r = mulAdd(whole, -0x1.7f7d1cp-20f, r);
    // e^r = 1 + r + r^2 q(r) on [-ln 2 / 2, ln 2 / 2]: 3.1e-9.
    float q = polynomial(r, 0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558f2p-5f, 0x1.1239e4p-7f,
                         0x1.6a243ap-10f);
    return scaleByPowerOfTwo(1.0f + mulAdd(r * r, q, r), n);
  }
};

/// x = 2^exponent (1 + fraction), 1 + fraction in [sqrt(1/2), sqrt(2)), for a finite x > 0.
struct Decomposed {
  float exponent;
  float fraction;
};
TILEWRIGHT_INLINE Decomposed decompose(float x) {
  constexpr uint32_t sqrtHalf = 0x3f3504f3;
  bool isSubnormal = x < 0x1p-126f;
  uint32_t bits = bitsAs<uint32_t>(isSubnormal ? x * 0x1p24f : x) - sqrtHalf;
  int32_t exponent = (int32_t(bits) >> 23) - (isSubnormal ? 24 : 0);
  float mantissa = bitsAs<float>((bits & 0x7fffff) + sqrtHalf);
  return {float(exponent), mantissa - 1.0f};
}

/// The logarithm of what is not a finite positive number.
TILEWRIGHT_INLINE float logSpecial(float x, float result) {
  result = x < infinity ? result : x; // infinity, NaN
  result = x < 0.0f ? notANumber : result;
  return x == 0.0f ? -infinity : result;
}

struct LogFloat {
  static TILEWRIGHT_INLINE float apply(float x) {
    Decomposed d = decompose(x);
    float f = d.fraction;
    // ln(1 + f) = f + f^2 q(f): 4.1e-9.
    float q = polynomial(f, -0x1.fffff8p-2f, 0x1.55555p-2f, -0x1.000426p-2f, 0x1.99a3f4p-3f,
                         -0x1.54276cp-3f, 0x1.227192p-3f, -0x1.0f3762p-3f, 0x1.0848a4p-3f,
                         -0x1.3830c2p-4f);
    float small = mulAdd(f * f, q, d.exponent * 0x1.7f7d1cp-20f);
    return logSpecial(x, mulAdd(d.exponent, 0x1.62e4p-1f, f + small));
  }
};

struct Log2Float {
  static TILEWRIGHT_INLINE float apply(float x) {
    Decomposed d = decompose(x);
    float f = d.fraction;
    // log2(1 + f) = f (1.442... + 1.9e-8) + f^2 q(f): 4.1e-9.
    float q = polynomial(f, -0x1.71547p-1f, 0x1.ec7096p-2f, -0x1.715a72p-2f, 0x1.277e3cp-2f,
                         -0x1.eabd0ep-3f, 0x1.a30586p-3f, -0x1.87485p-3f, 0x1.7d47e6p-3f,
                         -0x1.c26548p-4f);
    float small = mulAdd(f * f, q, f * 0x1.4ae0cp-26f);
    return logSpecial(x, d.exponent + mulAdd(f, 0x1.715476p0f, small));
  }
};

struct TanhFloat {
  static TILEWRIGHT_INLINE float apply(float x) {
    float magnitude = __builtin_fabsf(x);
    // tanh(x) = x + x^3 p(x^2) below 0.625: 4.4e-9.
    float square = x * x;
    float p = polynomial(square, -0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c5ap-5f, 0x1.522698p-6f,
                         -0x1.75e1c2p-8f);
    float near = mulAdd(magnitude * square, p, magnitude);
    // 1 - 2 / (e^2x + 1) above; rounds to 1 from 9.02 on.
    float bounded = magnitude > 10.0f ? 10.0f : magnitude;
    float far = 1.0f - 2.0f / (ExpFloat::apply(2.0f * bounded) + 1.0f);
    return __builtin_copysignf(magnitude < 0.625f ? near : far, x);
  }
};

#define TILEWRIGHT_LIBM_UNARY(Name, function)                                                      \
  struct Name {                                                                                    \
    static TILEWRIGHT_INLINE float apply(float a) { return __builtin_##function##f(a); }           \
    static TILEWRIGHT_INLINE double apply(double a) { return __builtin_##function(a); }            \
  };
#define TILEWRIGHT_LIBM_BINARY(Name, function)                                                     \
  struct Name {                                                                                    \
    static TILEWRIGHT_INLINE float apply(float a, float b) {                                       \
      return __builtin_##function##f(a, b);                                                        \
    }                                                                                              \
    static TILEWRIGHT_INLINE double apply(double a, double b) {                                    \
      return __builtin_##function(a, b);                                                           \
    }                                                                                              \
  };
TILEWRIGHT_LIBM_UNARY(Exp, exp)
TILEWRIGHT_LIBM_UNARY(Exp2, exp2)
TILEWRIGHT_LIBM_UNARY(ExpM1, expm1)
TILEWRIGHT_LIBM_UNARY(Log, log)
TILEWRIGHT_LIBM_UNARY(Log2, log2)
TILEWRIGHT_LIBM_UNARY(Log10, log10)
TILEWRIGHT_LIBM_UNARY(Log1p, log1p)
TILEWRIGHT_LIBM_UNARY(Cbrt, cbrt)
TILEWRIGHT_LIBM_UNARY(Sinh, sinh)
TILEWRIGHT_LIBM_UNARY(Cosh, cosh)
TILEWRIGHT_LIBM_UNARY(Tanh, tanh)
TILEWRIGHT_LIBM_UNARY(Sin, sin)
TILEWRIGHT_LIBM_UNARY(Cos, cos)
TILEWRIGHT_LIBM_UNARY(Tan, tan)
TILEWRIGHT_LIBM_UNARY(Asin, asin)
TILEWRIGHT_LIBM_UNARY(Acos, acos)
TILEWRIGHT_LIBM_UNARY(Atan, atan)
TILEWRIGHT_LIBM_UNARY(Erf, erf)
TILEWRIGHT_LIBM_UNARY(Erfc, erfc)
TILEWRIGHT_LIBM_BINARY(Pow, pow)
TILEWRIGHT_LIBM_BINARY(Atan2, atan2)
TILEWRIGHT_LIBM_BINARY(RemF, fmod)

template <typename T> void addLibm(KernelTable &table, Storage storage) {
  unsigned s = unsigned(storage);
  auto unary = [&](UnaryOp op) -> KernelTable::Unary & { return table.unary[unsigned(op)][s]; };
  unary(UnaryOp::Exp) = unaryLoop<T, T, Exp>;
  unary(UnaryOp::Exp2) = unaryLoop<T, T, Exp2>;
  unary(UnaryOp::ExpM1) = unaryLoop<T, T, ExpM1>;
  unary(UnaryOp::Log) = unaryLoop<T, T, Log>;
  unary(UnaryOp::Log2) = unaryLoop<T, T, Log2>;
  unary(UnaryOp::Log10) = unaryLoop<T, T, Log10>;
  unary(UnaryOp::Log1p) = unaryLoop<T, T, Log1p>;
  unary(UnaryOp::Cbrt) = unaryLoop<T, T, Cbrt>;
  unary(UnaryOp::Sinh) = unaryLoop<T, T, Sinh>;
  unary(UnaryOp::Cosh) = unaryLoop<T, T, Cosh>;
  unary(UnaryOp::Tanh) = unaryLoop<T, T, Tanh>;
  unary(UnaryOp::Sin) = unaryLoop<T, T, Sin>;
  unary(UnaryOp::Cos) = unaryLoop<T, T, Cos>;
  unary(UnaryOp::Tan) = unaryLoop<T, T, Tan>;
  unary(UnaryOp::Asin) = unaryLoop<T, T, Asin>;
  unary(UnaryOp::Acos) = unaryLoop<T, T, Acos>;
  unary(UnaryOp::Atan) = unaryLoop<T, T, Atan>;
  unary(UnaryOp::Erf) = unaryLoop<T, T, Erf>;
  unary(UnaryOp::Erfc) = unaryLoop<T, T, Erfc>;
  addBinary<T, T, Pow>(table.binary[unsigned(BinaryOp::Pow)][s]);
  addBinary<T, T, Atan2>(table.binary[unsigned(BinaryOp::Atan2)][s]);
  addBinary<T, T, RemF>(table.binary[unsigned(BinaryOp::RemF)][s]);
}

} // namespace

void addMathLoops(KernelTable &table) {
  addLibm<float>(table, Storage::F32);
  addLibm<double>(table, Storage::F64);
  unsigned f32 = unsigned(Storage::F32);
  table.unary[unsigned(UnaryOp::Exp)][f32] = unaryLoop<float, float, ExpFloat>;
  table.unary[unsigned(UnaryOp::Exp2)][f32] = unaryLoop<float, float, Exp2Float>;
  table.unary[unsigned(UnaryOp::Log)][f32] = unaryLoop<float, float, LogFloat>;
  table.unary[unsigned(UnaryOp::Log2)][f32] = unaryLoop<float, float, Log2Float>;
  table.unary[unsigned(UnaryOp::Tanh)][f32] = unaryLoop<float, float, TanhFloat>;
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA
