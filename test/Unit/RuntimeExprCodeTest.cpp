// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled expressions against values computed during their random generation, and the expressions
// of launches.

#include "runtime/ExprCode.h"
#include "runtime/Manifest.h"

#include "gtest/gtest.h"

#include <cmath>
#include <limits>
#include <random>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

const std::vector<ArgumentSpec> contract = {
    ArgumentSpec::view("q", ElementType::F32, {-1, -1}),
    ArgumentSpec::view("bias", ElementType::F32, {-1, -1}, true),
    ArgumentSpec::scalar("left", ElementType::I32),
    ArgumentSpec::scalar("offset", ElementType::I64),
    ArgumentSpec::scalar("flag", ElementType::I1),
    ArgumentSpec::scalar("scale", ElementType::F32),
    ArgumentSpec::scalar("wide", ElementType::F64)};

/// An expression, and its expected value; none if it must fail.
template <typename Value> struct Made {
  Expr expr;
  std::optional<Value> value;
};

/// Generates expressions over random arguments. The values of unevaluated operands do not matter.
class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  Argument arguments[7];
  bool readsAbsent = false; // an expression made since the last reset reads an absent view

  size_t pick(size_t n) { return random() % n; }

  void setArguments() {
    arguments[0] = Argument::dense(16, ElementType::F32, {extent(), extent()});
    arguments[1] =
        pick(3) ? Argument::dense(16, ElementType::F32, {extent(), extent()}) : Argument::absent();
    arguments[2] = Argument::scalar(int32_t(edges[pick(std::size(edges))]));
    arguments[3] = Argument::scalar(edges[pick(std::size(edges))]);
    arguments[4] = Argument::scalar(pick(2) != 0);
    arguments[5] = Argument::scalar(float(reals[pick(std::size(reals))]));
    arguments[6] = Argument::scalar(reals[pick(std::size(reals))]);
  }

  Made<int64_t> integer(int depth) {
    if (depth == 0 || pick(4) == 0)
      switch (pick(6)) {
      case 0: {
        int64_t value = edges[pick(std::size(edges))];
        return {Expr::integer(value), value};
      }
      case 1:
        return {Expr::name("left"), int32_t(arguments[2].bits)};
      case 2:
        return {Expr::name("offset"), int64_t(arguments[3].bits)};
      case 3:
        return {*Expr::call("sm_count", {}), 132};
      case 4: {
        Made<std::string> some = type(2);
        return {*Expr::call("bits", {some.expr}), some.value == "f64"   ? 64
                                                  : some.value == "f32" ? 32
                                                  : some.value == "i1"  ? 1
                                                                        : 16};
      }
      default: {
        size_t view = pick(3) ? 0 : 1, dim = pick(2);
        bool isAbsent = arguments[view].kind == Argument::Kind::Absent;
        readsAbsent |= isAbsent;
        return {Expr::dim(view ? "bias" : "q", int64_t(dim)),
                isAbsent ? 0 : arguments[view].extents[dim]};
      }
      }
    if (pick(8) == 0)
      return select(flag(depth - 1), integer(depth - 1), integer(depth - 1));
    static const char *const names[] = {"+", "-", "*", "ceildiv", "floordiv", "mod", "min", "max"};
    size_t i = pick(std::size(names));
    Made<int64_t> a = integer(depth - 1), b = integer(depth - 1);
    Made<int64_t> made{*Expr::call(names[i], {a.expr, b.expr}), std::nullopt};
    if (!a.value || !b.value || (i >= 3 && i <= 5 && *b.value == 0))
      return made;
    __int128 x = *a.value, y = *b.value, rest = y == 0 ? 0 : x % y;
    __int128 floor = y == 0 ? 0 : x / y - (rest != 0 && (rest < 0) != (y < 0));
    __int128 values[] = {x + y, x - y,         x * y,          floor + (rest != 0),
                         floor, x - floor * y, std::min(x, y), std::max(x, y)};
    if (values[i] == __int128(int64_t(values[i])))
      made.value = int64_t(values[i]);
    return made;
  }

  Made<bool> flag(int depth) {
    if (depth == 0 && pick(2))
      return {Expr::name("flag"), arguments[4].bits != 0};
    if (depth == 0) {
      bool value = pick(2);
      return {Expr::flag(value), value};
    }
    switch (pick(9)) {
    case 0:
    case 1: {
      bool isOr = pick(2);
      Made<bool> a = flag(depth - 1), b = flag(depth - 1);
      return {*Expr::call(isOr ? "or" : "and", {a.expr, b.expr}),
              a.value && *a.value != isOr ? b.value : a.value};
    }
    case 2: {
      Made<bool> a = flag(depth - 1);
      return {*Expr::call("not", {a.expr}), a.value ? std::optional(!*a.value) : std::nullopt};
    }
    case 3: {
      Made<double> a = real();
      return {*Expr::call("finite", {a.expr}), std::isfinite(*a.value)};
    }
    case 4: { // on either side
      Made<double> a = real(), b = real();
      if (pick(2))
        return compare(a, b);
      return pick(2) ? compare(a, integer(depth - 1)) : compare(integer(depth - 1), b);
    }
    case 5: {
      Made<std::string> a = word(depth - 1), b = word(depth - 1);
      return {*Expr::call("==", {a.expr, b.expr}),
              a.value && b.value ? std::optional(a.value == b.value) : std::nullopt};
    }
    default:
      return compare(integer(depth - 1), integer(depth - 1));
    }
  }

private:
  Made<double> real() {
    if (pick(2))
      return {Expr::name("scale"), arguments[5].real()};
    return {Expr::name("wide"), arguments[6].real()};
  }

  Made<std::string> word(int depth) {
    if (depth > 0 && pick(2))
      return select(flag(depth - 1), word(depth - 1), word(depth - 1));
    std::string text = pick(2) ? "none" : "top_left";
    return {Expr::symbol(Expr::Kind::Enum, text), text};
  }

  Made<std::string> type(int depth) {
    static const char *const types[] = {"f64", "f32", "bf16", "i1"};
    std::string text = types[pick(std::size(types))];
    if (depth == 0 || pick(2))
      return {Expr::symbol(Expr::Kind::Type, text), text};
    Made<std::string> some = type(depth - 1);
    return {*Expr::call("accumulator", {some.expr}), some.value == "f64" ? "f64" : "f32"};
  }

  template <typename Value> Made<Value> select(Made<bool> c, Made<Value> a, Made<Value> b) {
    Expr expr = *Expr::call("select", {c.expr, a.expr, b.expr});
    return {expr, c.value ? *c.value ? a.value : b.value : std::nullopt};
  }

  template <typename A, typename B> Made<bool> compare(Made<A> a, Made<B> b) {
    static const char *const names[] = {"<", "<=", ">", ">=", "==", "ne"};
    size_t i = pick(std::size(names));
    Made<bool> made{*Expr::call(names[i], {a.expr, b.expr}), std::nullopt};
    if (!a.value || !b.value)
      return made;
    using Common = std::conditional_t<std::is_same_v<A, B>, A, double>;
    Common x = Common(*a.value), y = Common(*b.value);
    bool values[] = {x<y, x <= y, x> y, x >= y, x == y, x != y};
    made.value = values[i];
    return made;
  }

  static constexpr int64_t edges[] = {0,
                                      1,
                                      -1,
                                      2,
                                      -3,
                                      7,
                                      64,
                                      int64_t(1) << 31,
                                      int64_t(1) << 33,
                                      std::numeric_limits<int64_t>::max(),
                                      std::numeric_limits<int64_t>::min()};
  static constexpr double reals[] = {
      0, -0.0, 1, -1, 0.5, 2.5, -3, 1e300, 64.0, std::numeric_limits<double>::quiet_NaN()};
  int64_t extent() { return pick(2) ? int64_t(pick(4)) : int64_t(pick(100000)); }

  std::mt19937 random;
};

TEST(RuntimeExprCode, HasTheValuesOfExpressions) {
  Generator generator(1);
  int numValues = 0, numFaults = 0, numBroken = 0, numExcused = 0;
  for (int i = 0; i < 20000; ++i) {
    generator.setArguments();
    const Argument *list[7];
    for (size_t k = 0; k < 7; ++k)
      list[k] = &generator.arguments[k];
    ExprInputs inputs{list, 132};
    Made<int64_t> made = generator.integer(int(generator.pick(5)));
    ASSERT_TRUE(
        resolveExpr(made.expr, expr::Kind::Integer, {}, contract, "test", /*isCondition=*/true)
            .ok());
    int64_t got = 0;
    Status status = ExprCode(made.expr, contract).evaluate(inputs, got);
    ASSERT_EQ(status.ok(), made.value.has_value()) << made.expr.toString() << status.message();
    ASSERT_EQ(got, made.value.value_or(got)) << made.expr.toString();
    ++(made.value ? numValues : numFaults);

    std::vector<Expr> conditions;
    size_t wanted = SIZE_MAX;
    bool hasFault = false;
    for (size_t n = generator.pick(4), k = 0; k < n; ++k) {
      generator.readsAbsent = false;
      Made<bool> condition = generator.flag(int(generator.pick(4)));
      conditions.push_back(condition.expr);
      ASSERT_TRUE(resolveExpr(conditions.back(), expr::Kind::Flag, {}, contract, "test",
                              /*isCondition=*/true)
                      .ok());
      bool holds = condition.value.value_or(false);
      numExcused += !holds && generator.readsAbsent;
      if (holds || generator.readsAbsent || wanted != SIZE_MAX)
        continue;
      wanted = k;
      hasFault = !condition.value;
    }
    ExprCode::End end = ExprCode(conditions, contract).findBroken(inputs);
    ASSERT_EQ(end.expr != nullptr, wanted != SIZE_MAX);
    ASSERT_EQ(end.fault != expr::Fault::None, hasFault);
    if (end.expr && !hasFault) {
      ASSERT_EQ(end.expr, &conditions[wanted]);
    }
    numBroken += end.expr != nullptr;
  }
  EXPECT_GT(numValues, 10000);
  EXPECT_GT(numFaults, 1000);
  EXPECT_GT(numBroken, 5000);
  EXPECT_GT(numExcused, 300);
}

TEST(RuntimeExprCode, AnswersWhatKernelsAsk) {
  Argument arguments[7] = {Argument::dense(16, ElementType::F32, {12, 300}),
                           Argument::absent(),
                           Argument::scalar(int32_t(-1)),
                           Argument::scalar(int64_t(5)),
                           Argument::scalar(true),
                           Argument::scalar(0.125f),
                           Argument::scalar(0.0)};
  const Argument *list[] = {&arguments[0], &arguments[1], &arguments[2], &arguments[3],
                            &arguments[4], &arguments[5], &arguments[6]};
  ExprInputs inputs{list, 132};
  Expr grid = *Expr::call(
      "*", {*Expr::call("ceildiv", {Expr::dim("q", 1), Expr::integer(64)}), Expr::dim("q", 0)});
  ASSERT_TRUE(resolveExpr(grid, expr::Kind::Integer, {}, contract, "test").ok());
  int64_t blocks = 0;
  EXPECT_TRUE(ExprCode(grid, contract).evaluate(inputs, blocks).ok());
  EXPECT_EQ(blocks, 60);

  auto condition = [&](const char *function, Expr a, Expr b) {
    Expr expr = *Expr::call(function, {std::move(a), std::move(b)});
    EXPECT_TRUE(
        resolveExpr(expr, expr::Kind::Flag, {}, contract, "test", /*isCondition=*/true).ok());
    return expr;
  };
  Expr same = condition("==", Expr::dim("bias", 0), Expr::dim("q", 0)),
       groups = condition("==", *Expr::call("mod", {Expr::dim("q", 0), Expr::integer(4)}),
                          Expr::integer(0));
  const std::vector<Expr> all = {same, groups, same};
  ExprCode code(all, contract);
  auto allHold = [&](const ExprCode &code) { return !code.findBroken(inputs).expr; };
  EXPECT_TRUE(allHold(code)); // a condition on an absent view
  arguments[1] = Argument::dense(16, ElementType::F32, {12, 1});
  EXPECT_TRUE(allHold(code));
  arguments[1] = Argument::dense(16, ElementType::F32, {13, 1});
  EXPECT_FALSE(allHold(code));
  arguments[0] = arguments[1];
  EXPECT_FALSE(allHold(code)); // 13 is not a multiple of 4
  EXPECT_TRUE(allHold(ExprCode()));

  Expr finite = *Expr::call("finite", {Expr::name("scale")});
  ASSERT_TRUE(
      resolveExpr(finite, expr::Kind::Flag, {}, contract, "test", /*isCondition=*/true).ok());
  const std::vector<Expr> inRange = {finite, condition(">=", Expr::name("wide"), Expr::integer(0)),
                                     condition("<", Expr::name("wide"), Expr::integer(1))};
  ExprCode ranges(inRange, contract);
  EXPECT_TRUE(allHold(ranges));
  for (double wrong : {1.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    arguments[6] = Argument::scalar(wrong);
    EXPECT_FALSE(allHold(ranges)) << wrong;
  }
  arguments[6] = Argument::scalar(0.5);
  arguments[5] = Argument::scalar(std::numeric_limits<float>::infinity());
  EXPECT_FALSE(allHold(ranges));
}

} // namespace
