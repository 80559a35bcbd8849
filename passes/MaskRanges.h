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

/// The metadata of the function's location, which then is that of the first operation of the mask
/// that is not analyzed, if there is one: for reports.
inline constexpr llvm::StringLiteral maskNotFollowedName = "mask-not-followed";

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_MASKRANGES_H
