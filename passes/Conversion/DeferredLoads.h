// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles of captures that are loaded run by run, at their uses (EmitLoad.cpp). Internal to
// convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_DEFERREDLOADS_H
#define TILEWRIGHT_PASSES_CONVERSION_DEFERREDLOADS_H

#include "passes/Conversion/KernelEmitter.h"

namespace tilewright::tgpu {

bool isDeferredLoad(KernelEmitter &e, mlir::Value tile);
/// The elements of the run that begins at register `reg` of such a tile.
Values loadRun(KernelEmitter &e, mlir::Value tile, int reg);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_DEFERREDLOADS_H
