// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Private to the oracle: scores and probabilities of a block of query rows of one head, over all
// keys; the common part of forward and backward.

#ifndef TILEWRIGHT_TEST_REFERENCE_ATTENTIONROWS_H
#define TILEWRIGHT_TEST_REFERENCE_ATTENTIONROWS_H

#include "test/Reference/Attention.h"
#include "test/Reference/Product.h"
#include "test/Reference/SumError.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilewright::reference {

inline constexpr int64_t rowsPerBlock = 32;

inline void roundAll(Type type, float *values, size_t n) { roundFloats(type, values, n); }
inline void roundAll(Type type, double *values, size_t n) {
  for (size_t i = 0; type != Type::F64 && i < n; ++i)
    values[i] = roundTo(type, values[i]);
}

/// The sum, in eight interleaved parts.
template <typename Real> Real sumOf(const Real *values, int64_t n, SumOrder order) {
  Real parts[8] = {};
  for (int64_t i = 0; i < n; ++i)
    parts[i & 7] += values[order == SumOrder::Descending ? n - 1 - i : i];
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) +
         ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

template <typename Real> std::vector<double> squaresOf(const std::vector<Real> &values) {
  std::vector<double> squares(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    squares[i] = squareOf(values[i]);
  return squares;
}

/// c[m, n] += a[m, k] * b[k, n] for sums of squares. If few rows count, most of a is zero.
inline void addSquares(std::vector<double> &c, int64_t firstRow, MatrixRef<double> a,
                       const double *b, int64_t m, int64_t n, int64_t k,
                       const RoundoffModel &model) {
  multiplyAdd(c.data() + firstRow * n, n, a, b, n, m, n, k, SumOrder::Ascending,
              model.rows == RoundoffModel::SingleKey);
}

/// The data that all query heads of a group share: keys and values of (b, kv head), and their
/// transposes.
template <typename Real> struct KeyHead {
  std::vector<Real> k, kT;                              // [Skv, D], [D, Skv]
  std::vector<Real> v, vT;                              // [Skv, DV], [DV, Skv]
  std::vector<double> normK, normV, squaresK, squaresV; // only for the expected roundoff

  KeyHead(const AttentionProblem &problem, const AttentionInputs &inputs, int64_t b, int64_t kvHead,
          bool withRoundoff)
      : k(head(inputs.k, problem.Skv * problem.D, b * problem.Hkv + kvHead)),
        kT(transposed(k, problem.Skv, problem.D)),
        v(head(inputs.v, problem.Skv * problem.DV, b * problem.Hkv + kvHead)),
        vT(transposed(v, problem.Skv, problem.DV)) {
    if (!withRoundoff)
      return;
    normK = norms(k, problem.Skv, problem.D);
    normV = norms(v, problem.Skv, problem.DV);
    squaresK = squaresOf(k);
    squaresV = squaresOf(v);
  }

  static std::vector<Real> head(const std::vector<double> &all, int64_t size, int64_t index) {
    return std::vector<Real>(all.begin() + index * size, all.begin() + (index + 1) * size);
  }
  static std::vector<Real> transposed(const std::vector<Real> &m, int64_t rows, int64_t cols) {
    std::vector<Real> result(m.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        result[c * rows + r] = m[r * cols + c];
    return result;
  }
  static std::vector<double> norms(const std::vector<Real> &m, int64_t rows, int64_t cols) {
    std::vector<double> result(rows);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0.0;
      for (int64_t c = 0; c < cols; ++c)
        sum += static_cast<double>(m[r * cols + c]) * m[r * cols + c];
      result[r] = std::sqrt(sum);
    }
    return result;
  }
};

/// The source of P for a block of rows.
enum class ProbabilitySource {
  Softmax, // exp(s - max) / sum
  Lse,     // exp(s - lse), as a backward recomputes it
  Saved,   // inputs.probabilities
};

/// Rows begin <= i < begin + rows of head (b, h). All matrices are [rows, n] with n = jEnd -
/// jBegin, the hull of the keys that any of the rows keeps.
template <typename Real> struct RowBlock {
  const AttentionProblem &problem;
  const AttentionInputs &inputs;
  const Precision &precision;
  const KeyHead<Real> &keys;
  int64_t b, h, begin, rows;
  int64_t jBegin = 0, n = 0;

  std::vector<Real> q;         // [rows, D]
  std::vector<char> kept;      // the mask
  std::vector<Real> scaled;    // scale * q . k, before the score modifier
  std::vector<Real> s;         // after modifier and bias; -inf where not kept
  std::vector<Real> p;         // probabilities (or exp(s - max), if roundBeforeNormalizing)
  std::vector<Real> dropScale; // keep / (1 - p); empty without dropout
  std::vector<Real> z;         // p after dropout
  std::vector<Real> sum;       // [rows], the divisor that is still to be applied; 1 mostly
  std::vector<Real> lse;       // [rows]

  RowBlock(const AttentionProblem &problem, const AttentionInputs &inputs,
           const Precision &precision, const KeyHead<Real> &keys, int64_t b, int64_t h,
           int64_t begin, ProbabilitySource source)
      : problem(problem), inputs(inputs), precision(precision), keys(keys), b(b), h(h),
        begin(begin), rows(std::min(rowsPerBlock, problem.Sq - begin)) {
    const double *first = inputs.q.data() + row(0) * problem.D;
    q.assign(first, first + rows * problem.D);
    findKept();
    scores();
    if (source == ProbabilitySource::Saved)
      loadProbabilities();
    else
      softmax(source == ProbabilitySource::Lse);
    dropout();
  }

  /// Index of row r in [B, Hq, Sq].
  int64_t row(int64_t r) const { return (b * problem.Hq + h) * problem.Sq + begin + r; }

  /// jBegin, or 0 if the block keeps nothing: a valid position in the arrays of keys.
  int64_t firstKey() const { return n ? jBegin : 0; }

  int64_t numKept(int64_t r) const {
    return std::count(kept.begin() + r * n, kept.begin() + (r + 1) * n, 1);
  }

  double normOfQ(int64_t r) const {
    double squares = 0.0;
    for (int64_t d = 0; d < problem.D; ++d)
      squares += static_cast<double>(q[r * problem.D + d]) * q[r * problem.D + d];
    return std::sqrt(squares);
  }

  /// The relative error of p_ij to expect in units of roundoff, before p is rounded: the
  /// exponential, the rounding of score and LSE, and the errors of a product of length D (of random
  /// signs: about 0.3 |q| |k|).
  double relativeErrorOfP(int64_t r, int64_t c, double normQ) const {
    if (std::isinf(s[r * n + c]))
      return 0.0; // a bias of -inf: p is exactly zero
    double lseSize = std::isfinite(lse[r]) ? std::fabs(static_cast<double>(lse[r])) : 0.0;
    return 1.0 + 0.5 * std::fabs(static_cast<double>(s[r * n + c])) + 0.5 * lseSize +
           0.3 * std::fabs(problem.scale) * normQ * keys.normK[jBegin + c];
  }

private:
  void findKept() {
    std::vector<char> all(rows * problem.Skv);
    int64_t jEnd = 0;
    jBegin = problem.Skv;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < problem.Skv; ++j)
        if (problem.keeps(b, h, begin + r, j)) {
          all[r * problem.Skv + j] = 1;
          jBegin = std::min(jBegin, j);
          jEnd = std::max(jEnd, j + 1);
        }
    n = std::max<int64_t>(jEnd - jBegin, 0);
    kept.resize(rows * n);
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(all.data() + r * problem.Skv + firstKey(), n, kept.data() + r * n);
  }

  void scores() {
    scaled.assign(rows * n, Real(0));
    multiplyAdd(scaled.data(), n, {q.data(), problem.D}, keys.kT.data() + firstKey(), problem.Skv,
                rows, n, problem.D, precision.order);
    s.resize(rows * n);
    int64_t batch = problem.firstBatch + b;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < n; ++c) {
        int64_t at = r * n + c, i = begin + r, j = jBegin + c;
        Real x = scaled[at] *= static_cast<Real>(problem.scale);
        if (!kept[at]) {
          s[at] = -std::numeric_limits<Real>::infinity();
          continue;
        }
        if (problem.score)
          x = static_cast<Real>(problem.score.value(x, batch, h, i, j));
        if (problem.bias)
          x += static_cast<Real>(
              problem.bias.values[problem.bias.index(batch, h, i, j, problem.Skv)]);
        s[at] = x;
      }
    roundAll(precision.score, s.data(), s.size());
  }

  void softmax(bool fromLse) {
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    p.assign(rows * n, Real(0));
    sum.assign(rows, Real(1));
    lse.assign(rows, -infinity);
    for (int64_t r = 0; r < rows; ++r) {
      const Real *score = s.data() + r * n;
      Real *prob = p.data() + r * n;
      // A NaN is never the maximum, but it is included in the sum.
      Real sink = problem.sinks.empty() ? -infinity : static_cast<Real>(problem.sinks[h]);
      Real max = sink;
      bool any = !(sink == -infinity);
      for (int64_t c = 0; c < n; ++c) {
        any = any || !(score[c] == -infinity);
        max = std::max(max, score[c]);
      }
      if (!any)
        continue;
      for (int64_t c = 0; c < n; ++c)
        prob[c] = score[c] == -infinity ? Real(0) : std::exp(score[c] - max);
      Real total = sumOf(prob, n, precision.order);
      if (!(sink == -infinity))
        total += std::exp(sink - max);
      lse[r] = max + std::log(total);
      if (precision.roundBeforeNormalizing)
        sum[r] = total;
      else
        for (int64_t c = 0; c < n; ++c)
          prob[c] = fromLse ? std::exp(score[c] - lse[r]) : prob[c] / total;
    }
    roundAll(precision.probability, p.data(), p.size());
  }

  void loadProbabilities() {
    p.assign(rows * n, Real(0));
    sum.assign(rows, Real(1));
    lse.assign(rows, Real(0));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < n; ++c)
        if (kept[r * n + c])
          p[r * n + c] = static_cast<Real>(inputs.probabilities[row(r) * problem.Skv + jBegin + c]);
  }

  void dropout() {
    z = p;
    if (!problem.dropout.isActive())
      return;
    dropScale.assign(rows * n, Real(0));
    Real scale = static_cast<Real>(problem.dropout.scale());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < n; ++c)
        if (problem.dropout.keeps(problem.firstBatch + b, h, begin + r, jBegin + c))
          dropScale[r * n + c] = scale;
    for (size_t at = 0; at < z.size(); ++at)
      z[at] *= dropScale[at];
    roundAll(precision.probability, z.data(), z.size());
  }
};

/// o = Z V for the rows of the block, [rows, DV], rounded to the output type.
template <typename Real> std::vector<Real> outputOf(const RowBlock<Real> &block, bool skipZeros) {
  int64_t dv = block.problem.DV;
  std::vector<Real> o(block.rows * dv, Real(0));
  multiplyAdd(o.data(), dv, {block.z.data(), block.n}, block.keys.v.data() + block.firstKey() * dv,
              dv, block.rows, dv, block.n, block.precision.order, skipZeros);
  for (int64_t r = 0; r < block.rows; ++r)
    for (int64_t d = 0; d < dv; ++d)
      o[r * dv + d] /= block.sum[r];
  roundAll(block.precision.output, o.data(), o.size());
  return o;
}

/// Whether terms with a zero probability must be omitted from sums, so that 0 * NaN does not reach
/// other rows.
inline bool hasNonFinite(const AttentionInputs &inputs) {
  for (const std::vector<double> *values : {&inputs.q, &inputs.k, &inputs.v, &inputs.dO})
    for (double value : *values)
      if (!std::isfinite(value))
        return true;
  return false;
}

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_ATTENTIONROWS_H
