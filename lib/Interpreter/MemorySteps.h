// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps between views and tiles.

#ifndef TILEWRIGHT_LIB_INTERPRETER_MEMORYSTEPS_H
#define TILEWRIGHT_LIB_INTERPRETER_MEMORYSTEPS_H

#include "base/Numeric/Transfer.h"
#include "lib/Interpreter/Frame.h"
#include <optional>

namespace tilewright::interpreter {

/// The location of a tile in a view.
struct Placement {
  Slot view = 0;
  llvm::SmallVector<IntOperand, 4> indices; ///< one per dimension of the view
  llvm::SmallVector<unsigned, 4> dims; ///< dimension of the view for each dimension of the tile
  llvm::SmallVector<int64_t, 4> shape; ///< shape of the tile
  /// Gather and scatter: the tile's dimension that a tile of indices addresses.
  std::optional<unsigned> along;
  ValueOperand at;
};

/// The element of a view of i32; null if it is outside.
int32_t *counterOf(const Frame &frame, Slot view, llvm::ArrayRef<IntOperand> indices);

/// The turn of an addition that is ordered among instances.
struct Turn {
  IntOperand number;
  Slot counters = 0;
  llvm::SmallVector<IntOperand, 4> indices;
};

/// Waits until the counter has the number of the turn. Earlier instances run concurrently and do
/// not wait for this one. Returns a message, which ends with the `rule`, if the turn cannot come.
std::optional<std::string> awaitTurn(const Frame &frame, const int32_t *counter, const Turn &turn,
                                     const char *rule);

enum class TransferKind { Load, Store, AtomicAdd };

/// tile.load and tile.gather; tile.store; tile.atomic_add and tile.scatter_add.
class TransferStep : public Step {
public:
  static std::unique_ptr<Step> load(mlir::Operation *op, Placement place,
                                    std::optional<ValueOperand> pad, ValueResult result) {
    auto step = std::make_unique<TransferStep>(op, TransferKind::Load, std::move(place));
    step->pad = pad;
    step->result = result;
    return step;
  }
  static std::unique_ptr<Step> write(mlir::Operation *op, TransferKind kind, Placement place,
                                     ValueOperand value, std::optional<Turn> turn = std::nullopt) {
    auto step = std::make_unique<TransferStep>(op, kind, std::move(place));
    step->value = value;
    step->turn = std::move(turn);
    return step;
  }
  TransferStep(mlir::Operation *op, TransferKind kind, Placement place);
  bool run(Frame &frame) const override;

private:
  std::optional<Turn> turn;
  TransferKind kind;
  Placement place;
  int64_t count = 1;
  llvm::SmallVector<unsigned, 4> fixedDims; ///< dimensions of the view that are not in the tile
  ValueOperand value;
  std::optional<ValueOperand> pad;
  ValueResult result;
};

/// tile.add_at.
class AddAtStep : public Step {
public:
  AddAtStep(mlir::Operation *op, Slot view, ValueOperand value, int64_t count,
            llvm::ArrayRef<ValueOperand> indices, bool isUniform, bool isExact)
      : Step(op), view(view), value(value), count(count), indices(indices), isUniform(isUniform),
        isExact(isExact) {}
  bool run(Frame &frame) const override;

private:
  Slot view;
  ValueOperand value;
  int64_t count;
  llvm::SmallVector<ValueOperand, 4> indices;
  bool isUniform; ///< all indices are scalars: the elements are summed first
  bool isExact;
};

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_MEMORYSTEPS_H
