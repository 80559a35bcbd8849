// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle of attention whose weights are the tanh of scores instead of a softmax, with the
// arrays, masks and precisions of Attention.h:
//
//   s_ij = scale * q_i . k_j        w_ij = tanh(s_ij), 0 for pairs that are not kept
//   o_i = sum_j w_ij v_j            dW_ij = dO_i . v_j
//   dS_ij = dW_ij (1 - tanh(s_ij)^2) for kept pairs, else 0
//   dQ, dK, dV of dS and w, as in Attention.h

#ifndef TILEWRIGHT_TEST_REFERENCE_WEIGHTEDATTENTION_H
#define TILEWRIGHT_TEST_REFERENCE_WEIGHTEDATTENTION_H

#include "test/Reference/Attention.h"

namespace tilewright::reference {

/// With the expected roundoffs, if a model is given.
struct WeightedResult {
  ForwardResult forward;   // o only
  BackwardResult backward; // dQ, dK and dV, if there is dO
};

WeightedResult tanhAttention(const AttentionProblem &problem, const AttentionInputs &inputs,
                             const Precision &precision = Precision::reference(),
                             const RoundoffModel &roundoff = {});

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_WEIGHTEDATTENTION_H
