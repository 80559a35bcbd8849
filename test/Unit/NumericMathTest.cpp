// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The vectorized transcendental functions against libm in double: the error in units in the last
// place over sweeps through all floats.

#include "NumericTesting.h"
#include "base/Numeric/Elementwise.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

class NumericMath : public IsaTest {};
TILEWRIGHT_FOR_EVERY_ISA(NumericMath);

/// |result - exact| in units in the last place of the float nearest to `exact`; 0 if both are the
/// same infinity or NaN.
double ulpError(float result, double exact) {
  float nearest = float(exact);
  if (std::isnan(nearest) || std::isinf(nearest) || std::isnan(result))
    return isSame(result, nearest) ? 0 : 1e9;
  if (std::isinf(result))
    return std::fabs(exact) > 3.4028235e38 ? 0.5 : 1e9;
  int exponent = std::max(std::ilogb(nearest == 0 ? 0x1p-149 : double(std::fabs(nearest))), -126);
  return std::fabs(double(result) - exact) / std::ldexp(1.0, exponent - 23);
}

/// Every `step`-th pattern between two floats of the same sign, and both ends.
std::vector<float> sweep(float from, float to, uint32_t step) {
  std::vector<float> values;
  uint32_t a = bitCast<uint32_t>(from), b = bitCast<uint32_t>(to);
  if (a > b)
    std::swap(a, b);
  for (uint64_t bits = a; bits < b; bits += step)
    values.push_back(bitCast<float>(uint32_t(bits)));
  values.push_back(bitCast<float>(b));
  return values;
}

struct Worst {
  double error = 0;
  float at = 0;
};

Worst worstError(UnaryOp op, double (*exact)(double), const std::vector<float> &values) {
  std::vector<float> results(values.size());
  EXPECT_EQ(unary(op, Storage::F32, Operand::span(values.data()), results.data(), values.size()),
            OpError::None);
  Worst worst;
  for (size_t i = 0; i < values.size(); ++i)
    if (double error = ulpError(results[i], exact(values[i])); error > worst.error)
      worst = {error, values[i]};
  return worst;
}

void expectWithin(double bound, UnaryOp op, double (*exact)(double),
                  const std::vector<float> &values) {
  Worst worst = worstError(op, exact, values);
  EXPECT_LE(worst.error, bound) << "at " << std::hexfloat << worst.at;
}

double exactExp2(double x) { return std::exp2(x); }
double exactExp(double x) { return std::exp(x); }
double exactLog(double x) { return std::log(x); }
double exactLog2(double x) { return std::log2(x); }
double exactTanh(double x) { return std::tanh(x); }

TEST_P(NumericMath, Exp2) {
  expectWithin(1.5, UnaryOp::Exp2, exactExp2, sweep(0x1p-149f, 130.0f, 9973));
  expectWithin(1.5, UnaryOp::Exp2, exactExp2, sweep(-0x1p-149f, -152.0f, 9973));
}

TEST_P(NumericMath, Exp) {
  expectWithin(1.5, UnaryOp::Exp, exactExp, sweep(0x1p-149f, 90.0f, 9973));
  expectWithin(1.5, UnaryOp::Exp, exactExp, sweep(-0x1p-149f, -106.0f, 9973));
}

TEST_P(NumericMath, Log2) {
  expectWithin(2, UnaryOp::Log2, exactLog2, sweep(0x1p-149f, 0x1.fffffep127f, 19937));
  expectWithin(2, UnaryOp::Log2, exactLog2, sweep(0.5f, 2.0f, 257));
}

TEST_P(NumericMath, Log) {
  expectWithin(2, UnaryOp::Log, exactLog, sweep(0x1p-149f, 0x1.fffffep127f, 19937));
  expectWithin(2, UnaryOp::Log, exactLog, sweep(0.5f, 2.0f, 257));
}

TEST_P(NumericMath, Tanh) {
  expectWithin(2, UnaryOp::Tanh, exactTanh, sweep(0x1p-149f, 12.0f, 9973));
  expectWithin(2, UnaryOp::Tanh, exactTanh, sweep(-0x1p-149f, -12.0f, 9973));
}

struct Special {
  UnaryOp op;
  float x, expected;
};

TEST_P(NumericMath, SpecialValues) {
  constexpr float largest = 0x1.fffffep127f, smallest = 0x1p-149f;
  const Special cases[] = {
      {UnaryOp::Exp2, infinity, infinity},
      {UnaryOp::Exp2, -infinity, 0},
      {UnaryOp::Exp2, notANumber, notANumber},
      {UnaryOp::Exp2, 0, 1},
      {UnaryOp::Exp2, -0.0f, 1},
      {UnaryOp::Exp2, 127, 0x1p127f},
      {UnaryOp::Exp2, 128, infinity},
      {UnaryOp::Exp2, largest, infinity},
      {UnaryOp::Exp2, -126, 0x1p-126f},
      {UnaryOp::Exp2, -149, smallest},
      {UnaryOp::Exp2, -150, 0}, // a tie, to even
      {UnaryOp::Exp2, -149.9f, smallest},
      {UnaryOp::Exp2, -largest, 0},
      {UnaryOp::Exp, infinity, infinity},
      {UnaryOp::Exp, -infinity, 0},
      {UnaryOp::Exp, notANumber, notANumber},
      {UnaryOp::Exp, 0, 1},
      {UnaryOp::Exp, largest, infinity},
      {UnaryOp::Exp, -largest, 0},
      {UnaryOp::Exp, -103.5f, smallest},
      {UnaryOp::Log2, infinity, infinity},
      {UnaryOp::Log2, 0, -infinity},
      {UnaryOp::Log2, -0.0f, -infinity},
      {UnaryOp::Log2, -1, notANumber},
      {UnaryOp::Log2, -infinity, notANumber},
      {UnaryOp::Log2, notANumber, notANumber},
      {UnaryOp::Log2, 1, 0},
      {UnaryOp::Log2, 8, 3},
      {UnaryOp::Log2, smallest, -149},
      {UnaryOp::Log, infinity, infinity},
      {UnaryOp::Log, 0, -infinity},
      {UnaryOp::Log, -smallest, notANumber},
      {UnaryOp::Log, notANumber, notANumber},
      {UnaryOp::Log, 1, 0},
      {UnaryOp::Tanh, infinity, 1},
      {UnaryOp::Tanh, -infinity, -1},
      {UnaryOp::Tanh, notANumber, notANumber},
      {UnaryOp::Tanh, -0.0f, -0.0f},
      {UnaryOp::Tanh, largest, 1},
      {UnaryOp::Rsqrt, 4, 0.5f},
      {UnaryOp::Rsqrt, 0, infinity},
      {UnaryOp::Rsqrt, infinity, 0},
      {UnaryOp::Sqrt, -1, notANumber},
  };
  for (const Special &c : cases) {
    // In a run long enough for every lane and the remainder.
    std::vector<float> in(37, c.x), out(37);
    ASSERT_EQ(unary(c.op, Storage::F32, Operand::span(in.data()), out.data(), in.size()),
              OpError::None);
    for (float result : out)
      ASSERT_TRUE(isSame(result, c.expected))
          << unsigned(c.op) << " of " << c.x << " gave " << result;
  }
}

TEST_P(NumericMath, PositionInARunDoesNotMatter) {
  std::vector<float> in(67), whole(67);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = -0.37f * float(i) + 3;
  for (UnaryOp op : {UnaryOp::Exp2, UnaryOp::Exp, UnaryOp::Tanh}) {
    ASSERT_EQ(unary(op, Storage::F32, Operand::span(in.data()), whole.data(), in.size()),
              OpError::None);
    for (size_t i = 0; i < in.size(); ++i) {
      float one;
      ASSERT_EQ(unary(op, Storage::F32, Operand::span(&in[i]), &one, 1), OpError::None);
      ASSERT_EQ(one, whole[i]);
    }
  }
}

struct LibmCase {
  UnaryOp op;
  double (*exact)(double);
};

TEST_P(NumericMath, OtherFunctionsAreLibm) {
  const LibmCase cases[] = {
      {UnaryOp::Exp, [](double x) { return std::exp(x); }},
      {UnaryOp::Exp2, [](double x) { return std::exp2(x); }},
      {UnaryOp::ExpM1, [](double x) { return std::expm1(x); }},
      {UnaryOp::Log, [](double x) { return std::log(x); }},
      {UnaryOp::Log2, [](double x) { return std::log2(x); }},
      {UnaryOp::Log10, [](double x) { return std::log10(x); }},
      {UnaryOp::Log1p, [](double x) { return std::log1p(x); }},
      {UnaryOp::Sqrt, [](double x) { return std::sqrt(x); }},
      {UnaryOp::Cbrt, [](double x) { return std::cbrt(x); }},
      {UnaryOp::Sinh, [](double x) { return std::sinh(x); }},
      {UnaryOp::Cosh, [](double x) { return std::cosh(x); }},
      {UnaryOp::Tanh, [](double x) { return std::tanh(x); }},
      {UnaryOp::Sin, [](double x) { return std::sin(x); }},
      {UnaryOp::Cos, [](double x) { return std::cos(x); }},
      {UnaryOp::Tan, [](double x) { return std::tan(x); }},
      {UnaryOp::Atan, [](double x) { return std::atan(x); }},
      {UnaryOp::Erf, [](double x) { return std::erf(x); }},
      {UnaryOp::Erfc, [](double x) { return std::erfc(x); }},
      {UnaryOp::Floor, [](double x) { return std::floor(x); }},
      {UnaryOp::Ceil, [](double x) { return std::ceil(x); }},
      {UnaryOp::Trunc, [](double x) { return std::trunc(x); }},
      {UnaryOp::Round, [](double x) { return std::round(x); }},
      {UnaryOp::RoundEven, [](double x) { return std::nearbyint(x); }},
      {UnaryOp::NegF, [](double x) { return -x; }},
      {UnaryOp::AbsF, [](double x) { return std::fabs(x); }},
  };
  std::vector<double> in;
  for (double x = 0.25; x < 6; x += 0.125)
    in.push_back(x);
  std::vector<float> inFloat(in.begin(), in.end()), outFloat(in.size());
  std::vector<double> out(in.size());
  auto check = [&](const LibmCase &c) {
    ASSERT_EQ(unary(c.op, Storage::F64, Operand::span(in.data()), out.data(), in.size()),
              OpError::None);
    ASSERT_EQ(unary(c.op, Storage::F32, Operand::span(inFloat.data()), outFloat.data(), in.size()),
              OpError::None);
    for (size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(out[i], c.exact(in[i])) << unsigned(c.op) << " of " << in[i];
      ASSERT_LE(ulpError(outFloat[i], c.exact(in[i])), 2) << unsigned(c.op) << " of " << in[i];
    }
  };
  for (const LibmCase &c : cases)
    check(c);
  // Between -1 and 1.
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = inFloat[i] = static_cast<float>(i) / 32 - 0.7f;
  check({UnaryOp::Asin, [](double x) { return std::asin(x); }});
  check({UnaryOp::Acos, [](double x) { return std::acos(x); }});
}

} // namespace
