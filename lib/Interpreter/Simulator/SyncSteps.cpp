// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roles and barriers.

#include "lib/Interpreter/ControlSteps.h"
#include "lib/Interpreter/Simulator/SimulatedSteps.h"
#include "passes/Conversion/RoleThreads.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright::interpreter;

namespace tilewright::simulator {

namespace {

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// Every role starts with a copy of the current values.
LogicalResult lower(Lowering &lowering, tgpu::RolesOp op) {
  struct RoleCode {
    std::string name;
    unsigned warps;     ///< warps of the role
    unsigned executing; ///< warps that execute the code
    interpreter::Code code;
  };
  auto roles = std::make_shared<std::vector<RoleCode>>();
  for (auto [name, warps, body] : llvm::zip_equal(op.getNames(), op.getWarps(), op.getBodies())) {
    RoleCode &role = roles->emplace_back();
    role.name = "role '" + cast<StringAttr>(name).getValue().str() + "'";
    role.warps = static_cast<unsigned>(warps);
    role.executing = tgpu::isForOneThread(body) ? 1 : role.warps;
    if (failed(lowering.lowerBlock(body.front(), role.code)))
      return failure();
  }
  emit(lowering, op, [roles, op = op.getOperation()](Machine &machine, auto &, auto &frame) {
    std::vector<std::unique_ptr<SimulatedFrame>> frames;
    std::vector<Machine::Role> running(roles->size());
    unsigned first = 0;
    for (auto [role, code] : llvm::zip_equal(running, *roles)) {
      SimulatedFrame &own = *frames.emplace_back(std::make_unique<SimulatedFrame>());
      own.values = frame.values;
      own.views = frame.views;
      own.machine = &machine;
      own.context = &role.context;
      own.roundsLeft = frame.roundsLeft;
      own.prints = frame.prints;
      role.context.name = code.name;
      role.context.firstWarp = first;
      role.context.numWarps = code.executing;
      first += code.warps;
      role.run = [&machine, &own, &role = role, &code = code, op] {
        if (!code.code.run(own))
          return failIn(machine, role.context, own, op);
        return machine.finish(role.context, op);
      };
    }
    return machine.runRoles(running);
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::GridExtentOp op) {
  Slot slot = lowering.define(op.getResult());
  emit(lowering, op, [slot, dim = op.getDim()](Machine &machine, auto &, auto &frame) {
    frame.values[slot].setSplat(Scalar::fromInt(machine.gridExtents[dim], Storage::I32));
    return true;
  });
  return success();
}

/// Blocks run one after the other, so the last one executes work that waits for others.
LogicalResult lower(Lowering &lowering, tgpu::ShareOp op) {
  Slot first = lowering.define(op.getFirst()), step = lowering.define(op.getStep());
  IntOperand count = lowering.intOperand(op.getCount());
  emit(lowering, op, [=](Machine &machine, auto &, auto &frame) {
    bool isLast = machine.block + 1 == machine.gridExtents[0];
    frame.values[first].setSplat(Scalar::fromInt(isLast ? 0 : count.read(frame), Storage::I32));
    frame.values[step].setSplat(Scalar::fromInt(1, Storage::I32));
    return true;
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Idle rounds
//===----------------------------------------------------------------------===//

/// A loop over the rounds that a warpgroup skips. The context executes only those that all of its
/// warpgroups skip; before, the rounds of each warpgroup are executed for their arrivals alone,
/// which the machine compares with those of the warpgroup in the same phases.
class IdleRoundsStep : public ForStep {
public:
  using ForStep::ForStep;
  bool run(Frame &frame) const override {
    Context &context = *static_cast<SimulatedFrame &>(frame).context;
    int64_t first = upper.read(frame);
    for (auto [group, operand] : llvm::enumerate(own)) {
      int64_t ownFirst = operand.read(frame);
      if (ownFirst <= first)
        continue;
      context.idleGroup = static_cast<unsigned>(group);
      frame.values[upper.slot].setSplat(Scalar::fromInt(ownFirst, Storage::I32));
      bool isDone = ForStep::run(frame);
      frame.values[upper.slot].setSplat(Scalar::fromInt(first, Storage::I32));
      context.idleGroup.reset();
      if (!isDone)
        return false;
    }
    return ForStep::run(frame);
  }

  SmallVector<IntOperand> own; ///< the first round of each warpgroup
};

LogicalResult lower(Lowering &lowering, scf::ForOp op) {
  auto first = op.getUpperBound().getDefiningOp<tgpu::FirstRoundOp>();
  bool isIdle = first && op->getParentOfType<tgpu::RolesOp>() &&
                llvm::all_of(op.getResultTypes(), [](Type type) { return type.isIntOrIndex(); });
  if (!isIdle)
    return interpreter::lowerings().lookup(op.getOperationName())(lowering, op);
  auto step = std::make_unique<IdleRoundsStep>(op);
  for (Value round : first.getOwn())
    step->own.push_back(lowering.intOperand(round));
  return lowerFor(lowering, op, std::move(step));
}

//===----------------------------------------------------------------------===//
// mbarriers
//===----------------------------------------------------------------------===//

LogicalResult lower(Lowering &lowering, tgpu::AllocBarriersOp op) {
  unsigned stages = cast<tgpu::BarriersType>(op.getBarriers().getType()).getStages();
  Slot slot = lowering.define(op.getBarriers());
  int64_t arrivals = op.getArrivals();
  std::optional<int64_t> offset = op.getOffset();
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &, auto &frame) {
    unsigned first = machine.plan.barriers.lookup(op);
    setNumber(frame, slot, first);
    return machine.initialize(op, first, stages, arrivals, offset);
  });
  return success();
}

/// The barrier and phase of a use.
struct BarrierUse {
  BarrierUse(Lowering &lowering, Value barriers, Value use)
      : barriers(lowering.slotOf(barriers)), use(lowering.intOperand(use)),
        stages(cast<tgpu::BarriersType>(barriers.getType()).getStages()) {}

  struct Point {
    unsigned barrier;
    int64_t phase;
  };
  Point read(const SimulatedFrame &frame) const {
    int64_t number = use.read(frame);
    if (number < 0) // reported when the phase is checked
      return {static_cast<unsigned>(numberIn(frame, barriers)), -2};
    return {static_cast<unsigned>(numberIn(frame, barriers) + number % stages), number / stages};
  }

  Slot barriers;
  IntOperand use;
  int64_t stages;
};

template <typename OpT> LogicalResult lowerWait(Lowering &lowering, OpT op, int64_t earlier) {
  BarrierUse use(lowering, op.getBarriers(), op.getUse());
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    auto [barrier, phase] = use.read(frame);
    if (phase < -1)
      return machine.fail(op, "requires a use that is not negative, but got one of phase " +
                                  std::to_string(phase));
    return machine.wait(context, op, barrier, phase - earlier);
  });
  return success();
}
LogicalResult lower(Lowering &lowering, tgpu::WaitOp op) { return lowerWait(lowering, op, 0); }
LogicalResult lower(Lowering &lowering, tgpu::AcquireOp op) { return lowerWait(lowering, op, 1); }

LogicalResult lower(Lowering &lowering, tgpu::ArriveOp op) {
  BarrierUse use(lowering, op.getBarriers(), op.getUse());
  unsigned perArrival = 1, count = 1; // warps that make one arrival together
  switch (op.getPer()) {
  case tgpu::ArriveScope::Thread:
    count = layout::kLanes;
    break;
  case tgpu::ArriveScope::Warp:
    break;
  case tgpu::ArriveScope::Warpgroup:
    perArrival = 4;
    break;
  case tgpu::ArriveScope::Role:
    perArrival = static_cast<unsigned>(warpsOf(op));
    break;
  }
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    auto [barrier, phase] = use.read(frame);
    unsigned end = context.firstWarp + context.numWarps;
    if (context.idleGroup) {
      // Of the warps that arrive, those of the warpgroup.
      unsigned warpgroup = context.firstWarp / Target::warpsOfGroup + *context.idleGroup;
      int64_t arrivals = 0;
      for (unsigned w = context.firstWarp; w < end; w += perArrival)
        arrivals += w / Target::warpsOfGroup == warpgroup ? count : 0;
      return machine.arriveIdle(op, barrier, phase, warpgroup, arrivals);
    }
    for (unsigned w = context.firstWarp; w < end; w += perArrival)
      if (!machine.arrive(context, op, barrier, phase, w, count))
        return false;
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::ExpectOp op) {
  BarrierUse use(lowering, op.getBarriers(), op.getUse());
  int64_t bytes = op.getBytes();
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &frame) {
    auto [barrier, phase] = use.read(frame);
    return machine.expect(context, op, barrier, phase, bytes);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Named barriers
//===----------------------------------------------------------------------===//

/// Users refer to the operation directly.
LogicalResult lower(Lowering &lowering, tgpu::NamedBarrierOp op) {
  lowering.define(op.getBarrier());
  return success();
}
LogicalResult lower(Lowering &lowering, tgpu::TurnsOp op) {
  lowering.define(op.getTurns());
  return success();
}

/// At a named barrier, or, without one, of the whole block.
LogicalResult lowerMeet(Lowering &lowering, Operation *op, Value barrier, bool waits) {
  if (!barrier) {
    emit(lowering, op, [](Machine &machine, auto &context, auto &) {
      machine.meetAll(context);
      return true;
    });
    return success();
  }
  auto named = barrier.getDefiningOp<tgpu::NamedBarrierOp>();
  int64_t warps = named.getWarps();
  bool perWarpgroup = named.getPerWarpgroup();
  emit(lowering, op, [=](Machine &machine, auto &context, auto &) {
    unsigned number = machine.plan.namedBarriers.lookup(named);
    if (!perWarpgroup)
      return machine.meet(context, op, number, warps, waits, context.firstWarp, context.numWarps);
    constexpr unsigned ofGroup = Target::warpsOfGroup;
    for (unsigned first = 0; first < context.numWarps; first += ofGroup)
      if (!machine.meet(context, op, number + first / ofGroup, ofGroup, waits,
                        context.firstWarp + first, ofGroup))
        return false;
    return true;
  });
  return success();
}

LogicalResult lower(Lowering &lowering, tgpu::SyncOp op) {
  return lowerMeet(lowering, op, op.getBarrier(), /*waits=*/true);
}
LogicalResult lower(Lowering &lowering, tgpu::SignalOp op) {
  return lowerMeet(lowering, op, op.getBarrier(), /*waits=*/false);
}

template <typename OpT> LogicalResult lowerTurn(Lowering &lowering, OpT op, bool takes) {
  Operation *turns = op.getTurns().getDefiningOp();
  emit(lowering, op, [=, op = op.getOperation()](Machine &machine, auto &context, auto &) {
    return machine.takeTurn(context, op, turns, takes);
  });
  return success();
}
LogicalResult lower(Lowering &lowering, tgpu::TakeTurnOp op) {
  return lowerTurn(lowering, op, true);
}
LogicalResult lower(Lowering &lowering, tgpu::PassTurnOp op) {
  return lowerTurn(lowering, op, false);
}

LogicalResult lower(Lowering &lowering, tgpu::FenceAsyncOp op) {
  emit(lowering, op, [](Machine &machine, auto &context, auto &) {
    machine.fence(context);
    return true;
  });
  return success();
}

/// A vote, and a barrier.
LogicalResult lower(Lowering &lowering, tgpu::AnyOp op) {
  if (failed(interpreter::lowerings().lookup(op.getOperationName())(lowering, op)))
    return failure();
  return lowerMeet(lowering, op, op.getBarrier(), /*waits=*/true);
}

} // namespace

void addSyncSimulation(LoweringTable &table) {
  addLowerings<scf::ForOp, tgpu::RolesOp, tgpu::GridExtentOp, tgpu::ShareOp, tgpu::AllocBarriersOp,
               tgpu::WaitOp, tgpu::AcquireOp, tgpu::ArriveOp, tgpu::ExpectOp, tgpu::NamedBarrierOp,
               tgpu::TurnsOp, tgpu::SyncOp, tgpu::SignalOp, tgpu::TakeTurnOp, tgpu::PassTurnOp,
               tgpu::FenceAsyncOp, tgpu::AnyOp>(
      table, [](Lowering &lowering, auto op) { return lower(lowering, op); });
}

} // namespace tilewright::simulator
