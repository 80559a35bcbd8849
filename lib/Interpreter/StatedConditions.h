// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a kernel or program stated about its arguments before parameters were bound, so that errors
// about arguments name the parameter that would permit them.

#ifndef TILEWRIGHT_LIB_INTERPRETER_STATEDCONDITIONS_H
#define TILEWRIGHT_LIB_INTERPRETER_STATEDCONDITIONS_H

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExprEval.h"

namespace tilewright::interpreter {

class StatedConditions {
public:
  StatedConditions() = default;
  /// Of an entry with parameters.
  explicit StatedConditions(const tile::Signature &signature)
      : params(signature.params), constraints(signature.constraints),
        argConditions(signature.argConditions) {}

  /// Those that a tool attached to the module of a bound kernel or program.
  static StatedConditions find(mlir::Operation *bound);
  void attach(mlir::ModuleOp module) const;

  /// Why a bound entry does not have an argument, as a whole message; empty if the reason is no
  /// condition. `captures` are the names of the floats that the entry captures.
  std::string explainAbsent(mlir::Operation *bound, llvm::StringRef argument,
                            llvm::ArrayRef<llvm::StringRef> captures) const;

  /// Values of parameters with which a constraint would hold that is broken as it was bound:
  /// "--param WINDOW=true or --param CAUSAL=none"; empty if there are none. `environment` has the
  /// arguments of the launch.
  std::string suggestParams(mlir::Operation *bound, tile::ExprAttr broken,
                            const tile::ExprEnvironment &environment) const;

private:
  mlir::ArrayAttr params, constraints; ///< may be null
  mlir::DictionaryAttr argConditions;
};

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_STATEDCONDITIONS_H
