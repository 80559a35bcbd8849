// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-stage-stores: tiles of accumulators leave through shared memory, by TMA, so that memory is
// written in whole lines, and no warp waits for it.
//
// For piece p of a tile, with n buffers:
//
//   bulk_wait pending n - 1 read   the copy that used the buffer n pieces ago has read it
//   sync                           (one thread knows; all do now)
//   write, fence_async, sync       all of the piece is there, for the async proxy as well
//   tma_store, bulk_commit         one thread starts the copy
//
// The number of pieces is a multiple of n, so p mod n is known and runs on from tile to tile.
//
// Where there is no room for buffers, a tile may leave through that of an operand which is loaded
// once for each tile of the grid and has been read: each warpgroup overwrites the rows that its own
// products alone have read, or waits at a barrier for the others. The buffer is then released when
// the copy has read it.
//
// A block that takes tile after tile had better give operands back at once, so that the next tile's
// come while this one's results leave. Where each round writes a buffer for its own products,
// results leave through that; the next tile writes it again when the copies have read it. Otherwise
// they leave through slots of rings that the role which copies lends (tgpu.lend_slot), and which
// are given back when the copies have read them.

#include "passes/Passes.h"
#include "passes/Tgpu/LayoutInference.h"
#include "passes/Tgpu/RoleSlice.h"
#include "passes/Tgpu/ScheduleNames.h"
#include "passes/Tgpu/StorePieces.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSTAGESTORES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

std::optional<StorePieces> StorePieces::get(KernelOp kernel, StoreOp store, int64_t buffers) {
  constexpr int64_t panelBytes = 128, chunkBytes = 16;
  auto tile = cast<RankedTensorType>(store.getValue().getType());
  int64_t bits = getElementBits(tile.getElementType());
  int64_t columns = panelBytes * 8 / bits;
  if (buffers < 1 || !isa<WgmmaAttr>(tile.getEncoding()) || (bits != 16 && bits != 32) ||
      tile.getDimSize(1) % columns != 0)
    return std::nullopt;
  StorePieces pieces;
  pieces.type = SharedType::get(kernel.getContext(), {tile.getDimSize(0), columns},
                                tile.getElementType(), tgpu::Swizzle::B128);
  // Rows that never end with a chunk of 16 bytes: the launch would always refuse the map.
  int64_t extent = cast<tile::ViewType>(store.getView().getType()).getShape().back();
  if (!ShapedType::isDynamic(extent) && extent * bits % (8 * chunkBytes) != 0)
    return std::nullopt;
  pieces.map = getTensorMap(kernel, store, pieces.type);
  if (!pieces.map)
    return std::nullopt;
  pieces.count = tile.getDimSize(1) / columns;
  pieces.buffers = std::min(buffers, pieces.count);
  while (pieces.count % pieces.buffers != 0)
    --pieces.buffers;
  return pieces;
}

int64_t StorePieces::getCountIn(SharedType slot) const {
  if (getAlignment(type) > getAlignment(slot))
    return 0;
  return std::min(getBytes(slot) / getBytes(type), count);
}

namespace {

struct TgpuStageStoresPass : tilewright::impl::TgpuStageStoresBase<TgpuStageStoresPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      auto schedule = kernel->getAttrOfType<RoleScheduleAttr>(roleScheduleName);
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
    Value barrier = NamedBarrierOp::create(b, b.getIndexType(), warps, IntegerAttr());
    for (auto [store, pieces] : stores)
      stageStore(store, pieces, barrier);
    // A block must not end while its shared memory is being read.
    b.setInsertionPointToEnd(&role);
    BulkWaitOp::create(b, 0, /*read=*/true);
  }

  void stageStore(StoreOp store, const StorePieces &pieces, Value barrier) {
    ImplicitLocOpBuilder b(store.getLoc(), store.getContext());
    b.setInsertionPoint(barrier.getDefiningOp());
    Value map = getMap(b, store.getView(), pieces.map);
    auto ringType = RingType::get(b.getContext(), pieces.buffers, pieces.type);
    Value ring = AllocRingOp::create(b, ringType, IntegerAttr());
    b.setInsertionPoint(store);
    ArrayRef<int64_t> shape = pieces.type.getShape();
    auto i32 = [&](int64_t value) {
      return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
    };
    for (int64_t piece = 0; piece < pieces.count; ++piece) {
      int64_t first = piece * shape[1];
      Value part = getColumns(b, store.getValue(), first, shape[1]);
      Value buffer = SlotOp::create(b, pieces.type, ring, i32(piece % pieces.buffers));
      BulkWaitOp::create(b, pieces.buffers - 1, /*read=*/true);
      SyncOp::create(b, barrier);
      WriteSharedOp::create(b, part, buffer, /*transpose=*/false);
      FenceAsyncOp::create(b);
      SyncOp::create(b, barrier);

      storePiece(b, store, buffer, map, first);
      BulkCommitOp::create(b);
    }
    store.erase(); // canonicalize removes what it alone used
  }

  /// Starts the copy of the columns from `first` on.
  static void storePiece(ImplicitLocOpBuilder &b, StoreOp store, Value buffer, Value map,
                         int64_t first) {
    SmallVector<Value> indices(store.getIndices());
    SmallVector<int64_t> known(store.getStaticIndices());
    if (!ShapedType::isDynamic(known.back()))
      known.back() += first;
    else if (first)
      indices.back() = arith::AddIOp::create(
          b, indices.back(),
          arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(first))));
    MappedView view = MappedView::of(store.getView());
    TmaStoreOp::create(b, buffer, map, indices, known, view.begin, view.size);
  }

  //===--- Through buffers that are there ----------------------------------------===//

  /// `again`: for tile after tile.
  static void storeThroughOthers(KernelOp kernel, Block &role, int64_t warps, bool again) {
    SmallVector<StoreOp> stores;
    role.walk([&](StoreOp store) { stores.push_back(store); });
    std::optional<Scratch> scratch;
    SmallVector<LentSlot> lent;
    if (again && !stores.empty()) {
      scratch = findScratch(kernel, stores.front());
      lent = findLentSlots(stores.front());
    }
    llvm::DenseSet<Operation *> taken;
    bool isStaged = false;
    for (StoreOp store : stores) {
      if (scratch && storeThroughScratch(kernel, store, *scratch, warps)) {
        isStaged = true;
        continue;
      }
      if (storeThroughLentSlots(kernel, store, lent, warps)) {
        isStaged = true;
        continue;
      }
      std::optional<Operand> operand = findOperand(kernel, store);
      if (!operand || !taken.insert(operand->buffer).second)
        continue;
      storeThrough(kernel, store, *operand, warps);
      isStaged = true;
    }
    if (!isStaged)
      return;
    ImplicitLocOpBuilder b(kernel.getLoc(), kernel.getContext());
    b.setInsertionPointToEnd(&role);
    BulkWaitOp::create(b, 0, /*read=*/true);
  }

  //===--- Through what each round writes ---------------------------------------===//

  /// A ring that products read which the role itself writes, and nothing else uses.
  struct Scratch {
    AllocRingOp ring;
    Operation *user;  ///< of the block of the stores: all uses are inside
    Value barrier;    ///< once something is stored through it
    int64_t next = 0; ///< slot
  };

  static std::optional<Scratch> findScratch(KernelOp kernel, StoreOp store) {
    for (auto ring : kernel.getBody().getOps<AllocRingOp>()) {
      Operation *user = nullptr;
      bool isOwn = true, isWritten = false;
      for (Operation *slot : ring.getRing().getUsers()) {
        Operation *ancestor = store->getBlock()->findAncestorOpInBlock(*slot);
        isOwn &= isa<SlotOp>(slot) && ancestor && (!user || user == ancestor) &&
                 ancestor->isBeforeInBlock(store);
        user = ancestor;
        for (Operation *access : slot->getUsers()) {
          isOwn &= isa<WriteSharedOp, WgmmaOp>(access);
          isWritten |= isa<WriteSharedOp>(access);
        }
      }
      if (isOwn && isWritten)
        return Scratch{ring, user, {}, 0};
    }
    return std::nullopt;
  }

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
    Value map = getMap(b, store.getView(), pieces->map);
    if (!scratch.barrier) {
      scratch.barrier = NamedBarrierOp::create(b, b.getIndexType(), warps, IntegerAttr());
      b.setInsertionPoint(scratch.user);
      BulkWaitOp::create(b, 0, /*read=*/true);
      SyncOp::create(b, scratch.barrier);
      b.setInsertionPoint(store);
      SyncOp::create(b, scratch.barrier); // all products have read it
    }
    b.setInsertionPoint(store);
    int64_t columns = pieces->type.getShape()[1];
    SmallVector<Value> slots;
    for (int64_t piece = 0; piece < pieces->count; ++piece) {
      Value use =
          arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(scratch.next++)));
      slots.push_back(SlotOp::create(b, pieces->type, scratch.ring, use));
      WriteSharedOp::create(b, getColumns(b, store.getValue(), piece * columns, columns),
                            slots.back(), /*transpose=*/false);
    }
    FenceAsyncOp::create(b);
    SyncOp::create(b, scratch.barrier);
    for (auto [piece, slot] : llvm::enumerate(slots))
      storePiece(b, store, slot, map, static_cast<int64_t>(piece) * columns);
    BulkCommitOp::create(b);
    store.erase();
    return true;
  }

  //===--- Through slots that the other role lends -------------------------------===//

  /// A use of a ring that nothing is copied into: the other role has acquired it, and it is waited
  /// for before the stores and given back behind them.
  struct LentSlot {
    AllocRingOp ring;
    WaitOp wait;
    ArriveOp release;
  };

  static SmallVector<LentSlot> findLentSlots(StoreOp store) {
    SmallVector<LentSlot> lent;
    for (Operation &op : *store->getBlock()) {
      auto wait = dyn_cast<WaitOp>(op);
      if (!wait || !wait->isBeforeInBlock(store))
        continue;
      AllocRingOp ring;
      for (Operation *user : wait.getBarriers().getUsers())
        if (auto load = dyn_cast<TmaLoadOp>(user))
          if (auto slot = load.getBuffer().getDefiningOp<SlotOp>(); slot && !ring)
            ring = slot.getRing().getDefiningOp<AllocRingOp>();
      ArriveOp release;
      bool isRead = false;
      for (Operation *user : wait.getUse().getUsers()) {
        isRead |= isa<SlotOp>(user);
        if (auto arrive = dyn_cast<ArriveOp>(user);
            arrive && arrive->getBlock() == store->getBlock() && store->isBeforeInBlock(arrive))
          release = arrive;
      }
      if (ring && release && !isRead)
        lent.push_back({ring, wait, release});
    }
    return lent;
  }

  /// A store takes slots of its own.
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
    while (used < lent.size() && count < pieces->count)
      count += pieces->getCountIn(getSlot(lent[used++]));
    if (count < pieces->count)
      return false;
    ImplicitLocOpBuilder b(store.getLoc(), store.getContext());
    b.setInsertionPoint(store->getParentOfType<RolesOp>());
    Value map = getMap(b, store.getView(), pieces->map);
    Value barrier = NamedBarrierOp::create(b, b.getIndexType(), warps, IntegerAttr());
    b.setInsertionPoint(store);
    ArrayRef<int64_t> shape = pieces->type.getShape();
    SmallVector<std::pair<Value, int64_t>> buffers;
    int64_t first = 0, columns = pieces->count * shape[1];
    for (const LentSlot &each : ArrayRef(lent).take_front(used)) {
      int64_t part = std::min(columns - first, pieces->getCountIn(getSlot(each)) * shape[1]);
      auto type = SharedType::get(b.getContext(), {shape[0], part}, pieces->type.getElementType(),
                                  pieces->type.getSwizzle());
      Value buffer =
          SlotOp::create(b, type, AllocRingOp(each.ring).getRing(), WaitOp(each.wait).getUse());
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
    // The rest of the tile's work hides the wait. One thread knows that the copies have read the
    // slots; it arrives for all warps, which the barrier counts.
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

  /// A buffer of one stage, filled by the other role, and how it is released; never, where it is
  /// filled once.
  struct Operand {
    AllocOp buffer;
    AllocBarriersOp empty;
    ArriveOp release;      ///< in the role that computes
    bool isShared = false; ///< a warpgroup reads rows that another overwrites
  };

  /// An operand of the type of the stored tile that the role's products have read.
  static std::optional<Operand> findOperand(KernelOp kernel, StoreOp store) {
    auto tile = cast<RankedTensorType>(store.getValue().getType());
    if (!isa<WgmmaAttr>(tile.getEncoding()))
      return std::nullopt;
    for (auto alloc : kernel.getBody().getOps<AllocOp>()) {
      auto type = cast<SharedType>(alloc.getBuffer().getType());
      if (type.getShape() != tile.getShape() || type.getElementType() != tile.getElementType() ||
          !getTensorMap(kernel, store, type))
        continue;
      TmaLoadOp load;
      bool isRead = true, isShared = false;
      for (Operation *user : alloc.getBuffer().getUsers()) {
        if (auto copy = dyn_cast<TmaLoadOp>(user); copy && !load) {
          load = copy;
          continue;
        }
        auto product = dyn_cast<WgmmaOp>(user);
        isRead &= product && comesBefore(product, store);
        isShared |= product && (product.getA() != alloc.getBuffer() ||
                                product.getB() == alloc.getBuffer() || product.getTransposeA());
      }
      if (!load || !isRead)
        continue;
      if (isa<RolesOp>(load->getParentOp()) && isa<RolesOp>(store->getParentOp()))
        return Operand{alloc, {}, {}, isShared};
      // The role that copies acquires what the other releases.
      for (auto acquire : load->getBlock()->getOps<AcquireOp>()) {
        auto empty = acquire.getBarriers().getDefiningOp<AllocBarriersOp>();
        if (acquire.getUse() != load.getUse() || !empty)
          continue;
        SmallVector<ArriveOp> releases;
        for (Operation *user : empty.getBarriers().getUsers())
          if (auto arrive = dyn_cast<ArriveOp>(user))
            releases.push_back(arrive);
        bool isAlone = llvm::count_if(load->getBlock()->getOps<TmaLoadOp>(), [&](TmaLoadOp other) {
                         return other.getBarriers() == load.getBarriers();
                       }) == 1;
        if (isAlone && releases.size() == 1 && releases[0]->getBlock() == store->getBlock() &&
            releases[0]->isBeforeInBlock(store))
          return Operand{alloc, empty, releases[0], isShared};
      }
    }
    return std::nullopt;
  }

  static bool comesBefore(Operation *op, Operation *store) {
    Operation *ancestor = store->getBlock()->findAncestorOpInBlock(*op);
    return ancestor && ancestor->isBeforeInBlock(store);
  }

  static void storeThrough(KernelOp kernel, StoreOp store, Operand operand, int64_t warps) {
    ImplicitLocOpBuilder b(store.getLoc(), store.getContext());
    b.setInsertionPoint(store->getParentOfType<RolesOp>());
    auto type = cast<SharedType>(operand.buffer.getBuffer().getType());
    Value map = getMap(b, store.getView(), getTensorMap(kernel, store, type));
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
  }

  /// The operation that computes a tile element by element for one use, or a splat; null for
  /// others.
  static Operation *getElementwise(Value tile) {
    Operation *op = tile.getDefiningOp();
    if (!op || isa<tile::FullOp>(op))
      return op;
    bool isElementwise = LayoutInference::isElementwise(op) && op->hasOneUse() &&
                         op->getNumResults() == 1 && isMemoryEffectFree(op);
    return isElementwise ? op : nullptr;
  }

  /// What is computed element by element for the store alone is computed piece by piece, so that
  /// the registers of one piece are free before the next begins.
  static Value getColumns(ImplicitLocOpBuilder &b, Value tile, int64_t first, int64_t count) {
    if (cast<RankedTensorType>(tile.getType()).getDimSize(1) == count)
      return tile;
    IRMapping pieces;
    // Operands first, with an explicit stack: the computation may be a chain of any length.
    SmallVector<Value> stack{tile};
    while (!stack.empty()) {
      Value value = stack.back();
      if (pieces.contains(value)) {
        stack.pop_back();
        continue;
      }
      auto type = cast<RankedTensorType>(value.getType());
      auto pieceType = type.clone({type.getDimSize(0), count});
      Operation *op = getElementwise(value);
      if (!op) {
        pieces.map(value, ColumnsOp::create(b, pieceType, first, value).getResult());
        continue;
      }
      size_t size = stack.size();
      for (Value operand : llvm::reverse(op->getOperands()))
        if (isa<RankedTensorType>(operand.getType()) && !pieces.contains(operand))
          stack.push_back(operand);
      if (stack.size() == size)
        b.clone(*op, pieces)->getResult(0).setType(pieceType);
    }
    return pieces.lookup(tile);
  }

  /// The map of the view that is there already, or a new one.
  static Value getMap(ImplicitLocOpBuilder &b, Value view, TensorMapType type) {
    view = MappedView::of(view).argument;
    for (Operation *user : view.getUsers())
      if (auto map = dyn_cast<TensorMapOp>(user); map && map.getMap().getType() == type)
        return map.getMap();
    return TensorMapOp::create(b, type, view);
  }
};

} // namespace
