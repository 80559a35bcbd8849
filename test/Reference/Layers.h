// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle of the kernels other than attention: a product with a fused epilogue, a gated linear
// unit, row softmax, layer norm. Each returns ref or lowp by the precision, as in Attention.h, and
// on request the expected roundoff of its result (see Accuracy.h).

#ifndef TILEWRIGHT_TEST_REFERENCE_LAYERS_H
#define TILEWRIGHT_TEST_REFERENCE_LAYERS_H

#include "test/Reference/Attention.h"

namespace tilewright::reference {

enum class Activation {
  Identity,
  Relu,
  GeluTanh, // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), Hendrycks and Gimpel, 2016
  Silu,     // x / (1 + exp(-x))
  Sigmoid,  // 1 / (1 + exp(-x))
};

double activate(Activation activation, double x);

struct MatmulProblem {
  int64_t M = 0, N = 0, K = 0;
  bool transposeA = false; // a is [K, M] instead of [M, K]
  bool transposeB = false; // b is [N, K] instead of [K, N]
  double alpha = 1.0;
  Activation activation = Activation::Identity;
};

struct LayerResult {
  std::vector<double> values;
  std::vector<double> roundoff;
};

/// c[M, N] = activation(alpha * a b + bias[N]); bias may be empty.
LayerResult matmul(const MatmulProblem &problem, const std::vector<double> &a,
                   const std::vector<double> &b, const std::vector<double> &bias,
                   const Precision &precision = Precision::reference(),
                   const RoundoffModel &roundoff = {});

struct GatedUnitProblem {
  int64_t M = 0, N = 0, K = 0;
  bool transposed = false; // weights are [N, K] instead of [K, N]
  Activation activation = Activation::Silu;
};

/// y[M, N] = activation(x gate) * (x up) for x [M, K] (Shazeer, GLU variants improve transformer,
/// 2020).
LayerResult gatedUnit(const GatedUnitProblem &problem, const std::vector<double> &x,
                      const std::vector<double> &gate, const std::vector<double> &up,
                      const Precision &precision = Precision::reference(),
                      const RoundoffModel &roundoff = {});

/// y[r, c] = exp(x[r, c] - max_r) / sum_r for x [rows, columns]. A row of -inf only gives zeros.
LayerResult rowSoftmax(int64_t rows, int64_t columns, const std::vector<double> &x,
                       const Precision &precision = Precision::reference(),
                       const RoundoffModel &roundoff = {});

struct LayerNormResult {
  LayerResult y;                  // [rows, columns]
  std::vector<double> mean, rstd; // [rows]; rstd = 1 / sqrt(variance + epsilon)
};

/// y = (x - mean) * rstd * gamma + beta with the (biased) variance of each row; gamma and beta
/// [columns] may be empty (Ba, Kiros, Hinton: "Layer normalization", 2016).
LayerNormResult layerNorm(int64_t rows, int64_t columns, double epsilon,
                          const std::vector<double> &x, const std::vector<double> &gamma,
                          const std::vector<double> &beta,
                          const Precision &precision = Precision::reference(),
                          const RoundoffModel &roundoff = {});

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_LAYERS_H
