// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collects the operations of an iteration and their order dependences.

#include "passes/Tgpu/Loops/RoundOps.h"

#include "passes/Tgpu/Analysis/WrittenViews.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

bool RoundOps::collect() {
  if (body->getOperations().size() > mostOrderedOps)
    return false;
  llvm::DenseSet<Value> written;
  WrittenViews views(loop);
  for (Operation &op : body->without_terminator()) {
    if (op.getNumRegions() != 0)
      return false;
    // The load's position among the stores determines which iteration's value it reads.
    if (auto load = dyn_cast<LoadOp>(op); load && views.contains(load.getView()))
      return false;
    if (auto write = dyn_cast<WriteSharedOp>(op))
      written.insert(write.getBuffer());
  }
  for (Operation &op : body->without_terminator()) {
    if (auto product = dyn_cast<WgmmaOp>(op)) {
      std::optional<Product> found = Product::get(product);
      if (!found)
        return false;
      products.push_back(*found);
      if (written.contains(product.getA()) || written.contains(product.getB()))
        accesses.push_back(&op);
    } else if (auto read = dyn_cast<ReadOp>(op)) {
      if (written.contains(read.getBuffer()))
        accesses.push_back(&op);
    } else if (isa<SyncOp, WriteSharedOp, FenceAsyncOp, AcquireOp, StoreOp, TmaStoreOp,
                   BulkCommitOp, BulkWaitOp>(op)) {
      accesses.push_back(&op);
    } else if (auto arrive = dyn_cast<ArriveOp>(op)) {
      // The release of a ring that the iteration writes keeps its position; a ring that it only
      // reads is released after its last read.
      bool isWritten = llvm::any_of(body->getOps<AcquireOp>(), [&](AcquireOp acquire) {
        return acquire.getUse() == arrive.getUse();
      });
      if (isWritten)
        accesses.push_back(&op);
    } else if (!isa<WaitOp, WgmmaWaitOp, WgmmaCommitOp, LoadOp>(op) && !isMemoryEffectFree(&op)) {
      return false; // it may depend on other operations
    }
  }
  return products.size() > 1;
}

/// Whether an access to shared memory follows the end of an earlier product that reads what the
/// loop writes: it may write the buffer, or let other warps do so.
static bool followsEnd(Operation *access, WgmmaOp product) {
  auto write = dyn_cast<WriteSharedOp>(access);
  return isa<SyncOp>(access) ||
         (write && (write.getBuffer() == product.getA() || write.getBuffer() == product.getB()));
}

bool RoundOps::endsBeforeLast(const Product &product, const Product &next) {
  WgmmaOp op = product.op;
  auto *it = llvm::find(accesses, op.getOperation());
  if (it == accesses.end())
    return false;
  Operation *last = next.op;
  for (const Product &other : products)
    if (other.wait == next.wait && last->isBeforeInBlock(other.op))
      last = other.op;
  return llvm::any_of(ArrayRef(it + 1, accesses.end()), [&](Operation *access) {
    return followsEnd(access, op) &&
           dependsOn(last, [&](Operation *before) { return before == access; });
  });
}

void RoundOps::joinSums() {
  for (Product &product : llvm::reverse(products)) {
    Value acc = product.op.getAcc();
    auto wait = acc ? acc.getDefiningOp<WgmmaWaitOp>() : WgmmaWaitOp();
    Product *before = wait && wait->hasOneUse() ? getProduct(wait) : nullptr;
    if (!before || endsBeforeLast(*before, product))
      continue;
    product.op.getAccMutable().assign(before->op.getResult());
    before->wait = product.wait;
    wait.erase();
  }
}

Product *RoundOps::getProduct(Operation *waitOrProduct) {
  auto *it = llvm::find_if(products, [&](const Product &product) {
    return product.op == waitOrProduct || product.wait == waitOrProduct;
  });
  return it == products.end() ? nullptr : it;
}

SmallVector<Operation *> RoundOps::getBefore(Operation *op) {
  SmallVector<Operation *> before;
  // Accesses to shared memory keep their order. A barrier, or a write to the same buffer, follows
  // the products that read the buffer.
  if (auto *it = llvm::find(accesses, op); it != accesses.end()) {
    for (Operation *earlier : ArrayRef(accesses.begin(), it)) {
      before.push_back(earlier);
      auto product = dyn_cast<WgmmaOp>(earlier);
      if (product && followsEnd(op, product))
        before.push_back(getProduct(product)->wait);
    }
  }
  if (auto commit = dyn_cast<WgmmaCommitOp>(op))
    before.push_back(op->getPrevNode());
  // A product overwrites its accumulator in place: earlier readers stay before it, or the value
  // would need a copy.
  if (auto product = dyn_cast<WgmmaOp>(op); product && product.getAcc())
    for (Operation *user : product.getAcc().getUsers())
      if (user->getBlock() == body && user->isBeforeInBlock(op))
        before.push_back(user);
  // A slot is read after it has arrived and released after it has been read.
  for (Value operand : op->getOperands())
    if (auto slot = operand.getDefiningOp<SlotOp>(); slot && slot->getBlock() == body)
      for (auto wait : body->getOps<WaitOp>())
        if (wait.getUse() == slot.getUse())
          before.push_back(wait);
  if (auto arrive = dyn_cast<ArriveOp>(op); arrive && !llvm::is_contained(accesses, op))
    for (auto slot : body->getOps<SlotOp>())
      if (slot.getUse() == arrive.getUse())
        for (Operation *user : slot->getUsers()) {
          Product *product = getProduct(user);
          before.push_back(product ? product->wait.getOperation() : user);
        }
  return before;
}

SmallVector<Operation *> RoundOps::getPredecessors(Operation *op) {
  SmallVector<Operation *> all = getBefore(op);
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp(); def && def->getBlock() == body)
      all.push_back(def);
  return all;
}

bool RoundOps::dependsOn(Operation *op, llvm::function_ref<bool(Operation *)> holds) {
  llvm::SetVector<Operation *> reached;
  reached.insert(op);
  for (size_t i = 0; i < reached.size(); ++i)
    for (Operation *before : getPredecessors(reached[i])) {
      if (isEmitted.contains(before))
        continue;
      if (holds(before))
        return true;
      reached.insert(before);
    }
  return false;
}
