// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arguments of a kernel that are not declared: captures.

#ifndef TILEWRIGHT_PASSES_CONVERSION_REACHEDCAPTURES_H
#define TILEWRIGHT_PASSES_CONVERSION_REACHEDCAPTURES_H

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// The captures that a kernel reaches, in the order in which the module declares them: its
/// arguments after the declared ones.
llvm::SmallVector<tile::CaptureOp> getReachedCaptures(KernelOp kernel);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_REACHEDCAPTURES_H
