// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps that compute each element of the result from the same elements of the operands.

#ifndef TILEWRIGHT_LIB_INTERPRETER_ELEMENTWISESTEPS_H
#define TILEWRIGHT_LIB_INTERPRETER_ELEMENTWISESTEPS_H

#include "lib/Interpreter/Frame.h"

namespace tilewright::interpreter {

/// Chooses the form of the result and passes contiguous elements to the native loop: one element if
/// all operands are splats; the distinct elements if all are repeated alike; rows if a repeated
/// operand meets a dense one. So row and column vectors are never expanded in memory.
class ElementwiseStep : public Step {
public:
  /// The result reuses the buffer of an operand only if `mayReuseOperands`.
  ElementwiseStep(mlir::Operation *op, llvm::ArrayRef<ValueOperand> operands, ValueResult result,
                  bool mayReuseOperands = true)
      : Step(op), operands(operands.begin(), operands.end()), result(result),
        mayReuseOperands(mayReuseOperands) {}

  bool run(Frame &frame) const override;

protected:
  /// Computes n elements. `out` may alias an operand with elements of the same width.
  virtual numeric::OpError apply(Frame &frame, const numeric::Operand *operands, void *out,
                                 size_t n) const = 0;

  llvm::SmallVector<ValueOperand, 3> operands;
  ValueResult result;

private:
  bool mayReuseOperands;

  BufferRef allocateResult(Frame &frame, Form form, size_t bytes) const;
  bool runInRows(Frame &frame) const;
};

/// Calls a function that computes n elements: apply(frame, operands, out, n).
template <typename ApplyT> class ElementwiseFunctionStep : public ElementwiseStep {
public:
  ElementwiseFunctionStep(mlir::Operation *op, llvm::ArrayRef<ValueOperand> operands,
                          ValueResult result, ApplyT function, bool mayReuseOperands = true)
      : ElementwiseStep(op, operands, result, mayReuseOperands), function(std::move(function)) {}

protected:
  numeric::OpError apply(Frame &frame, const numeric::Operand *in, void *out,
                         size_t n) const override {
    return function(frame, in, out, n);
  }

private:
  ApplyT function;
};

/// `and` and `or` of i1. A splat operand determines the result, or returns the other one unchanged.
class LogicStep : public ElementwiseStep {
public:
  LogicStep(mlir::Operation *op, bool isAnd, llvm::ArrayRef<ValueOperand> operands,
            ValueResult result)
      : ElementwiseStep(op, operands, result), isAnd(isAnd) {}

  bool run(Frame &frame) const override;

protected:
  numeric::OpError apply(Frame &, const numeric::Operand *in, void *out, size_t n) const override {
    auto kind = isAnd ? numeric::BinaryOp::AndI : numeric::BinaryOp::OrI;
    return numeric::binary(kind, result.storage, in[0], in[1], out, n);
  }

private:
  bool isAnd;
};

/// Operands: condition, value if true, value if false. A splat condition copies nothing.
class SelectStep : public ElementwiseStep {
public:
  using ElementwiseStep::ElementwiseStep;

  bool run(Frame &frame) const override;

protected:
  numeric::OpError apply(Frame &, const numeric::Operand *in, void *out, size_t n) const override {
    numeric::select(result.storage, in[0], in[1], in[2], out, n);
    return numeric::OpError::None;
  }
};

class CastStep : public ElementwiseStep {
public:
  /// `largest` is the magnitude to which values are limited first, if any; for integers, which
  /// they are rounded to, the largest one.
  CastStep(mlir::Operation *op, numeric::CastOp kind, ValueOperand operand, ValueResult result,
           std::optional<double> largest = std::nullopt)
      : ElementwiseStep(op, {operand}, result), kind(kind), largest(largest) {
    // A wide operand is rounded once, through f64: see apply().
    throughDouble = result.rounds() && kind != numeric::CastOp::Bitcast &&
                    operand.storage != Storage::F32 && operand.storage != Storage::I1;
    isCopy = kind == numeric::CastOp::FPToFP && operand.storage == result.storage && !largest;
  }

  bool run(Frame &frame) const override;

protected:
  numeric::OpError apply(Frame &frame, const numeric::Operand *in, void *out,
                         size_t n) const override;

private:
  numeric::CastOp kind;
  std::optional<double> largest;
  bool throughDouble, isCopy;
};

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_ELEMENTWISESTEPS_H
