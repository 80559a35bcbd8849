// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions derived from a scalar function: its derivative with respect to an operand or to a value
// read from a capture, and the indices at which it reads.

#ifndef TILEWRIGHT_PASSES_TILE_SCALARGRADIENTS_H
#define TILEWRIGHT_PASSES_TILE_SCALARGRADIENTS_H

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace tilewright {

/// A derivative times a seed. The function takes the operands, then the seed.
struct Derivative {
  enum class Kind {
    Zero,    ///< the result does not depend on what it is differentiated by
    Seed,    ///< the derivative is one: the seed itself, converted
    Computed ///< by `function`
  };
  Kind kind = Kind::Zero;
  mlir::func::FuncOp function;
};

/// One index of a read.
struct ReadIndex {
  std::optional<int64_t> constant;
  mlir::func::FuncOp function;          ///< null where the index is operand operands[0] itself
  llvm::SmallVector<unsigned> operands; ///< those of the differentiated function that it takes
};

/// A float that a function reads from a capture.
struct CaptureRead {
  tile::CaptureOp capture;
  Derivative derivative; ///< of the function with respect to what was read; of its adjoint type
  llvm::SmallVector<ReadIndex> indices;
};

class ScalarGradients {
public:
  explicit ScalarGradients(mlir::ModuleOp module) : symbols(module) {}

  /// With respect to an operand, of the type of the operand. Errors are reported at the operation
  /// that has no rule; `user` is who asks.
  mlir::FailureOr<Derivative> ofOperand(mlir::func::FuncOp function, unsigned operand,
                                        mlir::Operation *user);

  /// The reads of floats on which the result depends, with those of functions that it calls, in
  /// order.
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
