// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elementwise operations against the same operation on single values, for all combinations of runs
// and splats.

#include "NumericTesting.h"
#include "base/Numeric/Elementwise.h"

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

class NumericElementwise : public IsaTest {};
TILEWRIGHT_FOR_EVERY_ISA(NumericElementwise);

template <typename T> constexpr Storage storageFor() {
  return std::is_same_v<T, double>    ? Storage::F64
         : std::is_same_v<T, float>   ? Storage::F32
         : std::is_same_v<T, int64_t> ? Storage::I64
         : std::is_same_v<T, int32_t> ? Storage::I32
                                      : Storage::I1;
}

/// All pairs of the values, as two runs.
template <typename T>
std::pair<std::vector<T>, std::vector<T>> pairsOf(const std::vector<T> &values) {
  std::vector<T> left, right;
  for (T a : values)
    for (T b : values) {
      left.push_back(a);
      right.push_back(b);
    }
  return {left, right};
}

template <typename T> bool isSameValue(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return isSame(a, b);
  else
    return a == b;
}

/// Runs `apply(a, b, out, n)` with run/run, splat/run, run/splat, splat/splat and in place, and
/// compares with `expected(a, b)`.
template <typename T, typename R, typename Apply, typename Expected>
void checkBinary(const std::vector<T> &values, Apply apply, Expected expected, const char *name) {
  auto [left, right] = pairsOf(values);
  size_t n = left.size();
  std::vector<R> out(n);
  auto compare = [&](auto a, auto b, const char *form) {
    for (size_t i = 0; i < n; ++i)
      ASSERT_TRUE(isSameValue(out[i], R(expected(a(i), b(i)))))
          << name << ", " << form << ": (" << +a(i) << ", " << +b(i) << ") gave " << +out[i];
  };
  auto fromLeft = [&, &left = left](size_t i) { return left[i]; };
  auto fromRight = [&, &right = right](size_t i) { return right[i]; };
  ASSERT_EQ(apply(Operand::span(left.data()), Operand::span(right.data()), out.data(), n),
            OpError::None);
  compare(fromLeft, fromRight, "runs");
  for (const T &value : values) {
    auto constant = [&](size_t) { return value; };
    ASSERT_EQ(apply(Operand::splat(&value), Operand::span(right.data()), out.data(), n),
              OpError::None);
    compare(constant, fromRight, "left splat");
    ASSERT_EQ(apply(Operand::span(left.data()), Operand::splat(&value), out.data(), n),
              OpError::None);
    compare(fromLeft, constant, "right splat");
    ASSERT_EQ(apply(Operand::splat(&value), Operand::splat(&value), out.data(), n), OpError::None);
    compare(constant, constant, "splats");
  }
  if constexpr (std::is_same_v<T, R>) {
    out = left;
    ASSERT_EQ(apply(Operand::span(out.data()), Operand::span(right.data()), out.data(), n),
              OpError::None);
    compare(fromLeft, fromRight, "in place");
  }
}

template <typename T, typename Expected>
void checkOp(BinaryOp op, const std::vector<T> &values, Expected expected, const char *name) {
  auto apply = [&](Operand a, Operand b, T *out, size_t n) {
    return binary(op, storageFor<T>(), a, b, out, n);
  };
  checkBinary<T, T>(values, apply, expected, name);
}

template <typename T> std::vector<T> floatValues() {
  return {T(0),
          T(-0.0),
          T(1),
          T(-1),
          T(2.5),
          T(-7.25),
          T(1e30),
          T(infinity),
          T(-infinity),
          T(notANumber),
          std::numeric_limits<T>::denorm_min()};
}

template <typename T> T exactMaximum(T a, T b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<T>::quiet_NaN();
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <typename T> void checkFloats() {
  std::vector<T> values = floatValues<T>();
  checkOp<T>(BinaryOp::AddF, values, [](T a, T b) { return a + b; }, "addf");
  checkOp<T>(BinaryOp::SubF, values, [](T a, T b) { return a - b; }, "subf");
  checkOp<T>(BinaryOp::MulF, values, [](T a, T b) { return a * b; }, "mulf");
  checkOp<T>(BinaryOp::DivF, values, [](T a, T b) { return a / b; }, "divf");
  checkOp<T>(BinaryOp::RemF, values, [](T a, T b) { return std::fmod(a, b); }, "remf");
  checkOp<T>(BinaryOp::Pow, values, [](T a, T b) { return std::pow(a, b); }, "pow");
  checkOp<T>(BinaryOp::Atan2, values, [](T a, T b) { return std::atan2(a, b); }, "atan2");
  checkOp<T>(BinaryOp::CopySign, values, [](T a, T b) { return std::copysign(a, b); }, "copysign");
  checkOp<T>(BinaryOp::MaximumF, values, exactMaximum<T>, "maximumf");
  checkOp<T>(
      BinaryOp::MinimumF, values, [](T a, T b) { return -exactMaximum(-a, -b); }, "minimumf");
  // The sign of a zero is unspecified, so negative zero is excluded.
  values.erase(values.begin() + 1);
  checkOp<T>(BinaryOp::MaxNumF, values, [](T a, T b) { return std::fmax(a, b); }, "maxnumf");
  checkOp<T>(BinaryOp::MinNumF, values, [](T a, T b) { return std::fmin(a, b); }, "minnumf");
}

TEST_P(NumericElementwise, FloatOps) {
  checkFloats<float>();
  checkFloats<double>();
}

TEST_P(NumericElementwise, FmaRoundsOnce) {
  std::vector<float> a = {1 + 0x1p-12f, 2, 3, 4, 5}, b = {1 - 0x1p-12f, 1, 2, 3, 4},
                     c = {-1, 5, 6, 7, 8}, out(5);
  float two = 2, ten = 10;
  auto check = [&](Operand x, Operand y, Operand z) {
    ASSERT_EQ(fma(Storage::F32, x, y, z, out.data(), out.size()), OpError::None);
    auto at = [](Operand o, size_t i) {
      return static_cast<const float *>(o.data)[o.isSplat ? 0 : i];
    };
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], std::fma(at(x, i), at(y, i), at(z, i)));
  };
  const Operand xs[] = {Operand::span(a.data()), Operand::splat(&two)};
  const Operand ys[] = {Operand::span(b.data()), Operand::splat(&ten)};
  const Operand zs[] = {Operand::span(c.data()), Operand::splat(&two)};
  for (Operand x : xs)
    for (Operand y : ys)
      for (Operand z : zs)
        check(x, y, z);
  ASSERT_EQ(fma(Storage::F32, xs[0], ys[0], zs[0], out.data(), 1), OpError::None);
  EXPECT_EQ(out[0], -0x1p-24f);
  EXPECT_EQ(fma(Storage::I32, xs[0], ys[0], zs[0], out.data(), 1), OpError::Unsupported);
}

/// Only divisors that cannot fail.
template <typename T, typename U> void checkIntegers() {
  constexpr T smallest = std::numeric_limits<T>::min(), largest = std::numeric_limits<T>::max();
  constexpr U width = sizeof(T) * 8;
  std::vector<T> values = {
      0, 1, -1, 2, -2, 7, -7, T(width - 1), T(width), 1000003, smallest, smallest + 1, largest};
  checkOp<T>(BinaryOp::AddI, values, [](T a, T b) { return T(U(a) + U(b)); }, "addi");
  checkOp<T>(BinaryOp::SubI, values, [](T a, T b) { return T(U(a) - U(b)); }, "subi");
  checkOp<T>(BinaryOp::MulI, values, [](T a, T b) { return T(U(a) * U(b)); }, "muli");
  checkOp<T>(BinaryOp::AndI, values, [](T a, T b) { return a & b; }, "andi");
  checkOp<T>(BinaryOp::OrI, values, [](T a, T b) { return a | b; }, "ori");
  checkOp<T>(BinaryOp::XorI, values, [](T a, T b) { return a ^ b; }, "xori");
  checkOp<T>(
      BinaryOp::ShLI, values, [](T a, T b) { return U(b) < width ? T(U(a) << b) : T(0); }, "shli");
  checkOp<T>(
      BinaryOp::ShRUI, values, [](T a, T b) { return U(b) < width ? T(U(a) >> b) : T(0); },
      "shrui");
  checkOp<T>(
      BinaryOp::ShRSI, values,
      [](T a, T b) { return U(b) < width ? a >> b
                            : a < 0      ? T(-1)
                                         : T(0); }, "shrsi");
  checkOp<T>(BinaryOp::MaxSI, values, [](T a, T b) { return a > b ? a : b; }, "maxsi");
  checkOp<T>(BinaryOp::MinSI, values, [](T a, T b) { return a < b ? a : b; }, "minsi");
  checkOp<T>(BinaryOp::MaxUI, values, [](T a, T b) { return U(a) > U(b) ? a : b; }, "maxui");
  checkOp<T>(BinaryOp::MinUI, values, [](T a, T b) { return U(a) < U(b) ? a : b; }, "minui");

  std::vector<T> divisible = {1,        2,       -2,         7, -7, 3, 1000003, smallest + 1,
                              smallest, largest, largest - 1};
  checkOp<T>(BinaryOp::DivSI, divisible, [](T a, T b) { return a / b; }, "divsi");
  checkOp<T>(BinaryOp::RemSI, divisible, [](T a, T b) { return a % b; }, "remsi");
  checkOp<T>(BinaryOp::DivUI, divisible, [](T a, T b) { return T(U(a) / U(b)); }, "divui");
  checkOp<T>(BinaryOp::RemUI, divisible, [](T a, T b) { return T(U(a) % U(b)); }, "remui");
  checkOp<T>(
      BinaryOp::CeilDivUI, divisible, [](T a, T b) { return T(U(a) / U(b) + (U(a) % U(b) != 0)); },
      "ceildivui");
  checkOp<T>(
      BinaryOp::FloorDivSI, divisible,
      [](T a, T b) { return T(a / b - (a % b != 0 && (a < 0) != (b < 0))); }, "floordivsi");
  checkOp<T>(
      BinaryOp::CeilDivSI, divisible,
      [](T a, T b) { return T(a / b + (a % b != 0 && (a < 0) == (b < 0))); }, "ceildivsi");
}

TEST_P(NumericElementwise, IntegerOps) {
  checkIntegers<int32_t, uint32_t>();
  checkIntegers<int64_t, uint64_t>();
  std::vector<uint8_t> bits = {0, 1};
  checkOp<uint8_t>(BinaryOp::AddI, bits, [](int a, int b) { return (a + b) & 1; }, "addi i1");
  checkOp<uint8_t>(BinaryOp::MulI, bits, [](int a, int b) { return a * b; }, "muli i1");
  checkOp<uint8_t>(
      BinaryOp::MaxSI, bits, [](int a, int b) { return -std::max(-a, -b); }, "maxsi i1");
  checkOp<uint8_t>(
      BinaryOp::MinSI, bits, [](int a, int b) { return -std::min(-a, -b); }, "minsi i1");
  checkOp<uint8_t>(BinaryOp::MaxUI, bits, [](int a, int b) { return std::max(a, b); }, "maxui i1");
}

TEST_P(NumericElementwise, RandomDivisionsAreExact) {
  Random random(3);
  std::vector<int32_t> a(20000), b(a.size()), out(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = int32_t(random.bits());
    b[i] = int32_t(random.bits()) >> random.integer(0, 30);
    if (b[i] == 0 || b[i] == -1)
      b[i] = 1;
    if (i % 2) // multiples and their neighbors expose a rounded quotient
      a[i] = int32_t(uint32_t(a[i] / b[i]) * uint32_t(b[i]) + uint32_t(random.integer(-1, 1)));
  }
  ASSERT_EQ(binary(BinaryOp::DivSI, Storage::I32, Operand::span(a.data()), Operand::span(b.data()),
                   out.data(), a.size()),
            OpError::None);
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(out[i], a[i] / b[i]) << a[i] << " / " << b[i];
}

TEST_P(NumericElementwise, DivisionsThatFail) {
  std::vector<int32_t> a(20, 6), b(20, 3), out(20);
  int32_t zero = 0, minusOne = -1, smallest = INT32_MIN;
  auto run = [&](BinaryOp op, Operand x, Operand y) {
    return binary(op, Storage::I32, x, y, out.data(), 20);
  };
  Operand A = Operand::span(a.data()), B = Operand::span(b.data());
  for (BinaryOp op : {BinaryOp::DivSI, BinaryOp::DivUI, BinaryOp::RemSI, BinaryOp::RemUI,
                      BinaryOp::FloorDivSI, BinaryOp::CeilDivSI, BinaryOp::CeilDivUI}) {
    EXPECT_EQ(run(op, A, B), OpError::None);
    EXPECT_EQ(run(op, A, Operand::splat(&zero)), OpError::DivisionByZero);
    b[19] = 0;
    EXPECT_EQ(run(op, A, B), OpError::DivisionByZero);
    EXPECT_EQ(run(op, Operand::splat(&minusOne), B), OpError::DivisionByZero);
    b[19] = 3;
  }
  a[7] = smallest;
  EXPECT_EQ(run(BinaryOp::DivSI, A, Operand::splat(&minusOne)), OpError::DivisionOverflow);
  EXPECT_EQ(run(BinaryOp::DivUI, A, Operand::splat(&minusOne)), OpError::None);
  b[6] = -1;
  EXPECT_EQ(run(BinaryOp::RemSI, A, B), OpError::None);
  b[7] = -1;
  EXPECT_EQ(run(BinaryOp::RemSI, A, B), OpError::DivisionOverflow);
  EXPECT_EQ(run(BinaryOp::FloorDivSI, Operand::splat(&smallest), Operand::splat(&minusOne)),
            OpError::DivisionOverflow);
  EXPECT_STREQ(opErrorMessage(OpError::DivisionByZero),
               "integer division by zero; divide by a select that replaces zeros");
}

TEST_P(NumericElementwise, WhatAStorageDoesNotHave) {
  uint64_t element = 0, out;
  Operand a = Operand::splat(&element);
  EXPECT_EQ(unary(UnaryOp::Exp, Storage::I32, a, &out, 1), OpError::Unsupported);
  EXPECT_EQ(binary(BinaryOp::AddF, Storage::I32, a, a, &out, 1), OpError::Unsupported);
  EXPECT_EQ(binary(BinaryOp::AddI, Storage::F32, a, a, &out, 1), OpError::Unsupported);
  EXPECT_EQ(binary(BinaryOp::DivSI, Storage::I1, a, a, &out, 1), OpError::Unsupported);
  EXPECT_EQ(compareFloat(CmpF::OEQ, Storage::I32, a, a, reinterpret_cast<uint8_t *>(&out), 1),
            OpError::Unsupported);
  EXPECT_EQ(compareInt(CmpI::EQ, Storage::F32, a, a, reinterpret_cast<uint8_t *>(&out), 1),
            OpError::Unsupported);
  EXPECT_EQ(cast(CastOp::ExtSI, Storage::F32, a, Storage::I32, &out, 1), OpError::Unsupported);
}

template <typename T> bool compareExactly(CmpF predicate, T a, T b) {
  bool isUnordered = std::isnan(a) || std::isnan(b);
  switch (predicate) {
  case CmpF::False:
    return false;
  case CmpF::OEQ:
    return !isUnordered && a == b;
  case CmpF::OGT:
    return !isUnordered && a > b;
  case CmpF::OGE:
    return !isUnordered && a >= b;
  case CmpF::OLT:
    return !isUnordered && a < b;
  case CmpF::OLE:
    return !isUnordered && a <= b;
  case CmpF::ONE:
    return !isUnordered && a != b;
  case CmpF::ORD:
    return !isUnordered;
  case CmpF::UEQ:
    return isUnordered || a == b;
  case CmpF::UGT:
    return isUnordered || a > b;
  case CmpF::UGE:
    return isUnordered || a >= b;
  case CmpF::ULT:
    return isUnordered || a < b;
  case CmpF::ULE:
    return isUnordered || a <= b;
  case CmpF::UNE:
    return isUnordered || a != b;
  case CmpF::UNO:
    return isUnordered;
  case CmpF::True:
    return true;
  }
  return false;
}

template <typename T> void checkFloatComparisons() {
  for (unsigned p = 0; p < 16; ++p) {
    auto apply = [&](Operand a, Operand b, uint8_t *out, size_t n) {
      return compareFloat(CmpF(p), storageFor<T>(), a, b, out, n);
    };
    checkBinary<T, uint8_t>(
        floatValues<T>(), apply, [&](T a, T b) { return compareExactly(CmpF(p), a, b); }, "cmpf");
  }
}

TEST_P(NumericElementwise, FloatComparisons) {
  checkFloatComparisons<float>();
  checkFloatComparisons<double>();
}

/// `signedOf` gives the value that a signed comparison sees.
template <typename T, typename U, typename SignedOf>
void checkIntegerComparisons(const std::vector<T> &values, SignedOf signedOf) {
  for (unsigned p = 0; p < 10; ++p) {
    auto apply = [&](Operand a, Operand b, uint8_t *out, size_t n) {
      return compareInt(CmpI(p), storageFor<T>(), a, b, out, n);
    };
    auto exact = [&](T x, T y) -> bool {
      int64_t a = signedOf(x), b = signedOf(y);
      U c = U(x), d = U(y);
      const bool results[] = {a == b, a != b, a<b, a <= b, a> b, a >= b, c<d, c <= d, c> d, c >= d};
      return results[p];
    };
    checkBinary<T, uint8_t>(values, apply, exact, "cmpi");
  }
}

TEST_P(NumericElementwise, IntegerComparisons) {
  checkIntegerComparisons<int32_t, uint32_t>({0, 1, -1, 5, INT32_MIN, INT32_MAX},
                                             [](int32_t a) { return a; });
  checkIntegerComparisons<int64_t, uint64_t>({0, 1, -1, 5, INT64_MIN, INT64_MAX},
                                             [](int64_t a) { return a; });
  checkIntegerComparisons<uint8_t, uint8_t>({0, 1}, [](uint8_t a) { return -int64_t(a); });
}

template <typename T> void checkSelect(std::vector<T> a, std::vector<T> b) {
  size_t n = a.size();
  std::vector<uint8_t> condition(n);
  for (size_t i = 0; i < n; ++i)
    condition[i] = i % 3 == 0;
  uint8_t yes = 1, no = 0;
  std::vector<T> out(n);
  const Operand conditions[] = {Operand::span(condition.data()), Operand::splat(&yes),
                                Operand::splat(&no)};
  const Operand as[] = {Operand::span(a.data()), Operand::splat(&a[1])};
  const Operand bs[] = {Operand::span(b.data()), Operand::splat(&b[2])};
  for (Operand c : conditions)
    for (Operand x : as)
      for (Operand y : bs) {
        select(storageFor<T>(), c, x, y, out.data(), n);
        for (size_t i = 0; i < n; ++i) {
          bool isFirst = static_cast<const uint8_t *>(c.data)[c.isSplat ? 0 : i];
          T expected = isFirst ? a[x.isSplat ? 1 : i] : b[y.isSplat ? 2 : i];
          ASSERT_TRUE(isSameValue(out[i], expected));
        }
      }
  out = a;
  select(storageFor<T>(), conditions[0], Operand::span(out.data()), bs[1], out.data(), n);
  for (size_t i = 0; i < n; ++i)
    ASSERT_TRUE(isSameValue(out[i], condition[i] ? a[i] : b[2]));
}

TEST_P(NumericElementwise, Select) {
  std::vector<float> a(41), b(41);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = float(i);
    b[i] = -float(i);
  }
  b[2] = -infinity;
  checkSelect(a, b);
  checkSelect(std::vector<double>(a.begin(), a.end()), std::vector<double>(b.begin(), b.end()));
  std::vector<int64_t> wideA(a.begin(), a.end()), wideB(41, -3);
  checkSelect(wideA, wideB);
  checkSelect(std::vector<int32_t>(wideA.begin(), wideA.end()),
              std::vector<int32_t>(wideB.begin(), wideB.end()));
  checkSelect(std::vector<uint8_t>(41, 1), std::vector<uint8_t>(41, 0));
}

template <typename T, typename R> std::vector<R> castAll(CastOp op, std::vector<T> in) {
  std::vector<R> out(in.size()), splat(3);
  EXPECT_EQ(
      cast(op, storageFor<T>(), Operand::span(in.data()), storageFor<R>(), out.data(), in.size()),
      OpError::None);
  EXPECT_EQ(cast(op, storageFor<T>(), Operand::splat(&in[0]), storageFor<R>(), splat.data(), 3),
            OpError::None);
  EXPECT_TRUE(isSameValue(splat[2], out[0]));
  return out;
}

TEST_P(NumericElementwise, Casts) {
  using I8 = std::vector<uint8_t>;
  using I32 = std::vector<int32_t>;
  using I64 = std::vector<int64_t>;
  using F32 = std::vector<float>;
  using F64 = std::vector<double>;
  EXPECT_EQ((castAll<int32_t, float>(CastOp::SIToFP, {-1, 16777217, INT32_MIN})),
            (F32{-1, 16777216, -0x1p31f}));
  EXPECT_EQ((castAll<int32_t, float>(CastOp::UIToFP, {-1, 3})), (F32{0x1p32f, 3}));
  EXPECT_EQ((castAll<int64_t, double>(CastOp::SIToFP, {-5, INT64_MAX})), (F64{-5, 0x1p63}));
  EXPECT_EQ((castAll<int64_t, double>(CastOp::UIToFP, {-1})), (F64{0x1p64}));
  EXPECT_EQ((castAll<uint8_t, float>(CastOp::SIToFP, {0, 1})), (F32{0, -1}));
  EXPECT_EQ((castAll<uint8_t, float>(CastOp::UIToFP, {0, 1})), (F32{0, 1}));
  F32 reals = {1.9f, -1.9f, 3e9f, -3e9f, infinity, -infinity, notANumber, 0x1p64f};
  EXPECT_EQ((castAll<float, int32_t>(CastOp::FPToSI, reals)),
            (I32{1, -1, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0, INT32_MAX}));
  EXPECT_EQ((castAll<float, int64_t>(CastOp::FPToSI, reals)),
            (I64{1, -1, 3000000000, -3000000000, INT64_MAX, INT64_MIN, 0, INT64_MAX}));
  EXPECT_EQ((castAll<float, int32_t>(CastOp::FPToUI, reals)),
            (I32{1, 0, int32_t(3000000000u), 0, -1, 0, 0, -1}));
  EXPECT_EQ((castAll<float, int64_t>(CastOp::FPToUI, reals)),
            (I64{1, 0, 3000000000, 0, -1, 0, 0, -1}));
  EXPECT_EQ((castAll<double, int32_t>(CastOp::FPToSI, {2147483647.5, -2147483648.5, 2147483648.0})),
            (I32{INT32_MAX, INT32_MIN, INT32_MAX}));
  EXPECT_EQ((castAll<double, float>(CastOp::FPToFP, {1 + 0x1p-40, 1e300})), (F32{1, infinity}));
  EXPECT_EQ((castAll<float, double>(CastOp::FPToFP, {0x1p-149f})), (F64{0x1p-149}));
  EXPECT_EQ((castAll<int32_t, int64_t>(CastOp::ExtSI, {-1})), (I64{-1}));
  EXPECT_EQ((castAll<int32_t, int64_t>(CastOp::ExtUI, {-1})), (I64{0xffffffff}));
  EXPECT_EQ((castAll<uint8_t, int32_t>(CastOp::ExtSI, {1, 0})), (I32{-1, 0}));
  EXPECT_EQ((castAll<uint8_t, int64_t>(CastOp::ExtUI, {1, 0})), (I64{1, 0}));
  EXPECT_EQ((castAll<int64_t, int32_t>(CastOp::TruncI, {0x1ffffffff, 5})), (I32{-1, 5}));
  EXPECT_EQ((castAll<int64_t, int64_t>(CastOp::ExtSI, {-9})), (I64{-9}));
  EXPECT_EQ((castAll<int32_t, uint8_t>(CastOp::TruncI, {2, 3})), (I8{0, 1}));
  EXPECT_EQ((castAll<float, int32_t>(CastOp::Bitcast, {1})), (I32{0x3f800000}));
  EXPECT_EQ((castAll<int64_t, double>(CastOp::Bitcast, {0x3ff0000000000000})), (F64{1}));
}

TEST_P(NumericElementwise, EmptyRuns) {
  EXPECT_EQ(unary(UnaryOp::Exp2, Storage::F32, Operand::span(nullptr), nullptr, 0), OpError::None);
  EXPECT_EQ(binary(BinaryOp::DivSI, Storage::I32, Operand::span(nullptr), Operand::span(nullptr),
                   nullptr, 0),
            OpError::None);
  select(Storage::F32, Operand::span(nullptr), Operand::span(nullptr), Operand::span(nullptr),
         nullptr, 0);
}

} // namespace
