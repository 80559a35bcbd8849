// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums that several tiles of the grid share, such as dK of heads that share keys, leave through
// shared memory: a thread would add its elements two at a time, 64 or more additions in a row, and
// the L2 would serve each on its own. The buffers are those that results leave through, which each
// iteration writes for its own products, and the slot that the next tile's first sum for another
// role will take. A sum of 32 bits has twice the bytes of a result, so it leaves in batches: write
// all buffers, add them, wait until the additions have read them.

#include "passes/Tgpu/Memory/StageSums.h"

#include "passes/Tgpu/Memory/StoreBuffers.h"
#include "passes/Tgpu/Memory/StorePieces.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// A slot of a ring, by its number, in the block of the additions.
struct FreeSlot {
  Value ring, use;

  SharedType getType() const { return cast<RingType>(ring.getType()).getSlot(); }
};

class SumStager {
public:
  SumStager(KernelOp kernel, int64_t warps)
      : kernel(kernel), warps(warps), b(kernel.getLoc(), kernel) {}

  bool run(ArrayRef<AtomicAddOp> adds) {
    AtomicAddOp first = adds.front();
    std::optional<Scratch> scratch = findScratch(kernel, first);
    if (!scratch || scratch->user->getBlock() != first->getBlock())
      return false;
    auto holdsPieces = [&](SharedType buffer) {
      return llvm::all_of(adds, [&](AtomicAddOp add) {
        return StorePieces::get(kernel, add, /*buffers=*/1)->getCountIn(buffer) > 0;
      });
    };
    auto getSlot = [](Value ring) { return cast<RingType>(ring.getType()).getSlot(); };
    std::optional<SumSlot> sums = findSumSlot(kernel, first);
    if (sums && !holdsPieces(getSlot(sums->ring)))
      sums.reset();
    bool hasScratch = holdsPieces(getSlot(scratch->ring.getRing()));
    SmallVector<Operand> operands;
    if (!sums && !hasScratch) {
      operands = findOperands(kernel, first);
      llvm::erase_if(operands, [&](const Operand &operand) {
        return !holdsPieces(cast<SharedType>(AllocOp(operand.buffer).getBuffer().getType()));
      });
      if (operands.empty())
        return false;
    }
    begin(first, scratch->user);
    if (hasScratch)
      addSlots(scratch->ring.getRing());
    if (sums) {
      AcquireOp::create(b, sums->empty, sums->use);
      slots.push_back({sums->ring, sums->use});
    }
    for (Operand &operand : operands)
      addOperand(operand);
    for (AtomicAddOp add : adds)
      stage(add);
    flush();
    if (!operands.empty())
      release(operands, first->getBlock());
    return true;
  }

private:
  Value i32(int64_t value) {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }

  /// All products have read the buffers. The next tile, which begins with `user`, writes them
  /// again.
  void begin(AtomicAddOp first, Operation *user) {
    b.setLoc(first.getLoc());
    b.setInsertionPoint(first->getParentOfType<RolesOp>());
    barrier = NamedBarrierOp::create(b, b.getIndexType(), warps, IntegerAttr());
    b.setInsertionPoint(user);
    BulkWaitOp::create(b, 0, /*read=*/true);
    SyncOp::create(b, barrier);
    b.setInsertionPoint(first);
    SyncOp::create(b, barrier);
  }

  void addSlots(Value ring) {
    for (int64_t i = 0; i < static_cast<int64_t>(cast<RingType>(ring.getType()).getStages()); ++i)
      slots.push_back({ring, i32(i)});
  }

  /// As a ring of one slot, which can be used as a buffer of another type.
  void addOperand(Operand &operand) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(operand.buffer);
    auto type = cast<SharedType>(operand.buffer.getBuffer().getType());
    Value ring =
        AllocRingOp::create(b, RingType::get(b.getContext(), 1, type), IntegerAttr()).getRing();
    Value zero = i32(0);
    operand.buffer.getBuffer().replaceAllUsesWith(SlotOp::create(b, type, ring, zero));
    operand.buffer.erase();
    slots.push_back({ring, zero});
  }

  /// The rest of the tile's work hides the wait.
  void release(MutableArrayRef<Operand> operands, Block *block) {
    b.setInsertionPoint(block->getTerminator());
    BulkWaitOp::create(b, 0, /*read=*/true);
    for (Operand &operand : operands) {
      ArriveOp::create(b, operand.empty.getBarriers(), operand.release.getUse(), ArriveScope::Role);
      operand.empty.setArrivals(1);
      operand.release.erase();
    }
  }

  void stage(AtomicAddOp add) {
    StorePieces pieces = *StorePieces::get(kernel, add, /*buffers=*/1);
    b.setLoc(add.getLoc());
    b.setInsertionPoint(add->getParentOfType<RolesOp>());
    Value map = getStoreMap(b, add.getView(), pieces.map);
    b.setInsertionPoint(add);
    ArrayRef<int64_t> shape = pieces.type.getShape();
    for (int64_t piece = 0; piece < pieces.count;) {
      if (next == slots.size()) {
        flush();
        BulkWaitOp::create(b, 0, /*read=*/true);
        SyncOp::create(b, barrier);
        next = 0;
      }
      const FreeSlot &slot = slots[next++];
      int64_t count = std::min(pieces.getCountIn(slot.getType()), pieces.count - piece);
      int64_t first = piece * shape[1], columns = pieces.getColumnsFrom(first, count);
      Value buffer = SlotOp::create(b, pieces.getType(columns), slot.ring, slot.use);
      WriteSharedOp::create(b, getColumns(b, add.getValue(), first, columns), buffer,
                            /*transpose=*/false);
      written.push_back({add, buffer, map, first});
      piece += count;
    }
  }

  /// Adds the written buffers.
  void flush() {
    FenceAsyncOp::create(b);
    SyncOp::create(b, barrier);
    for (const Piece &piece : written)
      storePiece(b, piece.add, piece.buffer, piece.map, piece.first);
    BulkCommitOp::create(b);
    written.clear();
  }

  struct Piece {
    AtomicAddOp add;
    Value buffer, map;
    int64_t first; ///< column
  };

  KernelOp kernel;
  int64_t warps;
  ImplicitLocOpBuilder b;
  Value barrier;
  SmallVector<FreeSlot> slots;
  size_t next = 0;
  SmallVector<Piece> written;
};

} // namespace

bool tgpu::stageSums(KernelOp kernel, Block &role, int64_t warps) {
  // The additions of one block, which are the last operations of a tile.
  SmallVector<AtomicAddOp> adds;
  role.walk([&](AtomicAddOp add) {
    if (!add.getNumber() && !add->getParentOfType<scf::ForOp>() &&
        (adds.empty() || adds.front()->getBlock() == add->getBlock()) &&
        StorePieces::get(kernel, add, /*buffers=*/1))
      adds.push_back(add);
  });
  if (adds.empty() || !SumStager(kernel, warps).run(adds))
    return false;
  for (AtomicAddOp add : adds)
    add.erase();
  return true;
}
