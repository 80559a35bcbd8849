// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM IR, PTX and cubins from what convert-tgpu-to-nvvm leaves.

#ifndef TILEWRIGHT_LIB_CODEGEN_CODEGEN_H
#define TILEWRIGHT_LIB_CODEGEN_CODEGEN_H

#include "base/Target/Target.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace tilewright {

/// The extensions by which the LLVM and NVVM dialects become LLVM IR. Before the context is made,
/// or through MLIRContext::appendDialectRegistry.
void registerCodegenDialects(mlir::DialectRegistry &registry);

/// A target by name. Errors: a name that Target::all has not.
llvm::Expected<const Target &> findTarget(llvm::StringRef name);

/// The module as optimised LLVM IR, in text. Precondition: LLVM and NVVM dialects only.
llvm::Expected<std::string> emitLlvmIr(mlir::ModuleOp module, llvm::StringRef target);

/// The module as PTX. Errors: an unknown target; IR that LLVM cannot translate, or refuses.
llvm::Expected<std::string> emitPtx(mlir::ModuleOp module, llvm::StringRef target);

/// LLVM IR as emitLlvmIr wrote it, edited or not, as PTX; it is not optimised again. Errors: an
/// unknown target; text that is no LLVM IR, not valid, or for another machine; what the back end
/// refuses.
llvm::Expected<std::string> emitPtxFromIr(llvm::MemoryBufferRef ir, llvm::StringRef target);

/// What a kernel takes of a multiprocessor, as ptxas says.
struct KernelResources {
  std::string kernel;
  int64_t registers = 0; ///< of a thread
  int64_t spillStoreBytes = 0, spillLoadBytes = 0, stackBytes = 0;
  int64_t staticSharedBytes = 0; ///< without the dynamic array
};

struct Assembly {
  std::string cubin; ///< an ELF image
  std::string log;   ///< of ptxas -v
  std::vector<KernelResources> resources;
};

/// The path of ptxas: by TILEWRIGHT_PTXAS, whose empty value means none, from PATH, or beside
/// a CUDA installation; empty where there is none.
std::string findAssembler();

/// PTX through ptxas. Errors: no ptxas; PTX that it refuses (with its log).
llvm::Expected<Assembly> assembleCubin(llvm::StringRef ptx, llvm::StringRef target);

/// The lines of `ptxas -v` about each kernel.
std::vector<KernelResources> parseAssemblerLog(llvm::StringRef log);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_CODEGEN_CODEGEN_H
