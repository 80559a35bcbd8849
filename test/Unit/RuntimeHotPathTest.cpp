// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A run that succeeds allocates nothing on the host, and runs of several threads do not disturb
// each other.

#include "RuntimeBackwardBundle.h"
#include "RuntimeQuietDriver.h"

#include "gtest/gtest.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

// The operators below, once they are inlined, look like a mismatch to GCC.
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace {
thread_local long numAllocations = 0;
}

__attribute__((noinline)) void *operator new(size_t bytes) {
  ++numAllocations;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

TEST(RuntimeHotPath, AllocatesNothing) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  DriverTable driver = quietTable();
  Expected<AttentionForward> plan = quietPlan(driver);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_TRUE(plan->prepare(0).ok());
  AttentionForwardArguments arguments = quietArguments();
  auto stream = reinterpret_cast<cuda::Stream>(uintptr_t(0x5000));
  numQuietLaunches = 0;
  long before = numAllocations;
  bool ok = true;
  for (int i = 0; i < 100; ++i)
    ok &= plan->run(arguments, 0, 0, stream).ok();
  long allocated = numAllocations - before;
  EXPECT_TRUE(ok);
  EXPECT_EQ(allocated, 0);
  EXPECT_EQ(numQuietLaunches, 100u);
}

TEST(RuntimeHotPath, AllocatesNothingInABackward) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  DriverTable driver = quietTable();
  Expected<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(*backwardBundle().bytes());
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  AttentionBackwardDesc desc;
  desc.headDim = 64;
  Expected<AttentionBackward> plan = AttentionBackward::create(driver, *bundle, desc);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_TRUE(plan->prepare(0).ok());
  Argument captures[2] = {Argument::dense(0xa0000, tilewright::ElementType::F32, {8}),
                          Argument::absent()};
  AttentionBackwardArguments arguments = backwardArguments(captures);
  numQuietLaunches = 0;
  long before = numAllocations;
  bool ok = true;
  for (int i = 0; i < 100; ++i) {
    uint64_t bytes = 0;
    ok &= plan->workspaceSize(arguments, 0, bytes).ok();
    ok &= plan->run(arguments, 0x100000, bytes, nullptr).ok();
  }
  long allocated = numAllocations - before;
  EXPECT_TRUE(ok);
  EXPECT_EQ(allocated, 0);
  EXPECT_EQ(numQuietLaunches, 300u);
}

TEST(RuntimeHotPath, ServesSeveralThreads) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  DriverTable driver = quietTable();
  driver.cuLaunchKernel = [](cuda::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, cuda::Stream, void **params,
                             void **) -> cuda::Result {
    // Each thread passes its own number of rows in q; its copy in o must be the same.
    return *static_cast<int32_t *>(params[3]) == *static_cast<int32_t *>(params[30]) ? 0 : 1;
  };
  driver.cuGetErrorName = [](cuda::Result, const char **) -> cuda::Result { return 1; };
  driver.cuGetErrorString = [](cuda::Result, const char **) -> cuda::Result { return 1; };
  Expected<AttentionForward> plan = quietPlan(driver);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      if (!plan->prepare(0).ok())
        ++failures;
      AttentionForwardArguments arguments = quietArguments();
      arguments.q.extents[2] = arguments.o.extents[2] = 100 + t;
      for (int i = 0; i < 1000; ++i)
        if (!plan->run(arguments, 0, 0, nullptr).ok())
          ++failures;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
}

} // namespace
