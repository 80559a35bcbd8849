// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-plan-schedule: decides on a schedule and records it as attributes, which later passes obey
// and authors can read or set. The decisions depend on
//
//   structure   a loop is pipelined if its copies depend only on the iteration number and their
//               buffers belong to the loop
//   memory      rings have as many stages as are useful and fit
//   registers   a buffer that is invariant in a loop is read once before it if the registers that
//               are live in the loop leave room for it

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/Notes.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/RegisterPressure.h"
#include "passes/Tgpu/Loops/CopySlice.h"
#include "passes/Tgpu/Plan/PlanRoles.h"
#include "passes/Tgpu/Plan/ScheduleKeys.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Remarks.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUPLANSCHEDULE
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// With two stages the copies of the next iteration overlap with this one. More did not help
/// attention, whose iterations are long; a single product needs three.
constexpr int64_t chainedStages = 2, productStages = 3;

struct TgpuPlanSchedulePass : tilewright::impl::TgpuPlanScheduleBase<TgpuPlanSchedulePass> {
  using TgpuPlanScheduleBase::TgpuPlanScheduleBase;

  void runOnOperation() override {
    ScheduleOverrides overrides;
    if (failed(parse(overrides)))
      return signalPassFailure();
    bool isRoleWish = overrides.skeleton == Skeleton::ProducerConsumer;
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      if (!overrides.skeleton || isRoleWish) {
        FailureOr<bool> planned = planRoles(kernel, overrides, isRoleWish);
        if (failed(planned))
          return signalPassFailure();
        if (*planned)
          continue;
        if (!isRoleWish)
          noteNoRoles(kernel, overrides);
      }
      kernel.walk([&](scf::ForOp loop) { planLoop(kernel, loop, overrides); });
      if (overrides.skeleton == Skeleton::Multistage && !hasMultistage(kernel))
        kernel.emitWarning() << "schedule: skeleton=multistage has no effect on kernel @"
                             << kernel.getSymName()
                             << ", which has no loop whose copies can run ahead; --report says why";
      if (overrides.keepInRegisters.value_or(true))
        kernel.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) { planReads(kernel, loop); });
    }
  }

private:
  static bool hasMultistage(KernelOp kernel) {
    WalkResult found = kernel.walk([](scf::ForOp loop) {
      auto schedule = scheduleAttr.get(loop);
      return schedule && schedule.getSkeleton() == Skeleton::Multistage ? WalkResult::interrupt()
                                                                        : WalkResult::advance();
    });
    return found.wasInterrupted();
  }

  /// Whether the kernel has loops that the roles of a target are for: with products by wgmma, or by
  /// mma of operands of 16 bits that are copied ahead, since its warps are too few for wgmma.
  static bool couldUseRoles(KernelOp kernel) {
    bool hasFewWarps = kernel.getWarps() % Target::warpsOfGroup != 0, found = false;
    kernel.walk([&](scf::ForOp loop) {
      bool hasCopy = false, hasProduct = false;
      loop.getBody()->walk([&](Operation *op) {
        found |= isa<WgmmaOp>(op);
        hasCopy |= isa<CopyAsyncOp>(op);
        auto product = dyn_cast<MmaOp>(op);
        hasProduct |=
            product &&
            getElementBits(cast<RankedTensorType>(product.getA().getType()).getElementType()) <= 16;
      });
      found |= hasFewWarps && hasCopy && hasProduct;
    });
    return found;
  }

  /// Records why a kernel gets no roles, for reports and for the users of bundles.
  static void noteNoRoles(KernelOp kernel, const ScheduleOverrides &overrides) {
    if (!getTargetOf(kernel).hasRoles() || !couldUseRoles(kernel))
      return;
    Refusal refusal = findRefusal(kernel, [&] {
      (void)planRoles(kernel, overrides, /*must=*/true); // is rejected as before
    });
    noRolesAttr.set(kernel, refusal.why);
    noRolesPlaceAttr.set(kernel, describePlace(refusal.location));
    remark::missed(refusal.location, remark::RemarkOpts::name("no-roles")
                                         .category("tgpu-plan-schedule")
                                         .function(kernel.getSymName()))
        << remark::reason("{0}", refusal.why);
  }

  /// Whether copies are in a branch, of a target with wgmma, beside products by mma.sync, which
  /// have a note. Such a branch may be the mapping's own (blocks with and without a mask), which is
  /// split into loops if the products are wgmma.
  static bool isInBranchBesideMma(KernelOp kernel, scf::ForOp loop) {
    if (!getTargetOf(kernel).has(Feature::Wgmma))
      return false;
    bool hasCopy = false, hasWgmma = false;
    loop->walk([&](Operation *op) {
      hasCopy |= isa<CopyAsyncOp>(op);
      hasWgmma |= isa<WgmmaOp>(op);
    });
    return hasCopy && !hasWgmma;
  }

  /// Why the body of a loop has no copy.
  static std::string whyNoCopy(scf::ForOp loop) {
    WalkResult copy = loop->walk([](CopyAsyncOp) { return WalkResult::interrupt(); });
    return copy.wasInterrupted()
               ? "its copies are in a branch; load tiles in the body of the loop, at indices that "
                 "depend on its variable alone"
               : "it computes the operands of its products, or reads them before the loop; "
                 "multiply tiles as tile.load gives them";
  }

  /// Records why the copies of a loop do not run ahead, if it multiplies.
  static void noteNotAhead(KernelOp kernel, scf::ForOp loop, Location location, const Twine &why) {
    WalkResult product = loop->walk([&](Operation *op) {
      bool isOfLoop =
          isa<MmaOp, WgmmaOp, FmaDotOp>(op) && op->getParentOfType<scf::ForOp>() == loop;
      return isOfLoop ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (product.wasInterrupted())
      addNote(kernel, location, "tgpu-plan-schedule", "copies that do not run ahead", why);
  }

  LogicalResult rejectKey(StringRef given) {
    std::string list;
    ArrayRef<ScheduleKey> keys = getScheduleKeys();
    for (const ScheduleKey &key : keys.drop_back())
      list += (list.empty() ? "" : ", ") + key.name.str();
    list += " and " + keys.back().name.str();
    return getOperation().emitError()
           << "schedule: expected one of " << list << ", but got '" << given << "'";
  }

  LogicalResult parse(ScheduleOverrides &overrides) {
    for (StringRef entry : schedule) {
      // Not a structured binding, which a lambda may not capture in C++17.
      std::pair<StringRef, StringRef> parts = entry.split('=');
      StringRef value = parts.second;
      const ScheduleKey *key = findScheduleKey(parts.first);
      if (!key)
        return rejectKey(parts.first);
      auto reject = [&](const Twine &expected) {
        return getOperation().emitError() << "schedule: " << key->name << " must be " << expected
                                          << ", but got '" << value << "'";
      };
      if (key->name == "skeleton") {
        // Names for the overlap of products within and between iterations of producer_consumer.
        if (value == "overlap" || value == "exclusive") {
          overrides.skeleton = Skeleton::ProducerConsumer;
          overrides.inFlight = value == "overlap";
          if (value == "exclusive" && !overrides.turns)
            overrides.turns = 1;
          continue;
        }
        overrides.skeleton = symbolizeSkeleton(value);
        if (!overrides.skeleton)
          return reject("synchronous, multistage, producer_consumer, overlap or exclusive");
      } else if (key->name == "keep_in_registers") {
        if (value != "true" && value != "false")
          return reject("true or false");
        overrides.keepInRegisters = value == "true";
      } else {
        int64_t number = 0;
        if (value.getAsInteger(10, number) || !key->allows(number))
          return reject(key->describe());
        if (key->value) // another pass applies the others
          overrides.*(key->value) = number;
      }
    }
    int64_t stages = overrides.stages.value_or(0);
    if (overrides.skeleton == Skeleton::Synchronous && stages > 1)
      return getOperation().emitError()
             << "schedule: skeleton=synchronous requires one stage, but got stages=" << stages;
    if (overrides.skeleton == Skeleton::Multistage && stages == 1)
      return getOperation().emitError()
             << "schedule: skeleton=multistage requires at least two stages, but got stages=1";
    return success();
  }

  /// The bytes of the kernel's buffers, where those of the slice's copies and of the loops planned
  /// before are rings.
  static int64_t getBytesWith(KernelOp kernel, const CopySlice &slice, int64_t stages) {
    int64_t bytes = 0;
    kernel.walk([&](AllocOp alloc) {
      Value buffer = alloc.getBuffer();
      int64_t copies = slice.buffers.contains(buffer) ? stages : 1;
      for (Operation *user : buffer.getUsers())
        if (auto loop = dyn_cast<scf::ForOp>(user->getParentOp()); loop && isa<CopyAsyncOp>(user))
          if (auto schedule = scheduleAttr.get(loop))
            copies = std::max(copies, schedule.getStages());
      auto type = cast<SharedType>(buffer.getType());
      bytes += copies * llvm::alignTo(getBytes(type), getAlignment(type));
    });
    return bytes;
  }

  void planLoop(KernelOp kernel, scf::ForOp loop, const ScheduleOverrides &overrides) {
    if (scheduleAttr.isOn(loop)) // set by the author
      return;
    FailureOr<CopySlice> slice = CopySlice::get(loop, /*explain=*/false);
    if (failed(slice)) {
      Refusal refusal = findRefusal(loop, [&] { (void)CopySlice::get(loop, /*explain=*/true); });
      bool hasCopy = !loop.getBody()->getOps<CopyAsyncOp>().empty();
      if (hasCopy || !isInBranchBesideMma(kernel, loop))
        noteNotAhead(kernel, loop, refusal.location, hasCopy ? refusal.why : whyNoCopy(loop));
      return;
    }
    Skeleton skeleton = overrides.skeleton.value_or(Skeleton::Multistage);
    if (overrides.stages == 1)
      skeleton = Skeleton::Synchronous;
    int64_t products = 0;
    bool isOnCores = false;
    loop->walk([&](Operation *op) {
      isOnCores |= isa<FmaDotOp>(op);
      products += isa<MmaOp, FmaDotOp>(op);
    });
    int64_t stages = products > 1 ? chainedStages : productStages;
    // On CUDA cores a product takes so long that overlapped copies gain little. Limit such kernels
    // to the shared memory of the smallest target, so that they run on all.
    int64_t limit = isOnCores ? Target::getLeastShared() : getTargetOf(kernel).sharedOfBlock;
    // Two blocks per multiprocessor hide more latency than a third stage.
    while (stages > 2 && getBytesWith(kernel, *slice, stages) > limit / 2)
      --stages;
    while (stages > 1 && getBytesWith(kernel, *slice, stages) > limit)
      --stages;
    if (stages == 1 && !overrides.stages && skeleton != Skeleton::Synchronous)
      noteNotAhead(kernel, loop, loop.getLoc(),
                   "two buffers for each copy need " + Twine(getBytesWith(kernel, *slice, 2)) +
                       " bytes of shared memory, but there are " + Twine(limit) +
                       "; use smaller blocks");
    stages = overrides.stages.value_or(stages);
    if (stages == 1)
      skeleton = Skeleton::Synchronous;
    if (skeleton == Skeleton::Synchronous)
      stages = 1;
    scheduleAttr.set(loop, skeleton, stages, overrides.inFlight.value_or(0), /*turns=*/0);
  }

  /// Marks reads of loop-invariant buffers to be kept in registers, as long as registers are left.
  void planReads(KernelOp kernel, scf::ForOp loop) {
    int64_t threads = 32 * kernel.getWarps();
    RegisterModel model = RegisterModel::besideReads(threads);
    int64_t room = RegisterLimits::forKeeping - model.getPressure(*loop.getBody());
    llvm::DenseMap<std::pair<Value, Type>, bool> decided;
    loop->walk([&](ReadOp read) {
      if (keepInRegistersAttr.isOn(read) || !isUnchangedIn(loop, read.getBuffer()))
        return;
      auto [it, isNew] = decided.try_emplace({read.getBuffer(), read.getType()}, false);
      if (isNew) {
        int64_t registers = getRegistersOf(read.getType(), threads);
        it->second = registers <= room;
        if (it->second)
          room -= registers;
      }
      if (it->second)
        keepInRegistersAttr.set(read);
    });
  }
};

} // namespace
