// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The current step of a tool, on the last line of a terminal, if it takes longer than two seconds.

#ifndef TILEWRIGHT_LIB_DRIVER_PROGRESS_H
#define TILEWRIGHT_LIB_DRIVER_PROGRESS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <memory>

namespace tilewright {

/// Only one object at a time. The line is on standard error, if that is a terminal, and is removed
/// by the destructor. (The environment variable TILEWRIGHT_PROGRESS_DELAY sets another delay, in
/// milliseconds.)
class Progress {
public:
  /// With `isQuiet`, nothing is shown.
  Progress(llvm::StringRef tool, bool isQuiet);
  ~Progress();

  /// Names the step that begins: "variant 3 of 12". Shown at once if the delay is over.
  void show(const llvm::Twine &what);

  /// Clears the line before other output to the terminal; the next show(), or the next second,
  /// prints it again.
  static void hide();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_PROGRESS_H
