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
  ElementwiseStep(mlir::Operation *op, llvm::ArrayRef<ValueOperand> operands, ValueResult result)
      : Step(op), operands(operands.begin(), operands.end()), result(result) {}

  bool run(Frame &frame) const override;

protected:
  /// Computes n elements. `out` may alias an operand with elements of the same width.
  virtual numeric::OpError apply(Frame &frame, const numeric::Operand *operands, void *out,
                                 size_t n) const = 0;

  llvm::SmallVector<ValueOperand, 3> operands;
  ValueResult result;
  /// False if `out` must not alias an operand.
  bool mayReuseOperands = true;

private:
  BufferRef allocateResult(Frame &frame, Form form, size_t bytes) const;
  bool runInRows(Frame &frame) const;
};

class UnaryStep : public ElementwiseStep {
public:
  UnaryStep(mlir::Operation *op, numeric::UnaryOp kind, ValueOperand operand, ValueResult result)
      : ElementwiseStep(op, {operand}, result), kind(kind) {}

protected:
  numeric::OpError apply(Frame &, const numeric::Operand *in, void *out, size_t n) const override {
    return numeric::unary(kind, result.storage, in[0], out, n);
  }

private:
  numeric::UnaryOp kind;
};

class BinaryStep : public ElementwiseStep {
public:
  BinaryStep(mlir::Operation *op, numeric::BinaryOp kind, ValueOperand a, ValueOperand b,
             ValueResult result)
      : ElementwiseStep(op, {a, b}, result), kind(kind) {}

protected:
  numeric::OpError apply(Frame &, const numeric::Operand *in, void *out, size_t n) const override {
    return numeric::binary(kind, result.storage, in[0], in[1], out, n);
  }

private:
  numeric::BinaryOp kind;
};

/// `and` and `or` of i1. A splat operand determines the result, or returns the other one unchanged.
class LogicStep : public BinaryStep {
public:
  LogicStep(mlir::Operation *op, bool isAnd, ValueOperand a, ValueOperand b, ValueResult result)
      : BinaryStep(op, isAnd ? numeric::BinaryOp::AndI : numeric::BinaryOp::OrI, a, b, result),
        isAnd(isAnd) {}

  bool run(Frame &frame) const override;

private:
  bool isAnd;
};

class FmaStep : public ElementwiseStep {
public:
  using ElementwiseStep::ElementwiseStep;

protected:
  numeric::OpError apply(Frame &, const numeric::Operand *in, void *out, size_t n) const override {
    return numeric::fma(result.storage, in[0], in[1], in[2], out, n);
  }
};

template <typename Predicate, auto compare> class CompareStep : public ElementwiseStep {
public:
  CompareStep(mlir::Operation *op, Predicate predicate, ValueOperand a, ValueOperand b,
              ValueResult result)
      : ElementwiseStep(op, {a, b}, result), predicate(predicate) {}

protected:
  numeric::OpError apply(Frame &, const numeric::Operand *in, void *out, size_t n) const override {
    return compare(predicate, operands[0].storage, in[0], in[1], static_cast<uint8_t *>(out), n);
  }

private:
  Predicate predicate;
};
using CompareFloatStep = CompareStep<numeric::CmpF, numeric::compareFloat>;
using CompareIntStep = CompareStep<numeric::CmpI, numeric::compareInt>;

/// Operands: condition, value if true, value if false. A splat condition copies nothing.
class SelectStep : public ElementwiseStep {
public:
  SelectStep(mlir::Operation *op, llvm::ArrayRef<ValueOperand> operands, ValueResult result)
      : ElementwiseStep(op, operands, result) {}

  bool run(Frame &frame) const override;

protected:
  numeric::OpError apply(Frame &, const numeric::Operand *in, void *out, size_t n) const override {
    numeric::select(result.storage, in[0], in[1], in[2], out, n);
    return numeric::OpError::None;
  }
};

class CastStep : public ElementwiseStep {
public:
  CastStep(mlir::Operation *op, numeric::CastOp kind, ValueOperand operand, ValueResult result)
      : ElementwiseStep(op, {operand}, result), kind(kind) {
    // A wide operand is rounded once, through f64: see apply().
    throughDouble = result.rounds() && kind != numeric::CastOp::Bitcast &&
                    operand.storage != Storage::F32 && operand.storage != Storage::I1;
    isCopy = kind == numeric::CastOp::FPToFP && operand.storage == result.storage;
  }

  bool run(Frame &frame) const override;

protected:
  numeric::OpError apply(Frame &frame, const numeric::Operand *in, void *out,
                         size_t n) const override;

private:
  numeric::CastOp kind;
  bool throughDouble, isCopy;
};

/// Numbers of `bits` random bits, by `rounds` rounds: operands seed, offset (i64) and the three
/// counters.
class RandomStep : public ElementwiseStep {
public:
  RandomStep(mlir::Operation *op, unsigned bits, unsigned rounds,
             llvm::ArrayRef<ValueOperand> operands, ValueResult result)
      : ElementwiseStep(op, operands, result), bits(bits), rounds(rounds) {
    mayReuseOperands = false;
  }

protected:
  numeric::OpError apply(Frame &frame, const numeric::Operand *in, void *out,
                         size_t n) const override;

private:
  unsigned bits, rounds;
};

/// Elements of a view (tile.at): operands are the indices.
class AtStep : public ElementwiseStep {
public:
  AtStep(mlir::Operation *op, Slot view, llvm::ArrayRef<ValueOperand> indices, ValueResult result)
      : ElementwiseStep(op, indices, result), view(view) {
    mayReuseOperands = false;
  }

protected:
  numeric::OpError apply(Frame &frame, const numeric::Operand *in, void *out,
                         size_t n) const override;

private:
  Slot view;
};

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_ELEMENTWISESTEPS_H
