// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of the attention backward under conditions that only a GPU has: concurrent work,
// streams, graphs, strides, large grids, large offsets. The acceptance tests check the results.

#include "test/Gpu/GpuTesting.h"

#include "base/Numeric/ElementType.h"
#include "runtime/AttentionBackward.h"
#include "runtime/AttentionForward.h"

#include <algorithm>
#include <cstring>
#include <optional>

using namespace tilewright;
using namespace tilewright::gputest;

namespace {

#define ASSERT_RUNS(expression)                                                                    \
  do {                                                                                             \
    Status status_ = (expression);                                                                 \
    ASSERT_TRUE(status_.ok()) << status_.message();                                                \
  } while (false)

struct Shape {
  int64_t B, Hq, Hkv, Sq, Skv, D;
  /// Strides of a head, a batch and a row, of all arrays and of dO; 0: row-major.
  int64_t headStride = 0, batchStride = 0, dORowStride = 0;
};

/// All arrays of a training step in bf16, with random q, k, v and dO.
class Step {
public:
  Step(const GpuDevice &device, const Shape &shape)
      : shape(shape), q(device, bytesOf(shape.Hq, shape.Sq)),
        k(device, bytesOf(shape.Hkv, shape.Skv)), v(device, bytesOf(shape.Hkv, shape.Skv)),
        o(device, bytesOf(shape.Hq, shape.Sq)), dO(device, bytesOf(shape.Hq, shape.Sq, rowOfDO())),
        lse(device, size_t(shape.B * shape.Hq * shape.Sq) * 4),
        dQ(device, bytesOf(shape.Hq, shape.Sq)), dK(device, bytesOf(shape.Hkv, shape.Skv)),
        dV(device, bytesOf(shape.Hkv, shape.Skv)) {}

  /// `row` is the stride of rows.
  runtime::Argument view(const Memory &memory, int64_t heads, int64_t rows, int64_t row = 0) const {
    int64_t extents[] = {shape.B, heads, rows, shape.D};
    row = row ? row : shape.D;
    int64_t head = shape.headStride ? shape.headStride : rows * row;
    int64_t strides[] = {shape.batchStride ? shape.batchStride : head * heads, head, row, 1};
    return runtime::Argument::view(memory.address(), ElementType::BF16, 4, extents, strides);
  }
  runtime::Argument viewQ(const Memory &memory) const { return view(memory, shape.Hq, shape.Sq); }
  runtime::Argument viewK(const Memory &memory) const { return view(memory, shape.Hkv, shape.Skv); }
  runtime::Argument viewLse() const {
    return runtime::Argument::dense(lse.address(), ElementType::F32, {shape.B, shape.Hq, shape.Sq});
  }
  int64_t rowOfDO() const { return shape.dORowStride ? shape.dORowStride : shape.D; }

  runtime::AttentionForwardArguments forward() const {
    runtime::AttentionForwardArguments a;
    a.q = viewQ(q);
    a.k = viewK(k);
    a.v = viewK(v);
    a.o = viewQ(o);
    a.lse = viewLse();
    a.scale = 1 / std::sqrt(float(shape.D));
    return a;
  }
  runtime::AttentionBackwardArguments backward() const {
    runtime::AttentionBackwardArguments a;
    a.q = viewQ(q);
    a.k = viewK(k);
    a.v = viewK(v);
    a.o = viewQ(o);
    a.dO = view(dO, shape.Hq, shape.Sq, rowOfDO());
    a.lse = viewLse();
    a.dQ = viewQ(dQ);
    a.dK = viewK(dK);
    a.dV = viewK(dV);
    a.scale = 1 / std::sqrt(float(shape.D));
    return a;
  }
  void poisonGradients() {
    for (Memory *memory : {&dQ, &dK, &dV})
      memory->poison();
  }
  /// Rows of a head of one of the arrays.
  std::vector<uint8_t> readHead(const Memory &memory, const runtime::Argument &view, int64_t b,
                                int64_t h) const {
    return memory.read(size_t(b * view.strides[0] + h * view.strides[1]) * 2,
                       size_t(view.extents[2] * shape.D) * 2);
  }
  std::vector<uint8_t> readGradients() const {
    std::vector<uint8_t> all;
    for (auto [memory, view] : {std::pair(&dQ, viewQ(dQ)), {&dK, viewK(dK)}, {&dV, viewK(dV)}})
      for (int64_t b = 0; b < shape.B; ++b)
        for (int64_t h = 0; h < view.extents[1]; ++h) {
          std::vector<uint8_t> head = readHead(*memory, view, b, h);
          all.insert(all.end(), head.begin(), head.end());
        }
    return all;
  }

  Shape shape;
  Memory q, k, v, o, dO, lse, dQ, dK, dV;

private:
  size_t bytesOf(int64_t heads, int64_t rows, int64_t row = 0) const {
    row = row ? row : shape.D;
    int64_t head = shape.headStride ? shape.headStride : rows * row;
    int64_t batch = shape.batchStride ? shape.batchStride : head * heads;
    return size_t((shape.B - 1) * batch + (heads - 1) * head + rows * row) * 2;
  }
};

class BackwardGpu : public GpuTest {
protected:
  struct Plans {
    runtime::AttentionForward forward;
    runtime::AttentionBackward backward;
  };

  std::optional<Plans> plan(int64_t D, bool isDeterministic) {
    std::vector<std::pair<std::string, std::string>> params = {{"D", std::to_string(D)},
                                                               {"T", "bf16"}};
    auto forwardBundle = compileBundle("attention_forward", params);
    params.push_back({"DETERMINISTIC", isDeterministic ? "true" : "false"});
    auto backwardBundle = compileBundle("attention_backward", params);
    if (!forwardBundle || !backwardBundle)
      return std::nullopt;
    runtime::AttentionForwardDesc forwardDesc;
    runtime::AttentionBackwardDesc backwardDesc;
    forwardDesc.headDim = backwardDesc.headDim = D;
    backwardDesc.isDeterministic = isDeterministic;
    auto forward = runtime::AttentionForward::create(driver(), forwardBundle, forwardDesc);
    auto backward = runtime::AttentionBackward::create(driver(), backwardBundle, backwardDesc);
    for (const Status &status : {forward ? forward->prepare(0) : forward.status(),
                                 backward ? backward->prepare(0) : backward.status()})
      if (!status) {
        ADD_FAILURE() << status.message();
        return std::nullopt;
      }
    return Plans{std::move(*forward), std::move(*backward)};
  }

  /// Random inputs, and O and LSE of the forward.
  void fill(Step &step, const Plans &plans) {
    uint64_t seed = 1;
    const Shape &shape = step.shape;
    for (auto [memory, view] : {std::pair(&step.q, step.viewQ(step.q)),
                                {&step.k, step.viewK(step.k)},
                                {&step.v, step.viewK(step.v)},
                                {&step.dO, step.backward().dO}})
      for (int64_t b = 0; b < shape.B; ++b)
        for (int64_t h = 0; h < view.extents[1]; ++h) {
          std::vector<uint8_t> head = normal(size_t(view.extents[2] * shape.D), seed++);
          size_t row = size_t(shape.D) * 2,
                 start = size_t(b * view.strides[0] + h * view.strides[1]);
          if (view.strides[2] == shape.D)
            memory->write(start * 2, head);
          else
            for (int64_t i = 0; i < view.extents[2]; ++i)
              memory->write(
                  (start + size_t(i * view.strides[2])) * 2,
                  {head.begin() + i * int64_t(row), head.begin() + (i + 1) * int64_t(row)});
        }
    Status status = plans.forward.run(step.forward(), 0, 0, device->getStream());
    EXPECT_TRUE(status.ok()) << status.message();
    wait(device->getStream());
  }

  /// The workspace of this plan and step, aligned as the plan requires.
  std::unique_ptr<Memory> workspaceFor(const Plans &plans, const Step &step) {
    uint64_t bytes = 0;
    Status status = plans.backward.workspaceSize(step.backward(), 0, bytes);
    EXPECT_TRUE(status.ok()) << status.message();
    auto memory = std::make_unique<Memory>(*device, bytes + 4);
    workspaceBytes = bytes;
    return memory;
  }
  Status run(const Plans &plans, const Step &step, const Memory &workspace, cuda::Stream stream) {
    return plans.backward.run(step.backward(), workspace.address(), workspaceBytes, stream);
  }
  uint64_t workspaceBytes = 0;
};

bool isWritten(const std::vector<uint8_t> &bytes) {
  const uint16_t poison = 0xffff;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2)
    if (std::memcmp(&bytes[i], &poison, 2) == 0)
      return false;
  return true;
}

/// The deterministic form, for each D, concurrently with the fast form of another problem on
/// another stream.
class BackwardSoak : public BackwardGpu, public ::testing::WithParamInterface<int64_t> {
protected:
  void expectSameBits(int64_t D, const Shape &shape);
};

void BackwardSoak::expectSameBits(int64_t D, const Shape &shape) {
  auto plans = plan(D, true), otherPlans = plan(64, false);
  ASSERT_TRUE(plans && otherPlans);
  Step step(*device, shape), other(*device, {2, 16, 16, 1024, 1024, 64});
  fill(step, *plans);
  fill(other, *otherPlans);
  auto otherWorkspace = workspaceFor(*otherPlans, other);
  uint64_t otherBytes = workspaceBytes;
  auto workspace = workspaceFor(*plans, step);
  cuda::Stream stream = createStream(1), competing = createStream(1);
  std::vector<uint8_t> first;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_RUNS(otherPlans->backward.run(other.backward(), otherWorkspace->address(), otherBytes,
                                         competing));
    step.poisonGradients();
    workspace->poison(); // the program fills workspaces before it reads them
    ASSERT_RUNS(run(*plans, step, *workspace, stream));
    wait(stream);
    std::vector<uint8_t> gradients = step.readGradients();
    if (i == 0) {
      first = gradients;
      ASSERT_TRUE(isWritten(first));
    }
    ASSERT_TRUE(gradients == first) << "run " << i;
  }
  wait(competing);
}

/// In order on sm_90a up to D = 128, else by a second kernel.
TEST_P(BackwardSoak, AThousandDeterministicRunsHaveTheSameBits) {
  int64_t D = GetParam();
  expectSameBits(D, {1, 4, 2, 300, 333, D});
}

/// More tiles than multiprocessors, interleaved with blocks of the other stream: few blocks of a
/// head run at the same time.
TEST_P(BackwardSoak, AThousandRunsInOrderHaveTheSameBits) {
  int64_t D = GetParam();
  if (device->getTarget() != "sm_90a" || D > 128)
    GTEST_SKIP() << "in order on sm_90a, up to 128";
  expectSameBits(D, {2, 8, 4, 1100, 1333, D});
}

INSTANTIATE_TEST_SUITE_P(Dims, BackwardSoak, ::testing::Values(16, 32, 64, 96, 128, 192, 256),
                         ::testing::PrintToStringParamName());

/// In the fast form, dK and dV have no atomic additions either.
TEST_F(BackwardGpu, TheFastFormGivesTheSameDkAndDv) {
  auto plans = plan(64, false);
  ASSERT_TRUE(plans);
  Step step(*device, {2, 4, 2, 512, 512, 64});
  fill(step, *plans);
  auto workspace = workspaceFor(*plans, step);
  cuda::Stream stream = createStream(1);
  std::vector<uint8_t> firstK, firstV;
  for (int i = 0; i < 50; ++i) {
    step.poisonGradients();
    ASSERT_RUNS(run(*plans, step, *workspace, stream));
    wait(stream);
    ASSERT_TRUE(isWritten(step.readGradients()));
    std::vector<uint8_t> dK = step.dK.read(0, 2 * 2 * 512 * 64 * 2),
                         dV = step.dV.read(0, dK.size());
    if (i == 0) {
      firstK = dK;
      firstV = dV;
    }
    ASSERT_TRUE(dK == firstK && dV == firstV) << "run " << i;
  }
}

TEST_F(BackwardGpu, EveryKindOfStreamGivesTheSameBits) {
  auto plans = plan(64, true);
  ASSERT_TRUE(plans);
  Step step(*device, {1, 3, 3, 200, 333, 64});
  fill(step, *plans);
  auto workspace = workspaceFor(*plans, step);
  ASSERT_RUNS(run(*plans, step, *workspace, device->getStream()));
  wait(device->getStream());
  std::vector<uint8_t> first = step.readGradients();
  EXPECT_TRUE(isWritten(first));
  for (cuda::Stream stream : {cuda::Stream(nullptr), cuda::streamLegacy, cuda::streamPerThread,
                              createStream(0), createStream(1)}) {
    step.poisonGradients();
    ASSERT_RUNS(run(*plans, step, *workspace, stream));
    wait(stream);
    EXPECT_TRUE(step.readGradients() == first);
  }
}

TEST_F(BackwardGpu, AGraphReplaysIt) {
  for (bool isDeterministic : {false, true}) {
    SCOPED_TRACE(isDeterministic);
    auto plans = plan(64, isDeterministic);
    ASSERT_TRUE(plans);
    // One block of keys: one addition to each element of dQ, so the fast form is exact as well.
    Step step(*device, {2, 2, 2, 300, isDeterministic ? 300 : 16, 64});
    fill(step, *plans);
    auto workspace = workspaceFor(*plans, step);
    cuda::Stream stream = createStream(1);
    ASSERT_RUNS(run(*plans, step, *workspace, stream));
    wait(stream);
    std::vector<uint8_t> first = step.readGradients();
    step.poisonGradients();
    cuda::GraphExec graph = capture(stream, [&] { return run(*plans, step, *workspace, stream); });
    if (!graph)
      return;
    EXPECT_FALSE(isWritten(step.readGradients())) << "capturing must not run";
    for (int i = 0; i < 5; ++i) {
      step.poisonGradients();
      workspace->poison();
      ASSERT_EQ(driver().cuGraphLaunch(graph, stream), cuda::Success);
      wait(stream);
      EXPECT_TRUE(step.readGradients() == first) << "replay " << i;
    }
    ASSERT_EQ(driver().cuGraphExecDestroy(graph), cuda::Success);
  }
}

/// dO as one of two parts of a concatenation along the last dimension.
TEST_F(BackwardGpu, AStridedGradientGivesTheSameBits) {
  auto plans = plan(128, true);
  ASSERT_TRUE(plans);
  Shape dense{2, 2, 1, 150, 260, 128}, strided = dense;
  strided.dORowStride = 256;
  Step a(*device, dense), b(*device, strided);
  fill(a, *plans);
  fill(b, *plans);
  auto workspace = workspaceFor(*plans, a);
  cuda::Stream stream = createStream(1);
  ASSERT_RUNS(run(*plans, a, *workspace, stream));
  ASSERT_RUNS(run(*plans, b, *workspace, stream));
  wait(stream);
  EXPECT_TRUE(isWritten(a.readGradients()));
  EXPECT_TRUE(a.readGradients() == b.readGradients());
}

/// A grid whose y or z would be too large if heads had a separate axis.
TEST_F(BackwardGpu, MoreHeadsThanAGridAxisHolds) {
  auto plans = plan(16, true);
  ASSERT_TRUE(plans);
  Step many(*device, {3, 25000, 25000, 16, 24, 16}), one(*device, {1, 1, 1, 16, 24, 16});
  cuda::Stream stream = device->getStream();
  fill(one, *plans);
  std::vector<std::pair<int64_t, int64_t>> heads = {{0, 0},     {0, 24999}, {1, 12345}, {2, 15534},
                                                    {2, 15535}, {2, 15536}, {2, 24999}};
  for (auto [b, h] : heads)
    for (auto [to, from] :
         {std::pair(&many.q, &one.q), {&many.k, &one.k}, {&many.v, &one.v}, {&many.dO, &one.dO}}) {
      int64_t rows = to == &many.q || to == &many.dO ? 16 : 24;
      to->write(size_t((b * 25000 + h) * rows * 16) * 2, from->read(0, size_t(rows * 16) * 2));
    }
  ASSERT_RUNS(plans->forward.run(many.forward(), 0, 0, stream));
  auto workspace = workspaceFor(*plans, one);
  ASSERT_RUNS(run(*plans, one, *workspace, stream));
  wait(stream);
  workspace = workspaceFor(*plans, many);
  ASSERT_RUNS(run(*plans, many, *workspace, stream));
  wait(stream);
  for (auto [b, h] : heads) {
    EXPECT_TRUE(many.readHead(many.dQ, many.viewQ(many.dQ), b, h) ==
                one.readHead(one.dQ, one.viewQ(one.dQ), 0, 0))
        << "dQ, batch " << b << ", head " << h;
    EXPECT_TRUE(many.readHead(many.dK, many.viewK(many.dK), b, h) ==
                one.readHead(one.dK, one.viewK(one.dK), 0, 0))
        << "dK, batch " << b << ", head " << h;
  }
}

/// Elements beyond 2^31, and bytes beyond 2^32, from the start of each array.
TEST_F(BackwardGpu, OffsetsBeyond32Bits) {
  auto plans = plan(64, true);
  ASSERT_TRUE(plans);
  Shape near{2, 2, 2, 100, 150, 64}, far = near;
  far.headStride = (int64_t(1) << 30) + 64;
  far.batchStride = (int64_t(1) << 31) + 4096;
  Step dense(*device, near), wide(*device, far);
  if (HasFailure())
    return; // there is not enough memory for it
  fill(dense, *plans);
  fill(wide, *plans);
  auto workspace = workspaceFor(*plans, dense);
  cuda::Stream stream = createStream(1);
  ASSERT_RUNS(run(*plans, dense, *workspace, stream));
  ASSERT_RUNS(run(*plans, wide, *workspace, stream));
  wait(stream);
  EXPECT_TRUE(isWritten(dense.readGradients()));
  EXPECT_TRUE(dense.readGradients() == wide.readGradients());
}

} // namespace
