// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps that copy, transpose and multiply tiles.

#ifndef TILEWRIGHT_LIB_INTERPRETER_TILESTEPS_H
#define TILEWRIGHT_LIB_INTERPRETER_TILESTEPS_H

#include "base/Numeric/MatMul.h"
#include "base/Numeric/TileOps.h"
#include "lib/Interpreter/Frame.h"

namespace tilewright::interpreter {

using Shape = llvm::SmallVector<int64_t, 4>;

/// Copies the value: tile.full (a scalar is a splat), tile.reshape, the result of a function.
class CopyStep : public Step {
public:
  CopyStep(mlir::Operation *op, ValueOperand source, Slot result)
      : Step(op), source(source), result(result) {}
  bool run(Frame &frame) const override {
    frame.values[result] = take(frame, source);
    return true;
  }

private:
  ValueOperand source;
  Slot result;
};

class TransposeStep : public Step {
public:
  TransposeStep(mlir::Operation *op, ValueOperand source, llvm::ArrayRef<int64_t> sourceShape,
                llvm::ArrayRef<int64_t> permutation, ValueResult result)
      : Step(op), source(source), shape(sourceShape), permutation(permutation), result(result) {}
  bool run(Frame &frame) const override;

private:
  ValueOperand source;
  Shape shape, permutation;
  ValueResult result;
};

/// The order `interleaved` (tile.dot, tgpu.convert) of the columns of a matrix, as a transposition.
struct Interleaving {
  /// Each element of the matrix has `inner` values.
  Interleaving(int64_t rows, int64_t columns, int64_t inner = 1)
      : shape{rows, columns / 16, 2, 4, 2 * inner} {}

  Shape shape, permutation{0, 1, 3, 2, 4};
};

/// Rounds to tf32's 10 bits of fraction, to nearest, ties to even. NaN and infinity stay.
float roundToTF32(float value);

/// result = op(lhs) op(rhs) + acc, all of one storage.
class DotStep : public Step {
public:
  DotStep(mlir::Operation *op, ValueOperand lhs, ValueOperand rhs, std::optional<ValueOperand> acc,
          const numeric::MatMulShape &shape, bool tf32, ValueResult result,
          bool isInterleaved = false, int64_t firstColumn = 0)
      : Step(op), lhs(lhs), rhs(rhs), acc(acc), shape(shape), tf32(tf32),
        isInterleaved(isInterleaved), firstColumn(firstColumn), result(result) {}
  bool run(Frame &frame) const override;

private:
  ValueOperand lhs, rhs;
  std::optional<ValueOperand> acc;
  numeric::MatMulShape shape;
  bool tf32, isInterleaved;
  int64_t firstColumn; ///< of a transposed right operand, which may have more columns
  ValueResult result;
};

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_TILESTEPS_H
