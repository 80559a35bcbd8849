// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plain matrix product and a parallel loop.

#include "test/Reference/Product.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

// One function for several instruction sets, selected at program start.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TILEWRIGHT_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TILEWRIGHT_CLONES
#endif

namespace tilewright::reference {

namespace {

// Blocks of b that remain in the second-level cache during a pass of all rows of a.
constexpr int64_t blockK = 64;
constexpr int64_t blockN = 256;

template <typename Real>
inline __attribute__((always_inline)) void
multiplyAddBlock(Real *__restrict__ c, const Real *a, int64_t strideA, const Real *__restrict__ b,
                 int64_t ldb, int64_t n, int64_t k) {
  int64_t t = 0;
  for (; t + 4 <= k; t += 4) {
    Real a0 = a[t * strideA], a1 = a[(t + 1) * strideA], a2 = a[(t + 2) * strideA],
         a3 = a[(t + 3) * strideA];
    const Real *__restrict__ b0 = b + t * ldb, *__restrict__ b1 = b0 + ldb,
                             *__restrict__ b2 = b1 + ldb, *__restrict__ b3 = b2 + ldb;
    for (int64_t j = 0; j < n; ++j)
      c[j] = (((c[j] + a0 * b0[j]) + a1 * b1[j]) + a2 * b2[j]) + a3 * b3[j];
  }
  for (; t < k; ++t) {
    Real a0 = a[t * strideA];
    const Real *__restrict__ b0 = b + t * ldb;
    for (int64_t j = 0; j < n; ++j)
      c[j] += a0 * b0[j];
  }
}

template <typename Real>
inline __attribute__((always_inline)) void multiplyAddAll(Real *c, int64_t ldc, MatrixRef<Real> a,
                                                          const Real *b, int64_t ldb, int64_t m,
                                                          int64_t n, int64_t k, SumOrder order) {
  if (m == 0 || n == 0 || k == 0) // operands may be null
    return;
  if (order == SumOrder::Descending) {
    // The same with the rows of b, and the columns of a, in reverse order.
    a.data += (k - 1) * a.colStride;
    a.colStride = -a.colStride;
    b += (k - 1) * ldb;
    ldb = -ldb;
  }
  for (int64_t j = 0; j < n; j += blockN)
    for (int64_t t = 0; t < k; t += blockK)
      for (int64_t i = 0; i < m; ++i)
        multiplyAddBlock(c + i * ldc + j, a.data + i * a.rowStride + t * a.colStride, a.colStride,
                         b + t * ldb + j, ldb, std::min(blockN, n - j), std::min(blockK, k - t));
}

template <typename Real>
void multiplyAddNonzero(Real *c, int64_t ldc, MatrixRef<Real> a, const Real *b, int64_t ldb,
                        int64_t m, int64_t n, int64_t k, SumOrder order) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t step = 0; step < k; ++step) {
      int64_t t = order == SumOrder::Descending ? k - 1 - step : step;
      Real factor = a.data[i * a.rowStride + t * a.colStride];
      if (factor == Real(0))
        continue;
      for (int64_t j = 0; j < n; ++j)
        c[i * ldc + j] += factor * b[t * ldb + j];
    }
}

TILEWRIGHT_CLONES void multiplyAddDouble(double *c, int64_t ldc, MatrixRef<double> a,
                                         const double *b, int64_t ldb, int64_t m, int64_t n,
                                         int64_t k, SumOrder order) {
  multiplyAddAll(c, ldc, a, b, ldb, m, n, k, order);
}

TILEWRIGHT_CLONES void multiplyAddFloat(float *c, int64_t ldc, MatrixRef<float> a, const float *b,
                                        int64_t ldb, int64_t m, int64_t n, int64_t k,
                                        SumOrder order) {
  multiplyAddAll(c, ldc, a, b, ldb, m, n, k, order);
}

} // namespace

void multiplyAdd(double *c, int64_t ldc, MatrixRef<double> a, const double *b, int64_t ldb,
                 int64_t m, int64_t n, int64_t k, SumOrder order, bool skipZeros) {
  if (skipZeros)
    multiplyAddNonzero(c, ldc, a, b, ldb, m, n, k, order);
  else if (k > 0)
    multiplyAddDouble(c, ldc, a, b, ldb, m, n, k, order);
}

void multiplyAdd(float *c, int64_t ldc, MatrixRef<float> a, const float *b, int64_t ldb, int64_t m,
                 int64_t n, int64_t k, SumOrder order, bool skipZeros) {
  if (skipZeros)
    multiplyAddNonzero(c, ldc, a, b, ldb, m, n, k, order);
  else if (k > 0)
    multiplyAddFloat(c, ldc, a, b, ldb, m, n, k, order);
}

void parallelFor(int64_t n, const std::function<void(int64_t)> &body) {
  int64_t numThreads = std::min<int64_t>(n, std::max(1u, std::thread::hardware_concurrency()));
  if (numThreads <= 1) {
    for (int64_t i = 0; i < n; ++i)
      body(i);
    return;
  }
  std::atomic<int64_t> next{0};
  auto work = [&] {
    for (int64_t i; (i = next++) < n;)
      body(i);
  };
  std::vector<std::thread> threads;
  for (int64_t t = 1; t < numThreads; ++t)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace tilewright::reference
