// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that others name by tile.link: the part of tile-link that finds and reads them.

#ifndef TILEWRIGHT_PASSES_TILE_LINKLIBRARIES_H
#define TILEWRIGHT_PASSES_TILE_LINKLIBRARIES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>

namespace tilewright {

/// Parses a file without verifying it as a whole: a symbol that it uses may be elsewhere. Errors go
/// to `loc`, which asks for the file, or to places in it.
mlir::OwningOpRef<mlir::ModuleOp> readModule(llvm::StringRef path, mlir::Location loc);

/// What diagnostics call the place of files that the compiler carries.
constexpr llvm::StringLiteral embeddedFolder = "<tilewright>/";

/// The text of a file that the compiler carries with it, by its name below kernels/.
std::optional<llvm::StringRef> findLibraryText(llvm::StringRef name);

/// Adds to the module what it mentions and the files of its tile.link define, and what that needs
/// in turn, and erases the tile.link. Names for which `isGiven` holds are left alone.
mlir::LogicalResult linkLibraries(mlir::ModuleOp module,
                                  llvm::function_ref<bool(llvm::StringRef)> isGiven);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_LINKLIBRARIES_H
