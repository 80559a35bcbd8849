// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expressions as flat code, which launches evaluate. A successful evaluation allocates nothing; a
// failed one finds the part of the expression without a value.

#ifndef TILEWRIGHT_RUNTIME_EXPRCODE_H
#define TILEWRIGHT_RUNTIME_EXPRCODE_H

#include "runtime/Argument.h"
#include "runtime/Expr.h"

namespace tilewright::runtime {

/// The inputs of an evaluation. `arguments[i]` belongs to argument i of the contract that the
/// expression was resolved against.
struct ExprInputs {
  const Argument *const *arguments = nullptr;
  int64_t smCount = 0;
};

class ExprCode {
public:
  ExprCode() = default; // no conditions
  /// Compiles a resolved expression, which must outlive the code. `contract` is that of the
  /// arguments, which must have been checked against it.
  ExprCode(const Expr &expr, const std::vector<ArgumentSpec> &contract);
  /// Compiles conditions, which are flags; a condition that reads the extent of an absent view
  /// holds.
  ExprCode(const std::vector<Expr> &conditions, const std::vector<ArgumentSpec> &contract);

  /// The position where evaluation ended.
  struct End {
    const Expr *expr = nullptr; // null: after the last instruction
    expr::Fault fault = expr::Fault::None;
  };
  static Status failure(const End &end);
  /// "its condition '...' does not hold, but got ...; ...", for a condition without fault.
  static std::string describe(const End &end, const ExprInputs &inputs);

  /// An integer; a flag as 0 or 1. Fails on overflow of 64 bits and division by zero.
  Status evaluate(const ExprInputs &inputs, int64_t &result) const {
    Stop stop = run(code.data(), inputs, result);
    return stop.at ? failure(endAt(stop)) : Status::success();
  }
  /// The first condition that does not hold, or the part of it that has no value.
  End findBroken(const ExprInputs &inputs) const {
    int64_t unused;
    Stop stop = run(code.data(), inputs, unused);
    return stop.at ? endBehind(stop, inputs) : End();
  }

private:
  enum class Op : uint8_t {
    Constant, // a type is its number; enum values are numbered
    Scalar32,
    Scalar64,
    ScalarFlag,
    ScalarReal, // the bits of a double, as all floats
    Dim,
    SmCount,
    Not,
    Finite,
    ToReal, // from an integer
    Bits,
    Accumulator,
    Compute,       // on integers
    CompareReals,  // on doubles
    JumpIfFalse,   // for `and`: keeps the flag if it jumps
    JumpIfTrue,    // for `or`: likewise
    BranchIfFalse, // for `select`: pops the flag
    Jump,
    Require,         // pops a flag
    RequireEqualDims // of two extents, the most frequent condition
  };
  struct Instruction {
    Op op;
    expr::Function function = {}; // function of Compute and CompareReals
    uint8_t argument = 0, dim = 0;
    uint8_t otherArgument = 0, otherDim = 0;
    /// A constant; the target of a jump; or the views that a required flag reads, one bit each.
    int64_t value = 0;
  };
  struct Stop {
    const Instruction *at; // null: all instructions were executed
    expr::Fault fault;
  };
  struct Builder;
  Stop run(const Instruction *from, const ExprInputs &inputs, int64_t &result) const;
  End endAt(const Stop &stop) const { return {origins[size_t(stop.at - code.data())], stop.fault}; }
  End endBehind(Stop stop, const ExprInputs &inputs) const;

  std::vector<Instruction> code;
  std::vector<const Expr *> origins; // expression of each instruction
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_EXPRCODE_H
