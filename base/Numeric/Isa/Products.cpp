// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products by Eigen, whose namespace is renamed for each instruction set: its inline
// functions, compiled with different flags, must stay different functions to the linker.

#if defined(TILEWRIGHT_ISA_IS_AVX512)
#define Eigen EigenForAvx512
#elif defined(TILEWRIGHT_ISA_IS_AVX2)
#define Eigen EigenForAvx2
#else
#define Eigen EigenForBaseline
#endif

// The packed panels of a product of tiles fit on the stack, so that products allocate nothing.
#define EIGEN_STACK_ALLOCATION_LIMIT (512 * 1024)
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_DEBUG
#include <Eigen/Core>

#include "base/Numeric/Isa/Loops.h"

namespace tilewright::numeric::TILEWRIGHT_ISA {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using InputMap = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

/// sum over k of x[k * stepX] y[k * stepY].
template <typename T> T dot(const T *x, int64_t stepX, const T *y, int64_t stepY, int64_t k) {
  constexpr int64_t lanes = 128 / sizeof(T);
  T partial[lanes] = {};
  int64_t i = 0;
  if (stepX == 1 && stepY == 1)
    for (; i + lanes <= k; i += lanes)
      for (int64_t l = 0; l < lanes; ++l)
        partial[l] += x[i + l] * y[i + l];
  for (; i < k; ++i)
    partial[0] += x[i * stepX] * y[i * stepY];
  for (int64_t half = lanes / 2; half != 0; half /= 2)
    for (int64_t l = 0; l < half; ++l)
      partial[l] += partial[l + half];
  return partial[0];
}

/// Vectors and tiny matrices: Eigen would choose other algorithms for them, some of whose results
/// depend on alignment, or allocate.
template <typename T> void smallProduct(const MatMulShape &shape, const T *a, const T *b, T *c) {
  int64_t rowA = shape.transposeA ? 1 : shape.lda, stepA = shape.transposeA ? shape.lda : 1;
  int64_t columnB = shape.transposeB ? shape.ldb : 1, stepB = shape.transposeB ? 1 : shape.ldb;
  for (int64_t i = 0; i < shape.m; ++i) {
    T *row = c + i * shape.ldc;
    if (shape.transposeB || shape.n == 1) {
      for (int64_t j = 0; j < shape.n; ++j)
        row[j] += dot(a + i * rowA, stepA, b + j * columnB, stepB, shape.k);
      continue;
    }
    for (int64_t l = 0; l < shape.k; ++l) {
      T left = a[i * rowA + l * stepA];
      const T *right = b + l * stepB;
      TILEWRIGHT_INDEPENDENT
      for (int64_t j = 0; j < shape.n; ++j)
        row[j] += left * right[j];
    }
  }
}

template <typename T> void product(const MatMulShape &shape, const T *a, const T *b, T *c) {
  if (shape.m == 1 || shape.n == 1 || shape.m + shape.n + shape.k < 32)
    return smallProduct(shape, a, b, c);
  Eigen::OuterStride<> strideA(shape.lda), strideB(shape.ldb), strideC(shape.ldc);
  Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>> result(c, shape.m, shape.n,
                                                                       strideC);
  InputMap<T> left(a, shape.transposeA ? shape.k : shape.m, shape.transposeA ? shape.m : shape.k,
                   strideA);
  InputMap<T> right(b, shape.transposeB ? shape.n : shape.k, shape.transposeB ? shape.k : shape.n,
                    strideB);
  if (shape.transposeA && shape.transposeB)
    result.noalias() += left.transpose() * right.transpose();
  else if (shape.transposeA)
    result.noalias() += left.transpose() * right;
  else if (shape.transposeB)
    result.noalias() += left * right.transpose();
  else
    result.noalias() += left * right;
}

} // namespace

void addProducts(KernelTable &table) {
  table.productF32 = product<float>;
  table.productF64 = product<double>;
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA
