// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of the NVVM dialect that are used: three operations and five attributes, by name, since
// its header takes 14 s to compile.

#ifndef TILEWRIGHT_PASSES_CONVERSION_NVVM_H
#define TILEWRIGHT_PASSES_CONVERSION_NVVM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace tilewright::nvvm {

void insertDialect(mlir::DialectRegistry &registry);

mlir::Value getThreadId(mlir::ImplicitLocOpBuilder &b);
mlir::Value getBlockId(mlir::ImplicitLocOpBuilder &b);
mlir::Value getGridExtent(mlir::ImplicitLocOpBuilder &b);

/// Makes the function a kernel with blocks of that many threads.
void markKernel(mlir::FunctionOpInterface function, int32_t threads);
/// Declares that a multiprocessor must hold at least that many blocks. ptxas then takes no more
/// registers than that permits, and does not save any below it. Without this, the number of
/// registers at entry is unknown, so that setmaxnreg is ignored.
void setLeastBlocks(mlir::FunctionOpInterface kernel, int64_t blocks);
/// Launches the kernel with that many registers per thread, in place of setLeastBlocks.
void setRegisters(mlir::FunctionOpInterface kernel, int64_t registers);
void markGridConstant(mlir::FunctionOpInterface kernel, unsigned argument);

/// The shared memory that the code of an entry declares for exchanges between warps. External
/// shared memory is sized at launch.
uint32_t getStaticSharedBytes(mlir::ModuleOp lowered, llvm::StringRef entry);

} // namespace tilewright::nvvm

#endif // TILEWRIGHT_PASSES_CONVERSION_NVVM_H
