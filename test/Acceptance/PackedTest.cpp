// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// attention_forward and attention_backward with PACKED: consecutive sequences of different lengths,
// including empty ones, with every mask and linked files.

#include "test/Acceptance/ShippedMods.h"
#include "test/Reference/Modifiers.h"
#include "test/Reference/Variants.h"

#include "gtest/gtest.h"
#include <limits>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

/// Arrays of the oracle are [heads, rows, columns]. Those of the kernels are [1, heads, rows,
/// columns], stored as [rows, heads, columns].
class PackedCall {
public:
  PackedCall(const PackedProblem &problem, Type type, const AttentionInputs &inputs,
             bool isBackward, const CallOptions &options, bool isDeterministic = false)
      : problem(problem), type(type), isDeterministic(isDeterministic),
        call(isBackward ? "attention_backward" : "attention_forward",
             paramsOf(problem, type, options, isDeterministic), options.with) {
    const AttentionProblem &c = problem.common;
    give("q", c.Hq, problem.totalQ(), c.D, inputs.q);
    give("k", c.Hkv, problem.totalKv(), c.D, inputs.k);
    give("v", c.Hkv, problem.totalKv(), c.DV, inputs.v);
    int64_t count = problem.numSequences() + 1;
    call.integers("cu_seqlens_q", {count}, problem.cuQ);
    call.integers("cu_seqlens_k", {count}, problem.cuKv);
    call.scalar("scale", c.scale);
    call.integer("window_left", c.window.left);
    call.integer("window_right", c.window.right);
    if (options.bind)
      options.bind(call);
  }

  void give(const std::string &name, int64_t heads, int64_t rows, int64_t columns,
            const std::vector<double> &values) {
    call.input(name, elementType(type), {1, heads, rows, columns}, values,
               rowsFirst(heads, rows, columns));
  }
  void expect(const std::string &name, int64_t heads, int64_t rows, int64_t columns) {
    call.output(name, elementType(type), {1, heads, rows, columns},
                rowsFirst(heads, rows, columns));
  }

  ForwardResult forward() {
    const AttentionProblem &c = problem.common;
    expect("o", c.Hq, problem.totalQ(), c.DV);
    call.output("lse", accumulatorType(type), {1, c.Hq, problem.totalQ()});
    call.runTwice();
    ForwardResult result;
    result.o = call.read("o");
    result.lse = call.read("lse");
    return result;
  }

  BackwardResult backward(const AttentionInputs &inputs, const ForwardResult &saved) {
    const AttentionProblem &c = problem.common;
    give("o", c.Hq, problem.totalQ(), c.DV, saved.o);
    give("do", c.Hq, problem.totalQ(), c.DV, inputs.dO);
    call.input("lse", accumulatorType(type), {1, c.Hq, problem.totalQ()}, saved.lse);
    if (!inputs.dLse.empty())
      call.input("dlse", accumulatorType(type), {1, c.Hq, problem.totalQ()}, inputs.dLse);
    expect("dq", c.Hq, problem.totalQ(), c.D);
    expect("dk", c.Hkv, problem.totalKv(), c.D);
    expect("dv", c.Hkv, problem.totalKv(), c.DV);
    if (isDeterministic)
      call.runTwice();
    else
      call.run();
    BackwardResult result;
    result.dQ = call.read("dq");
    result.dK = call.read("dk");
    result.dV = call.read("dv");
    return result;
  }

private:
  static Layout rowsFirst(int64_t heads, int64_t rows, int64_t columns) {
    Layout layout;
    layout.strides = {rows * heads * columns, columns, heads * columns, 1};
    return layout;
  }

  static Params paramsOf(const PackedProblem &problem, Type type, const CallOptions &options,
                         bool isDeterministic) {
    Params params = attentionParams(problem.common, type);
    params.insert(params.end(), options.params.begin(), options.params.end());
    params.emplace_back("PACKED", "true");
    if (isDeterministic)
      params.emplace_back("DETERMINISTIC", "true");
    return params;
  }

  const PackedProblem &problem;
  Type type;
  bool isDeterministic;
  KernelCall call;
};

BackwardOracle makeOracle(const PackedProblem &problem, Type type, const AttentionInputs &inputs) {
  RoundoffModel roundoff{RoundoffModel::All, type, type};
  return BackwardOracle(problem.packed(), type,
                        backward(problem, inputs, Precision::reference(), roundoff),
                        backward(problem, inputs, Precision::lowp(type)));
}

/// Forward, and both forms of the backward.
void check(const PackedProblem &problem, Type type, uint64_t seed, const std::string &what,
           const CallOptions &options = {}) {
  AttentionProblem packed = problem.packed();
  AttentionInputs inputs = randomInputs(packed, type, seed);
  if (seed % 2)
    inputs.dLse.clear();
  RoundoffModel roundoff{RoundoffModel::All, type, type};
  std::string context = what + ", " + describe(packed, type);
  ForwardResult saved;
  {
    MatrixCase matrixCase("attention_forward PACKED", what, type);
    saved = PackedCall(problem, type, inputs, false, options).forward();
    ForwardOracle oracle(packed, type, forward(problem, inputs, Precision::reference(), roundoff),
                         forward(problem, inputs, Precision::lowp(type)));
    expectForward(oracle, saved, context);
  }
  BackwardOracle oracle = makeOracle(problem, type, inputs);
  for (bool isDeterministic : {false, true}) {
    std::string form = isDeterministic ? " DETERMINISTIC" : "";
    MatrixCase matrixCase("attention_backward PACKED" + form, what, type);
    PackedCall call(problem, type, inputs, true, options, isDeterministic);
    expectBackward(oracle, call.backward(inputs, saved), context + form);
  }
}

class Packed : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Packed, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

TEST_P(Packed, EveryMask) {
  uint64_t seed = 1;
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (Window window : {Window{}, Window{30, 4}}) {
      AttentionProblem common =
          makeProblem(1, 4, seed % 2 ? 2 : 1, 0, 0, 64, seed % 3 ? 64 : 40, causal, window);
      // Without queries, without keys, without both; more queries than keys and fewer.
      check(packedProblem({40, 0, 131, 1, 17, 0}, {70, 12, 90, 150, 0, 0}, common), GetParam(),
            seed, maskName(common));
      ++seed;
    }
}

/// Replaces the rows of no sequence by NaN, which must not reach a result.
void poisonOutside(std::vector<double> &values, int64_t heads, int64_t rows, int64_t columns,
                   const std::vector<int64_t> &cu) {
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t row = static_cast<int64_t>(i) / columns % rows;
    if (row < cu.front() || row >= cu.back())
      values[i] = std::numeric_limits<double>::quiet_NaN();
  }
  ASSERT_EQ(values.size(), values.empty() ? 0 : size_t(heads * rows * columns));
}

/// Offsets that do not begin at 0, or end before the rows do. Results are poisoned before a run, so
/// a row that no kernel writes is a NaN.
void checkRowsOfNoSequence(Type type, bool isOrdered) {
  struct Offsets {
    std::vector<int64_t> q, kv;
    int64_t behindQ, behindKv;
  };
  const Offsets cases[] = {{{0, 5, 12}, {0, 5, 12}, 4, 4},
                           {{4, 9, 12}, {4, 9, 12}, 4, 4},
                           {{0, 10, 25}, {5, 10, 30}, 5, 0},
                           {{5, 10, 30}, {0, 10, 25}, 0, 5},
                           {{200, 300, 300, 310}, {150, 300, 330, 470}, 90, 170},
                           {{130, 130}, {257, 300}, 126, 1},
                           {{3, 3}, {0, 0}, 140, 20}};
  CallOptions ordered;
  ordered.run.sums = "ordered";
  uint64_t seed = 20;
  for (const Offsets &offsets : cases)
    for (Causal causal : {Causal::None, Causal::BottomRight}) {
      PackedProblem problem;
      problem.common = makeProblem(1, 4, seed % 3 ? 2 : 4, 0, 0, 64, 64, causal);
      problem.cuQ = offsets.q;
      problem.cuKv = offsets.kv;
      problem.behindQ = offsets.behindQ;
      problem.behindKv = offsets.behindKv;
      AttentionProblem packed = problem.packed();
      AttentionInputs inputs = randomInputs(packed, type, seed++);
      poisonOutside(inputs.q, packed.Hq, packed.Sq, packed.D, problem.cuQ);
      poisonOutside(inputs.dO, packed.Hq, packed.Sq, packed.DV, problem.cuQ);
      poisonOutside(inputs.dLse, packed.Hq, packed.Sq, 1, problem.cuQ);
      poisonOutside(inputs.k, packed.Hkv, packed.Skv, packed.D, problem.cuKv);
      poisonOutside(inputs.v, packed.Hkv, packed.Skv, packed.DV, problem.cuKv);
      std::string context = maskName(packed) + " " + describe(packed, type);
      ForwardResult saved = PackedCall(problem, type, inputs, false, {}).forward();
      RoundoffModel roundoff{RoundoffModel::All, type, type};
      ForwardOracle oracle(packed, type, forward(problem, inputs, Precision::reference(), roundoff),
                           forward(problem, inputs, Precision::lowp(type)));
      expectForward(oracle, saved, context);
      poisonOutside(saved.o, packed.Hq, packed.Sq, packed.DV, problem.cuQ);
      poisonOutside(saved.lse, packed.Hq, packed.Sq, 1, problem.cuQ);
      BackwardOracle gradients = makeOracle(problem, type, inputs);
      for (bool isDeterministic : {false, true}) {
        if (isOrdered && !isDeterministic)
          continue;
        PackedCall call(problem, type, inputs, true, isOrdered ? ordered : CallOptions(),
                        isDeterministic);
        expectBackward(gradients, call.backward(inputs, saved), context);
      }
    }
}

TEST_P(Packed, RowsOfNoSequence) { checkRowsOfNoSequence(GetParam(), false); }

TEST_P(Packed, RowsOfNoSequenceInOrder) {
  if (runsOnGpu() && elementType(GetParam()) != ElementType::F16 &&
      elementType(GetParam()) != ElementType::BF16)
    GTEST_SKIP() << "on a GPU, additions in order require a 16-bit type";
  checkRowsOfNoSequence(GetParam(), true);
}

/// Additions in order: each head starts from the first block of keys, and takes the longest blocks
/// of all sequences first.
TEST_P(Packed, LongestBlocksFirst) {
  if (runsOnGpu() && elementType(GetParam()) != ElementType::F16 &&
      elementType(GetParam()) != ElementType::BF16)
    GTEST_SKIP() << "on a GPU, additions in order require a 16-bit type";
  CallOptions options;
  options.run.sums = "ordered";
  for (Causal causal : {Causal::TopLeft, Causal::BottomRight}) {
    AttentionProblem common = makeProblem(1, 2, 2, 0, 0, 64, 64, causal);
    PackedProblem problem =
        packedProblem({40, 0, 131, 1, 517, 0, 300}, {70, 12, 390, 150, 520, 0, 300}, common);
    AttentionInputs inputs = randomInputs(problem.packed(), GetParam(), 10);
    ForwardResult saved = PackedCall(problem, GetParam(), inputs, false, {}).forward();
    BackwardOracle oracle = makeOracle(problem, GetParam(), inputs);
    PackedCall call(problem, GetParam(), inputs, true, options, /*isDeterministic=*/true);
    expectBackward(oracle, call.backward(inputs, saved), describe(problem.packed(), GetParam()));
  }
}

TEST_P(Packed, OneSequenceIsPlainAttention) {
  AttentionProblem plain = makeProblem(1, 4, 2, 150, 170, 64, 64, Causal::BottomRight);
  AttentionInputs inputs = randomInputs(plain, GetParam(), 7);
  PackedProblem problem = packedProblem({150}, {170}, plain);
  ForwardResult expected = runForward(plain, GetParam(), inputs);
  ForwardResult got = PackedCall(problem, GetParam(), inputs, false, {}).forward();
  expectForward(ForwardOracle(plain, inputs, GetParam()), got);
  if (runsMapped())
    return;
  EXPECT_EQ(expected.o, got.o);
  EXPECT_EQ(expected.lse, got.lse);
}

TEST_P(Packed, EmptySequencesOnly) {
  AttentionProblem common = makeProblem(1, 2, 2, 0, 0, 16, 16);
  check(packedProblem({0, 0}, {0, 0}, common), GetParam(), 1, "none");
  check(packedProblem({0, 0}, {30, 0}, common), GetParam(), 2, "none");
  check(packedProblem({20, 3}, {0, 0}, common), GetParam(), 3, "none");
}

TEST_P(Packed, LinkedFiles) {
  AttentionProblem common = makeProblem(1, 2, 1, 0, 0, 32, 32);
  PackedProblem problem = packedProblem({40, 0, 90}, {70, 12, 60}, common);
  CallOptions options;
  options.with = {"mods/sink_window"};
  options.bind = [](KernelCall &call) {
    call.integer("sink_size", 3);
    call.integer("sink_window", 20);
  };
  problem.common.mask = sinkPlusWindow(3, 20);
  check(problem, GetParam(), 1, "sink_window", options);

  problem.common.mask = prefixLm({30, 4, 50});
  options.with = {"mods/prefix_lm"};
  options.bind = [](KernelCall &call) { call.integers("prefix_length", {3}, {30, 4, 50}); };
  check(problem, GetParam(), 2, "prefix_lm", options);

  problem.common.mask = nullptr;
  problem.common.score = softcap(2.0);
  options.with = {"mods/softcap"};
  options.bind = [](KernelCall &call) { call.scalar("softcap", 2.0); };
  check(problem, GetParam(), 3, "softcap", options);
}

TEST_P(Packed, SeveralFiles) {
  AttentionProblem common = makeProblem(1, 4, 2, 0, 0, 32, 24, Causal::None, {30, 40});
  PackedProblem problem = packedProblem({40, 0, 90, 7}, {70, 12, 60, 0}, common);
  problem.common.score = compose(alibi(alibiSlopes(4)), softcap(2.0));
  problem.common.mask = both(prefixLm({30, 4, 50, 1}), sinkPlusWindow(3, 25));
  problem.common.dropout = {0.25, 11, 12};
  problem.common.sinks = {0.5, -1.0, 2.0, -3.0};
  CallOptions options;
  options.with = {"mods/softcap", "mods/prefix_lm", "mods/alibi",
                  "mods/dropout", "mods/sink",      "mods/sink_window"};
  options.bind = [&](KernelCall &call) {
    call.scalar("softcap", 2.0);
    call.integers("prefix_length", {4}, {30, 4, 50, 1});
    call.input("slopes", ElementType::F32, {4}, alibiSlopes(4));
    call.scalar("dropout", 0.25);
    call.integers("dropout_seed", {1}, {11}, ElementType::I64);
    call.integers("dropout_offset", {1}, {12}, ElementType::I64);
    call.input("sinks", ElementType::F32, {4}, problem.common.sinks);
    call.integer("sink_size", 3);
    call.integer("sink_window", 25);
  };
  check(problem, GetParam(), 4, "several files", options);
}

} // namespace
