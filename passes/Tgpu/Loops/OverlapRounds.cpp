// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Skeleton overlap: assigns each operation of an iteration one of two stages, and a place.

#include "passes/Tgpu/Loops/OverlapRounds.h"

#include "passes/Tgpu/Analysis/LoopChain.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/RegisterPressure.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Loops/RoundChannel.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

class RoundPlanner {
public:
  explicit RoundPlanner(scf::ForOp loop) : loop(loop), body(loop.getBody()) {}

  /// Whether the loop has two stages. If so, each of its operations gets a place.
  bool run(Value turns) {
    if (!collect() || !divide())
      return false;
    copyWhereUsed();
    assignStages();
    deferUpdates();
    if (!assignPlaces(turns))
      return false;
    for (auto [order, op] : llvm::enumerate(sequence))
      Place{stages.lookup(op), static_cast<int64_t>(order)}.set(op);
    return true;
  }

private:
  //===--- Collection -----------------------------------------------------===//

  bool collect() {
    if (body->getOperations().size() > mostOrderedOps)
      return false;
    for (Operation &op : body->without_terminator()) {
      if (op.getNumRegions() != 0)
        return false;
      if (auto product = dyn_cast<WgmmaOp>(op)) {
        std::optional<Product> found = Product::get(product);
        if (!found)
          return false;
        products.push_back(*found);
      } else if (!isa<WaitOp, AcquireOp, ArriveOp, WgmmaWaitOp, WgmmaCommitOp, LoadOp, ReadOp,
                      WriteSharedOp>(op) &&
                 !isMemoryEffectFree(&op)) {
        return false; // it may depend on other operations
      }
    }
    std::optional<SmallVector<RoundChannel>> found = collectRoundChannels(body);
    if (!found)
      return false;
    channels = std::move(*found);
    return products.size() > 1;
  }

  /// All operations of the body that depend on a value.
  llvm::DenseSet<Operation *> getDependents(Value value) {
    llvm::DenseSet<Operation *> dependents;
    SmallVector<Value> worklist{value};
    while (!worklist.empty())
      for (Operation *user : worklist.pop_back_val().getUsers())
        if (user->getBlock() == body && !user->hasTrait<OpTrait::IsTerminator>() &&
            dependents.insert(user).second)
          llvm::append_range(worklist, user->getResults());
    return dependents;
  }

  /// Finds the products of stage 1. Returns false if all products are of one kind.
  bool divide() {
    bool hasFirst = false, hasSecond = false;
    for (Product &product : products) {
      llvm::DenseSet<Operation *> dependents = getDependents(product.wait.getResult(0));
      bool isRead = llvm::any_of(
          products, [&](const Product &other) { return dependents.contains(other.op); });
      (isRead ? hasFirst : hasSecond) = true;
      if (!isRead) {
        second.insert(dependents.begin(), dependents.end());
        for (Operation *op : {product.op.getOperation(), product.commit.getOperation(),
                              product.wait.getOperation()})
          second.insert(op);
      }
    }
    return hasFirst && hasSecond;
  }

  //===--- Stages ---------------------------------------------------------------===//

  /// Clones operations without register results into the stage of their uses.
  void copyWhereUsed() {
    SmallVector<Operation *> worklist;
    for (Operation &op : body->without_terminator())
      if (second.contains(&op))
        worklist.push_back(&op);
    OpBuilder b(loop.getContext());
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val();
      for (OpOperand &operand : op->getOpOperands()) {
        Operation *def = operand.get().getDefiningOp();
        if (!def || def->getBlock() != body || second.contains(def) ||
            !(isMadeWhereUsed(operand.get()) || isa<SlotOp>(def)))
          continue;
        b.setInsertionPoint(op);
        Operation *copy = b.clone(*def);
        operand.set(copy->getResult(cast<OpResult>(operand.get()).getResultNumber()));
        second.insert(copy);
        worklist.push_back(copy);
        if (def->use_empty())
          def->erase();
      }
    }
  }

  /// The first and the last stage that reads a channel.
  std::pair<int64_t, int64_t> getStages(const RoundChannel &channel) {
    std::pair<int64_t, int64_t> ends{1, 0};
    for (Operation *reader : channel.readers) {
      int64_t stage = second.contains(reader) ? 1 : 0;
      ends = {std::min(ends.first, stage), std::max(ends.second, stage)};
    }
    return ends;
  }

  /// Whether both stages read the slots, so that they are held for two iterations and the ring has
  /// no free slot for copies.
  bool holdsTooLong(RoundChannel &channel) {
    bool isShared = channel.isSharedByRoles(); // which may read it in different stages
    if (!isShared && getStages(channel) != std::pair<int64_t, int64_t>(0, 1))
      return false;
    unsigned needed = isShared ? 2 : slotsOfTwoRounds;
    return llvm::any_of(body->getOps<SlotOp>(), [&](SlotOp slot) {
      return slot.getUse() == channel.use &&
             cast<RingType>(slot.getRing().getType()).getStages() < needed;
    });
  }

  void assignStages() {
    for (RoundChannel &channel : channels) {
      for (auto slot : body->getOps<SlotOp>())
        if (slot.getUse() == channel.use)
          llvm::append_range(channel.readers, slot->getUsers());
      auto [first, last] = getStages(channel);
      if (first == 1)
        second.insert(channel.wait);
      if (last == 1)
        second.insert(channel.arrive);
    }
    // Operations that only compute the next iteration's value of an argument which only stage 1
    // reads.
    auto *yield = body->getTerminator();
    for (auto [argument, yielded] :
         llvm::zip_equal(loop.getRegionIterArgs(), yield->getOperands())) {
      Operation *op = yielded.getDefiningOp();
      if (!op || op->getBlock() != body || !isMemoryEffectFree(op) || !op->hasOneUse())
        continue;
      bool isOfSecond = llvm::all_of(argument.getUsers(), [&](Operation *user) {
        return user == op || second.contains(user);
      });
      if (isOfSecond && llvm::is_contained(op->getOperands(), argument))
        second.insert(op);
    }
    for (Operation &op : body->without_terminator())
      stages[&op] = second.contains(&op) ? 1 : 0;
    // Stage-0 operations that depend on a value yielded by stage 1.
    for (auto [argument, yielded] :
         llvm::zip_equal(loop.getRegionIterArgs(), yield->getOperands())) {
      Operation *op = yielded.getDefiningOp();
      if (!op || op->getBlock() != body || stages.lookup(op) == 0)
        continue;
      for (Operation *dependent : getDependents(argument))
        if (stages.lookup(dependent) == 0)
          late.insert(dependent);
    }
  }

  /// Defers, by one iteration, updates of values that stage 1 carries, if stage 0 computes the
  /// update and only stage 1 reads the result. Executed after stage 0 has issued its products, they
  /// do not delay these.
  void deferUpdates() {
    SmallVector<Operation *> updates;
    for (bool isChanged = true; std::exchange(isChanged, false);)
      for (Operation &op : llvm::reverse(body->without_terminator())) {
        bool isUpdate = late.contains(&op) && isMemoryEffectFree(&op) &&
                        llvm::all_of(op.getUsers(), [&](Operation *user) {
                          return user->getBlock() == body && second.contains(user);
                        });
        if (!isUpdate || !(isWide(op) || isFused(op)))
          continue;
        second.insert(&op);
        late.erase(&op);
        keepPlaceAttr.set(&op);
        isChanged = true;
      }
    copyWhereUsed();
    for (Operation &op : body->without_terminator())
      stages[&op] = second.contains(&op) ? 1 : 0;
  }

  /// Whether the operation rescales an accumulator and, executed directly before the additions that
  /// read it, is one with them.
  static bool isFused(Operation &op) {
    auto mayContract = [](auto arithmetic) {
      return arith::bitEnumContainsAny(arithmetic.getFastmath(), arith::FastMathFlags::contract);
    };
    auto product = dyn_cast<arith::MulFOp>(op);
    auto type = product ? dyn_cast<RankedTensorType>(product.getType()) : RankedTensorType();
    return type && isa_and_nonnull<WgmmaAttr>(type.getEncoding()) && mayContract(product) &&
           llvm::all_of(op.getUsers(), [&](Operation *user) {
             auto sum = dyn_cast<arith::AddFOp>(user);
             return sum && mayContract(sum);
           });
  }

  /// Whether deferring an operation is beneficial.
  bool isWide(Operation &op) {
    return llvm::all_of(op.getResultTypes(), [&](Type type) {
      int64_t threads = 32 * getExecutingWarps(&op);
      return isa<RankedTensorType>(type) &&
             getRegistersOf(type, threads) >= RegisterLimits::ofDeferredTile;
    });
  }

  //===--- Places ---------------------------------------------------------------===//

  bool assignPlaces(Value turns) {
    for (const Product &product : products)
      if (late.contains(product.op))
        return false; // it waits for stage 1, so nothing can overlap
    if (llvm::any_of(channels, [&](RoundChannel &channel) { return holdsTooLong(channel); }))
      return false;
    // Products of stage 0 that do not depend on other products.
    llvm::DenseSet<Operation *> dependent;
    for (Product &product : products)
      for (Operation *op : getDependents(product.op.getResult()))
        dependent.insert(op);
    // Compute the address of a captured tile before the products; the tile is read at its use.
    for (Operation &op : body->without_terminator())
      if (readsCapture(&op) && stages.lookup(&op) == 0 && !dependent.contains(&op) &&
          !late.contains(&op))
        emit(&op);
    bool releases = releasesFirst();
    if (releases)
      emitSecondProducts();
    bool isFirst = true;
    for (const Product &product : products)
      if (!second.contains(product.op) && !dependent.contains(product.op)) {
        emitOperands(product.op);
        if (isFirst && turns)
          emitTurn<TakeTurnOp>(turns, 0);
        isFirst = false;
        emitProduct(product);
      }
    emitSecondProducts();
    if (releases)
      for (const Product &product : products)
        if (second.contains(product.op))
          emit(product.wait);
    if (turns)
      emitTurn<PassTurnOp>(turns, 1);
    // Place tiles that do not depend on a product, such as masks, at their uses: before the wait
    // for a product they would occupy registers until it ends.
    auto canWait = [&](Operation &op) {
      auto isTile = [](Type type) {
        auto tile = dyn_cast<RankedTensorType>(type);
        return tile && tile.getRank() == 2;
      };
      bool isRead = isa<ReadOp>(op) && isTile(op.getResult(0).getType());
      return !dependent.contains(&op) &&
             (isRead || (isMemoryEffectFree(&op) &&
                         llvm::any_of(op.getResultTypes(), llvm::IsaPred<RankedTensorType>)));
    };
    SmallVector<Operation *> conversions = getCarriedConversions();
    for (bool isLast : {false, true})
      for (auto [stage, isLate] : {std::pair(0, false), std::pair(1, false), std::pair(0, true)}) {
        if (isLate)
          llvm::for_each(conversions, [&](Operation *op) { emit(op); });
        for (Operation &op : llvm::make_early_inc_range(body->without_terminator()))
          if (stages.lookup(&op) == stage && late.contains(&op) == isLate && !isa<ArriveOp>(op) &&
              !llvm::is_contained(conversions, &op) && (isLast || !canWait(op)))
            emit(&op);
      }
    for (const RoundChannel &channel : channels)
      emit(channel.arrive);
    return true;
  }

  /// Whether to execute first the products that read a slot last: where another role reads it as
  /// well, it is free when the slower role has read it. At D 256, in a backward whose roles issued
  /// the products of the next iteration first, copies arrived too late (582 TFLOP/s for 730).
  bool releasesFirst() {
    return llvm::any_of(channels, [](const RoundChannel &each) { return each.isSharedByRoles(); });
  }

  void emitSecondProducts() {
    for (const Product &product : products)
      if (second.contains(product.op))
        emitProduct(product);
  }

  /// Conversions to operands that the next iteration multiplies, if products of this iteration are
  /// updated when they have been waited for. Between the wait and the update, which may be a
  /// branch, the registers of the operands are free, and exponentials still run.
  SmallVector<Operation *> getCarriedConversions() {
    SmallVector<Operation *> found;
    if (llvm::none_of(late, [&](Operation *op) { return isMemoryEffectFree(op); }))
      return found;
    for (auto convert : body->getOps<ConvertOp>()) {
      auto *cast = convert.getSource().getDefiningOp();
      bool isForNext = llvm::all_of(convert->getUsers(),
                                    [&](Operation *user) { return stages.lookup(user) == 1; });
      if (stages.lookup(convert) != 0 || !isForNext || convert.getScratch())
        continue;
      if (cast && isa<tile::CastOp>(cast) && cast->getBlock() == body && cast->hasOneUse())
        found.push_back(cast);
      found.push_back(convert);
    }
    return found;
  }

  template <typename OpTy> void emitTurn(Value turns, int64_t stage) {
    OpBuilder b(body->getTerminator());
    Operation *op = OpTy::create(b, loop.getLoc(), turns);
    stages[op] = stage;
    sequence.push_back(op);
    isEmitted.insert(op);
  }

  void emitOperands(Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp();
          def && def->getBlock() == body && stages.lookup(def) == stages.lookup(op))
        emit(def);
    for (const RoundChannel &channel : channels)
      if (llvm::is_contained(channel.readers, op) &&
          stages.lookup(channel.wait) == stages.lookup(op))
        emit(channel.wait);
  }

  void emitProduct(const Product &product) {
    emit(product.op);
    emit(product.commit);
  }

  void emit(Operation *op) {
    if (isEmitted.contains(op))
      return;
    isEmitted.insert(op);
    emitOperands(op);
    sequence.push_back(op);
    if (auto product = dyn_cast<WgmmaOp>(op))
      emit(product->getNextNode()); // in the body this is the commit
    if (!isa<WgmmaWaitOp, ReadOp, WriteSharedOp>(op))
      return;
    // Release the slots that have no further readers.
    for (const RoundChannel &channel : channels)
      if (stages.lookup(channel.arrive) == stages.lookup(op) &&
          llvm::all_of(channel.readers, [&](Operation *reader) {
            auto it = llvm::find_if(products, [&](const Product &p) { return p.op == reader; });
            return stages.lookup(reader) != stages.lookup(channel.arrive) ||
                   isEmitted.contains(it != products.end() ? it->wait : reader);
          }))
        emit(channel.arrive);
  }

  scf::ForOp loop;
  Block *body;
  SmallVector<Product> products;
  SmallVector<RoundChannel> channels;
  llvm::DenseSet<Operation *> second, late, isEmitted;
  llvm::DenseMap<Operation *, int64_t> stages;
  SmallVector<Operation *> sequence;
};

} // namespace

bool tgpu::overlapRounds(scf::ForOp loop, Value turns) { return RoundPlanner(loop).run(turns); }

void tgpu::clearRounds(scf::ForOp loop) {
  for (Operation &op : llvm::make_early_inc_range(*loop.getBody())) {
    keepPlaceAttr.remove(&op);
    if (placeAttr.remove(&op) && isa<TakeTurnOp, PassTurnOp>(op))
      op.erase();
  }
}
