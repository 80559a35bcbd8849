// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matmul with epilogue, gated linear unit, row softmax, layer norm.

#include "test/Reference/Layers.h"
#include "test/Reference/AttentionRows.h"

namespace tilewright::reference {

namespace {

template <typename Real> Real activateIn(Activation activation, Real x) {
  switch (activation) {
  case Activation::Identity:
    return x;
  case Activation::Relu:
    return x > Real(0) || std::isnan(x) ? x : Real(0);
  case Activation::GeluTanh: {
    Real inner = Real(0.7978845608028654) * (x + Real(0.044715) * x * x * x);
    return Real(0.5) * x * (Real(1) + std::tanh(inner));
  }
  case Activation::Silu:
    return x / (Real(1) + std::exp(-x));
  case Activation::Sigmoid:
    return Real(1) / (Real(1) + std::exp(-x));
  }
  return x;
}

template <typename Real>
LayerResult matmulIn(const MatmulProblem &p, const std::vector<double> &aIn,
                     const std::vector<double> &bIn, const std::vector<double> &bias,
                     const Precision &precision, const RoundoffModel &model) {
  std::vector<Real> a(aIn.begin(), aIn.end()), b(bIn.begin(), bIn.end());
  if (p.transposeB)
    b = KeyHead<Real>::transposed(b, p.N, p.K);
  MatrixRef<Real> aRef{a.data(), p.transposeA ? 1 : p.K, p.transposeA ? p.M : 1};
  std::vector<Real> c(p.M * p.N, Real(0));
  multiplyAdd(c.data(), p.N, aRef, b.data(), p.N, p.M, p.N, p.K, precision.order);

  LayerResult result;
  if (model) {
    std::vector<double> normB(p.N, 0.0);
    for (int64_t t = 0; t < p.K; ++t)
      for (int64_t j = 0; j < p.N; ++j)
        normB[j] += static_cast<double>(b[t * p.N + j]) * b[t * p.N + j];
    result.roundoff.resize(c.size());
    for (int64_t i = 0; i < p.M; ++i) {
      double normA = 0.0;
      for (int64_t t = 0; t < p.K; ++t) {
        double value = a[i * aRef.rowStride + t * aRef.colStride];
        normA += value * value;
      }
      // No activation has a slope far above 1. Each has different operations.
      for (int64_t j = 0; j < p.N; ++j) {
        double product = std::fabs(p.alpha) * (0.3 * std::sqrt(normA * normB[j]) +
                                               std::fabs(static_cast<double>(c[i * p.N + j])));
        result.roundoff[i * p.N + j] =
            model.unit() * (product + (bias.empty() ? 0.0 : std::fabs(bias[j])));
      }
    }
  }
  for (int64_t i = 0; i < p.M; ++i)
    for (int64_t j = 0; j < p.N; ++j) {
      Real x = static_cast<Real>(p.alpha) * c[i * p.N + j];
      if (!bias.empty())
        x += static_cast<Real>(bias[j]);
      c[i * p.N + j] = activateIn(p.activation, x);
    }
  roundAll(precision.output, c.data(), c.size());
  result.values.assign(c.begin(), c.end());
  return result;
}

template <typename Real>
LayerResult gatedUnitIn(const GatedUnitProblem &p, const std::vector<double> &x,
                        const std::vector<double> &gate, const std::vector<double> &up,
                        const Precision &precision, const RoundoffModel &model) {
  MatmulProblem product;
  product.M = p.M;
  product.N = p.N;
  product.K = p.K;
  product.transposeB = p.transposed;
  Precision sums = precision; // which are not rounded
  sums.output = precision.compute;
  LayerResult g = matmulIn<Real>(product, x, gate, {}, sums, model);
  LayerResult u = matmulIn<Real>(product, x, up, {}, sums, model);

  LayerResult result;
  result.roundoff.resize(g.roundoff.size());
  std::vector<Real> y(g.values.size());
  for (size_t i = 0; i < y.size(); ++i) {
    Real active = activateIn(p.activation, static_cast<Real>(g.values[i]));
    y[i] = active * static_cast<Real>(u.values[i]);
    // No activation has a slope far above 1. Each has different operations.
    if (model)
      result.roundoff[i] =
          std::hypot(g.roundoff[i] * u.values[i], u.roundoff[i] * static_cast<double>(active)) +
          model.unit() * std::fabs(static_cast<double>(y[i]));
  }
  roundAll(precision.output, y.data(), y.size());
  result.values.assign(y.begin(), y.end());
  return result;
}

template <typename Real>
LayerResult softmaxIn(int64_t rows, int64_t columns, const std::vector<double> &x,
                      const Precision &precision, const RoundoffModel &model) {
  constexpr Real infinity = std::numeric_limits<Real>::infinity();
  LayerResult result;
  result.values.resize(rows * columns);
  if (model)
    result.roundoff.resize(rows * columns);
  std::vector<Real> y(columns);
  for (int64_t r = 0; r < rows; ++r) {
    Real max = -infinity;
    bool any = false;
    for (int64_t c = 0; c < columns; ++c) {
      y[c] = static_cast<Real>(x[r * columns + c]);
      any = any || !(y[c] == -infinity);
      max = std::max(max, y[c]);
    }
    for (int64_t c = 0; c < columns; ++c)
      y[c] = any ? std::exp(y[c] - max) : Real(0);
    Real sum = sumOf(y.data(), columns, precision.order);
    for (int64_t c = 0; c < columns && any; ++c) {
      if (model && y[c] != Real(0))
        result.roundoff[r * columns + c] =
            model.unit() * y[c] / sum * (2.0 + std::fabs(std::log(y[c])));
      y[c] /= sum;
    }
    roundAll(precision.output, y.data(), y.size());
    std::copy(y.begin(), y.end(), result.values.begin() + r * columns);
  }
  return result;
}

template <typename Real>
LayerNormResult layerNormIn(int64_t rows, int64_t columns, double epsilon,
                            const std::vector<double> &xIn, const std::vector<double> &gamma,
                            const std::vector<double> &beta, const Precision &precision,
                            const RoundoffModel &model) {
  LayerNormResult result;
  result.y.values.resize(rows * columns);
  if (model)
    result.y.roundoff.resize(rows * columns);
  std::vector<Real> x(columns), squares(columns), y(columns);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      x[c] = static_cast<Real>(xIn[r * columns + c]);
    Real mean = sumOf(x.data(), columns, precision.order) / static_cast<Real>(columns);
    for (int64_t c = 0; c < columns; ++c)
      squares[c] = (x[c] - mean) * (x[c] - mean);
    Real variance = sumOf(squares.data(), columns, precision.order) / static_cast<Real>(columns);
    Real rstd = Real(1) / std::sqrt(variance + static_cast<Real>(epsilon));
    result.mean.push_back(mean);
    result.rstd.push_back(rstd);
    for (int64_t c = 0; c < columns; ++c) {
      Real factor = gamma.empty() ? Real(1) : static_cast<Real>(gamma[c]);
      Real offset = beta.empty() ? Real(0) : static_cast<Real>(beta[c]);
      Real normal = (x[c] - mean) * rstd * factor;
      if (model)
        result.y.roundoff[r * columns + c] =
            model.unit() * (2.0 * std::fabs(normal) + std::fabs(offset) +
                            (std::fabs(x[c]) + std::fabs(mean)) * rstd * std::fabs(factor));
      y[c] = normal + offset;
    }
    roundAll(precision.output, y.data(), y.size());
    std::copy(y.begin(), y.end(), result.y.values.begin() + r * columns);
  }
  return result;
}

} // namespace

double activate(Activation activation, double x) { return activateIn(activation, x); }

LayerResult matmul(const MatmulProblem &problem, const std::vector<double> &a,
                   const std::vector<double> &b, const std::vector<double> &bias,
                   const Precision &precision, const RoundoffModel &model) {
  return precision.compute == Type::F64 ? matmulIn<double>(problem, a, b, bias, precision, model)
                                        : matmulIn<float>(problem, a, b, bias, precision, model);
}

LayerResult gatedUnit(const GatedUnitProblem &problem, const std::vector<double> &x,
                      const std::vector<double> &gate, const std::vector<double> &up,
                      const Precision &precision, const RoundoffModel &model) {
  return precision.compute == Type::F64
             ? gatedUnitIn<double>(problem, x, gate, up, precision, model)
             : gatedUnitIn<float>(problem, x, gate, up, precision, model);
}

LayerResult rowSoftmax(int64_t rows, int64_t columns, const std::vector<double> &x,
                       const Precision &precision, const RoundoffModel &model) {
  return precision.compute == Type::F64 ? softmaxIn<double>(rows, columns, x, precision, model)
                                        : softmaxIn<float>(rows, columns, x, precision, model);
}

LayerNormResult layerNorm(int64_t rows, int64_t columns, double epsilon,
                          const std::vector<double> &x, const std::vector<double> &gamma,
                          const std::vector<double> &beta, const Precision &precision,
                          const RoundoffModel &model) {
  return precision.compute == Type::F64
             ? layerNormIn<double>(rows, columns, epsilon, x, gamma, beta, precision, model)
             : layerNormIn<float>(rows, columns, epsilon, x, gamma, beta, precision, model);
}

} // namespace tilewright::reference
