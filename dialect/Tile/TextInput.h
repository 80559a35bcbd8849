// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Limits of input text, checked before MLIR's parser reads it: its size, its nesting and the length
// of its numbers. Every tool that parses checks them.

#ifndef TILEWRIGHT_DIALECT_TILE_TEXTINPUT_H
#define TILEWRIGHT_DIALECT_TILE_TEXTINPUT_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <memory>
#include <optional>
#include <string>

namespace llvm {
class MemoryBuffer;
} // namespace llvm

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace tilewright {

/// Reads a file, or standard input as "-". Never reads more than 64 MiB, regardless of the size
/// that the system reports. Errors: a longer file, a bundle. They give the reason, without the name
/// of the file.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readText(llvm::StringRef path);

/// Text that the parser must not receive, and its position.
struct TextFault {
  size_t offset;
  std::string message;
};

/// Brackets (or signs, each a level of an affine expression) that nest deeper than 256, which a
/// recursive parser and printer do not survive, and integers of more than 1024 digits, whose value
/// MLIR computes in quadratic time. Strings and comments are skipped.
std::optional<TextFault> findTextFault(llvm::StringRef text);

/// The same as a diagnostic at its location.
mlir::LogicalResult checkText(mlir::MLIRContext &context, llvm::MemoryBufferRef buffer);

} // namespace tilewright

#endif // TILEWRIGHT_DIALECT_TILE_TEXTINPUT_H
