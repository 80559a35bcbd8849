// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function with its own stack, so that it can be suspended anywhere and resumed.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_COROUTINE_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_COROUTINE_H

#include <functional>
#include <memory>

namespace tilewright::simulator {

/// Runs `body`, on the thread that calls resume(). It must be resumed until it
/// is done.
class Coroutine {
public:
  explicit Coroutine(std::function<void()> body);
  ~Coroutine();

  /// Returns when the body calls pause() or returns.
  void resume();
  /// Called by the body only.
  void pause();
  bool isDone() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tilewright::simulator

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_COROUTINE_H
