// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flat code of expressions against the expressions themselves, over random ones and over extremes.

#include "runtime/ExprCode.h"
#include "runtime/Manifest.h"

#include "gtest/gtest.h"

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

class Generator {
public:
  explicit Generator(unsigned seed) : random(seed) {}

  size_t pick(size_t n) { return random() % n; }

  Expr integer(int depth) {
    if (depth == 0 || pick(4) == 0)
      switch (pick(5)) {
      case 0:
        return Expr::integer(edges[pick(std::size(edges))]);
      case 1:
        return Expr::name("left");
      case 2:
        return Expr::name("offset");
      case 3:
        return *Expr::call("sm_count", {});
      default:
        return Expr::dim(pick(3) ? "q" : "bias", int64_t(pick(2)));
      }
    static const char *const names[] = {"+", "-", "*", "ceildiv", "floordiv", "mod", "min", "max"};
    if (pick(8) == 0)
      return *Expr::call("select", {flag(depth - 1), integer(depth - 1), integer(depth - 1)});
    return *Expr::call(names[pick(std::size(names))], {integer(depth - 1), integer(depth - 1)});
  }

  Expr flag(int depth) {
    if (depth == 0)
      return pick(2) ? Expr::name("flag") : Expr::flag(pick(2));
    static const char *const relations[] = {"<", "<=", ">", ">=", "==", "ne"};
    switch (pick(8)) {
    case 6:
      return *Expr::call("finite", {real(0)});
    case 7: {
      Expr left = real(depth - 1), right = real(depth - 1);
      return *Expr::call(relations[pick(std::size(relations))], {left, right});
    }
    case 0:
      return *Expr::call("and", {flag(depth - 1), flag(depth - 1)});
    case 1:
      return *Expr::call("or", {flag(depth - 1), flag(depth - 1)});
    case 2:
      return *Expr::call("not", {flag(depth - 1)});
    default:
      return *Expr::call(relations[pick(std::size(relations))],
                         {integer(depth - 1), integer(depth - 1)});
    }
  }

  /// An integer, too, unless `depth` is 0.
  Expr real(int depth) {
    if (depth > 0 && pick(3) == 0)
      return integer(depth - 1);
    return Expr::name(pick(2) ? "scale" : "wide");
  }

  void setArguments(Argument *arguments) {
    arguments[0] = Argument::dense(16, ElementType::F32, {extent(), extent()});
    arguments[1] =
        pick(3) ? Argument::dense(16, ElementType::F32, {extent(), extent()}) : Argument::absent();
    arguments[2] = Argument::scalar(int32_t(edges[pick(std::size(edges))]));
    arguments[3] = Argument::scalar(edges[pick(std::size(edges))]);
    arguments[4] = Argument::scalar(pick(2) != 0);
    arguments[5] = Argument::scalar(float(reals[pick(std::size(reals))]));
    arguments[6] = Argument::scalar(reals[pick(std::size(reals))]);
  }

private:
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

TEST(RuntimeExprCode, AgreesWithExpressions) {
  Generator generator(1);
  int numAnswered = 0, numHolding = 0;
  for (int i = 0; i < 20000; ++i) {
    Argument arguments[7];
    generator.setArguments(arguments);
    const Argument *list[] = {&arguments[0], &arguments[1], &arguments[2], &arguments[3],
                              &arguments[4], &arguments[5], &arguments[6]};
    ExprInputs inputs{list, 132};
    Expr expr = generator.integer(int(generator.pick(5)));
    ASSERT_TRUE(expr.resolve({}, contract, "test", /*isCondition=*/true).ok());
    int64_t wanted = 0, got = 0;
    if (ExprCode::ofInteger(expr, contract).evaluate(inputs, got)) {
      ++numAnswered;
      ASSERT_TRUE(expr.evaluateInteger(inputs, wanted).ok()) << expr.toString();
      ASSERT_EQ(got, wanted) << expr.toString();
    }

    std::vector<Expr> conditions;
    bool allHold = true;
    for (size_t n = generator.pick(4); n-- > 0;) {
      conditions.push_back(generator.flag(int(generator.pick(4))));
      ASSERT_TRUE(conditions.back().resolve({}, contract, "test", /*isCondition=*/true).ok());
      bool holds = false;
      allHold &= conditions.back().evaluateCondition(inputs, holds).ok() && holds;
    }
    bool answer = ExprCode::ofConditions(conditions, contract).allHold(inputs);
    numHolding += answer;
    if (answer) { // false only says that the expressions must be asked
      ASSERT_TRUE(allHold) << conditions[0].toString();
    }
  }
  EXPECT_GT(numAnswered, 10000);
  EXPECT_GT(numHolding, 8000);
}

/// What kernels ask for must not fall back on the expressions.
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
  ASSERT_TRUE(grid.resolve({}, contract, "test").ok());
  int64_t blocks = 0;
  EXPECT_TRUE(ExprCode::ofInteger(grid, contract).evaluate(inputs, blocks));
  EXPECT_EQ(blocks, 60);

  auto condition = [&](const char *function, Expr a, Expr b) {
    Expr expr = *Expr::call(function, {std::move(a), std::move(b)});
    EXPECT_TRUE(expr.resolve({}, contract, "test", /*isCondition=*/true).ok());
    return expr;
  };
  Expr same = condition("==", Expr::dim("bias", 0), Expr::dim("q", 0)),
       groups = condition("==", *Expr::call("mod", {Expr::dim("q", 0), Expr::integer(4)}),
                          Expr::integer(0));
  ExprCode code = ExprCode::ofConditions({same, groups, same}, contract);
  EXPECT_TRUE(code.allHold(inputs)); // of an absent view
  arguments[1] = Argument::dense(16, ElementType::F32, {12, 1});
  EXPECT_TRUE(code.allHold(inputs));
  arguments[1] = Argument::dense(16, ElementType::F32, {13, 1});
  EXPECT_FALSE(code.allHold(inputs));
  arguments[0] = arguments[1];
  EXPECT_FALSE(code.allHold(inputs)); // 13 is no multiple of 4
  EXPECT_TRUE(ExprCode::ofConditions({}, contract).allHold(inputs));

  Expr finite = *Expr::call("finite", {Expr::name("scale")});
  ASSERT_TRUE(finite.resolve({}, contract, "test", /*isCondition=*/true).ok());
  ExprCode ranges =
      ExprCode::ofConditions({finite, condition(">=", Expr::name("wide"), Expr::integer(0)),
                              condition("<", Expr::name("wide"), Expr::integer(1))},
                             contract);
  EXPECT_TRUE(ranges.allHold(inputs));
  for (double wrong : {1.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    arguments[6] = Argument::scalar(wrong);
    EXPECT_FALSE(ranges.allHold(inputs)) << wrong;
  }
  arguments[6] = Argument::scalar(0.5);
  arguments[5] = Argument::scalar(std::numeric_limits<float>::infinity());
  EXPECT_FALSE(ranges.allHold(inputs));
}

TEST(RuntimeExprCode, LeavesOthersToTheExpression) {
  ExprInputs inputs;
  int64_t result = 0;
  Expr bits = *Expr::call("bits", {Expr::symbol(Expr::Kind::Type, "f16")});
  EXPECT_FALSE(ExprCode::ofInteger(bits, contract).evaluate(inputs, result));
  EXPECT_FALSE(ExprCode::ofInteger(Expr::flag(true), contract).evaluate(inputs, result));
  EXPECT_FALSE(ExprCode::ofConditions({Expr::integer(1)}, contract).allHold(inputs));
  EXPECT_FALSE(ExprCode().evaluate(inputs, result));
  Expr deep = Expr::integer(1);
  for (int i = 0; i < 200; ++i)
    deep = *Expr::call("+", {Expr::integer(1), std::move(deep)});
  EXPECT_FALSE(ExprCode::ofInteger(deep, contract).evaluate(inputs, result));
}

} // namespace
