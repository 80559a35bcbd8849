// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which threads of a role execute it: code generation and the simulator must agree.

#ifndef TILEWRIGHT_PASSES_CONVERSION_ROLETHREADS_H
#define TILEWRIGHT_PASSES_CONVERSION_ROLETHREADS_H

#include "mlir/IR/Region.h"

namespace tilewright::tgpu {

/// Whether all that a role does is done by one thread: waits, scalars, TMA and what belongs to it.
/// Then its first thread alone executes it; others that only waited might fall behind by a phase
/// and wait forever.
bool isForOneThread(mlir::Region &role);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_ROLETHREADS_H
