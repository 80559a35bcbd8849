// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Threads that share the indices of a loop.

#ifndef TILEWRIGHT_BASE_NUMERIC_THREADPOOL_H
#define TILEWRIGHT_BASE_NUMERIC_THREADPOOL_H

#include "base/Support/Status.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace tilewright::numeric {

/// The processors this process may use, at least 1.
unsigned hardwareThreads();

/// A fixed set of threads. Not to be used from several threads at once, nor from inside one of its
/// own loops.
class ThreadPool {
public:
  /// Zero means hardwareThreads(). The calling thread is one of them: a pool of 1 starts none.
  explicit ThreadPool(unsigned threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  unsigned size() const;

  /// Calls body(index, thread) for every index in [0, count), thread in [0, size()). Indices are
  /// distributed one by one in increasing order. After a failure no further index is started; of
  /// several failures the one with the smallest index is returned.
  Status parallelFor(int64_t count,
                     const std::function<Status(int64_t index, unsigned thread)> &body);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// The same on threads made for this call; no more than `count` of them. Zero means
/// hardwareThreads().
Status parallelFor(int64_t count, unsigned threads,
                   const std::function<Status(int64_t index, unsigned thread)> &body);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_THREADPOOL_H
