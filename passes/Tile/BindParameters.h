// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of the parameters of a kernel or program: parsed, defaulted and checked.

#ifndef TILEWRIGHT_PASSES_TILE_BINDPARAMETERS_H
#define TILEWRIGHT_PASSES_TILE_BINDPARAMETERS_H

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExprEval.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace tilewright {

/// Literals by parameter name, in the order of declaration.
using Bindings = llvm::MapVector<llvm::StringRef, tile::ExprAttr>;

/// An environment that knows these parameters and nothing else. Refers to `bindings`.
tile::ExprEnvironment getEnvironment(const Bindings &bindings);
/// Also knows which functions of the module of `op` linked files replace.
tile::ExprEnvironment getEnvironment(const Bindings &bindings, mlir::Operation *op);

/// The attribute `bindings` of an entry: name -> i64 integer, flag, string or type.
mlir::DictionaryAttr getBindingsAttr(mlir::MLIRContext *context, const Bindings &bindings);

/// "D = 64, T = f16"; "no parameters" if there are none.
std::string toString(const Bindings &bindings);

/// "kernel @name" or "program @name".
std::string describe(mlir::Operation *kernelOrProgram);

/// "; did you mean 'x'?" if one of the candidates is close to `name`, else `otherwise`.
std::string suggest(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> candidates,
                    llvm::StringRef otherwise);

/// Reads "NAME=VALUE" for parameters of `signature`. Errors are emitted at the operation.
mlir::FailureOr<llvm::StringMap<tile::ExprAttr>>
parseBindings(const tile::Signature &signature, llvm::ArrayRef<std::string> assignments);

/// Binds every parameter to its given value or its default. Checks kinds, allowed values and
/// constraints over parameters. `remedy` is the advice for a missing value. Errors go to
/// `emitError`.
mlir::FailureOr<Bindings> bindParameters(const tile::Signature &signature,
                                         const llvm::StringMap<tile::ExprAttr> &given,
                                         llvm::StringRef remedy,
                                         llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

/// The same as far as values are known: leaves out parameters without a value and those whose
/// default is block(). Does not check constraints.
mlir::FailureOr<Bindings> bindKnown(const tile::Signature &signature,
                                    const llvm::StringMap<tile::ExprAttr> &given,
                                    llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

/// The kernel or program of a module by name; without a name, the only one that no program
/// launches. Null if there is none; `explain` emits an error then.
mlir::Operation *findEntry(mlir::ModuleOp module, llvm::StringRef name, bool explain);

/// Parameters that a kernel or program had once, each with what to use instead.
constexpr llvm::StringLiteral removedAttrName = "removed";

/// The input and the result of tile-choose-blocks: a dictionary on the entry and on each launch
/// that it considered; tile-specialize copies it from the launch to the kernel.
constexpr llvm::StringLiteral blocksAttrName = "blocks";

/// On a kernel that tile-combine-sums wrote, for reports: what it does, and by which row of the
/// table of strategies.
constexpr llvm::StringLiteral strategyAttrName = "strategy";

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_BINDPARAMETERS_H
