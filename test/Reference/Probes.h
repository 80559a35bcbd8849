// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mask probes: inputs whose outputs show exactly which pairs are kept, in any precision. With Q = 0
// every kept score is 0, so that each of the n kept keys of a row has weight 1 / n, and V decides
// which weights are visible.
//
//   one-hot   V[j, d] = 1 where j = firstKey + d: o[i, d] is 1 / n if (i, j) is kept, else 0. A
//             run shows DV keys; runs with other firstKey show the rest.
//   integer   V[j, d] random +1 or -1: n o[i, d] is an integer sum over the kept keys. A run checks
//             all keys: a set that differs in one key differs by one in every column.
//   backward  dO one-hot in the rows of a group of heads: dV[j, d] is 1 / n_i if (i, j) is kept.
//
// A score modifier, a bias or dropout change the weights; then only zero and nonzero are compared
// (and the integer probe says nothing).

#ifndef TILEWRIGHT_TEST_REFERENCE_PROBES_H
#define TILEWRIGHT_TEST_REFERENCE_PROBES_H

#include "test/Reference/Accuracy.h"

namespace tilewright::reference {

struct MaskProbe {
  AttentionInputs inputs;
  int64_t first = 0; // first key (forward) or first row of the group (backward) that is shown
  /// The inputs of a backward from the forward: o [B, Hq, Sq, DV] and lse [B, Hq, Sq], of ref.
  ForwardResult saved;
};

/// ceil(Skv / DV) probes that show every pair.
std::vector<MaskProbe> oneHotProbes(const AttentionProblem &problem);
AccuracyReport checkOneHotProbe(const AttentionProblem &problem, const MaskProbe &probe, Type type,
                                const std::vector<double> &o);

MaskProbe integerProbe(const AttentionProblem &problem, uint64_t seed);
AccuracyReport checkIntegerProbe(const AttentionProblem &problem, const MaskProbe &probe, Type type,
                                 const std::vector<double> &o);

/// LSE of any probe without modifier and bias: log n, and -inf for n = 0.
AccuracyReport checkProbeLse(const AttentionProblem &problem, const std::vector<double> &lse);

/// ceil(group size * Sq / DV) probes that show every pair through dV. Row r of a group is row r %
/// Sq of its query head r / Sq.
std::vector<MaskProbe> backwardProbes(const AttentionProblem &problem);
AccuracyReport checkBackwardProbe(const AttentionProblem &problem, const MaskProbe &probe,
                                  Type type, const std::vector<double> &dV);

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_PROBES_H
