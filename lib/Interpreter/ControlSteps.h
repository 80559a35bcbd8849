// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps with nested code: branches, loops, and elementwise evaluation of a function.

#ifndef TILEWRIGHT_LIB_INTERPRETER_CONTROLSTEPS_H
#define TILEWRIGHT_LIB_INTERPRETER_CONTROLSTEPS_H

#include "lib/Interpreter/Frame.h"
#include <optional>

namespace tilewright::interpreter {

using Moves = llvm::SmallVector<Move, 4>;

/// Code, and the values that it passes on (to the next iteration, or as results).
struct Body {
  Code code;
  Moves moves;

  [[nodiscard]] bool run(Frame &frame) const {
    if (!code.run(frame))
      return false;
    moveAll(frame, moves);
    return true;
  }
};

class MoveStep : public Step {
public:
  MoveStep(mlir::Operation *op, Moves moves) : Step(op), moves(std::move(moves)) {}
  bool run(Frame &frame) const override {
    moveAll(frame, moves);
    return true;
  }

private:
  Moves moves;
};

/// scf.for. The body yields into the slots of the iteration arguments.
class ForStep : public Step {
public:
  ForStep(mlir::Operation *op) : Step(op) {}
  bool run(Frame &frame) const override;

  IntOperand lower, upper, step;
  bool isUnsigned = false;
  Slot induction = 0;
  Storage inductionStorage = Storage::I32;
  Moves inits, results;
  Body body;
};

/// tile.spread: the last instance does all of it, since those before it have been started.
class SpreadStep : public ForStep {
public:
  using ForStep::ForStep;
  bool run(Frame &frame) const override {
    return frame.instance + 1 < frame.instances || ForStep::run(frame);
  }
};

/// scf.while: `before` computes the condition and passes on its arguments.
class WhileStep : public Step {
public:
  WhileStep(mlir::Operation *op) : Step(op) {}
  bool run(Frame &frame) const override;

  Moves inits, results;
  Code before;
  Slot condition = 0;
  Moves toAfter;
  Body after;
};

/// scf.if.
class IfStep : public Step {
public:
  IfStep(mlir::Operation *op) : Step(op) {}
  bool run(Frame &frame) const override;

  Slot condition = 0;
  Body thenRegion, elseRegion;
};

/// Scalar code that is executed element by element, where elements take different paths.
class PerElementStep : public Step {
public:
  PerElementStep(mlir::Operation *op, int64_t count) : Step(op), count(count) {}
  bool run(Frame &frame) const override;

  /// A value that the code reads, and the slot of its element.
  struct Input {
    Slot from, to;
    Storage storage;
  };
  /// A result of the code, and the slot of the whole tile.
  struct Output {
    Slot from, to;
    Storage storage;
  };
  llvm::SmallVector<Input, 4> inputs;
  llvm::SmallVector<Output, 2> outputs;
  Code code;

private:
  int64_t count;
};

/// scf.if in a function applied to tiles. A uniform condition takes one branch. Otherwise both
/// branches are computed (they are pure) and their results selected or, if a branch could fail for
/// elements that do not take it, the elements are computed one by one.
class SelectingIfStep : public Step {
public:
  SelectingIfStep(mlir::Operation *op) : Step(op) {}
  bool run(Frame &frame) const override;

  Slot condition = 0;
  Body thenRegion, elseRegion;    ///< each writes slots of its own
  Moves thenResults, elseResults; ///< from these slots to the results
  Code selects;                   ///< the same, selected by the condition
  std::optional<Code> perElement;
};

/// tile.for_blocks.
class BlockLoopStep : public Step {
public:
  BlockLoopStep(mlir::Operation *op) : Step(op) {}
  bool run(Frame &frame) const override;

  IntOperand lower, upper, start, limit;
  int64_t rows = 0, columns = 0; ///< shape of `keep`
  bool isDescending = false;
  std::optional<Slot> orderCondition; ///< descending only if it is true

  /// The mask of a block, from the slots of the two positions. Without a result, every pair is
  /// kept.
  Slot against = 0, block = 0; ///< the positions of rows and columns, as tiles of i32
  Code mask;
  std::optional<Slot> maskResult;

  /// The bounds, from the scalars in these slots.
  struct Ranges {
    Slot againstBegin, againstEnd, lower, upper;
    Code code;
    IntOperand mayBegin, mayEnd, mustBegin, mustEnd;
  };
  std::optional<Ranges> ranges;

  /// The list of blocks, with one or more per entry; `count` limits its length.
  struct List {
    Slot view;
    int64_t blocksOfEntry;
    llvm::SmallVector<IntOperand, 4> indices;
    std::optional<IntOperand> count;
  };
  std::optional<List> list;

  Slot induction = 0, keep = 0;
  Moves inits, results;
  Body body;

private:
  struct Visit;
  bool visitBlock(Frame &frame, const Visit &visit, int64_t number) const;
  enum class Kept { None, Some, All };
  bool computeKeep(Frame &frame, const Visit &visit, int64_t begin, Kept &kept) const;
};

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_CONTROLSTEPS_H
