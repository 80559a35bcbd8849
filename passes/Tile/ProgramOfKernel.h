// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that passes make of kernels.

#ifndef TILEWRIGHT_PASSES_TILE_PROGRAMOFKERNEL_H
#define TILEWRIGHT_PASSES_TILE_PROGRAMOFKERNEL_H

#include "dialect/Tile/Tile.h"

namespace tilewright {

/// On a program that takes the place of a kernel, which has become several launches. The value is
/// the name of the kernel, by which an entry selects the program, if that is still the name of one
/// of the kernels that it launches; else a unit, and the program has the name.
inline constexpr llvm::StringLiteral programOfKernelName = "of_kernel";

/// The name by which callers know a kernel or a program.
llvm::StringRef getEntryName(mlir::Operation *kernelOrProgram);

/// The kernel or program that callers know by this name; null if there is none.
mlir::Operation *findEntryByName(mlir::ModuleOp module, llvm::StringRef name);

/// Before the kernel, a program with its parameters and arguments that launches it. The kernel
/// keeps its constraints.
tile::ProgramOp makeProgramOf(tile::KernelOp kernel, llvm::StringRef symbol,
                              mlir::Attribute ofKernel);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_PROGRAMOFKERNEL_H
