// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float arithmetic that is one or a few instructions: no transcendental functions.

#include "base/Numeric/Isa/FloatOps.h"
#include "base/Numeric/Isa/Loops.h"

namespace tilewright::numeric::TILEWRIGHT_ISA {
namespace {

struct Neg {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a) { return -a; }
};
/// A function that the compiler has for both types.
#define TILEWRIGHT_BUILTIN(NAME, BUILTIN)                                                          \
  struct NAME {                                                                                    \
    static TILEWRIGHT_INLINE float apply(float a) { return BUILTIN##f(a); }                        \
    static TILEWRIGHT_INLINE double apply(double a) { return BUILTIN(a); }                         \
  };
TILEWRIGHT_BUILTIN(Abs, __builtin_fabs)
TILEWRIGHT_BUILTIN(Sqrt, __builtin_sqrt)
TILEWRIGHT_BUILTIN(Floor, __builtin_floor)
TILEWRIGHT_BUILTIN(Ceil, __builtin_ceil)
TILEWRIGHT_BUILTIN(Trunc, __builtin_trunc)
TILEWRIGHT_BUILTIN(Round, __builtin_round)
// The rounding mode is never changed, so the current one is to nearest even.
TILEWRIGHT_BUILTIN(RoundEven, __builtin_nearbyint)
#undef TILEWRIGHT_BUILTIN

struct Rsqrt {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a) { return T(1) / Sqrt::apply(a); }
};
struct CopySign {
  static TILEWRIGHT_INLINE float apply(float a, float b) { return __builtin_copysignf(a, b); }
  static TILEWRIGHT_INLINE double apply(double a, double b) { return __builtin_copysign(a, b); }
};
struct Fma {
  static TILEWRIGHT_INLINE float apply(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
  }
  static TILEWRIGHT_INLINE double apply(double a, double b, double c) {
    return __builtin_fma(a, b, c);
  }
};

template <typename T>
void fmaLoop(const void *a, bool splatA, const void *b, bool splatB, const void *c, bool splatC,
             void *out, size_t n) {
  auto *x = static_cast<const T *>(a);
  auto *y = static_cast<const T *>(b);
  auto *z = static_cast<const T *>(c);
  auto *r = static_cast<T *>(out);
  if (!splatA && !splatB && !splatC) {
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i)
      r[i] = Fma::apply(x[i], y[i], z[i]);
  } else if (!splatA && splatB && !splatC) {
    T right = *y;
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i)
      r[i] = Fma::apply(x[i], right, z[i]);
  } else if (!splatA && splatB && splatC) {
    T right = *y, addend = *z;
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i)
      r[i] = Fma::apply(x[i], right, addend);
  } else {
    size_t stepA = !splatA, stepB = !splatB, stepC = !splatC;
    for (size_t i = 0; i < n; ++i)
      r[i] = Fma::apply(x[i * stepA], y[i * stepB], z[i * stepC]);
  }
}

template <typename Word>
void selectLoop(const void *a, bool splatA, const void *b, bool splatB, const void *c, bool splatC,
                void *out, size_t n) {
  // Words instead of floats: a NaN's payload is kept.
  auto *condition = static_cast<const uint8_t *>(a);
  auto *x = static_cast<const Word *>(b);
  auto *y = static_cast<const Word *>(c);
  auto *r = static_cast<Word *>(out);
  if (splatA) {
    const Word *from = *condition ? x : y;
    if (*condition ? splatB : splatC) {
      Word element = *from;
      for (size_t i = 0; i < n; ++i)
        r[i] = element;
    } else {
      __builtin_memmove(r, from, n * sizeof(Word));
    }
  } else if (splatB && splatC) {
    Word left = *x, right = *y;
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i)
      r[i] = condition[i] ? left : right;
  } else if (splatC) {
    Word right = *y;
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i) {
      Word left = x[i];
      r[i] = condition[i] ? left : right;
    }
  } else if (splatB) {
    Word left = *x;
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i) {
      Word right = y[i];
      r[i] = condition[i] ? left : right;
    }
  } else {
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i) {
      Word left = x[i], right = y[i];
      r[i] = condition[i] ? left : right;
    }
  }
}

template <typename T> void addFor(KernelTable &table, Storage storage) {
  unsigned s = unsigned(storage);
  auto unary = [&](UnaryOp op) -> KernelTable::Unary & { return table.unary[unsigned(op)][s]; };
  auto binary = [&](BinaryOp op) -> auto & { return table.binary[unsigned(op)][s]; };
  unary(UnaryOp::NegF) = unaryLoop<T, T, Neg>;
  unary(UnaryOp::AbsF) = unaryLoop<T, T, Abs>;
  unary(UnaryOp::Sqrt) = unaryLoop<T, T, Sqrt>;
  unary(UnaryOp::Rsqrt) = unaryLoop<T, T, Rsqrt>;
  unary(UnaryOp::Floor) = unaryLoop<T, T, Floor>;
  unary(UnaryOp::Ceil) = unaryLoop<T, T, Ceil>;
  unary(UnaryOp::Trunc) = unaryLoop<T, T, Trunc>;
  unary(UnaryOp::Round) = unaryLoop<T, T, Round>;
  unary(UnaryOp::RoundEven) = unaryLoop<T, T, RoundEven>;
  addBinary<T, T, Add>(binary(BinaryOp::AddF));
  addBinary<T, T, Sub>(binary(BinaryOp::SubF));
  addBinary<T, T, Mul>(binary(BinaryOp::MulF));
  addBinary<T, T, Div>(binary(BinaryOp::DivF));
  addBinary<T, T, Maximum>(binary(BinaryOp::MaximumF));
  addBinary<T, T, Minimum>(binary(BinaryOp::MinimumF));
  addBinary<T, T, MaxNum>(binary(BinaryOp::MaxNumF));
  addBinary<T, T, MinNum>(binary(BinaryOp::MinNumF));
  addBinary<T, T, CopySign>(binary(BinaryOp::CopySign));
  table.fma[s] = fmaLoop<T>;
}

} // namespace

void addFloatLoops(KernelTable &table) {
  addFor<float>(table, Storage::F32);
  addFor<double>(table, Storage::F64);
  table.select[unsigned(Storage::F64)] = selectLoop<uint64_t>;
  table.select[unsigned(Storage::F32)] = selectLoop<uint32_t>;
  table.select[unsigned(Storage::I64)] = selectLoop<uint64_t>;
  table.select[unsigned(Storage::I32)] = selectLoop<uint32_t>;
  table.select[unsigned(Storage::I1)] = selectLoop<uint8_t>;
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA
