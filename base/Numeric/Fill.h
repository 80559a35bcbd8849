// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of one element.

#ifndef TILEWRIGHT_BASE_NUMERIC_FILL_H
#define TILEWRIGHT_BASE_NUMERIC_FILL_H

#include "base/Numeric/ElementType.h"

namespace tilewright::numeric {

/// n copies of one element of the storage.
void fill(Storage storage, const void *element, void *out, size_t n);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_FILL_H
