// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The backward of attention.

#include "test/Reference/Attention.h"
#include "test/Reference/AttentionRows.h"

#include <cassert>
#include <memory>

namespace tilewright::reference {

namespace {

/// Sums over query rows of one (b, kv head), or of a share of its blocks.
template <typename Real> struct KeyGradients {
  std::vector<Real> dK, dV; // [Skv, D], [Skv, DV]
  // For the expected roundoff (sumError): sums of squares of the terms' errors and of the terms,
  // and how many terms there are for each key.
  std::vector<double> errorsK, errorsV, termsK, termsV;
  std::vector<int64_t> numTerms;

  KeyGradients(const AttentionProblem &problem, bool withRoundoff)
      : dK(problem.Skv * problem.D, Real(0)), dV(problem.Skv * problem.DV, Real(0)) {
    if (withRoundoff) {
      errorsK.assign(dK.size(), 0.0);
      errorsV.assign(dV.size(), 0.0);
      termsK.assign(dK.size(), 0.0);
      termsV.assign(dV.size(), 0.0);
      numTerms.assign(problem.Skv, 0);
    }
  }

  void add(const KeyGradients &other) {
    addTo(dK, other.dK);
    addTo(dV, other.dV);
    addTo(errorsK, other.errorsK);
    addTo(errorsV, other.errorsV);
    addTo(termsK, other.termsK);
    addTo(termsV, other.termsV);
    addTo(numTerms, other.numTerms);
  }

private:
  template <typename T> static void addTo(std::vector<T> &sums, const std::vector<T> &values) {
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] += values[i];
  }
};

template <typename Real> class Backward {
public:
  Backward(const AttentionProblem &problem, const AttentionInputs &inputs,
           const Precision &precision, const RoundoffModel &model)
      : problem(problem), inputs(inputs), precision(precision), model(model),
        withRoundoff(static_cast<bool>(model)), skipZeros(hasNonFinite(inputs)) {}

  BackwardResult run() {
    result.dQ.resize(problem.sizeQ());
    result.dK.resize(problem.sizeK());
    result.dV.resize(problem.sizeV());
    result.delta.resize(problem.sizeLse());
    dBias.assign(problem.bias.values.size(), Real(0));
    dSink.assign(problem.sinks.size(), Real(0));
    if (withRoundoff) {
      result.roundoffDQ.resize(problem.sizeQ());
      result.roundoffDK.resize(problem.sizeK());
      result.roundoffDV.resize(problem.sizeV());
      result.roundoffDBias.resize(dBias.size());
      result.roundoffDSink.resize(dSink.size());
    }
    for (int64_t b = 0; b < problem.B; ++b)
      for (int64_t kvHead = 0; kvHead < problem.Hkv; ++kvHead)
        runKeyHead(b, kvHead);

    roundAll(precision.output, dBias.data(), dBias.size());
    result.dBias.assign(dBias.begin(), dBias.end());
    // A sum, stored in the type of the arithmetic.
    result.dSink.assign(dSink.begin(), dSink.end());
    for (double &error : result.roundoffDSink)
      error = model.unit() * std::sqrt(error);
    for (size_t i = 0; i < result.roundoffDBias.size(); ++i)
      result.roundoffDBias[i] = sumError(1, result.roundoffDBias[i], 0.0, result.dBias[i], model);
    return std::move(result);
  }

private:
  void runKeyHead(int64_t b, int64_t kvHead) {
    KeyHead<Real> keys(problem, inputs, b, kvHead, withRoundoff);
    int64_t blocksPerHead = (problem.Sq + rowsPerBlock - 1) / rowsPerBlock;
    int64_t numBlocks = problem.groupSize() * blocksPerHead;
    // The number of shares, and so the order of every sum, is independent of the machine. dBias and
    // dSink are each computed in one sum.
    bool isOne = problem.bias || !problem.sinks.empty();
    int64_t numShares = isOne ? 1 : std::min<int64_t>(4, std::max<int64_t>(numBlocks, 1));
    std::vector<std::unique_ptr<KeyGradients<Real>>> shares(numShares);
    parallelFor(numShares, [&](int64_t share) {
      shares[share] = std::make_unique<KeyGradients<Real>>(problem, withRoundoff);
      for (int64_t i = share; i < numBlocks; i += numShares) {
        int64_t h = kvHead * problem.groupSize() + i / blocksPerHead;
        runRows(keys, b, h, i % blocksPerHead * rowsPerBlock, *shares[share]);
      }
    });
    KeyGradients<Real> &total = *shares[0];
    for (int64_t share = 1; share < numShares; ++share)
      total.add(*shares[share]);

    roundAll(precision.output, total.dK.data(), total.dK.size());
    roundAll(precision.output, total.dV.data(), total.dV.size());
    int64_t firstKey = (b * problem.Hkv + kvHead) * problem.Skv;
    std::copy(total.dK.begin(), total.dK.end(), result.dK.begin() + firstKey * problem.D);
    std::copy(total.dV.begin(), total.dV.end(), result.dV.begin() + firstKey * problem.DV);
    if (withRoundoff) {
      finishRoundoff(total.errorsK, total.termsK, total.numTerms, total.dK, problem.D,
                     result.roundoffDK, firstKey);
      finishRoundoff(total.errorsV, total.termsV, total.numTerms, total.dV, problem.DV,
                     result.roundoffDV, firstKey);
    }
  }

  void runRows(const KeyHead<Real> &keys, int64_t b, int64_t h, int64_t begin,
               KeyGradients<Real> &sums) {
    RowBlock<Real> block(problem, inputs, precision, keys, b, h, begin,
                         inputs.probabilities.empty() ? ProbabilitySource::Lse
                                                      : ProbabilitySource::Saved);
    const int64_t D = problem.D, DV = problem.DV, rows = block.rows, n = block.n;
    const int64_t first = block.firstKey();
    std::vector<Real> o = outputOf(block, skipZeros);
    const double *dOBegin = inputs.dO.data() + block.row(0) * DV;
    std::vector<Real> dO(dOBegin, dOBegin + rows * DV);

    std::vector<Real> delta(rows);
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<Real> terms(DV);
      for (int64_t d = 0; d < DV; ++d)
        terms[d] = dO[r * DV + d] * o[r * DV + d];
      delta[r] = sumOf(terms.data(), DV, precision.order);
      if (!inputs.dLse.empty())
        delta[r] -= static_cast<Real>(inputs.dLse[block.row(r)]);
      result.delta[block.row(r)] = delta[r];
    }
    if (!problem.sinks.empty())
      addSink(block, o, dO, delta);

    std::vector<Real> dP(rows * n, Real(0));
    multiplyAdd(dP.data(), n, {dO.data(), DV}, keys.vT.data() + first, problem.Skv, rows, n, DV,
                precision.order);
    for (size_t at = 0; at < block.dropScale.size(); ++at)
      dP[at] *= block.dropScale[at];
    roundAll(precision.probability, dP.data(), dP.size());

    std::vector<Real> dS(rows * n, Real(0));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < n; ++c) {
        int64_t at = r * n + c, i = begin + r, j = first + c;
        if (!block.kept[at] || block.p[at] == Real(0))
          continue;
        dS[at] = block.p[at] * (dP[at] - delta[r]);
        if (problem.bias)
          dBias[problem.bias.index(problem.firstBatch + b, h, i, j, problem.Skv)] += dS[at];
        dS[at] *= slope(block, at, b, h, i, j);
      }
    roundAll(precision.score, dS.data(), dS.size());

    std::vector<Real> dQ(rows * D, Real(0));
    multiplyAdd(dQ.data(), D, {dS.data(), n}, keys.k.data() + first * D, D, rows, D, n,
                precision.order, skipZeros);
    for (Real &value : dQ)
      value *= static_cast<Real>(problem.scale);
    roundAll(precision.output, dQ.data(), dQ.size());
    std::copy(dQ.begin(), dQ.end(), result.dQ.begin() + block.row(0) * D);

    // The scale of dK is applied to q, once per row.
    std::vector<Real> scaledQ = block.q;
    for (Real &value : scaledQ)
      value *= static_cast<Real>(problem.scale);
    multiplyAdd(sums.dK.data() + first * D, D, {dS.data(), 1, n}, scaledQ.data(), D, n, D, rows,
                precision.order, skipZeros);
    multiplyAdd(sums.dV.data() + first * DV, DV, {block.z.data(), 1, n}, dO.data(), DV, n, DV, rows,
                precision.order, skipZeros);
    if (withRoundoff)
      addRoundoff(block, o, dO, dP, delta, dQ, scaledQ, sums);
  }

  /// The derivative of the score modifier.
  Real slope(const RowBlock<Real> &block, int64_t at, int64_t b, int64_t h, int64_t i,
             int64_t j) const {
    if (!problem.score)
      return Real(1);
    assert(problem.score.derivative && "the backward needs the derivative of the score modifier");
    return static_cast<Real>(
        problem.score.derivative(block.scaled[at], problem.firstBatch + b, h, i, j));
  }

  /// A sink has a probability and no value, so its dP is 0. The errors are those of the
  /// probability, of the sum and of the product in delta, and of o, which is rounded before delta
  /// reads it; each addition to the sum over rows rounds the sum.
  void addSink(const RowBlock<Real> &block, const std::vector<Real> &o, const std::vector<Real> &dO,
               const std::vector<Real> &delta) {
    const int64_t DV = problem.DV, h = block.h;
    const double narrowO = model.narrowing(model.output);
    for (int64_t r = 0; r < block.rows; ++r) {
      Real sink = static_cast<Real>(problem.sinks[h]);
      if (sink == -std::numeric_limits<Real>::infinity())
        continue;
      Real p = std::exp(sink - block.lse[r]);
      dSink[h] -= p * delta[r];
      if (!withRoundoff)
        continue;
      double deltaTerms = 0.0;
      for (int64_t d = 0; d < DV; ++d)
        deltaTerms += squareOf(static_cast<double>(dO[r * DV + d]) * o[r * DV + d]);
      double relative = 2.0 + 0.5 * std::fabs(static_cast<double>(block.lse[r])) +
                        0.5 * std::fabs(static_cast<double>(sink));
      result.roundoffDSink[h] +=
          squareOf(static_cast<double>(p)) *
              (squareOf(relative * delta[r]) + (squareOf(narrowO) + 1.0) * deltaTerms) +
          squareOf(0.3 * static_cast<double>(dSink[h]));
    }
  }

  /// First-order errors of the terms, as if independent. dS = P (dP - delta): the relative error of
  /// P, the errors of two products of length DV, dO . v and dO . o, that may cancel, the rounding
  /// of o that delta sees, and the rounding of dS.
  void addRoundoff(const RowBlock<Real> &block, const std::vector<Real> &o,
                   const std::vector<Real> &dO, const std::vector<Real> &dP,
                   const std::vector<Real> &delta, const std::vector<Real> &dQ,
                   const std::vector<Real> &scaledQ, KeyGradients<Real> &sums) {
    const int64_t D = problem.D, DV = problem.DV, n = block.n, first = block.firstKey();
    // Squares of dS and of z, and of their errors, [rows, n].
    std::vector<double> dS(block.rows * n, 0.0), z = dS, errorDS = dS, errorZ = dS, weightQ = dS;
    const double narrowP = squareOf(model.narrowing(model.probability));
    const double narrowO = model.narrowing(model.output);
    for (int64_t r = 0; r < block.rows; ++r) {
      if (model.rows == RoundoffModel::SingleKey && block.numKept(r) != 1)
        continue;
      double normDO = normOf(dO.data() + r * DV, DV), normO = normOf(o.data() + r * DV, DV);
      double normQ = block.normOfQ(r), deltaTerms = 0.0;
      double count = static_cast<double>(block.numKept(r));
      for (int64_t d = 0; d < DV; ++d)
        deltaTerms += squareOf(static_cast<double>(dO[r * DV + d]) * o[r * DV + d]);
      double errorDelta = narrowO * std::sqrt(deltaTerms);
      for (int64_t c = 0; c < n; ++c) {
        int64_t at = r * n + c, i = block.begin + r, j = first + c;
        if (!block.kept[at])
          continue;
        double relative = block.relativeErrorOfP(r, c, normQ);
        double p = block.p[at], drop = block.dropScale.empty() ? 1.0 : block.dropScale[at];
        double difference = std::fabs(static_cast<double>(dP[at]) - delta[r]);
        double error =
            squareOf(p * (difference * relative + std::fabs(dP[at]) + std::fabs(delta[r]) +
                          0.3 * normDO * (drop * block.keys.normV[j] + normO))) +
            squareOf(p * errorDelta);
        if (problem.bias)
          result.roundoffDBias[problem.bias.index(problem.firstBatch + block.b, block.h, i, j,
                                                  problem.Skv)] += error;
        double factor = squareOf(slope(block, at, block.b, block.h, i, j));
        dS[at] = squareOf(p * difference) * factor;
        errorDS[at] = error * factor + narrowP * dS[at];
        weightQ[at] = errorDS[at] + 0.09 * count * dS[at];
        z[at] = squareOf(block.z[at]);
        errorZ[at] = z[at] * (squareOf(relative) + narrowP);
        ++sums.numTerms[j];
      }
    }

    std::vector<double> errorsQ(block.rows * D, 0.0);
    std::vector<double> squaresQ = squaresOf(scaledQ), squaresDO = squaresOf(dO);
    addSquares(errorsQ, 0, {weightQ.data(), n}, block.keys.squaresK.data() + first * D, block.rows,
               D, n, model);
    addSquares(sums.errorsK, first, {errorDS.data(), 1, n}, squaresQ.data(), n, D, block.rows,
               model);
    addSquares(sums.termsK, first, {dS.data(), 1, n}, squaresQ.data(), n, D, block.rows, model);
    addSquares(sums.errorsV, first, {errorZ.data(), 1, n}, squaresDO.data(), n, DV, block.rows,
               model);
    addSquares(sums.termsV, first, {z.data(), 1, n}, squaresDO.data(), n, DV, block.rows, model);
    for (int64_t r = 0; r < block.rows; ++r) {
      int64_t count = block.numKept(r);
      if (model.rows == RoundoffModel::SingleKey && count != 1)
        continue;
      for (int64_t d = 0; d < D; ++d)
        result.roundoffDQ[block.row(r) * D + d] = sumError(
            count, squareOf(problem.scale) * errorsQ[r * D + d], 0.0, dQ[r * D + d], model);
    }
  }

  static double normOf(const Real *values, int64_t n) {
    double squares = 0.0;
    for (int64_t i = 0; i < n; ++i)
      squares += static_cast<double>(values[i]) * values[i];
    return std::sqrt(squares);
  }

  /// With RoundoffModel::SingleKey, a key without such a row has no expected error.
  void finishRoundoff(const std::vector<double> &errors, const std::vector<double> &terms,
                      const std::vector<int64_t> &numTerms, const std::vector<Real> &values,
                      int64_t columns, std::vector<double> &out, int64_t firstKey) const {
    for (size_t i = 0; i < errors.size(); ++i)
      if (int64_t n = numTerms[i / columns])
        out[firstKey * columns + i] = sumError(n, errors[i], terms[i], values[i], model);
  }

  const AttentionProblem &problem;
  const AttentionInputs &inputs;
  const Precision &precision;
  const RoundoffModel &model;
  bool withRoundoff, skipZeros;
  std::vector<Real> dBias, dSink;
  BackwardResult result;
};

} // namespace

BackwardResult backward(const AttentionProblem &problem, const AttentionInputs &inputs,
                        const Precision &precision, const RoundoffModel &roundoff) {
  assert(!precision.roundBeforeNormalizing && "only the forward has this variant");
  return precision.compute == Type::F64
             ? Backward<double>(problem, inputs, precision, roundoff).run()
             : Backward<float>(problem, inputs, precision, roundoff).run();
}

} // namespace tilewright::reference
