// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which arguments of an entry its code writes.

#ifndef TILEWRIGHT_LIB_BUNDLE_WRITTENVIEWS_H
#define TILEWRIGHT_LIB_BUNDLE_WRITTENVIEWS_H

#include "mlir/IR/Value.h"

namespace tilewright {

/// Whether code stores or adds to the view, an argument of a kernel or program, mapped or not:
/// directly, through a part of it, or in a kernel that the program launches.
bool isWritten(mlir::Value view);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_BUNDLE_WRITTENVIEWS_H
