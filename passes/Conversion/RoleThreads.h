// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The threads of a role that execute it: code generation and the simulator must agree.

#ifndef TILEWRIGHT_PASSES_CONVERSION_ROLETHREADS_H
#define TILEWRIGHT_PASSES_CONVERSION_ROLETHREADS_H

#include "mlir/IR/Region.h"

namespace tilewright::tgpu {

/// Whether one thread executes all operations of a role: waits, scalars, and TMA with its
/// synchronization. Then only its first thread executes it; others that only waited might miss a
/// phase and wait forever.
bool isForOneThread(mlir::Region &role);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_ROLETHREADS_H
