// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Branches, loops, and evaluation element by element.

#include "lib/Interpreter/ControlSteps.h"

#include <cstring>

namespace tilewright::interpreter {

void moveAll(Frame &frame, llvm::ArrayRef<Move> moves) {
  if (moves.size() == 1 && !moves[0].isView) {
    frame.values[moves[0].to] = take(frame, {moves[0].from, Storage::F32, moves[0].dies});
    return;
  }
  llvm::SmallVector<Datum, 8> values;
  llvm::SmallVector<View, 1> views;
  for (const Move &move : moves) {
    if (move.isView)
      views.push_back(frame.views[move.from]);
    else
      values.push_back(take(frame, {move.from, Storage::F32, move.dies}));
  }
  size_t value = 0, view = 0;
  for (const Move &move : moves) {
    if (move.isView)
      frame.views[move.to] = std::move(views[view++]);
    else
      frame.values[move.to] = std::move(values[value++]);
  }
}

/// Completes a diagnostic of the simulator, which alone has a limit.
constexpr const char *kTooManyRounds = "as many rounds of its loops as are simulated";

bool ForStep::run(Frame &frame) const {
  int64_t from = lower.read(frame), to = upper.read(frame), by = step.read(frame);
  if (isUnsigned && inductionStorage == Storage::I32) {
    from = static_cast<uint32_t>(from);
    to = static_cast<uint32_t>(to);
    by = static_cast<uint32_t>(by);
  }
  bool isWideUnsigned = isUnsigned && inductionStorage != Storage::I32;
  if (isWideUnsigned ? by == 0 : by <= 0)
    return fail(frame, "requires a step that is positive, but got " + std::to_string(by));
  bool isEmpty =
      isWideUnsigned ? static_cast<uint64_t>(from) >= static_cast<uint64_t>(to) : from >= to;

  moveAll(frame, inits);
  // Compute the trip count first: the induction variable may overflow after the last iteration.
  uint64_t distance = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  uint64_t stride = static_cast<uint64_t>(by);
  uint64_t trips = isEmpty ? 0 : (distance - 1) / stride + 1;
  for (uint64_t trip = 0; trip < trips; ++trip) {
    int64_t value = static_cast<int64_t>(static_cast<uint64_t>(from) + trip * stride);
    frame.values[induction].setSplat(Scalar::fromInt(value, inductionStorage));
    if (--frame.roundsLeft <= 0)
      return fail(frame, kTooManyRounds);
    if (!body.run(frame))
      return false;
  }
  moveAll(frame, results);
  return true;
}

bool WhileStep::run(Frame &frame) const {
  moveAll(frame, inits);
  while (true) {
    if (--frame.roundsLeft <= 0)
      return fail(frame, kTooManyRounds);
    if (!before.run(frame))
      return false;
    bool goesOn = frame.values[condition].scalar.i1;
    moveAll(frame, toAfter);
    if (!goesOn)
      break;
    if (!after.run(frame))
      return false;
  }
  moveAll(frame, results);
  return true;
}

bool IfStep::run(Frame &frame) const {
  return (frame.values[condition].scalar.i1 ? thenRegion : elseRegion).run(frame);
}

bool PerElementStep::run(Frame &frame) const {
  bool isUniform = true;
  for (const Input &input : inputs) {
    const Datum &value = frame.values[input.from];
    if (value.isSplat())
      frame.values[input.to].setSplat(value.scalar);
    isUniform &= value.isSplat();
  }
  if (isUniform) {
    if (!code.run(frame))
      return false;
    for (const Output &output : outputs)
      frame.values[output.to].setSplat(frame.values[output.from].scalar);
    return true;
  }

  llvm::SmallVector<BufferRef, 2> results;
  for (const Output &output : outputs)
    results.emplace_back(frame.pool.allocate(count * storageBytes(output.storage)));
  for (int64_t e = 0; e < count; ++e) {
    for (const Input &input : inputs) {
      const Datum &value = frame.values[input.from];
      if (!value.isSplat())
        frame.values[input.to].setSplat(value.element(e, input.storage));
    }
    if (!code.run(frame))
      return false;
    for (size_t i = 0; i < outputs.size(); ++i) {
      size_t width = storageBytes(outputs[i].storage);
      std::memcpy(static_cast<char *>(results[i].data()) + e * width,
                  &frame.values[outputs[i].from].scalar, width);
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    frame.values[outputs[i].to].setDense(std::move(results[i]));
  return true;
}

bool SelectingIfStep::run(Frame &frame) const {
  const Datum &value = frame.values[condition];
  if (value.isSplat()) {
    bool holds = value.scalar.i1;
    if (!(holds ? thenRegion : elseRegion).run(frame))
      return false;
    moveAll(frame, holds ? thenResults : elseResults);
    return true;
  }
  if (perElement)
    return perElement->run(frame);
  return thenRegion.run(frame) && elseRegion.run(frame) && selects.run(frame);
}

} // namespace tilewright::interpreter
