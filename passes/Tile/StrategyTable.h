// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the instances of a launch share the work of a sum: measured limits.

#ifndef TILEWRIGHT_PASSES_TILE_STRATEGYTABLE_H
#define TILEWRIGHT_PASSES_TILE_STRATEGYTABLE_H

#include "dialect/Tile/Tile.h"

namespace tilewright {

/// When instances add the terms of a `tile.accumulate` one by one, to arrays in memory.
struct ApartRow {
  llvm::StringLiteral target; ///< "gpu", or a name of base/Target
  int64_t bits;               ///< of an element of the result: maximum
  int64_t bytes;              ///< of a row of the result: maximum
  /// If all instances take about the same time, the multiprocessors take their instances in rounds:
  /// a loop over the terms may take this many percent of the time of separate terms.
  int64_t percent;
  /// Else a loop needs that many instances for each multiprocessor, in halves, and as many times
  /// `halvesOfTerm` as a sum has terms.
  int64_t halves, halvesOfTerm;
};

/// The row for a target; null if sums are always whole there.
const ApartRow *findApartRow(llvm::StringRef target);

/// "gpu, up to 16 bits, rows up to 256 bytes".
std::string describe(const ApartRow &row);

/// The condition, over the launch, on which terms are added apart: there are `instances` for whole
/// sums, of `terms` terms each, and `isEven` says whether all take about the same time.
tile::ExprAttr getApartCondition(const ApartRow &row, int64_t multiprocessors,
                                 tile::ExprAttr instances, tile::ExprAttr terms,
                                 tile::ExprAttr isEven);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_STRATEGYTABLE_H
