// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Faults below the runtime: a driver that fails at any call, a lost device or context, a fork, a
// full disk, and other users of the cache. Each gives a Status and releases everything, and
// operations that can be repeated succeed afterwards.

#include "RuntimeTesting.h"

#include "RuntimeBackwardBundle.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

constexpr cuda::Result notInitialized = 3, illegalAddress = 700, contextIsDestroyed = 709;

class Faults : public RuntimeTest {
protected:
  AttentionBackward create() {
    AttentionBackwardDesc desc;
    desc.type = ElementType::BF16;
    desc.headDim = 64;
    Result<AttentionBackward> plan =
        AttentionBackward::create(driver, read(backwardBundle()), desc);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return std::move(*plan);
  }
  Status run(const AttentionBackward &plan, cuda::Stream stream = streamOf(0)) {
    return plan.run(backwardArguments(captures), 0x100000, workspaceBytes, stream);
  }
  void expectNothingHeld() {
    EXPECT_EQ(fake().loaded, 0);
    EXPECT_EQ(fake().retained, 0);
    EXPECT_TRUE(fake().contexts.empty());
  }

  Argument captures[2] = {Argument::dense(0xa0000, ElementType::F32, {8}), Argument::absent()};
};

/// A program of three launches and a fill, from the first call of prepare to the last of run.
TEST_F(Faults, AtEachCallOfTheDriver) {
  int numCalls = 0, numLaunches = 0;
  {
    AttentionBackward plan = create();
    EXPECT_OK(plan.prepare(0));
    EXPECT_OK(run(plan));
    numLaunches = int(fake().launches.size());
    numCalls = fake().numCalls - 1; // the last call pops the context, which cannot be reported
  }
  EXPECT_EQ(numLaunches, 3);
  EXPECT_GT(numCalls, 25);
  for (cuda::Result result : {cuda::Result(cuda::ErrorOutOfMemory), illegalAddress})
    for (int at = 0; at < numCalls; ++at) {
      fake() = FakeDriver();
      fake().failsFrom = fake().failsTo = at;
      fake().failure = result;
      {
        AttentionBackward plan = create();
        Status status = plan.prepare(0);
        if (status.ok())
          status = run(plan);
        if (fake().failedCall != "cuCtxPopCurrent") {
          EXPECT_EQ(status.code(),
                    result == cuda::ErrorOutOfMemory ? Code::OutOfMemory : Code::Driver)
              << at << ": " << status.message();
          EXPECT_EQ(status.driverCall(), fake().failedCall) << at;
          EXPECT_EQ(status.driverResult(), result);
        } else {
          fake().contexts.clear();
        }
        // The fault occurred once: both can be repeated.
        EXPECT_OK(plan.prepare(0));
        EXPECT_OK(run(plan));
      }
      expectNothingHeld();
    }
}

TEST_F(Faults, MemoryIsShortBetweenLaunches) {
  {
    AttentionBackward plan = create();
    EXPECT_OK(plan.prepare(0));
    int begin = fake().numCalls;
    EXPECT_OK(run(plan));
    int callsOfRun = fake().numCalls - begin;
    fake().launches.clear();
    // The last calls are three launches and the pop.
    fake().failsFrom = fake().failsTo = fake().numCalls + callsOfRun - 3;
    fake().failure = cuda::ErrorOutOfMemory;
    EXPECT_FAILURE(run(plan), Code::OutOfMemory,
                   "cannot launch kernel 'keys' on a grid of 32 x 1 x 1: cuLaunchKernel returned "
                   "CUDA_ERROR_OUT_OF_MEMORY (2), as told");
    EXPECT_EQ(fake().launches.size(), 1u) << "what is on the stream stays there";
    EXPECT_OK(run(plan));
    EXPECT_EQ(fake().launches.size(), 4u);
  }
  expectNothingHeld();
}

/// From the second launch on, every call fails, as with a lost device.
TEST_F(Faults, TheDeviceIsLost) {
  {
    AttentionBackward plan = create();
    EXPECT_OK(plan.prepare(0));
    fake().failures["cuLaunchKernel"] = illegalAddress;
    EXPECT_FAILURE(run(plan), Code::Driver,
                   "cannot launch kernel 'delta' on a grid of 80 x 1 x 1: cuLaunchKernel returned "
                   "CUDA_ERROR_FAKE (700), as told");
    fake().failsFrom = 0;
    fake().failsTo = INT32_MAX;
    fake().failure = illegalAddress;
    EXPECT_FAILURE(run(plan), Code::Driver,
                   "cannot find the current context: cuCtxGetCurrent returned CUDA_ERROR_FAKE "
                   "(700), as told");
    EXPECT_FAILURE(plan.prepare(1), Code::Driver,
                   "cannot count the devices: cuDeviceGetCount returned CUDA_ERROR_FAKE (700), as "
                   "told");
    EXPECT_OK(plan.prepare(0)); // already prepared
  }
  // Each was released once, regardless of the driver's result.
  expectNothingHeld();
}

TEST_F(Faults, TheContextIsDestroyedUnderAPlan) {
  {
    AttentionBackward plan = create();
    EXPECT_OK(plan.prepare(0));
    fake().failures["cuCtxPushCurrent"] = contextIsDestroyed;
    EXPECT_FAILURE(run(plan), Code::Driver,
                   "cannot make a context current: cuCtxPushCurrent returned CUDA_ERROR_FAKE "
                   "(709), as told");
    EXPECT_EQ(fake().calls["cuCtxPopCurrent"], 1) << "that of prepare only";
    // A stream whose context is destroyed.
    fake().failures = {{"cuStreamGetCtx", contextIsDestroyed}};
    EXPECT_FAILURE(run(plan), Code::Driver,
                   "cannot find the context of the stream: cuStreamGetCtx returned "
                   "CUDA_ERROR_FAKE (709), as told");
    // The current context, which is destroyed but current.
    fake().contexts = {contextOf(0)};
    fake().failures = {{"cuMemsetD32Async", contextIsDestroyed}};
    EXPECT_FAILURE(run(plan, nullptr), Code::Driver,
                   "cannot fill workspace 'dq_sum' of program 'attention_backward': "
                   "cuMemsetD32Async returned CUDA_ERROR_FAKE (709), as told");
    EXPECT_EQ(fake().contexts, std::vector<cuda::Context>{contextOf(0)});
    EXPECT_TRUE(fake().launches.empty());
    fake().contexts.clear();
  }
  expectNothingHeld();
}

/// The driver does not work in a child of a process that has used it. There, a plan fails and can
/// be destroyed; in the parent it still works.
TEST_F(Faults, AForkAfterPrepare) {
  auto plan = std::make_unique<AttentionBackward>(create());
  EXPECT_OK(plan->prepare(0));
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    fake().failsFrom = 0;
    fake().failsTo = INT32_MAX;
    fake().failure = notInitialized;
    Status ran = run(*plan), prepared = plan->prepare(1);
    bool isRight = ran.code() == Code::Driver && ran.driverResult() == notInitialized &&
                   prepared.driverResult() == notInitialized;
    plan.reset();
    _exit(isRight && fake().loaded == 0 ? 0 : 1);
  }
  int result = -1;
  EXPECT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  EXPECT_OK(run(*plan));
  plan.reset();
  expectNothingHeld();
}

class CacheFaults : public RuntimeTest {
protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    directory = ::testing::TempDir() + "/runtime-faults-XXXXXX";
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
  }
  void TearDown() override {
    std::filesystem::remove_all(directory);
    setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::directory_iterator(directory))
      found.push_back(entry.path().filename());
    return found;
  }
  /// Repeated stores and lookups. Regardless of their order, a file is complete.
  bool hammer(char letter) const {
    const std::string code(20000, letter);
    for (int i = 0; i < 50; ++i) {
      if (!CubinCache(directory).store(key, code).ok())
        return false;
      Result<std::optional<std::string>> found = CubinCache(directory).lookup(key);
      if (!found || !*found || (*found)->size() != code.size() ||
          (*found)->find_first_not_of((*found)->front()) != std::string::npos)
        return false;
    }
    return true;
  }

  std::string directory;
  CubinKey key{1, 2, 9, 0, 12040};
};

TEST_F(CacheFaults, ProcessesShareIt) {
  pid_t children[3];
  for (int i = 0; i < 3; ++i) {
    children[i] = fork();
    ASSERT_GE(children[i], 0);
    if (children[i] == 0)
      _exit(hammer(char('a' + i)) ? 0 : 1);
  }
  for (pid_t child : children) {
    int result = -1;
    EXPECT_EQ(waitpid(child, &result, 0), child);
    EXPECT_EQ(result, 0);
  }
  EXPECT_EQ(files().size(), 1u) << "nothing but the code is left";
}

TEST_F(CacheFaults, ThreadsShareIt) {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { failures += !hammer(char('a' + i)); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(files().size(), 1u);
}

/// A limit on the size of files simulates a full disk: a write is truncated, then fails.
TEST_F(CacheFaults, TheDiskIsFull) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit full = before;
  full.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  CubinCache cache(directory);
  Status stored = cache.store(key, std::string(100000, 'x'));
  // A bundle is written in the same way.
  Status written = writeFileAtomically(directory + "/b.twb", std::string(100000, 'x'));
  // An operation is prepared without the cache.
  setenv("TILEWRIGHT_CACHE_DIR", directory.c_str(), 1);
  fake().linkedCubin = std::string(100000, 'x');
  Result<Operation> operation = Operation::create(driver, read(scaleBundle()), "scale");
  Status prepared = operation->prepare(0);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  EXPECT_FAILURE(stored, Code::Io, "cannot write '" + cache.path(key) + "': File too large");
  EXPECT_FAILURE(written, Code::Io, "cannot write '" + directory + "/b.twb': File too large");
  EXPECT_OK(prepared);
  EXPECT_EQ(files(), std::vector<std::string>()) << "no part of a file is left";
}

TEST_F(CacheFaults, AFileIsNone) {
  CubinCache cache(directory);
  std::string path = cache.path(key);
  // Opening a pipe would wait for a writer forever, and a device never ends.
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FAILURE(cache.lookup(key).status(), Code::Io,
                 "cached code '" + path + "' must be a regular file, but is none");
  std::remove(path.c_str());
  ASSERT_EQ(symlink("/dev/zero", path.c_str()), 0);
  EXPECT_FAILURE(cache.lookup(key).status(), Code::Io,
                 "cached code '" + path + "' must be a regular file, but is none");
  EXPECT_OK(cache.store(key, "code"));
  EXPECT_EQ(**cache.lookup(key), "code") << "it takes the place of that";
}

} // namespace
