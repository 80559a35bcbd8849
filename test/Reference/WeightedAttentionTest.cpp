// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle of tanh attention against its definition, and its gradients against central
// differences.

#include "test/Reference/WeightedAttention.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace tilewright::reference;

namespace {

AttentionProblem smallProblem() {
  AttentionProblem problem;
  problem.B = 2, problem.Hq = 4, problem.Hkv = 2, problem.Sq = 5, problem.Skv = 7;
  problem.D = 3, problem.DV = 4;
  problem.scale = 0.7;
  problem.causal = Causal::BottomRight;
  problem.window.left = 4;
  return problem;
}

TEST(WeightedAttention, IsItsDefinition) {
  AttentionProblem p = smallProblem();
  AttentionInputs in = randomInputs(p, Type::F64, 1);
  std::vector<double> o = tanhAttention(p, in).forward.o;
  for (int64_t b = 0; b < p.B; ++b)
    for (int64_t h = 0; h < p.Hq; ++h)
      for (int64_t i = 0; i < p.Sq; ++i)
        for (int64_t d = 0; d < p.DV; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < p.Skv; ++j) {
            int64_t key = (b * p.Hkv + h / 2) * p.Skv + j;
            double s = 0;
            for (int64_t c = 0; c < p.D; ++c)
              s += in.q[((b * p.Hq + h) * p.Sq + i) * p.D + c] * in.k[key * p.D + c];
            if (p.keeps(b, h, i, j))
              sum += std::tanh(p.scale * s) * in.v[key * p.DV + d];
          }
          EXPECT_NEAR(o[((b * p.Hq + h) * p.Sq + i) * p.DV + d], sum, 1e-13);
        }
}

TEST(WeightedAttention, GradientsAreCentralDifferences) {
  AttentionProblem p = smallProblem();
  AttentionInputs in = randomInputs(p, Type::F64, 2);
  BackwardResult result = tanhAttention(p, in).backward;
  auto value = [&] {
    std::vector<double> o = tanhAttention(p, in).forward.o;
    double sum = 0;
    for (size_t n = 0; n < o.size(); ++n)
      sum += o[n] * in.dO[n];
    return sum;
  };
  constexpr double step = 1e-6;
  for (auto [input, gradient] :
       {std::pair{&in.q, &result.dQ}, {&in.k, &result.dK}, {&in.v, &result.dV}})
    for (size_t n = 0; n < input->size(); ++n) {
      double &x = (*input)[n], given = x;
      x = given + step;
      double above = value();
      x = given - step;
      double below = value();
      x = given;
      ASSERT_NEAR((*gradient)[n], (above - below) / (2 * step), 1e-8) << n;
    }
}

TEST(WeightedAttention, LowpRoundsToTheType) {
  AttentionProblem p = smallProblem();
  for (Type type : {Type::F16, Type::BF16}) {
    AttentionInputs in = randomInputs(p, type, 3);
    WeightedResult low = tanhAttention(p, in, Precision::lowp(type)), ref = tanhAttention(p, in);
    double error = 0;
    for (size_t n = 0; n < low.backward.dK.size(); ++n) {
      ASSERT_EQ(low.backward.dK[n], roundTo(type, low.backward.dK[n]));
      error = std::max(error, std::fabs(low.backward.dK[n] - ref.backward.dK[n]));
    }
    EXPECT_GT(error, 0.0);
    EXPECT_LT(error, 64 * unitRoundoff(type));
  }
}

} // namespace
