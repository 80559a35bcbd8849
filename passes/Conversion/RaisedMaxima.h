// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values derived from raised maxima (EmitRaiseMax.cpp). Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_RAISEDMAXIMA_H
#define TILEWRIGHT_PASSES_CONVERSION_RAISEDMAXIMA_H

#include "passes/Conversion/KernelEmitter.h"

namespace tilewright::tgpu {

/// For exponentials of raised maxima: whether the warp raises any; if not, they are one. Null for
/// other tiles.
mlir::Value mayDifferFromOne(KernelEmitter &e, mlir::Value tile);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_RAISEDMAXIMA_H
