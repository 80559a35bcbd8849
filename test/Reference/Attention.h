// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle of attention: forward and backward, naive formulas over whole rows, nothing blockwise.
//
// Arrays are contiguous, row major, logical (the caller handles strides):
//   q [B, Hq, Sq, D]      k [B, Hkv, Skv, D]      v [B, Hkv, Skv, DV]
//   o, dO [B, Hq, Sq, DV]      lse [B, Hq, Sq]
// Query head h reads key head h / (Hq / Hkv).
//
// Forward (Vaswani et al., "Attention is all you need", 2017; LSE as in Dao et al., FlashAttention,
// 2022):
//   s_ij = score(scale * q_i . k_j) + bias_ij          for kept pairs, -inf for all others
//   lse_i = log (sum_j exp(s_ij) + exp(sink_h))        natural logarithm; no sink: -inf
//   P_ij = exp(s_ij - lse_i)                           (forward: exp(s_ij - max) / sum)
//   Z_ij = P_ij * keep_ij / (1 - p)                    dropout; else Z = P
//   o_i = sum_j Z_ij v_j
// A row without a kept pair (or with every s_ij = -inf): o = 0, lse = -inf (or the sink), zero
// gradients of q.
//
// Backward (FlashAttention-2, Dao 2023, section 3; dLSE because d lse_i / d s_ij = P_ij):
//   delta_i = sum_d dO_id o_id - dLSE_i
//   dP_ij = (dO_i . v_j) * keep_ij / (1 - p)
//   dS_ij = P_ij (dP_ij - delta_i)
//   dV_j = sum_i Z_ij dO_i        dBias = dS, summed over the dimensions in which bias has extent 1
//   dSink_h = -sum_bi exp(sink_h - lse_i) delta_i
//   dQ_i = scale sum_j dS_ij score'_ij k_j
//   dK_j = scale sum_i dS_ij score'_ij q_i        dK and dV summed over the heads of a group
//
// ref computes all of this in f64. lowp is the same formula in f32, rounding to the element type
// only S, P (Z), O, dP, dS and the results; for f32 it is plain f32, for f64 it is f64 with sums in
// another order.

#ifndef TILEWRIGHT_TEST_REFERENCE_ATTENTION_H
#define TILEWRIGHT_TEST_REFERENCE_ATTENTION_H

#include "test/Reference/Product.h"
#include "test/Reference/Random.h"
#include "test/Reference/Rounding.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace tilewright::reference {

enum class Causal {
  None,
  TopLeft,     // keeps j <= i
  BottomRight, // keeps j <= i + (Skv - Sq)
};

/// Keeps i + shift - left <= j <= i + shift + right; -1 is unlimited. The shift is that of the
/// causal mask: Skv - Sq with BottomRight, else 0.
struct Window {
  int64_t left = -1;
  int64_t right = -1;
};

/// Whether the pair is kept: (b, h, i, j) with h a query head.
using MaskMod = std::function<bool(int64_t, int64_t, int64_t, int64_t)>;

/// A modifier of the scaled score: value(s, b, h, i, j), and its derivative in s, which the
/// backward needs.
struct ScoreMod {
  std::function<double(double, int64_t, int64_t, int64_t, int64_t)> value;
  std::function<double(double, int64_t, int64_t, int64_t, int64_t)> derivative;

  explicit operator bool() const { return static_cast<bool>(value); }
};

/// An additive bias [b, h, rows, Skv], each of b, h and rows either 1 or the full extent.
struct Bias {
  std::vector<double> values;
  int64_t b = 1, h = 1, rows = 1;

  explicit operator bool() const { return !values.empty(); }
  /// Position of the element that is added to the score of (b, h, i, j).
  int64_t index(int64_t ib, int64_t ih, int64_t i, int64_t j, int64_t numKeys) const {
    return (((b == 1 ? 0 : ib) * h + (h == 1 ? 0 : ih)) * rows + (rows == 1 ? 0 : i)) * numKeys + j;
  }
};

struct AttentionProblem {
  int64_t B = 1, Hq = 1, Hkv = 1, Sq = 0, Skv = 0, D = 0, DV = 0;
  double scale = 1.0;
  Causal causal = Causal::None;
  Window window;
  MaskMod mask;   // empty keeps everything
  ScoreMod score; // empty is the identity
  Bias bias;
  Dropout dropout;
  std::vector<double> sinks; // [Hq]; empty: none
  /// Added to b in mask, score, bias and dropout, for one batch that is extracted from many.
  int64_t firstBatch = 0;
  /// Only keys firstKey <= j < endKey exist (endKey -1: all): one part of a split.
  int64_t firstKey = 0, endKey = -1;

  int64_t groupSize() const { return Hkv ? Hq / Hkv : 0; }
  int64_t shift() const { return causal == Causal::BottomRight ? Skv - Sq : 0; }
  /// The conjunction of all masks, for 0 <= i < Sq, 0 <= j < Skv.
  bool keeps(int64_t b, int64_t h, int64_t i, int64_t j) const;

  int64_t sizeQ() const { return B * Hq * Sq * D; }
  int64_t sizeK() const { return B * Hkv * Skv * D; }
  int64_t sizeV() const { return B * Hkv * Skv * DV; }
  int64_t sizeO() const { return B * Hq * Sq * DV; }
  int64_t sizeLse() const { return B * Hq * Sq; }
};

/// Values must be representable in the element type of the kernel under test.
struct AttentionInputs {
  std::vector<double> q, k, v;
  std::vector<double> dO;            // backward only
  std::vector<double> dLse;          // optional, [B, Hq, Sq]
  std::vector<double> probabilities; // optional, P [B, Hq, Sq, Skv]: the backward takes it instead
                                     // of recomputing the softmax; zero for pairs that are not kept
};

/// N(0, 1) q, k, v, dO and dLse, rounded to the type.
AttentionInputs randomInputs(const AttentionProblem &problem, Type type, uint64_t seed);

/// The roundings of the lowp variant.
struct Precision {
  Type compute = Type::F64; // F64 or F32: arithmetic and accumulation
  SumOrder order = SumOrder::Ascending;
  Type score = Type::F64, probability = Type::F64, output = Type::F64;
  /// Rounds exp(s - max) and divides by the sum afterwards, as a kernel must if its type is too
  /// narrow for small probabilities (fp8).
  bool roundBeforeNormalizing = false;

  static Precision reference() { return {}; }
  static Precision lowp(Type type);
};

/// Whether and how ref computes the expected rounding errors of each result (see Accuracy.h): for
/// arithmetic in f32 (f64 if the output is f64), P and dS rounded to `probability`, results rounded
/// to `output`.
struct RoundoffModel {
  enum Rows {
    None,
    SingleKey, // only query rows that keep one pair
    All,
  };
  Rows rows = None;
  Type probability = Type::F64, output = Type::F64;

  explicit operator bool() const { return rows != None; }
  /// The unit roundoff of the arithmetic, and the mean error of rounding to a narrower type (about
  /// half its unit) as a multiple of it; 0 if nothing is rounded.
  double unit() const { return output == Type::F64 ? 0x1p-53 : 0x1p-24; }
  double narrowing(Type type) const {
    return type == Type::F64 || type == Type::F32 ? 0.0 : 0.5 * unitRoundoff(type) / unit();
  }
};

struct ForwardResult {
  std::vector<double> o;   // [B, Hq, Sq, DV]
  std::vector<double> lse; // [B, Hq, Sq]
  std::vector<double> roundoffO;
};

struct BackwardResult {
  std::vector<double> dQ, dK, dV;
  std::vector<double> dBias; // like bias.values, empty without a bias
  std::vector<double> dSink; // like sinks
  std::vector<double> delta; // [B, Hq, Sq]
  std::vector<double> roundoffDQ, roundoffDK, roundoffDV, roundoffDBias, roundoffDSink;
};

ForwardResult forward(const AttentionProblem &problem, const AttentionInputs &inputs,
                      const Precision &precision = Precision::reference(),
                      const RoundoffModel &roundoff = {});

/// Requires score.derivative if there is a score modifier.
BackwardResult backward(const AttentionProblem &problem, const AttentionInputs &inputs,
                        const Precision &precision = Precision::reference(),
                        const RoundoffModel &roundoff = {});

/// P [B, Hq, Sq, Skv] before dropout: the input of "backward from saved probabilities".
std::vector<double> probabilities(const AttentionProblem &problem, const AttentionInputs &inputs,
                                  const Precision &precision = Precision::reference());

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_ATTENTION_H
