// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The accuracy rule. An output is right if it is about as close to the f64 reference as the same
// formula evaluated naively in the kernel's own precision (lowp): the rule of FlashAttention's
// tests.
//
// Per tile, that is 128 rows of one (batch, head):
//   max  |out - ref| <= 2   * max(max |lowp - ref|, 2 max roundoff) + slack
//   mean |out - ref| <= 1.5 * max(mean |lowp - ref|, 0.6 (1 + 4 / sqrt(n)) mean roundoff)
//   slack = 2 max |x + 0.3 - 0.3 - x|, x the elements of ref in the element type
//   n = the rows that have a rounding error, or as many of them as are independent
//
// Roundoff. |lowp - ref| estimates the size of the rounding errors to expect from one sample of
// them. If a tile has few independent errors, or lowp happens to make none (a row with one key
// has P = 1 exactly, and dP - delta is 0), the sample says little. Then the expected size itself is
// needed: the reference computes it with the value, as a root sum of squares of
// first-order error terms (Higham and Mary, "A new approach to probabilistic rounding error
// analysis", 2019). It counts what a kernel has to round: less than lowp, which also rounds S and
// dP. So with many samples it is below the error of lowp, and the bound does not grow.

#ifndef TILEWRIGHT_TEST_REFERENCE_ACCURACY_H
#define TILEWRIGHT_TEST_REFERENCE_ACCURACY_H

#include "test/Reference/Attention.h"

#include <ostream>
#include <string>

namespace tilewright::reference {

/// Rows of one tile of the rule.
inline constexpr int64_t tileRows = 128;

/// How an array is cut into tiles: [heads, rows, columns].
struct TileShape {
  int64_t heads, rows, columns;
  /// The maximum number of rows of a tile with independent errors. All dK rows share those of a
  /// query.
  int64_t independentRows = tileRows;
};

/// The result of a comparison. Errors and location are those of the worst tile: that with the
/// largest ratio of error to allowed error.
struct AccuracyReport {
  bool ok = true;
  std::string message;   // one line, also when ok
  double worstRatio = 0; // <= 1 when ok and everything is finite
  double maxError = 0, maxAllowed = 0;
  double meanError = 0, meanAllowed = 0;
  int64_t head = -1, row = -1, column = -1; // of the greatest error in that tile
  double got = 0, expected = 0;
  /// Compared tiles, and those accepted only because of the expected roundoff: max <= 2 max lowp +
  /// slack or mean <= 1.5 mean lowp alone would reject them; and with the slack added to both
  /// sides.
  Type type = Type::F64;
  int64_t numTiles = 0, numNeedRoundoff = 0, numNeedRoundoffDespiteSlack = 0;

  explicit operator bool() const { return ok; }
};
std::ostream &operator<<(std::ostream &os, const AccuracyReport &report);

/// The rule for outputs in the element type. All arrays have shape.heads * rows * columns elements;
/// roundoff may be empty. NaN and infinities must be exactly where ref has them; if ref overflows
/// the element type, an infinity is correct.
AccuracyReport checkAccuracy(const std::string &name, Type type, TileShape shape,
                             const std::vector<double> &out, const std::vector<double> &ref,
                             const std::vector<double> &lowp,
                             const std::vector<double> &roundoff = {});

/// The rule for LSE and delta, [heads, rows]: |out - ref| <= 1e-4 (1 + |ref|); NaN and infinities
/// must match exactly.
AccuracyReport checkStatistic(const std::string &name, int64_t heads, int64_t rows,
                              const std::vector<double> &out, const std::vector<double> &ref);

/// delta_i = sum_d dO_id o_id - dLse_i from a given o (a kernel's, in its element type); dLse may
/// be empty.
std::vector<double> deltaOf(const AttentionProblem &problem, const std::vector<double> &o,
                            const std::vector<double> &dO, const std::vector<double> &dLse);

/// The expected roundoff of a problem. For 16-bit types, all rows are considered only if there are
/// few pairs; otherwise, only rows that keep a single pair.
RoundoffModel roundoffFor(const AttentionProblem &problem, Type type);

/// ref and lowp of a forward, and the checks of its outputs.
struct ForwardOracle {
  TileShape shapeO;
  Type type;
  ForwardResult ref, lowp;

  ForwardOracle(const AttentionProblem &problem, const AttentionInputs &inputs, Type type);
  /// For other forms: results from Variants.h.
  ForwardOracle(const AttentionProblem &problem, Type type, ForwardResult ref, ForwardResult lowp);

  AccuracyReport checkO(const std::vector<double> &o) const;
  AccuracyReport checkLse(const std::vector<double> &lse) const;
};

/// ref and lowp of a backward, and the checks of its outputs.
struct BackwardOracle {
  TileShape shapeQ, shapeK, shapeV, shapeBias;
  Type type;
  BackwardResult ref, lowp;

  BackwardOracle(const AttentionProblem &problem, const AttentionInputs &inputs, Type type);
  BackwardOracle(const AttentionProblem &problem, Type type, BackwardResult ref,
                 BackwardResult lowp);

  AccuracyReport checkDQ(const std::vector<double> &dQ) const;
  AccuracyReport checkDK(const std::vector<double> &dK) const;
  AccuracyReport checkDV(const std::vector<double> &dV) const;
  AccuracyReport checkDBias(const std::vector<double> &dBias) const;
};

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_ACCURACY_H
