// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interval that a mask keeps for some row, in 32 bits and few operations, for kernels that
// compute it in a loop (tile.kept_range). Unlike the intervals of MaskBounds.cpp, an empty one has
// no fixed form: this takes no selections, but limits have no hulls.
//
// Limits are numbers of positions that the interval lacks at its ends. Of two conditions, the
// larger number counts.
//
// Let x - y be monotonic in c, with steps of 1. Where it ascends, x >= y excludes the first
// max(0, y - x) positions, by their values at the first one; x > y excludes all but the last
// max(0, x - y), by the values at the last one. Where it descends, x >= y excludes the last
// max(0, y - x), by the values at the last one, and x > y all but the first max(0, x - y). Some row
// keeps what the row with the greatest x - y keeps: the first row or the last.
//
// x and y are numbers of the mask. If they are valid, they are the values that the mask has at a
// pair of the rectangle, in 32 bits; so the arithmetic that computes them may wrap. Their
// difference has 33 bits, but its positive part 32 without sign: p - min(p, q).

#include "passes/Tile/MaskBounds.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using arith::CmpIPredicate;

namespace {

/// A sum of i32 values with factors.
struct Sum {
  llvm::SmallVector<std::pair<Value, int64_t>> terms;
  int64_t constant = 0;

  void add(Value value, int64_t factor) {
    auto *known = llvm::find_if(terms, [&](auto &term) { return term.first == value; });
    if (known == terms.end())
      known = &terms.emplace_back(value, 0);
    known->second += factor;
  }
  /// Adds an i64 value. False if it is more than a sum; `levels` bounds the recursion.
  bool addWide(Value value, int64_t factor, unsigned levels = 16) {
    APInt number;
    if (matchPattern(value, m_ConstantInt(&number))) {
      constant += factor * number.getSExtValue();
      return true;
    }
    Operation *op = value.getDefiningOp();
    if (!op || levels-- == 0)
      return false;
    if (auto extend = dyn_cast<arith::ExtSIOp>(op)) {
      if (!extend.getIn().getType().isInteger(32))
        return false;
      add(extend.getIn(), factor);
      return true;
    }
    if (isa<arith::AddIOp, arith::SubIOp>(op))
      return addWide(op->getOperand(0), factor, levels) &&
             addWide(op->getOperand(1), isa<arith::AddIOp>(op) ? factor : -factor, levels);
    if (auto multiply = dyn_cast<arith::MulIOp>(op);
        multiply && matchPattern(multiply.getRhs(), m_ConstantInt(&number)) &&
        number.isSignedIntN(16) && std::abs(factor) < 65536)
      return addWide(multiply.getLhs(), factor * number.getSExtValue(), levels);
    return false;
  }

  /// Modulo 2^32.
  Value emit(OpBuilder &builder, Location loc) const {
    Value result;
    auto combine = [&](auto op, Value value) {
      result = builder.createOrFold<decltype(op)>(loc, result, value);
    };
    auto number = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(builder, loc,
                                       builder.getI32IntegerAttr(static_cast<int32_t>(value)));
    };
    auto times = [&](Value value, int64_t factor) {
      return factor == 1 ? value : builder.createOrFold<arith::MulIOp>(loc, value, number(factor));
    };
    for (auto [value, factor] : terms)
      if (factor > 0) {
        Value term = times(value, factor);
        if (result)
          combine(arith::AddIOp(), term);
        else
          result = term;
      }
    if (!result)
      result = number(constant);
    else if (constant != 0)
      combine(arith::AddIOp(), number(constant));
    for (auto [value, factor] : terms)
      if (factor < 0)
        combine(arith::SubIOp(), times(value, -factor));
    return result;
  }
};

} // namespace

Limits MaskBoundsBuilder::select(Value condition, const Limits &a, const Limits &b) {
  if (!a.before || !b.before)
    return {};
  return {select(condition, a.before, b.before),
          select(condition, a.behind, b.behind),
          a.isSmall && b.isSmall,
          {}};
}

Limits MaskBoundsBuilder::intersect(const Limits &a, const Limits &b) {
  if (!a.before || !b.before)
    return {};
  auto larger = [&](Value x, Value y) -> Value {
    if (matchPattern(x, m_Zero()) || matchPattern(y, m_Zero()))
      return matchPattern(x, m_Zero()) ? y : x;
    return create<arith::MaxUIOp>(x, y);
  };
  return {larger(a.before, b.before), larger(a.behind, b.behind), a.isSmall && b.isSmall, {}};
}

Limits MaskBoundsBuilder::allLimits() {
  Value none = constant(0, 32);
  return {none, none, true, {}};
}

Limits MaskBoundsBuilder::noLimits() {
  Limits limits = allLimits();
  limits.behind = getMost();
  return limits;
}

Limits MaskBoundsBuilder::compareLimits(const Linear &x, const Linear &y, bool isStrict,
                                        unsigned width) {
  int64_t block = x.block - y.block, against = x.against - y.against;
  auto isExact = [](const Linear &a) {
    return !a.isPromised && areSame(a.low, a.high) && matchPattern(a.valid, m_One());
  };
  if (width != 32 || std::abs(block) != 1 || std::abs(against) > 1 || hasAllRows || !isExact(x) ||
      !isExact(y))
    return {};
  bool atFirst = isStrict ? block < 0 : block > 0;
  auto valueOf = [&](const Linear &a) -> Value {
    Sum sum;
    sum.add(atFirst ? lower32 : top32, a.block);
    sum.constant = atFirst ? 0 : -a.block;
    if (!sum.addWide(a.low, 1))
      return {};
    sum.add(against > 0 ? againstEnd32 : againstBegin32, a.against);
    sum.constant -= against > 0 ? a.against : 0;
    return sum.emit(builder, loc);
  };
  Value p = valueOf(isStrict ? x : y), q = valueOf(isStrict ? y : x);
  if (!p || !q)
    return {};
  Limits result = allLimits();
  bool isAboveZero = matchPattern(q, m_Zero());
  Value count = isAboveZero ? max(p, q) : create<arith::SubIOp>(p, min(p, q));
  if (isStrict)
    count = create<arith::SubIOp>(getMost(), create<arith::MinUIOp>(count, getMost()));
  (block > 0 ? result.before : result.behind) = count;
  result.isSmall = isStrict || block > 0 || isAboveZero;
  result.smallIf = q;
  return result;
}

/// Whether one of the flags that `flags` is a conjunction of says that an i32 is not negative.
static bool saysNotNegative(Value flags, Value value, unsigned levels = 16) {
  if (levels-- == 0)
    return false;
  if (auto both = flags.getDefiningOp<arith::AndIOp>())
    return saysNotNegative(both.getLhs(), value, levels) ||
           saysNotNegative(both.getRhs(), value, levels);
  auto negation = flags.getDefiningOp<arith::XOrIOp>();
  bool isNegated = negation && matchPattern(negation.getRhs(), m_One());
  auto compare = (isNegated ? negation.getLhs() : flags).getDefiningOp<arith::CmpIOp>();
  return compare && compare.getLhs() == value && matchPattern(compare.getRhs(), m_Zero()) &&
         compare.getPredicate() == (isNegated ? CmpIPredicate::slt : CmpIPredicate::sge);
}

// A window is open on a side whose number is negative, so each of its inequalities is active only
// if its number is not; then their sum is not either.
bool MaskBoundsBuilder::areCompatible(const Inequality &x, const Inequality &y, Value sum) {
  Sum rest;
  if (!rest.addWide(sum, 1) || rest.constant < 0)
    return false;
  auto isKnown = [&](Value value) {
    return saysNotNegative(x.active, value) || saysNotNegative(y.active, value);
  };
  return llvm::all_of(rest.terms, [&](auto &term) {
    auto [value, factor] = term;
    // 0 - a is exact for an a that is not negative.
    auto subtract = value.template getDefiningOp<arith::SubIOp>();
    bool isNegation = subtract && matchPattern(subtract.getLhs(), m_Zero());
    return factor == 0 || (factor > 0 && isKnown(value)) ||
           (factor < 0 && isNegation && isKnown(subtract.getRhs()));
  });
}

Limits MaskBoundsBuilder::uniteUniform(Value same, Limits other) {
  if (other.smallIf && saysNotNegative(negateFlag(same), other.smallIf))
    other.isSmall = true;
  return select(same, allLimits(), other);
}

std::pair<Value, Value> MaskBoundsBuilder::finishLimits(const Bounds &bounds, bool hasRows) {
  const Limits &limits = bounds.limits;
  Value first, end;
  if (limits.before) {
    first = lower32;
    if (!matchPattern(limits.before, m_Zero()))
      first = create<arith::AddIOp>(lower32, create<arith::MinUIOp>(limits.before, getMost()));
    // No subtraction of a small number from one that is not negative wraps, so that an end before
    // `lower` is as good.
    APInt number;
    bool isPlain =
        limits.isSmall && matchPattern(lower32, m_ConstantInt(&number)) && number.isNonNegative();
    end = create<arith::SubIOp>(top32, isPlain ? limits.behind
                                               : create<arith::MinUIOp>(limits.behind, getMost()));
  } else {
    std::tie(first, end) = finish(bounds.may);
  }
  if (hasRows)
    return {first, end};
  // Without a row, the limits above say nothing, but the first is not before `lower`.
  Value isNonEmpty = test(CmpIPredicate::slt, againstBegin32, againstEnd32);
  return {first, select(isNonEmpty, end, lower32)};
}
