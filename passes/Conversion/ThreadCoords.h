// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The coordinates of a thread's elements, by the layouts of base/Layout: a coordinate that depends
// on the thread plus a constant for each register. Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_THREADCOORDS_H
#define TILEWRIGHT_PASSES_CONVERSION_THREADCOORDS_H

#include "base/Layout/RegisterLayout.h"
#include "base/Layout/SharedLayout.h"
#include "passes/Conversion/ThreadBuilder.h"

namespace tilewright::tgpu {

/// A number that depends on warp and lane, as an i32 computed at entry, or here. `compute` must be
/// a sum over the digits of `warpDigits` and the bits of the lane; null if it is not.
mlir::Value getThreadNumber(ThreadBuilder &b,
                            llvm::function_ref<int64_t(int warp, int lane)> compute,
                            mlir::ArrayRef<layout::Digit> warpDigits, bool atUse = false);
/// The thread's part of coordinate `dim` of a layout.
mlir::Value getThreadCoord(ThreadBuilder &b, const layout::RegisterLayout &layout, int dim);
/// Coordinate `dim` of register `reg`.
mlir::Value getCoord(ThreadBuilder &b, const layout::RegisterLayout &layout, int dim, int reg);
/// The indices along all dimensions of `shape` but the last, given the row number `row`.
Values splitRow(ThreadBuilder &b, mlir::Value row, mlir::ArrayRef<int64_t> shape);
/// SharedLayout::byteOffset of a row and a column known at run time.
mlir::Value getByteOffset(ThreadBuilder &b, const layout::SharedLayout &buffer, mlir::Value row,
                          mlir::Value col);

/// Whether this thread stores an element that several threads hold; null if all threads do.
mlir::Value isCanonicalThread(ThreadBuilder &b, const layout::RegisterLayout &layout);
bool isCanonicalRegister(const layout::RegisterLayout &layout, int reg);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_THREADCOORDS_H
