// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Initializes the result and calls Eigen for the product.

#include "base/Numeric/MatMul.h"
#include "base/Numeric/KernelTable.h"

#include <cstring>

using namespace tilewright::numeric;

namespace {

template <typename T, typename Product>
void run(const MatMulShape &shape, const T *a, const T *b, const T *acc, T *c, Product product) {
  if (shape.m <= 0 || shape.n <= 0)
    return;
  if (acc != c) {
    for (int64_t i = 0; i < shape.m; ++i) {
      T *row = c + i * shape.ldc;
      if (acc)
        std::memcpy(row, acc + i * shape.ldc, shape.n * sizeof(T));
      else
        std::memset(row, 0, shape.n * sizeof(T));
    }
  }
  if (shape.k > 0)
    product(shape, a, b, c);
}

} // namespace

void tilewright::numeric::matmul(const MatMulShape &shape, const float *a, const float *b,
                                 const float *acc, float *c) {
  run(shape, a, b, acc, c, kernels().productF32);
}

void tilewright::numeric::matmul(const MatMulShape &shape, const double *a, const double *b,
                                 const double *acc, double *c) {
  run(shape, a, b, acc, c, kernels().productF64);
}
