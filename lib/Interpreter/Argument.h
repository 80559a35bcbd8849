// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arguments of a run, as the caller passes them.

#ifndef TILEWRIGHT_LIB_INTERPRETER_ARGUMENT_H
#define TILEWRIGHT_LIB_INTERPRETER_ARGUMENT_H

#include "base/Numeric/ElementType.h"

#include "llvm/ADT/SmallVector.h"

#include <variant>

namespace tilewright {

/// An array of the caller. Element (i0, i1, ...) is at data + (i0 * strides[0] + ...) elements;
/// strides may be zero or negative. `data` may be null only if there are no elements. No alignment
/// is required, except for arrays that a kernel adds to atomically.
struct ArrayArgument {
  ElementType type = ElementType::F32;
  llvm::SmallVector<int64_t> shape, strides;
  void *data = nullptr;
};

/// An array for a view; for a scalar, a double for a float type and an int64_t for an integer type
/// (a float scalar takes either).
using Argument = std::variant<ArrayArgument, double, int64_t>;

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_ARGUMENT_H
