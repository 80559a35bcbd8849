// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle's own rounding to the element types, through exact scaling in double: x is divided by
// the distance of the type's neighboring values at x (a power of two), rounded to an integer, and
// multiplied back. Nothing here is shared with base/Numeric, against which it is tested.

#ifndef TILEWRIGHT_TEST_REFERENCE_ROUNDING_H
#define TILEWRIGHT_TEST_REFERENCE_ROUNDING_H

#include <cstddef>
#include <vector>

namespace tilewright::reference {

enum class Type { F64, F32, F16, BF16, E4M3, E5M2 };

/// "f64", "f32", "f16", "bf16", "e4m3", "e5m2": the names of tilewright-run.
const char *typeName(Type type);

/// Half the relative distance of neighboring values: 2^-53, 2^-24, 2^-11, 2^-8, 2^-4, 2^-3.
double unitRoundoff(Type type);

/// The largest finite value.
double largestFinite(Type type);

/// The value of the type nearest to x, ties to even. Overflow gives an infinity, in e4m3 (which has
/// none) a NaN.
double roundTo(Type type, double x);

void roundTo(Type type, std::vector<double> &values);

/// Rounds floats in place; nothing for f64 and f32. The same values as roundTo, but fast for f16
/// and bf16.
void roundFloats(Type type, float *values, size_t n);

/// The unit of the accuracy rule: |x + 0.3 - 0.3 - x| for x in the type, each operation rounded to
/// the type. As in PyTorch (where FlashAttention's tests evaluate it), the constant 0.3 is a float
/// for types of up to 32 bits and a double for f64.
double perturbation(Type type, double x);

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_ROUNDING_H
