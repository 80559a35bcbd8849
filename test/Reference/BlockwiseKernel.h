// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For the tests of the accuracy rule: attention computed as in a real kernel (FlashAttention-2:
// blocks of keys, running maximum, base 2, P recomputed from LSE), with optional faults.

#ifndef TILEWRIGHT_TEST_REFERENCE_BLOCKWISEKERNEL_H
#define TILEWRIGHT_TEST_REFERENCE_BLOCKWISEKERNEL_H

#include "test/Reference/Attention.h"

namespace tilewright::reference {

struct Faults {
  double scaleFactor = 1.0;    // multiplies the scale
  int64_t forgottenKey = -1;   // never attended
  bool forgetsRescale = false; // the first rescaling of a row is left out
  bool forgetsDelta = false;   // dS = P dP
  Type products = Type::F64;   // operands of Q K^T rounded to this (bf16: as bad as tf32 or worse)
};

/// Arithmetic in f32 (f64 for f64); P, dS and results rounded to the type. LSE is not rounded.
ForwardResult blockwiseForward(const AttentionProblem &problem, const AttentionInputs &inputs,
                               Type type, const Faults &faults = {});

/// From o and lse of blockwiseForward.
BackwardResult blockwiseBackward(const AttentionProblem &problem, const AttentionInputs &inputs,
                                 const ForwardResult &saved, Type type, const Faults &faults = {});

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_BLOCKWISEKERNEL_H
