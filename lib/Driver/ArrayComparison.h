// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares two results of the same computation.

#ifndef TILEWRIGHT_LIB_DRIVER_ARRAYCOMPARISON_H
#define TILEWRIGHT_LIB_DRIVER_ARRAYCOMPARISON_H

#include "lib/Driver/HostArray.h"

#include <optional>

namespace tilewright {

/// Elements a and b agree if |a - b| <= absolute + relative * max(|a|, |b|).
struct Tolerance {
  double relative = 0.0, absolute = 0.0;

  /// The tolerance for results of two correct kernels. For f16, bf16, e4m3 and e5m2, it is twice
  /// the distance from 1 to the next number: each result is rounded once, and so are the operands
  /// of its products. For f32 and f64, 32 times that distance: sums of up to a thousand terms in
  /// another order. The absolute part is the same share of `magnitude`, the root mean square of the
  /// results, since the terms of a sum that cancels are as large as its neighbors. Zero for
  /// integers.
  static Tolerance of(ElementType type, double magnitude);
};

struct ArrayDifference {
  bool sameBits = false;
  int64_t count = 0;     ///< number of elements
  int64_t beyond = 0;    ///< number beyond the tolerance, or NaN or infinite on one side only
  int64_t nonFinite = 0; ///< only the latter, and infinities of different signs
  Tolerance tolerance;   ///< tolerance applied
  double absolute = 0.0, relative = 0.0; ///< maximum over elements that are finite on both sides
  /// Row-major positions: the first element beyond the tolerance, and the one with the largest
  /// excess.
  int64_t first = -1, worst = -1;
  /// The elements there; an i64 is rounded.
  double firstValues[2] = {}, worstValues[2] = {};
};

/// Compares element by element; NaN agrees with NaN. The element types may differ if both are
/// floats or both are the same integer; the default tolerance is that of the narrower type. Errors:
/// shapes that differ, or types that cannot be compared.
llvm::Expected<ArrayDifference> compareArrays(const HostArray &a, const HostArray &b,
                                              std::optional<Tolerance> tolerance);

/// The indices of an element, by its row-major position.
llvm::SmallVector<int64_t> toIndices(int64_t position, llvm::ArrayRef<int64_t> shape);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_ARRAYCOMPARISON_H
