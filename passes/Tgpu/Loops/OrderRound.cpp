// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders an iteration that does not overlap with the next one.

#include "passes/Tgpu/Loops/OrderRound.h"

#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Loops/RoundOps.h"

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
    // Compute the address of a captured tile before the products; the tile is read at its use.
    for (Operation &op : body->without_terminator())
      if (readsCapture(&op) && !dependsOnProduct(&op))
        emit(&op);
    if (aheadWait)
      readRowsUsedWith(nullptr);
    leaves = onlyResultsLeave() && multipliesSum();
    if (leaves)
      prepareJoined(first);
    for (Product *product : first) {
      if (isFromRegisters(*product))
        waitForOperands();
      if (!isEmitted.contains(product->op))
        emit(product->op);
      if (!aheadWait && product == first.front())
        readRowsUsedWith(product->wait);
    }
    if (leaves)
      emitBesideProducts();
    for (;;) {
      for (Operation &op : body->without_terminator())
        if (isReady(&op))
          emit(&op);
      Product *next = getNextWait();
      if (!next)
        break;
      // Issue a kept product so that the matrix unit works while the result is used, unless warps
      // exchange values computed from it: then it is better issued at the barrier, and writes to
      // shared memory are slower while a product reads from there.
      if (aheadOps.empty() && !leaves && isExchanged(next->wait))
        isKeptForBarrier = true;
      else if (!isFollowed(*next) && !issueKept() && !aheadOps.empty()) {
        // The registers that a product reads are free when it has ended.
        for (Product *earlier : llvm::reverse(issued))
          if (earlier->wait != next->wait) {
            emit(earlier->wait);
            break;
          }
        issueAhead();
      }
      emit(next->wait);
    }
    if (leaves) {
      while (issueKept())
        continue;
      storeResults();
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

  //===--- Next iteration's product ---------------------------------------------===//

  /// Collects the operations that issue the next iteration's first product in this one: all its
  /// dependences, provided that they are scalars and slots, and the counters that it advances.
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
      // With a one-slot ring, the current iteration still uses the slot.
      if (auto slot = dyn_cast<SlotOp>(ops[i]);
          slot && cast<RingType>(slot.getRing().getType()).getStages() < 2)
        return;
      for (Operation *before : getPredecessors(ops[i]))
        add(before);
      // The next iteration reads the carried values that this iteration yields.
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
      // Slots are computed at their uses.
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

  //===--- Results that leave ----------------------------------------------------===//

  /// Whether operand a of a product depends on a tile that the previous iteration yields: the time
  /// of iterations is that of their chain.
  bool multipliesSum() {
    llvm::SetVector<Value> reached;
    for (Product &product : products)
      reached.insert(product.op.getA());
    for (size_t i = 0; i < reached.size(); ++i) {
      Value value = reached[i];
      Operation *op = value.getDefiningOp();
      if (!op && isa<RankedTensorType>(value.getType()) && value.getParentBlock() == body)
        return true;
      if (op && op->getBlock() == body && !isa<WgmmaWaitOp>(op))
        reached.insert_range(op->getOperands());
    }
    return false;
  }

  /// Whether shared memory is only written for results that leave by TMA: then their barriers and
  /// fences hide behind products.
  bool onlyResultsLeave() {
    llvm::DenseSet<Value> left;
    for (auto store : body->getOps<TmaStoreOp>())
      left.insert(store.getBuffer());
    return !left.empty() && llvm::all_of(accesses, [&](Operation *access) {
      auto write = dyn_cast<WriteSharedOp>(access);
      return write ? left.contains(write.getBuffer())
                   : isa<SyncOp, FenceAsyncOp, TmaStoreOp, BulkCommitOp, BulkWaitOp>(access);
    });
  }

  /// Prepares the operands of products that extend those of `first` before any of these is issued:
  /// at the branch of a wait, and at a reader of a sum of earlier iterations, ptxas ends the
  /// products in flight.
  void prepareJoined(ArrayRef<Product *> first) {
    for (Product *product : first)
      if (Value acc = product->op.getAcc(); acc && acc.getDefiningOp<WgmmaOp>())
        for (Operation *before : getPredecessors(product->op))
          if (!getProduct(before))
            emit(before);
  }

  /// While the first products run: the waits for other operands, the reads of rows, and the stores
  /// of the results that are known.
  void emitBesideProducts() {
    for (Operation &op : body->without_terminator()) {
      auto read = dyn_cast<ReadOp>(op);
      bool isRow = read && cast<RankedTensorType>(read.getType()).getRank() == 1;
      if ((isa<WaitOp>(op) || isRow) && !dependsOnProduct(&op))
        emit(&op);
    }
    storeResults();
  }

  /// Stores the results that depend on no product that has not been waited for.
  void storeResults() {
    for (auto commit : body->getOps<BulkCommitOp>())
      if (!dependsOnProduct(commit))
        emit(commit);
  }

  //===--- The order -------------------------------------------------------------===//

  /// Readers of a sum of earlier iterations precede all products: ptxas would wait for any product
  /// in flight (C7517), whatever its accumulator.
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
    // Warps may wait at a barrier. If another product is left for later, issue a kept one first,
    // which runs meanwhile.
    if (isa<SyncOp>(op) && !aheadOps.empty())
      issueKept({op});
    if (isa<SyncOp, FenceAsyncOp>(op) && isKeptForBarrier)
      coverBarrier(op);
    // Products end in order. If a wait came later than necessary, ptxas would take the product to
    // be pending.
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
      writeOperand(*product);
    }
    if (!isa<WgmmaWaitOp, ReadOp>(op))
      return;
    // Release the slots that have no further readers.
    for (auto arrive : body->getOps<ArriveOp>())
      if (!isEmitted.contains(arrive) && !llvm::is_contained(accesses, arrive.getOperation()) &&
          llvm::all_of(getBefore(arrive),
                       [&](Operation *user) { return isEmitted.contains(user); }))
        emit(arrive);
  }

  static bool isFromRegisters(Product &product) {
    return isa<RankedTensorType>(product.op.getA().getType());
  }

  /// Operands a in registers are live until their products end: at most those of two products that
  /// this iteration waits for. While the next one is read and converted, the older one ends.
  void waitForOperands() {
    constexpr size_t most = 2;
    SmallVector<Product *> pending;
    for (Product *product : issued)
      if (isFromRegisters(*product) && !isOnlyYielded(product->wait) &&
          !isEmitted.contains(product->wait))
        pending.push_back(product);
    if (pending.size() >= most)
      emit(pending[pending.size() - most]->wait);
  }

  /// Writes an operand a in registers that later products read from shared memory: its registers
  /// are free when this product has ended.
  void writeOperand(Product &product) {
    if (leaves)
      return;
    auto convert = product.op.getA().getDefiningOp<ConvertOp>();
    for (auto write : body->getOps<WriteSharedOp>())
      if (convert && write.getValue() == convert.getSource() && !dependsOnProduct(write))
        emit(write);
  }

  /// Reads the rows that are used together with the result of a product (issued in this iteration
  /// or in the previous one) as soon as it is issued: warps wait for the product anyway, and would
  /// otherwise wait for shared memory afterwards. Tiles and long rows are read at their uses, since
  /// they take more registers, as are rows whose slot requires another wait.
  void readRowsUsedWith(Operation *wait) {
    for (auto read : body->getOps<ReadOp>()) {
      auto type = cast<RankedTensorType>(read.getType());
      if (type.getRank() != 1 || type.getNumElements() > RegisterLimits::elementsOfEarlyRow ||
          isEmitted.contains(read) || llvm::is_contained(accesses, read.getOperation()) ||
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

  /// The waits of products that end before those of `wait`. A sum ends with its last product.
  SmallVector<WgmmaWaitOp> getEndedBefore(Operation *wait) {
    SmallVector<WgmmaWaitOp> ended;
    auto getEnd = [&](Operation *other) {
      size_t end = 0;
      for (const Product &product : products)
        if (product.wait == other)
          end = std::max<size_t>(end, llvm::find(issued, &product) - issued.begin());
      return end; // after all others if it has not been issued
    };
    size_t end = getEnd(wait);
    for (Product *product : issued)
      if (getEnd(product->wait) < end)
        ended.push_back(product->wait);
    return ended;
  }

  /// The oldest product whose result this iteration uses and has not waited for.
  Product *getNextWait() {
    for (Product *product : issued)
      if (!isOnlyYielded(product->wait) && !isEmitted.contains(product->wait))
        return product;
    return nullptr;
  }

  /// Whether a product in flight ends after this one.
  bool isFollowed(const Product &product) { return issued.back()->wait != product.wait; }

  /// The last barrier of the iteration, if warps have not reached it yet.
  Operation *getBarrier() {
    Operation *last = nullptr;
    for (auto barrier : body->getOps<SyncOp>())
      last = barrier;
    return last && !isEmitted.contains(last) ? last : nullptr;
  }

  /// Whether something computed from the result of `wait` is written to shared memory before the
  /// last barrier.
  bool isExchanged(Operation *wait) {
    Operation *barrier = getBarrier();
    return barrier && llvm::any_of(body->getOps<WriteSharedOp>(), [&](WriteSharedOp write) {
             return write->isBeforeInBlock(barrier) && !isEmitted.contains(write) &&
                    llvm::any_of(getProducts(write.getValue(), loop), [&](Operation *op) {
                      Product *product = getProduct(op);
                      return product && product->wait == wait;
                    });
           });
  }

  /// Issues one kept product before the last barrier, or the fence before it, to run while warps
  /// wait there.
  void coverBarrier(Operation *op) {
    Operation *barrier = getBarrier();
    if (!barrier || (isa<SyncOp>(op) && op != barrier))
      return;
    isKeptForBarrier = false;
    issueKept({op, barrier});
  }

  /// Issues a product that can be issued and depends on none of `later`. Returns whether there is
  /// one.
  bool issueKept(ArrayRef<Operation *> later = {}) {
    for (Product &product : products)
      if (!isEmitted.contains(product.op) && !dependsOn(product.op, [&](Operation *before) {
            return llvm::is_contained(later, before) || isa<WgmmaWaitOp>(before);
          })) {
        emit(product.op);
        return true;
      }
    return false;
  }

  /// Whether an operation takes execution time and can run now. Operations without register results
  /// and reads of shared memory are placed at their uses.
  bool isReady(Operation *op) {
    if (isEmitted.contains(op) ||
        isa<WgmmaCommitOp, WgmmaWaitOp, WaitOp, SlotOp, ReadOp, AcquireOp>(op) ||
        (leaves && llvm::is_contained(accesses, op)))
      return false;
    if (isa<WgmmaOp>(op))
      return !isOnlyYielded(getProduct(op)->wait) && !dependsOnProduct(op);
    bool hasTile = llvm::any_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>) ||
                   llvm::is_contained(accesses, op);
    return hasTile && dependsOnWaited(op) && !dependsOnProduct(op);
  }

  /// Whether the operation depends on a product that has been waited for.
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
  SmallVector<Operation *> aheadOps; ///< of the next iteration, until they are issued
  Operation *aheadWait = nullptr;
  bool isKeptForBarrier = false; ///< a product, to be issued before the last barrier
  bool leaves = false;           ///< whether results leave while products of a chain run
  SmallVector<OrderedOp> sequence;
};

} // namespace

bool tgpu::canOrderRound(scf::ForOp loop) { return RoundOrder(loop).canOrder(); }

SmallVector<OrderedOp> tgpu::orderRound(scf::ForOp loop, bool ahead) {
  return RoundOrder(loop).run(ahead);
}
