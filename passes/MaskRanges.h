// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions that tile-analyze-masks derives, as tile-to-tgpu uses them.

#ifndef TILEWRIGHT_PASSES_MASKRANGES_H
#define TILEWRIGHT_PASSES_MASKRANGES_H

#include "llvm/ADT/StringRef.h"

namespace tilewright {

/// Their results.
enum MaskRange : unsigned { MayBegin, MayEnd, MustBegin, MustEnd, IsTight };

/// On the result MustEnd, the numbers of the arguments whose sum is s: the mask keeps exactly c <=
/// r + s. So, clipped to [lower, upper), may ends at against_end + s, and must at against_begin + 1
/// + s.
inline constexpr llvm::StringLiteral rowEdgeName = "tile.row_edge";

/// On the result MustEnd: neither may nor must, unless it is empty, ends before upper.
inline constexpr llvm::StringLiteral endsAtUpperName = "tile.ends_at_upper";

/// On a capture: its file promises that along the last dimension no element is less than the
/// previous one.
inline constexpr llvm::StringLiteral ascendingName = "tile.ascending";

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_MASKRANGES_H
