// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_LIB_SUPPORT_MAKEERROR_H
#define TILEWRIGHT_LIB_SUPPORT_MAKEERROR_H

#include "llvm/Support/Error.h"

namespace tilewright {

/// An error of this message. (llvm::createStringError takes a literal for a format.)
inline llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

} // namespace tilewright

#endif
