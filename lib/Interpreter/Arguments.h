// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Validation of the caller's arguments against the declaration of a kernel or program.

#ifndef TILEWRIGHT_LIB_INTERPRETER_ARGUMENTS_H
#define TILEWRIGHT_LIB_INTERPRETER_ARGUMENTS_H

#include "dialect/Tile/Tile.h"
#include "lib/Interpreter/Argument.h"
#include "lib/Interpreter/Datum.h"

#include "llvm/ADT/StringMap.h"

namespace tilewright::interpreter {

/// An argument or capture ready for use.
struct BoundArgument {
  bool isView = false;
  bool isAbsent = false; ///< an omitted optional view: all extents are zero
  View view;
  Scalar scalar;
  double number = 0;                   ///< the value of a float
  ElementType type = ElementType::F32; ///< as declared
};

struct BoundArguments {
  llvm::SmallVector<BoundArgument, 8> arguments; ///< in order of declaration
  llvm::StringMap<BoundArgument> captures;
};

/// The value of a scalar that the caller omitted, from tile::Signature::getArgDefault.
Argument fromDefault(mlir::Attribute value);

/// Checks and binds the arguments of a kernel or program and the captures of its module.
mlir::FailureOr<BoundArguments> bindArguments(mlir::Operation *entry,
                                              const llvm::StringMap<Argument> &arguments, bool f64);

/// Checks the extents of a bound view against those in its type. Diagnostics go to `reportAt`.
mlir::LogicalResult checkExtents(mlir::Operation *reportAt, llvm::StringRef name,
                                 tile::ViewType type, const BoundArgument &argument);

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_ARGUMENTS_H
