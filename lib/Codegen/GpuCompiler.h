// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles tile IR (or tgpu IR) to the form that a tool requests.

#ifndef TILEWRIGHT_LIB_CODEGEN_GPUCOMPILER_H
#define TILEWRIGHT_LIB_CODEGEN_GPUCOMPILER_H

#include "lib/Codegen/Codegen.h"
#include "passes/CodeForms.h"
#include "passes/Pipelines/Pipelines.h"

#include <optional>

namespace tilewright {

enum class GpuForm { Tgpu, Llvm, Ptx, Cubin };
/// tgpu, llvm, ptx, cubin.
std::optional<GpuForm> parseGpuForm(llvm::StringRef name);

struct GpuOptions : GpuPipelineOptions {
  int64_t timelineWords = 0; ///< 64-bit words per chunk (base/Abi/TimelineFormat.h); 0: no timeline
  bool warnsOfSpills = true; ///< if ptxas is run anyway
  tgpu::CodeForms forms = tgpu::CodeForms::All;
};

/// Loads the dialects of the mapping and of code generation into the context, so that threads may
/// then call the functions below on different modules of the context at the same time.
void loadGpuDialects(mlir::MLIRContext &context);

/// Whether the module is already mapped onto a GPU.
bool isMapped(mlir::ModuleOp module);

/// Maps kernels of bound tile IR onto the target and assigns offsets to their buffers; for kernels
/// that are already mapped, only the synchronization is verified. Errors are emitted through the
/// context.
mlir::LogicalResult mapToGpu(mlir::ModuleOp module, const GpuOptions &options);

/// Data for warnings about kernels that spill registers, taken from their mapped module before code
/// generation consumes it.
class SpillWarnings {
public:
  SpillWarnings(mlir::ModuleOp mapped, const GpuOptions &options);

  /// Emits a warning at each kernel whose code spills, with the bytes of the form that a report
  /// names first; those of the form for unaligned views if only that spills.
  void emit(llvm::ArrayRef<KernelResources> resources) const;

private:
  struct Kernel {
    std::string name, alignedEntry;
    mlir::Location location;
    int64_t warps;
    bool hasRoles;
    std::string fewer; ///< blocks that need fewer registers, if there are any
  };
  std::vector<Kernel> kernels;
  std::string target;
};

/// The module in one of the forms: text, or the bytes of a cubin. Precondition: the module is bound
/// tile IR or tgpu IR. Errors are emitted through the context, or returned. `resources` is set for
/// a cubin; spills give a warning.
llvm::Expected<std::string> compileForGpu(mlir::ModuleOp module, GpuForm form,
                                          const GpuOptions &options,
                                          std::vector<KernelResources> *resources = nullptr);

/// The same for a module that mapToGpu has mapped. Forms other than tgpu leave it in the LLVM
/// dialect.
llvm::Expected<std::string> compileMapped(mlir::ModuleOp module, GpuForm form,
                                          const GpuOptions &options,
                                          std::vector<KernelResources> *resources = nullptr);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_CODEGEN_GPUCOMPILER_H
