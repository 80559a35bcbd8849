// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of a round without overlap with the next.

#include "passes/Tgpu/OrderRound.h"

#include "passes/Tgpu/RoundOps.h"
#include "passes/Tgpu/WrittenViews.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

class RoundOrder : public RoundOps {
public:
  using RoundOps::RoundOps;

  bool canOrder() { return collect(); }

  SmallVector<OrderedOp> run(bool ahead) {
    if (!collect())
      return {};
    joinSums();
    SmallVector<Product *> first;
    for (Product &product : products)
      if (!dependsOnProduct(product.op))
        first.push_back(&product);
    if (ahead)
      findAhead();
    emitReadersOfSums();
    // Where a tile of a capture lies is found before the products; the tile is read where it is
    // used.
    for (Operation &op : body->without_terminator())
      if (readsCapture(&op) && !dependsOnProduct(&op))
        emit(&op);
    if (aheadWait)
      readRowsUsedWith(nullptr);
    for (Product *product : first) {
      if (!isEmitted.contains(product->op))
        emit(product->op);
      if (!aheadWait && product == first.front())
        readRowsUsedWith(product->wait);
    }
    for (;;) {
      for (Operation &op : body->without_terminator())
        if (isReady(&op))
          emit(&op);
      Product *next = getNextWait();
      if (!next)
        break;
      // The matrix unit works while the result is used.
      if (!isFollowed(*next) && !issueKept() && !aheadOps.empty()) {
        // What products read from registers is free when they have ended.
        for (Product *earlier : llvm::reverse(issued))
          if (earlier->wait != next->wait) {
            emit(earlier->wait);
            break;
          }
        issueAhead();
      }
      emit(next->wait);
    }
    for (Operation &op : body->without_terminator())
      emit(&op);
    issueAhead();
    if (aheadWait)
      sequence.push_back({aheadWait, 0});
    else
      for (OrderedOp &ordered : sequence)
        ordered.stage = 0;
    return std::move(sequence);
  }

private:
  bool dependsOnProduct(Operation *op) { return dependsOn(op, llvm::IsaPred<WgmmaWaitOp>); }

  //===--- A product of the next round ---------------------------------------------===//

  /// Of the first product, what the stage ahead of this round does: all that it needs, if that is
  /// scalars and slots alone, and the counters that it advances.
  void findAhead() {
    Product &product = products.front();
    if (isOnlyYielded(product.wait) || product.op.getAcc())
      return;
    llvm::SetVector<Operation *> ops;
    auto add = [&](Operation *op) {
      if (op && op->getBlock() == body)
        ops.insert(op);
    };
    add(product.op);
    for (size_t i = 0; i < ops.size(); ++i) {
      bool isScalar = isMemoryEffectFree(ops[i]) &&
                      llvm::none_of(ops[i]->getResultTypes(), llvm::IsaPred<RankedTensorType>);
      if (ops[i] != product.op && !isa<WaitOp>(ops[i]) && !isScalar)
        return;
      // Of a ring of one slot, this round holds it.
      if (auto slot = dyn_cast<SlotOp>(ops[i]);
          slot && cast<RingType>(slot.getRing().getType()).getStages() < 2)
        return;
      for (Operation *before : getPredecessors(ops[i]))
        add(before);
      // What the loop carries to the next round's stage comes from this round's.
      for (Value operand : ops[i]->getOperands())
        if (auto argument = dyn_cast<BlockArgument>(operand);
            argument && argument.getOwner() == body && argument != loop.getInductionVar())
          add(loop.getTiedLoopYieldedValue(argument)->get().getDefiningOp());
    }
    SmallVector<Operation *> inOrder(ops.begin(), ops.end());
    llvm::sort(inOrder, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
    for (Operation *op : inOrder) {
      aheadOps.push_back(op);
      if (op == product.op)
        aheadOps.push_back(product.commit);
      // Made where it is used.
      if (auto slot = dyn_cast<SlotOp>(op)) {
        OpBuilder b(slot->getNextNode());
        Operation *copy = b.clone(*slot);
        slot.getResult().replaceUsesWithIf(
            copy->getResult(0), [&](OpOperand &use) { return !ops.contains(use.getOwner()); });
        if (copy->use_empty())
          copy->erase();
      }
    }
    isEmitted.insert(aheadOps.begin(), aheadOps.end());
    aheadWait = product.wait;
    isEmitted.insert(aheadWait);
  }

  void issueAhead() {
    for (Operation *op : aheadOps)
      sequence.push_back({op, 0});
    if (!aheadOps.empty())
      issued.push_back(&products.front());
    aheadOps.clear();
  }

  //===--- The order -------------------------------------------------------------===//

  /// What reads a sum of the rounds before comes before all products: ptxas would wait for those
  /// that are under way (C7517), whatever they write.
  void emitReadersOfSums() {
    for (Product &product : products)
      if (auto sum = dyn_cast_or_null<BlockArgument>(product.op.getAcc()))
        for (Operation *reader : getBefore(product.op))
          if (llvm::is_contained(reader->getOperands(), sum) && !dependsOnProduct(reader))
            emit(reader);
  }

  void emit(Operation *op) {
    if (isEmitted.contains(op))
      return;
    for (Operation *before : getPredecessors(op))
      emit(before);
    // Warps may wait at a barrier; where another product is left for later, a kept one runs
    // meanwhile.
    if (isa<SyncOp>(op) && !aheadOps.empty())
      issueKept(op);
    // Products end in order. A wait that comes later than it need would tell ptxas that the result
    // is not there yet.
    if (isa<WgmmaWaitOp>(op))
      for (WgmmaWaitOp earlier : getEndedBefore(op))
        emit(earlier);
    if (!isEmitted.insert(op).second)
      return;
    sequence.push_back({op, 1});
    if (Product *product = isa<WgmmaOp>(op) ? getProduct(op) : nullptr) {
      isEmitted.insert(product->commit);
      sequence.push_back({product->commit, 1});
      issued.push_back(product);
    }
    if (!isa<WgmmaWaitOp, ReadOp>(op))
      return;
    // The slots that nothing reads any more.
    for (auto arrive : body->getOps<ArriveOp>())
      if (!isEmitted.contains(arrive) && !llvm::is_contained(accesses, arrive.getOperation()) &&
          llvm::all_of(getBefore(arrive),
                       [&](Operation *user) { return isEmitted.contains(user); }))
        emit(arrive);
  }

  /// Reads the rows that are used with the result of a product, or of the one that was issued in
  /// the round before, as soon as it is issued: warps wait for it anyway, and would then stand
  /// still for as long as shared memory takes. Long rows are read where they are used, since they
  /// take more registers, and so are tiles, and rows for whose slot a warp would have to wait as
  /// well.
  void readRowsUsedWith(Operation *wait) {
    constexpr int64_t mostElements = 96; // 24 registers of a thread, where columns lie along it
    for (auto read : body->getOps<ReadOp>()) {
      auto type = cast<RankedTensorType>(read.getType());
      if (type.getRank() != 1 || type.getNumElements() > mostElements || isEmitted.contains(read) ||
          llvm::is_contained(accesses, read.getOperation()) ||
          dependsOn(read, llvm::IsaPred<WaitOp, WgmmaWaitOp>))
        continue;
      llvm::SetVector<Operation *> users(read->user_begin(), read->user_end());
      for (size_t i = 0; i < users.size(); ++i)
        if (isa<tile::ExpandOp>(users[i]))
          users.insert(users[i]->user_begin(), users[i]->user_end());
      bool isUsed = llvm::any_of(users, [&](Operation *user) {
        return user->getBlock() == body && !isa<tile::ExpandOp>(user) && dependsOnWaited(user) &&
               !dependsOn(user, [&](Operation *before) {
                 return isa<WgmmaWaitOp>(before) && before != wait;
               });
      });
      if (isUsed)
        emit(read);
    }
  }

  /// The waits of products that end before those of a wait. Of a sum the last product counts.
  SmallVector<WgmmaWaitOp> getEndedBefore(Operation *wait) {
    SmallVector<WgmmaWaitOp> ended;
    auto getEnd = [&](Operation *other) {
      size_t end = 0;
      for (const Product &product : products)
        if (product.wait == other)
          end = std::max<size_t>(end, llvm::find(issued, &product) - issued.begin());
      return end; // behind all others, if it is not issued
    };
    size_t end = getEnd(wait);
    for (Product *product : issued)
      if (getEnd(product->wait) < end)
        ended.push_back(product->wait);
    return ended;
  }

  /// The oldest product that an operation of the round waits for.
  Product *getNextWait() {
    for (Product *product : issued)
      if (!isOnlyYielded(product->wait) && !isEmitted.contains(product->wait))
        return product;
    return nullptr;
  }

  /// Whether a product is under way that ends after this one.
  bool isFollowed(const Product &product) { return issued.back()->wait != product.wait; }

  /// Issues a product, if there is one that can be and does not come after `barrier`.
  bool issueKept(Operation *barrier = nullptr) {
    for (Product &product : products)
      if (!isEmitted.contains(product.op) && !dependsOn(product.op, [&](Operation *before) {
            return before == barrier || isa<WgmmaWaitOp>(before);
          })) {
        emit(product.op);
        return true;
      }
    return false;
  }

  /// What takes time, and can be computed now. What takes no registers, and reads of shared memory,
  /// come where they are used.
  bool isReady(Operation *op) {
    if (isEmitted.contains(op) ||
        isa<WgmmaCommitOp, WgmmaWaitOp, WaitOp, SlotOp, ReadOp, AcquireOp>(op))
      return false;
    if (isa<WgmmaOp>(op))
      return !isOnlyYielded(getProduct(op)->wait) && !dependsOnProduct(op);
    bool hasTile = llvm::any_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>) ||
                   llvm::is_contained(accesses, op);
    return hasTile && dependsOnWaited(op) && !dependsOnProduct(op);
  }

  /// Whether the operation uses, through others, a product that has been waited for.
  bool dependsOnWaited(Operation *op) {
    llvm::SetVector<Operation *> reached;
    reached.insert(op);
    for (size_t i = 0; i < reached.size(); ++i) {
      if (isa<WgmmaWaitOp>(reached[i]))
        return true;
      for (Operation *before : getPredecessors(reached[i]))
        reached.insert(before);
    }
    return false;
  }

  SmallVector<Product *> issued;     ///< in order
  SmallVector<Operation *> aheadOps; ///< of the next round, until they are issued
  Operation *aheadWait = nullptr;
  SmallVector<OrderedOp> sequence;
};

} // namespace

bool tgpu::canOrderRound(scf::ForOp loop) { return RoundOrder(loop).canOrder(); }

SmallVector<OrderedOp> tgpu::orderRound(scf::ForOp loop, bool ahead) {
  return RoundOrder(loop).run(ahead);
}
