// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of strategies. A comment names the GPU and the date of the measurement that a row is
// from; bench/tune.py with --extra =--sums=... measures what a row decides.

#include "passes/Tile/StrategyTable.h"

#include "base/Target/Target.h"
#include "dialect/Tile/TileExpr.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

static constexpr ApartRow apartRows[] = {
    // One H200, 2026-11-26: an instance for all heads of a group takes as long as all of these
    // heads. With few of them there are fewer instances than multiprocessors; else the longest may
    // end long after the others, and instances of a group that drift apart read more from memory.
    // Wider rows and elements: not measured.
    {"gpu", 16, 256, /*percent=*/110, /*halves=*/7, /*halvesOfTerm=*/1},
};

static constexpr OrderRow orderRows[] = {
    // One H200, 2026-11-26 and 27. With other blocks the role that adds does not fit next to the
    // others; with 80 rows it leaves them too few registers.
    {"roles", 16, 128,
     /*positions=*/128, /*narrowWidth=*/64, /*narrowRows=*/128, /*wideRows=*/64, /*otherRows=*/80,
     /*rowsInstead=*/64, /*rowsOfWidth=*/8, /*wholeUnit=*/32, /*wholeRows=*/6144,
     /*narrowOtherRows=*/2048, /*wideOtherRows=*/1024, /*rowsOfSequence=*/384,
     /*listedRows=*/1024, /*listedSequences=*/256},
};

static constexpr SharesRow sharesRows[] = {
    // Not measured but for the slots: one block for each multiprocessor, since the last bits of a
    // second round would take as long as a whole one; eight iterations fill the ring of copies
    // twice. The blocks for few rows: an operand of few rows is read often, from the L2, and the
    // other once, from memory; half of the columns halve the states (128 rows of 4096 columns by 8
    // shares: 17 MB).
    //
    // Slots: one H200, 2026-11-30, products by 4096 columns and K = 16384, us with six, four and
    // three slots: 64 rows 38.3, 38.0, 42.7; 128 rows 43.6, 41.6, 47.7.
    {"roles",
     16,
     /*most=*/16,
     /*iterations=*/8,
     /*rowsOfMerge=*/8,
     /*mostStages=*/4,
     {{64, 64, 128}, {128, 128, 128}}},
};

/// The row of a target, or of targets with roles.
template <typename Row>
static const Row *findRow(llvm::ArrayRef<Row> rows, llvm::StringRef target) {
  const Target *chip = Target::find(target);
  for (const Row &row : rows)
    if (row.target == target || (row.target == "roles" && chip && chip->hasRoles()))
      return &row;
  return nullptr;
}

const SharesRow *tilewright::findSharesRow(llvm::StringRef target) {
  return findRow<SharesRow>(sharesRows, target);
}

const SharesRow *tilewright::getAnySharesRow() { return sharesRows; }

const OrderRow *tilewright::findOrderRow(llvm::StringRef target) {
  return findRow<OrderRow>(orderRows, target);
}

const OrderRow *tilewright::getAnyOrderRow() { return orderRows; }

namespace {
/// Writes expressions.
struct Writer {
  MLIRContext *context;

  ExprAttr operator()(Function function, std::initializer_list<ExprAttr> operands) const {
    return makeCall(context, function, operands);
  }
  ExprAttr operator()(int64_t value) const { return ExprAttr::getInt(context, value); }
  ExprAttr all(std::initializer_list<ExprAttr> operands) const {
    ExprAttr result;
    for (ExprAttr operand : operands)
      result = result ? (*this)(Function::And, {result, operand}) : operand;
    return result;
  }
  ExprAttr isAtMost(ExprAttr value, int64_t most) const {
    return (*this)(Function::LessEqual, {value, (*this)(most)});
  }
  ExprAttr equals(ExprAttr value, int64_t other) const {
    return (*this)(Function::Equal, {value, (*this)(other)});
  }
};
} // namespace

ExprAttr tilewright::getOrderCondition(const OrderRow &row, const OrderedLaunch &launch) {
  Writer w{launch.width.getContext()};
  ExprAttr isNarrow = w.isAtMost(launch.width, row.narrowWidth);
  ExprAttr isDense = w(Function::Not, {launch.isPacked});
  ExprAttr isWide =
      w(Function::Or, {w.equals(launch.rowsOfBlock, row.wideRows),
                       w.all({w.equals(launch.rowsOfBlock, row.otherRows), isDense})});
  ExprAttr fits = w.all(
      {launch.haveOneWidth, w.equals(launch.positions, row.positions),
       w(Function::Select, {isNarrow, w.equals(launch.rowsOfBlock, row.narrowRows), isWide})});

  ExprAttr isWhole = w.equals(w(Function::Mod, {launch.width, w(row.wholeUnit)}), 0);
  ExprAttr others = w(Function::Select, {isNarrow, w(row.narrowOtherRows), w(row.wideOtherRows)});
  ExprAttr mostRows = w(Function::Select, {launch.isStaggered,
                                           w(Function::Select, {isWhole, w(row.wholeRows), others}),
                                           w(Function::Mul, {w(row.rowsOfWidth), launch.width})});
  ExprAttr isAlways =
      w(Function::Or, {launch.isBanded, w.all({launch.isStaggered, launch.isPacked, isWhole})});
  ExprAttr areFew = w.all({isDense, w(Function::LessEqual, {launch.rows, mostRows})});
  ExprAttr areLong = w(Function::GreaterEqual,
                       {launch.rows, w(Function::Mul, {w(row.rowsOfSequence), launch.sequences})});
  // What is known when parameters are bound precedes what each launch decides.
  return w.all({fits, w(Function::Or, {isAlways, areFew}), w(Function::Or, {isDense, areLong}),
                w(Function::Not, {launch.areShared})});
}

ExprAttr tilewright::getListCondition(const OrderRow &row, const OrderedLaunch &launch) {
  Writer w{launch.width.getContext()};
  return w.all({launch.isPacked, launch.isStaggered, w(Function::Not, {launch.isBanded}),
                w(Function::GreaterEqual,
                  {launch.rows, w(Function::Mul, {w(row.listedRows), launch.sequences})}),
                w.isAtMost(launch.sequences, row.listedSequences)});
}

ExprAttr tilewright::getOrderedRows(const OrderRow &row, const OrderedLaunch &launch) {
  Writer w{launch.width.getContext()};
  return w(Function::Select, {w.all({w.equals(launch.rowsOfBlock, row.otherRows),
                                     w(Function::Not, {launch.isPacked})}),
                              w(row.rowsInstead), launch.rowsOfBlock});
}

const ApartRow *tilewright::findApartRow(llvm::StringRef target) {
  for (const ApartRow &row : apartRows)
    if (row.target == target || (row.target == "gpu" && target != "cpu"))
      return &row;
  return nullptr;
}

std::string tilewright::describe(const ApartRow &row) {
  return row.target.str() + ", up to " + std::to_string(row.bits) + " bits, rows up to " +
         std::to_string(row.bytes) + " bytes";
}

ExprAttr tilewright::getApartCondition(const ApartRow &row, int64_t multiprocessors,
                                       ExprAttr instances, ExprAttr terms, ExprAttr isEven) {
  Writer w{instances.getContext()};
  auto getRounds = [&](ExprAttr count) {
    return w(Function::CeilDiv, {count, w(multiprocessors)});
  };
  ExprAttr apart = w(Function::Mul, {instances, terms});
  ExprAttr isLonger =
      w(Function::Greater,
        {w(Function::Mul, {w(100), w(Function::Mul, {terms, getRounds(instances)})}),
         w(Function::Mul, {w(row.percent), getRounds(apart)})});
  ExprAttr ofTerms = w(Function::Mul, {w(row.halvesOfTerm * multiprocessors / 2), terms});
  ExprAttr areFew =
      w(Function::Less,
        {instances, w(Function::Max, {w(row.halves * multiprocessors / 2), ofTerms})});
  return w.all(
      {w(Function::Greater, {terms, w(1)}), w(Function::Select, {isEven, isLonger, areFew})});
}

ExprAttr tilewright::getShares(const SharesRow &row, int64_t multiprocessors, ExprAttr blocks,
                               ExprAttr iterations) {
  Writer w{blocks.getContext()};
  ExprAttr free = w(Function::FloorDiv, {w(multiprocessors), w(Function::Max, {blocks, w(1)})});
  ExprAttr ofLength = w(Function::FloorDiv, {iterations, w(row.iterations)});
  ExprAttr shares = w(Function::Min, {w(Function::Min, {free, ofLength}), w(row.most)});
  return w(Function::Max, {shares, w(1)});
}

std::string tilewright::describe(const SharesRow &row) {
  return row.target.str() + ", up to " + std::to_string(row.bits) + " bits";
}
