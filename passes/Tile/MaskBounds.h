// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bounds of a mask over a rectangle of positions, as IR that computes them: the rules of
// tile-analyze-masks.
//
// The rectangle is R x C: the positions r of the fixed interval and c of the blocks, both intervals
// of integers. All values here are i64. Every rule below is an implication between sets of pairs
// of the rectangle, so that the whole is right whatever it combines:
//
//   may    every c that the predicate keeps for some r of R lies in it
//   must   every c of it is kept for every r of R
//   tight  every c of may is kept for some r of R
//
// Taking may larger or must smaller is always allowed, and so is to deny that may is tight.
//
// Tightness does not follow from that of the parts: `and` of two conditions, each of which keeps c
// for some r, may keep it for none. It does for inequalities +-r + k * c + rest >= 0. Those that
// want a large r all hold at the last r if each holds for some r; those that want a small one, at
// the first. One of either kind, r >= x and r <= y, hold together for some r of R if each does and
// x <= y, which is their sum: the same for all c if c cancels out. So a conjunction of such
// inequalities is tight, once pairs that exclude each other have emptied it.
//
// What a mask reads in an array is data: that captures which ascend leave no gaps between the
// rows of a rectangle is promised with them (docs/guide/masks.md), so that comparisons with them
// are tight and their conjunctions, too.

#ifndef TILEWRIGHT_PASSES_TILE_MASKBOUNDS_H
#define TILEWRIGHT_PASSES_TILE_MASKBOUNDS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace tilewright {

/// What is known of an interval whatever the rectangle is.
struct IntervalFacts {
  bool startsAtLower = false; ///< begins with the lower bound, unless it is empty
  bool endsAtUpper = false;   ///< ends with the upper bound, unless it is empty
  /// No block is in it: such is the must of a condition that depends on data.
  bool isEmpty = false;
  bool isAll = false; ///< [lower, upper)

  /// What is known of either.
  IntervalFacts operator&(const IntervalFacts &other) const {
    return {startsAtLower && other.startsAtLower, endsAtUpper && other.endsAtUpper,
            isEmpty && other.isEmpty, isAll && other.isAll};
  }
};

/// Positions [begin, end) of blocks, within [lower, upper). Where it is empty, begin is upper and
/// end is lower, so that hulls need no case for it.
struct Interval {
  mlir::Value begin, end;
  IntervalFacts known = {};
};

/// against * r + block * c + rest >= 0, where `active`; against is -1, 0 or 1.
struct Inequality {
  int64_t against, block;
  mlir::Value rest, active;
};

struct Bounds {
  Interval may, must;
  /// Null where may need not be tight; otherwise whether it is, as known at run time.
  mlir::Value tight;
  /// Of a tight conjunction: its inequalities that depend on r.
  std::vector<Inequality> inequalities;
  /// The condition that is the same for all pairs, if this is one.
  mlir::Value uniform;
  /// Of c <= r + edge, if that is all it says: may ends behind the last r + edge, must behind the
  /// first.
  mlir::Value edge;

  bool isAll() const { return may.known.isAll && must.known.isAll; }
};

/// Bounds of a condition and of its negation. Both are kept because the complement of an
/// interval is not one: De Morgan's laws carry negation down to the comparisons, where it is exact.
struct Predicate {
  Bounds yes, no;
};

/// An integer that is against * r + block * c + rest, where rest lies in [low, high] for every pair
/// of the rectangle; equal low and high make it exact. True only where `valid` holds: that is where
/// none of the mask's own operations wraps.
struct Linear {
  int64_t against = 0, block = 0;
  mlir::Value low, high, valid;
  /// Of one r the rest is one number, read in an array of which is promised that masks leave no
  /// gaps.
  bool isPromised = false;
};

class MaskBoundsBuilder {
public:
  /// The rectangle [againstBegin, againstEnd) x [lower, upper), given as i32.
  MaskBoundsBuilder(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value againstBegin,
                    mlir::Value againstEnd, mlir::Value lower, mlir::Value upper);

  //===--- Integers. A null valid flag means: cannot be followed.
  //------------------------------------===//
  Linear getAgainst() { return {1, 0, constant(0), constant(0), isTrue()}; }
  Linear getBlock() { return {0, 1, constant(0), constant(0), isTrue()}; }
  /// An i32 or i64 that is the same for all pairs.
  Linear getUniform(mlir::Value value);
  /// `mayWrap`: unless the mask's operation says that it does not, for any pair.
  Linear add(const Linear &a, const Linear &b, unsigned width, bool mayWrap);
  Linear subtract(const Linear &a, const Linear &b, unsigned width, bool mayWrap);
  Linear scale(const Linear &a, int64_t factor, unsigned width);
  Linear maximum(const Linear &a, const Linear &b) { return combine<mlir::arith::MaxSIOp>(a, b); }
  Linear minimum(const Linear &a, const Linear &b) { return combine<mlir::arith::MinSIOp>(a, b); }
  /// Either of the two, whichever it is for a pair; with a condition that is the same for all
  /// pairs, that one.
  Linear either(const Linear &a, const Linear &b, mlir::Value uniformCondition);
  /// a op divisor for a positive divisor, where `op` does not decrease in a.
  template <typename OpTy> Linear divide(const Linear &a, mlir::Value divisor);
  Linear remainder(const Linear &a, mlir::Value divisor);
  /// What `read` gives for an index, an i32, of an array of `extent` elements that do not decrease.
  /// That these are there for all positions is promised, too.
  Linear ascending(const Linear &index, mlir::Value extent,
                   llvm::function_ref<mlir::Value(mlir::Value)> read);
  /// The same value in `width` bits.
  Linear resize(const Linear &a, unsigned width) { return checkWidth(a, width); }

  //===--- Conditions
  //---------------------------------------------------------------------------------===//
  Predicate getUniformPredicate(mlir::Value condition);
  Predicate getUnknown() { return {getUnknownBounds(), getUnknownBounds()}; }
  Predicate compare(mlir::arith::CmpIPredicate predicate, const Linear &a, const Linear &b);
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
  /// Either of two conditions that say the same: of each is known what is known of the other.
  Predicate equivalent(const Predicate &a, const Predicate &b) {
    return {sharpen(a.yes, b.yes), sharpen(a.no, b.no)};
  }
  Predicate choose(const Predicate &condition, const Predicate &a, const Predicate &b);
  Predicate choose(mlir::Value uniformCondition, const Predicate &a, const Predicate &b);

  /// The interval as two i32 with begin <= end, the empty one as [lower, lower).
  std::pair<mlir::Value, mlir::Value> finish(const Interval &interval);
  /// Whether may is tight, as an i1.
  mlir::Value finishTight(const Bounds &bounds) {
    return bounds.tight ? bounds.tight : constant(0, 1);
  }

  /// A divisor by which any number may be divided: the given one, or 1 where that would trap.
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
  /// The same without its dependence on positions: only the range is kept.
  Linear widen(const Linear &a);
  Linear checkWidth(Linear a, unsigned width, bool mayWrap = true);
  Bounds notNegative(const Linear &a);
  Bounds getUnknownBounds() { return {all(), empty(), {}, {}, {}}; }
  mlir::Value negateFlag(mlir::Value flag) {
    return create<mlir::arith::XOrIOp>(flag, constant(1, 1));
  }
  /// `bounds`, of which the inequalities matter only where the flag is true.
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

  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Value againstFirst, againstLast, lower, upper, blockLast;
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
