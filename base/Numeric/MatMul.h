// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The matrix product of two tiles.

#ifndef TILEWRIGHT_BASE_NUMERIC_MATMUL_H
#define TILEWRIGHT_BASE_NUMERIC_MATMUL_H

#include <cstdint>

namespace tilewright::numeric {

/// Sizes and layout of c[m, n] = acc[m, n] + op(a)[m, k] op(b)[k, n], all row-major. Leading
/// dimensions are in elements, from one stored row to the next.
struct MatMulShape {
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false; ///< a is stored as [k, m]
  bool transposeB = false; ///< b is stored as [n, k]
  int64_t lda = 0, ldb = 0, ldc = 0;

  /// Dense operands.
  static MatMulShape dense(int64_t m, int64_t n, int64_t k, bool transposeA = false,
                           bool transposeB = false) {
    return {m, n, k, transposeA, transposeB, transposeA ? m : k, transposeB ? k : n, n};
  }
};

/// Without `acc` the product alone. `acc` has the layout of `c` and may be `c`; `a` and `b` must
/// not overlap `c`. Products and sums are in the operands' own type, so infinities and NaNs come
/// out as in the plain formula. k = 0 gives acc or zero. Single-threaded; the same inputs give the
/// same bits.
void matmul(const MatMulShape &shape, const float *a, const float *b, const float *acc, float *c);
void matmul(const MatMulShape &shape, const double *a, const double *b, const double *acc,
            double *c);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_MATMUL_H
