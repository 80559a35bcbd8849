// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions derived from a scalar function: its derivative with respect to an operand or to a value
// read from a capture, and the indices of that read.

#ifndef TILEWRIGHT_PASSES_TILE_SCALARGRADIENTS_H
#define TILEWRIGHT_PASSES_TILE_SCALARGRADIENTS_H

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <optional>

namespace tilewright {

/// A derivative times a seed. The function takes the operands, then the seed.
struct Derivative {
  enum class Kind {
    Zero,    ///< the result does not depend on the target
    Seed,    ///< the derivative is one: the seed itself, converted
    Computed ///< by `function`
  };
  Kind kind = Kind::Zero;
  mlir::func::FuncOp function;
};

/// One index of a read.
struct ReadIndex {
  std::optional<int64_t> constant;
  mlir::func::FuncOp function; ///< null if the index is operands[0] itself
  llvm::SmallVector<unsigned>
      operands; ///< operands of the differentiated function, passed to `function`
};

/// A float that a function reads from a capture.
struct CaptureRead {
  tile::CaptureOp capture;
  Derivative derivative; ///< derivative with respect to the value read, in its adjoint type
  llvm::SmallVector<ReadIndex> indices;
};

class ScalarGradients {
public:
  explicit ScalarGradients(mlir::ModuleOp module) : symbols(module) {}

  /// The derivative with respect to an operand, of the operand's type. Errors are emitted at the
  /// operation without a rule; `user` is the operation that requests the derivative.
  mlir::FailureOr<Derivative> ofOperand(mlir::func::FuncOp function, unsigned operand,
                                        mlir::Operation *user);

  /// The reads of floats, in order, on which the result depends, including those of called
  /// functions.
  mlir::FailureOr<llvm::SmallVector<CaptureRead>> ofCaptures(mlir::func::FuncOp function,
                                                             mlir::Operation *user);

  mlir::SymbolTable &getSymbols() { return symbols; }

private:
  ReadIndex getIndex(mlir::func::FuncOp function, unsigned read, unsigned dim);

  mlir::SymbolTable symbols;
  std::map<std::pair<void *, unsigned>, Derivative> byOperand;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<CaptureRead>> byFunction;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_SCALARGRADIENTS_H
