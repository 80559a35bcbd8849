// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention computed as in a real kernel.

#include "test/Reference/BlockwiseKernel.h"
#include "test/Reference/AttentionRows.h"

namespace tilewright::reference {

namespace {

constexpr int64_t blockKeys = 64;
constexpr double log2e = 1.4426950408889634;

/// One (b, h); rows in the order of the arrays.
template <typename Real> class Kernel {
public:
  Kernel(const AttentionProblem &problem, const AttentionInputs &inputs, Type type,
         const Faults &faults)
      : problem(problem), inputs(inputs), operandsQ(inputs.q), operandsK(inputs.k), type(type),
        faults(faults), scale(static_cast<Real>(problem.scale * faults.scaleFactor)) {
    roundTo(faults.products, operandsQ);
    roundTo(faults.products, operandsK);
  }

  ForwardResult forward() {
    ForwardResult result;
    result.o.resize(problem.sizeO());
    result.lse.resize(problem.sizeLse());
    parallelFor(problem.B * problem.Hq, [&](int64_t head) {
      for (int64_t i = 0; i < problem.Sq; ++i)
        forwardRow(head, i, result);
    });
    return result;
  }

  BackwardResult backward(const ForwardResult &saved) {
    BackwardResult result;
    result.dQ.resize(problem.sizeQ());
    result.dK.resize(problem.sizeK());
    result.dV.resize(problem.sizeV());
    result.delta.resize(problem.sizeLse());
    parallelFor(problem.B * problem.Hkv,
                [&](int64_t kvHead) { backwardKeyHead(kvHead, saved, result); });
    return result;
  }

private:
  Real rounded(Real x) const {
    roundAll(type, &x, 1);
    return x;
  }

  /// One chain of additions, as in a matrix unit that processes one k after the other.
  static Real dot(const double *a, const double *b, int64_t n) {
    Real sum = 0;
    for (int64_t d = 0; d < n; ++d)
      sum += static_cast<Real>(a[d]) * static_cast<Real>(b[d]);
    return sum;
  }

  /// q of the row times k of the key.
  Real score(int64_t head, int64_t row, int64_t j) const {
    return dot(operandsQ.data() + row * problem.D, key(operandsK, head, j, problem.D), problem.D);
  }

  bool keeps(int64_t head, int64_t i, int64_t j) const {
    return j != faults.forgottenKey && problem.keeps(head / problem.Hq, head % problem.Hq, i, j);
  }

  const double *key(const std::vector<double> &values, int64_t head, int64_t j,
                    int64_t width) const {
    int64_t kvHead = head / problem.Hq * problem.Hkv + head % problem.Hq / problem.groupSize();
    return values.data() + (kvHead * problem.Skv + j) * width;
  }

  void forwardRow(int64_t head, int64_t i, ForwardResult &result) const {
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    const int64_t row = head * problem.Sq + i, DV = problem.DV;
    std::vector<Real> acc(DV, Real(0)), p(blockKeys);
    Real max = -infinity, sum = 0;
    for (int64_t first = 0; first < problem.Skv; first += blockKeys) {
      int64_t n = std::min(blockKeys, problem.Skv - first);
      Real blockMax = -infinity;
      for (int64_t c = 0; c < n; ++c) {
        p[c] = -infinity;
        if (keeps(head, i, first + c))
          p[c] = score(head, row, first + c) * scale * static_cast<Real>(log2e);
        blockMax = std::max(blockMax, p[c]);
      }
      if (blockMax == -infinity)
        continue;
      Real newMax = std::max(max, blockMax);
      Real rescale = faults.forgetsRescale && sum != 0 ? Real(1) : std::exp2(max - newMax);
      max = newMax;
      sum *= rescale;
      for (Real &value : acc)
        value *= rescale;
      Real blockSum = 0;
      for (int64_t c = 0; c < n; ++c) {
        p[c] = std::exp2(p[c] - max);
        blockSum += p[c];
        Real weight = rounded(p[c]);
        const double *v = key(inputs.v, head, first + c, DV);
        for (int64_t d = 0; d < DV; ++d)
          acc[d] += weight * static_cast<Real>(v[d]);
      }
      sum += blockSum;
    }
    Real inverse = sum == 0 ? Real(0) : 1 / sum;
    for (int64_t d = 0; d < DV; ++d)
      result.o[row * DV + d] = rounded(acc[d] * inverse);
    result.lse[row] = max * static_cast<Real>(0.6931471805599453) + std::log(sum);
  }

  void backwardKeyHead(int64_t kvHead, const ForwardResult &saved, BackwardResult &result) const {
    const int64_t D = problem.D, DV = problem.DV, Skv = problem.Skv;
    std::vector<Real> dK(Skv * D, Real(0)), dV(Skv * DV, Real(0));
    for (int64_t g = 0; g < problem.groupSize(); ++g) {
      int64_t head = kvHead * problem.groupSize() + g;
      for (int64_t i = 0; i < problem.Sq; ++i)
        backwardRow(head, i, saved, dK, dV, result);
    }
    for (int64_t n = 0; n < Skv * D; ++n)
      result.dK[kvHead * Skv * D + n] = rounded(dK[n] * scale);
    for (int64_t n = 0; n < Skv * DV; ++n)
      result.dV[kvHead * Skv * DV + n] = rounded(dV[n]);
  }

  void backwardRow(int64_t head, int64_t i, const ForwardResult &saved, std::vector<Real> &dK,
                   std::vector<Real> &dV, BackwardResult &result) const {
    const int64_t row = head * problem.Sq + i, D = problem.D, DV = problem.DV;
    const double *q = inputs.q.data() + row * D, *dO = inputs.dO.data() + row * DV;
    Real delta = dot(dO, saved.o.data() + row * DV, DV);
    if (!inputs.dLse.empty())
      delta -= static_cast<Real>(inputs.dLse[row]);
    result.delta[row] = delta;
    Real lse = static_cast<Real>(saved.lse[row]) * static_cast<Real>(log2e);
    Real scaleBase2 = scale * static_cast<Real>(log2e);
    std::vector<Real> dQ(D, Real(0));
    for (int64_t j = 0; j < problem.Skv; ++j) {
      if (!keeps(head, i, j))
        continue;
      const double *k = key(inputs.k, head, j, D), *v = key(inputs.v, head, j, DV);
      Real p = std::exp2(score(head, row, j) * scaleBase2 - lse);
      Real dP = dot(dO, v, DV) - (faults.forgetsDelta ? Real(0) : delta);
      Real dS = rounded(p * dP), pRounded = rounded(p);
      for (int64_t d = 0; d < D; ++d) {
        dQ[d] += dS * static_cast<Real>(k[d]);
        dK[j * D + d] += dS * static_cast<Real>(q[d]);
      }
      for (int64_t d = 0; d < DV; ++d)
        dV[j * DV + d] += pRounded * static_cast<Real>(dO[d]);
    }
    for (int64_t d = 0; d < D; ++d)
      result.dQ[row * D + d] = rounded(dQ[d] * scale);
  }

  const AttentionProblem &problem;
  const AttentionInputs &inputs;
  std::vector<double> operandsQ, operandsK;
  Type type;
  const Faults &faults;
  Real scale;
};

} // namespace

ForwardResult blockwiseForward(const AttentionProblem &problem, const AttentionInputs &inputs,
                               Type type, const Faults &faults) {
  return type == Type::F64 ? Kernel<double>(problem, inputs, type, faults).forward()
                           : Kernel<float>(problem, inputs, type, faults).forward();
}

BackwardResult blockwiseBackward(const AttentionProblem &problem, const AttentionInputs &inputs,
                                 const ForwardResult &saved, Type type, const Faults &faults) {
  return type == Type::F64 ? Kernel<double>(problem, inputs, type, faults).backward(saved)
                           : Kernel<float>(problem, inputs, type, faults).backward(saved);
}

} // namespace tilewright::reference
