// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of operations of tgpu on a simulated block.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SIMULATEDSTEPS_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SIMULATEDSTEPS_H

#include "base/Numeric/Transfer.h"
#include "dialect/Tgpu/Tgpu.h"
#include "lib/Interpreter/Lowering.h"
#include "lib/Interpreter/MemorySteps.h"
#include "lib/Interpreter/Simulator/Machine.h"
#include "lib/Interpreter/Simulator/TilePatterns.h"

namespace tilewright::simulator {

/// The simulator's table, in parts; other operations are executed as on the CPU device.
void addSharedSimulation(interpreter::LoweringTable &table);
void addSyncSimulation(interpreter::LoweringTable &table);
void addHopperSimulation(interpreter::LoweringTable &table);

/// The warps that execute an operation: of its role, or of the block.
int64_t warpsOf(mlir::Operation *op);

using Simulation = std::function<bool(Machine &, Context &, SimulatedFrame &)>;

/// A step before which other contexts may run.
class SimulatedStep : public interpreter::Step {
public:
  SimulatedStep(mlir::Operation *op, Simulation simulation)
      : Step(op), op(op), simulation(std::move(simulation)) {}
  bool run(interpreter::Frame &frame) const override {
    auto &simulated = static_cast<SimulatedFrame &>(frame);
    Machine &machine = *simulated.machine;
    if (machine.executed)
      machine.executed->insert(op);
    Context &context = *simulated.context;
    if (context.idleGroup && !mlir::isa<tgpu::ArriveOp, tgpu::SlotOp>(op))
      return mlir::isa<tgpu::WaitOp, tgpu::AcquireOp, tgpu::TakeTurnOp, tgpu::PassTurnOp>(op) ||
             machine.fail(op,
                          "must wait, arrive or take turns in rounds that a warpgroup skips, but "
                          "got '" +
                              op->getName().getStringRef().str() + "'");
    return (context.idleGroup || machine.step(context, op)) &&
           simulation(machine, context, simulated);
  }

private:
  mlir::Operation *op;
  Simulation simulation;
};

inline void emit(interpreter::Lowering &lowering, mlir::Operation *op, Simulation simulation) {
  lowering.emit<SimulatedStep>(op, std::move(simulation));
}

/// The fault of a context whose code has failed.
inline bool failIn(Machine &machine, const Context &context, const SimulatedFrame &frame,
                   mlir::Operation *fallback) {
  mlir::Operation *op = frame.failedOp ? frame.failedOp : fallback;
  return frame.roundsLeft > 0 ? machine.fail(op, frame.failure)
                              : machine.failEndless(context, op, frame.failure);
}

/// The number that denotes a buffer, a ring, barriers or a pending tile at run time.
inline int64_t numberIn(const SimulatedFrame &frame, interpreter::Slot slot) {
  return frame.values[slot].scalar.i64;
}
inline void setNumber(SimulatedFrame &frame, interpreter::Slot slot, int64_t number) {
  interpreter::Scalar scalar;
  scalar.i64 = number;
  frame.values[slot].setSplat(scalar);
}

/// Copies elements between shared memory and a dense tile.
void gather(Machine &machine, int64_t base, llvm::ArrayRef<int32_t> offsets, ElementType type,
            Storage storage, void *out);
void scatter(Machine &machine, int64_t base, llvm::ArrayRef<int32_t> offsets, ElementType type,
             Storage storage, const void *in);

/// A box of a view, with the bounds when the copy is started.
struct GlobalTile {
  ElementType type = ElementType::F32;
  char *base = nullptr;
  llvm::SmallVector<numeric::TileAxis, 5> axes;
  std::shared_ptr<const std::vector<int64_t>> rowOffsets = nullptr; ///< of a paged view
};
GlobalTile tileOf(const SimulatedFrame &frame, const interpreter::Placement &place);

/// Writes zeros for elements outside of the view.
void copyToShared(Machine &machine, const GlobalTile &tile, int64_t base,
                  llvm::ArrayRef<int32_t> offsets);

} // namespace tilewright::simulator

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SIMULATEDSTEPS_H
