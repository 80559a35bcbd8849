// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers of a kernel with roles through which a role can store its results.

#include "passes/Tgpu/Memory/StoreBuffers.h"

#include "passes/Tgpu/Memory/StorePieces.h"
#include "passes/Tgpu/Roles/RoleSlice.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static bool comesBefore(Operation *op, Operation *store) {
  Operation *ancestor = store->getBlock()->findAncestorOpInBlock(*op);
  return ancestor && ancestor->isBeforeInBlock(store);
}

std::optional<Scratch> tgpu::findScratch(KernelOp kernel, Operation *store) {
  for (auto ring : kernel.getBody().getOps<AllocRingOp>()) {
    Operation *user = nullptr;
    bool isOwn = true, isWritten = false;
    for (Operation *slot : ring.getRing().getUsers()) {
      Operation *ancestor = store->getBlock()->findAncestorOpInBlock(*slot);
      isOwn &= isa<SlotOp>(slot) && ancestor && ancestor->isBeforeInBlock(store);
      if (!user || (ancestor && ancestor->isBeforeInBlock(user)))
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

/// The value that `op` sees in its block for a value that loops and branches yield, after the last
/// of them that precedes `op`; null if it is not yielded to that block.
static Value getAfterLoops(Value value, Operation *op) {
  for (Value next = value; next;) {
    value = std::exchange(next, Value());
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner(), *parent = user->getParentOp();
      if (auto loop = dyn_cast<scf::ForOp>(user);
          loop && loop.getTiedLoopRegionIterArg(&use) && comesBefore(loop, op))
        next = loop.getTiedLoopResult(&use);
      else if (value.getParentBlock() != op->getBlock() && isa<scf::YieldOp>(user) &&
               isa<scf::ForOp, scf::IfOp>(parent))
        next = parent->getResult(use.getOperandNumber());
    }
  }
  return value.getParentBlock() == op->getBlock() ? value : Value();
}

std::optional<SumSlot> tgpu::findSumSlot(KernelOp kernel, Operation *store) {
  Region *role = store->getParentRegion();
  while (role && !isa<RolesOp>(role->getParentOp()))
    role = role->getParentRegion();
  if (!role)
    return std::nullopt;
  std::optional<SumSlot> found;
  kernel->walk([&](TmaReduceAddOp reduce) {
    auto read = reduce.getBuffer().getDefiningOp<SlotOp>();
    if (!read || found)
      return;
    // The role acquires a slot, writes it, and increments the use count.
    for (Operation *user : read.getRing().getUsers()) {
      auto slot = dyn_cast<SlotOp>(user);
      if (!slot || slot == read || !role->isAncestor(slot->getParentRegion()) ||
          llvm::none_of(slot->getUsers(), llvm::IsaPred<WriteSharedOp>))
        continue;
      AcquireOp acquire;
      arith::AddIOp next;
      for (Operation *other : slot.getUse().getUsers()) {
        if (other->getBlock() != slot->getBlock())
          continue;
        if (auto before = dyn_cast<AcquireOp>(other); before && before->isBeforeInBlock(slot))
          acquire = before;
        if (auto add = dyn_cast<arith::AddIOp>(other); add && matchPattern(add.getRhs(), m_One()))
          next = add;
      }
      Value use = next ? getAfterLoops(next, store) : Value();
      if (acquire && use)
        found = SumSlot{read.getRing(), acquire.getBarriers(), use};
    }
  });
  return found;
}

SmallVector<LentSlot> tgpu::findLentSlots(StoreOp store) {
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

/// The buffer, if it is an operand of products that all precede `store`.
static std::optional<Operand> getOperand(AllocOp alloc, Operation *store) {
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
    return std::nullopt;
  if (isa<RolesOp>(load->getParentOp()) && isa<RolesOp>(store->getParentOp()))
    return Operand{alloc, {}, {}, isShared};
  // The copying role acquires the slots that the other role releases.
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
  return std::nullopt;
}

std::optional<Operand> tgpu::findOperand(KernelOp kernel, StoreOp store) {
  auto tile = cast<RankedTensorType>(store.getValue().getType());
  if (!isa<WgmmaAttr>(tile.getEncoding()))
    return std::nullopt;
  for (auto alloc : kernel.getBody().getOps<AllocOp>()) {
    auto type = cast<SharedType>(alloc.getBuffer().getType());
    TensorMapType map;
    if (type.getShape() == tile.getShape() && type.getElementType() == tile.getElementType())
      map = getTensorMap(kernel, store, type);
    if (map && mayWritePanels(store, map.getBox().back()))
      if (std::optional<Operand> operand = getOperand(alloc, store))
        return operand;
  }
  return std::nullopt;
}

SmallVector<Operand> tgpu::findOperands(KernelOp kernel, Operation *write) {
  SmallVector<Operand> operands;
  for (auto alloc : kernel.getBody().getOps<AllocOp>())
    if (std::optional<Operand> operand = getOperand(alloc, write); operand && operand->empty)
      operands.push_back(*operand);
  return operands;
}
