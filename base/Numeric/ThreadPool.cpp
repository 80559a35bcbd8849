// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Workers sleep between loops; within one they take indices from a shared counter.

#include "base/Numeric/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

using namespace tilewright;
using namespace tilewright::numeric;

using Body = std::function<Status(int64_t index, unsigned thread)>;

struct ThreadPool::Impl {
  std::vector<std::thread> workers;

  // Protected by `mutex`.
  std::mutex mutex;
  std::condition_variable started, finished;
  uint64_t generation = 0; ///< number of the current loop; workers wait for the next one
  unsigned running = 0;    ///< number of workers that have not finished it
  bool isClosing = false;
  Status failure;
  int64_t failedIndex = 0;

  // Set before a loop starts.
  const Body *body = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::atomic<bool> isStopped{false};

  void work(unsigned thread) {
    while (!isStopped.load(std::memory_order_relaxed)) {
      int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count)
        return;
      Status status = (*body)(index, thread);
      if (status.ok())
        continue;
      isStopped.store(true, std::memory_order_relaxed);
      std::lock_guard<std::mutex> lock(mutex);
      if (failure.ok() || index < failedIndex) {
        failure = std::move(status);
        failedIndex = index;
      }
    }
  }

  void workerMain(unsigned thread) {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      started.wait(lock, [&] { return isClosing || generation != seen; });
      if (isClosing)
        return;
      seen = generation;
      lock.unlock();
      work(thread);
      lock.lock();
      if (--running == 0)
        finished.notify_one();
    }
  }
};

unsigned tilewright::numeric::hardwareThreads() {
  return std::max(1u, std::thread::hardware_concurrency());
}

ThreadPool::ThreadPool(unsigned threads) : impl(std::make_unique<Impl>()) {
  unsigned wanted = threads ? threads : hardwareThreads();
  try {
    for (unsigned thread = 1; thread < wanted; ++thread)
      impl->workers.emplace_back([this, thread] { impl->workerMain(thread); });
  } catch (const std::system_error &) {
    // If the system provides no more threads, the existing ones do the work.
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(impl->mutex);
    impl->isClosing = true;
  }
  impl->started.notify_all();
  for (std::thread &worker : impl->workers)
    worker.join();
}

unsigned ThreadPool::size() const { return unsigned(impl->workers.size()) + 1; }

Status ThreadPool::parallelFor(int64_t count, const Body &body) {
  if (count <= 0)
    return Status::success();
  {
    std::lock_guard<std::mutex> lock(impl->mutex);
    impl->body = &body;
    impl->count = count;
    impl->next.store(0, std::memory_order_relaxed);
    impl->isStopped.store(false, std::memory_order_relaxed);
    impl->failure = Status::success();
    impl->running = unsigned(impl->workers.size());
    ++impl->generation;
  }
  impl->started.notify_all();
  impl->work(0);
  std::unique_lock<std::mutex> lock(impl->mutex);
  impl->finished.wait(lock, [&] { return impl->running == 0; });
  return std::move(impl->failure);
}

Status tilewright::numeric::parallelFor(int64_t count, unsigned threads, const Body &body) {
  int64_t wanted = threads ? threads : hardwareThreads();
  return ThreadPool(unsigned(std::clamp<int64_t>(count, 1, wanted))).parallelFor(count, body);
}
