// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merged results over parts of the keys: against sums in f64, with bounds that follow from the
// roundings of the kernel; and those of attention, against attention over all keys.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Random.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

class Merge : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Merge, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Results of parts in [rows, parts, heads, width] and their LSE.
struct Parts {
  int64_t rows, parts, heads, width;
  Type type;
  std::vector<double> o, lse;

  Parts(int64_t rows, int64_t parts, int64_t heads, int64_t width, Type type, uint64_t seed)
      : rows(rows), parts(parts), heads(heads), width(width), type(type),
        o(normals(rows * parts * heads * width, seed, type)),
        lse(normals(rows * parts * heads, seed + 1, type == Type::F64 ? Type::F64 : Type::F32,
                    /*deviation=*/8)) {}
  int64_t at(int64_t m, int64_t n, int64_t h) const { return (m * parts + n) * heads + h; }
  /// The part has attended no key.
  void empty(int64_t m, int64_t n, int64_t h) {
    lse[at(m, n, h)] = -kInf;
    std::fill_n(o.begin() + at(m, n, h) * width, width, std::numeric_limits<double>::quiet_NaN());
  }
};

struct Merged {
  std::vector<double> o, lse;
};

/// How the arrays lie in memory, and which part is in an array of its own.
struct Form {
  bool hasOther = false, base2 = false, partsFirst = false;
};

Merged runMerge(const Parts &given, Type type, const Form &form) {
  KernelCall call("attention_merge", {{"D", std::to_string(given.width)},
                                      {"T", typeName(given.type)},
                                      {"TO", typeName(type)},
                                      {"OTHER", form.hasOther ? "true" : "false"},
                                      {"BASE2", form.base2 ? "true" : "false"}});
  int64_t rows = given.rows, heads = given.heads, width = given.width,
          parts = given.parts - (form.hasOther ? 1 : 0);
  std::vector<double> o, lse, other, lseOther;
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < given.parts; ++n) {
      auto first = given.at(m, n, 0);
      bool isOther = n == parts;
      (isOther ? other : o)
          .insert((isOther ? other : o).end(), given.o.begin() + first * width,
                  given.o.begin() + (first + heads) * width);
      (isOther ? lseOther : lse)
          .insert((isOther ? lseOther : lse).end(), given.lse.begin() + first,
                  given.lse.begin() + first + heads);
    }
  ElementType element = elementType(given.type), sums = accumulatorType(given.type);
  Layout layoutO, layoutLse;
  if (form.partsFirst) {
    layoutO.strides = {heads * width, rows * heads * width, width, 1};
    layoutLse.strides = {1, rows * heads, rows};
  }
  call.input("o_parts", element, {rows, parts, heads, width}, o, layoutO);
  call.input("lse_parts", sums, {rows, parts, heads}, lse, layoutLse);
  if (form.hasOther) {
    call.input("o_other", element, {rows, heads, width}, other);
    call.input("lse_other", sums, {rows, heads}, lseOther);
  }
  call.output("o", elementType(type), {rows, heads, width});
  call.output("lse", sums, {rows, heads});
  call.runTwice();
  return {call.read("o"), call.read("lse")};
}

/// Weights have the errors of a difference, a product and exp2, sums that of each addition.
void expectMerged(const Parts &given, Type type, const Form &form, const Merged &got,
                  const std::string &context) {
  double log = form.base2 ? std::log(2.0) : 1;
  double u = unitRoundoff(given.type == Type::F64 ? Type::F64 : Type::F32);
  for (int64_t m = 0; m < given.rows; ++m)
    for (int64_t h = 0; h < given.heads; ++h) {
      double top = -kInf;
      for (int64_t n = 0; n < given.parts; ++n)
        top = std::max(top, given.lse[given.at(m, n, h)]);
      double sum = 0, errorOfSum = 0;
      std::vector<double> weights(given.parts), errors(given.parts);
      for (int64_t n = 0; n < given.parts && top > -kInf; ++n) {
        double below = given.lse[given.at(m, n, h)] - top;
        weights[n] = std::exp(log * below);
        errors[n] = weights[n] > 0 ? u * (4 * std::abs(below) + 8 + given.parts) : 0;
        sum += weights[n];
        errorOfSum += weights[n] * errors[n];
      }
      errorOfSum = sum > 0 ? errorOfSum / sum : 0;
      double lse = top > -kInf ? top + std::log(sum) / log : -kInf;
      double gotLse = got.lse[m * given.heads + h];
      if (top == -kInf)
        EXPECT_EQ(gotLse, -kInf) << context << ", row " << m << ", head " << h;
      else
        EXPECT_LE(std::abs(gotLse - lse),
                  2 * u * (std::abs(top) + std::abs(lse)) + (errorOfSum + 8 * u) / log)
            << context << ", row " << m << ", head " << h;
      for (int64_t c = 0; c < given.width; ++c) {
        double value = 0, magnitude = 0, error = 0;
        for (int64_t n = 0; n < given.parts; ++n)
          if (weights[n] > 0) {
            double term = weights[n] / sum * given.o[given.at(m, n, h) * given.width + c];
            value += term;
            magnitude += std::abs(term);
            error += std::abs(term) * errors[n];
          }
        double computed = error + magnitude * (errorOfSum + 4 * u);
        double subnormal = type == Type::F16 ? std::ldexp(1.0, -25) : 0;
        double allowed = computed + unitRoundoff(type) * (std::abs(value) + computed) + subnormal;
        double gotO = got.o[(m * given.heads + h) * given.width + c];
        ASSERT_LE(std::abs(gotO - value), allowed)
            << context << ", row " << m << ", head " << h << ", column " << c;
      }
    }
}

/// Any number of parts, some or all of them without keys, which may be NaN.
TEST_P(Merge, Parts) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (int64_t parts : {0, 1, 2, 4, 5, 19})
    for (auto [heads, width] : {std::pair<int64_t, int64_t>{8, 128}, {3, 40}, {1, 256}})
      for (Form form : {Form{}, {true, false, false}, {false, true, true}, {true, true, true}}) {
        Parts given(7, parts + (form.hasOther ? 1 : 0), heads, width, type, seed++);
        for (int64_t n = 0; n < given.parts; ++n)
          for (int64_t h = 0; h < heads; ++h) {
            given.empty(1, n, h);
            if (n % 2 == h % 2)
              given.empty(2, n, h);
            if (n + 1 < given.parts)
              given.empty(3, n, h);
          }
        MatrixCase matrixCase("attention_merge", form.hasOther ? "a part of its own" : "parts",
                              type);
        std::string context = std::to_string(given.parts) + " parts of " + std::to_string(heads) +
                              " heads of " + std::to_string(width);
        expectMerged(given, type, form, runMerge(given, type, form), context);
        if (HasFailure())
          return;
      }
}

/// Parts of one type, and a result of another.
TEST_P(Merge, OtherTypes) {
  Type type = GetParam();
  for (Type of : {Type::F32, Type::F16, Type::BF16, Type::F64}) {
    Parts given(5, 3, 4, 72, of, /*seed=*/77);
    MatrixCase matrixCase("attention_merge", std::string("parts of ") + typeName(of), type);
    expectMerged(given, type, {}, runMerge(given, type, {}), typeName(of));
  }
}

/// As many rows and heads as there are none.
TEST_P(Merge, ExtentsOfZero) {
  Type type = GetParam();
  for (auto [rows, heads] : {std::pair<int64_t, int64_t>{0, 4}, {4, 0}, {0, 0}}) {
    Merged got = runMerge(Parts(rows, 3, heads, 64, type, 1), type, {});
    EXPECT_TRUE(got.o.empty());
    EXPECT_TRUE(got.lse.empty());
  }
}

/// NaN stays in its row and head.
TEST_P(Merge, NaNStaysInItsRow) {
  Type type = GetParam();
  Parts given(4, 3, 6, 64, type, /*seed=*/5), poisoned = given;
  poisoned.lse[poisoned.at(1, 2, 3)] = std::nan("");
  poisoned.o[poisoned.at(2, 0, 5) * 64 + 9] = std::nan("");
  Merged expected = runMerge(given, type, {}), got = runMerge(poisoned, type, {});
  for (int64_t row = 0; row < 4 * 6; ++row) {
    bool isPoisoned = row == 1 * 6 + 3;
    EXPECT_TRUE(isPoisoned ? std::isnan(got.lse[row]) : got.lse[row] == expected.lse[row]) << row;
    for (int64_t c = 0; c < 64; ++c) {
      int64_t at = row * 64 + c;
      bool isNaN = isPoisoned || (row == 2 * 6 + 5 && c == 9);
      ASSERT_TRUE(isNaN ? std::isnan(got.o[at]) : got.o[at] == expected.o[at]) << row << ", " << c;
    }
  }
}

/// Attention over three ranges of the keys, of which one is empty, in f32 or f64, is merged to
/// attention over all of them.
void checkRangesOfKeys(Type type) {
  AttentionProblem problem = makeProblem(2, 4, 2, 9, 150, 64, 40);
  AttentionInputs inputs = randomInputs(problem, type, /*seed=*/3);
  const int64_t starts[] = {0, 97, 97, 150};
  constexpr int64_t ranges = 3;
  int64_t rows = problem.B * problem.Sq;
  Parts parts(rows, ranges, problem.Hq, problem.DV, type, 1);
  for (int64_t n = 0; n < ranges; ++n) {
    AttentionProblem part = problem;
    part.Skv = starts[n + 1] - starts[n];
    AttentionInputs own = inputs;
    for (auto [to, from, columns] :
         {std::tuple(&own.k, &inputs.k, problem.D), {&own.v, &inputs.v, problem.DV}}) {
      to->clear();
      for (int64_t head = 0; head < problem.B * problem.Hkv; ++head)
        to->insert(to->end(), from->begin() + (head * problem.Skv + starts[n]) * columns,
                   from->begin() + (head * problem.Skv + starts[n + 1]) * columns);
    }
    ForwardResult result = runForward(part, type, own);
    for (int64_t b = 0; b < problem.B; ++b)
      for (int64_t h = 0; h < problem.Hq; ++h)
        for (int64_t i = 0; i < problem.Sq; ++i) {
          int64_t from = (b * problem.Hq + h) * problem.Sq + i,
                  to = parts.at(b * problem.Sq + i, n, h);
          parts.lse[to] = result.lse[from];
          std::copy_n(result.o.begin() + from * problem.DV, problem.DV,
                      parts.o.begin() + to * problem.DV);
        }
  }
  Merged merged = runMerge(parts, type, {});
  ForwardResult whole;
  whole.o.resize(merged.o.size());
  whole.lse.resize(merged.lse.size());
  for (int64_t b = 0; b < problem.B; ++b)
    for (int64_t h = 0; h < problem.Hq; ++h)
      for (int64_t i = 0; i < problem.Sq; ++i) {
        int64_t to = (b * problem.Hq + h) * problem.Sq + i,
                from = (b * problem.Sq + i) * problem.Hq + h;
        whole.lse[to] = merged.lse[from];
        std::copy_n(merged.o.begin() + from * problem.DV, problem.DV,
                    whole.o.begin() + to * problem.DV);
      }
  MatrixCase matrixCase("attention_merge", "attention", type);
  expectForward(ForwardOracle(problem, inputs, type), whole, describe(problem, type));
}

TEST(MergedAttention, F32) { checkRangesOfKeys(Type::F32); }
TEST(MergedAttention, F64) { checkRangesOfKeys(Type::F64); }

} // namespace
