// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps that depend on the shape of a tile: layout, reduction, product.

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

class IotaStep : public Step {
public:
  IotaStep(mlir::Operation *op, IntOperand start, llvm::ArrayRef<int64_t> shape, unsigned dim,
           ValueResult result);
  bool run(Frame &frame) const override;

private:
  IntOperand start;
  ValueResult result;
  int64_t outer = 1, size, inner = 1; ///< elements before, along and after the dimension
};

class ExpandStep : public Step {
public:
  ExpandStep(mlir::Operation *op, ValueOperand source, llvm::ArrayRef<int64_t> resultShape,
             unsigned dim, ValueResult result);
  bool run(Frame &frame) const override;

private:
  ValueOperand source;
  ValueResult result;
  int64_t times, inner = 1; ///< the new extent, and the number of elements after it
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

class SliceStep : public Step {
public:
  SliceStep(mlir::Operation *op, ValueOperand source, llvm::ArrayRef<int64_t> sourceShape,
            unsigned dim, IntOperand offset, int64_t size, std::optional<ValueOperand> fill,
            ValueResult result);
  bool run(Frame &frame) const override;

private:
  ValueOperand source;
  Shape shape;
  unsigned dim;
  IntOperand offset;
  int64_t size, sourceCount = 1;
  std::optional<ValueOperand> fill; ///< a scalar; none: zero
  ValueResult result;
};

class ReduceStep : public Step {
public:
  ReduceStep(mlir::Operation *op, numeric::ReduceOp kind, ValueOperand source,
             llvm::ArrayRef<int64_t> sourceShape, unsigned dim, ValueResult result);
  bool run(Frame &frame) const override;

private:
  numeric::ReduceOp kind;
  ValueOperand source;
  Shape shape;
  int64_t sourceCount = 1;
  unsigned dim;
  ValueResult result;
};

/// Rounds to tf32's 10 bits of fraction, to nearest, ties to even. NaN and infinity stay.
float roundToTF32(float value);

/// result = op(lhs) op(rhs) + acc, all of one storage.
class DotStep : public Step {
public:
  DotStep(mlir::Operation *op, ValueOperand lhs, ValueOperand rhs, std::optional<ValueOperand> acc,
          const numeric::MatMulShape &shape, bool tf32, ValueResult result)
      : Step(op), lhs(lhs), rhs(rhs), acc(acc), shape(shape), tf32(tf32), result(result) {}
  bool run(Frame &frame) const override;

private:
  ValueOperand lhs, rhs;
  std::optional<ValueOperand> acc;
  numeric::MatMulShape shape;
  bool tf32;
  ValueResult result;
};

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_TILESTEPS_H
