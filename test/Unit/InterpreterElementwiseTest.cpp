// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise operations on tiles of every form (dense, splat, row and column vectors) and type.

#include "InterpreterTesting.h"

#include <cmath>
#include <limits>

namespace tilewright {
namespace {

constexpr int64_t rows = 6, columns = 10;

/// x, y: dense; r, c: a row and a column vector expanded; s: a scalar as a tile.
const char *const floatKernel = R"(
!t = tensor<6x10x$T>
tile.kernel @k (%xv: !tile.view<[6, 10], $T>, %yv: !tile.view<[6, 10], $T>,
                %rv: !tile.view<[6], $T>,
                %cv: !tile.view<[10], $T>, %s0: $T, %out: !tile.view<[6, 10], $R>) grid(%g = 1) {
  %x = tile.load %xv[0, 0] : !tile.view<[6, 10], $T> -> !t
  %y = tile.load %yv[0, 0] : !tile.view<[6, 10], $T> -> !t
  %rd = tile.load %rv[0] : !tile.view<[6], $T> -> tensor<6x$T>
  %cd = tile.load %cv[0] : !tile.view<[10], $T> -> tensor<10x$T>
  %r = tile.expand %rd dim 1 : tensor<6x$T> -> !t
  %c = tile.expand %cd dim 0 : tensor<10x$T> -> !t
  %s = tile.full %s0 : !t
  $BODY
  tile.store %z, %out[0, 0] : tensor<6x10x$R>, !tile.view<[6, 10], $R>
})";

class ElementwiseTest : public InterpreterTest {
protected:
  double x(int64_t i) const { return std::sin(double(i)) * 3; }
  double y(int64_t i) const { return std::cos(double(i) * 1.7) + 1.5; }
  double r(int64_t i) const { return 0.25 * double(i) - 0.6; }
  double c(int64_t j) const { return 1.1 + 0.3 * double(j); }
  static constexpr double s = 1.75;

  /// Runs the body; values are those of the function, rounded to the type.
  void
  check(const std::string &body, ElementType type,
        const std::function<double(double x, double y, double r, double c, double s)> &expected,
        double tolerance, RunOptions options = {}) {
    ElementType memory = options.f64 ? ElementType::F64 : type;
    Tensor xs(memory, {rows, columns}, [&](int64_t i) { return x(i); });
    Tensor ys(memory, {rows, columns}, [&](int64_t i) { return y(i); });
    Tensor rs(memory, {rows}, [&](int64_t i) { return r(i); });
    Tensor cs(memory, {columns}, [&](int64_t i) { return c(i); });
    Tensor out(memory, {rows, columns}, -77.0);
    std::string name = spelling(type);
    run(substitute(floatKernel, {{"BODY", body}, {"T", name}, {"R", name}}),
        {{"xv", xs.argument()},
         {"yv", ys.argument()},
         {"rv", rs.argument()},
         {"cv", cs.argument()},
         {"s0", s},
         {"out", out.argument()}},
        options);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        expectValue(out.get(i, j),
                    expected(xs.get(i, j), ys.get(i, j), rs.get(i), cs.get(j),
                             numeric::roundToType(s, memory)),
                    tolerance, body + " at " + std::to_string(i) + ", " + std::to_string(j));
  }
  static std::string spelling(ElementType type) {
    if (type == ElementType::E4M3)
      return "f8E4M3FN";
    if (type == ElementType::E5M2)
      return "f8E5M2";
    return std::string(elementTypeName(type));
  }
};

TEST_F(ElementwiseTest, MixesFormsOfOperands) {
  auto f32 = ElementType::F32;
  check(
      "%z = arith.addf %x, %y : !t", f32,
      [](double x, double y, double, double, double) { return x + y; }, 1e-6);
  check(
      "%z = arith.subf %x, %r : !t", f32,
      [](double x, double, double r, double, double) { return x - r; }, 1e-6);
  check(
      "%z = arith.subf %r, %x : !t", f32,
      [](double x, double, double r, double, double) { return r - x; }, 1e-6);
  check(
      "%z = arith.divf %x, %c : !t", f32,
      [](double x, double, double, double c, double) { return x / c; }, 1e-6);
  check(
      "%z = arith.mulf %s, %x : !t", f32,
      [](double x, double, double, double, double s) { return s * x; }, 1e-6);
  check(
      "%z = arith.maximumf %r, %c : !t", f32,
      [](double, double, double r, double c, double) { return std::max(r, c); }, 1e-6);
  check(
      "%a = arith.mulf %r, %r : !t \n %z = arith.addf %a, %s : !t", f32,
      [](double, double, double r, double, double s) { return r * r + s; }, 1e-6);
  check(
      "%a = arith.mulf %c, %c : !t \n %b = arith.subf %a, %r : !t \n %z = arith.addf %b, %x : !t",
      f32, [](double x, double, double r, double c, double) { return c * c - r + x; }, 1e-6);
  check(
      "%a = arith.addf %s, %s : !t \n %z = arith.mulf %a, %a : !t", f32,
      [](double, double, double, double, double s) { return 4 * s * s; }, 1e-6);
}

TEST_F(ElementwiseTest, ReusesOperandsOnlyWhereTheyDie) {
  // %a is read after operations that could have overwritten it.
  check(
      "%a = arith.addf %x, %y : !t \n %b = arith.mulf %a, %s : !t \n %d = arith.subf %a, %b : !t \n"
      "%e = arith.mulf %a, %a : !t \n %z = arith.addf %e, %d : !t",
      ElementType::F32,
      [](double x, double y, double, double, double s) {
        double a = x + y;
        return a * a + (a - a * s);
      },
      1e-6);
}

TEST_F(ElementwiseTest, MathFunctions) {
  struct Case {
    const char *op;
    double (*function)(double);
  } cases[] = {{"math.exp", std::exp},     {"math.exp2", std::exp2},   {"math.sqrt", std::sqrt},
               {"math.log", std::log},     {"math.log2", std::log2},   {"math.tanh", std::tanh},
               {"math.sin", std::sin},     {"math.cos", std::cos},     {"math.erf", std::erf},
               {"math.floor", std::floor}, {"math.ceil", std::ceil},   {"math.absf", std::fabs},
               {"math.log1p", std::log1p}, {"math.expm1", std::expm1}, {"math.trunc", std::trunc},
               {"math.cbrt", std::cbrt},   {"math.sinh", std::sinh},   {"math.cosh", std::cosh},
               {"math.erfc", std::erfc}};
  for (const Case &test : cases) {
    auto expected = [&](double, double y, double, double, double) { return test.function(y); };
    check(std::string("%z = ") + test.op + " %y : !t", ElementType::F32, expected, 2e-6);
    check(std::string("%z = ") + test.op + " %y : !t", ElementType::F64, expected, 1e-14);
  }
  check(
      "%z = math.rsqrt %y : !t", ElementType::F32,
      [](double, double y, double, double, double) { return 1 / std::sqrt(y); }, 1e-6);
  check(
      "%z = math.powf %y, %r : !t", ElementType::F32,
      [](double, double y, double r, double, double) { return std::pow(y, r); }, 1e-6);
  check(
      "%z = math.fma %x, %c, %r : !t", ElementType::F32,
      [](double x, double, double r, double c, double) { return x * c + r; }, 1e-6);
  check(
      "%z = arith.negf %x : !t", ElementType::F32,
      [](double x, double, double, double, double) { return -x; }, 0);
  check(
      "%z = arith.minnumf %x, %c : !t", ElementType::F32,
      [](double x, double, double, double c, double) { return std::fmin(x, c); }, 0);
}

TEST_F(ElementwiseTest, RoundsToTheDeclaredTypeAfterEachOperation) {
  for (ElementType type :
       {ElementType::F16, ElementType::BF16, ElementType::E4M3, ElementType::E5M2}) {
    auto round = [&](double value) { return numeric::roundToType(value, type); };
    check(
        "%a = arith.mulf %x, %y : !t \n %b = arith.addf %a, %r : !t \n %z = arith.subf %b, %s : !t",
        type,
        [&](double x, double y, double r, double, double s) {
          return round(round(round(x * y) + r) - s);
        },
        0);
  }
}

TEST_F(ElementwiseTest, NothingIsRoundedInF64) {
  RunOptions options;
  options.f64 = true;
  check(
      "%a = arith.mulf %x, %y : !t \n %b = math.exp %a : !t \n %z = arith.divf %b, %c : !t",
      ElementType::BF16,
      [](double x, double y, double, double c, double) { return std::exp(x * y) / c; }, 1e-14,
      options);
}

TEST_F(ElementwiseTest, SelectIgnoresTheOtherOperand) {
  check(
      "%nan0 = arith.constant 0x7FC00000 : f32 \n %nan = tile.full %nan0 : !t \n"
      "%k = arith.cmpf ogt, %x, %r : !t \n"
      "%z = tile.select %k, %x, %nan : tensor<6x10xi1>, !t",
      ElementType::F32,
      [](double x, double, double r, double, double) { return x > r ? x : notANumber; }, 0);
  check(
      "%true = arith.constant true \n %k = tile.full %true : tensor<6x10xi1> \n"
      "%z = tile.select %k, %r, %x : tensor<6x10xi1>, !t",
      ElementType::F32, [](double, double, double r, double, double) { return r; }, 0);
  check(
      "%k = arith.cmpf ult, %r, %c : !t \n %z = arith.select %k, %y, %s : tensor<6x10xi1>, !t",
      ElementType::F32,
      [](double, double y, double r, double c, double s) { return r < c ? y : s; }, 0);
}

TEST_F(ElementwiseTest, DenseConstants) {
  std::string source = R"(
tile.kernel @k (%out: !tile.view<[?], f32>) grid(%g = 3) {
  %a = arith.constant dense<[1.0, 2.5, -3.0, 4.0]> : tensor<4xf32>
  %b = arith.constant dense<2.0> : tensor<4xf32>
  %c4 = arith.constant 4 : i32
  %at = arith.muli %g, %c4 : i32
  %z = arith.mulf %a, %b : tensor<4xf32>
  tile.store %z, %out[%at] : tensor<4xf32>, !tile.view<[?], f32>
})";
  Tensor out(ElementType::F32, {12});
  run(source, {{"out", out.argument()}});
  const double expected[] = {2, 5, -6, 8};
  for (int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(out.get(i), expected[i % 4]);
}

//===----------------------------------------------------------------------===//
// Integers and conversions
//===----------------------------------------------------------------------===//

class IntegerTest : public InterpreterTest {
protected:
  /// z = body(x, y), elementwise over 8 pairs.
  std::vector<double> compute(const std::string &body, const std::string &from,
                              const std::string &to, ElementType fromType, ElementType toType,
                              const std::vector<double> &xs, const std::vector<double> &ys) {
    std::string source = R"(
tile.kernel @k (%xv: !tile.view<[?], $A>, %yv: !tile.view<[?], $A>, %out: !tile.view<[?], $B>)
    grid(%g = 1) {
  %x = tile.load %xv[0] : !tile.view<[?], $A> -> tensor<8x$A>
  %y = tile.load %yv[0] : !tile.view<[?], $A> -> tensor<8x$A>
  $CODE
  tile.store %z, %out[0] : tensor<8x$B>, !tile.view<[?], $B>
})";
    int64_t n = xs.size();
    Tensor x(fromType, {n}, [&](int64_t i) { return xs[i]; });
    Tensor y(fromType, {n}, [&](int64_t i) { return ys[i]; });
    Tensor out(toType, {n});
    run(substitute(source, {{"A", from}, {"B", to}, {"CODE", body}}),
        {{"xv", x.argument()}, {"yv", y.argument()}, {"out", out.argument()}});
    std::vector<double> result;
    for (int64_t i = 0; i < n; ++i)
      result.push_back(out.get(i));
    return result;
  }
  std::vector<double> i32(const std::string &op) {
    return compute("%z = " + op + " %x, %y : tensor<8xi32>", "i32", "i32", ElementType::I32,
                   ElementType::I32, {7, -7, 5, 2147483647}, {2, 2, -3, 1});
  }
};

TEST_F(IntegerTest, Arithmetic) {
  using Values = std::vector<double>;
  EXPECT_EQ(i32("arith.addi"), (Values{9, -5, 2, -2147483648.0}));
  EXPECT_EQ(i32("arith.muli"), (Values{14, -14, -15, 2147483647}));
  EXPECT_EQ(i32("arith.maxsi"), (Values{7, 2, 5, 2147483647}));
  EXPECT_EQ(i32("arith.andi"), (Values{2, 0, 5, 1}));
  EXPECT_EQ(i32("arith.xori"), (Values{5, -5, -8, 2147483646}));
}

TEST_F(IntegerTest, DivisionsAgreeWithArith) {
  std::vector<double> x = {7, -7, 7, -7, 0, 9, -9, 100}, y = {2, 2, -2, -2, 5, 3, 3, 7};
  auto divide = [&](const std::string &op) {
    return compute("%z = " + op + " %x, %y : tensor<8xi32>", "i32", "i32", ElementType::I32,
                   ElementType::I32, x, y);
  };
  using Values = std::vector<double>;
  EXPECT_EQ(divide("arith.divsi"), (Values{3, -3, -3, 3, 0, 3, -3, 14}));
  EXPECT_EQ(divide("arith.remsi"), (Values{1, -1, 1, -1, 0, 0, 0, 2}));
  EXPECT_EQ(divide("arith.floordivsi"), (Values{3, -4, -4, 3, 0, 3, -3, 14}));
  EXPECT_EQ(divide("arith.ceildivsi"), (Values{4, -3, -3, 4, 0, 3, -3, 15}));
}

TEST_F(IntegerTest, Comparisons) {
  std::vector<double> x = {1, 2, -1, 5, 0, 0, 3, 3}, y = {2, 1, 1, 5, 0, -1, 4, 2};
  using Values = std::vector<double>;
  auto compare = [&](const std::string &predicate) {
    return compute("%z = arith.cmpi " + predicate + ", %x, %y : tensor<8xi32>", "i32", "i1",
                   ElementType::I32, ElementType::I1, x, y);
  };
  EXPECT_EQ(compare("slt"), (Values{1, 0, 1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(compare("sge"), (Values{0, 1, 0, 1, 1, 1, 0, 1}));
  EXPECT_EQ(compare("ult"), (Values{1, 0, 0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(compare("eq"), (Values{0, 0, 0, 1, 1, 0, 0, 0}));
}

TEST_F(IntegerTest, Conversions) {
  using Values = std::vector<double>;
  Values zeros(8, 0.0);
  auto convert = [&](const std::string &op, const std::string &from, const std::string &to,
                     ElementType fromType, ElementType toType, const Values &x) {
    return compute("%z = " + op + " %x : tensor<8x" + from + "> " +
                       (op == "tile.cast" ? "->" : "to") + " tensor<8x" + to + ">",
                   from, to, fromType, toType, x, zeros);
  };
  EXPECT_EQ(convert("tile.cast", "f32", "i32", ElementType::F32, ElementType::I32,
                    {1.9, -1.9, 0.5, 3, -4, 1e6, 7.5, 2}),
            (Values{1, -1, 0, 3, -4, 1e6, 7, 2}));
  EXPECT_EQ(convert("tile.cast", "i1", "f32", ElementType::I1, ElementType::F32,
                    {1, 0, 1, 1, 0, 0, 1, 0}),
            (Values{1, 0, 1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(convert("tile.cast", "i1", "i32", ElementType::I1, ElementType::I32,
                    {1, 0, 1, 1, 0, 0, 1, 0}),
            (Values{1, 0, 1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(convert("arith.extsi", "i1", "i32", ElementType::I1, ElementType::I32,
                    {1, 0, 1, 1, 0, 0, 1, 0}),
            (Values{-1, 0, -1, -1, 0, 0, -1, 0}));
  EXPECT_EQ(convert("arith.trunci", "i64", "i32", ElementType::I64, ElementType::I32,
                    {4294967297.0, -1, 5, 2147483648.0, 0, 1, 2, 3}),
            (Values{1, -1, 5, -2147483648.0, 0, 1, 2, 3}));
  // 2^24 + 2^16 + 1 is just above the midpoint between two values of bf16: rounding through f32
  // would give the midpoint and then round to even.
  EXPECT_EQ(convert("tile.cast", "i32", "bf16", ElementType::I32, ElementType::BF16,
                    {16842753, 16842752, 3, -5, 0, 1, 257, 259}),
            (Values{16908288, 16777216, 3, -5, 0, 1, 256, 260}));
  EXPECT_EQ(convert("tile.cast", "f64", "bf16", ElementType::F64, ElementType::BF16,
                    {1.00390625 + 1e-12, 1.00390625, 2, 3, 4, 5, 6, 7}),
            (Values{1.0078125, 1, 2, 3, 4, 5, 6, 7}));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto saturate = [&](const std::string &from, const std::string &to, ElementType fromType,
                      ElementType toType, const Values &x) {
    return compute("%z = tile.cast %x saturate : tensor<8x" + from + "> -> tensor<8x" + to + ">",
                   from, to, fromType, toType, x, zeros);
  };
  for (ElementType from : {ElementType::F32, ElementType::F64, ElementType::BF16}) {
    std::string name = from == ElementType::F32 ? "f32" : from == ElementType::F64 ? "f64" : "bf16";
    EXPECT_EQ(saturate(name, "f8E4M3FN", from, ElementType::E4M3,
                       {1000, -1000, infinity, -infinity, 448, 3, -0.5, 17}),
              (Values{448, -448, 448, -448, 448, 3, -0.5, 16}));
    EXPECT_EQ(saturate(name, "f8E5M2", from, ElementType::E5M2,
                       {1e6, -1e6, infinity, -infinity, 448, 3, -0.5, 17}),
              (Values{57344, -57344, 57344, -57344, 448, 3, -0.5, 16}));
  }
  EXPECT_EQ(saturate("f64", "f32", ElementType::F64, ElementType::F32,
                     {1e300, -1e300, infinity, 0, 1, 2, 3, 4}),
            (Values{0x1.fffffep127, -0x1.fffffep127, 0x1.fffffep127, 0, 1, 2, 3, 4}));
  EXPECT_TRUE(std::isnan(saturate("f32", "f8E4M3FN", ElementType::F32, ElementType::E4M3,
                                  {std::nan(""), 0, 0, 0, 0, 0, 0, 0})[0]));
  EXPECT_EQ(convert("arith.bitcast", "f32", "i32", ElementType::F32, ElementType::I32,
                    {1, -1, 0, 2, 0.5, 0, 0, 0}),
            (Values{1065353216, -1082130432, 0, 1073741824, 1056964608, 0, 0, 0}));
}

} // namespace
} // namespace tilewright
