// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an application may set of an operation, between runs.

#include "runtime/OperationImpl.h"

#include <cstdlib>
#include <cstring>

using namespace tilewright;
using namespace tilewright::runtime;

void Operation::checkIndices(bool isWanted) {
  impl->checksIndices.store(isWanted, std::memory_order_relaxed);
}

bool tilewright::runtime::overlapsPreviousByDefault() {
  const char *value = std::getenv("TILEWRIGHT_OVERLAP_PREVIOUS");
  return !value || std::strcmp(value, "0") != 0;
}

void Operation::overlapPrevious(bool isWanted) {
  impl->overlapsPrevious.store(isWanted, std::memory_order_relaxed);
}
