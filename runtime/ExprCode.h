// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expressions as flat code, which a run evaluates many of. The code knows successes only: where it
// has no answer, the Expr that it was made of gives the answer or the reason.

#ifndef TILEWRIGHT_RUNTIME_EXPRCODE_H
#define TILEWRIGHT_RUNTIME_EXPRCODE_H

#include "runtime/Expr.h"

namespace tilewright::runtime {

class ExprCode {
public:
  /// Of a resolved expression. `contract` is that of the arguments it is evaluated over, which must
  /// have been checked against it.
  static ExprCode ofInteger(const Expr &expr, const std::vector<ArgumentSpec> &contract);
  /// Of conditions as Expr::evaluateCondition knows them.
  static ExprCode ofConditions(const std::vector<Expr> &conditions,
                               const std::vector<ArgumentSpec> &contract);

  /// False where the expression must be asked.
  bool evaluate(const ExprInputs &inputs, int64_t &result) const;
  /// Whether all conditions hold; where it is false, one may still hold.
  bool allHold(const ExprInputs &inputs) const;

private:
  enum class Kind : uint8_t { None, Integer, Flag, Real };
  enum class Op : uint8_t {
    Constant,
    Scalar32,
    Scalar64,
    ScalarFlag,
    ScalarReal, // as all floats, the bits of a double
    Dim,
    SmCount,
    Add,
    Sub,
    Mul,
    CeilDiv,
    FloorDiv,
    Mod,
    Min,
    Max,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    LessReal, // of doubles, in the order above
    LessEqualReal,
    GreaterReal,
    GreaterEqualReal,
    EqualReal,
    NotEqualReal,
    Not,
    Finite,
    ToReal,        // of an integer
    JumpIfFalse,   // the flag stays where it jumps: and
    JumpIfTrue,    // likewise: or
    BranchIfFalse, // takes the flag: select
    Jump,
    Require,         // takes a flag
    RequireEqualDims // of two extents, the most frequent condition
  };
  struct Instruction {
    Op op;
    uint8_t argument = 0, dim = 0;
    uint8_t otherArgument = 0, otherDim = 0;
    uint16_t target = 0;
    /// A constant; the views that a required flag reads, a bit for each.
    int64_t value = 0;
  };
  Kind append(const Expr &expr, const std::vector<ArgumentSpec> &contract, uint64_t &views);
  Kind appendCall(const Expr &expr, const std::vector<ArgumentSpec> &contract, uint64_t &views);
  bool isRunnable() const;
  bool run(const ExprInputs &inputs, int64_t &result) const;

  bool isComplete = false;
  std::vector<Instruction> code;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_EXPRCODE_H
