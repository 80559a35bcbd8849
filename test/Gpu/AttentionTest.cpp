// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attention forward under conditions that only a GPU has: streams, graphs, concurrent work,
// large grids, large offsets. The acceptance tests check the results.

#include "test/Gpu/GpuTesting.h"

using namespace tilewright;
using namespace tilewright::gputest;

namespace {

#define ASSERT_RUNS(expression)                                                                    \
  do {                                                                                             \
    Status status_ = (expression);                                                                 \
    ASSERT_TRUE(status_.ok()) << status_.message();                                                \
  } while (false)

class AttentionGpu : public GpuTest {
protected:
  /// Random numbers for every head.
  void fill(Attention &attention, const AttentionShape &shape) {
    uint64_t seed = 1;
    for (int64_t b = 0; b < shape.B; ++b)
      for (int64_t h = 0; h < shape.H; ++h) {
        attention.setHead(b, h, normal(shape.Sq * shape.D, seed),
                          normal(shape.Skv * shape.D, seed + 1),
                          normal(shape.Skv * shape.D, seed + 2));
        seed += 3;
      }
  }
};

TEST_F(AttentionGpu, AThousandRunsBesideAnotherStreamHaveTheSameBits) {
  AttentionShape shape{2, 4, 512, 512, 64}, otherShape{4, 16, 1024, 1024, 128};
  auto operation = compileAttention(64), otherOperation = compileAttention(128);
  ASSERT_TRUE(operation && otherOperation);
  Attention attention(*device, shape), other(*device, otherShape);
  fill(attention, shape);
  cuda::Stream stream = createStream(1), competing = createStream(1);
  ASSERT_RUNS(attention.run(*operation, stream));
  wait(stream);
  std::vector<uint8_t> first = attention.readO();
  for (int i = 0; i < 1000; ++i) {
    // The other kernel has other block sizes; its blocks start and end while those of this kernel
    // run.
    ASSERT_RUNS(other.run(*otherOperation, competing));
    attention.poisonO();
    ASSERT_RUNS(attention.run(*operation, stream));
    wait(stream);
    ASSERT_TRUE(attention.readO() == first) << "run " << i;
  }
  wait(competing);
}

TEST_F(AttentionGpu, EveryKindOfStreamGivesTheSameBits) {
  AttentionShape shape{1, 3, 200, 333, 64};
  auto operation = compileAttention(64);
  ASSERT_TRUE(operation);
  Attention attention(*device, shape);
  fill(attention, shape);
  ASSERT_RUNS(attention.run(*operation, device->getStream()));
  wait(device->getStream());
  std::vector<uint8_t> first = attention.readO();
  EXPECT_TRUE(first != std::vector<uint8_t>(first.size(), 0xff));
  for (cuda::Stream stream : {cuda::Stream(nullptr), cuda::streamLegacy, cuda::streamPerThread,
                              createStream(0), createStream(1)}) {
    attention.poisonO();
    ASSERT_RUNS(attention.run(*operation, stream));
    wait(stream);
    EXPECT_TRUE(attention.readO() == first);
  }
}

TEST_F(AttentionGpu, AGraphReplaysIt) {
  AttentionShape shape{2, 2, 300, 300, 64};
  auto operation = compileAttention(64);
  ASSERT_TRUE(operation);
  Attention attention(*device, shape);
  fill(attention, shape);
  cuda::Stream stream = createStream(1);
  ASSERT_RUNS(attention.run(*operation, stream));
  wait(stream);
  std::vector<uint8_t> first = attention.readO();

  attention.poisonO();
  cuda::GraphExec graph = capture(stream, [&] { return attention.run(*operation, stream); });
  if (!graph)
    return;
  EXPECT_TRUE(attention.readO() == std::vector<uint8_t>(first.size(), 0xff))
      << "capturing must not run";
  for (int i = 0; i < 5; ++i) {
    attention.poisonO();
    ASSERT_EQ(driver().cuGraphLaunch(graph, stream), cuda::Success);
    wait(stream);
    EXPECT_TRUE(attention.readO() == first) << "replay " << i;
  }
  ASSERT_EQ(driver().cuGraphExecDestroy(graph), cuda::Success);
}

/// A grid whose y or z would be too large if heads had a separate axis.
TEST_F(AttentionGpu, MoreHeadsThanAGridAxisHolds) {
  AttentionShape shape{3, 25000, 16, 24, 16}, one{1, 1, 16, 24, 16};
  auto operation = compileAttention(16);
  ASSERT_TRUE(operation);
  Attention attention(*device, shape), single(*device, one);
  std::vector<uint8_t> q = normal(16 * 16, 1), k = normal(24 * 16, 2), v = normal(24 * 16, 3);
  std::vector<std::pair<int64_t, int64_t>> heads = {{0, 0},     {0, 24999}, {1, 12345}, {2, 15534},
                                                    {2, 15535}, {2, 15536}, {2, 24999}};
  for (auto [b, h] : heads)
    attention.setHead(b, h, q, k, v);
  single.setHead(0, 0, q, k, v);
  cuda::Stream stream = createStream(1);
  ASSERT_RUNS(attention.run(*operation, stream));
  ASSERT_RUNS(single.run(*operation, stream));
  wait(stream);
  std::vector<uint8_t> expected = single.readHead(0, 0);
  EXPECT_TRUE(expected != std::vector<uint8_t>(expected.size(), 0xff));
  for (auto [b, h] : heads)
    EXPECT_TRUE(attention.readHead(b, h) == expected) << "batch " << b << ", head " << h;
}

/// Elements beyond 2^31, and bytes beyond 2^32, from the start of each array.
TEST_F(AttentionGpu, OffsetsBeyond32Bits) {
  AttentionShape near{2, 2, 100, 150, 64}, far = near;
  far.headStride = (int64_t(1) << 30) + 64;
  far.batchStride = (int64_t(1) << 31) + 4096;
  auto operation = compileAttention(64);
  ASSERT_TRUE(operation);
  Attention wide(*device, far), dense(*device, near);
  if (HasFailure())
    return; // there is not enough memory for it
  fill(wide, far);
  fill(dense, near);
  cuda::Stream stream = createStream(1);
  ASSERT_RUNS(wide.run(*operation, stream));
  ASSERT_RUNS(dense.run(*operation, stream));
  wait(stream);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h)
      EXPECT_TRUE(wide.readHead(b, h) == dense.readHead(b, h)) << "batch " << b << ", head " << h;
}

} // namespace
