// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention on arrays in any layout: transposed, slices of a packed tensor, negative strides,
// unaligned rows, offsets beyond 32 bits. If the same code runs, results must be bitwise equal to
// those of row-major arrays. Gaps are poisoned before the run, and checked after it.

#include "test/Acceptance/AttentionCall.h"

#include "gtest/gtest.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

/// The layout of an array [b, h, rows, columns]; the name says which.
using LayoutRule =
    std::function<Layout(const std::string &name, ElementType type, std::vector<int64_t> shape)>;

CallOptions laidOut(const AttentionProblem &p, Type type, const LayoutRule &rule) {
  CallOptions options;
  options.params = {};
  ElementType element = elementType(type), acc = accumulatorType(type);
  const std::vector<int64_t> q = {p.B, p.Hq, p.Sq, p.D}, o = {p.B, p.Hq, p.Sq, p.DV},
                             k = {p.B, p.Hkv, p.Skv, p.D}, v = {p.B, p.Hkv, p.Skv, p.DV},
                             rows = {p.B, p.Hq, p.Sq};
  for (const char *name : {"q", "dq"})
    options.layouts[name] = rule(name, element, q);
  for (const char *name : {"k", "dk"})
    options.layouts[name] = rule(name, element, k);
  for (const char *name : {"v", "dv"})
    options.layouts[name] = rule(name, element, v);
  for (const char *name : {"o", "do"})
    options.layouts[name] = rule(name, element, o);
  for (const char *name : {"lse", "dlse"})
    options.layouts[name] = rule(name, acc, rows);
  return options;
}

/// Arrays without a tensor map use another entry of a bundle, with other blocks and therefore
/// another order of sums.
enum class Expected { SameBits, OrOtherEntry };

/// Forward and deterministic backward give the bits of row-major arrays; if another entry may run
/// on a GPU, results within the accuracy rule. A layout is created for each call, since a buffer
/// holds the arrays of one call.
void expectSameAsRowMajor(const AttentionProblem &problem, Type type, const LayoutRule &rule,
                          Expected expectation = Expected::SameBits) {
  std::string context = describe(problem, type);
  AttentionInputs inputs = randomInputs(problem, type, 12);
  ForwardResult expected = runForward(problem, type, inputs);
  ForwardResult got = runForward(problem, type, inputs, laidOut(problem, type, rule));
  // A problem too large for the GPU ran on the CPU, whose bits differ.
  auto isElsewhere = [] { return ::testing::Test::IsSkipped(); };
  if (isElsewhere())
    return;
  if (expectation == Expected::OrOtherEntry && runsMapped()) {
    expectForward(ForwardOracle(problem, inputs, type), got, context);
    BackwardOracle oracle(problem, inputs, type);
    for (const char *deterministic : {"false", "true"}) {
      CallOptions options = laidOut(problem, type, rule);
      options.params = {{"DETERMINISTIC", deterministic}};
      BackwardResult result = runBackward(problem, type, inputs, expected, options);
      if (isElsewhere())
        return;
      expectBackward(oracle, result, context);
    }
    return;
  }
  EXPECT_EQ(expected.o, got.o) << context;
  EXPECT_EQ(expected.lse, got.lse) << context;

  CallOptions options;
  options.params = {{"DETERMINISTIC", "true"}};
  BackwardResult expectedBackward = runBackward(problem, type, inputs, expected, options);
  options = laidOut(problem, type, rule);
  // dQ by atomic additions uses a workspace, so the layout only affects the conversion.
  BackwardResult fast = runBackward(problem, type, inputs, expected, options);
  if (isElsewhere())
    return;
  BackwardOracle oracle(problem, inputs, type);
  if (problem.Hq == problem.Hkv) {
    EXPECT_EQ(expectedBackward.dK, fast.dK) << context;
    EXPECT_EQ(expectedBackward.dV, fast.dV) << context;
    expectOk(oracle.checkDQ(fast.dQ), context);
  } else { // dK and dV of heads that share a head of K may be sums over these heads
    expectBackward(oracle, fast, context);
  }
  options = laidOut(problem, type, rule);
  options.params = {{"DETERMINISTIC", "true"}};
  BackwardResult gotBackward = runBackward(problem, type, inputs, expected, options);
  if (isElsewhere())
    return;
  EXPECT_EQ(expectedBackward.dQ, gotBackward.dQ) << context;
  EXPECT_EQ(expectedBackward.dK, gotBackward.dK) << context;
  EXPECT_EQ(expectedBackward.dV, gotBackward.dV) << context;
}

AttentionProblem problemFor(Type type) {
  return makeProblem(2, 4, type == Type::F16 ? 4 : 2, 77, 140, 40, 24, Causal::BottomRight);
}

class Strides : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Strides, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

/// [B, S, H, D] in memory, as in most frameworks; LSE [B, S, H].
TEST_P(Strides, TransposedHeadsAndRows) {
  expectSameAsRowMajor(problemFor(GetParam()), GetParam(),
                       [](const std::string &, ElementType, std::vector<int64_t> shape) {
                         int64_t columns = shape.size() == 4 ? shape[3] : 1;
                         Layout layout;
                         layout.strides = {shape[2] * shape[1] * columns, columns,
                                           shape[1] * columns, 1};
                         layout.strides.resize(shape.size());
                         return layout;
                       });
}

/// q, k and v are slices of one tensor [B, S, 3, H, D], the result of a fused projection; dq, dk
/// and dv of another.
TEST_P(Strides, SlicesOfAPackedTensor) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 3, 3, 83, 83, 40, 40, Causal::TopLeft);
  std::map<std::string, std::shared_ptr<Buffer>> buffers;
  int calls = 0;
  expectSameAsRowMajor(
      problem, type, [&](const std::string &name, ElementType element, std::vector<int64_t> shape) {
        bool isGradient = name == "dq" || name == "dk" || name == "dv";
        bool isSlice = isGradient || name == "q" || name == "k" || name == "v";
        if (!isSlice)
          return Layout();
        if (name == "q")
          ++calls;
        int64_t H = shape[1], S = shape[2], D = shape[3];
        std::shared_ptr<Buffer> &buffer =
            buffers[(isGradient ? "gradients" : "inputs") + std::to_string(calls)];
        if (!buffer)
          buffer = std::make_shared<Buffer>((shape[0] * S * 3 * H * D + 16) * byteWidth(element));
        Layout layout;
        layout.strides = {S * 3 * H * D, D, 3 * H * D, 1};
        layout.buffer = buffer;
        char which = name.back();
        layout.offset = 8 + (which == 'q' ? 0 : which == 'k' ? 1 : 2) * H * D;
        return layout;
      });
}

/// Rows, heads and batches in reverse order.
TEST_P(Strides, NegativeStrides) {
  expectSameAsRowMajor(
      problemFor(GetParam()), GetParam(),
      [](const std::string &, ElementType, std::vector<int64_t> shape) {
        Layout layout;
        layout.strides = rowMajor(shape);
        for (size_t dim = 0; dim < 3; ++dim)
          layout.strides[dim] *= -1;
        return layout;
      },
      Expected::OrOtherEntry);
}

/// Rows that are not contiguous: every third element, and reversed.
TEST_P(Strides, StridedColumns) {
  expectSameAsRowMajor(
      problemFor(GetParam()), GetParam(),
      [](const std::string &name, ElementType, std::vector<int64_t> shape) {
        Layout layout;
        layout.strides = rowMajor(shape);
        int64_t factor = name == "v" || name == "dq" ? -3 : 3;
        for (int64_t &stride : layout.strides)
          stride *= factor;
        return layout;
      },
      Expected::OrOtherEntry);
}

/// Odd strides of rows, so that no row is aligned.
TEST_P(Strides, UnalignedRows) {
  expectSameAsRowMajor(
      problemFor(GetParam()), GetParam(),
      [](const std::string &, ElementType, std::vector<int64_t> shape) {
        if (shape.size() != 4)
          return Layout();
        int64_t row = shape[3] + 3, head = shape[2] * row + 5;
        Layout layout;
        layout.strides = {shape[1] * head + 7, head, row, 1};
        return layout;
      },
      Expected::OrOtherEntry);
}

/// A few elements in many gigabytes of address space; only their pages exist.
constexpr int64_t beyond32Bits = (int64_t(1) << 31) + 12345;

Layout sparse(ElementType element, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  int64_t last = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    last += (shape[dim] - 1) * strides[dim];
  Layout layout;
  layout.strides = std::move(strides);
  layout.buffer = std::make_shared<Buffer>((last + 1) * byteWidth(element));
  return layout;
}

TEST_P(Strides, BatchesBeyond32Bits) {
  expectSameAsRowMajor(
      makeProblem(2, 2, 1, 40, 50, 16, 8, Causal::TopLeft), GetParam(),
      [](const std::string &, ElementType element, std::vector<int64_t> shape) {
        std::vector<int64_t> strides = rowMajor(shape);
        strides[0] = beyond32Bits;
        return sparse(element, shape, strides);
      },
      Expected::OrOtherEntry);
}

TEST_P(Strides, HeadsBeyond32Bits) {
  expectSameAsRowMajor(
      makeProblem(1, 4, 2, 40, 50, 16, 8, Causal::TopLeft), GetParam(),
      [](const std::string &, ElementType element, std::vector<int64_t> shape) {
        std::vector<int64_t> strides = rowMajor(shape);
        strides[1] = beyond32Bits;
        return sparse(element, shape, strides);
      },
      Expected::OrOtherEntry);
}

/// The distance between rows of one tile exceeds 32 bits.
TEST_P(Strides, RowsBeyond32Bits) {
  expectSameAsRowMajor(
      makeProblem(1, 1, 1, 40, 50, 16, 8, Causal::TopLeft), GetParam(),
      [](const std::string &, ElementType element, std::vector<int64_t> shape) {
        std::vector<int64_t> strides = rowMajor(shape);
        strides[2] = beyond32Bits / 16;
        return sparse(element, shape, strides);
      },
      Expected::OrOtherEntry);
}

/// A precondition of the tests above: a write outside the elements is detected.
TEST(StridedArrays, SeeWritesBetweenElements) {
  Layout layout;
  layout.strides = {10, 2};
  StridedArray array(ElementType::F32, {3, 4}, layout);
  array.write(std::vector<double>(12, 1.0));
  EXPECT_EQ(array.buffer().findWrittenGap(), -1);
  std::vector<double> values = array.read();
  EXPECT_EQ(values, std::vector<double>(12, 1.0));
  array.data()[4] = 0; // the element after (0, 0)
  EXPECT_EQ(array.buffer().findWrittenGap(), array.data() + 4 - array.buffer().data());
  array.data()[4] = Buffer::poison;
  array.data()[-1] = 0; // the margin
  EXPECT_EQ(array.buffer().findWrittenGap(), array.data() - 1 - array.buffer().data());
}

} // namespace
