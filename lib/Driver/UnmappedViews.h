// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether the code for a target with tensor maps takes the arrays of a run, or the code for the
// default target must, as the runtime decides among the variants of a bundle.

#ifndef TILEWRIGHT_LIB_DRIVER_UNMAPPEDVIEWS_H
#define TILEWRIGHT_LIB_DRIVER_UNMAPPEDVIEWS_H

#include "lib/Interpreter/CpuDevice.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace tilewright {

/// Whether all arrays begin and have rows at multiples of 16 bytes, contiguous rows, and whole rows
/// between pages: then tensor maps can describe them, and nothing needs to be mapped to know that.
bool areAligned(const llvm::StringMap<Argument> &arguments);

/// The first view of a launch that no tensor map of the mapped kernel can describe, in the words of
/// the runtime. Empty: there is none, or the run fails for another reason, which it reports.
std::string explainUnmappedView(mlir::ModuleOp mapped, llvm::StringRef entry,
                                const llvm::StringMap<Argument> &arguments);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_UNMAPPEDVIEWS_H
