// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-stage-stores: tiles of accumulators leave through shared memory, by TMA, so that memory is
// written in whole lines, and no warp waits for it.
//
// For piece p of a tile, with n buffers:
//
//   bulk_wait pending n - 1 read   the copy that used the buffer n pieces ago has read it; if that
//                                  was in the round before, other results of the block left since
//   sync                           only the thread that started it waited
//   write, fence_async, sync       the piece is complete, and visible to the async proxy
//   tma_store, bulk_commit         one thread starts the copy
//
// The barrier is that of a warpgroup, and each warpgroup copies its own rows, if the rows of a
// product's warpgroups follow each other: no warpgroup waits for the others at the end of a tile
// (1.10 of a forward at D 64, S 512).
//
// The number of pieces is a multiple of n, so p mod n is static, and continues from tile to tile.
//
// In an iteration of a loop with products, barriers are on the path from one iteration to the next.
// If each piece of its stores has a buffer, one wait and barrier in front of the first store say
// that all of them have been read, and a store writes all of its pieces at once:
//
//   bulk_wait pending 0 read, sync                     only in front of the first store
//   write for each piece, fence_async, sync
//   tma_store for each piece, bulk_commit
//
// If there is no room for buffers, a tile may leave through the buffer of an operand that is loaded
// once per tile of the grid and has been read: each warpgroup overwrites the rows that only its own
// products have read, or waits at a barrier for the others. The buffer is released when the copy
// has read it.
//
// In persistent kernels, operands should be released immediately, so that those of the next tile
// are copied while the results of this one are stored. If each iteration writes a buffer for its
// own products, results leave through that buffer, and through a slot of the sums that another role
// adds to memory; the next tile writes them again when the copies have read them. Otherwise results
// leave through ring slots that the copy role lends (tgpu.lend_slot), and that are returned when
// the copies have read them.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/LoopChain.h"
#include "passes/Tgpu/Memory/StageSums.h"
#include "passes/Tgpu/Memory/StoreBuffers.h"
#include "passes/Tgpu/Memory/StorePieces.h"
#include "passes/Tgpu/Roles/RoleSlice.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSTAGESTORES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

struct TgpuStageStoresPass : tilewright::impl::TgpuStageStoresBase<TgpuStageStoresPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      auto schedule = roleScheduleAttr.get(kernel);
      if (!schedule)
        continue;
      for (auto roles : kernel.getBody().getOps<RolesOp>())
        for (auto [region, warps] : llvm::zip_equal(roles.getBodies(), roles.getWarps()))
          stageRole(kernel, region.front(), warps, schedule);
    }
  }

private:
  void stageRole(KernelOp kernel, Block &role, int64_t warps, RoleScheduleAttr schedule) {
    int64_t buffers = schedule.getStoreBuffers();
    if (buffers == 0)
      return storeThroughOthers(kernel, role, warps, /*again=*/schedule.getGroup() > 0);
    SmallVector<std::pair<StoreOp, StorePieces>> stores;
    role.walk([&](StoreOp store) {
      if (std::optional<StorePieces> pieces = StorePieces::get(kernel, store, buffers))
        stores.push_back({store, *pieces});
    });
    if (stores.empty())
      return;
    ImplicitLocOpBuilder b(stores.front().first.getLoc(), kernel.getContext());
    b.setInsertionPoint(role.getParentOp());
    // All stores of a role wait at the same barrier, so all or none are per warpgroup.
    auto ofWarpgroups = stores;
    bool perWarpgroup = true;
    for (auto &[store, pieces] : ofWarpgroups)
      perWarpgroup &= setMapOfWarpgroup(kernel, store, pieces, warps);
    // With three products in an iteration, such as those of dQ, 136 bytes spilled.
    constexpr int64_t mostProducts = 2;
    role.walk([&](scf::ForOp loop) { perWarpgroup &= countProducts(loop) <= mostProducts; });
    if (perWarpgroup)
      stores = std::move(ofWarpgroups);
    Value barrier = NamedBarrierOp::create(b, b.getIndexType(), warps, IntegerAttr(), perWarpgroup);
    llvm::MapVector<Block *, SmallVector<std::pair<StoreOp, StorePieces>>> byBlock;
    for (auto &each : stores)
      byBlock[each.first->getBlock()].push_back(each);
    for (auto &[block, ofBlock] : byBlock) {
      if (areStagedAtOnce(block, ofBlock)) {
        for (auto &[store, pieces] : ofBlock)
          stageAtOnce(store, pieces, store == ofBlock.front().first, barrier, perWarpgroup);
        continue;
      }
      int64_t count = 0;
      for (auto &[store, pieces] : ofBlock)
        count += pieces.count;
      for (auto &[store, pieces] : ofBlock)
        stageStore(store, pieces, count - pieces.count, barrier, perWarpgroup);
    }
    // A block must not end while its shared memory is being read.
    b.setInsertionPointToEnd(&role);
    BulkWaitOp::create(b, 0, /*read=*/true);
  }

  /// Makes the box of the map the rows of a warpgroup, and returns true, if they are consecutive.
  static bool setMapOfWarpgroup(KernelOp kernel, StoreOp store, StorePieces &pieces,
                                int64_t warps) {
    int64_t groups = warps / Target::warpsOfGroup;
    if (groups < 2 || pieces.type.getShape().front() != rowsOfWarpgroup * groups)
      return false;
    auto part =
        SharedType::get(kernel.getContext(), {rowsOfWarpgroup, pieces.type.getShape().back()},
                        pieces.type.getElementType(), pieces.type.getSwizzle());
    TensorMapType map = getTensorMap(kernel, store, part);
    if (map)
      pieces.map = map;
    return !!map;
  }

  /// Whether the stores are those of an iteration of a loop with products, and each piece has a
  /// buffer.
  static bool areStagedAtOnce(Block *block, ArrayRef<std::pair<StoreOp, StorePieces>> stores) {
    auto loop = dyn_cast<scf::ForOp>(block->getParentOp());
    return loop && scheduleAttr.isOn(loop) && !block->getOps<WgmmaOp>().empty() &&
           llvm::all_of(stores,
                        [](const auto &each) { return each.second.buffers == each.second.count; });
  }

  /// The tensor map of a store and the ring of its pieces, before the barrier of its role. Leaves
  /// the builder at the store.
  static std::pair<Value, Value> createBuffers(ImplicitLocOpBuilder &b, StoreOp store,
                                               const StorePieces &pieces, Value barrier) {
    b.setInsertionPoint(barrier.getDefiningOp());
    Value map = getStoreMap(b, store.getView(), pieces.map);
    auto ringType = RingType::get(b.getContext(), pieces.buffers, pieces.type);
    Value ring = AllocRingOp::create(b, ringType, IntegerAttr());
    b.setInsertionPoint(store);
    return {map, ring};
  }

  void stageAtOnce(StoreOp store, const StorePieces &pieces, bool isFirst, Value barrier,
                   bool perWarpgroup) {
    ImplicitLocOpBuilder b(store.getLoc(), store.getContext());
    auto [map, ring] = createBuffers(b, store, pieces, barrier);
    if (isFirst) {
      BulkWaitOp::create(b, 0, /*read=*/true);
      SyncOp::create(b, barrier);
    }
    int64_t panel = pieces.type.getShape()[1];
    SmallVector<Value> buffers;
    for (int64_t piece = 0; piece < pieces.count; ++piece) {
      int64_t first = piece * panel, columns = pieces.getColumnsFrom(first);
      Value use = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(piece)));
      buffers.push_back(SlotOp::create(b, pieces.getType(columns), ring, use));
      WriteSharedOp::create(b, getColumns(b, store.getValue(), first, columns), buffers.back(),
                            /*transpose=*/false);
    }
    FenceAsyncOp::create(b);
    SyncOp::create(b, barrier);
    for (auto [piece, buffer] : llvm::enumerate(buffers))
      storePiece(b, store, buffer, map, static_cast<int64_t>(piece) * panel, perWarpgroup);
    BulkCommitOp::create(b);
    store.erase(); // canonicalize removes what it alone used
  }

  /// `others`: the pieces of the other stores of the block, all of which leave between two
  /// executions of this one.
  void stageStore(StoreOp store, const StorePieces &pieces, int64_t others, Value barrier,
                  bool perWarpgroup) {
    ImplicitLocOpBuilder b(store.getLoc(), store.getContext());
    auto [map, ring] = createBuffers(b, store, pieces, barrier);
    ArrayRef<int64_t> shape = pieces.type.getShape();
    auto i32 = [&](int64_t value) {
      return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
    };
    for (int64_t piece = 0; piece < pieces.count; ++piece) {
      int64_t first = piece * shape[1], columns = pieces.getColumnsFrom(first);
      Value part = getColumns(b, store.getValue(), first, columns);
      Value buffer = SlotOp::create(b, pieces.getType(columns), ring, i32(piece % pieces.buffers));
      int64_t since = pieces.buffers - 1 + (piece < pieces.buffers ? others : 0);
      BulkWaitOp::create(b, since, /*read=*/true);
      SyncOp::create(b, barrier);
      WriteSharedOp::create(b, part, buffer, /*transpose=*/false);
      FenceAsyncOp::create(b);
      SyncOp::create(b, barrier);
      storePiece(b, store, buffer, map, first, perWarpgroup);
      BulkCommitOp::create(b);
    }
    store.erase(); // canonicalize removes what it alone used
  }

  //===--- Through buffers that are there ----------------------------------------===//

  /// `again`: the block processes several tiles.
  static void storeThroughOthers(KernelOp kernel, Block &role, int64_t warps, bool again) {
    SmallVector<StoreOp> stores;
    role.walk([&](StoreOp store) { stores.push_back(store); });
    std::optional<Scratch> scratch;
    std::optional<SumSlot> sums;
    SmallVector<LentSlot> lent;
    if (again && !stores.empty()) {
      scratch = findScratch(kernel, stores.front());
      sums = findSumSlot(kernel, stores.front());
      lent = findLentSlots(stores.front());
    }
    llvm::DenseSet<Operation *> taken;
    // Whether copies may be under way at the end of a tile: no other wait follows the last ones.
    bool isUnderWay = again && stores.empty() && stageSums(kernel, role, warps);
    for (StoreOp store : stores) {
      if (scratch && storeThroughScratch(kernel, store, *scratch, warps)) {
        isUnderWay = true;
        continue;
      }
      if (sums && scratch && storeThroughSums(kernel, store, *sums, *scratch)) {
        sums.reset();
        isUnderWay = true;
        continue;
      }
      if (storeThroughLentSlots(kernel, store, lent, warps))
        continue;
      std::optional<Operand> operand = findOperand(kernel, store);
      if (!operand || !taken.insert(operand->buffer).second)
        continue;
      isUnderWay |= !storeThrough(kernel, store, *operand, warps);
    }
    if (!isUnderWay)
      return;
    ImplicitLocOpBuilder b(kernel.getLoc(), kernel.getContext());
    b.setInsertionPointToEnd(&role);
    BulkWaitOp::create(b, 0, /*read=*/true);
  }

  //===--- Through what each round writes ---------------------------------------===//

  static bool storeThroughScratch(KernelOp kernel, StoreOp store, Scratch &scratch, int64_t warps) {
    std::optional<StorePieces> pieces = StorePieces::get(kernel, store, /*buffers=*/1);
    auto type = cast<RingType>(scratch.ring.getRing().getType());
    if (!pieces || store->getBlock() != scratch.user->getBlock() ||
        getBytes(pieces->type) > getBytes(type.getSlot()) ||
        getAlignment(pieces->type) > getAlignment(type.getSlot()) ||
        scratch.next + pieces->count > static_cast<int64_t>(type.getStages()))
      return false;
    ImplicitLocOpBuilder b(store.getLoc(), store.getContext());
    b.setInsertionPoint(store->getParentOfType<RolesOp>());
    Value map = getStoreMap(b, store.getView(), pieces->map);
    if (!scratch.barrier) {
      scratch.barrier = NamedBarrierOp::create(b, b.getIndexType(), warps, IntegerAttr());
      b.setInsertionPoint(scratch.user);
      BulkWaitOp::create(b, 0, /*read=*/true);
      SyncOp::create(b, scratch.barrier);
      b.setInsertionPoint(store);
      SyncOp::create(b, scratch.barrier); // all products have read it
    }
    b.setInsertionPoint(store);
    int64_t panel = pieces->type.getShape()[1];
    SmallVector<Value> slots;
    for (int64_t piece = 0; piece < pieces->count; ++piece) {
      Value use =
          arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(scratch.next++)));
      int64_t first = piece * panel, columns = pieces->getColumnsFrom(first);
      slots.push_back(SlotOp::create(b, pieces->getType(columns), scratch.ring, use));
      WriteSharedOp::create(b, getColumns(b, store.getValue(), first, columns), slots.back(),
                            /*transpose=*/false);
    }
    FenceAsyncOp::create(b);
    SyncOp::create(b, scratch.barrier);
    for (auto [piece, slot] : llvm::enumerate(slots))
      storePiece(b, store, slot, map, static_cast<int64_t>(piece) * panel);
    BulkCommitOp::create(b);
    store.erase();
    return true;
  }

  //===--- Through a slot of sums --------------------------------------------------===//

  /// For a store through scratch, the wait at the start of the next tile, which may write the slot
  /// again, also covers the copy from the slot.
  static bool storeThroughSums(KernelOp kernel, StoreOp store, const SumSlot &sums,
                               const Scratch &scratch) {
    std::optional<StorePieces> pieces = StorePieces::get(kernel, store, /*buffers=*/1);
    auto slot = cast<RingType>(sums.ring.getType()).getSlot();
    if (!scratch.barrier || !pieces || pieces->getCountIn(slot) < pieces->count ||
        store->getBlock() != scratch.user->getBlock())
      return false;
    ImplicitLocOpBuilder b(store.getLoc(), store.getContext());
    b.setInsertionPoint(store->getParentOfType<RolesOp>());
    Value map = getStoreMap(b, store.getView(), pieces->map);
    b.setInsertionPoint(store);
    AcquireOp::create(b, sums.empty, sums.use);
    Value buffer = SlotOp::create(b, pieces->getType(pieces->columns), sums.ring, sums.use);
    WriteSharedOp::create(b, store.getValue(), buffer, /*transpose=*/false);
    FenceAsyncOp::create(b);
    SyncOp::create(b, scratch.barrier);
    storePiece(b, store, buffer, map, 0);
    BulkCommitOp::create(b);
    store.erase();
    return true;
  }

  //===--- Through slots that the other role lends -------------------------------===//

  /// A store needs separate slots.
  static bool storeThroughLentSlots(KernelOp kernel, StoreOp store, SmallVector<LentSlot> &lent,
                                    int64_t warps) {
    std::optional<StorePieces> pieces = StorePieces::get(kernel, store, /*buffers=*/1);
    if (!pieces)
      return false;
    int64_t count = 0;
    size_t used = 0;
    auto getSlot = [](const LentSlot &each) {
      return cast<RingType>(AllocRingOp(each.ring).getRing().getType()).getSlot();
    };
    while (used < lent.size() && count < pieces->count) {
      int64_t held = pieces->getCountIn(getSlot(lent[used++]));
      if (held == 0)
        return false;
      count += held;
    }
    if (count < pieces->count)
      return false;
    ImplicitLocOpBuilder b(store.getLoc(), store.getContext());
    b.setInsertionPoint(store->getParentOfType<RolesOp>());
    Value map = getStoreMap(b, store.getView(), pieces->map);
    Value barrier = NamedBarrierOp::create(b, b.getIndexType(), warps, IntegerAttr());
    b.setInsertionPoint(store);
    SmallVector<std::pair<Value, int64_t>> buffers;
    int64_t first = 0;
    for (const LentSlot &each : ArrayRef(lent).take_front(used)) {
      int64_t part = pieces->getColumnsFrom(first, pieces->getCountIn(getSlot(each)));
      Value buffer = SlotOp::create(b, pieces->getType(part), AllocRingOp(each.ring).getRing(),
                                    WaitOp(each.wait).getUse());
      WriteSharedOp::create(b, getColumns(b, store.getValue(), first, part), buffer,
                            /*transpose=*/false);
      buffers.push_back({buffer, first});
      first += part;
    }
    FenceAsyncOp::create(b);
    SyncOp::create(b, barrier);
    for (auto [buffer, column] : buffers)
      storePiece(b, store, buffer, map, column);
    BulkCommitOp::create(b);
    // The rest of the tile's work hides the wait. One thread waits until the copies have read the
    // slots; it arrives for all warps that the barrier counts.
    b.setInsertionPoint(store->getBlock()->getTerminator());
    BulkWaitOp::create(b, 0, /*read=*/true);
    for (LentSlot &each : MutableArrayRef(lent).take_front(used)) {
      for (int64_t warp = 0; warp < warps; ++warp)
        ArriveOp::create(b, each.release.getBarriers(), each.release.getUse(), ArriveScope::Role);
      each.release.erase();
    }
    lent.erase(lent.begin(), lent.begin() + static_cast<ptrdiff_t>(used));
    store.erase();
    return true;
  }

  //===--- Through operands ----------------------------------------------------===//

  /// Returns whether the tile waits for its copy.
  static bool storeThrough(KernelOp kernel, StoreOp store, Operand operand, int64_t warps) {
    ImplicitLocOpBuilder b(store.getLoc(), store.getContext());
    b.setInsertionPoint(store->getParentOfType<RolesOp>());
    auto type = cast<SharedType>(operand.buffer.getBuffer().getType());
    Value map = getStoreMap(b, store.getView(), getTensorMap(kernel, store, type));
    Value barrier = NamedBarrierOp::create(b, b.getIndexType(), warps, IntegerAttr());
    b.setInsertionPoint(store);
    if (operand.isShared)
      SyncOp::create(b, barrier);
    WriteSharedOp::create(b, store.getValue(), operand.buffer.getBuffer(), /*transpose=*/false);
    FenceAsyncOp::create(b);
    SyncOp::create(b, barrier);
    MappedView view = MappedView::of(store.getView());
    TmaStoreOp::create(b, operand.buffer.getBuffer(), map, store.getIndices(),
                       store.getStaticIndices(), view.begin, view.size);
    BulkCommitOp::create(b);
    if (operand.empty) {
      // The rest of the tile's work hides the wait.
      b.setInsertionPoint(store->getBlock()->getTerminator());
      BulkWaitOp::create(b, 0, /*read=*/true);
      ArriveOp::create(b, operand.empty.getBarriers(), operand.release.getUse(), ArriveScope::Role);
      operand.empty.setArrivals(1);
      operand.release.erase();
    }
    store.erase();
    return !!operand.empty;
  }
};

} // namespace
