// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Texts for authors that say why a kernel is slower than its target allows: what, where, why, and
// the remedy. Passes record them on the kernel and emit them as remarks; reports print them.

#ifndef TILEWRIGHT_PASSES_TGPU_ANALYSIS_NOTES_H
#define TILEWRIGHT_PASSES_TGPU_ANALYSIS_NOTES_H

#include "mlir/IR/Operation.h"

#include <string>

namespace tilewright::tgpu {

/// "file:line:column" of the first location in the source; "unknown place" if there is none.
std::string describePlace(mlir::Location location);

/// Adds "what: why (place)" to the notes of a kernel, unless it is there, and emits a missed-
/// optimization remark of the pass `category` at the location.
void addNote(mlir::Operation *kernel, mlir::Location location, llvm::StringRef category,
             llvm::StringRef what, const llvm::Twine &why);

/// The same without the remark. Returns whether it was not there.
bool recordNote(mlir::Operation *kernel, mlir::Location location, llvm::StringRef what,
                const llvm::Twine &why);

/// Why `plan` fails: the first error that it emits, without its location and the remedy that names
/// a schedule, and that location. No diagnostic reaches the user. Empty if it emits none.
struct Refusal {
  std::string why;
  mlir::Location location;
};
Refusal findRefusal(mlir::Operation *op, llvm::function_ref<void()> plan);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ANALYSIS_NOTES_H
