// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implemented with <ucontext.h>: a simulated block switches between its roles some hundred thousand
// times, and a switch of threads takes longer than the work in between. Sanitizers support threads
// better than stack switches, so with them a coroutine is a thread, and one runs at a time.

#include "lib/Interpreter/Simulator/Coroutine.h"

#include "llvm/Support/Compiler.h"
#include "llvm/Support/ErrorHandling.h"

#if defined(__linux__) && !LLVM_ADDRESS_SANITIZER_BUILD && !LLVM_THREAD_SANITIZER_BUILD &&         \
    !LLVM_MEMORY_SANITIZER_BUILD
#define TILEWRIGHT_COROUTINES_BY_CONTEXT 1
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#else
#define TILEWRIGHT_COROUTINES_BY_CONTEXT 0
#include <condition_variable>
#include <mutex>
#include <thread>
#endif

namespace tilewright::simulator {

#if TILEWRIGHT_COROUTINES_BY_CONTEXT

struct Coroutine::Impl {
  /// The stack size of a thread; pages are allocated at the first access.
  static constexpr size_t stackBytes = size_t(8) << 20;

  explicit Impl(std::function<void()> body) : body(std::move(body)) {
    stack = mmap(nullptr, stackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    // The lowest page is protected, so that an overflow is detected.
    if (stack == MAP_FAILED || mprotect(stack, static_cast<size_t>(getpagesize()), PROT_NONE) != 0)
      llvm::report_bad_alloc_error("no memory for the stack of a role");
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = stackBytes;
    inside.uc_link = &outside; // where execution continues when `start` returns
    auto address = reinterpret_cast<uintptr_t>(this);
    // makecontext passes numbers of type int.
    makecontext(&inside, reinterpret_cast<void (*)()>(&start), 2, static_cast<unsigned>(address),
                static_cast<unsigned>(address >> 32));
  }
  ~Impl() { munmap(stack, stackBytes); }

  static void start(unsigned low, unsigned high) {
    auto *self = reinterpret_cast<Impl *>(uintptr_t(low) | uintptr_t(high) << 32);
    self->body();
    self->isDone = true;
  }
  void resume() { swapcontext(&outside, &inside); }
  void pause() { swapcontext(&inside, &outside); }

  std::function<void()> body;
  bool isDone = false;

private:
  void *stack;
  ucontext_t inside, outside;
};

#else

struct Coroutine::Impl {
  explicit Impl(std::function<void()> body)
      : body(std::move(body)), thread([this] {
          wait(/*runs=*/true);
          this->body();
          isDone = true;
          pass(/*runs=*/false);
        }) {}
  ~Impl() { thread.join(); }

  void resume() {
    pass(/*runs=*/true);
    wait(/*runs=*/false);
  }
  void pause() {
    pass(/*runs=*/false);
    wait(/*runs=*/true);
  }

  std::function<void()> body;
  bool isDone = false;

private:
  void pass(bool runs) {
    std::lock_guard lock(mutex);
    isRunning = runs;
    changed.notify_one();
  }
  void wait(bool runs) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return isRunning == runs; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool isRunning = false;
  std::thread thread; // the last member: it uses the others
};

#endif

Coroutine::Coroutine(std::function<void()> body) : impl(std::make_unique<Impl>(std::move(body))) {}
Coroutine::~Coroutine() = default;
void Coroutine::resume() { impl->resume(); }
void Coroutine::pause() { impl->pause(); }
bool Coroutine::isDone() const { return impl->isDone; }

} // namespace tilewright::simulator
