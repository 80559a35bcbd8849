// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options of a mapped module, and its entry.

#include "lib/Driver/MappedModule.h"

#include "llvm/ADT/StringExtras.h"

using namespace tilewright;

mlir::LogicalResult tilewright::checkMappedOptions(mlir::ModuleOp module,
                                                   const TilePipelineOptions &options,
                                                   const GpuOptions &gpu) {
  llvm::SmallVector<llvm::StringRef> given;
  if (!options.params.empty())
    given.push_back("--param");
  if (!options.with.empty())
    given.push_back("--with");
  if (options.fastMath)
    given.push_back("--fast-math");
  if (gpu.warps != GpuOptions().warps)
    given.push_back("--warps");
  if (!gpu.schedule.empty())
    given.push_back("--schedule");
  if (given.empty())
    return mlir::success();
  return emitError(module.getLoc())
         << "a tgpu module is already bound and mapped, so it does not accept "
         << llvm::join(given, ", ") << "; edit it, or map the kernel again";
}

mlir::OwningOpRef<mlir::ModuleOp>
tilewright::compileOrTakeMapped(mlir::OwningOpRef<mlir::ModuleOp> module,
                                llvm::MemoryBufferRef buffer, const TilePipelineOptions &options,
                                EntryKind kind, const GpuOptions &gpu) {
  if (!module || !isMapped(*module))
    return module ? compileModule(std::move(module), buffer, options, kind) : nullptr;
  if (mlir::failed(checkMappedOptions(*module, options, gpu)))
    return nullptr;
  return module;
}
