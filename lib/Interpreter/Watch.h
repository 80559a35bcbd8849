// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which program instance wrote an element: what a debugger calls a watchpoint.

#ifndef TILEWRIGHT_LIB_INTERPRETER_WATCH_H
#define TILEWRIGHT_LIB_INTERPRETER_WATCH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright {

/// Elements of the caller's arrays that are watched during one run. An instance wrote an element if
/// its bytes have changed when the instance has ended: so no operation that writes can be
/// forgotten, but one that writes what was there already is not seen.
class WatchList {
public:
  struct Element {
    const void *address = nullptr;
    size_t bytes = 0;
    std::vector<char> last;
    std::string writer; ///< the last one: "@kernel at r = 3, c = 0"
    unsigned numWriters = 0;
  };

  explicit WatchList(llvm::ArrayRef<std::pair<const void *, size_t>> addresses);

  /// Begins a run: forgets the writers.
  void start();
  /// Called after each instance of `kernel`, which has run at `point` of its grid.
  void note(mlir::Operation *kernel, llvm::ArrayRef<int64_t> point);

  llvm::ArrayRef<Element> getElements() const { return elements; }

private:
  std::vector<Element> elements;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_WATCH_H
