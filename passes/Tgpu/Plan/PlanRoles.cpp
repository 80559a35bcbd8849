// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans the schedule of kernels that are split into roles, by
//
//   structure   a kernel is split if one of its loops feeds wgmma, and a separate role can make
//               all its copies by TMA
//   memory      first the buffers through which results leave, then as many stages as fit
//   registers   the minimum for a role that only copies; the roles that multiply get the rest
//   additions   accumulators that every iteration adds to memory leave through a role that adds
//               them
//   copies      those of a loop that are many boxes for the time of its products are divided
//               between two roles
//   results     if a thread has no registers for all sums, two roles compute some of them each
//   tile order  if one operand depends on the first grid id and another on the second, tiles that
//               run concurrently form a rectangle, whose sides minimize the bytes read; otherwise
//               tiles follow the grid

#include "passes/Tgpu/Plan/PlanRoles.h"

#include "passes/Tgpu/Analysis/LoopChain.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/RegisterPressure.h"
#include "passes/Tgpu/Analysis/TileQueries.h"
#include "passes/Tgpu/Memory/StorePieces.h"
#include "passes/Tgpu/Plan/IterationCosts.h"
#include "passes/Tgpu/Plan/LoadRoles.h"
#include "passes/Tgpu/Plan/TileGroup.h"
#include "passes/Tgpu/Roles/GridIds.h"
#include "passes/Tgpu/Roles/LoadSplit.h"
#include "passes/Tgpu/Roles/RoleSlice.h"
#include "passes/Tgpu/Roles/TileOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Reserved for the barriers of the rings and for alignment.
constexpr int64_t reserve = 1024;
/// More stages hide no further latency.
constexpr int64_t mostStages = 6;
/// Bytes on their way to a multiprocessor that hide the latency of the memory. With more, its
/// queues are longer, and nothing arrives earlier. One H200, 2026-11-30, decoding over pages, time
/// of two stages over as many as fit: bf16 (64 KiB each, 32 at D 64) 0.98 to 1.00 in 13 cases,
/// 0.991 in the geometric mean; e4m3 and i8 (32 KiB), windows, modifiers and 16 queries 0.93 to
/// 1.01 in 15 cases, 0.983. Blocks of 64 keys, with 64 KiB in two stages at D 128, too: 1.00.
constexpr int64_t bytesOnTheirWay = 64 * 1024;
constexpr int64_t loadWarps = 4;

/// Whether warpgroups that exchange tiles of scores are faster if they need not meet in each
/// iteration. On one H200, backwards without a mask: D 16 and 32 1.04 to 1.10, D 64 1.01 to 1.05;
/// other narrow rows, and blocks of 80 queries, 0.95 to 1.02. With a causal mask, from 8192 rows
/// on, where additions have no order: D 32 1.01 to 1.02, D 64 1.04 to 1.06; D 96 0.99 to 1.02 with
/// a branch for the first iteration in each part of a loop.
bool gainsByLateProducts(const RoleSlice &slice, ArrayRef<scf::ForOp> loops) {
  constexpr int64_t rowsOfProduct = 64, bitsOfLine = 128 * 8;
  bool varies = llvm::any_of(loops, tripsVaryByTile);
  // Packed sequences: 1.00 under a causal mask, 0.99 without one.
  if (llvm::any_of(loops, readsTrips))
    return false;
  for (const CopyGroup &group : slice.groups)
    for (CopyAsyncOp copy : group.copies) {
      auto type = cast<SharedType>(copy.getBuffer().getType());
      if (!group.getLoop() || type.getShape().size() != 2)
        continue;
      int64_t row = type.getShape()[1] * type.getElementType().getIntOrFloatBitWidth();
      bool isNarrow = varies ? row == bitsOfLine / 2 : row <= bitsOfLine / 2;
      bool isWide = varies ? row == bitsOfLine : row >= bitsOfLine;
      return type.getShape()[0] % rowsOfProduct == 0 && (isNarrow || isWide);
    }
  return false;
}

/// Shared memory of one slot of each ring, of the copies made once per tile, of one slot of each
/// accumulator that is added to memory, of the buffers that each iteration writes for its own
/// products, and of everything that does not depend on the number of stages.
struct Memory {
  int64_t perStage = 0, perTile = 0, perReduction = 0, perScratch = 0, fixed = reserve;
};

Memory getMemory(KernelOp kernel, const RoleSlice &slice) {
  Memory memory;
  for (const CopyGroup &group : slice.groups)
    (group.getLoop() ? memory.perStage : memory.perTile) += group.getBytes();
  memory.fixed += memory.perTile;
  for (const Reduction &reduction : slice.reductions)
    memory.perReduction += getBytes(reduction.slot);
  for (auto alloc : kernel.getBody().getOps<AllocOp>())
    if (llvm::none_of(alloc->getUsers(), [](Operation *user) { return isa<CopyAsyncOp>(user); }))
      memory.fixed += getBytes(cast<SharedType>(alloc.getBuffer().getType()));
  for (auto alloc : kernel.getBody().getOps<AllocOp>())
    if (getScratchLoop(alloc))
      memory.perScratch += getBytes(cast<SharedType>(alloc.getBuffer().getType()));
  return memory;
}

void setSlots(const CopyGroup &group, int64_t slots) {
  for (CopyAsyncOp copy : group.copies)
    if (!ringStagesAttr.isOn(copy)) // set by the author
      ringStagesAttr.set(copy, slots);
}

/// If rings of two slots do not fit, gives buffers that only early readers need one slot. Adds
/// those groups to `groups` and returns the bytes of their slots.
int64_t giveOneSlot(const RoleSlice &slice, int64_t room, Memory &memory,
                    SmallVector<const CopyGroup *> &groups) {
  int64_t bytes = 0;
  for (const CopyGroup &group : slice.groups) {
    if (room - bytes >= 2 * memory.perStage)
      break;
    Readers readers = getReaders(group);
    if (!group.getLoop() || !readers.early || readers.late)
      continue;
    memory.perStage -= group.getBytes();
    bytes += group.getBytes();
    groups.push_back(&group);
  }
  return bytes;
}

/// Groups of buffers that both early readers and late products read. They are held during two
/// iterations, so copies can run ahead only with a third slot.
SmallVector<const CopyGroup *> getHeldGroups(const RoleSlice &slice) {
  SmallVector<const CopyGroup *> held;
  for (const CopyGroup &group : slice.groups) {
    Readers readers = getReaders(group);
    if (group.getLoop() && readers.early && readers.late)
      held.push_back(&group);
  }
  return held;
}

int64_t getBytesOf(ArrayRef<const CopyGroup *> groups) {
  int64_t bytes = 0;
  for (const CopyGroup *group : groups)
    bytes += group->getBytes();
  return bytes;
}

/// Whether warpgroups should take turns in multiplying: an iteration has several products, and the
/// computation between them takes long enough to overlap with another warpgroup's products. Without
/// turns, attention at D 64 and 128 loses 2 to 20 percent on an H200; at D 256 it gains 1 to 2.
bool wantsTurns(KernelOp kernel, scf::ForOp loop) {
  constexpr double leastShare = 0.4;
  auto costs = IterationCosts::get(loop, getTargetOf(kernel));
  return costs.products > 1 && kernel.getWarps() >= 2 * Target::warpsOfGroup &&
         costs.ofFunctions >= leastShare * costs.ofProducts;
}

/// How a loop runs that adds a product of its iteration to a carried sum by threads. In order, such
/// an iteration takes few registers, so that more warpgroups overlap with each other.
enum class Terms { None, InTurn, AtOnce };

/// If tgpu-split-terms divides the term, additions overlap with the product: on one H200, the
/// forward of 8-bit arrays at D 128 gains 1.02 to 1.10 in order, and 1.24 by a third warpgroup. At
/// D 64, three warpgroups gain 1.05 in turn, and four, which have no turns, are 1.33 of three for
/// short rows.
Terms getTerms(scf::ForOp loop, int64_t warps) {
  bool isLong = false, isAdded = false;
  loop->walk([&](WgmmaWaitOp wait) {
    for (auto [pending, result] : llvm::zip_equal(wait.getTiles(), wait.getResults())) {
      auto product = pending.getDefiningOp<WgmmaOp>();
      if (!product || product.getAcc())
        continue;
      for (Operation *user : result.getUsers())
        if (isa<arith::AddFOp>(user) &&
            llvm::any_of(user->getUsers(), llvm::IsaPred<scf::YieldOp>)) {
          isAdded = true;
          isLong |= isDivisibleByColumns(product, cast<RankedTensorType>(result.getType()));
        }
    }
  });
  constexpr int64_t two = 2 * Target::warpsOfGroup, three = 3 * Target::warpsOfGroup;
  constexpr int64_t four = 4 * Target::warpsOfGroup;
  if (isAdded && warps >= four)
    return Terms::AtOnce;
  return isAdded && warps >= (isLong ? two : three) ? Terms::InTurn : Terms::None;
}

/// Stores results through slots of the loops' rings, one slot per ring, if these hold all results,
/// so that the next tile's operands can be copied meanwhile.
void lendSlots(KernelOp kernel, const RoleSlice &slice) {
  SmallVector<CopyGroup> lenders;
  const auto *group = slice.groups.begin();
  for (auto store : kernel.getBody().getOps<StoreOp>()) {
    std::optional<StorePieces> pieces = StorePieces::get(kernel, store, /*buffers=*/1);
    if (!pieces)
      continue;
    int64_t count = 0;
    for (; count < pieces->count && group != slice.groups.end(); ++group) {
      CopyAsyncOp copy = group->copies.front();
      auto slots = ringStagesAttr.get(copy);
      if (!group->getLoop() || (slots && slots.getInt() < 2))
        continue;
      int64_t held = pieces->getCountIn(cast<SharedType>(copy.getBuffer().getType()));
      if (held == 0) // its swizzle is narrower than that of the pieces
        continue;
      count += held;
      lenders.push_back(*group);
    }
    if (count < pieces->count)
      return;
  }
  for (const CopyGroup &lender : lenders)
    for (CopyAsyncOp copy : lender.copies)
      lendSlotAttr.set(copy);
}

/// Whether copies access parts of views, which begin and end at any element.
bool copiesParts(const RoleSlice &slice) {
  return llvm::any_of(slice.groups, [](const CopyGroup &group) {
    return llvm::any_of(group.copies, [](CopyAsyncOp copy) {
      return static_cast<bool>(MappedView::of(copy.getView()).begin);
    });
  });
}

bool feedsWgmma(scf::ForOp loop) {
  return loop->walk([](WgmmaOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// Registers that remain for each thread of `warps` warps, if those of `others` have `taken`.
int64_t getRestOfRegisters(int64_t warps, int64_t others, int64_t taken) {
  int64_t ofLane = Target::getRegistersAtEntry(warps + others) * (warps + others);
  int64_t rest = (ofLane - others * taken) / warps;
  return rest / Target::roleRegisterUnit * Target::roleRegisterUnit;
}

/// The registers per thread of the roles that compute, if the load role has `load` per thread.
int64_t getComputeRegisters(int64_t warps, int64_t load) {
  return std::min(Target::mostRoleRegisters, getRestOfRegisters(warps, loadWarps, load));
}

/// Registers of a thread for the tiles of the plain form.
int64_t getPressure(KernelOp kernel) {
  return RegisterModel::atProducts(32 * kernel.getWarps()).getPressure(kernel.getBody().front());
}

/// Two roles that compute, if a thread of one would have more tiles than registers, but two have
/// enough for all.
std::optional<ComputeSplit> findSplit(KernelOp kernel, const RoleSlice &slice, bool must) {
  int64_t warps = kernel.getWarps();
  int64_t needed = getPressure(kernel) + RegisterLimits::forScalars;
  if (slice.spread || 2 * warps + loadWarps > Target::warpsOfBlock)
    return std::nullopt;
  constexpr int64_t load = RegisterLimits::ofDeepLoadRole;
  bool isShort = needed > getComputeRegisters(warps, load) &&
                 needed <= 2 * getComputeRegisters(2 * warps, load);
  return isShort || must ? ComputeSplit::get(kernel) : std::nullopt;
}

/// The slots of the rings between two roles that compute: one if rings of two stages would not fit
/// otherwise.
int64_t getHandoverSlots(const ComputeSplit &split, int64_t room) {
  bool isShort = room < ComputeSplit::stages * split.getBytes() && room >= split.getBytes();
  return isShort ? 1 : ComputeSplit::stages;
}

void setHandoverSlots(const ComputeSplit &split, int64_t slots) {
  for (const ComputeSplit::Handover &handover : split.handovers)
    ringStagesAttr.set(handover.values.front().getDefiningOp(), slots);
}

/// The values of a RoleScheduleAttr.
struct RoleValues {
  int64_t loadRegisters = 0, computeRegisters = 0, group = 0, storeBuffers = 0, dynamic = 0,
          tileStages = 1, reduceStages = 0, scratchStages = 1, computeRoles = 1, lateProducts = 0,
          loadRoles = 1;

  /// Null, with an error at the kernel, if the attribute does not accept them.
  RoleScheduleAttr get(KernelOp kernel) const {
    return RoleScheduleAttr::getChecked([&] { return kernel.emitOpError(); }, kernel.getContext(),
                                        loadRegisters, computeRegisters, group, storeBuffers,
                                        dynamic, tileStages, reduceStages, scratchStages,
                                        computeRoles, lateProducts, loadRoles);
  }
};

/// Plans one kernel, in the order of the members: each uses what those before it decided.
class RolePlanner {
public:
  RolePlanner(KernelOp kernel, const ScheduleOverrides &overrides, bool must)
      : kernel(kernel), overrides(overrides), must(must), target(getTargetOf(kernel)),
        warps(kernel.getWarps()) {}

  FailureOr<bool> run() {
    if (FailureOr<bool> splits = findLoops(); failed(splits) || !*splits)
      return splits;
    memory = getMemory(kernel, slice);
    planTiles();
    planSplit();
    planStoreBuffers();
    if (stages < 2 && !overrides.stages)
      room -= giveOneSlot(slice, room, memory, ofOneSlot);
    if (memory.perStage == 0) // all rings have one slot: no copy could run ahead
      return rejectRings();
    planStages();
    // The ring between two roles that compute may be what does not fit.
    if (stages < 2 && split && !wantedRoles && !overrides.stages) {
      ScheduleOverrides ofOne = overrides;
      ofOne.computeRoles = 1;
      return planRoles(kernel, ofOne, must);
    }
    if (FailureOr<bool> fits = checkStages(); failed(fits) || !*fits)
      return fits;
    planRegisters();
    planOrder();
    return write();
  }

private:
  FailureOr<bool> reject(const Twine &why) const {
    if (!must)
      return false;
    return KernelOp(kernel).emitOpError() << "cannot be split into roles: " << why;
  }
  FailureOr<bool> rejectRings() const {
    return reject("rings of two stages do not fit into shared memory; use smaller blocks");
  }

  FailureOr<bool> findLoops();
  void planTiles();
  void planSplit();
  void planStoreBuffers();
  void planStages();
  FailureOr<bool> checkStages();
  int64_t chooseLoadRegisters();
  void planRegisters();
  Terms getTermsOf(scf::ForOp loop);
  void planOrder();
  FailureOr<bool> write();

  KernelOp kernel;
  const ScheduleOverrides &overrides;
  bool must;
  const Target &target;
  int64_t warps; ///< of all roles that compute
  RoleSlice slice;
  SmallVector<scf::ForOp> loops; ///< that copy
  Memory memory;
  RoleValues values;
  bool varies = false;                ///< whether tiles differ in length
  std::optional<int64_t> wantedRoles; ///< that compute, by the author
  std::optional<ComputeSplit> split;
  int64_t handoverSlots = ComputeSplit::stages;
  int64_t room = 0, stages = 0;             ///< for the rings of loops, and their slots
  int64_t least = 0;                        ///< room that they should have
  SmallVector<const CopyGroup *> held;      ///< during two iterations
  SmallVector<const CopyGroup *> ofOneSlot; ///< of which the ring has one slot
};

FailureOr<bool> RolePlanner::findLoops() {
  if (!target.hasRoles())
    return reject("the target must be " + Target::getNamesWithRoles() + ", but got " +
                  kernel.getTarget());
  if (warps % Target::warpsOfGroup != 0 || warps + loadWarps > Target::warpsOfBlock)
    return reject("the warps must be a multiple of 4, and at most 28, but there are " +
                  Twine(warps) + "; use tiles of 64 rows or more");
  FailureOr<RoleSlice> found = RoleSlice::get(kernel, /*explain=*/must);
  if (failed(found))
    return must ? FailureOr<bool>(failure()) : false;
  slice = std::move(*found);
  loops = slice.getCopyingLoops();
  if (llvm::none_of(loops, feedsWgmma))
    return reject("no loop copies operands of wgmma; multiply tiles in a loop as tile.load gives "
                  "them");
  return true;
}

/// Tiles of different length: blocks take them from a counter, the longest of several steps of the
/// second id first. Tiles that add to memory wait for it for different times: at D 64, blocks that
/// take equal tiles in a fixed order are 2 to 3 percent slower.
void RolePlanner::planTiles() {
  constexpr int64_t mostSteps = 32;
  varies = !slice.reductions.empty() || llvm::any_of(loops, tripsVaryByTile);
  values.reduceStages = overrides.reduceStages.value_or(slice.reductions.empty() ? 0 : 1);
  values.group = overrides.group.value_or(!hasComputableGrid(kernel) ? 0
                                          : varies                   ? mostSteps
                                                                     : chooseGroup(kernel, slice));
  memory.fixed += values.reduceStages * memory.perReduction;
}

void RolePlanner::planSplit() {
  wantedRoles = overrides.computeRoles;
  if (auto own = roleScheduleAttr.get(kernel))
    wantedRoles = own.getComputeRoles();
  if (wantedRoles.value_or(2) > 1)
    split = findSplit(kernel, slice, /*must=*/wantedRoles.has_value());
  values.computeRoles = wantedRoles.value_or(split ? 2 : 1);
  if (!split)
    return;
  handoverSlots =
      getHandoverSlots(*split, target.sharedOfBlock - memory.fixed - 2 * memory.perStage);
  memory.fixed += handoverSlots * split->getBytes();
  warps *= 2;
}

void RolePlanner::planStoreBuffers() {
  // If sums are added, memory is short: results are stored through buffers of operands that are no
  // longer needed.
  constexpr int64_t storeBuffers = 2;
  int64_t &buffers = values.storeBuffers;
  buffers = overrides.storeBuffers.value_or(values.reduceStages > 0 ? 0 : storeBuffers);
  // A third slot for buffers held during two iterations takes precedence over buffers for results.
  if (memory.perScratch == 0)
    held = getHeldGroups(slice);
  least = 2 * memory.perStage;
  if (target.sharedOfBlock - memory.fixed >= least + getBytesOf(held))
    least += getBytesOf(held);
  for (;; --buffers) {
    int64_t bytesOfBuffers = 0;
    kernel.walk([&](StoreOp store) {
      if (std::optional<StorePieces> pieces = StorePieces::get(kernel, store, buffers))
        bytesOfBuffers += pieces->buffers * getBytes(pieces->type);
    });
    room = target.sharedOfBlock - memory.fixed - bytesOfBuffers;
    stages = room / memory.perStage;
    if (room >= least || buffers == 0 || overrides.storeBuffers)
      break;
  }
}

void RolePlanner::planStages() {
  // A block that processes several tiles copies the next tile's operands while it finishes this
  // one.
  bool fitsTwice = values.group > 0 && values.storeBuffers > 0 && memory.perTile > 0 &&
                   room - memory.perTile >= least;
  values.tileStages = overrides.tileStages.value_or(fitsTwice ? 2 : 1);
  room -= (values.tileStages - 1) * memory.perTile;
  stages = room / memory.perStage;
  int64_t most = mostStages;
  if (I64Attr given = mostStagesAttr.get(kernel))
    most = std::clamp<int64_t>(given.getInt(), 2, mostStages);
  else if (slice.readsMemoryOnly())
    most = std::clamp<int64_t>(llvm::divideCeil(bytesOnTheirWay, memory.perStage), 2, most);
  stages = overrides.stages.value_or(std::min(stages, most));
  // Then a second slot for additions, and last a second scratch buffer, which saves a barrier per
  // iteration.
  auto addStage = [&](std::optional<int64_t> wanted, int64_t bytes, int64_t &count) {
    bool isWorthIt = bytes > 0 && !overrides.stages && room - bytes >= 2 * memory.perStage;
    int64_t more = wanted ? *wanted - count : isWorthIt ? 1 : 0;
    count += more;
    room -= more * bytes;
    stages = std::min(stages, room / memory.perStage);
  };
  if (values.reduceStages == 1 && !overrides.reduceStages)
    addStage(std::nullopt, memory.perReduction, values.reduceStages);
  addStage(overrides.scratchStages, memory.perScratch, values.scratchStages);
  if (stages == 2 && !overrides.stages && room >= 2 * memory.perStage + getBytesOf(held))
    for (const CopyGroup *each : held)
      setSlots(*each, slotsOfTwoRounds);
}

FailureOr<bool> RolePlanner::checkStages() {
  // If the author asked for buffers, report that they do not fit.
  must |= overrides.stages || overrides.tileStages || overrides.storeBuffers ||
          overrides.reduceStages || overrides.scratchStages;
  if (stages < 2)
    return rejectRings();
  if (overrides.stages && stages < *overrides.stages)
    return reject("rings of " + Twine(*overrides.stages) +
                  " stages do not fit into shared memory, which has room for " + Twine(stages) +
                  "; give fewer stages, or use smaller blocks");
  return true;
}

/// By default.
int64_t RolePlanner::chooseLoadRegisters() {
  constexpr int64_t few = RegisterLimits::ofLoadRole, enough = RegisterLimits::ofDeepLoadRole;
  constexpr int64_t roomy = RegisterLimits::ofRoomyLoadRole;
  if (slice.spread) {
    constexpr int64_t deep = RegisterLimits::ofDeepSpreadRole;
    constexpr int64_t beside = RegisterLimits::besideTilesOfRoles;
    // Where functions take more of an iteration, the role keeps up with few loads in flight, and
    // the compute roles, whose tiles of scores are large, spilled: 0.74 to 0.8 at D 40 and 48.
    constexpr double mostShare = 0.5;
    bool isQuick = llvm::all_of(loops, [&](scf::ForOp loop) {
      auto costs = IterationCosts::get(loop, target);
      return costs.ofFunctions < mostShare * costs.ofProducts || costs.products == 0;
    });
    if (isQuick && getPressure(kernel) + beside <= getComputeRegisters(warps, deep))
      return deep;
  }
  auto isDeep = [](scf::ForOp loop) {
    auto outer = loop->getParentOfType<scf::ForOp>();
    return outer && outer->getParentOfType<scf::ForOp>();
  };
  // A branch whose condition is invariant becomes two loops. Spills of one are spills of both:
  // where only one reads a further row, six values in the other cost a tenth of its speed.
  auto hasVersions = [](scf::ForOp loop) {
    auto isVersion = [&](scf::IfOp branch) {
      bool hasTile = llvm::any_of(branch.getResultTypes(), llvm::IsaPred<RankedTensorType>);
      return hasTile && loop.isDefinedOutsideOfLoop(branch.getCondition()) ? WalkResult::interrupt()
                                                                           : WalkResult::advance();
    };
    return loop.getBody()->walk(isVersion).wasInterrupted();
  };
  // The load role has the minimum only where tiles of the compute roles need the rest, as in
  // backwards: with the minimum it spilled 4 to 12 bytes for windows and captures.
  bool isTight = getPressure(kernel) + RegisterLimits::besideTilesOfLooseRoles >
                 getComputeRegisters(warps, enough);
  bool isShort =
      warps >= RegisterLimits::warpsOfShortRegisters ||
      (llvm::any_of(loops, hasSeveralProducts) && isTight && !split && !copiesParts(slice) &&
       !slice.spread && (llvm::none_of(loops, isDeep) || llvm::any_of(loops, hasVersions)));
  bool hasRoom = getPressure(kernel) + RegisterLimits::besideTilesOfRoomyRoles <=
                 getComputeRegisters(warps, roomy);
  return isShort ? few : hasRoom ? roomy : enough;
}

void RolePlanner::planRegisters() {
  constexpr int64_t enough = RegisterLimits::ofDeepLoadRole;
  int64_t &load = values.loadRegisters, &compute = values.computeRegisters;
  load = overrides.loadRegisters ? *overrides.loadRegisters : chooseLoadRegisters();
  compute = overrides.computeRegisters.value_or(getComputeRegisters(warps, load));
  if (!overrides.loadRegisters) // the remaining registers are of no use to other roles
    load = std::clamp(getRestOfRegisters(loadWarps, warps, compute), load, std::max(load, enough));
}

Terms RolePlanner::getTermsOf(scf::ForOp loop) {
  bool isChain = !split && memory.perScratch == 0 && hasSeveralProducts(loop);
  return isChain ? getTerms(loop, warps) : Terms::None;
}

void RolePlanner::planOrder() {
  // A tile at the end of the rows is shorter if warpgroups without rows skip their iterations. With
  // a fixed order and a number of blocks that the tiles of a head divide, it would always be the
  // same blocks that process such tiles.
  bool skipsRounds = llvm::any_of(
      loops, [](scf::ForOp loop) { return loop.getLowerBound().getDefiningOp<FirstRoundOp>(); });
  // Where products are terms of a sum, no warpgroup skips iterations. A tile at the end of the rows
  // takes longer if masks keep rows, since its blocks are all masked. On one H200, such 8-bit
  // forwards without a mask: D 128 1.01 at 8192 rows, 1.21 to 1.29 below, D 64 1.01 to 1.05, D 256
  // 1.03 to 1.06. Masks kept rows then; without such masks it was not measured.
  bool addsTerms =
      llvm::any_of(loops, [&](scf::ForOp loop) { return getTermsOf(loop) != Terms::None; });
  values.dynamic =
      overrides.dynamic.value_or(values.group > 0 && (varies || skipsRounds || addsTerms));
  values.lateProducts = overrides.lateProducts.value_or(values.scratchStages > 1 && !slice.spread &&
                                                        gainsByLateProducts(slice, loops));
  bool loadsTwice = values.dynamic == 1 && gainsBySecondLoad(kernel, slice, loops);
  values.loadRoles = overrides.loadRoles.value_or(loadsTwice ? 2 : 1);
}

FailureOr<bool> RolePlanner::write() {
  RoleScheduleAttr schedule = values.get(kernel);
  if (!schedule)
    return failure();
  for (const CopyGroup *each : ofOneSlot)
    setSlots(*each, 1);
  if (handoverSlots != ComputeSplit::stages)
    setHandoverSlots(*split, handoverSlots);
  if (values.group > 0 && values.storeBuffers == 0 && memory.perScratch == 0 && !split &&
      overrides.lend.value_or(1) != 0)
    lendSlots(kernel, slice);
  if (!roleScheduleAttr.isOn(kernel)) // set by the author
    roleScheduleAttr.set(kernel, schedule);
  // An iteration with barriers cannot overlap with the next one, but it can issue the next one's
  // first product, unless warps exchange values computed from products: the more products are in
  // flight, the later the product that a warp waits for ends, and all warps wait for that warp.
  // Without barriers, in_flight 1 would overlap whole iterations, which takes more registers.
  for (scf::ForOp loop : loops) {
    bool isInOrder = (memory.perScratch > 0 && hasSeveralProducts(loop)) ||
                     (addsCombinedProducts(loop) && !split);
    bool takesTurns = wantsTurns(kernel, loop);
    Terms terms = getTermsOf(loop);
    int64_t inFlight = terms != Terms::None ? 0 : isInOrder && !exchangesProducts(loop) ? 2 : 1;
    inFlight = overrides.inFlight.value_or(inFlight);
    int64_t turns = takesTurns ? 1 : 0;
    if (inFlight == 0 && terms != Terms::None)
      turns = terms == Terms::InTurn ? 2 : 0;
    turns = overrides.turns.value_or(turns);
    if (turns == 2 && inFlight != 0)
      return kernel.emitError() << "schedule: turns=2 requires in_flight=0, but got in_flight="
                                << inFlight;
    if (!scheduleAttr.isOn(loop))
      scheduleAttr.set(loop, Skeleton::ProducerConsumer, stages, inFlight, turns);
  }
  return true;
}

} // namespace

FailureOr<bool> tgpu::planRoles(KernelOp kernel, const ScheduleOverrides &overrides, bool must) {
  return RolePlanner(kernel, overrides, must).run();
}
