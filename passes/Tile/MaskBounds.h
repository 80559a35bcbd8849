// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bounds of a mask over a rectangle of positions, as IR that computes them: the rules of
// tile-analyze-masks.
//
// The rectangle is R x C: the positions r of the fixed interval and c of the blocks, both intervals
// of integers. All values here are i64. Every rule below is an implication between sets of pairs of
// the rectangle, so any combination of rules is sound:
//
//   may    contains every c that the predicate keeps for some r of R
//   must   contains only c that are kept for every r of R
//   tight  every c of may is kept for some r of R
//
// It is always sound to enlarge may, to reduce must, and to report may as not tight.
//
// A conjunction of tight conditions need not be tight: `and` of two conditions, each of which keeps
// c for some r, may keep it for none. Tightness follows for inequalities +-r + k * c + rest >= 0.
// Those that bound r from below all hold at the last r if each holds for some r; those that bound
// it from above, at the first. Two of opposite kinds, r >= x and r <= y, hold together for some r
// of R if each does and x <= y, which is their sum: the same for all c if c cancels. So a
// conjunction of such inequalities is tight, after mutually exclusive pairs have made it empty.
//
// A disjunction of tight conditions is tight if the union of their intervals has no gap, as when
// both begin at the lower bound in every rectangle: each c of may is in one of them. If its sides
// bound r from below, it holds at the last r if it holds for some r, so a conjunction with others
// that bound r from below is tight; with one that bounds r from above, nothing is known.
//
// Values that a mask reads from an array are data. Captures declared as ascending promise that
// there are no gaps between the rows of a rectangle (docs/guide/masks.md), so comparisons with
// them, and conjunctions of these, are tight.

#ifndef TILEWRIGHT_PASSES_TILE_MASKBOUNDS_H
#define TILEWRIGHT_PASSES_TILE_MASKBOUNDS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

#include <vector>

namespace tilewright {

/// Facts about an interval that hold for every rectangle.
struct IntervalFacts {
  bool startsAtLower = false; ///< begins at the lower bound, unless it is empty
  bool endsAtUpper = false;   ///< ends at the upper bound, unless it is empty
  /// The interval has no block, such as the must of a data-dependent condition.
  bool isEmpty = false;
  bool isAll = false; ///< [lower, upper)

  /// The facts that hold for both.
  IntervalFacts operator&(const IntervalFacts &other) const {
    return {startsAtLower && other.startsAtLower, endsAtUpper && other.endsAtUpper,
            isEmpty && other.isEmpty, isAll && other.isAll};
  }
};

/// Positions [begin, end) of blocks, within [lower, upper). If it is empty, begin is upper and end
/// is lower, so that hulls need no special case.
struct Interval {
  mlir::Value begin, end;
  IntervalFacts known = {};
};

/// An interval by the numbers of positions that it lacks at the beginning and at the end of the
/// rectangle, as i32 without sign. It is empty if they exceed the rectangle. Null: not in this
/// form.
struct Limits {
  mlir::Value before, behind;
  /// `after` is less than 2^31, if the rectangle begins at 0 or later.
  bool isSmall = false;
  /// That holds if this i32 is not negative.
  mlir::Value smallIf;
};

/// against * r + block * c + rest >= 0, if `active`; against is -1, 0 or 1. A disjunction leaves a
/// marker for each side from which it bounds r: only `against` counts, and `block` is
/// `ofDisjunction`, which no other term of c cancels.
struct Inequality {
  static constexpr int64_t ofDisjunction = 2;
  int64_t against, block;
  mlir::Value rest, active;
};

struct Bounds {
  Interval may, must;
  /// Null if may is not known to be tight; otherwise an i1 that is true if it is.
  mlir::Value tight;
  /// If the conjunction is tight: its inequalities that depend on r, and markers of disjunctions.
  std::vector<Inequality> inequalities;
  /// The condition itself if it is the same for all pairs.
  mlir::Value uniform;
  /// The edge if the condition is c <= r + edge: may ends after the last r + edge, must after the
  /// first.
  mlir::Value edge = nullptr;
  /// Whether it contains a disjunction of conditions that differ between pairs, or a comparison
  /// with an ascending array.
  bool isDisjunction = false, isPromised = false;
  /// The same interval as may, if the rectangle is not empty.
  Limits limits = {};

  bool isAll() const { return may.known.isAll && must.known.isAll; }
};

/// Bounds of a condition and of its negation. Both are kept because the complement of an interval
/// is not an interval: De Morgan's laws carry negations down to the comparisons, where they are
/// exact.
struct Predicate {
  Bounds yes, no;
};

/// An integer against * r + block * c + rest, where rest is in [low, high] for every pair of the
/// rectangle; equal low and high make it exact. Holds only if `valid`, that is, if none of the
/// mask's own operations wraps.
struct Linear {
  int64_t against = 0, block = 0;
  mlir::Value low, high, valid;
  /// The rest is one number for each r, read from an array that is promised to leave no gaps.
  bool isPromised = false;
};

class MaskBoundsBuilder {
public:
  /// The rectangle [againstBegin, againstEnd) x [lower, upper), given as i32.
  MaskBoundsBuilder(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value againstBegin,
                    mlir::Value againstEnd, mlir::Value lower, mlir::Value upper);

  /// From here on, the rows of the rectangle are numbered by their remainders: `against` is the
  /// remainder of the position by `period`. Returns the quotient.
  Linear numberByRemainder(int64_t period);

  //===--- Integers. A null valid flag means: cannot be followed.
  //------------------------------------===//
  Linear getAgainst() { return {1, 0, constant(0), constant(0), isTrue()}; }
  Linear getBlock() { return {0, 1, constant(0), constant(0), isTrue()}; }
  /// An i32 or i64 that is the same for all pairs.
  Linear getUniform(mlir::Value value);
  /// `mayWrap`: false if the mask's operation has nsw.
  Linear add(const Linear &a, const Linear &b, unsigned width, bool mayWrap);
  Linear subtract(const Linear &a, const Linear &b, unsigned width, bool mayWrap);
  Linear scale(const Linear &a, int64_t factor, unsigned width);
  Linear maximum(const Linear &a, const Linear &b) { return combine<mlir::arith::MaxSIOp>(a, b); }
  Linear minimum(const Linear &a, const Linear &b) { return combine<mlir::arith::MinSIOp>(a, b); }
  /// One of the two, which may depend on the pair; with a condition that is the same for all pairs,
  /// the selected one.
  Linear either(const Linear &a, const Linear &b, mlir::Value uniformCondition);
  /// a op divisor for a positive divisor, where `op` is monotonic in a.
  template <typename OpTy> Linear divide(const Linear &a, mlir::Value divisor);
  Linear remainder(const Linear &a, mlir::Value divisor);
  /// The result of `read` at an i32 index of an ascending array of `extent` elements. The array is
  /// promised to cover all positions.
  Linear ascending(const Linear &index, mlir::Value extent,
                   llvm::function_ref<mlir::Value(mlir::Value)> read);
  /// The same value in `width` bits.
  Linear resize(const Linear &a, unsigned width) { return checkWidth(a, width); }

  //===--- Conditions -----------------------------------------------------===//
  Predicate getUniformPredicate(mlir::Value condition);
  Predicate getUnknown() { return {getUnknownBounds(), getUnknownBounds()}; }
  /// `width` is that of the mask's operands.
  Predicate compare(mlir::arith::CmpIPredicate predicate, const Linear &a, const Linear &b,
                    unsigned width);
  Predicate negate(const Predicate &p) { return {p.no, p.yes}; }
  Predicate conjunction(const Predicate &a, const Predicate &b) {
    return {intersect(a.yes, b.yes), unite(a.no, b.no)};
  }
  Predicate disjunction(const Predicate &a, const Predicate &b) {
    return {unite(a.yes, b.yes), intersect(a.no, b.no)};
  }
  Predicate exclusive(const Predicate &a, const Predicate &b) {
    return disjunction(conjunction(a, negate(b)), conjunction(negate(a), b));
  }
  /// Two equivalent conditions: facts about either hold for both.
  Predicate equivalent(const Predicate &a, const Predicate &b) {
    return {sharpen(a.yes, b.yes), sharpen(a.no, b.no)};
  }
  Predicate choose(const Predicate &condition, const Predicate &a, const Predicate &b);
  Predicate choose(mlir::Value uniformCondition, const Predicate &a, const Predicate &b);

  /// The interval as two i32 with begin <= end, the empty one as [lower, lower).
  std::pair<mlir::Value, mlir::Value> finish(const Interval &interval);
  /// May as two i32, empty unless first < end; also empty if there is no row. `hasRows`: there is
  /// one.
  std::pair<mlir::Value, mlir::Value> finishLimits(const Bounds &bounds, bool hasRows);
  /// Whether may is tight, as an i1.
  mlir::Value finishTight(const Bounds &bounds) {
    if (!bounds.tight)
      return constant(0, 1);
    return hasAllRows ? both(bounds.tight, hasAllRows) : bounds.tight;
  }

  /// Whether two values are computed by the same operations.
  static bool areSame(mlir::Value a, mlir::Value b, unsigned depth = 16);

  /// The given divisor, or 1 if the division would trap.
  mlir::Value guardDivisor(mlir::Value numerator, mlir::Value divisor);

private:
  template <typename OpTy, typename... Args> mlir::Value create(Args &&...args) {
    return builder.createOrFold<OpTy>(loc, std::forward<Args>(args)...);
  }
  mlir::Value constant(int64_t value, unsigned width = 64);
  mlir::Value isTrue() { return constant(1, 1); }
  mlir::Value addConstant(mlir::Value value, int64_t amount);
  mlir::Value multiply(mlir::Value value, int64_t factor);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return create<mlir::arith::SelectOp>(condition, a, b);
  }
  mlir::Value both(mlir::Value a, mlir::Value b) { return create<mlir::arith::AndIOp>(a, b); }
  mlir::Value test(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b) {
    return create<mlir::arith::CmpIOp>(predicate, a, b);
  }
  mlir::Value max(mlir::Value a, mlir::Value b) { return create<mlir::arith::MaxSIOp>(a, b); }
  mlir::Value min(mlir::Value a, mlir::Value b) { return create<mlir::arith::MinSIOp>(a, b); }
  mlir::Value clamp(mlir::Value value) { return max(lower, min(value, upper)); }

  template <typename OpTy> Linear combine(const Linear &a, const Linear &b);
  /// Smallest and largest value over the rectangle.
  std::pair<mlir::Value, mlir::Value> getRange(const Linear &a);
  /// Drops the dependence on positions: keeps only the range.
  Linear widen(const Linear &a);
  Linear checkWidth(Linear a, unsigned width, bool mayWrap = true);
  Bounds notNegative(const Linear &a);
  Bounds getUnknownBounds() { return {all(), empty(), {}, {}, {}}; }
  mlir::Value negateFlag(mlir::Value flag) {
    return create<mlir::arith::XOrIOp>(flag, constant(1, 1));
  }
  /// `bounds`, with inequalities that are active only if the flag is true.
  Bounds restrict(Bounds bounds, mlir::Value flag);

  Interval all() { return {lower, upper, {true, true, false, true}}; }
  Interval empty() { return {upper, lower, {true, true, true, false}}; }
  Interval normalize(const Interval &a);
  Interval select(mlir::Value condition, const Interval &a, const Interval &b) {
    return {select(condition, a.begin, b.begin), select(condition, a.end, b.end),
            a.known & b.known};
  }
  Bounds select(mlir::Value condition, const Bounds &a, const Bounds &b);
  Interval intersect(const Interval &a, const Interval &b);
  Interval unionOrLonger(const Interval &a, const Interval &b);
  Bounds intersect(const Bounds &a, const Bounds &b);
  Bounds unite(const Bounds &a, const Bounds &b);
  Bounds sharpen(const Bounds &a, const Bounds &b);

  //===--- Limits (MaskLimits.cpp) ----------------------------------------===//
  Limits allLimits();
  Limits noLimits();
  /// Those of x - y >= strict, where x and y are numbers of the mask, of `width` bits.
  Limits compareLimits(const Linear &x, const Linear &y, bool isStrict, unsigned width);
  Limits select(mlir::Value condition, const Limits &a, const Limits &b);
  Limits intersect(const Limits &a, const Limits &b);
  /// Those of a disjunction with a condition that is the same for all pairs.
  Limits uniteUniform(mlir::Value same, Limits other);
  /// The number of positions.
  mlir::Value getMost() { return create<mlir::arith::SubIOp>(top32, lower32); }
  /// Whether two inequalities, whose sum is given, exclude each other for no operands of the mask.
  bool areCompatible(const Inequality &x, const Inequality &y, mlir::Value sum);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Value againstFirst, againstLast, lower, upper, blockLast;
  /// The arguments, and max(lower, upper).
  mlir::Value againstBegin32, againstEnd32, lower32, top32;
  /// Whether each number from againstFirst to againstLast is that of a row; null: always.
  mlir::Value hasAllRows;
};

template <typename OpTy> Linear MaskBoundsBuilder::divide(const Linear &a, mlir::Value divisor) {
  Linear d = getUniform(divisor);
  mlir::Value zero = constant(0);
  mlir::Value positive = test(mlir::arith::CmpIPredicate::sgt, d.low, zero);
  mlir::Value safe = select(positive, d.low, constant(1));
  auto [low, high] = getRange(a);
  return {0, 0, create<OpTy>(low, safe), create<OpTy>(high, safe),
          both(both(a.valid, d.valid), positive)};
}

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_MASKBOUNDS_H
