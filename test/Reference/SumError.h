// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rounding error to expect of a sum (see Accuracy.h).

#ifndef TILEWRIGHT_TEST_REFERENCE_SUMERROR_H
#define TILEWRIGHT_TEST_REFERENCE_SUMERROR_H

#include "test/Reference/Attention.h"

#include <cmath>

namespace tilewright::reference {

inline double squareOf(double x) { return x * x; }

/// The error to expect of a sum of n terms: of the terms themselves (errors: the sum of the squares
/// of their errors, in units of roundoff), of the additions (terms: the sum of the squares of the
/// terms; partial sums wander, and drift toward the sum), and of rounding the result.
inline double sumError(int64_t n, double errors, double terms, double sum,
                       const RoundoffModel &model) {
  double count = static_cast<double>(n);
  double storing = 1.0 + 0.05 * count + squareOf(model.narrowing(model.output));
  return model.unit() * std::sqrt(errors + 0.09 * count * terms + storing * sum * sum);
}

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_SUMERROR_H
