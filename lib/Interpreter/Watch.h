// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the program instance that wrote an element: a watchpoint.

#ifndef TILEWRIGHT_LIB_INTERPRETER_WATCH_H
#define TILEWRIGHT_LIB_INTERPRETER_WATCH_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright {

/// Elements of the caller's arrays that are watched during one run. An instance counts as a writer
/// if the element's bytes differ after the instance. This covers every operation that writes, but
/// not writes that leave the bytes unchanged.
class WatchList {
public:
  struct Element {
    const void *address = nullptr;
    size_t bytes = 0;
    std::vector<char> last;
    std::string writer; ///< the last writer: "@kernel at r = 3, c = 0"
    unsigned numWriters = 0;
  };

  explicit WatchList(llvm::ArrayRef<std::pair<const void *, size_t>> addresses);

  /// Begins a run: forgets the writers.
  void start();
  /// Called after each instance of `kernel`, with its grid point.
  void note(mlir::Operation *kernel, llvm::ArrayRef<int64_t> point);

  llvm::ArrayRef<Element> getElements() const { return elements; }

private:
  std::vector<Element> elements;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_WATCH_H
