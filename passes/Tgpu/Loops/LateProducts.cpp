// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns products of exchanged tiles to stage 1, and puts barriers of slots between the stages.

#include "passes/Tgpu/Loops/LateProducts.h"

#include "passes/Tgpu/Analysis/LoopChain.h"
#include "passes/Tgpu/Loops/CountedRun.h"
#include "passes/Tgpu/Loops/StageParts.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// The order of an iteration that multiplies an exchanged tile.
class ExchangeOrder {
public:
  static std::optional<ExchangeOrder> find(scf::ForOp loop) {
    ExchangeOrder result(loop);
    if (!result.readPlaces() || !result.findWrite() || !result.findProduct() ||
        !result.findHandover() || !result.findRest() || !result.findRuns())
      return std::nullopt;
    return result;
  }

  AllocRingOp getRing() { return getSlot().getRing().getDefiningOp<AllocRingOp>(); }
  ArrayRef<CountedRun> getRuns() const { return runs; }

  bool isIn(Block *block) { return loop.getBody() == block; }
  bool isInside(Operation *op) { return op->isAncestor(loop); }

  /// Whether stage 1 of another iteration is the same, with counters that begin with the same
  /// values.
  bool hasSameStage(ExchangeOrder &other) {
    auto areSame = [&](Value x, Value y) {
      bool isOwn = isIn(x.getParentBlock());
      return success(isOwn == other.isIn(y.getParentBlock()) && (isOwn || x == y));
    };
    auto flags = OperationEquivalence::Flags(OperationEquivalence::IgnoreLocations |
                                             OperationEquivalence::IgnoreDiscardableAttrs);
    return llvm::equal(runs, other.runs,
                       [](const CountedRun &x, const CountedRun &y) {
                         return x.first == y.first && x.top->getBlock() == y.top->getBlock();
                       }) &&
           llvm::equal(getLate(), other.getLate(), [&](Operation *x, Operation *y) {
             return OperationEquivalence::isEquivalentTo(x, y, areSame, nullptr, flags);
           });
  }

  /// Whether stage 1 reads the same after the outermost loops of its tile.
  bool isAvailableAfter(ArrayRef<Operation *> tops) {
    return llvm::all_of(getLate(), [&](Operation *op) {
      return llvm::all_of(op->getOperands(), [&](Value operand) {
        return operand.getParentBlock() == loop.getBody() ||
               llvm::none_of(tops, [&](Operation *top) {
                 return top->isAncestor(operand.getParentBlock()->getParentOp());
               });
      });
    });
  }

  /// Replaces the barrier, and sets the places.
  void divide(Value full, Value empty) {
    Location loc = sync.getLoc();
    Value use = getSlot().getUse();
    OpBuilder b(write);
    Operation *acquire = AcquireOp::create(b, loc, empty, use);
    b.setInsertionPoint(sync);
    Operation *visible = FenceAsyncOp::create(b, loc);
    Operation *written = ArriveOp::create(b, loc, full, use, ArriveScope::Warp);
    Operation *ready = WaitOp::create(b, loc, full, use);
    b.setInsertionPoint(product.op);
    // Each stage has its own slot.
    auto slot = cast<SlotOp>(b.clone(*getSlot()));
    for (OpOperand &operand : product.op->getOpOperands())
      if (isSlot(operand.get()))
        operand.set(slot);
    b.setInsertionPointAfter(product.wait);
    Operation *read = ArriveOp::create(b, loc, empty, use, ArriveScope::Warp);

    int64_t order = 0;
    auto put = [&](int64_t stage, ArrayRef<Operation *> ops) {
      for (Operation *op : ops)
        Place{stage, order++}.set(op);
    };
    put(0, head);
    put(0, {acquire, write});
    // Counters and addresses stay in front of the branch with which stage 1 begins.
    put(0, aside);
    put(1, {ready, slot, product.op, product.commit});
    // After all products: another warpgroup needs the slot half an iteration later.
    ArrayRef<Operation *> behind = rest;
    put(0, behind.take_until(llvm::IsaPred<WgmmaWaitOp>));
    put(0, {visible, written});
    put(1, {product.wait, read});
    put(1, handover);
    put(0, behind.drop_until(llvm::IsaPred<WgmmaWaitOp>));
    sync.erase();
    if (fence)
      fence.erase();
  }

private:
  explicit ExchangeOrder(scf::ForOp loop) : loop(loop) {}

  SlotOp getSlot() { return write.getBuffer().getDefiningOp<SlotOp>(); }

  bool isSlot(Value value) {
    auto slot = value.getDefiningOp<SlotOp>();
    return slot && slot.getRing() == getSlot().getRing();
  }

  /// The product, and what follows it in its stage.
  SmallVector<Operation *> getLate() {
    SmallVector<Operation *> late{product.op, product.wait};
    llvm::append_range(late, handover);
    return late;
  }

  bool isLate(Operation *op) {
    return op == product.op || op == product.commit || op == product.wait ||
           llvm::is_contained(handover, op);
  }

  bool readPlaces() {
    for (Operation &op : loop.getBody()->without_terminator()) {
      std::optional<Place> place = Place::get(&op);
      if (!place || place->stage != 0 || op.getNumRegions() != 0)
        return false;
      ops.push_back(&op);
    }
    llvm::stable_sort(ops, [](Operation *x, Operation *y) {
      return Place::get(x)->order < Place::get(y)->order;
    });
    return !ops.empty();
  }

  /// Finds the last write in front of the only barrier. Products that end in their iteration are
  /// in flight neither there nor at the end.
  bool findWrite() {
    if (!llvm::hasSingleElement(loop.getBody()->getOps<SyncOp>()))
      return false;
    const auto *at = llvm::find_if(ops, llvm::IsaPred<SyncOp>);
    sync = cast<SyncOp>(*at);
    if (at != ops.begin())
      fence = dyn_cast<FenceAsyncOp>(at[-1]);
    while (at != ops.begin() && !write)
      write = dyn_cast<WriteSharedOp>(*--at);
    if (!write || !getSlot() || getSlot()->getBlock() != loop.getBody() || !getRing() ||
        cast<RingType>(getRing().getType()).getStages() < 2)
      return false;
    PendingGroups groups;
    for (Operation *op : ops) {
      if (op == write && groups.areInFlight())
        return false;
      groups.note(op);
    }
    return !groups.areInFlight();
  }

  /// Finds the product that reads the slot, which must be the only reader.
  bool findProduct() {
    for (auto slot : loop.getBody()->getOps<SlotOp>()) {
      if (slot.getRing() != getSlot().getRing())
        continue;
      if (slot.getUse() != getSlot().getUse())
        return false;
      for (Operation *user : slot->getUsers()) {
        if (user == write)
          continue;
        auto reader = dyn_cast<WgmmaOp>(user);
        std::optional<Product> found = reader ? Product::get(reader) : std::optional<Product>();
        if (!found || (product.op && product.op != reader))
          return false;
        product = *found;
      }
    }
    return product.op && !product.op.getAcc() &&
           Place::get(sync)->order < Place::get(product.op)->order;
  }

  /// Finds what hands the result over. It ends where the buffer that the result has been written to
  /// is given away.
  bool findHandover() {
    bool isWritten = false;
    const auto *at = llvm::find(ops, product.wait.getOperation());
    for (++at;
         at != ops.end() && isa<AcquireOp, SlotOp, WriteSharedOp, FenceAsyncOp, ArriveOp>(*at);
         ++at) {
      handover.push_back(*at);
      isWritten |= llvm::is_contained((*at)->getOperands(), product.wait->getResult(0));
      if (isWritten && isa<ArriveOp>(*at))
        break;
    }
    return !handover.empty() && isa<ArriveOp>(handover.back()) &&
           llvm::all_of(getLate(), [&](Operation *op) {
             return llvm::all_of(op->getUsers(), [&](Operation *user) { return isLate(user); });
           });
  }

  /// Divides the other operations into those in front of the write, those behind it, and those
  /// beside it, which are only counters and addresses. Products end in the order in which they were
  /// issued, which changes: so a slot must be released after a wait for a product that stays.
  bool findRest() {
    bool hasWaited = false, isBehind = false;
    llvm::SmallPtrSet<Operation *, 16> moved;
    for (Operation *op : ops) {
      if (op == write) {
        isBehind = true;
        continue;
      }
      if (!isBehind) {
        head.push_back(op);
        continue;
      }
      hasWaited = (hasWaited || isa<WgmmaWaitOp>(op)) && op != product.wait;
      if (op == sync || op == fence || isLate(op))
        continue;
      if (isa<ArriveOp>(op) && !hasWaited)
        return false;
      bool isKnown = isa<WgmmaOp, WgmmaCommitOp, WgmmaWaitOp, ArriveOp>(op);
      if (!isKnown && !isPure(op))
        return false;
      bool isInside = isKnown || llvm::any_of(op->getOperands(), [&](Value operand) {
                        return moved.contains(operand.getDefiningOp());
                      });
      (isInside ? rest : aside).push_back(op);
      if (isInside)
        moved.insert(op);
    }
    // What is in front of the barrier, and other warps may read, is still the slot alone.
    return hasWaited && llvm::none_of(head, llvm::IsaPred<WriteSharedOp>);
  }

  /// The counters that stage 1 reads must be those of a tile, that of the slot first. It reads
  /// nothing else of its iteration.
  bool findRuns() {
    llvm::SetVector<Value> counters;
    counters.insert(getSlot().getUse());
    for (Operation *op : getLate())
      for (Value operand : op->getOperands())
        if (operand.getParentBlock() == loop.getBody() && !isSlot(operand) &&
            !isLate(operand.getDefiningOp()))
          counters.insert(operand);
    for (Value counter : counters) {
      std::optional<unsigned> number = getCarriedNumber(counter, loop);
      std::optional<CountedRun> run =
          number ? CountedRun::get(loop, *number) : std::optional<CountedRun>();
      if (!run || (!runs.empty() && run->top != runs.front().top))
        return false;
      runs.push_back(std::move(*run));
    }
    return true;
  }

  scf::ForOp loop;
  SmallVector<Operation *> ops; ///< by place
  WriteSharedOp write;
  SyncOp sync;
  FenceAsyncOp fence; ///< in front of the barrier, if there is one
  Product product;
  SmallVector<Operation *> handover, head, aside, rest;
  SmallVector<CountedRun> runs;
};

/// The branch around an operation, if its condition depends on values from before the loop over
/// tiles alone.
scf::IfOp getInvariantBranch(Operation *op) {
  auto branch = dyn_cast<scf::IfOp>(op->getParentOp());
  if (!branch)
    return {};
  Operation *tiles = branch; // the outermost loop of the role
  for (Operation *around = branch; !isa<RolesOp>(around); around = around->getParentOp())
    if (isa<LoopLikeOpInterface>(around))
      tiles = around;
  llvm::SetVector<Value> reached;
  reached.insert(branch.getCondition());
  for (size_t i = 0; i < reached.size(); ++i) {
    Value value = reached[i];
    if (!tiles->isAncestor(value.getParentBlock()->getParentOp()))
      continue;
    Operation *def = value.getDefiningOp();
    if (!def || !isPure(def) || def->getNumRegions() != 0)
      return {};
    reached.insert_range(def->getOperands());
  }
  return branch;
}

/// Whether the iterations are those of one tile, all that use the ring, and nothing else depends on
/// their barriers.
bool areOneTile(Value ring, MutableArrayRef<ExchangeOrder> iterations) {
  scf::ForOp front = iterations.front().getRuns().front().top;
  llvm::SmallSetVector<Operation *, 4> tops;
  for (ExchangeOrder &each : iterations) {
    if (!iterations.front().hasSameStage(each))
      return false;
    for (const CountedRun &run : each.getRuns()) {
      tops.insert(run.top);
      for (Operation *loop : run.loops)
        if (llvm::none_of(iterations, [&](ExchangeOrder &own) { return own.isInside(loop); }))
          return false;
    }
  }
  auto isOwn = [&](Operation *op) {
    return llvm::any_of(iterations, [&](ExchangeOrder &each) { return each.isIn(op->getBlock()); });
  };
  for (Operation *top : tops) {
    auto found = top->walk(
        [&](SyncOp sync) { return isOwn(sync) ? WalkResult::advance() : WalkResult::interrupt(); });
    if (found.wasInterrupted())
      return false;
  }
  // Elsewhere, results may be stored through the slots, but uses that are counted would be missing
  // at the barriers, unless all tiles of a launch take the same side of a condition.
  scf::IfOp side = getInvariantBranch(front);
  for (Operation *user : ring.getUsers()) {
    auto slot = dyn_cast<SlotOp>(user);
    bool isConstant = slot && matchPattern(slot.getUse(), m_Constant());
    bool isInside = llvm::any_of(tops, [&](Operation *top) { return top->isAncestor(user); });
    bool isOther = side && side->isAncestor(user) &&
                   !front->getParentRegion()->isAncestor(user->getParentRegion());
    if (!isOwn(user) && (isInside || !(isConstant || isOther)))
      return false;
  }
  return llvm::all_of(
      iterations, [&](ExchangeOrder &each) { return each.isAvailableAfter(tops.getArrayRef()); });
}

void planRole(Region &role, int64_t warps) {
  llvm::MapVector<Operation *, SmallVector<ExchangeOrder, 1>> ofRings;
  role.walk([&](scf::ForOp loop) {
    if (std::optional<ExchangeOrder> found = ExchangeOrder::find(loop))
      ofRings[found->getRing()].push_back(std::move(*found));
  });
  for (auto &[op, iterations] : ofRings) {
    auto ring = cast<AllocRingOp>(op);
    if (!areOneTile(ring, iterations))
      continue;
    OpBuilder b(ring.getContext());
    b.setInsertionPointAfter(ring);
    auto type = BarriersType::get(b.getContext(), cast<RingType>(ring.getType()).getStages());
    Value full = AllocBarriersOp::create(b, ring.getLoc(), type, warps, IntegerAttr());
    Value empty = AllocBarriersOp::create(b, ring.getLoc(), type, warps, IntegerAttr());
    for (ExchangeOrder &each : iterations)
      each.divide(full, empty);
  }
}

} // namespace

void tgpu::planLateProducts(KernelOp kernel) {
  for (auto roles : kernel.getBody().getOps<RolesOp>())
    for (auto [body, warps] : llvm::zip_equal(roles.getBodies(), roles.getWarps()))
      planRole(body, warps);
}
