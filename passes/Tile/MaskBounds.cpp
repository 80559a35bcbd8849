// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules, each with its proof.

#include "passes/Tile/MaskBounds.h"

#include "mlir/IR/Matchers.h"

#include <limits>

using namespace mlir;
using namespace tilewright;
using arith::CmpIPredicate;

namespace {
/// No 64-bit arithmetic in the derived function can wrap if all values are valid: coefficients are
/// at most maxFactor (13 bits, sums of two 14) and positions have 32 bits, so a product has 46; i32
/// values and i64 values up to maxWide add little to that; a factor of 13 bits leaves 60.
constexpr int64_t maxFactor = 4096;
constexpr int64_t maxWide = int64_t(1) << 44;
} // namespace

MaskBoundsBuilder::MaskBoundsBuilder(OpBuilder &builder, Location loc, Value againstBegin,
                                     Value againstEnd, Value lower32, Value upper32)
    : builder(builder), loc(loc), againstBegin32(againstBegin), againstEnd32(againstEnd),
      lower32(lower32) {
  auto extend = [&](Value value) { return create<arith::ExtSIOp>(builder.getI64Type(), value); };
  againstFirst = extend(againstBegin);
  againstLast = addConstant(extend(againstEnd), -1);
  lower = extend(lower32);
  upper = max(lower, extend(upper32)); // an interval whose end precedes its beginning is empty
  blockLast = addConstant(upper, -1);
  top32 = max(lower32, upper32);
}

Linear MaskBoundsBuilder::numberByRemainder(int64_t period) {
  Value begin = againstFirst, last = againstLast, zero = constant(0), most = constant(period - 1);
  auto quotient = [&](Value position) {
    return create<arith::DivSIOp>(position, constant(period));
  };
  Linear result{0, 0, quotient(begin), quotient(last), isTrue()};
  Value isNotNegative = test(CmpIPredicate::sge, begin, zero);
  Value surplus = create<arith::SubIOp>(last, begin);
  // Remainders ascend until a multiple; those of negative positions are negative.
  Value firstRest = create<arith::SubIOp>(begin, multiply(result.low, period));
  Value lastRest = create<arith::AddIOp>(firstRest, surplus);
  Value ascends = select(isNotNegative, test(CmpIPredicate::sle, lastRest, most),
                         test(CmpIPredicate::sle, surplus, zero));
  againstFirst = select(ascends, firstRest, select(isNotNegative, zero, constant(1 - period)));
  againstLast = select(ascends, lastRest, most);
  Value hasPeriod = both(isNotNegative, test(CmpIPredicate::sge, surplus, most));
  hasAllRows = create<arith::OrIOp>(ascends, hasPeriod);
  return result;
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value MaskBoundsBuilder::constant(int64_t value, unsigned width) {
  return create<arith::ConstantOp>(builder.getIntegerAttr(builder.getIntegerType(width), value));
}

Value MaskBoundsBuilder::addConstant(Value value, int64_t amount) {
  return amount == 0 ? value : create<arith::AddIOp>(value, constant(amount));
}

Value MaskBoundsBuilder::multiply(Value value, int64_t factor) {
  if (factor == 1)
    return value;
  return factor == -1 ? create<arith::SubIOp>(constant(0), value)
                      : create<arith::MulIOp>(value, constant(factor));
}

// A term k * x is smallest at the first x and largest at the last for k > 0, and vice versa for k <
// 0. The terms vary independently over the rectangle, so the extremes add up. In an empty rectangle
// low may exceed high, which is a vacuous claim.
std::pair<Value, Value> MaskBoundsBuilder::getRange(const Linear &a) {
  Value low = a.low, high = a.high;
  auto addTerm = [&](int64_t factor, Value first, Value last) {
    if (factor == 0)
      return;
    low = create<arith::AddIOp>(low, multiply(factor > 0 ? first : last, factor));
    high = create<arith::AddIOp>(high, multiply(factor > 0 ? last : first, factor));
  };
  addTerm(a.against, againstFirst, againstLast);
  addTerm(a.block, lower, blockLast);
  return {low, high};
}

Linear MaskBoundsBuilder::widen(const Linear &a) {
  auto [low, high] = getRange(a);
  return {0, 0, low, high, a.valid};
}

bool MaskBoundsBuilder::areSame(Value a, Value b, unsigned depth) {
  if (a == b)
    return true;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || depth == 0 || x->getName() != y->getName() ||
      x->getAttrDictionary() != y->getAttrDictionary() || x->getNumResults() != 1 ||
      x->getPropertiesAsAttribute() != y->getPropertiesAsAttribute() ||
      x->getNumOperands() != y->getNumOperands())
    return false;
  return llvm::all_of(llvm::zip_equal(x->getOperands(), y->getOperands()), [&](auto pair) {
    return areSame(std::get<0>(pair), std::get<1>(pair), depth - 1);
  });
}

// The mask computes in i32 (or i64) and wraps; the analysis tracks the mathematical value. The two
// agree if the range fits the width. Every intermediate result passes this check, so by induction
// over the mask's operations `valid` implies that the value is the mask's own. If the mask's
// operation has nsw, the value of each pair fits. Then only a rest that is a range is tested, since
// the range may be wider than the values of the pairs.
Linear MaskBoundsBuilder::checkWidth(Linear a, unsigned width, bool mayWrap) {
  if (!a.valid || std::abs(a.against) > maxFactor || std::abs(a.block) > maxFactor)
    return {};
  if (!mayWrap && areSame(a.low, a.high))
    return a;
  auto [low, high] = getRange(a);
  int64_t smallest = width == 32 ? std::numeric_limits<int32_t>::min() : -maxWide;
  int64_t largest = width == 32 ? std::numeric_limits<int32_t>::max() : maxWide;
  Value highFits = test(CmpIPredicate::sle, high, constant(largest));
  Value fits = both(test(CmpIPredicate::sge, low, constant(smallest)), highFits);
  a.valid = both(a.valid, fits);
  return a;
}

/// Whether the rest is one number for each r.
static bool isExactInRow(const Linear &a) {
  return a.isPromised || MaskBoundsBuilder::areSame(a.low, a.high);
}

/// Whether the rest of a sum or difference is one number for each r.
static bool isPromised(const Linear &a, const Linear &b) {
  return (a.isPromised || b.isPromised) && isExactInRow(a) && isExactInRow(b);
}

Linear MaskBoundsBuilder::getUniform(Value value) {
  if (value.getType().isInteger(32)) {
    Value wide = create<arith::ExtSIOp>(builder.getI64Type(), value);
    return {0, 0, wide, wide, isTrue()};
  }
  return checkWidth({0, 0, value, value, isTrue()}, 64);
}

Linear MaskBoundsBuilder::add(const Linear &a, const Linear &b, unsigned width, bool mayWrap) {
  return checkWidth({a.against + b.against, a.block + b.block, create<arith::AddIOp>(a.low, b.low),
                     create<arith::AddIOp>(a.high, b.high), both(a.valid, b.valid),
                     isPromised(a, b)},
                    width, mayWrap);
}

// rest(a) - rest(b) is smallest where the first is smallest and the second largest.
Linear MaskBoundsBuilder::subtract(const Linear &a, const Linear &b, unsigned width, bool mayWrap) {
  return checkWidth({a.against - b.against, a.block - b.block, create<arith::SubIOp>(a.low, b.high),
                     create<arith::SubIOp>(a.high, b.low), both(a.valid, b.valid),
                     isPromised(a, b)},
                    width, mayWrap);
}

Linear MaskBoundsBuilder::scale(const Linear &a, int64_t factor, unsigned width) {
  if (factor < -maxFactor || factor > maxFactor)
    return {};
  Value low = multiply(a.low, factor), high = multiply(a.high, factor);
  if (factor < 0)
    std::swap(low, high);
  return checkWidth({a.against * factor, a.block * factor, low, high, a.valid, a.isPromised},
                    width);
}

// max and min are monotonic in both operands, so they map ends of ranges to ends. If both operands
// have the same dependence on positions, it can be factored out: max(x + p, x + q) = x + max(p, q).
template <typename OpTy> Linear MaskBoundsBuilder::combine(const Linear &a, const Linear &b) {
  bool same = a.against == b.against && a.block == b.block;
  Linear x = same ? a : widen(a), y = same ? b : widen(b);
  return {x.against, x.block, create<OpTy>(x.low, y.low), create<OpTy>(x.high, y.high),
          both(a.valid, b.valid)};
}
template Linear MaskBoundsBuilder::combine<arith::MaxSIOp>(const Linear &, const Linear &);
template Linear MaskBoundsBuilder::combine<arith::MinSIOp>(const Linear &, const Linear &);

Linear MaskBoundsBuilder::either(const Linear &a, const Linear &b, Value condition) {
  bool same = a.against == b.against && a.block == b.block;
  Linear x = same ? a : widen(a), y = same ? b : widen(b);
  if (condition)
    return {x.against, x.block, select(condition, x.low, y.low), select(condition, x.high, y.high),
            select(condition, a.valid, b.valid)};
  return {x.against, x.block, min(x.low, y.low), max(x.high, y.high), both(a.valid, b.valid)};
}

Linear MaskBoundsBuilder::ascending(const Linear &index, Value extent,
                                    llvm::function_ref<Value(Value)> read) {
  auto [first, last] = getRange(index);
  Value count = create<arith::ExtSIOp>(builder.getI64Type(), extent);
  // Rows that are numbered by a remainder may be more than the array has, as a tile may have more
  // rows for each head than there are queries: they get the last element.
  Value end = hasAllRows ? addConstant(count, -1) : count;
  auto at = [&](Value place) {
    Value inside = max(constant(0), min(place, end));
    Value value = read(create<arith::TruncIOp>(builder.getI32Type(), inside));
    return create<arith::ExtSIOp>(builder.getI64Type(), value);
  };
  return {0, 0, at(first), at(last), index.valid, isExactInRow(index)};
}

// Truncating remainder: it has the sign of the numerator and is smaller than the divisor.
Linear MaskBoundsBuilder::remainder(const Linear &a, Value divisor) {
  Linear d = getUniform(divisor);
  Value zero = constant(0);
  Value positive = test(CmpIPredicate::sgt, d.low, zero);
  Value largest = addConstant(d.low, -1);
  auto [low, high] = getRange(a);
  Value smallest = create<arith::SubIOp>(zero, largest);
  return {0, 0, select(test(CmpIPredicate::sge, low, zero), zero, smallest),
          select(test(CmpIPredicate::sle, high, zero), zero, largest),
          both(both(a.valid, d.valid), positive)};
}

Value MaskBoundsBuilder::guardDivisor(Value numerator, Value divisor) {
  unsigned width = divisor.getType().getIntOrFloatBitWidth();
  Value isZero = test(CmpIPredicate::eq, divisor, constant(0, width));
  int64_t smallest =
      width == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t(1) << (width - 1));
  Value isSmallest = test(CmpIPredicate::eq, numerator, constant(smallest, width));
  Value overflows = both(test(CmpIPredicate::eq, divisor, constant(-1, width)), isSmallest);
  return select(create<arith::OrIOp>(isZero, overflows), constant(1, width), divisor);
}

//===----------------------------------------------------------------------===//
// Intervals
//===----------------------------------------------------------------------===//

Interval MaskBoundsBuilder::normalize(const Interval &a) {
  return select(test(CmpIPredicate::slt, a.begin, a.end), a, empty());
}

Interval MaskBoundsBuilder::intersect(const Interval &a, const Interval &b) {
  if (a.known.isEmpty || b.known.isEmpty)
    return empty();
  return normalize({max(a.begin, b.begin), min(a.end, b.end), a.known & b.known});
}

// The union of two intervals that overlap or touch is their hull; otherwise it has a gap, and the
// longer interval is kept. The empty interval is [upper, lower), so its hull with another is the
// other.
Interval MaskBoundsBuilder::unionOrLonger(const Interval &a, const Interval &b) {
  if (a.known.isEmpty || b.known.isEmpty)
    return a.known.isEmpty ? b : a;
  Value bBegins = test(CmpIPredicate::sle, b.begin, a.end);
  Value touch = both(test(CmpIPredicate::sle, a.begin, b.end), bBegins);
  Value lengthOfB = create<arith::SubIOp>(b.end, b.begin);
  Value aIsLonger = test(CmpIPredicate::sge, create<arith::SubIOp>(a.end, a.begin), lengthOfB);
  Interval hull{min(a.begin, b.begin), max(a.end, b.end), a.known & b.known};
  return select(touch, hull, select(aIsLonger, a, b));
}

Bounds MaskBoundsBuilder::restrict(Bounds bounds, Value flag) {
  for (Inequality &inequality : bounds.inequalities)
    inequality.active = both(inequality.active, flag);
  return bounds;
}

// Only the selected side matters, for tightness, too.
Bounds MaskBoundsBuilder::select(Value condition, const Bounds &a, const Bounds &b) {
  Bounds result{select(condition, a.may, b.may), select(condition, a.must, b.must), {}, {}, {}};
  if (!a.tight || !b.tight)
    return result;
  result.tight = select(condition, a.tight, b.tight);
  result.isDisjunction = a.isDisjunction || b.isDisjunction;
  result.isPromised = a.isPromised || b.isPromised;
  result.inequalities = restrict(a, condition).inequalities;
  llvm::append_range(result.inequalities, restrict(b, negateFlag(condition)).inequalities);
  result.limits = select(condition, a.limits, b.limits);
  return result;
}

// and. may: a pair that both conditions keep is in the may of both. must: where each condition
// keeps every r, both do. Tight: MaskBounds.h has the proof.
Bounds MaskBoundsBuilder::intersect(const Bounds &a, const Bounds &b) {
  if (a.isAll() || b.isAll())
    return a.isAll() ? b : a;
  Bounds result{intersect(a.may, b.may), intersect(a.must, b.must), {}, {}, {}};
  if (a.uniform && b.uniform)
    result.uniform = both(a.uniform, b.uniform);
  if (!a.tight || !b.tight)
    return result;
  // The promise of an ascending array covers conjunctions of comparisons only.
  result.isDisjunction = a.isDisjunction || b.isDisjunction;
  result.isPromised = a.isPromised || b.isPromised;
  if (result.isDisjunction && result.isPromised)
    return result;
  Value excluded;
  Limits limits = intersect(a.limits, b.limits);
  for (const Inequality &x : a.inequalities)
    for (const Inequality &y : b.inequalities) {
      if (x.against * y.against >= 0)
        continue;
      if (x.block + y.block != 0)
        return result;
      Value sum = create<arith::AddIOp>(x.rest, y.rest);
      Value isNegative = test(CmpIPredicate::slt, sum, constant(0));
      Value conflict = both(both(x.active, y.active), isNegative);
      excluded = excluded ? create<arith::OrIOp>(excluded, conflict) : conflict;
      if (limits.before && !areCompatible(x, y, sum))
        limits = select(conflict, noLimits(), limits);
    }
  if (excluded)
    result.may = select(excluded, empty(), result.may);
  result.tight = both(a.tight, b.tight);
  result.limits = limits;
  result.inequalities = a.inequalities;
  llvm::append_range(result.inequalities, b.inequalities);
  return result;
}

// or. may: a kept pair is in one of the two, hence in the hull. must: where one condition keeps
// every r, so does the disjunction; any part of the union is correct. Tight: the hull of two
// intervals need not be; but a side that is the same for all pairs either keeps everything or
// leaves the other side, and two intervals that begin, or end, at the same bound have no gap. The
// latter must be known for every rectangle: what is tight is also used for one row alone. The
// promise of an ascending array is about the whole mask, so its sides need not be tight.
Bounds MaskBoundsBuilder::unite(const Bounds &a, const Bounds &b) {
  Bounds result{
      {min(a.may.begin, b.may.begin), max(a.may.end, b.may.end), a.may.known & b.may.known},
      unionOrLonger(a.must, b.must),
      {},
      {},
      {}};
  if (a.uniform && b.uniform) {
    result.uniform = create<arith::OrIOp>(a.uniform, b.uniform);
    result.tight = isTrue();
    result.limits = select(result.uniform, allLimits(), noLimits());
    return result;
  }
  for (auto [same, other] : {std::pair(&a, &b), std::pair(&b, &a)})
    if (same->uniform && other->tight) {
      result.tight = create<arith::OrIOp>(same->uniform, other->tight);
      result.inequalities = restrict(*other, negateFlag(same->uniform)).inequalities;
      result.isDisjunction = other->isDisjunction;
      result.isPromised = other->isPromised;
      result.limits = uniteUniform(same->uniform, other->limits);
    }
  const IntervalFacts &known = result.may.known;
  if (result.tight || !a.tight || !b.tight || a.isPromised || b.isPromised ||
      !(known.startsAtLower || known.endsAtUpper))
    return result;
  result.tight = both(a.tight, b.tight);
  result.isDisjunction = true;
  for (int64_t side : {-1, 1})
    if (llvm::any_of(llvm::concat<const Inequality>(a.inequalities, b.inequalities),
                     [=](const Inequality &each) { return each.against == side; }))
      result.inequalities.push_back({side, Inequality::ofDisjunction, constant(0), isTrue()});
  return result;
}

// Positions that either condition excludes, or keeps for every r, are so for both. A part of a
// tight interval is tight.
Bounds MaskBoundsBuilder::sharpen(const Bounds &a, const Bounds &b) {
  const Bounds &tight = a.tight ? a : b;
  return {intersect(a.may, b.may),
          unionOrLonger(a.must, b.must),
          tight.tight,
          tight.inequalities,
          {},
          {},
          tight.isDisjunction,
          tight.isPromised};
}

std::pair<Value, Value> MaskBoundsBuilder::finish(const Interval &interval) {
  // If this is known at compile time, a part of the loop is known to be empty: [lower, lower) folds
  // to one value.
  if (interval.known.isEmpty) {
    Value nowhere = create<arith::TruncIOp>(builder.getI32Type(), lower);
    return {nowhere, nowhere};
  }
  Value isEmpty = test(CmpIPredicate::sge, interval.begin, interval.end);
  auto narrow = [&](Value value) {
    return create<arith::TruncIOp>(builder.getI32Type(), select(isEmpty, lower, value));
  };
  return {narrow(interval.known.startsAtLower ? lower : interval.begin), narrow(interval.end)};
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

Predicate MaskBoundsBuilder::getUniformPredicate(Value condition) {
  // A default mask that no file replaced is true.
  Predicate result;
  if (matchPattern(condition, m_One())) {
    result = {{all(), all(), isTrue(), {}, condition, {}},
              {empty(), empty(), isTrue(), {}, negateFlag(condition), {}}};
  } else {
    Interval yes = select(condition, all(), empty()), no = select(condition, empty(), all());
    result = {{yes, yes, isTrue(), {}, condition}, {no, no, isTrue(), {}, negateFlag(condition)}};
  }
  result.yes.limits = select(condition, allLimits(), noLimits());
  result.no.limits = select(condition, noLimits(), allLimits());
  return result;
}

// a >= 0, where a = against * r + block * c + rest and [least, most] bounds against * r + rest over
// R.
//   block = 0:   kept for no pair if most < 0, for every pair if least >= 0
//   block = 1:   kept iff c >= -(against * r + rest). Kept for some r only if c >= -most; for
//                every r if c >= -least.
//   block = -1:  kept iff c <= against * r + rest. Some r: c <= most; every r: c <= least.
// If a is not valid, nothing is excluded and nothing promised.
Bounds MaskBoundsBuilder::notNegative(const Linear &a) {
  Bounds unknown = getUnknownBounds();
  if (std::abs(a.block) > 1)
    return unknown;
  constexpr IntervalFacts atLower{true, false, false, false}, atUpper{false, true, false, false};
  auto [least, most] = getRange({a.against, 0, a.low, a.high, a.valid});
  Bounds bounds;
  if (a.block == 0) {
    Value zero = constant(0);
    bounds.may = select(test(CmpIPredicate::sge, most, zero), all(), empty());
    bounds.must = select(test(CmpIPredicate::sge, least, zero), all(), empty());
  } else if (a.block == 1) {
    bounds.may = normalize({clamp(multiply(most, -1)), upper, atUpper});
    bounds.must = normalize({clamp(multiply(least, -1)), upper, atUpper});
  } else {
    bounds.may = normalize({lower, clamp(addConstant(most, 1)), atLower});
    bounds.must = normalize({lower, clamp(addConstant(least, 1)), atLower});
  }
  Bounds result{select(a.valid, bounds.may, unknown.may),
                select(a.valid, bounds.must, unknown.must),
                {},
                {},
                {}};
  // If the rest is one number, `most` is attained: at the first r, or the last.
  if (a.isPromised && std::abs(a.against) <= 1) {
    result.tight = a.valid;
    result.isPromised = true;
  } else if (areSame(a.low, a.high) && std::abs(a.against) <= 1) {
    result.tight = a.valid;
    if (a.against != 0)
      result.inequalities.push_back({a.against, a.block, a.low, a.valid});
    if (a.against == 1 && a.block == -1 && matchPattern(a.valid, m_One()))
      result.edge = a.low;
  }
  return result;
}

Predicate MaskBoundsBuilder::compare(CmpIPredicate predicate, const Linear &a, const Linear &b,
                                     unsigned width) {
  // Signed and unsigned order agree if neither side is negative.
  auto compareUnsigned = [&](CmpIPredicate signedPredicate) {
    Value zero = constant(0);
    auto notBelowZero = [&](Linear x) {
      x.valid = both(x.valid, test(CmpIPredicate::sge, getRange(x).first, zero));
      return x;
    };
    return compare(signedPredicate, notBelowZero(a), notBelowZero(b), width);
  };
  // x - y - strict >= 0, and its negation y - x - 1 + strict >= 0. The differences of bounded
  // values are exact in 64 bits and need no check.
  auto atLeast = [&](const Linear &x, const Linear &y, int64_t strict) -> Bounds {
    Bounds bounds = notNegative({x.against - y.against, x.block - y.block,
                                 addConstant(create<arith::SubIOp>(x.low, y.high), -strict),
                                 addConstant(create<arith::SubIOp>(x.high, y.low), -strict),
                                 both(x.valid, y.valid), isPromised(x, y)});
    bounds.limits = compareLimits(x, y, strict, width);
    return bounds;
  };
  switch (predicate) {
  case CmpIPredicate::sge:
    return {atLeast(a, b, 0), atLeast(b, a, 1)};
  case CmpIPredicate::sgt:
    return {atLeast(a, b, 1), atLeast(b, a, 0)};
  case CmpIPredicate::sle:
    return compare(CmpIPredicate::sge, b, a, width);
  case CmpIPredicate::slt:
    return compare(CmpIPredicate::sgt, b, a, width);
  case CmpIPredicate::eq:
    return {intersect(atLeast(a, b, 0), atLeast(b, a, 0)),
            unite(atLeast(a, b, 1), atLeast(b, a, 1))};
  case CmpIPredicate::ne:
    return negate(compare(CmpIPredicate::eq, a, b, width));
  case CmpIPredicate::uge:
    return compareUnsigned(CmpIPredicate::sge);
  case CmpIPredicate::ugt:
    return compareUnsigned(CmpIPredicate::sgt);
  case CmpIPredicate::ule:
    return compareUnsigned(CmpIPredicate::sle);
  case CmpIPredicate::ult:
    return compareUnsigned(CmpIPredicate::slt);
  }
  return getUnknown();
}

// condition ? a : b is (condition and a) or (not condition and b). In addition, pairs that both a
// and b keep are kept.
Predicate MaskBoundsBuilder::choose(const Predicate &condition, const Predicate &a,
                                    const Predicate &b) {
  Predicate otherwise = conjunction(negate(condition), b);
  Predicate cases = disjunction(conjunction(condition, a), otherwise);
  // Do not negate the disjunction by De Morgan, which does not use that the cases exclude each
  // other.
  Predicate negatedOtherwise = conjunction(negate(condition), negate(b));
  Predicate negated = disjunction(conjunction(condition, negate(a)), negatedOtherwise);
  cases.no = negated.yes;
  cases.yes.must = unionOrLonger(cases.yes.must, intersect(a.yes.must, b.yes.must));
  cases.no.must = unionOrLonger(cases.no.must, intersect(a.no.must, b.no.must));
  return cases;
}

Predicate MaskBoundsBuilder::choose(Value condition, const Predicate &a, const Predicate &b) {
  return {select(condition, a.yes, b.yes), select(condition, a.no, b.no)};
}
