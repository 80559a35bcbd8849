// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM IR, PTX and cubins from the output of convert-tgpu-to-nvvm.

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

/// The extensions that translate the LLVM and NVVM dialects to LLVM IR. Call before the context is
/// created, or use MLIRContext::appendDialectRegistry.
void registerCodegenDialects(mlir::DialectRegistry &registry);

/// A target by name. Errors: a name that is not in Target::all.
llvm::Expected<const Target &> findTarget(llvm::StringRef name);

/// The module as optimized LLVM IR, in text. Precondition: LLVM and NVVM dialects only.
llvm::Expected<std::string> emitLlvmIr(mlir::ModuleOp module, llvm::StringRef target);

/// The module as PTX. Errors: an unknown target; IR that LLVM cannot translate, or rejects.
llvm::Expected<std::string> emitPtx(mlir::ModuleOp module, llvm::StringRef target);

/// Compiles LLVM IR from emitLlvmIr, edited or not, to PTX, without optimizing it again. Errors: an
/// unknown target; text that is not LLVM IR, invalid, or for another machine; errors of the back
/// end.
llvm::Expected<std::string> emitPtxFromIr(llvm::MemoryBufferRef ir, llvm::StringRef target);

/// The resources of a kernel, as reported by ptxas.
struct KernelResources {
  std::string kernel;
  int64_t registers = 0; ///< per thread
  int64_t spillStoreBytes = 0, spillLoadBytes = 0, stackBytes = 0;
  int64_t staticSharedBytes = 0; ///< excluding the dynamic array
};

struct Assembly {
  std::string cubin; ///< an ELF image
  std::string log;   ///< output of ptxas -v
  std::vector<KernelResources> resources;
};

/// The path of ptxas: from TILEWRIGHT_PTXAS (empty disables it), from PATH, or from a CUDA
/// installation; empty if there is none.
std::string findAssembler();

/// A ptxas that findAssembler returns if it finds no other one, as an application may know one that
/// came with another package. If it rejects PTX, since it is too old, there is no machine code.
void setLastAssembler(llvm::StringRef path);
bool isLastAssembler(llvm::StringRef path);

/// Assembles PTX with ptxas. Errors: no ptxas, or none where TILEWRIGHT_PTXAS says; PTX that it
/// rejects (with its log).
llvm::Expected<Assembly> assembleCubin(llvm::StringRef ptx, llvm::StringRef target);

/// The lines of `ptxas -v` about each kernel.
std::vector<KernelResources> parseAssemblerLog(llvm::StringRef log);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_CODEGEN_CODEGEN_H
