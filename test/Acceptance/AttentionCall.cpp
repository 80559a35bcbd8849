// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls of the attention kernels.

#include "test/Acceptance/AttentionCall.h"

#include "test/Reference/Cases.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>

namespace tilewright::acceptance {

using namespace reference;

namespace {

const char *causalName(Causal causal) {
  switch (causal) {
  case Causal::None:
    return "none";
  case Causal::TopLeft:
    return "top_left";
  case Causal::BottomRight:
    return "bottom_right";
  }
  return "none";
}

Layout layoutOf(const CallOptions &options, const std::string &name) {
  auto found = options.layouts.find(name);
  return found == options.layouts.end() ? Layout() : found->second;
}

/// The element type of an array of T; F64 in a run with all floats in f64.
ElementType typeIn(const CallOptions &options, ElementType type) {
  return options.run.f64 ? ElementType::F64 : type;
}

using Extents = std::vector<int64_t>;

Extents shapeOfRows(const AttentionProblem &p) { return {p.B, p.Hq, p.Sq}; }
Extents shapeOfQ(const AttentionProblem &p) { return {p.B, p.Hq, p.Sq, p.D}; }
Extents shapeOfO(const AttentionProblem &p) { return {p.B, p.Hq, p.Sq, p.DV}; }
Extents shapeOfK(const AttentionProblem &p) { return {p.B, p.Hkv, p.Skv, p.D}; }
Extents shapeOfV(const AttentionProblem &p) { return {p.B, p.Hkv, p.Skv, p.DV}; }

/// The layout of the kernel, for an array of the batch.
Extents shapeIn(const CallOptions &options, Extents shape) {
  if (options.isPacked) {
    shape[2] *= shape[0];
    shape[0] = 1;
  }
  return shape;
}

void bindArray(KernelCall &call, const char *name, ElementType type, const Extents &shape,
               const std::vector<double> &values, const CallOptions &options) {
  call.input(name, type, shapeIn(options, shape),
             options.isPacked ? swapOuter(values, shape[0], shape[1]) : values,
             layoutOf(options, name));
}

void bindOutput(KernelCall &call, const char *name, ElementType type, const Extents &shape,
                const CallOptions &options) {
  call.output(name, type, shapeIn(options, shape), layoutOf(options, name));
}

Params paramsOf(const AttentionProblem &problem, Type type, const CallOptions &options) {
  Params params = attentionParams(problem, type);
  params.insert(params.end(), options.params.begin(), options.params.end());
  if (options.isPacked)
    params.emplace_back("PACKED", "true");
  return params;
}

} // namespace

bool usesWindow(const AttentionProblem &problem) {
  return problem.window.left >= 0 || problem.window.right >= 0;
}

std::vector<double> swapOuter(const std::vector<double> &values, int64_t n0, int64_t n1) {
  std::vector<double> result(values.size());
  size_t inner = n0 * n1 != 0 ? values.size() / static_cast<size_t>(n0 * n1) : 0;
  for (int64_t i = 0; i < n0; ++i)
    for (int64_t j = 0; j < n1; ++j)
      std::copy_n(values.begin() + (i * n1 + j) * inner, inner,
                  result.begin() + (j * n0 + i) * inner);
  return result;
}

void unpack(const AttentionProblem &problem, ForwardResult &result) {
  for (std::vector<double> *values : {&result.o, &result.lse})
    *values = swapOuter(*values, problem.Hq, problem.B);
}

void unpack(const AttentionProblem &problem, BackwardResult &result) {
  result.dQ = swapOuter(result.dQ, problem.Hq, problem.B);
  result.dK = swapOuter(result.dK, problem.Hkv, problem.B);
  result.dV = swapOuter(result.dV, problem.Hkv, problem.B);
}

Params attentionParams(const AttentionProblem &problem, Type type, bool hasWindow) {
  Params params = {{"D", std::to_string(problem.D)},
                   {"DV", std::to_string(problem.DV)},
                   {"T", typeName(type)},
                   {"CAUSAL", causalName(problem.causal)}};
  if (hasWindow)
    params.emplace_back("WINDOW", usesWindow(problem) ? "true" : "false");
  return params;
}

void bindInputs(KernelCall &call, const AttentionProblem &problem, Type type,
                const AttentionInputs &inputs, const CallOptions &options, bool hasWindow) {
  ElementType element = typeIn(options, elementType(type));
  bindArray(call, "q", element, shapeOfQ(problem), inputs.q, options);
  bindArray(call, "k", element, shapeOfK(problem), inputs.k, options);
  bindArray(call, "v", element, shapeOfV(problem), inputs.v, options);
  if (options.isPacked) {
    std::vector<int64_t> queries, keys;
    for (int64_t b = 0; b <= problem.B; ++b) {
      queries.push_back(b * problem.Sq);
      keys.push_back(b * problem.Skv);
    }
    call.integers("cu_seqlens_q", {problem.B + 1}, queries);
    call.integers("cu_seqlens_k", {problem.B + 1}, keys);
  }
  call.scalar("scale", problem.scale);
  if (hasWindow) {
    call.integer("window_left", problem.window.left);
    call.integer("window_right", problem.window.right);
  }
}

void bindForwardOutputs(KernelCall &call, const AttentionProblem &problem, Type type,
                        const CallOptions &options) {
  bindOutput(call, "o", typeIn(options, elementType(type)), shapeOfO(problem), options);
  if (options.withLse)
    bindOutput(call, "lse", typeIn(options, accumulatorType(type)), shapeOfRows(problem), options);
}

void bindBackward(KernelCall &call, const AttentionProblem &problem, Type type,
                  const AttentionInputs &inputs, const ForwardResult &saved,
                  const CallOptions &options) {
  ElementType element = typeIn(options, elementType(type));
  ElementType acc = typeIn(options, accumulatorType(type));
  bindArray(call, "o", element, shapeOfO(problem), saved.o, options);
  bindArray(call, "do", element, shapeOfO(problem), inputs.dO, options);
  bindArray(call, "lse", acc, shapeOfRows(problem), saved.lse, options);
  if (!inputs.dLse.empty())
    bindArray(call, "dlse", acc, shapeOfRows(problem), inputs.dLse, options);
  bindOutput(call, "dq", element, shapeOfQ(problem), options);
  bindOutput(call, "dk", element, shapeOfK(problem), options);
  bindOutput(call, "dv", element, shapeOfV(problem), options);
}

ForwardResult readForward(const KernelCall &call, const CallOptions &options) {
  ForwardResult result;
  result.o = call.read("o");
  if (options.withLse)
    result.lse = call.read("lse");
  return result;
}

BackwardResult readBackward(const KernelCall &call) {
  BackwardResult result;
  result.dQ = call.read("dq");
  result.dK = call.read("dk");
  result.dV = call.read("dv");
  return result;
}

ForwardResult runForward(const AttentionProblem &problem, Type type, const AttentionInputs &inputs,
                         const CallOptions &options) {
  KernelCall call("attention_forward", paramsOf(problem, type, options), options.with);
  if (options.golden) {
    EXPECT_TRUE(call.useGolden()) << describe(problem, type);
  }
  bindInputs(call, problem, type, inputs, options);
  bindForwardOutputs(call, problem, type, options);
  if (options.bind)
    options.bind(call);
  call.run(options.run);
  ForwardResult result = readForward(call, options);
  if (options.isPacked)
    unpack(problem, result);
  return result;
}

BackwardResult runBackward(const AttentionProblem &problem, Type type,
                           const AttentionInputs &inputs, const ForwardResult &saved,
                           const CallOptions &options) {
  KernelCall call("attention_backward", paramsOf(problem, type, options), options.with);
  bindInputs(call, problem, type, inputs, options);
  bindBackward(call, problem, type, inputs, saved, options);
  if (options.bind)
    options.bind(call);
  call.run(options.run);
  BackwardResult result = readBackward(call);
  if (options.isPacked)
    unpack(problem, result);
  return result;
}

void expectForward(const ForwardOracle &oracle, const ForwardResult &result,
                   const std::string &context) {
  expectOk(oracle.checkO(result.o), context);
  if (!result.lse.empty())
    expectOk(oracle.checkLse(result.lse), context);
}

void expectBackward(const BackwardOracle &oracle, const BackwardResult &result,
                    const std::string &context) {
  expectOk(oracle.checkDQ(result.dQ), context);
  expectOk(oracle.checkDK(result.dK), context);
  expectOk(oracle.checkDV(result.dV), context);
}

std::string describe(const AttentionProblem &p, Type type) {
  auto text = [](int64_t value) { return std::to_string(value); };
  return std::string(typeName(type)) + " " + text(p.Sq) + "x" + text(p.Skv) + " b" + text(p.B) +
         " h" + text(p.Hq) + "/" + text(p.Hkv) + " d" + text(p.D) + " dv" + text(p.DV) + " " +
         maskName(p);
}

AttentionProblem makeProblem(int64_t B, int64_t Hq, int64_t Hkv, int64_t Sq, int64_t Skv, int64_t D,
                             int64_t DV, Causal causal, Window window) {
  AttentionProblem problem;
  problem.B = B;
  problem.Hq = Hq;
  problem.Hkv = Hkv;
  problem.Sq = Sq;
  problem.Skv = Skv;
  problem.D = D;
  problem.DV = DV;
  problem.scale = defaultScale(D);
  problem.causal = causal;
  problem.window = window;
  return problem;
}

std::vector<AttentionProblem> emptyProblems() {
  return {makeProblem(0, 2, 2, 33, 40, 16, 16), makeProblem(2, 0, 0, 33, 40, 16, 16),
          makeProblem(2, 2, 2, 0, 40, 16, 16), makeProblem(2, 2, 2, 33, 0, 16, 16),
          makeProblem(2, 2, 2, 0, 0, 16, 16)};
}

void expectNaNStaysInItsRow(const AttentionProblem &problem, Type type,
                            const std::function<ForwardResult(const AttentionInputs &)> &run) {
  AttentionInputs clean = randomInputs(problem, type, 4), poisoned = clean;
  int64_t rows = problem.B * problem.Hq * problem.Sq;
  auto isPoisoned = [&](int64_t row) { return row == 0 || row == rows / 2 || row == rows - 1; };
  for (int64_t row = 0; row < rows; ++row)
    if (isPoisoned(row))
      poisoned.q[row * problem.D + problem.D / 2] = std::nan("");
  ForwardResult a = run(clean), b = run(poisoned);
  for (int64_t row = 0; row < rows; ++row) {
    EXPECT_TRUE(isPoisoned(row) ? std::isnan(b.lse[row]) : a.lse[row] == b.lse[row])
        << "lse of row " << row << " of " << rows;
    for (int64_t d = 0; d < problem.DV; ++d) {
      int64_t at = row * problem.DV + d;
      ASSERT_TRUE(isPoisoned(row) ? std::isnan(b.o[at]) : a.o[at] == b.o[at])
          << "o of row " << row << " of " << rows;
    }
  }
}

} // namespace tilewright::acceptance
