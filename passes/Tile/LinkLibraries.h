// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds and reads the files named by tile.link, as a part of tile-link.

#ifndef TILEWRIGHT_PASSES_TILE_LINKLIBRARIES_H
#define TILEWRIGHT_PASSES_TILE_LINKLIBRARIES_H

#include "dialect/Tile/TextInput.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <optional>
#include <string>
#include <vector>

namespace tilewright {

/// Parses a file without verifying it as a whole, since symbols that it uses may be elsewhere.
/// Errors are emitted at `loc`, which requests the file, or at locations in the file.
mlir::OwningOpRef<mlir::ModuleOp> readModule(llvm::StringRef path, mlir::Location loc);

/// The folder name in locations of files that are embedded in the compiler.
constexpr llvm::StringLiteral embeddedFolder = "<tilewright>/";

/// The text of a file embedded in the compiler, by its name below kernels/.
std::optional<llvm::StringRef> findLibraryText(llvm::StringRef name);

/// The names of all embedded files.
llvm::ArrayRef<llvm::StringLiteral> getLibraryNames();

/// A file in the folder of another, or below.
struct FileBeside {
  enum class Place { Absent, Inside, Outside } place = Place::Absent;
  std::string path; ///< relative to the path of the linking file
  std::string real; ///< without symbolic links
};

/// The path of `name`, from a tile.link, relative to `source`, the file that contains the
/// tile.link. It is outside if a symbolic link leads out of the folder of `source`.
FileBeside findBeside(llvm::StringRef source, llvm::StringRef name);

/// A path that a text links, at `offset` in it.
struct LinkedPath {
  size_t offset;
  std::string name;
  std::string fault; ///< why it names no file, with a remedy; empty if it names one
};

/// The paths that a text links, of which no parsing is needed. `source` is as below.
std::vector<LinkedPath> findLinkedPaths(llvm::StringRef text, llvm::StringRef source);

/// Writes the type aliases that the text uses, and only files that it links define, before its
/// first tile.link, in the same line. `source` is as below. A fault, at a place in the text: linked
/// files that disagree on the type.
std::optional<TextFault> addLinkedAliases(std::string &text, llvm::StringRef source);

/// The same; a fault is a diagnostic in the text of that name.
mlir::LogicalResult addLinkedAliases(mlir::MLIRContext &context, std::string &text,
                                     llvm::StringRef name, llvm::StringRef source);

/// Adds to the module the symbols that it mentions and its tile.link files define, with their
/// dependences, and erases the tile.link. Ignores names for which `isGiven` holds. `source` is the
/// file that the module was read from: locations do not tell, since the text sets them. If it is
/// empty, the module links what is embedded in the compiler only.
mlir::LogicalResult linkLibraries(mlir::ModuleOp module, llvm::StringRef source,
                                  llvm::function_ref<bool(llvm::StringRef)> isGiven);

/// Declares the functions that the module mentions, and neither defines nor declares, as its
/// tile.link files define them. A module that was parsed without verification can then be verified.
/// Fails with a diagnostic, also at a call of a function that there is not. `source` is as above.
mlir::LogicalResult declareLinked(mlir::ModuleOp module, llvm::StringRef source);

/// Gives `source` to each tile-link of the manager that has none.
void setLinkSource(mlir::OpPassManager &manager, llvm::StringRef source);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_LINKLIBRARIES_H
