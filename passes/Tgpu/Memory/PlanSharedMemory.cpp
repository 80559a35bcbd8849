// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-plan-shared-memory: every buffer has its own bytes if all fit; otherwise buffers with
// disjoint live ranges share bytes.

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Passes.h"
#include "passes/Tgpu/Memory/BufferLifetimes.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUPLANSHAREDMEMORY
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

struct TgpuPlanSharedMemoryPass
    : tilewright::impl::TgpuPlanSharedMemoryBase<TgpuPlanSharedMemoryPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      if (failed(plan(kernel)))
        return signalPassFailure();
  }

private:
  struct Request {
    Operation *op;
    int64_t bytes, alignment, offset = 0;

    bool overlaps(int64_t begin, int64_t length) const {
      return offset < begin + length && begin < offset + bytes;
    }
  };

  /// Barrier 0 is the block's. The kernel's verifier bounds the number of barriers.
  void numberBarriers(KernelOp kernel) {
    int64_t next = 1;
    kernel.walk([&](Operation *op) {
      setFirstHardwareBarrier(op, next);
      next += getNumHardwareBarriers(op);
    });
  }

  LogicalResult plan(KernelOp kernel) {
    SmallVector<Request> requests;
    kernel.walk([&](Operation *op) {
      if (auto alloc = dyn_cast<AllocOp>(op)) {
        auto type = cast<SharedType>(alloc.getBuffer().getType());
        requests.push_back({op, getBytes(type), getAlignment(type)});
      } else if (auto ring = dyn_cast<AllocRingOp>(op)) {
        auto type = cast<RingType>(ring.getRing().getType());
        // Every slot keeps the alignment of the first.
        int64_t alignment = getAlignment(type.getSlot());
        int64_t slot = llvm::alignTo(getBytes(type.getSlot()), alignment);
        requests.push_back({op, type.getStages() * slot, alignment});
      } else if (auto barriers = dyn_cast<AllocBarriersOp>(op)) {
        constexpr int64_t barrierBytes = 8;
        auto type = cast<BarriersType>(barriers.getBarriers().getType());
        requests.push_back({op, type.getStages() * barrierBytes, barrierBytes});
      }
    });
    // Sort by alignment, the largest first: this leaves no gaps, since most sizes are multiples of
    // it.
    llvm::stable_sort(requests,
                      [](const Request &x, const Request &y) { return x.alignment > y.alignment; });
    int64_t end = 0;
    for (Request &request : requests) {
      request.offset = llvm::alignTo(end, request.alignment);
      end = request.offset + request.bytes;
    }
    int64_t limit = getTargetOf(kernel).sharedOfBlock;
    // Sharing may require barriers, so share only if memory does not suffice.
    if (end > limit)
      end = share(kernel, requests);
    if (end > limit)
      return kernel.emitOpError() << "needs " << end << " bytes of shared memory, but the limit of "
                                  << kernel.getTarget() << " is " << limit
                                  << "; use smaller blocks";
    Builder builder(kernel.getContext());
    for (const Request &request : requests) {
      request.op->setAttr("offset", builder.getI64IntegerAttr(request.offset));
      auto alloc = dyn_cast<AllocOp>(request.op);
      if (alloc && llvm::any_of(requests, [&](const Request &other) {
            return &other != &request && other.overlaps(request.offset, request.bytes);
          }))
        alloc.setShared(true);
    }
    kernel.setSharedBytes(end);
    numberBarriers(kernel);
    return success();
  }

  /// Assigns offsets again, largest buffer first, at the lowest offset that does not overlap a
  /// simultaneously live buffer.
  int64_t share(KernelOp kernel, SmallVectorImpl<Request> &requests) {
    BufferLifetimes lifetimes(kernel);
    llvm::stable_sort(requests,
                      [](const Request &x, const Request &y) { return x.bytes > y.bytes; });
    auto mayShare = [&](const Request &x, const Request &y) {
      return isa<AllocOp>(x.op) && isa<AllocOp>(y.op) &&
             lifetimes.mayShare(x.op->getResult(0), y.op->getResult(0));
    };
    int64_t end = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      Request &request = requests[i];
      auto placed = ArrayRef(requests).take_front(i);
      auto isFree = [&](int64_t offset) {
        return llvm::none_of(placed, [&](const Request &other) {
          return other.overlaps(offset, request.bytes) && !mayShare(request, other);
        });
      };
      SmallVector<int64_t> offsets{0};
      for (const Request &other : placed)
        offsets.push_back(llvm::alignTo(other.offset + other.bytes, request.alignment));
      llvm::sort(offsets);
      request.offset = *llvm::find_if(offsets, isFree); // the end of all buffers is always free
      for (const Request &other : placed)
        if (other.overlaps(request.offset, request.bytes))
          lifetimes.separate(request.op->getResult(0), other.op->getResult(0));
      end = std::max(end, request.offset + request.bytes);
    }
    return end;
  }
};

} // namespace
