// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts the layouts of tgpu types to the layouts of base/Layout.

#ifndef TILEWRIGHT_PASSES_CONVERSION_TILELAYOUTS_H
#define TILEWRIGHT_PASSES_CONVERSION_TILELAYOUTS_H

#include "base/Layout/RegisterLayout.h"
#include "base/Layout/SharedLayout.h"
#include "dialect/Tgpu/Tgpu.h"

namespace tilewright::tgpu {

/// The distribution of a register tile. Precondition: isRegisterTile(tile). Errors: extents that
/// the layout cannot cover by repetition.
Result<layout::RegisterLayout> getRegisterLayout(mlir::RankedTensorType tile);

/// The memory layout of a shared buffer; a buffer of rank 1 is one row.
Result<layout::SharedLayout> getSharedLayout(SharedType type);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_TILELAYOUTS_H
