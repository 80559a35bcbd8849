// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which operations exchange elements between warps through scratch memory, and the barriers that
// this takes.

#ifndef TILEWRIGHT_PASSES_CONVERSION_EXCHANGECOUNTS_H
#define TILEWRIGHT_PASSES_CONVERSION_EXCHANGECOUNTS_H

#include "mlir/IR/Operation.h"

namespace tilewright::tgpu {

/// How often the code of an operation exchanges elements.
int64_t countExchanges(mlir::Operation *op);

/// Whether, after the exchange of an operation, the next barrier of all warps that execute it comes
/// before their next exchange, whatever path they take. Then it needs no barrier of its own behind
/// it, by which a warp knows that the others have read scratch memory.
bool isFollowedBySync(mlir::Operation *op);

/// The barriers of an operation's exchanges: before elements are read and, as a rule, after.
int64_t countBarriersOfExchanges(mlir::Operation *op);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_EXCHANGECOUNTS_H
