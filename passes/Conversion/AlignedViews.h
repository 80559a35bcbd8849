// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The alignment of views that the second form of a kernel's code assumes.

#ifndef TILEWRIGHT_PASSES_CONVERSION_ALIGNEDVIEWS_H
#define TILEWRIGHT_PASSES_CONVERSION_ALIGNEDVIEWS_H

#include "dialect/Tgpu/Tgpu.h"

#include "llvm/ADT/MapVector.h"

namespace tilewright::tgpu {

/// By the number of an argument: bytes to which its address and every stride but the last are
/// aligned. The last stride is 1.
using AlignedViews = llvm::MapVector<unsigned, int64_t>;

/// The argument that `view` is, or is a part of along dimensions other than the last: the part has
/// the argument's alignment. Null if there is none.
mlir::BlockArgument getAlignedArgument(KernelOp kernel, mlir::Value view);

/// The requirements on views for the second form of code, which has no code for other views and
/// does not test for them. Only for kernels whose loops copy asynchronously, or that load several
/// tiles one after the other. Empty for other kernels, which have one form, and if the module has a
/// symbol with the name getAlignedEntry.
AlignedViews getAlignedViews(KernelOp kernel);

/// The name of the code for aligned views.
inline std::string getAlignedEntry(llvm::StringRef kernel) { return (kernel + "_aligned").str(); }

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_ALIGNEDVIEWS_H
