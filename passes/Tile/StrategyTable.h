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

/// When instances add to a sum in memory (`tile.contribute`) in order.
struct OrderRow {
  llvm::StringLiteral target; ///< "roles" (of base/Target), or a name of base/Target
  int64_t bits;  ///< of an element of what the other sums of the kernel are stored as: maximum
  int64_t width; ///< of all sums, columns: maximum
  // Where determinism is not asked for, a launch adds in order only if all sums have one width, the
  // kernel has the blocks below, no terms of other sums share an instance, and there are at most
  // that many rows; 0: never, -1: always.
  int64_t positions;   ///< of a block, of instances that add
  int64_t narrowWidth; ///< up to here, a block has `narrowRows` rows, else `wideRows`
  int64_t narrowRows, wideRows;
  int64_t otherRows;            ///< wide, too, if rows are not packed...
  int64_t rowsInstead;          ///< ...where a block has these rows in the form in order
  int64_t rowsOfWidth;          ///< not staggered: for each column
  int64_t wholeUnit, wholeRows; ///< staggered, the width a multiple of the unit; packed: -1
  int64_t narrowOtherRows, wideOtherRows; ///< staggered, other widths
  int64_t rowsOfSequence;                 ///< packed: at least as many in a sequence on average
  // The last heads of a staggered sum start with the instances that take longest. In packed rows
  // that takes a list, and so a launch.
  int64_t listedRows, listedSequences; ///< at least, of a sequence on average; at most
};

/// When instances share the iterations of a loop whose states merge (`tile.combine`).
struct SharesRow {
  llvm::StringLiteral target; ///< "roles" (of base/Target), or a name of base/Target
  int64_t bits;               ///< of an element of the loop's products: maximum
  int64_t most;               ///< shares
  int64_t iterations;         ///< of a share, at least
  int64_t rowsOfMerge;        ///< of a block of the launch that merges: maximum
  int64_t mostStages;         ///< slots of the rings of a share
  /// For results of at most `extent` rows, blocks of at most these rows and columns. With fewer
  /// columns there are more blocks and fewer shares, whose states take less memory.
  struct Blocks {
    int64_t extent, rows, columns;
  } few[2];
};

/// The row for a target; null if loops have no shares there.
const SharesRow *findSharesRow(llvm::StringRef target);
/// For targets without a row where a number of shares is asked for.
const SharesRow *getAnySharesRow();

/// The number of shares for that many blocks of results and iterations of the loop, which is 1 if
/// the loop is not to be shared.
tile::ExprAttr getShares(const SharesRow &row, int64_t multiprocessors, tile::ExprAttr blocks,
                         tile::ExprAttr iterations);

/// "roles, up to 16 bits".
std::string describe(const SharesRow &row);

/// The row for a target; null if sums are never in order there.
const OrderRow *findOrderRow(llvm::StringRef target);
/// For targets without a row where this form is asked for: its limits do not count then.
const OrderRow *getAnyOrderRow();

/// A launch that may have a form in order, as expressions over the program.
struct OrderedLaunch {
  tile::ExprAttr width, rowsOfBlock, positions, rows, sequences;
  tile::ExprAttr isStaggered, isBanded, isPacked;
  tile::ExprAttr haveOneWidth, areShared; ///< whether terms of other sums share an instance
};

/// Whether a launch is to add in order, where it can.
tile::ExprAttr getOrderCondition(const OrderRow &row, const OrderedLaunch &launch);
/// Whether packed rows get a list of instances.
tile::ExprAttr getListCondition(const OrderRow &row, const OrderedLaunch &launch);
/// The rows of a block in the form in order.
tile::ExprAttr getOrderedRows(const OrderRow &row, const OrderedLaunch &launch);

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
