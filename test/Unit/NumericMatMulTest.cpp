// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products against the plain formula.

#include "NumericTesting.h"
#include "base/Numeric/MatMul.h"

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

class NumericMatMul : public IsaTest {};
TILEWRIGHT_FOR_EVERY_ISA(NumericMatMul);

struct Sizes {
  int64_t m, n, k;
};
const Sizes allSizes[] = {{1, 1, 1},     {1, 64, 33},    {64, 1, 33},  {3, 5, 2},  {2, 2, 100},
                          {16, 16, 16},  {17, 19, 23},   {64, 64, 1},  {2, 9, 65}, {33, 65, 40},
                          {128, 72, 64}, {128, 128, 96}, {5, 130, 257}};

/// Operands with gaps between the rows, filled with integers so that every order of summation gives
/// the same result.
template <typename T> struct Problem {
  MatMulShape shape;
  std::vector<T> a, b, acc;

  Problem(Sizes s, bool transposeA, bool transposeB, int64_t gap)
      : shape(MatMulShape::dense(s.m, s.n, s.k, transposeA, transposeB)) {
    shape.lda += gap;
    shape.ldb += 2 * gap;
    shape.ldc += 3 * gap;
    Random random(s.m * 100 + s.n);
    auto fill = [&](std::vector<T> &values, int64_t rows, int64_t stride) {
      values.resize(rows * stride);
      for (T &value : values)
        value = T(random.integer(-8, 8));
    };
    fill(a, transposeA ? s.k : s.m, shape.lda);
    fill(b, transposeB ? s.n : s.k, shape.ldb);
    fill(acc, s.m, shape.ldc);
  }

  T left(int64_t i, int64_t l) const {
    return shape.transposeA ? a[l * shape.lda + i] : a[i * shape.lda + l];
  }
  T right(int64_t l, int64_t j) const {
    return shape.transposeB ? b[j * shape.ldb + l] : b[l * shape.ldb + j];
  }
  T expected(int64_t i, int64_t j, bool withAcc) const {
    T sum = withAcc ? acc[i * shape.ldc + j] : T(0);
    for (int64_t l = 0; l < shape.k; ++l)
      sum += left(i, l) * right(l, j);
    return sum;
  }
};

template <typename T> void checkAll() {
  for (Sizes sizes : allSizes)
    for (int mode = 0; mode < 8; ++mode) {
      Problem<T> p(sizes, mode & 1, mode & 2, mode & 4 ? 3 : 0);
      for (int accMode = 0; accMode < 3; ++accMode) { // none, another tile, the result itself
        std::vector<T> c(p.acc.size(), T(77));
        if (accMode == 2)
          c = p.acc;
        matmul(p.shape, p.a.data(), p.b.data(),
               accMode == 0   ? nullptr
               : accMode == 1 ? p.acc.data()
                              : c.data(),
               c.data());
        for (int64_t i = 0; i < sizes.m; ++i)
          for (int64_t j = 0; j < p.shape.ldc; ++j) {
            T before = accMode == 2 ? p.acc[i * p.shape.ldc + j] : T(77);
            T expected = j < sizes.n ? p.expected(i, j, accMode != 0) : before;
            ASSERT_EQ(c[i * p.shape.ldc + j], expected)
                << sizes.m << "x" << sizes.n << "x" << sizes.k << " mode " << mode << " acc "
                << accMode << " at " << i << ", " << j;
          }
      }
    }
}

TEST_P(NumericMatMul, ExactOnIntegersF32) { checkAll<float>(); }
TEST_P(NumericMatMul, ExactOnIntegersF64) { checkAll<double>(); }

TEST_P(NumericMatMul, EmptySizes) {
  float acc[4] = {1, 2, 3, 4}, c[4] = {9, 9, 9, 9};
  matmul(MatMulShape::dense(2, 2, 0), static_cast<const float *>(nullptr), nullptr, acc, c);
  EXPECT_EQ(c[3], 4);
  matmul(MatMulShape::dense(2, 2, 0), static_cast<const float *>(nullptr), nullptr, nullptr, c);
  EXPECT_EQ(c[3], 0);
  c[0] = 5;
  matmul(MatMulShape::dense(0, 2, 3), acc, acc, nullptr, c);
  EXPECT_EQ(c[0], 5);
}

TEST_P(NumericMatMul, NaNAndInfinityReachTheirRowAndColumnOnly) {
  for (Sizes sizes : {Sizes{1, 40, 40}, Sizes{5, 6, 7}, Sizes{33, 47, 65}}) {
    Problem<float> p(sizes, false, true, 0);
    int64_t l = sizes.k / 2, row = sizes.m / 2, column = sizes.n - 1;
    p.a[row * p.shape.lda + l] = notANumber;
    for (int64_t j = 0; j < sizes.n; ++j)
      p.b[j * p.shape.ldb + l] = 1;
    p.b[column * p.shape.ldb + l] = infinity;
    for (int64_t i = 0; i < sizes.m; ++i)
      if (i != row)
        p.a[i * p.shape.lda + l] = i % 2 ? 2.0f : 0.0f; // infinity times zero is NaN
    std::vector<float> c(p.acc.size());
    matmul(p.shape, p.a.data(), p.b.data(), nullptr, c.data());
    for (int64_t i = 0; i < sizes.m; ++i)
      for (int64_t j = 0; j < sizes.n; ++j)
        ASSERT_TRUE(isSame(c[i * sizes.n + j], p.expected(i, j, false))) << i << ", " << j;
  }
}

TEST_P(NumericMatMul, BitsDoNotDependOnAlignment) {
  for (Sizes sizes : allSizes)
    for (bool transposeB : {false, true}) {
      MatMulShape shape = MatMulShape::dense(sizes.m, sizes.n, sizes.k, false, transposeB);
      std::vector<float> a(sizes.m * sizes.k + 16), b(sizes.n * sizes.k + 16),
          c(sizes.m * sizes.n + 16), first;
      for (int shift = 0; shift < 16; shift += 3) {
        Random random(5);
        for (int64_t i = 0; i < sizes.m * sizes.k; ++i)
          a[i + shift] = float(random.uniform());
        for (int64_t i = 0; i < sizes.n * sizes.k; ++i)
          b[i + 15 - shift] = float(random.uniform());
        matmul(shape, &a[shift], &b[15 - shift], nullptr, &c[shift]);
        std::vector<float> result(&c[shift], &c[shift] + sizes.m * sizes.n);
        if (shift == 0)
          first = result;
        ASSERT_EQ(result, first) << sizes.m << "x" << sizes.n << "x" << sizes.k;
      }
    }
}

} // namespace
