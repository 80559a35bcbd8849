// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention without a softmax, and differential attention: forwards, and backwards whose blocks of
// keys add to dQ, in any order and in order.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/SumError.h"
#include "test/Reference/WeightedAttention.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

void bindScaleAndWindow(KernelCall &call, const AttentionProblem &problem) {
  call.scalar("scale", problem.scale);
  if (usesWindow(problem)) {
    call.integer("window_left", problem.window.left);
    call.integer("window_right", problem.window.right);
  }
}

std::vector<AttentionProblem> problems() {
  std::vector<AttentionProblem> result;
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
    result.push_back(makeProblem(2, 4, 2, 203, 170, 64, 64, causal));
    result.push_back(makeProblem(1, 2, 2, 130, 300, 40, 72, causal));
    result.push_back(makeProblem(1, 3, 1, 140, 129, 128, 128, causal));
  }
  result.push_back(makeProblem(1, 2, 1, 200, 260, 32, 32, Causal::BottomRight, {50, -1}));
  result.push_back(makeProblem(1, 2, 1, 200, 260, 24, 16, Causal::None, {31, 17}));
  return result;
}

/// ref with the expected roundoff, and lowp.
std::pair<WeightedResult, WeightedResult> tanhOracle(const AttentionProblem &problem,
                                                     const AttentionInputs &inputs, Type type) {
  RoundoffModel model = roundoffFor(problem, type);
  return {tanhAttention(problem, inputs, Precision::reference(), model),
          tanhAttention(problem, inputs, Precision::lowp(type))};
}

/// Additions in order are there on the CPU as well, if they are forced; a GPU has them in 16 bits.
bool canBeInOrder(Type type) { return !runsMapped() || type == Type::F16 || type == Type::BF16; }

Params withForm(Params params, bool isInOrder) {
  if (isInOrder)
    params.emplace_back("DETERMINISTIC", "true");
  return params;
}

/// Runs a backward, in order twice with the same bits.
void runForm(KernelCall &call, bool isInOrder, const std::vector<const char *> &results) {
  RunSettings settings;
  settings.sums = isInOrder ? "ordered" : "auto";
  ASSERT_TRUE(call.run(settings));
  if (!isInOrder)
    return;
  std::vector<std::vector<uint8_t>> bytes;
  for (const char *name : results)
    bytes.push_back(call.readBytes(name));
  settings.threads = 1;
  ASSERT_TRUE(call.run(settings));
  for (size_t n = 0; n < results.size(); ++n)
    EXPECT_EQ(call.readBytes(results[n]), bytes[n]) << results[n];
}

class Backwards : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Backwards, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(Backwards, TanhForward) {
  Type type = GetParam();
  for (const AttentionProblem &problem : problems()) {
    MatrixCase matrixCase("tanh_attention", maskName(problem), type);
    AttentionInputs inputs = randomInputs(problem, type, 11);
    KernelCall call("tanh_attention", attentionParams(problem, type));
    bindInputs(call, problem, type, inputs);
    call.output("o", elementType(type), {problem.B, problem.Hq, problem.Sq, problem.DV});
    ASSERT_TRUE(call.runTwice());
    auto [ref, lowp] = tanhOracle(problem, inputs, type);
    ForwardOracle oracle(problem, type, ref.forward, lowp.forward);
    expectOk(oracle.checkO(call.read("o")), describe(problem, type));
  }
}

TEST_P(Backwards, Tanh) {
  Type type = GetParam();
  for (const AttentionProblem &problem : problems())
    for (bool isInOrder : {false, true}) {
      if (isInOrder && !canBeInOrder(type))
        continue;
      MatrixCase matrixCase(isInOrder ? "tanh_attention_backward DETERMINISTIC"
                                      : "tanh_attention_backward",
                            maskName(problem), type);
      AttentionInputs inputs = randomInputs(problem, type, 12);
      KernelCall call("tanh_attention_backward",
                      withForm(attentionParams(problem, type), isInOrder));
      bindInputs(call, problem, type, inputs);
      ElementType element = elementType(type);
      call.input("do", element, {problem.B, problem.Hq, problem.Sq, problem.DV}, inputs.dO);
      call.output("dq", element, {problem.B, problem.Hq, problem.Sq, problem.D});
      call.output("dk", element, {problem.B, problem.Hkv, problem.Skv, problem.D});
      call.output("dv", element, {problem.B, problem.Hkv, problem.Skv, problem.DV});
      runForm(call, isInOrder, {"dq", "dk", "dv"});
      auto [ref, lowp] = tanhOracle(problem, inputs, type);
      expectBackward(BackwardOracle(problem, type, ref.backward, lowp.backward), readBackward(call),
                     describe(problem, type));
    }
}

/// Without batches, heads, queries or keys: results of the right shape, and zeros.
TEST_P(Backwards, TanhOfNothing) {
  Type type = GetParam();
  for (const AttentionProblem &problem : emptyProblems()) {
    MatrixCase matrixCase("tanh_attention_backward", "no pairs", type);
    AttentionInputs inputs = randomInputs(problem, type, 13);
    KernelCall call("tanh_attention_backward", attentionParams(problem, type));
    bindInputs(call, problem, type, inputs);
    ElementType element = elementType(type);
    call.input("do", element, {problem.B, problem.Hq, problem.Sq, problem.DV}, inputs.dO);
    call.output("dq", element, {problem.B, problem.Hq, problem.Sq, problem.D});
    call.output("dk", element, {problem.B, problem.Hkv, problem.Skv, problem.D});
    call.output("dv", element, {problem.B, problem.Hkv, problem.Skv, problem.DV});
    for (const char *sums : {"auto", "ordered"}) {
      if (runsMapped() && sums != std::string("auto"))
        continue;
      RunSettings settings;
      settings.sums = sums;
      ASSERT_TRUE(call.run(settings));
      for (const char *name : {"dq", "dk", "dv"})
        for (double value : call.read(name))
          EXPECT_EQ(value, 0.0) << name;
    }
  }
}

/// The heads of a second problem between those of the first.
std::vector<double> interleaved(const std::vector<double> &first, const std::vector<double> &second,
                                int64_t heads) {
  std::vector<double> result;
  int64_t size = heads ? static_cast<int64_t>(first.size()) / heads : 0;
  for (int64_t n = 0; n < heads; ++n)
    for (const std::vector<double> *each : {&first, &second})
      result.insert(result.end(), each->begin() + n * size, each->begin() + (n + 1) * size);
  return result;
}

/// Two softmaxes over one set of values: the second problem has its own queries and keys, and the
/// gradient of O times minus lambda. Lambda is between 0 and 1, so that O and lambda * O2, of which
/// the kernel makes the first delta, are rounded no more than O1, as the oracle assumes.
struct Differential {
  AttentionProblem problem;
  AttentionInputs first, second;
  std::vector<double> lambda, dO; // dO of both, which first.dO is

  Differential(const AttentionProblem &problem, Type type, uint64_t seed)
      : problem(problem), first(randomInputs(problem, type, seed)),
        second(randomInputs(problem, type, seed + 1)),
        lambda(normals(problem.Hq, seed + 2, Type::F32)), dO(first.dO) {
    for (double &value : lambda)
      value = roundTo(Type::F32, std::fabs(std::tanh(value)));
    first.dLse.clear();
    second.dLse.clear();
    second.v = first.v;
    int64_t size = problem.Sq * problem.DV;
    for (size_t n = 0; n < dO.size(); ++n)
      second.dO[n] = -lambda[n / size % problem.Hq] * dO[n];
  }

  /// O and O2 of a precision, rounded to the type.
  std::vector<double> combine(const ForwardResult &a, const ForwardResult &b, Type type) const {
    std::vector<double> o(a.o);
    int64_t size = problem.Sq * problem.DV;
    for (size_t n = 0; n < o.size(); ++n)
      o[n] = roundTo(type, o[n] - lambda[n / size % problem.Hq] * b.o[n]);
    return o;
  }
};

TEST_P(Backwards, DifferentialSaves) {
  Type type = GetParam();
  ElementType element = elementType(type);
  for (const AttentionProblem &problem : problems()) {
    MatrixCase matrixCase("differential_attention", maskName(problem), type);
    Differential both(problem, type, 20);
    Params params = attentionParams(problem, type);
    params.emplace_back("SAVE", "true");
    KernelCall call("differential_attention", params);
    std::vector<int64_t> q = {problem.B, problem.Hq, problem.Sq, problem.D},
                         k = {problem.B, problem.Hkv, problem.Skv, problem.D}, o = q;
    o[3] = problem.DV;
    call.input("q1", element, q, both.first.q);
    call.input("q2", element, q, both.second.q);
    call.input("k1", element, k, both.first.k);
    call.input("k2", element, k, both.second.k);
    call.input("v", element, {k[0], k[1], k[2], problem.DV}, both.first.v);
    call.input("lambda", ElementType::F32, {problem.Hq}, both.lambda);
    bindScaleAndWindow(call, problem);
    call.output("o", element, o);
    call.output("o2", element, o);
    call.output("lse", accumulatorType(type), {problem.B, 2 * problem.Hq, problem.Sq});
    ASSERT_TRUE(call.runTwice());
    ForwardOracle of1(problem, both.first, type), of2(problem, both.second, type);
    expectOk(of2.checkO(call.read("o2")), describe(problem, type));
    expectOk(checkStatistic("lse", 2 * problem.B * problem.Hq, problem.Sq, call.read("lse"),
                            interleaved(of1.ref.lse, of2.ref.lse, problem.B * problem.Hq)),
             describe(problem, type));
    ForwardResult ref, lowp;
    ref.o = both.combine(of1.ref, of2.ref, Type::F64);
    for (size_t n = 0; n < ref.o.size(); ++n)
      ref.roundoffO.push_back(
          std::hypot(of1.ref.roundoffO[n], both.lambda[n / (problem.Sq * problem.DV) % problem.Hq] *
                                               of2.ref.roundoffO[n]));
    lowp.o = both.combine(of1.lowp, of2.lowp, type);
    expectOk(ForwardOracle(problem, type, ref, lowp).checkO(call.read("o")),
             describe(problem, type));
  }
}

/// The gradient of lambda by the accuracy rule. It has the type of lambda, f32, in a kernel in f64
/// as well: a sum of one term for each row, delta2, which is rounded to f32. In other kernels this
/// is a sum of products in f32, with an O2 that is rounded to the type. The sum of rows has an
/// addition for each, in any order, or is exact.
AccuracyReport checkDLambda(const Differential &both, const ForwardResult &o2, Type type,
                            bool isExact, const std::vector<double> &dLambda) {
  const AttentionProblem &problem = both.problem;
  const RoundoffModel model{RoundoffModel::All, type, Type::F32};
  const double ofO2 = squareOf(model.narrowing(type)), ofProducts = type == Type::F64 ? 0.0 : 1.0;
  std::vector<double> ref, lowp, roundoff;
  for (int64_t h = 0; h < problem.Hq; ++h) {
    double sum = 0, exact = 0, terms = 0, errors = 0;
    float narrow = 0;
    for (int64_t b = 0; b < problem.B; ++b)
      for (int64_t i = 0; i < problem.Sq; ++i) {
        double delta = 0, squares = 0, wide = 0;
        float ofRow = 0;
        for (int64_t d = 0; d < problem.DV; ++d) {
          int64_t at = ((b * problem.Hq + h) * problem.Sq + i) * problem.DV + d;
          double term = both.dO[at] * o2.o[at];
          delta += term;
          squares += squareOf(term);
          wide += both.dO[at] * roundTo(type, o2.o[at]);
          ofRow += static_cast<float>(both.dO[at] * roundTo(type, o2.o[at]));
        }
        if (type == Type::F64)
          ofRow = static_cast<float>(wide);
        sum -= delta;
        terms += squareOf(delta);
        errors += (ofO2 + ofProducts) * squares + squareOf(delta);
        narrow -= ofRow;
        exact -= static_cast<double>(ofRow);
      }
    int64_t additions = isExact ? 0 : problem.B * problem.Sq;
    ref.push_back(sum);
    lowp.push_back(isExact ? roundTo(Type::F32, exact) : narrow);
    roundoff.push_back(sumError(additions, errors, terms, sum, model));
  }
  return checkAccuracy("d_lambda", Type::F32, {1, problem.Hq, 1}, dLambda, ref, lowp, roundoff);
}

TEST_P(Backwards, Differential) {
  Type type = GetParam();
  ElementType element = elementType(type);
  for (const AttentionProblem &problem : problems())
    for (bool isInOrder : {false, true}) {
      if (isInOrder && !canBeInOrder(type))
        continue;
      MatrixCase matrixCase(isInOrder ? "differential_attention_backward DETERMINISTIC"
                                      : "differential_attention_backward",
                            maskName(problem), type);
      Differential both(problem, type, 30);
      int64_t heads = problem.B * problem.Hq, keyHeads = problem.B * problem.Hkv;
      ForwardResult o1 = forward(problem, both.first), o2 = forward(problem, both.second);
      std::vector<double> o2Rounded = o2.o;
      roundTo(type, o2Rounded);
      KernelCall call("differential_attention_backward",
                      withForm(attentionParams(problem, type), isInOrder));
      std::vector<int64_t> q = {problem.B, 2 * problem.Hq, problem.Sq, problem.D},
                           k = {problem.B, 2 * problem.Hkv, problem.Skv, problem.D},
                           v = {problem.B, problem.Hkv, problem.Skv, problem.DV},
                           o = {problem.B, problem.Hq, problem.Sq, problem.DV};
      call.input("q", element, q, interleaved(both.first.q, both.second.q, heads));
      call.input("k", element, k, interleaved(both.first.k, both.second.k, keyHeads));
      call.input("v", element, v, both.first.v);
      call.input("o", element, o, both.combine(o1, o2, type));
      call.input("o2", element, o, o2Rounded);
      std::vector<double> lse = interleaved(o1.lse, o2.lse, heads);
      roundTo(type == Type::F64 ? Type::F64 : Type::F32, lse);
      call.input("lse", accumulatorType(type), {q[0], q[1], q[2]}, lse);
      call.input("do", element, o, both.dO);
      call.input("lambda", ElementType::F32, {problem.Hq}, both.lambda);
      bindScaleAndWindow(call, problem);
      call.output("dq", element, q);
      call.output("dk", element, k);
      call.output("dv", element, v);
      call.output("d_lambda", ElementType::F32, {problem.Hq});
      runForm(call, isInOrder, {"dq", "dk", "dv", "d_lambda"});

      BackwardOracle of1(problem, both.first, type), of2(problem, both.second, type);
      auto joined = [&](const BackwardOracle &a, const BackwardOracle &b) {
        BackwardResult ref, lowp;
        auto join = [](const BackwardResult &x, const BackwardResult &y, int64_t h, int64_t hk,
                       BackwardResult &out) {
          out.dQ = interleaved(x.dQ, y.dQ, h);
          out.dK = interleaved(x.dK, y.dK, hk);
          out.dV = x.dV;
          for (size_t n = 0; n < out.dV.size(); ++n)
            out.dV[n] += y.dV[n];
          if (x.roundoffDQ.empty())
            return;
          out.roundoffDQ = interleaved(x.roundoffDQ, y.roundoffDQ, h);
          out.roundoffDK = interleaved(x.roundoffDK, y.roundoffDK, hk);
          for (size_t n = 0; n < out.dV.size(); ++n)
            out.roundoffDV.push_back(std::hypot(x.roundoffDV[n], y.roundoffDV[n]));
        };
        join(a.ref, b.ref, heads, keyHeads, ref);
        join(a.lowp, b.lowp, heads, keyHeads, lowp);
        roundTo(type, lowp.dV);
        BackwardOracle both(problem, type, ref, lowp);
        both.shapeQ.heads *= 2;
        both.shapeK.heads *= 2;
        return both;
      };
      expectBackward(joined(of1, of2), readBackward(call), describe(problem, type));

      expectOk(checkDLambda(both, o2, type, isInOrder, call.read("d_lambda")),
               describe(problem, type));
    }
}

} // namespace
