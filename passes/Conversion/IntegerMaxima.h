// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maxima by comparisons of integers. Internal to convert-tgpu-to-nvvm.

#ifndef TILEWRIGHT_PASSES_CONVERSION_INTEGERMAXIMA_H
#define TILEWRIGHT_PASSES_CONVERSION_INTEGERMAXIMA_H

#include "passes/Conversion/ThreadBuilder.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace tilewright::tgpu {

/// A tree that combines three values at a time; an odd number of values leaves no remainder.
mlir::Value combineByThrees(llvm::ArrayRef<mlir::Value> values,
                            llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

/// The maximum of each row of f32, of which a thread has elements, and those lanes that `laneMasks`
/// reach the others. NaNs are positive.
llvm::SmallVector<mlir::Value>
emitIntegerMaxima(ThreadBuilder &b, llvm::ArrayRef<llvm::SmallVector<mlir::Value>> rows,
                  const std::vector<int> &laneMasks);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_INTEGERMAXIMA_H
