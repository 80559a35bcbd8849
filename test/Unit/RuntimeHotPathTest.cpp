// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A successful run allocates no host memory, and runs of several threads do not interfere.

#include "RuntimeAttentionBundle.h"
#include "RuntimeQuietDriver.h"

#include "runtime/CApiTesting.h"
#include "runtime/tilewright.h"

#include "gtest/gtest.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

// When inlined, the operators below look like a mismatch to GCC.
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace {
thread_local long numAllocations = 0;
}

// ThreadSanitizer has its own operators, and allocations need not be counted there.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TILEWRIGHT_COUNTS_NOTHING
#endif
#endif
#ifndef TILEWRIGHT_COUNTS_NOTHING
__attribute__((noinline)) void *operator new(size_t bytes) {
  ++numAllocations;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void *memory, size_t) noexcept { std::free(memory); }
#endif

namespace {

TEST(RuntimeHotPath, AllocatesNothing) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  DriverTable driver = quietTable();
  Result<AttentionForward> plan = quietPlan(driver);
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
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(*backwardBundle().bytes());
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  AttentionBackwardDesc desc;
  desc.headDim = 64;
  Result<AttentionBackward> plan = AttentionBackward::create(driver, *bundle, desc);
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

/// By name, through the C interface: a cache for which the plan has several kernels, windows that
/// are left out, and a scale in another type.
TEST(RuntimeHotPath, AllocatesNothingForArgumentsByName) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  DriverTable driver = quietTable();
  setDriverForTesting(&driver);
  std::string bytes = *featureBundle().bytes();
  tilewright_bundle *bundle = nullptr;
  tilewright_attention *plan = nullptr;
  ASSERT_EQ(tilewright_bundle_load(bytes.data(), bytes.size(), &bundle), TILEWRIGHT_OK);
  tilewright_attention_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_BF16;
  desc.head_dim = 64;
  desc.cached = 1;
  ASSERT_EQ(tilewright_attention_create(bundle, &desc, &plan), TILEWRIGHT_OK);
  ASSERT_EQ(tilewright_attention_prepare(plan, 0), TILEWRIGHT_OK) << tilewright_last_error();
  int64_t qExtents[] = {3, 8, 300, 64}, kExtents[] = {9, 16, 2, 64}, tableExtents[] = {3, 4};
  auto *memory = reinterpret_cast<void *>(uintptr_t(0x10000));
  tilewright_view q = {sizeof(q), memory, TILEWRIGHT_BF16, 4, qExtents, nullptr};
  tilewright_view k = {sizeof(k), memory, TILEWRIGHT_BF16, 4, kExtents, nullptr};
  tilewright_view table = {sizeof(table), memory, TILEWRIGHT_I32, 2, tableExtents, nullptr};
  tilewright_view lengths = {sizeof(lengths), memory, TILEWRIGHT_I32, 1, tableExtents, nullptr};
  double scale = 0.125;
  const std::pair<const char *, const tilewright_view *> views[] = {
      {"k", &k}, {"v", &k}, {"q", &q}, {"o", &q}, {"block_table", &table}, {"seq_lens", &lengths}};
  std::vector<tilewright_argument> list;
  for (auto [name, view] : views)
    list.push_back({sizeof(list[0]), name, view, nullptr, TILEWRIGHT_F32});
  list.push_back({sizeof(list[0]), "scale", nullptr, &scale, TILEWRIGHT_F64});
  numQuietLaunches = 0;
  long before = numAllocations;
  bool ok = true;
  for (int i = 0; i < 100; ++i) {
    kExtents[1] = i % 2 ? 16 : 64;
    uint64_t size = 0;
    ok &= !tilewright_attention_workspace_size(plan, list.data(), list.size(), 0, &size);
    ok &= !tilewright_attention_run(plan, list.data(), list.size(), nullptr, 0, nullptr);
  }
  long allocated = numAllocations - before;
  EXPECT_TRUE(ok) << tilewright_last_error();
  EXPECT_EQ(allocated, 0);
  EXPECT_EQ(numQuietLaunches, 100u);
  tilewright_attention_destroy(plan);
  tilewright_bundle_close(bundle);
  setDriverForTesting(nullptr);
}

TEST(RuntimeHotPath, ServesSeveralThreads) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  DriverTable driver = quietTable();
  driver.cuLaunchKernel = [](cuda::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, cuda::Stream, void **params,
                             void **) -> cuda::Result {
    // Each thread passes its own number of rows in q; its copy in o must be equal.
    return *static_cast<int32_t *>(params[3]) == *static_cast<int32_t *>(params[30]) ? 0 : 1;
  };
  driver.cuGetErrorName = [](cuda::Result, const char **) -> cuda::Result { return 1; };
  driver.cuGetErrorString = [](cuda::Result, const char **) -> cuda::Result { return 1; };
  Result<AttentionForward> plan = quietPlan(driver);
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

/// The last values that this thread passed to the driver.
struct LastLaunch {
  cuda::Function function;
  unsigned grid;
  uint64_t address;
  int64_t stride;
  int32_t keys;
  float scale;
  uint64_t lse;
  bool areMapsRight;
};
thread_local LastLaunch lastLaunch;

template <typename T> T paramAt(void **params, size_t index) {
  return *static_cast<T *>(params[index]);
}

/// Replaces a map over a view of rank 4: every word depends on all of its contents.
uint64_t numberOf(uint64_t address, const uint64_t *extents, const uint64_t *strides) {
  for (int i = 0; i < 4; ++i)
    address = address * 1000003 + extents[i];
  for (int i = 0; i < 3; ++i)
    address = address * 1000003 + strides[i];
  return address;
}

/// Whether the maps over q, k, v and o, after lse and three scalars, belong to their views.
bool areMapsOfViews(void **params) {
  bool ok = true;
  for (size_t view = 0; view < 4; ++view) {
    uint64_t extents[4], strides[3];
    for (size_t i = 0; i < 4; ++i)
      extents[i] = uint64_t(paramAt<int32_t>(params, 9 * view + 4 - i));
    for (size_t i = 0; i < 3; ++i)
      strides[i] = 2 * uint64_t(paramAt<int64_t>(params, 9 * view + 7 - i));
    auto map = paramAt<cuda::TensorMap>(params, 46 + view);
    for (uint64_t word : map.opaque)
      ok &= word == numberOf(paramAt<uint64_t>(params, 9 * view), extents, strides);
  }
  return ok;
}

/// A driver that records each launch; the function of an entry is its first letter.
DriverTable keepingTable() {
  DriverTable driver = quietTable();
  driver.cuTensorMapEncodeTiled = [](cuda::TensorMap *map, int, uint32_t, void *address,
                                     const uint64_t *extents, const uint64_t *strides,
                                     const uint32_t *, const uint32_t *, int, int, int,
                                     int) -> cuda::Result {
    for (uint64_t &word : map->opaque)
      word = numberOf(reinterpret_cast<uintptr_t>(address), extents, strides);
    return 0;
  };
  driver.cuModuleGetFunction = [](cuda::Function *function, cuda::Module,
                                  const char *entry) -> cuda::Result {
    return *function = reinterpret_cast<cuda::Function>(uintptr_t(*entry)), 0;
  };
  driver.cuLaunchKernel = [](cuda::Function function, unsigned grid, unsigned, unsigned, unsigned,
                             unsigned, unsigned, unsigned, cuda::Stream, void **params,
                             void **) -> cuda::Result {
    lastLaunch = {function,
                  grid,
                  paramAt<uint64_t>(params, 0),
                  paramAt<int64_t>(params, 5),
                  paramAt<int32_t>(params, 9 + 3),
                  paramAt<float>(params, 43),
                  paramAt<uint64_t>(params, 36),
                  uintptr_t(function) != 'a' || areMapsOfViews(params)};
    return 0;
  };
  return driver;
}

/// quietAttention, and code for arguments that its tensor maps and requirements exclude.
Result<AttentionForward> twoForms(const DriverTable &driver) {
  BundleWriter writer = quietAttention();
  KernelSpec general = writer.manifest.kernels[0];
  general.entry = "general";
  general.tensorMaps.clear();
  general.requirements.clear();
  writer.manifest.kernels.push_back(general);
  AttentionForwardDesc desc;
  desc.headDim = 128;
  return AttentionForward::create(driver, *Bundle::fromBytes(*writer.bytes()), desc);
}

/// Runs that differ from the previous one in one property; checks that the driver received all of
/// them.
bool runChangingArguments(const AttentionForward &plan, int64_t rows) {
  bool ok = true;
  AttentionForwardArguments arguments = quietArguments();
  arguments.q.extents[2] = arguments.o.extents[2] = rows;
  auto check = [&](char entry) {
    lastLaunch = {};
    ok &= plan.run(arguments, 0, 0, nullptr).ok();
    const Argument &q = arguments.q;
    ok &= lastLaunch.function == reinterpret_cast<cuda::Function>(uintptr_t(entry)) &&
          lastLaunch.grid == (q.extents[2] + 127) / 128 * q.extents[0] * q.extents[1] &&
          lastLaunch.address == q.bits && lastLaunch.stride == q.strides[0] &&
          lastLaunch.keys == arguments.k.extents[2] && lastLaunch.scale == arguments.scale &&
          lastLaunch.lse == arguments.lse.bits && lastLaunch.areMapsRight;
  };
  auto rejects = [&] { ok &= plan.run(arguments, 0, 0, nullptr).code() == Code::InvalidArgument; };
  check('a');
  arguments.q.extents[2] = arguments.o.extents[2] = rows + 128;
  check('a');
  arguments.o.extents[2] = rows;
  rejects();
  arguments.o.extents[2] = rows + 128;
  arguments.q.bits += 256;
  check('a');
  arguments.q.bits += 2; // not aligned
  check('g');
  arguments.q.bits += 1; // not even to an element
  rejects();
  arguments.q.bits -= 3;
  check('a');
  arguments.q.strides[0] += 8;
  check('a');
  arguments.q.strides[0] += 1;
  check('g');
  arguments.q.strides[0] -= 1;
  arguments.q.strides[3] = 2;
  check('g');
  arguments.q.strides[3] = 1;
  arguments.scale = 0.5f;
  check('a');
  arguments.lse = Argument::dense(0x7000, tilewright::ElementType::F32, {4, 16, rows + 128});
  check('a');
  arguments.lse.extents[1] = 8;
  rejects();
  arguments.lse = Argument::absent();
  arguments.k.extents[2] = arguments.v.extents[2] = 17;
  check('a');
  arguments.v.extents[2] = 16;
  rejects();
  return ok;
}

TEST(RuntimeHotPath, SeesEachChangeOfArguments) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  DriverTable driver = keepingTable();
  Result<AttentionForward> plan = twoForms(driver);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_TRUE(plan->prepare(0).ok());
  EXPECT_TRUE(runChangingArguments(*plan, 4096));
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i)
        if (!runChangingArguments(*plan, 100 + 1000 * t + i))
          ++failures;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(RuntimeHotPath, SeesEachChangeInABackward) {
  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  static thread_local unsigned grids[3];
  static thread_local size_t numLaunches, numFilled;
  static thread_local uint64_t filled;
  DriverTable driver = quietTable();
  driver.cuMemsetD32Async = [](cuda::DevicePtr address, unsigned, size_t words,
                               cuda::Stream) -> cuda::Result {
    filled = address;
    numFilled = words;
    return 0;
  };
  driver.cuLaunchKernel = [](cuda::Function, unsigned grid, unsigned, unsigned, unsigned, unsigned,
                             unsigned, unsigned, cuda::Stream, void **, void **) -> cuda::Result {
    grids[numLaunches++ % 3] = grid;
    return 0;
  };
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(*backwardBundle().bytes());
  ASSERT_TRUE(bundle.ok()) << bundle.status().message();
  AttentionBackwardDesc desc;
  desc.headDim = 64;
  Result<AttentionBackward> plan = AttentionBackward::create(driver, *bundle, desc);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_TRUE(plan->prepare(0).ok());

  auto runs = [&](unsigned first) {
    bool ok = true;
    Argument captures[2] = {Argument::dense(0xa0000, tilewright::ElementType::F32, {8}),
                            Argument::absent()};
    AttentionBackwardArguments arguments = backwardArguments(captures);
    for (unsigned rows = first; rows < first + 200; rows += 50) {
      for (Argument *view :
           {&arguments.q, &arguments.o, &arguments.dO, &arguments.dQ, &arguments.lse})
        view->extents[2] = rows;
      uint64_t bytes = 0, deltaBytes = (uint64_t(16) * rows * 4 + 255) / 256 * 256;
      ok &= plan->workspaceSize(arguments, 0, bytes).ok() && bytes == deltaBytes + rows * 4096;
      ok &= !plan->run(arguments, 0x100000, bytes - 256, nullptr).ok();
      numLaunches = 0;
      ok &= plan->run(arguments, 0x100000 + 256 * rows, bytes, nullptr).ok();
      unsigned blocks = (rows + 63) / 64 * 16;
      ok &= numLaunches == 3 && grids[0] == blocks && grids[1] == 8 * 4 && grids[2] == blocks;
      ok &= filled == 0x100000 + 256 * rows + deltaBytes && numFilled == rows * 1024;
    }
    return ok;
  };
  EXPECT_TRUE(runs(300));
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 300; ++i)
        failures += !runs(1 + 1000 * t + i);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
}

} // namespace
