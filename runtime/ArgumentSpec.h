// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arguments of a kernel or program, as a bundle declares them.

#ifndef TILEWRIGHT_RUNTIME_ARGUMENTSPEC_H
#define TILEWRIGHT_RUNTIME_ARGUMENTSPEC_H

#include "runtime/Argument.h"

#include <optional>
#include <string>
#include <vector>

namespace tilewright::runtime {

/// An argument of a kernel or program.
struct ArgumentSpec {
  std::string name;
  bool isView = true;
  ElementType type = ElementType::F32;
  std::vector<int64_t> extents; // extents of a view; -1: any
  bool isOptional = false;      // views only
  bool isCapture = false;       // belongs to a function that replaced a default, not to the kernel
  bool isWritten = false;       // the code writes to this view
  std::optional<Argument> byDefault; // what a run that gets no value of this scalar takes

  static ArgumentSpec view(std::string name, ElementType type, std::vector<int64_t> extents,
                           bool isOptional = false) {
    return {std::move(name), true, type, std::move(extents), isOptional, false, false, {}};
  }
  static ArgumentSpec scalar(std::string name, ElementType type,
                             std::optional<Argument> byDefault = {}) {
    return {std::move(name), false, type, {}, false, false, false, byDefault};
  }
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ARGUMENTSPEC_H
