// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The manifest of a mapped module: contracts of arguments, grids, workspaces and constraints, in
// the terms of the runtime.

#ifndef TILEWRIGHT_LIB_BUNDLE_MANIFESTBUILDER_H
#define TILEWRIGHT_LIB_BUNDLE_MANIFESTBUILDER_H

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"
#include "passes/Conversion/AlignedViews.h"
#include "runtime/Manifest.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace tilewright::bundle {

/// Everything except the code. `aligned`: for the form for aligned views, if the kernel has one.
llvm::Expected<runtime::KernelSpec> makeKernelSpec(tgpu::KernelOp kernel,
                                                   const tgpu::AlignedViews &aligned = {});

/// A program with one form, for `target`. `kernels` are those of the same module; `numbers` are
/// their positions in the manifest.
llvm::Expected<runtime::ProgramSpec> makeProgramSpec(tile::ProgramOp program,
                                                     llvm::ArrayRef<runtime::KernelSpec> kernels,
                                                     llvm::ArrayRef<size_t> numbers,
                                                     const runtime::Arch &target);

} // namespace tilewright::bundle

#endif // TILEWRIGHT_LIB_BUNDLE_MANIFESTBUILDER_H
