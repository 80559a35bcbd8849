// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that contain a mapped kernel: the output of --emit=tgpu, edited or not.

#ifndef TILEWRIGHT_LIB_DRIVER_MAPPEDMODULE_H
#define TILEWRIGHT_LIB_DRIVER_MAPPEDMODULE_H

#include "lib/Codegen/GpuCompiler.h"
#include "lib/Driver/Compiler.h"

#include "llvm/Support/MemoryBufferRef.h"

namespace tilewright {

/// Emits an error at the module for options that only apply to a kernel that is not mapped.
mlir::LogicalResult checkMappedOptions(mlir::ModuleOp module, const TilePipelineOptions &options,
                                       const GpuOptions &gpu);

/// As compileBuffer, for a module that parseBuffer made from the buffer (null: null); a module of
/// tgpu is used unchanged. Null after an error.
mlir::OwningOpRef<mlir::ModuleOp> compileOrTakeMapped(mlir::OwningOpRef<mlir::ModuleOp> module,
                                                      llvm::MemoryBufferRef buffer,
                                                      const TilePipelineOptions &options,
                                                      EntryKind kind, const GpuOptions &gpu);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_MAPPEDMODULE_H
