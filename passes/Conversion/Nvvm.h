// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is used of the NVVM dialect: three operations and four attributes, by their names, since its
// header takes 14 s to compile.

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

/// Makes the function a kernel of blocks of that many threads.
void markKernel(mlir::FunctionOpInterface function, int32_t threads);
/// That code of the kernel asks for another number of registers (setmaxnreg). Without this the
/// entry count is unknown, and the request ignored.
void markRegisters(mlir::FunctionOpInterface kernel);
void markGridConstant(mlir::FunctionOpInterface kernel, unsigned argument);

/// What the code of an entry declares in shared memory, for exchanges between warps. What is
/// external is given at the launch.
uint32_t getStaticSharedBytes(mlir::ModuleOp lowered, llvm::StringRef entry);

} // namespace tilewright::nvvm

#endif // TILEWRIGHT_PASSES_CONVERSION_NVVM_H
