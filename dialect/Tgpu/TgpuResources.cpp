// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the operations of a kernel share of its block: the bytes of shared memory, and the hardware
// barriers. Both are checked once they are planned; without a plan there is nothing to check.

#include "dialect/Tgpu/TgpuVerify.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// The bytes of a buffer, a ring or mbarriers.
struct Extent {
  Operation *op;
  int64_t begin, end;
  bool mayShare;
};

} // namespace

static std::optional<Extent> findExtent(Operation *op) {
  std::optional<uint64_t> offset;
  int64_t bytes = 0;
  bool mayShare = false;
  if (auto alloc = dyn_cast<AllocOp>(op)) {
    offset = alloc.getOffset();
    bytes = getBytes(cast<SharedType>(alloc.getBuffer().getType()));
    mayShare = alloc.getShared();
  } else if (auto alloc = dyn_cast<AllocRingOp>(op)) {
    auto ring = cast<RingType>(alloc.getRing().getType());
    int64_t slot = getBytes(ring.getSlot());
    int64_t pitch = llvm::alignTo(slot, getAlignment(ring.getSlot()));
    offset = alloc.getOffset();
    bytes = (ring.getStages() - 1) * pitch + slot;
  } else if (auto alloc = dyn_cast<AllocBarriersOp>(op)) {
    constexpr int64_t barrierBytes = 8;
    offset = alloc.getOffset();
    bytes = cast<BarriersType>(alloc.getBarriers().getType()).getStages() * barrierBytes;
  }
  if (!offset)
    return std::nullopt;
  auto begin = static_cast<int64_t>(*offset);
  // An offset that no memory has must not overflow.
  int64_t end = begin + std::min(bytes, std::numeric_limits<int64_t>::max() - begin);
  return Extent{op, begin, end, mayShare};
}

static LogicalResult verifyShared(KernelOp kernel) {
  const int64_t limit = getTargetOf(kernel).sharedOfBlock;
  std::optional<int64_t> planned;
  if (std::optional<uint64_t> bytes = kernel.getSharedBytes())
    planned = static_cast<int64_t>(*bytes);
  if (planned && (*planned < 0 || *planned > limit))
    return kernel.emitOpError() << "shared memory must be 0 to " << limit
                                << " bytes, what a block of " << kernel.getTarget()
                                << " has, but got " << *planned
                                << "; run tgpu-plan-shared-memory, or use smaller blocks";
  const int64_t end = planned.value_or(limit);
  SmallVector<Extent> extents;
  kernel.getBody().walk([&](Operation *op) {
    if (std::optional<Extent> extent = findExtent(op))
      extents.push_back(*extent);
  });
  for (const Extent &extent : extents)
    if (extent.end > end) {
      InFlightDiagnostic diagnostic = extent.op->emitOpError();
      diagnostic << "must lie within the " << end << " bytes of shared memory of "
                 << (planned ? "its kernel" : "the target") << ", but got bytes " << extent.begin
                 << " to " << extent.end - 1 << "; run tgpu-plan-shared-memory";
      return diagnostic;
    }
  llvm::stable_sort(extents, [](const Extent &a, const Extent &b) { return a.begin < b.begin; });
  // Of the extents before, those that reach furthest: of all, and of those that may not share.
  const Extent *longest = nullptr, *alone = nullptr;
  for (const Extent &extent : extents) {
    const Extent *before = extent.mayShare ? alone : longest;
    if (before && before->end > extent.begin) {
      InFlightDiagnostic diagnostic = extent.op->emitOpError();
      diagnostic << "must have bytes of its own, but bytes " << extent.begin << " to "
                 << std::min(extent.end, before->end) - 1
                 << " belong to another allocation, too; run tgpu-plan-shared-memory, or declare "
                    "both buffers 'shared'";
      diagnostic.attachNote(before->op->getLoc()) << "the other allocation";
      return diagnostic;
    }
    if (!longest || extent.end > longest->end)
      longest = &extent;
    if (!extent.mayShare && (!alone || extent.end > alone->end))
      alone = &extent;
  }
  return success();
}

static LogicalResult verifyBarrierIds(KernelOp kernel) {
  Operation *owners[Target::namedBarriers] = {};
  WalkResult result = kernel.getBody().walk([&](Operation *op) {
    std::optional<int64_t> first = getFirstHardwareBarrier(op);
    if (!first)
      return WalkResult::advance();
    auto named = dyn_cast<NamedBarrierOp>(op);
    for (int64_t id = *first, end = id + getNumHardwareBarriers(op); id < end; ++id) {
      Operation *other = owners[id];
      auto otherNamed = dyn_cast_if_present<NamedBarrierOp>(other);
      owners[id] = op;
      bool isSame = named && otherNamed && !named.getPerWarpgroup() &&
                    !otherNamed.getPerWarpgroup() && named.getWarps() == otherNamed.getWarps();
      if (!other || isSame)
        continue;
      InFlightDiagnostic diagnostic = op->emitOpError();
      diagnostic << "must have an id of its own, or one of a barrier for the same number of warps, "
                    "but got id "
                 << id << " of another declaration; run tgpu-plan-shared-memory";
      diagnostic.attachNote(other->getLoc()) << "the other declaration";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult tgpu::verifyResources(KernelOp kernel) {
  return success(succeeded(verifyShared(kernel)) && succeeded(verifyBarrierIds(kernel)));
}
