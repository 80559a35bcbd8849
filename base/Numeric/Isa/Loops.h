// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared code of the files of Isa/: bit casts and the loops around a scalar function. The loops are
// plain C++ that the compiler vectorizes, so an operation is one function without branches.
//
// An operation is a struct with `template <typename T> static R apply(T...)`, or the same without
// the template.

#ifndef TILEWRIGHT_BASE_NUMERIC_ISA_LOOPS_H
#define TILEWRIGHT_BASE_NUMERIC_ISA_LOOPS_H

#include "base/Numeric/KernelTable.h"

#ifndef TILEWRIGHT_ISA
#error "TILEWRIGHT_ISA names the instruction set that this file is compiled for"
#endif

// The result may be an operand, element by element: no iteration depends on another.
#ifdef __clang__
#define TILEWRIGHT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define TILEWRIGHT_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define TILEWRIGHT_INLINE inline __attribute__((always_inline))

namespace tilewright::numeric::TILEWRIGHT_ISA {

template <typename To, typename From> TILEWRIGHT_INLINE To bitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the width");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

/// a * b + c, with one rounding where the processor can.
TILEWRIGHT_INLINE float mulAdd(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/// Horner's rule, the coefficient of x^0 first.
TILEWRIGHT_INLINE float polynomial(float x, float c) { return c; }
template <typename... Rest> TILEWRIGHT_INLINE float polynomial(float x, float c, Rest... rest) {
  return mulAdd(x, polynomial(x, rest...), c);
}

template <typename T, typename R, typename Op> void unaryLoop(const void *a, void *out, size_t n) {
  auto *x = static_cast<const T *>(a);
  auto *r = static_cast<R *>(out);
  TILEWRIGHT_INDEPENDENT
  for (size_t i = 0; i < n; ++i)
    r[i] = Op::apply(x[i]);
}

/// `side` says which operand is a single element.
template <typename T, typename R, typename Op, SplatSide side>
OpError binaryLoop(const void *a, const void *b, void *out, size_t n) {
  auto *x = static_cast<const T *>(a);
  auto *y = static_cast<const T *>(b);
  auto *r = static_cast<R *>(out);
  if constexpr (side == SplatSide::Left) {
    T left = *x;
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i)
      r[i] = Op::apply(left, y[i]);
  } else if constexpr (side == SplatSide::Right) {
    T right = *y;
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i)
      r[i] = Op::apply(x[i], right);
  } else {
    TILEWRIGHT_INDEPENDENT
    for (size_t i = 0; i < n; ++i)
      r[i] = Op::apply(x[i], y[i]);
  }
  return OpError::None;
}

template <typename T, typename R, typename Op>
TILEWRIGHT_INLINE void addBinary(KernelTable::Binary (&entry)[numSplatSides]) {
  entry[unsigned(SplatSide::None)] = binaryLoop<T, R, Op, SplatSide::None>;
  entry[unsigned(SplatSide::Left)] = binaryLoop<T, R, Op, SplatSide::Left>;
  entry[unsigned(SplatSide::Right)] = binaryLoop<T, R, Op, SplatSide::Right>;
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA

#endif // TILEWRIGHT_BASE_NUMERIC_ISA_LOOPS_H
