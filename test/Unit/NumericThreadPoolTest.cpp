// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops over threads: every index is processed once, the first error is reported, and a pool can be
// reused.

#include "base/Numeric/ThreadPool.h"

#include "gtest/gtest.h"

#include <atomic>
#include <vector>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

TEST(NumericThreadPool, EveryIndexRunsOnce) {
  for (unsigned threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t count : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int>> seen(count);
      std::atomic<bool> isThreadValid{true};
      Status status = pool.parallelFor(count, [&](int64_t index, unsigned thread) {
        ++seen[index];
        if (thread >= threads)
          isThreadValid = false;
        return Status::success();
      });
      EXPECT_TRUE(status.ok());
      EXPECT_TRUE(isThreadValid);
      for (const std::atomic<int> &times : seen)
        ASSERT_EQ(times, 1);
    }
  }
}

TEST(NumericThreadPool, OneThreadRunsInOrder) {
  std::vector<int64_t> order;
  Status status = parallelFor(5, 1, [&](int64_t index, unsigned) {
    order.push_back(index);
    return index == 3 ? Status::failure("stop") : Status::success();
  });
  EXPECT_EQ(status.message(), "stop");
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(NumericThreadPool, TheFirstFailureWinsAndThePoolGoesOn) {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    Status status = pool.parallelFor(1000, [&](int64_t index, unsigned) {
      return index >= 17 ? Status::failure("index " + std::to_string(index)) : Status::success();
    });
    ASSERT_FALSE(status.ok());
    ASSERT_EQ(status.message(), "index 17");
    std::atomic<int64_t> sum{0};
    ASSERT_TRUE(pool.parallelFor(100,
                                 [&](int64_t index, unsigned) {
                                   sum += index;
                                   return Status::success();
                                 })
                    .ok());
    ASSERT_EQ(sum, 4950);
  }
}

TEST(NumericThreadPool, ZeroMeansTheHardware) {
  EXPECT_GE(hardwareThreads(), 1u);
  EXPECT_EQ(ThreadPool().size(), hardwareThreads());
}

TEST(NumericStatus, MessagesAndValues) {
  EXPECT_TRUE(Status::success().ok());
  EXPECT_EQ(Status::success().message(), "");
  Status failure = Status::failure("a reason");
  EXPECT_FALSE(failure.ok());
  EXPECT_EQ(failure.message(), "a reason");
  Result<int> value(4);
  EXPECT_EQ(*value, 4);
  Result<int> none(failure);
  EXPECT_FALSE(none.ok());
  EXPECT_EQ(none.message(), "a reason");
}

} // namespace
