// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The accuracy rule accepts attention computed as kernels compute it, in every type, and rejects it
// with small faults.

#include "test/Reference/Accuracy.h"
#include "test/Reference/BlockwiseKernel.h"
#include "test/Reference/Cases.h"
#include "test/Reference/Layers.h"
#include "test/Reference/Modifiers.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace tilewright::reference;

namespace {

const Type allTypes[] = {Type::F64, Type::F32, Type::F16, Type::BF16};

struct Reports {
  AccuracyReport o, lse, dQ, dK, dV;

  Reports(const AttentionProblem &problem, Type type, uint64_t seed, const Faults &faults = {}) {
    AttentionInputs inputs = randomInputs(problem, type, seed);
    ForwardOracle forwardOracle(problem, inputs, type);
    BackwardOracle backwardOracle(problem, inputs, type);
    ForwardResult out = blockwiseForward(problem, inputs, type, faults);
    BackwardResult gradients = blockwiseBackward(problem, inputs, out, type, faults);
    o = forwardOracle.checkO(out.o);
    lse = forwardOracle.checkLse(out.lse);
    dQ = backwardOracle.checkDQ(gradients.dQ);
    dK = backwardOracle.checkDK(gradients.dK);
    dV = backwardOracle.checkDV(gradients.dV);
  }

  void expectAccepted(const std::string &name) const {
    for (const AccuracyReport *report : {&o, &lse, &dQ, &dK, &dV})
      EXPECT_TRUE(*report) << name << ": " << *report;
  }
};

TEST(Accuracy, AcceptsKernelsOfEveryTypeAndMask) {
  int seed = 0;
  for (Shape shape : {Shape{64, 128}, {113, 203}, {239, 1}, {150, 70}})
    for (const std::string &mask : maskNames())
      for (Type type : allTypes) {
        int64_t dim = headDims()[seed % 2];
        AttentionCase c = makeCase(type, shape, dim, mask, groupNames()[seed % 3]);
        c.problem.B = 1;
        Reports(c.problem, type, ++seed).expectAccepted(c.name);
      }
}

// With few errors, one sample is not representative: the rule must rely on the expected roundoff.
TEST(Accuracy, AcceptsKernelsWithFewRowsOrKeys) {
  uint64_t seed = 100;
  for (Shape shape : {Shape{1, 1}, {1, 2}, {1, 64}, {3, 5}, {5, 1}, {130, 3}})
    for (const char *mask : {"none", "bottom_right", "diagonal"})
      for (Type type : allTypes)
        for (int repeat = 0; repeat < 3; ++repeat) {
          AttentionCase c = makeCase(type, shape, 64, mask, groupNames()[repeat]);
          Reports(c.problem, type, ++seed).expectAccepted(c.name);
        }
}

class FaultyKernels : public testing::TestWithParam<Type> {
protected:
  AttentionProblem problem = makeCase(GetParam(), {100, 150}, 64, "bottom_right", "gqa").problem;

  Reports run(const Faults &faults) {
    problem.B = 1;
    return Reports(problem, GetParam(), 7, faults);
  }
};

TEST_P(FaultyKernels, OneKeyForgotten) {
  Faults faults;
  faults.forgottenKey = 20;
  Reports reports = run(faults);
  EXPECT_FALSE(reports.o) << reports.o;
  EXPECT_FALSE(reports.lse) << reports.lse;
  EXPECT_FALSE(reports.dQ) << reports.dQ;
  EXPECT_FALSE(reports.dK) << reports.dK;
  EXPECT_FALSE(reports.dV) << reports.dV;
}

TEST_P(FaultyKernels, ScaleOffByOnePercent) {
  Faults faults;
  faults.scaleFactor = 1.01;
  Reports reports = run(faults);
  EXPECT_FALSE(reports.o) << reports.o;
  EXPECT_FALSE(reports.lse) << reports.lse;
  EXPECT_FALSE(reports.dQ) << reports.dQ;
  EXPECT_FALSE(reports.dK) << reports.dK;
  EXPECT_FALSE(reports.dV) << reports.dV;
}

TEST_P(FaultyKernels, RescalingForgotten) {
  Faults faults;
  faults.forgetsRescale = true;
  Reports reports = run(faults);
  EXPECT_FALSE(reports.o) << reports.o;
  EXPECT_FALSE(reports.lse) << reports.lse;
}

TEST_P(FaultyKernels, DeltaForgotten) {
  Faults faults;
  faults.forgetsDelta = true;
  Reports reports = run(faults);
  EXPECT_TRUE(reports.o) << reports.o;
  EXPECT_FALSE(reports.dQ) << reports.dQ;
  EXPECT_FALSE(reports.dK) << reports.dK;
  EXPECT_TRUE(reports.dV) << reports.dV;
}

std::string nameOfType(const testing::TestParamInfo<Type> &info) { return typeName(info.param); }

INSTANTIATE_TEST_SUITE_P(Accuracy, FaultyKernels, testing::ValuesIn(allTypes), nameOfType);

// f32 must be f32: products in f16 (the precision of tf32) or bf16 are not accurate enough.
TEST(Accuracy, RejectsNarrowProductsInF32) {
  for (Type narrow : {Type::F16, Type::BF16}) {
    Faults faults;
    faults.products = narrow;
    AttentionProblem problem = makeCase(Type::F32, {100, 300}, 64, "none", "mha").problem;
    Reports reports(problem, Type::F32, 7, faults);
    EXPECT_FALSE(reports.o) << reports.o;
    EXPECT_FALSE(reports.dQ) << reports.dQ;
    EXPECT_FALSE(reports.dK) << reports.dK;
    EXPECT_FALSE(reports.dV) << reports.dV;
  }
}

// f64 must be f64.
TEST(Accuracy, RejectsFloatArithmeticInF64) {
  AttentionProblem problem = makeCase(Type::F64, {20, 30}, 64, "none", "mha").problem;
  AttentionInputs inputs = randomInputs(problem, Type::F32, 7);
  ForwardOracle oracle(problem, inputs, Type::F64);
  EXPECT_TRUE(oracle.checkO(blockwiseForward(problem, inputs, Type::F64).o));
  EXPECT_FALSE(oracle.checkO(blockwiseForward(problem, inputs, Type::F32).o));
}

TEST(Accuracy, TheRuleByHand) {
  // One tile in f16: lowp errors 0.01 and 0; slack is that of 1 and 2 (f16: some 1e-3).
  TileShape shape{1, 1, 2};
  std::vector<double> ref = {1, 2}, lowp = {1.01, 2};
  double slack = 2 * std::max(perturbation(Type::F16, 1), perturbation(Type::F16, 2));
  EXPECT_LT(slack, 3e-3);
  AccuracyReport report = checkAccuracy("x", Type::F16, shape, {1, 2.007}, ref, lowp);
  EXPECT_TRUE(report) << report;
  EXPECT_NEAR(report.maxAllowed, 0.02 + slack, 1e-12);
  EXPECT_NEAR(report.meanAllowed, 0.0075, 1e-12);
  EXPECT_NEAR(report.maxError, 0.007, 1e-12);
  EXPECT_EQ(report.column, 1);
  // The mean, then the maximum.
  EXPECT_FALSE(checkAccuracy("x", Type::F16, shape, {1.008, 2.008}, ref, lowp));
  EXPECT_TRUE(checkAccuracy("x", Type::F16, shape, {1.007, 2.007}, ref, lowp));
  lowp[1] = 2.01;
  EXPECT_TRUE(checkAccuracy("x", Type::F16, shape, {1.0199 + slack, 2}, ref, lowp));
  EXPECT_FALSE(checkAccuracy("x", Type::F16, shape, {1.0201 + slack, 2}, ref, lowp));
}

TEST(Accuracy, TilesAreJudgedOneByOne) {
  // Two heads of 130 rows: four tiles. A large lowp error in one does not affect the others.
  TileShape shape{2, 130, 1};
  std::vector<double> ref(260, 1.0), lowp(260, 1.0), out(260, 1.0);
  lowp[5] = 2.0;
  out[130 + 129] = 1.1;
  AccuracyReport report = checkAccuracy("x", Type::F32, shape, out, ref, lowp);
  EXPECT_FALSE(report);
  EXPECT_EQ(report.head, 1);
  EXPECT_EQ(report.row, 129);
  EXPECT_NE(report.message.find("1 of 4 tiles"), std::string::npos) << report;
  out[259] = 1.0;
  out[100] = 1.1; // the tile of the large lowp error
  EXPECT_TRUE(checkAccuracy("x", Type::F32, shape, out, ref, lowp));
}

TEST(Accuracy, SpecialValuesMustMatch) {
  double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  TileShape shape{1, 1, 1};
  auto check = [&](Type type, double out, double ref) {
    return checkAccuracy("x", type, shape, {out}, {ref}, {ref}).ok;
  };
  EXPECT_TRUE(check(Type::F32, nan, nan));
  EXPECT_FALSE(check(Type::F32, 0.0, nan));
  EXPECT_FALSE(check(Type::F32, nan, 0.0));
  EXPECT_TRUE(check(Type::F32, inf, inf));
  EXPECT_FALSE(check(Type::F32, -inf, inf));
  EXPECT_FALSE(check(Type::F32, inf, 1e30));
  EXPECT_TRUE(check(Type::F16, inf, 1e6)); // overflow of the type
  EXPECT_TRUE(check(Type::F16, 65504, 1e6));
  EXPECT_FALSE(check(Type::F16, 60000, 1e6));
  EXPECT_FALSE(check(Type::F16, -inf, 1e6));
  EXPECT_FALSE(checkAccuracy("x", Type::F16, shape, {1}, {1}, {inf}));
  EXPECT_FALSE(checkAccuracy("x", Type::F16, shape, {1, 2}, {1}, {1})); // sizes
  EXPECT_TRUE(checkAccuracy("x", Type::F16, {0, 5, 5}, {}, {}, {}));
}

TEST(Accuracy, StatisticsByHand) {
  double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(checkStatistic("lse", 1, 3, {-inf, 3.0003, 0.00009}, {-inf, 3, 0}));
  EXPECT_FALSE(checkStatistic("lse", 1, 3, {-inf, 3.0005, 0}, {-inf, 3, 0}));
  EXPECT_FALSE(checkStatistic("lse", 1, 1, {-1e30}, {-inf}));
  EXPECT_FALSE(checkStatistic("lse", 1, 1, {-inf}, {-1e30}));
  EXPECT_FALSE(checkStatistic("lse", 1, 1, {std::nan("")}, {0}));
  EXPECT_FALSE(checkStatistic("lse", 1, 2, {0}, {0, 0}));
  AccuracyReport report = checkStatistic("lse", 2, 2, {0, 0, 0, 1}, {0, 0, 0, 0});
  EXPECT_EQ(report.head, 1);
  EXPECT_EQ(report.row, 1);
}

TEST(Accuracy, DeltaComesFromTheGivenO) {
  AttentionProblem problem = makeCase(Type::F16, {3, 5}, 64, "none", "mha").problem;
  AttentionInputs inputs = randomInputs(problem, Type::F16, 7);
  ForwardResult out = blockwiseForward(problem, inputs, Type::F16);
  BackwardResult gradients = blockwiseBackward(problem, inputs, out, Type::F16);
  EXPECT_TRUE(checkStatistic("delta", problem.B * problem.Hq, problem.Sq, gradients.delta,
                             deltaOf(problem, out.o, inputs.dO, inputs.dLse)));
  EXPECT_FALSE(checkStatistic("delta", problem.B * problem.Hq, problem.Sq, gradients.delta,
                              deltaOf(problem, out.o, inputs.dO, {})));
}

// The other oracles: f32 with another order of sums is accepted, a fault is not.
TEST(Accuracy, Layers) {
  MatmulProblem product;
  product.M = 150;
  product.N = 40;
  product.K = 70;
  product.alpha = 0.5;
  product.activation = Activation::GeluTanh;
  auto a = normals(150 * 70, 1, Type::F32), b = normals(70 * 40, 2, Type::F32);
  auto bias = normals(40, 3, Type::F32), x = normals(150 * 70, 4, Type::F32);
  RoundoffModel model{RoundoffModel::All, Type::F32, Type::F32};
  Precision lowp = Precision::lowp(Type::F32), reversed = lowp;
  reversed.order = SumOrder::Descending;

  auto check = [&](const char *name, int64_t columns, const LayerResult &ref,
                   const LayerResult &low, const LayerResult &out) {
    return checkAccuracy(name, Type::F32, {1, 150, columns}, out.values, ref.values, low.values,
                         ref.roundoff);
  };
  LayerResult ref = matmul(product, a, b, bias, {}, model);
  LayerResult low = matmul(product, a, b, bias, lowp);
  AccuracyReport report = check("matmul", 40, ref, low, matmul(product, a, b, bias, reversed));
  EXPECT_TRUE(report) << report;
  product.alpha = 0.50001;
  EXPECT_FALSE(check("matmul", 40, ref, low, matmul(product, a, b, bias, lowp)));

  GatedUnitProblem gated;
  gated.M = 150;
  gated.N = 40;
  gated.K = 70;
  auto up = normals(70 * 40, 5, Type::F32);
  ref = gatedUnit(gated, a, b, up, {}, model);
  low = gatedUnit(gated, a, b, up, lowp);
  report = check("gated unit", 40, ref, low, gatedUnit(gated, a, b, up, reversed));
  EXPECT_TRUE(report) << report;
  EXPECT_FALSE(check("gated unit", 40, ref, low, gatedUnit(gated, a, up, b, lowp)));
  up[20] *= 1.001;
  EXPECT_FALSE(check("gated unit", 40, ref, low, gatedUnit(gated, a, b, up, lowp)));

  ref = rowSoftmax(150, 70, x, {}, model);
  low = rowSoftmax(150, 70, x, lowp);
  report = check("softmax", 70, ref, low, rowSoftmax(150, 70, x, reversed));
  EXPECT_TRUE(report) << report;
  x[20] += 1e-4;
  EXPECT_FALSE(check("softmax", 70, ref, low, rowSoftmax(150, 70, x, lowp)));

  auto norm = [&](double epsilon, const Precision &precision, const RoundoffModel &roundoff) {
    return layerNorm(150, 70, epsilon, x, {}, {}, precision, roundoff).y;
  };
  ref = norm(1e-5, {}, model);
  low = norm(1e-5, lowp, {});
  report = check("layernorm", 70, ref, low, norm(1e-5, reversed, {}));
  EXPECT_TRUE(report) << report;
  EXPECT_FALSE(check("layernorm", 70, ref, low, norm(2e-5, lowp, {})));
}

} // namespace
