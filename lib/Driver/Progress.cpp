// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// show() prints by itself when the delay is over. A thread prints earlier texts, and the seconds,
// since a long step may not return to the caller for a while.

#include "lib/Driver/Progress.h"

#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tilewright {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto defaultDelay = std::chrono::milliseconds(2000);
constexpr auto interval = std::chrono::milliseconds(1000);
constexpr llvm::StringLiteral clearLine = "\r\033[K";

std::chrono::milliseconds getDelay() {
  unsigned number;
  std::optional<std::string> text = llvm::sys::Process::GetEnv("TILEWRIGHT_PROGRESS_DELAY");
  if (!text || llvm::StringRef(*text).getAsInteger(10, number))
    return defaultDelay;
  return std::chrono::milliseconds(number);
}

} // namespace

struct Progress::Impl {
  explicit Impl(llvm::StringRef tool) : tool(tool.str()), due(Clock::now() + getDelay()) {}

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (!isDone) {
      if (Clock::now() < due) {
        changed.wait_until(lock, due, [&] { return isDone; });
        continue;
      }
      print();
      changed.wait_for(lock, interval, [&] { return isDone; });
    }
  }
  void print() {
    if (text.empty())
      return;
    auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start).count();
    llvm::errs() << clearLine << tool << ": " << text << " (" << seconds << " s)";
    llvm::errs().flush();
    isShown = true;
  }
  void hide() {
    if (isShown)
      llvm::errs() << clearLine;
    isShown = false;
  }

  std::string tool, text;
  Clock::time_point start = Clock::now(), due;
  bool isDone = false, isShown = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::thread thread;

  static Impl *current; ///< the one that is displayed
};

Progress::Impl *Progress::Impl::current = nullptr;

Progress::Progress(llvm::StringRef tool, bool isQuiet) {
  if (isQuiet || !llvm::sys::Process::StandardErrIsDisplayed())
    return;
  impl = std::make_unique<Impl>(tool);
  Impl::current = impl.get();
  impl->thread = std::thread([this] { impl->run(); });
}

Progress::~Progress() {
  if (!impl)
    return;
  {
    std::lock_guard<std::mutex> lock(impl->mutex);
    impl->isDone = true;
  }
  impl->changed.notify_one();
  impl->thread.join();
  impl->hide();
  Impl::current = nullptr;
}

void Progress::show(const llvm::Twine &what) {
  if (!impl)
    return;
  std::lock_guard<std::mutex> lock(impl->mutex);
  impl->text = what.str();
  if (Clock::now() >= impl->due)
    impl->print();
}

void Progress::hide() {
  if (Impl *impl = Impl::current) {
    std::lock_guard<std::mutex> lock(impl->mutex);
    impl->hide();
  }
}

} // namespace tilewright
