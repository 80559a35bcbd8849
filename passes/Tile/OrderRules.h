// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What kernels must be like for instances to add to a sum in memory in order.

#ifndef TILEWRIGHT_PASSES_TILE_ORDERRULES_H
#define TILEWRIGHT_PASSES_TILE_ORDERRULES_H

#include "passes/Tile/OrderedKernel.h"

namespace tilewright {

/// Checks the kernel that adds and the one that reads the sums, and finds the operations of the
/// sum. `sum` has the operation, and the kernel that reads. Errors are emitted.
llvm::LogicalResult checkOrderedKernel(OrderedSum &sum);

/// Checks that the parameters that the kernel which reads the sums names have the same values in
/// the launches of both kernels, but for the rows of a block. Errors are emitted.
llvm::LogicalResult checkOrderedParams(const OrderedSum &sum);

/// Whether a kernel may write an array.
bool writesArgument(tile::KernelOp kernel, unsigned argument);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_ORDERRULES_H
