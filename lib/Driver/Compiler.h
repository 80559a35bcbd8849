// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a file to a compiled entry: parse, choose the entry, link, specialize, optimize. What every
// tool and test does before it runs or prints a kernel. (registerDialects comes with the
// pipelines.)

#ifndef TILEWRIGHT_LIB_DRIVER_COMPILER_H
#define TILEWRIGHT_LIB_DRIVER_COMPILER_H

#include "passes/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace llvm {
class MemoryBufferRef;
} // namespace llvm

namespace tilewright {

enum class EntryKind { Any, Kernel, Program };

/// The value of TilePipelineOptions::source for a file that a tool was given. Standard input has no
/// folder.
std::string getLinkSource(llvm::StringRef file);

/// The file of rows that take precedence over the table of blocks: the given one, else that of the
/// environment variable TILEWRIGHT_BLOCKS, since users of a library have no option for it. Empty if
/// there is none.
std::string findBlocksFile(llvm::StringRef given);

/// Parses `file` ("-" is standard input) and runs the pipeline on it. Null on failure, with at
/// least one error emitted through the context. `file` replaces `options.source`. An empty
/// `options.entry` means the only kernel or program of the file that no program launches. An enum
/// parameter TARGET of the entry takes `options.target`, unless `options.params` binds it or its
/// declaration does not allow that value.
mlir::OwningOpRef<mlir::ModuleOp> compileFile(mlir::MLIRContext &context, llvm::StringRef file,
                                              const TilePipelineOptions &options);

/// The same for text in memory; the identifier of the buffer is its name in diagnostics. Its
/// tile.link finds files by `options.source`, not by that name. `kind` says what the entry must be.
mlir::OwningOpRef<mlir::ModuleOp> compileBuffer(mlir::MLIRContext &context,
                                                llvm::MemoryBufferRef buffer,
                                                const TilePipelineOptions &options,
                                                EntryKind kind = EntryKind::Any);

/// The same for a module that parseBuffer made from the buffer.
mlir::OwningOpRef<mlir::ModuleOp> compileModule(mlir::OwningOpRef<mlir::ModuleOp> module,
                                                llvm::MemoryBufferRef buffer,
                                                const TilePipelineOptions &options, EntryKind kind);

/// Only parses and verifies. In addition to the parser's errors, rejects bytecode, and text that
/// nests deeper than the recursive parser can follow. Its tile.link finds files by `source`, as
/// above; functions of these files are declared.
mlir::OwningOpRef<mlir::ModuleOp>
parseBuffer(mlir::MLIRContext &context, llvm::MemoryBufferRef buffer, llvm::StringRef source = {});

/// The kernel (mapped onto a GPU or not) or program of that name at the top level of the module, or
/// null. An empty name finds the only one that no program launches.
mlir::Operation *findEntry(mlir::ModuleOp module, llvm::StringRef name = "");

/// As findEntry, or null after an error that lists the entries. `buffer` is the source of the
/// module.
mlir::Operation *chooseEntry(mlir::ModuleOp module, llvm::StringRef name, EntryKind kind,
                             llvm::MemoryBufferRef buffer);

/// One line of the contract between an entry and its caller.
struct ArgumentInfo {
  std::string name;
  mlir::Type type;                     ///< a tile::ViewType or a scalar
  bool isOptional = false;             ///< may be omitted; views only
  bool isCapture = false;              ///< read by scalar functions through its name; read-only
  mlir::Attribute byDefault = nullptr; ///< default of a scalar that may be omitted
  bool isWritten = false;              ///< the entry stores or adds to this view
};

/// The arguments of a kernel or program in order, then the captures that it reaches, in the order
/// in which the module declares them.
llvm::SmallVector<ArgumentInfo> getArguments(mlir::Operation *entry);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_COMPILER_H
