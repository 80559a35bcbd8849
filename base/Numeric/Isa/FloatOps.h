// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float operations that both the elementwise loops and the reductions use.

#ifndef TILEWRIGHT_BASE_NUMERIC_ISA_FLOATOPS_H
#define TILEWRIGHT_BASE_NUMERIC_ISA_FLOATOPS_H

#include "base/Numeric/Isa/Loops.h"

namespace tilewright::numeric::TILEWRIGHT_ISA {

struct Add {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) { return a + b; }
};
struct Sub {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) { return a - b; }
};
struct Mul {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) { return a * b; }
};
struct Div {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) { return a / b; }
};

TILEWRIGHT_INLINE uint32_t wordOf(float value) { return bitsAs<uint32_t>(value); }
TILEWRIGHT_INLINE uint64_t wordOf(double value) { return bitsAs<uint64_t>(value); }

struct Maximum {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    T larger = a > b ? a : b;                   // b if b is a NaN
    T equal = bitsAs<T>(wordOf(a) & wordOf(b)); // +0 if both are zeros
    T result = a == b ? equal : larger;
    return a != a ? a : result;
  }
};
struct Minimum {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    T smaller = a < b ? a : b;
    T equal = bitsAs<T>(wordOf(a) | wordOf(b));
    T result = a == b ? equal : smaller;
    return a != a ? a : result;
  }
};
struct MaxNum {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    T larger = a > b ? a : b; // b if either is a NaN
    return b != b ? a : larger;
  }
};
struct MinNum {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    T smaller = a < b ? a : b;
    return b != b ? a : smaller;
  }
};

} // namespace tilewright::numeric::TILEWRIGHT_ISA

#endif // TILEWRIGHT_BASE_NUMERIC_ISA_FLOATOPS_H
