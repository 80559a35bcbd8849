// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an application may set of an operation, between runs.

#include "runtime/OperationImpl.h"

using namespace tilewright;
using namespace tilewright::runtime;

void Operation::checkIndices(bool isWanted) {
  impl->checksIndices.store(isWanted, std::memory_order_relaxed);
}

void Operation::overlapPrevious(bool isWanted) {
  impl->overlapsPrevious.store(isWanted, std::memory_order_relaxed);
}
