// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queries of tiles and of operations on them that need no inference.

#ifndef TILEWRIGHT_PASSES_TGPU_ANALYSIS_TILEQUERIES_H
#define TILEWRIGHT_PASSES_TGPU_ANALYSIS_TILEQUERIES_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/IR/BuiltinTypes.h"

namespace tilewright::tgpu {

inline bool isTile(mlir::Value value) { return mlir::isa<mlir::RankedTensorType>(value.getType()); }

/// Whether recomputing the value in each layout is cheaper than converting it: full, iota,
/// constants.
bool isRematerialized(mlir::Value value);

/// Whether products read the tile from a copy of its part of a view.
bool isStaged(mlir::Value value);

/// Whether tgpu-split-terms can compute the product, of which a wait returns the tile, by columns:
/// it has no accumulator, and the rows of its operand b, which are columns, make several parts.
bool isDivisibleByColumns(WgmmaOp product, mlir::RankedTensorType tile);

/// Whether all tiles among the operation's operands and results have one shape and one layout.
bool isElementwise(mlir::Operation *op);

/// The layout for coalesced access by a number of warps.
mlir::Attribute getBlocked(mlir::MLIRContext *context, llvm::ArrayRef<int64_t> shape, int64_t bits,
                           int64_t warps);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ANALYSIS_TILEQUERIES_H
