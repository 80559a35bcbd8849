// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention without a softmax: naive formulas over the pairs of a head.

#include "test/Reference/WeightedAttention.h"
#include "test/Reference/AttentionRows.h"

#include <cmath>

namespace tilewright::reference {

namespace {

/// Sums over the query heads of a key head, and of the squares of their terms and errors.
template <typename Real> struct KeySums {
  std::vector<Real> dK, dV;
  std::vector<double> errorsK, termsK, errorsV, termsV;
  std::vector<int64_t> numTerms; // for each key

  KeySums(const AttentionProblem &p, bool withRoundoff)
      : dK(p.Skv * p.D, Real(0)), dV(p.Skv * p.DV, Real(0)), errorsK(withRoundoff ? dK.size() : 0),
        termsK(errorsK), errorsV(withRoundoff ? dV.size() : 0), termsV(errorsV), numTerms(p.Skv) {}
};

template <typename Real> class Head {
public:
  Head(const AttentionProblem &p, const AttentionInputs &in, const Precision &precision,
       const RoundoffModel &model, int64_t b, int64_t h)
      : p(p), precision(precision), model(model), head(b * p.Hq + h),
        q(slice(in.q, head, p.Sq * p.D)),
        k(slice(in.k, b * p.Hkv + h / p.groupSize(), p.Skv * p.D)),
        v(slice(in.v, b * p.Hkv + h / p.groupSize(), p.Skv * p.DV)),
        dO(slice(in.dO, head, p.Sq * p.DV)) {
    std::vector<Real> kT = KeyHead<Real>::transposed(k, p.Skv, p.D);
    for (Real &value : q)
      value *= static_cast<Real>(p.scale);
    w.assign(p.Sq * p.Skv, Real(0));
    multiplyAdd(w.data(), p.Skv, {q.data(), p.D}, kT.data(), p.Skv, p.Sq, p.Skv, p.D,
                precision.order);
    roundAll(precision.score, w.data(), w.size());
    slope.resize(w.size());
    errorW.resize(model ? w.size() : 0);
    numKept.resize(p.Sq);
    for (int64_t i = 0; i < p.Sq; ++i)
      for (int64_t j = 0; j < p.Skv; ++j) {
        int64_t at = i * p.Skv + j;
        double s = w[at];
        bool isKept = p.keeps(b, h, i, j);
        numKept[i] += isKept;
        w[at] = isKept ? std::tanh(w[at]) : Real(0);
        slope[at] = isKept ? Real(1) - w[at] * w[at] : Real(0);
        if (model) {
          double product = std::fabs(s) + 0.3 * norm(q, i, p.D) * norm(k, j, p.D);
          errorW[at] = squareOf(slope[at] * product) + squareOf(w[at]);
        }
      }
    roundAll(precision.probability, w.data(), w.size());
  }

  void addForward(ForwardResult &result) const {
    std::vector<Real> o(p.Sq * p.DV, Real(0));
    multiplyAdd(o.data(), p.DV, {w.data(), p.Skv}, v.data(), p.DV, p.Sq, p.DV, p.Skv,
                precision.order);
    roundAll(precision.output, o.data(), o.size());
    std::copy(o.begin(), o.end(), result.o.begin() + head * p.Sq * p.DV);
    if (model)
      addRoundoff(o, p.DV, rounded(errorW, w), squaresOf(w), squaresOf(v), 1.0,
                  result.roundoffO.data() + head * p.Sq * p.DV);
  }

  void addBackward(BackwardResult &result, KeySums<Real> &sums) const {
    std::vector<Real> dS(p.Sq * p.Skv, Real(0)), dQ(p.Sq * p.D, Real(0));
    std::vector<double> errorDS(model ? dS.size() : 0);
    std::vector<Real> vT = KeyHead<Real>::transposed(v, p.Skv, p.DV);
    multiplyAdd(dS.data(), p.Skv, {dO.data(), p.DV}, vT.data(), p.Skv, p.Sq, p.Skv, p.DV,
                precision.order);
    roundAll(precision.score, dS.data(), dS.size());
    for (int64_t i = 0; i < p.Sq; ++i)
      for (int64_t j = 0; j < p.Skv; ++j) {
        int64_t at = i * p.Skv + j;
        double dW = dS[at];
        dS[at] *= slope[at];
        if (model) // the slope is rounded as well as dS
          errorDS[at] =
              squareOf(slope[at] * (std::fabs(dW) + 0.3 * norm(dO, i, p.DV) * norm(v, j, p.DV))) +
              squareOf(2 * dW * w[at]) * errorW[at] +
              squareOf(model.narrowing(model.probability) * dS[at]);
      }
    roundAll(precision.probability, dS.data(), dS.size());
    multiplyAdd(dQ.data(), p.D, {dS.data(), p.Skv}, k.data(), p.D, p.Sq, p.D, p.Skv,
                precision.order);
    for (Real &value : dQ)
      value *= static_cast<Real>(p.scale);
    roundAll(precision.output, dQ.data(), dQ.size());
    std::copy(dQ.begin(), dQ.end(), result.dQ.begin() + head * p.Sq * p.D);
    multiplyAdd(sums.dK.data(), p.D, {dS.data(), 1, p.Skv}, q.data(), p.D, p.Skv, p.D, p.Sq,
                precision.order);
    multiplyAdd(sums.dV.data(), p.DV, {w.data(), 1, p.Skv}, dO.data(), p.DV, p.Skv, p.DV, p.Sq,
                precision.order);
    if (!model)
      return;
    std::vector<double> errors = rounded(errorDS, dS), ofW = rounded(errorW, w);
    std::vector<double> terms = squaresOf(dS), termsW = squaresOf(w);
    std::vector<double> squaresQ = squaresOf(q), squaresDO = squaresOf(dO);
    addRoundoff(dQ, p.D, errors, terms, squaresOf(k), squareOf(p.scale),
                result.roundoffDQ.data() + head * p.Sq * p.D);
    auto add = [&](std::vector<double> &sum, const std::vector<double> &of,
                   const std::vector<double> &by, int64_t columns) {
      addSquares(sum, 0, {of.data(), 1, p.Skv}, by.data(), p.Skv, columns, p.Sq, model);
    };
    add(sums.errorsK, errors, squaresQ, p.D);
    add(sums.termsK, terms, squaresQ, p.D);
    add(sums.errorsV, ofW, squaresDO, p.DV);
    add(sums.termsV, termsW, squaresDO, p.DV);
    for (int64_t at = 0; at < p.Sq * p.Skv; ++at)
      sums.numTerms[at % p.Skv] += slope[at] != Real(0);
  }

private:
  static std::vector<Real> slice(const std::vector<double> &all, int64_t number, int64_t size) {
    if (all.empty())
      return {};
    return std::vector<Real>(all.begin() + number * size, all.begin() + (number + 1) * size);
  }

  static double norm(const std::vector<Real> &rows, int64_t row, int64_t columns) {
    double squares = 0.0;
    for (int64_t c = 0; c < columns; ++c)
      squares += squareOf(rows[row * columns + c]);
    return std::sqrt(squares);
  }

  /// With the rounding to a narrower type.
  std::vector<double> rounded(std::vector<double> errors, const std::vector<Real> &values) const {
    for (size_t n = 0; n < errors.size(); ++n)
      errors[n] += squareOf(model.narrowing(model.probability) * values[n]);
    return errors;
  }

  /// Of a product whose rows are those of queries; `squares` are of the other operand.
  void addRoundoff(const std::vector<Real> &values, int64_t columns,
                   const std::vector<double> &errors, const std::vector<double> &terms,
                   const std::vector<double> &squares, double factor, double *out) const {
    std::vector<double> sumOfErrors(values.size()), sumOfTerms(values.size());
    addSquares(sumOfErrors, 0, {errors.data(), p.Skv}, squares.data(), p.Sq, columns, p.Skv, model);
    addSquares(sumOfTerms, 0, {terms.data(), p.Skv}, squares.data(), p.Sq, columns, p.Skv, model);
    for (size_t n = 0; n < values.size(); ++n)
      out[n] = sumError(numKept[static_cast<int64_t>(n) / columns], factor * sumOfErrors[n],
                        factor * sumOfTerms[n], values[n], model);
  }

  const AttentionProblem &p;
  const Precision &precision;
  const RoundoffModel &model;
  int64_t head;
  std::vector<Real> q, k, v, dO; // q times scale
  std::vector<Real> w, slope;    // [Sq, Skv]
  std::vector<double> errorW;    // squares, in units of roundoff, before w is rounded
  std::vector<int64_t> numKept;  // for each query
};

template <typename Real>
WeightedResult tanhAttentionIn(const AttentionProblem &p, const AttentionInputs &inputs,
                               const Precision &precision, const RoundoffModel &model) {
  WeightedResult result;
  bool isBackward = !inputs.dO.empty(), withRoundoff = static_cast<bool>(model);
  result.forward.o.resize(p.sizeO());
  result.forward.roundoffO.resize(withRoundoff ? p.sizeO() : 0);
  BackwardResult &back = result.backward;
  back.dQ.resize(isBackward ? p.sizeQ() : 0);
  back.roundoffDQ.resize(withRoundoff ? back.dQ.size() : 0);
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t hk = 0; hk < p.Hkv; ++hk) {
      KeySums<Real> sums(p, withRoundoff);
      for (int64_t h = hk * p.groupSize(); h < (hk + 1) * p.groupSize(); ++h) {
        Head<Real> head(p, inputs, precision, model, b, h);
        head.addForward(result.forward);
        if (isBackward)
          head.addBackward(back, sums);
      }
      if (!isBackward)
        continue;
      auto finish = [&](std::vector<Real> &values, const std::vector<double> &errors,
                        const std::vector<double> &terms, int64_t columns, std::vector<double> &all,
                        std::vector<double> &roundoff) {
        roundAll(precision.output, values.data(), values.size());
        all.insert(all.end(), values.begin(), values.end());
        for (size_t n = 0; n < errors.size(); ++n)
          roundoff.push_back(sumError(sums.numTerms[static_cast<int64_t>(n) / columns], errors[n],
                                      terms[n], values[n], model));
      };
      finish(sums.dK, sums.errorsK, sums.termsK, p.D, back.dK, back.roundoffDK);
      finish(sums.dV, sums.errorsV, sums.termsV, p.DV, back.dV, back.roundoffDV);
    }
  return result;
}

} // namespace

WeightedResult tanhAttention(const AttentionProblem &problem, const AttentionInputs &inputs,
                             const Precision &precision, const RoundoffModel &roundoff) {
  return precision.compute == Type::F64
             ? tanhAttentionIn<double>(problem, inputs, precision, roundoff)
             : tanhAttentionIn<float>(problem, inputs, precision, roundoff);
}

} // namespace tilewright::reference
