// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that passes make of kernels.

#ifndef TILEWRIGHT_PASSES_TILE_PROGRAMOFKERNEL_H
#define TILEWRIGHT_PASSES_TILE_PROGRAMOFKERNEL_H

#include "llvm/ADT/StringRef.h"

namespace tilewright {

/// On a program that takes the place and the name of a kernel, which has become several launches.
/// The kernel's name as an entry selects it.
inline constexpr llvm::StringLiteral programOfKernelName = "of_kernel";

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_PROGRAMOFKERNEL_H
