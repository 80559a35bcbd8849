// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-assign-roles: splits a kernel in which all warps execute the same code into a role that
// copies, or two such roles (LoadSplit.h), one or two roles that compute and, where accumulators
// are added to memory, a role that adds them. Every role gets the loops, branches and scalars it
// needs. Each group of copies gets a ring with
//
//   full    completes when the bytes of a slot have arrived   load: expect, copies  compute: wait
//   empty   completes when all warps have read the slot       load: acquire         compute: arrive
//
// Each addition gets a ring in the other direction with
//
//   full    completes when all warps have written the slot    compute: arrive       reduce: wait
//   empty   completes when its bytes have been read           compute: acquire      reduce: arrive
//
// A tile that the first of two roles that compute passes to the second one gets a ring, too
// (RoleHandover.cpp). The slots of copies that both read are empty when the warps of both have
// read them.
//
// A row that iterations gather at indices known ahead comes from warps that compute the indices; it
// shares the barriers of the copies that are read first (RoleGather.cpp).
//
// Work in addition to the instances of a kernel (tile.spread) gets another role, of warps that
// would otherwise be idle.
//
// Each ring has a counter of its uses, which all enclosing loops carry, across tiles.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Roles/LoadSplit.h"
#include "passes/Tgpu/Roles/RoleWriter.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUASSIGNROLES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

struct TgpuAssignRolesPass : tilewright::impl::TgpuAssignRolesBase<TgpuAssignRolesPass> {
  void runOnOperation() override {
    for (auto kernel : llvm::to_vector(getOperation().getOps<KernelOp>())) {
      auto schedule = roleScheduleAttr.get(kernel);
      if (!schedule || !kernel.getBody().getOps<RolesOp>().empty())
        continue;
      FailureOr<RoleSlice> slice = RoleSlice::get(kernel, /*explain=*/true);
      if (failed(slice) || failed(verify(kernel, schedule)) || failed(verify(*slice)) ||
          failed(verifyOrder(kernel, schedule, *slice)))
        return signalPassFailure();
      if (schedule.getReduceStages() == 0)
        slice->reductions.clear();
      // The warps that gather have as many registers as the one that copies.
      if (schedule.getComputeRoles() > 1 ||
          schedule.getLoadRegisters() < RegisterLimits::ofDeepLoadRole)
        slice->dropGathers();
      if (schedule.getComputeRoles() > 1) {
        slice->split = ComputeSplit::get(kernel);
        if (!slice->split || slice->spread) {
          kernel.emitOpError("cannot have two roles that compute: it must store two results to "
                             "different arrays or columns, each with separate products, must not "
                             "add to memory, vote or read what it writes, and the first role may "
                             "pass only tiles and values of their rows to the second; use the "
                             "schedule compute_roles=1");
          return signalPassFailure();
        }
      }
      if (schedule.getLoadRoles() > 1 && failed(verifyLoadSplit(kernel, *slice, /*explain=*/true)))
        return signalPassFailure();
      RoleWriter(kernel, schedule, std::move(*slice)).run();
    }
  }

private:
  LogicalResult verify(KernelOp kernel, RoleScheduleAttr schedule) {
    if (!getTargetOf(kernel).hasRoles())
      return kernel.emitOpError() << "can be split into roles for target "
                                  << Target::getNamesWithRoles() << " only, but got "
                                  << kernel.getTarget();
    constexpr int64_t unit = Target::warpsOfGroup;
    int64_t mostWarps =
        (Target::warpsOfBlock - RoleWriter::moreWarps) / schedule.getComputeRoles() / unit * unit;
    int64_t warps = kernel.getWarps();
    if (warps % unit != 0 || warps > mostWarps)
      return kernel.emitOpError() << "must have 4 to " << mostWarps
                                  << " warps, a multiple of 4, to be split into roles, but got "
                                  << warps;
    if (schedule.getGroup() > 0 && !hasComputableGrid(kernel))
      return kernel.emitOpError(
          "cannot process several tiles in a block: its grid is not computed with +, -, *, "
          "ceildiv, min and max from extents and numbers; use the "
          "schedule group=0");
    auto spreads = kernel.getBody().getOps<tile::SpreadOp>();
    if (!spreads.empty() && schedule.getGroup() == 0)
      return (*spreads.begin())
          ->emitOpError("requires blocks that process several tiles, but got the schedule group=0; "
                        "use group=1 or more");
    return success();
  }

  /// A tile that waits for other tiles requires that these have been started before.
  LogicalResult verifyOrder(KernelOp kernel, RoleScheduleAttr schedule, const RoleSlice &slice) {
    if (!slice.isOrdered() || (schedule.getDynamic() != 0 && schedule.getReduceStages() > 0))
      return success();
    return kernel.emitOpError()
           << "adds in order, which requires blocks that take tiles from a counter and a separate "
              "role for additions, but got the schedule dynamic="
           << static_cast<int64_t>(schedule.getDynamic())
           << ", reduce_stages=" << static_cast<int64_t>(schedule.getReduceStages())
           << "; use dynamic=1 and a grid of extents and numbers, and reduce_stages=1 or more";
  }

  /// Verifies the ring stages that an author may have set.
  LogicalResult verify(const RoleSlice &slice) {
    constexpr int64_t mostSlots = 32;
    for (const CopyGroup &group : slice.groups) {
      CopyAsyncOp first = group.copies.front();
      for (CopyAsyncOp copy : group.copies) {
        I64Attr slots = ringStagesAttr.get(copy), ofFirst = ringStagesAttr.get(first);
        if (slots && (slots.getInt() < 1 || slots.getInt() > mostSlots))
          return copy.emitOpError() << "needs an i64 from 1 to " << mostSlots << " as "
                                    << ringStagesAttr.name << ", but got " << slots;
        if (slots == ofFirst)
          continue;
        InFlightDiagnostic error = copy.emitOpError();
        auto textOf = [](I64Attr slots) {
          return slots ? std::to_string(slots.getInt()) : std::string("none");
        };
        error << "needs the same " << ringStagesAttr.name
              << " as the other copies that arrive at its barrier, but got " << textOf(slots)
              << " and " << textOf(ofFirst);
        error.attachNote(first.getLoc()) << "one of them";
        return error;
      }
    }
    return success();
  }
};

} // namespace
