// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fast building blocks of the oracle: a plain matrix product that compilers vectorize, and a loop
// over all cores.

#ifndef TILEWRIGHT_TEST_REFERENCE_PRODUCT_H
#define TILEWRIGHT_TEST_REFERENCE_PRODUCT_H

#include <cstdint>
#include <functional>

namespace tilewright::reference {

/// A matrix inside an array: element (r, c) is at data[r * rowStride + c * colStride].
template <typename Real> struct MatrixRef {
  const Real *data;
  int64_t rowStride;
  int64_t colStride = 1;
};

/// The order in which the terms of a sum are added, by which two f64 results of one formula differ.
enum class SumOrder { Ascending, Descending };

/// c[m, n] += a[m, k] * b[k, n], where each element is summed over k in the given order. The
/// columns of b and c are contiguous. With skipZeros, terms whose a is zero are omitted, so that an
/// infinity or NaN in a row of b only reaches the rows of c that use it.
void multiplyAdd(double *c, int64_t ldc, MatrixRef<double> a, const double *b, int64_t ldb,
                 int64_t m, int64_t n, int64_t k, SumOrder order, bool skipZeros = false);
void multiplyAdd(float *c, int64_t ldc, MatrixRef<float> a, const float *b, int64_t ldb, int64_t m,
                 int64_t n, int64_t k, SumOrder order, bool skipZeros = false);

/// Calls body(i) for 0 <= i < n on all cores. Bodies must write to different places; their order is
/// not defined.
void parallelFor(int64_t n, const std::function<void(int64_t)> &body);

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_PRODUCT_H
