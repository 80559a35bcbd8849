// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles of i1 that compare columns with a bound per row (EmitColumns.cpp). Internal to
// convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_COLUMNBOUNDS_H
#define TILEWRIGHT_PASSES_CONVERSION_COLUMNBOUNDS_H

#include "passes/Conversion/KernelEmitter.h"

namespace tilewright::tgpu {

bool hasColumnBounds(KernelEmitter &e, mlir::Value tile);
/// Calls `visit` with each register of such a tile and its i1, word by word.
void visitColumnBits(KernelEmitter &e, mlir::Value tile,
                     llvm::function_ref<void(int reg, mlir::Value is)> visit);
/// Lower an operation that makes such a tile. Return false, and emit nothing, for others.
bool emitColumnCompare(KernelEmitter &e, mlir::arith::CmpIOp op);
bool emitColumnAnd(KernelEmitter &e, mlir::arith::AndIOp op);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_COLUMNBOUNDS_H
