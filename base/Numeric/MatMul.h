// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The matrix product of two tiles.

#ifndef TILEWRIGHT_BASE_NUMERIC_MATMUL_H
#define TILEWRIGHT_BASE_NUMERIC_MATMUL_H

#include "base/Numeric/Operators.h"

namespace tilewright::numeric {

/// Without `acc` the product alone. `acc` has the layout of `c` and may be `c`; `a` and `b` must
/// not overlap `c`. Products and sums are in the operands' own type, so infinities and NaNs come
/// out as in the plain formula. k = 0 gives acc or zero. Single-threaded; the same inputs give the
/// same bits.
void matmul(const MatMulShape &shape, const float *a, const float *b, const float *acc, float *c);
void matmul(const MatMulShape &shape, const double *a, const double *b, const double *acc,
            double *c);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_MATMUL_H
