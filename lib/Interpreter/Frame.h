// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A compiled kernel is a tree of steps, which are immutable and shared by all threads. A frame
// holds the values of one thread.

#ifndef TILEWRIGHT_LIB_INTERPRETER_FRAME_H
#define TILEWRIGHT_LIB_INTERPRETER_FRAME_H

#include "lib/Interpreter/Datum.h"
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright::interpreter {

class InstanceCheck;

/// Index of a value in Frame::values, or of a view in Frame::views.
using Slot = unsigned;

/// Tracks the completed instances of a launch. Threads take instances in increasing order.
class Progress {
public:
  explicit Progress(int64_t instances)
      : ended(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(instances))),
        count(instances) {}
  void noteEnd(int64_t instance) { ended[instance].store(true, std::memory_order_release); }
  /// Whether all instances before this one have completed.
  bool isFirst(int64_t instance) {
    int64_t open = firstOpen.load(std::memory_order_relaxed);
    while (open < count && ended[open].load(std::memory_order_acquire))
      ++open;
    firstOpen.store(open, std::memory_order_relaxed); // if too low, instances are rechecked
    return open >= instance;
  }

private:
  std::unique_ptr<std::atomic<bool>[]> ended;
  std::atomic<int64_t> firstOpen{0};
  int64_t count;
};

struct Frame {
  BufferPool pool; ///< must outlive the values
  std::vector<Datum> values;
  std::vector<View> views;

  Progress *progress = nullptr; ///< progress of the launch; null if instances run one after another
  int64_t instance = 0;         ///< the current instance
  int64_t instances = 1;        ///< number of instances of the launch
  InstanceCheck *check = nullptr; ///< of what instances store and load; null: not checked
  bool prints = true;             ///< false where an earlier run of the same launch has printed

  int64_t roundsLeft = std::numeric_limits<int64_t>::max(); ///< that loops may still execute
  /// Set by the step that failed.
  mlir::Operation *failedOp = nullptr;
  std::string failure;
  /// Records the error; returns false, for Step::run.
  bool fail(mlir::Operation *op, std::string message) {
    failedOp = op;
    failure = std::move(message);
    return false;
  }
};

class Step {
public:
  explicit Step(mlir::Operation *op) : op(op) {}
  virtual ~Step() = default;

  /// Returns false after an error, which Frame::fail has recorded.
  [[nodiscard]] virtual bool run(Frame &frame) const = 0;

  /// Values whose last use is this step.
  llvm::SmallVector<Slot, 2> releases;

protected:
  bool fail(Frame &frame, std::string message) const { return frame.fail(op, std::move(message)); }
  bool check(Frame &frame, numeric::OpError error) const {
    return error == numeric::OpError::None || fail(frame, numeric::opErrorMessage(error));
  }

private:
  mlir::Operation *op;
};

/// A step that calls a function of the frame, which returns what run() does.
template <typename FunctionT> class FunctionStep : public Step {
public:
  FunctionStep(mlir::Operation *op, FunctionT function) : Step(op), function(std::move(function)) {}
  bool run(Frame &frame) const override { return function(frame); }

private:
  FunctionT function;
};

/// A list of steps: the body of a kernel, a loop or a branch.
struct Code {
  std::vector<std::unique_ptr<Step>> steps;

  [[nodiscard]] bool run(Frame &frame) const {
    for (const std::unique_ptr<Step> &step : steps) {
      if (!step->run(frame))
        return false;
      for (Slot slot : step->releases)
        frame.values[slot].release();
    }
    return true;
  }
};

/// A scalar integer operand: a slot or a constant.
struct IntOperand {
  Slot slot = 0;
  Storage storage = Storage::I32;
  bool isConstant = false;
  int64_t constant = 0;

  static IntOperand fromConstant(int64_t value) { return {0, Storage::I64, true, value}; }
  int64_t read(const Frame &frame) const {
    return isConstant ? constant : frame.values[slot].scalar.toInt(storage);
  }
};

/// An operand that is a tile or scalar of any form.
struct ValueOperand {
  Slot slot = 0;
  Storage storage = Storage::F32;
  bool dies = false; ///< this is the last use: the step may reuse the buffer
};

/// The tile or scalar that a step produces.
struct ValueResult {
  Slot slot = 0;
  Storage storage = Storage::F32;
  int64_t count = 1; ///< elements
  /// The type to which results are rounded; F32 and F64 need no rounding.
  ElementType roundTo = ElementType::F32;

  size_t bytes() const { return count * storageBytes(storage); }
  bool rounds() const { return roundTo != ElementType::F32 && roundTo != ElementType::F64; }
  /// Rounds newly computed elements (of storage F32) to the declared type.
  void round(void *elements, size_t n) const {
    if (rounds())
      numeric::roundInPlace(static_cast<float *>(elements), n, roundTo);
  }
};

/// Moves the value out of its slot if this is its last use, else copies it.
inline Datum take(Frame &frame, const ValueOperand &operand) {
  Datum &value = frame.values[operand.slot];
  return operand.dies ? std::move(value) : value;
}

/// A value or a view that is moved between slots.
struct Move {
  Slot from = 0, to = 0;
  bool isView = false;
  bool dies = false;
};
/// Executes all moves in parallel: the slots may overlap.
void moveAll(Frame &frame, llvm::ArrayRef<Move> moves);

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_FRAME_H
