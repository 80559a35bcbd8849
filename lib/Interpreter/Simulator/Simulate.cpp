// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs entries on simulated blocks, one after the other.

#include "lib/Interpreter/Simulator/Simulate.h"

#include "lib/Interpreter/EntryRun.h"
#include "lib/Interpreter/Launch.h"
#include "lib/Interpreter/Simulator/SimulatedSteps.h"
#include "lib/Interpreter/TgpuKernels.h"
#include "lib/Interpreter/Watch.h"
#include "passes/Tile/ProgramOfKernel.h"

#include <cstring>

using namespace mlir;

namespace tilewright {

using namespace interpreter;
using namespace simulator;

namespace {

const LoweringTable &simulatedLowerings() {
  static const LoweringTable table = [] {
    LoweringTable table = lowerings();
    addSharedSimulation(table);
    addSyncSimulation(table);
    addHopperSimulation(table);
    return table;
  }();
  return table;
}

BlockPlan planOf(tile::KernelOp kernel) {
  BlockPlan plan;
  plan.warps = tgpu::warpsAttr.get(kernel).getInt();
  plan.sharedBytes = tgpu::sharedBytesAttr.get(kernel).getInt();
  plan.granule = 8;
  llvm::DenseMap<int64_t, Operation *> firstOfId;
  kernel.walk([&](Operation *op) {
    if (isa<tgpu::AllocBarriersOp>(op)) {
      plan.barriers[op] = plan.numBarriers;
      plan.numBarriers += cast<tgpu::BarriersType>(op->getResult(0).getType()).getStages();
    } else if (isa<tgpu::NamedBarrierOp>(op)) { // turns take none of the simulated ones
      // Declarations of one id are the same barrier.
      std::optional<int64_t> id = tgpu::getFirstHardwareBarrier(op);
      auto [same, isNew] = firstOfId.try_emplace(id.value_or(0), op);
      if (id && !isNew) {
        plan.namedBarriers[op] = plan.namedBarriers.lookup(same->second);
        return;
      }
      plan.namedBarriers[op] = plan.numNamedBarriers;
      plan.numNamedBarriers += static_cast<unsigned>(tgpu::getNumHardwareBarriers(op));
    }
    for (Type type : op->getResultTypes()) {
      if (auto ring = dyn_cast<tgpu::RingType>(type))
        type = ring.getSlot();
      if (auto shared = dyn_cast<tgpu::SharedType>(type))
        plan.granule = std::min(plan.granule, tgpu::getElementBits(shared.getElementType()) / 8);
    }
  });
  return plan;
}

} // namespace

/// Not in the anonymous namespace: a field of SimulatedModule::Impl has this type.
class SimulatedRunner : public KernelRunner {
public:
  /// Before a run. What has been compiled stays.
  void prepare(AsyncMoment newMoment, const SimulationOptions &newOptions,
               llvm::DenseSet<Operation *> *newExecuted) {
    moment = newMoment;
    options = &newOptions;
    executed = newExecuted;
  }

  LogicalResult compile(tile::KernelOp kernel) override {
    if (!tgpu::warpsAttr.isOn(kernel))
      return kernel.emitOpError("is not mapped onto a GPU; run tile-to-tgpu first");
    Entry &entry = kernels[kernel];
    if (entry.code)
      return success();
    entry.plan = planOf(kernel);
    if (entry.plan.sharedBytes < 0 || entry.plan.sharedBytes > Target::getMostShared())
      return kernel.emitOpError() << "shared memory must be 0 to " << Target::getMostShared()
                                  << " bytes, but got " << entry.plan.sharedBytes;
    entry.code = compileKernel(kernel, /*f64=*/false, simulatedLowerings());
    return success(entry.code != nullptr);
  }

  LogicalResult launch(tile::KernelOp kernel, ArrayRef<BoundArgument> arguments,
                       const llvm::StringMap<BoundArgument> &captures) override {
    Entry &entry = kernels[kernel];
    if (failed(checkConstraints(kernel, arguments, captures, options->smCount)))
      return failure();
    FailureOr<Grid> grid = gridOf(*entry.code, arguments, options->smCount);
    if (failed(grid))
      return failure();
    for (int64_t number = 0; number < grid->points; ++number)
      if (failed(runBlock(entry, arguments, captures, *grid, number)))
        return failure();
    return success();
  }

private:
  struct Entry {
    std::unique_ptr<CompiledKernel> code;
    BlockPlan plan;
  };

  LogicalResult runBlock(const Entry &entry, ArrayRef<BoundArgument> arguments,
                         const llvm::StringMap<BoundArgument> &captures, const Grid &grid,
                         int64_t number) {
    // The machine's pending products refer to tiles allocated from the frame.
    SimulatedFrame frame;
    Machine machine(entry.plan, moment, options->seed + static_cast<uint64_t>(number),
                    options->mostSteps, grid.extents);
    frame.roundsLeft = options->mostSteps;
    frame.prints = moment == options->moments.front();
    machine.executed = executed;
    machine.tileSeed = static_cast<int64_t>(options->seed);
    machine.block = machine.lastTile = number;
    frame.machine = &machine;
    frame.context = &machine.main;
    initialize(frame, *entry.code, arguments, captures);
    auto point = grid.pointAt(number);
    for (auto [slot, id] : llvm::zip_equal(entry.code->gridIds, point))
      frame.values[slot].setSplat(Scalar::fromInt(id, Storage::I32));
    bool isDone = entry.code->code.run(frame);
    if (isDone)
      machine.finish(machine.main, entry.code->op);
    else if (!machine.fault())
      failIn(machine, machine.main, frame, entry.code->op);
    if (!machine.fault()) {
      if (options->watches)
        options->watches->note(entry.code->op, point);
      return success();
    }
    const Machine::Fault &fault = *machine.fault();
    InFlightDiagnostic error = fault.op->emitOpError() << fault.message;
    for (const auto &[op, text] : fault.notes)
      error.attachNote(op->getLoc()) << text;
    notePoint(error, *entry.code, point);
    return error;
  }

  AsyncMoment moment = AsyncMoment::Earliest;
  const SimulationOptions *options = nullptr;
  llvm::DenseSet<Operation *> *executed = nullptr;
  llvm::DenseMap<Operation *, Entry> kernels;
};

namespace {

/// The contents of the caller's arrays, restored before each run.
class Snapshot {
public:
  explicit Snapshot(const llvm::StringMap<Argument> &arguments) {
    for (const auto &entry : arguments) {
      auto *array = std::get_if<ArrayArgument>(&entry.second);
      if (!array || !array->data || llvm::is_contained(array->shape, 0))
        continue;
      int64_t first = 0, last = 0, width = static_cast<int64_t>(byteWidth(array->type));
      for (auto [extent, stride] : llvm::zip_equal(array->shape, array->strides))
        (stride < 0 ? first : last) += (extent - 1) * stride;
      char *begin = static_cast<char *>(array->data) + first * width;
      pieces.push_back({begin, std::vector<char>(begin, begin + (last - first + 1) * width)});
    }
  }
  /// Whether the arrays' bytes differ from those of `other`.
  bool differs(const Snapshot &other) const {
    for (auto [mine, theirs] : llvm::zip_equal(pieces, other.pieces))
      if (mine.second != theirs.second)
        return true;
    return false;
  }
  void restore() const {
    for (const auto &[begin, bytes] : pieces)
      std::memcpy(begin, bytes.data(), bytes.size());
  }

private:
  std::vector<std::pair<char *, std::vector<char>>> pieces;
};

} // namespace

struct SimulatedModule::Impl {
  explicit Impl(ModuleOp module) : module(module), copy(module.clone()) {
    unwrapTgpuKernels(*copy);
  }
  ModuleOp module;
  OwningOpRef<ModuleOp> copy;
  SimulatedRunner runner;
};

SimulatedModule::SimulatedModule(ModuleOp module) : impl(std::make_unique<Impl>(module)) {}
SimulatedModule::~SimulatedModule() = default;

LogicalResult SimulatedModule::run(StringRef entry, const llvm::StringMap<Argument> &arguments,
                                   const SimulationOptions &options) {
  Operation *found = findEntryByName(*impl->copy, entry);
  if (!found)
    return impl->module.emitError() << "has no kernel or program @" << entry;
  Snapshot inputs(arguments);
  std::optional<Snapshot> results;
  llvm::DenseSet<Operation *> executed;
  for (AsyncMoment moment : options.moments) {
    if (results)
      inputs.restore();
    if (options.watches)
      options.watches->start();
    impl->runner.prepare(moment, options, options.executed ? &executed : nullptr);
    if (failed(runEntry(found, arguments, {/*f64=*/false, options.smCount}, impl->runner)))
      return failure();
    Snapshot now(arguments);
    if (results && now.differs(*results))
      return found->emitOpError(
                 "must give the same results whenever asynchronous work is done, but "
                 "got others when it is done ")
             << (moment == AsyncMoment::Latest ? "at the wait for it" : "at random moments");
    results.emplace(std::move(now));
  }
  if (options.executed) {
    unsigned number = 0;
    impl->copy->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (executed.contains(op))
        options.executed->insert(number);
      ++number;
    });
  }
  return success();
}

LogicalResult simulate(ModuleOp module, StringRef entry, const llvm::StringMap<Argument> &arguments,
                       const SimulationOptions &options) {
  return SimulatedModule(module).run(entry, arguments, options);
}

} // namespace tilewright
