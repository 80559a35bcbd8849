// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels other than attention: matmul with a fused epilogue, a gated linear unit, row softmax,
// layer norm.

#include "test/Reference/Layers.h"
#include "test/Acceptance/AttentionCall.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

struct MatmulTypes {
  Type operands, result;
};

class Matmul : public ::testing::TestWithParam<MatmulTypes> {};
INSTANTIATE_TEST_SUITE_P(Type, Matmul,
                         ::testing::ValuesIn(std::vector<MatmulTypes>{{Type::F32, Type::F32},
                                                                      {Type::F16, Type::F16},
                                                                      {Type::BF16, Type::BF16},
                                                                      {Type::F64, Type::F64},
                                                                      {Type::BF16, Type::F32},
                                                                      {Type::F32, Type::F16},
                                                                      {Type::E4M3, Type::BF16},
                                                                      {Type::E5M2, Type::F32}}),
                         [](const auto &info) {
                           return std::string(typeName(info.param.operands)) + "_" +
                                  typeName(info.param.result);
                         });

const std::pair<const char *, Activation> activations[] = {{"none", Activation::Identity},
                                                           {"relu", Activation::Relu},
                                                           {"gelu_tanh", Activation::GeluTanh},
                                                           {"silu", Activation::Silu},
                                                           {"sigmoid", Activation::Sigmoid}};

struct Sizes {
  int64_t M, N, K;
};

/// A [rows, columns] array whose memory is its transpose.
Layout transposedLayout(int64_t rows) {
  Layout layout;
  layout.strides = {1, rows};
  return layout;
}

void checkMatmul(const MatmulProblem &p, MatmulTypes types, const char *activation, bool withBias,
                 bool isTransposed, Params blocks, uint64_t seed, const char *sums = "auto") {
  auto [type, output] = types;
  double deviation = 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(p.K, 1)));
  std::vector<double> a = normals(p.M * p.K, 3 * seed, type);
  std::vector<double> b =
      normals(p.K * p.N, 3 * seed + 1, type, type == Type::E4M3 ? 1.0 : deviation);
  std::vector<double> bias = withBias ? normals(p.N, 3 * seed + 2, output) : std::vector<double>();

  Params params = {{"T", typeName(type)}, {"TC", typeName(output)}, {"ACTIVATION", activation}};
  params.insert(params.end(), blocks.begin(), blocks.end());
  KernelCall call("matmul", params);
  call.input("a", elementType(type), {p.M, p.K}, a,
             isTransposed ? transposedLayout(p.M) : Layout());
  call.input("b", elementType(type), {p.K, p.N}, b,
             isTransposed ? transposedLayout(p.K) : Layout());
  if (withBias)
    call.input("bias", elementType(output), {p.N}, bias);
  call.output("c", elementType(output), {p.M, p.N});
  call.scalar("alpha", p.alpha);
  RunSettings settings;
  settings.sums = sums;
  call.runTwice(settings);

  LayerResult ref =
      matmul(p, a, b, bias, Precision::reference(), {RoundoffModel::All, output, output});
  LayerResult lowp = matmul(p, a, b, bias, Precision::lowp(output));
  expectOk(checkAccuracy("c", output, {1, p.M, p.N}, call.read("c"), ref.values, lowp.values,
                         ref.roundoff),
           std::to_string(p.M) + "x" + std::to_string(p.N) + "x" + std::to_string(p.K) + " " +
               activation);
}

TEST_P(Matmul, EveryEpilogue) {
  uint64_t seed = 1;
  for (auto [name, activation] : activations)
    for (bool withBias : {false, true})
      for (Sizes size : {Sizes{1, 1, 1}, {130, 70, 100}, {64, 200, 257}, {33, 5, 0}, {0, 4, 5}}) {
        MatrixCase matrixCase("matmul", name, GetParam().operands);
        MatmulProblem problem;
        problem.M = size.M;
        problem.N = size.N;
        problem.K = size.K;
        problem.alpha = seed % 3 == 0 ? -0.75 : 1.0;
        problem.activation = activation;
        Params blocks;
        if (seed % 2)
          blocks = {{"BLOCK_M", "32"}, {"BLOCK_N", "16"}, {"BLOCK_K", "32"}};
        checkMatmul(problem, GetParam(), name, withBias, seed % 3 == 1, blocks, seed);
        ++seed;
      }
}

/// Parts of K, more of them than iterations, too, whose sums are added.
TEST_P(Matmul, SharesOfK) {
  uint64_t seed = 101;
  for (const char *sums : {"shares=2", "shares=3", "shares=7"})
    for (Sizes size : {Sizes{1, 1, 1}, {60, 200, 257}, {130, 70, 300}, {33, 5, 0}, {0, 4, 5}}) {
      MatmulProblem problem;
      problem.M = size.M;
      problem.N = size.N;
      problem.K = size.K;
      problem.alpha = 0.5;
      problem.activation = Activation::Silu;
      checkMatmul(problem, GetParam(), "silu", /*withBias=*/true, seed % 2, {}, seed, sums);
      ++seed;
    }
}

class Swiglu : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Swiglu, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

/// The weights are stored as declared, or transposed.
void checkSwiglu(const GatedUnitProblem &p, Type type, const char *activation, bool isTurned,
                 Params blocks, uint64_t seed) {
  double deviation = 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(p.K, 1)));
  std::vector<double> x = normals(p.M * p.K, 3 * seed, type);
  std::vector<double> gate = normals(p.N * p.K, 3 * seed + 1, type, deviation);
  std::vector<double> up = normals(p.N * p.K, 3 * seed + 2, type, deviation);

  Params params = {{"T", typeName(type)},
                   {"ACTIVATION", activation},
                   {"TRANSPOSED", p.transposed ? "true" : "false"}};
  params.insert(params.end(), blocks.begin(), blocks.end());
  KernelCall call("swiglu", params);
  int64_t rows = p.transposed ? p.N : p.K, columns = p.transposed ? p.K : p.N;
  Layout layout = isTurned ? transposedLayout(rows) : Layout();
  call.input("x", elementType(type), {p.M, p.K}, x, isTurned ? transposedLayout(p.M) : Layout());
  call.input("w_gate", elementType(type), {rows, columns}, gate, layout);
  call.input("w_up", elementType(type), {rows, columns}, up, layout);
  call.output("y", elementType(type), {p.M, p.N});
  call.runTwice();

  LayerResult ref =
      gatedUnit(p, x, gate, up, Precision::reference(), {RoundoffModel::All, type, type});
  LayerResult lowp = gatedUnit(p, x, gate, up, Precision::lowp(type));
  expectOk(checkAccuracy("y", type, {1, p.M, p.N}, call.read("y"), ref.values, lowp.values,
                         ref.roundoff),
           std::to_string(p.M) + "x" + std::to_string(p.N) + "x" + std::to_string(p.K) + " " +
               activation);
}

TEST_P(Swiglu, EveryActivation) {
  uint64_t seed = 1;
  for (auto [name, activation] : activations)
    for (bool transposed : {false, true})
      for (Sizes size : {Sizes{1, 1, 1}, {130, 72, 104}, {64, 200, 257}, {33, 5, 0}, {0, 4, 5}}) {
        MatrixCase matrixCase("swiglu", name, GetParam());
        GatedUnitProblem problem;
        problem.M = size.M;
        problem.N = size.N;
        problem.K = size.K;
        problem.transposed = transposed;
        problem.activation = activation;
        Params blocks;
        if (seed % 2)
          blocks = {{"BLOCK_M", "32"}, {"BLOCK_N", "16"}, {"BLOCK_K", "32"}};
        checkSwiglu(problem, GetParam(), name, seed % 3 == 1, blocks, seed);
        ++seed;
      }
}

class Rows : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Rows, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(Rows, Softmax) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 1},
                               {7, 1000},
                               {130, 257},
                               {3, 32},
                               {0, 10},
                               {5, 0},
                               {64, 3000}})
    for (double scale : {1.0, 0.5, -2.0}) {
      std::vector<double> x = normals(rows * columns, seed++, type);
      if (rows > 2 && columns > 0) { // a row without keys, and a masked part
        std::fill_n(x.begin() + columns, columns,
                    (scale > 0 ? -1 : 1) * std::numeric_limits<double>::infinity());
        x[2 * columns] = x[columns];
      }
      MatrixCase matrixCase("row_softmax", "", type);
      KernelCall call("row_softmax", {{"T", typeName(type)}});
      call.input("x", elementType(type), {rows, columns}, x);
      call.output("y", elementType(type), {rows, columns});
      call.scalar("scale", scale);
      call.runTwice();
      std::vector<double> scaled = x;
      for (double &value : scaled)
        value *= scale;
      LayerResult ref = rowSoftmax(rows, columns, scaled, Precision::reference(),
                                   {RoundoffModel::All, type, type});
      LayerResult lowp = rowSoftmax(rows, columns, scaled, Precision::lowp(type));
      expectOk(checkAccuracy("y", type, {1, rows, columns}, call.read("y"), ref.values, lowp.values,
                             ref.roundoff),
               std::to_string(rows) + "x" + std::to_string(columns));
    }
}

TEST_P(Rows, LayerNorm) {
  Type type = GetParam();
  uint64_t seed = 1;
  constexpr double epsilon = 0x1p-17;
  for (int64_t columns : {1, 7, 64, 1000, 4096})
    for (int64_t rows : {0, 1, 37}) {
      for (int optional = 0; optional < 4; ++optional) {
        std::vector<double> x = normals(rows * columns, 3 * seed, type, 2.0);
        std::vector<double> weight, bias;
        if (optional & 1)
          weight = normals(columns, 3 * seed + 1, type);
        if (optional & 2)
          bias = normals(columns, 3 * seed + 2, type);
        ++seed;
        MatrixCase matrixCase("layer_norm", "", type);
        KernelCall call("layer_norm", {{"N", std::to_string(columns)}, {"T", typeName(type)}});
        call.input("x", elementType(type), {rows, columns}, x);
        if (!weight.empty())
          call.input("weight", elementType(type), {columns}, weight);
        if (!bias.empty())
          call.input("bias", elementType(type), {columns}, bias);
        call.output("y", elementType(type), {rows, columns});
        bool withStatistics = optional != 0;
        if (withStatistics) {
          call.output("mean", accumulatorType(type), {rows});
          call.output("rstd", accumulatorType(type), {rows});
        }
        call.scalar("eps", epsilon);
        call.runTwice();
        LayerNormResult ref = layerNorm(rows, columns, epsilon, x, weight, bias,
                                        Precision::reference(), {RoundoffModel::All, type, type});
        LayerNormResult lowp =
            layerNorm(rows, columns, epsilon, x, weight, bias, Precision::lowp(type));
        std::string context = std::to_string(rows) + "x" + std::to_string(columns);
        expectOk(checkAccuracy("y", type, {1, rows, columns}, call.read("y"), ref.y.values,
                               lowp.y.values, ref.y.roundoff),
                 context);
        if (withStatistics) {
          expectOk(checkStatistic("mean", 1, rows, call.read("mean"), ref.mean), context);
          expectOk(checkStatistic("rstd", 1, rows, call.read("rstd"), ref.rstd), context);
        }
      }
    }
}

/// Rows are independent of each other, also those of one tile.
TEST_P(Rows, NaNInARowStaysThere) {
  Type type = GetParam();
  constexpr int64_t rows = 11, columns = 70, poisoned = 5;
  std::vector<double> clean = normals(rows * columns, 3, type), withNaN = clean;
  withNaN[poisoned * columns + 31] = std::nan("");
  for (const char *file : {"row_softmax", "layer_norm"}) {
    bool isNorm = std::string(file) == "layer_norm";
    auto run = [&](const std::vector<double> &x) {
      Params params = {{"T", typeName(type)}};
      if (isNorm)
        params.emplace_back("N", std::to_string(columns));
      KernelCall call(file, params);
      call.input("x", elementType(type), {rows, columns}, x);
      call.output("y", elementType(type), {rows, columns});
      call.scalar(isNorm ? "eps" : "scale", isNorm ? 0x1p-17 : 1.0);
      call.run();
      return call.read("y");
    };
    std::vector<double> a = run(clean), b = run(withNaN);
    for (int64_t i = 0; i < rows * columns; ++i)
      ASSERT_TRUE(i / columns == poisoned ? std::isnan(b[i]) : a[i] == b[i]) << file << ", " << i;
  }
}

} // namespace
