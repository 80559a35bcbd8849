// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions for tests of the C interface in addition to tilewright.h. Not visible outside
// libtilewright.so.

#ifndef TILEWRIGHT_RUNTIME_CAPITESTING_H
#define TILEWRIGHT_RUNTIME_CAPITESTING_H

#include "runtime/DriverTable.h"

namespace tilewright::runtime {

/// Objects created from now on use this driver; null is the machine's.
void setDriverForTesting(const DriverTable *driver);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_CAPITESTING_H
