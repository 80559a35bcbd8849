// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of strategies. A comment names the source of each row; docs/performance-log.md has the
// measurements.

#include "passes/Tile/StrategyTable.h"

#include "dialect/Tile/TileExpr.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;
using expr::Function;

static constexpr ApartRow apartRows[] = {
    // One H200, 2026-11-26 (performance-log, "a backward of heads that share keys"): an instance
    // for all heads of a group takes as long as all of these heads. With few of them there are
    // fewer instances than multiprocessors; else the longest may end long after the others, and
    // instances of a group that drift apart read more from memory. Wider rows and elements: not
    // measured.
    {"gpu", 16, 256, /*percent=*/110, /*halves=*/7, /*halvesOfTerm=*/1},
};

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
  MLIRContext *context = instances.getContext();
  auto number = [&](int64_t value) { return ExprAttr::getInt(context, value); };
  auto call = [&](Function function, std::initializer_list<ExprAttr> operands) {
    return makeCall(context, function, operands);
  };
  auto getRounds = [&](ExprAttr count) {
    return call(Function::CeilDiv, {count, number(multiprocessors)});
  };
  ExprAttr apart = call(Function::Mul, {instances, terms});
  ExprAttr isLonger =
      call(Function::Greater,
           {call(Function::Mul, {number(100), call(Function::Mul, {terms, getRounds(instances)})}),
            call(Function::Mul, {number(row.percent), getRounds(apart)})});
  ExprAttr areFew =
      call(Function::Less,
           {instances,
            call(Function::Max,
                 {number(row.halves * multiprocessors / 2),
                  call(Function::Mul, {number(row.halvesOfTerm * multiprocessors / 2), terms})})});
  return call(Function::And, {call(Function::Greater, {terms, number(1)}),
                              call(Function::Select, {isEven, isLonger, areFew})});
}
