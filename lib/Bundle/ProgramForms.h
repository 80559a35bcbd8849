// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The forms of a program that was compiled for several targets, or with several choices of blocks.

#ifndef TILEWRIGHT_LIB_BUNDLE_PROGRAMFORMS_H
#define TILEWRIGHT_LIB_BUNDLE_PROGRAMFORMS_H

#include "runtime/Manifest.h"

#include "llvm/Support/Error.h"

namespace tilewright::bundle {

/// Adds the only form of `from` after those of `into`, unless there is an equal one. Parameters
/// and conditions that all forms have remain those of the program; the others become those of the
/// forms. Fails if the two have different arguments, or rules for the elements of arguments.
llvm::Error addForm(runtime::ProgramSpec &into, runtime::ProgramSpec from);

} // namespace tilewright::bundle

#endif // TILEWRIGHT_LIB_BUNDLE_PROGRAMFORMS_H
