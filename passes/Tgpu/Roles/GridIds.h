// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On which grid ids a value depends.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLES_GRIDIDS_H
#define TILEWRIGHT_PASSES_TGPU_ROLES_GRIDIDS_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright::tgpu {

/// The grid ids of its kernel on which a value depends, as a bit set.
uint64_t getGridIds(mlir::Value value);

/// Whether the trip count of a loop depends on the grid ids.
bool tripsVaryByTile(mlir::scf::ForOp loop);

/// Whether the trip count depends on elements that are read from memory, as offsets of sequences.
bool readsTrips(mlir::scf::ForOp loop);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLES_GRIDIDS_H
