// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-delay-products: lets warpgroups that exchange a tile run apart by half an iteration.
//
// Where warpgroups write parts of a tile to a scratch ring, and a product reads all of it, a
// barrier in each iteration keeps them together: all compute functions at the same time, and the
// matrix unit has nothing to do. The pass issues that product one iteration later and replaces the
// barrier by barriers of the ring's slots, which only say that a slot has been written, or read:
//
//   before   S | P | dS -> slot i                    | dV, meet, dQ(i), dK
//   after    S | P | slot i was read, dS -> slot i   | dQ(i - 1), dV, dK, slot i is written
//
// The result, dQ, is handed over after its product, of the previous iteration afterwards.
// The first iteration of a tile has no earlier product, and after the last one the product of that
// iteration is left, which the pass issues after the loops. A tile whose loops have no iteration
// has neither.

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUDELAYPRODUCTS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// An iteration whose last part issues a product of an exchanged tile.
struct Iteration {
  scf::ForOp loop;
  unsigned counter = 0; // the position of the ring's counter among the carried values
  WriteSharedOp write;
  SyncOp sync;
  FenceAsyncOp fence; // in front of the barrier, if there is one
  WgmmaOp product;
  WgmmaCommitOp commit;
  WgmmaWaitOp wait;
  SmallVector<Operation *> handover; // hands the product's result to another role
  SmallVector<Operation *> rest;     // the other operations after the write, in order

  Value getUse() { return loop.getRegionIterArg(counter); }
  SlotOp getSlot() { return write.getBuffer().getDefiningOp<SlotOp>(); }
  Value getRing() { return getSlot().getRing(); }

  static std::optional<Iteration> find(scf::ForOp loop);

private:
  bool findWrite();
  bool findProduct();
  bool sortRest();
};

/// The groups of products that are in flight at `end`, an operation in the body of the loop, if
/// none is at its start; nothing if the body has branches or loops.
std::optional<int64_t> countInFlight(scf::ForOp loop, Operation *end) {
  int64_t groups = 0;
  for (Operation &op : loop.getBody()->without_terminator()) {
    if (&op == end)
      return groups;
    if (isa<WgmmaCommitOp>(op))
      ++groups;
    else if (auto wait = dyn_cast<WgmmaWaitOp>(op))
      groups = std::min<int64_t>(groups, wait.getPending());
    else if (op.getNumRegions() != 0)
      return std::nullopt;
  }
  return end == loop.getBody()->getTerminator() ? std::optional(groups) : std::nullopt;
}

std::optional<Iteration> Iteration::find(scf::ForOp loop) {
  Iteration result;
  result.loop = loop;
  // A product of the next iteration would be a value that the loop carries.
  bool carries = llvm::any_of(loop.getInitArgs(),
                              [](Value value) { return isa<PendingType>(value.getType()); });
  if (carries || !result.findWrite() || !result.findProduct() || !result.sortRest())
    return std::nullopt;
  if (countInFlight(loop, result.write) != 0 ||
      countInFlight(loop, loop.getBody()->getTerminator()) != 0)
    return std::nullopt;
  return result;
}

bool Iteration::findWrite() {
  auto syncs = loop.getBody()->getOps<SyncOp>();
  if (!llvm::hasSingleElement(syncs))
    return false;
  sync = *syncs.begin();
  fence = dyn_cast_or_null<FenceAsyncOp>(sync->getPrevNode());
  for (Operation *op = sync->getPrevNode(); op && !write; op = op->getPrevNode())
    write = dyn_cast<WriteSharedOp>(op);
  if (!write || !getSlot())
    return false;
  auto type = dyn_cast<RingType>(getRing().getType());
  auto use = dyn_cast<BlockArgument>(getSlot().getUse());
  if (!type || type.getStages() < 2 || !use || use.getOwner() != loop.getBody() ||
      use.getArgNumber() == 0)
    return false;
  counter = use.getArgNumber() - 1;
  auto next = loop.getYieldedValues()[counter].getDefiningOp<arith::AddIOp>();
  return next && next.getLhs() == use && matchPattern(next.getRhs(), m_One());
}

bool Iteration::findProduct() {
  for (Operation *user : getSlot()->getUsers()) {
    if (user == write)
      continue;
    if (product || !isa<WgmmaOp>(user))
      return false;
    product = cast<WgmmaOp>(user);
  }
  if (!product || product->getBlock() != sync->getBlock() || !sync->isBeforeInBlock(product) ||
      product.getAcc() || !product.getResult().hasOneUse())
    return false;
  commit = dyn_cast<WgmmaCommitOp>(product->getNextNode());
  wait = dyn_cast<WgmmaWaitOp>(*product.getResult().getUsers().begin());
  return commit && isa<WgmmaCommitOp, SyncOp>(product->getPrevNode()) && wait &&
         wait.getTiles().size() == 1 && wait->getBlock() == product->getBlock();
}

/// Whether the operation only hands a tile over.
bool handsOver(Operation *op) {
  return isa<AcquireOp, SlotOp, WriteSharedOp, FenceAsyncOp, ArriveOp>(op);
}

bool Iteration::sortRest() {
  // The handover ends where the buffer that the result has been written to is given away.
  bool isWritten = false;
  for (Operation *op = wait->getNextNode(); op && handsOver(op); op = op->getNextNode()) {
    handover.push_back(op);
    isWritten |= llvm::is_contained(op->getOperands(), wait->getResult(0));
    if (isWritten && isa<ArriveOp>(op))
      break;
  }
  if (handover.empty() || !isa<ArriveOp>(handover.back()))
    return false;
  // Products end in the order in which they were issued, which changes. So a slot must be released
  // after a wait for a product that stays.
  bool hasWaited = false;
  auto isOwn = [&](Operation *op) {
    return op == sync || op == fence || op == product || op == commit || op == wait ||
           llvm::is_contained(handover, op);
  };
  for (Operation *op = write->getNextNode(); op != loop.getBody()->getTerminator();
       op = op->getNextNode()) {
    hasWaited = (hasWaited || isa<WgmmaWaitOp>(op)) && op != wait;
    if (isOwn(op))
      continue;
    if (isa<ArriveOp>(op) && !hasWaited)
      return false;
    if (!isa<WgmmaOp, WgmmaCommitOp, WgmmaWaitOp, ArriveOp>(op) && !isPure(op))
      return false;
    rest.push_back(op);
  }
  return hasWaited && llvm::all_of(wait->getResult(0).getUsers(), isOwn);
}

/// Follows a counter through the loops of a block to its value before them.
Value traceBack(Value value, Block *block) {
  while (auto result = dyn_cast<OpResult>(value)) {
    auto loop = dyn_cast<scf::ForOp>(result.getOwner());
    if (!loop || loop->getBlock() != block)
      break;
    value = loop.getInitArgs()[result.getResultNumber()];
  }
  return value;
}

/// The loops of a tile, and the counter of a ring before and after them.
struct Tile {
  scf::ForOp top; // the outermost loop around an iteration
  Value first, last;

  static std::optional<Tile> get(Iteration &iteration) {
    scf::ForOp loop = iteration.loop;
    unsigned number = iteration.counter;
    for (;;) {
      Block *block = loop->getBlock();
      Value before = traceBack(loop.getInitArgs()[number], block);
      auto outer = dyn_cast<scf::ForOp>(block->getParentOp());
      if (!outer)
        return Tile{loop, before, loop.getResult(number)};
      auto carried = dyn_cast<BlockArgument>(before);
      if (!carried || carried.getOwner() != block || carried.getArgNumber() == 0)
        return std::nullopt;
      number = carried.getArgNumber() - 1;
      if (traceBack(outer.getYieldedValues()[number], block) != carried)
        return std::nullopt;
      loop = outer;
    }
  }
};

/// Groups of products in flight, and how many a wait may leave.
class Groups {
public:
  void add(Operation *op) {
    if (isa<WgmmaOp>(op))
      open.push_back(op->getResult(0));
    else if (isa<WgmmaCommitOp>(op))
      groups.push_back(std::exchange(open, {}));
  }

  int64_t takeUntil(WgmmaWaitOp wait) {
    size_t count = 0;
    for (auto [i, group] : llvm::enumerate(groups))
      if (llvm::any_of(wait.getTiles(),
                       [&](Value tile) { return llvm::is_contained(group, tile); }))
        count = i + 1;
    groups.erase(groups.begin(), groups.begin() + count);
    return groups.size();
  }

private:
  SmallVector<Value> open;
  SmallVector<SmallVector<Value>> groups;
};

/// Delays the products of one ring in one role.
class Delay {
public:
  Delay(AllocRingOp ring, int64_t warps, SmallVector<Iteration> iterations)
      : ring(ring), warps(warps), iterations(std::move(iterations)) {}

  /// Whether the iterations are those of one tile, and nothing else depends on their barriers.
  bool isPossible() {
    Block *block = nullptr;
    for (Iteration &each : iterations) {
      std::optional<Tile> own = Tile::get(each);
      if (!own || (block && (own->top->getBlock() != block || own->first != tile.first)))
        return false;
      block = own->top->getBlock();
      if (!tile.top || tile.top->isBeforeInBlock(own->top))
        tile = *own;
      tops.insert(own->top);
    }
    for (Iteration &each : iterations)
      if (!isAvailable(each))
        return false;
    for (Operation *top : tops) {
      auto found = top->walk([&](Operation *op) {
        bool isOther = isa<SyncOp>(op) || (isa<SlotOp>(op) && cast<SlotOp>(op).getRing() == ring);
        bool isOwn = llvm::any_of(
            iterations, [&](Iteration &each) { return op == each.sync || op == each.getSlot(); });
        return isOther && !isOwn ? WalkResult::interrupt() : WalkResult::advance();
      });
      if (found.wasInterrupted())
        return false;
    }
    return true;
  }

  void run() {
    OpBuilder b(ring.getContext());
    b.setInsertionPointAfter(ring);
    auto type = BarriersType::get(b.getContext(), cast<RingType>(ring.getType()).getStages());
    full = AllocBarriersOp::create(b, ring.getLoc(), type, warps, IntegerAttr());
    empty = AllocBarriersOp::create(b, ring.getLoc(), type, warps, IntegerAttr());
    Iteration &any = iterations.front();
    b.setInsertionPointAfter(tile.top);
    Location loc = any.product.getLoc();
    scf::IfOp::create(b, loc, createIsLater(b, loc, tile.last), [&](OpBuilder &b, Location loc) {
      Groups groups;
      IRMapping map = issue(b, any, tile.last, groups);
      handOver(b, any, map, groups);
      scf::YieldOp::create(b, loc);
    });
    for (Iteration &each : iterations)
      rewrite(each);
  }

private:
  /// Whether what the product and the handover read is the same after the loops, but for the slots
  /// of the iteration.
  bool isAvailable(Iteration &each) {
    auto isOfLoops = [&](Value value) {
      return llvm::any_of(tops, [&](Operation *top) {
        return top->isAncestor(value.getParentBlock()->getParentOp());
      });
    };
    auto isReplaced = [&](Value value) {
      auto slot = value.getDefiningOp<SlotOp>();
      return value == each.getUse() || value == each.wait->getResult(0) ||
             (slot && slot.getUse() == each.getUse());
    };
    SmallVector<Operation *> ops = {each.product};
    llvm::append_range(ops, each.handover);
    return llvm::all_of(ops, [&](Operation *op) {
      return llvm::all_of(op->getOperands(), [&](Value operand) {
        return isReplaced(operand) || !isOfLoops(operand);
      });
    });
  }

  /// Whether use `use` is not the first of the tile, which is uniform.
  Value createIsLater(OpBuilder &b, Location loc, Value use) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, use, tile.first);
  }

  /// Issues the product of the iteration before `use`, and returns what its handover reads.
  IRMapping issue(OpBuilder &b, Iteration &each, Value use, Groups &groups) {
    Location loc = each.product.getLoc();
    Value one = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(1));
    Value previous = arith::SubIOp::create(b, loc, use, one);
    WaitOp::create(b, loc, full, previous);
    IRMapping map;
    map.map(each.getUse(), previous);
    cloneWithSlots(b, each, each.product, map);
    b.clone(*each.commit, map);
    groups.add(each.product);
    groups.add(each.commit);
    return map;
  }

  /// Waits for the product that has been issued, and hands its result over.
  void handOver(OpBuilder &b, Iteration &each, IRMapping &map, Groups &groups) {
    WgmmaWaitOp wait = each.wait;
    auto copy = cast<WgmmaWaitOp>(b.clone(*wait, map));
    copy.setPending(groups.takeUntil(wait));
    ArriveOp::create(b, wait.getLoc(), empty, map.lookup(each.getUse()), ArriveScope::Warp);
    for (Operation *op : each.handover)
      cloneWithSlots(b, each, op, map);
  }

  /// Clones an operation. Slots of this iteration become those of the previous one.
  void cloneWithSlots(OpBuilder &b, Iteration &each, Operation *op, IRMapping &map) {
    for (Value operand : op->getOperands())
      if (auto slot = operand.getDefiningOp<SlotOp>();
          slot && slot.getUse() == each.getUse() && !map.contains(operand))
        b.clone(*slot, map);
    b.clone(*op, map);
  }

  void rewrite(Iteration &each) {
    Location loc = each.sync.getLoc();
    OpBuilder b(each.write);
    AcquireOp::create(b, loc, empty, each.getUse());
    // Counters and addresses stay in front of the branch.
    llvm::SmallPtrSet<Operation *, 16> moved;
    SmallVector<Operation *> rest;
    for (Operation *op : each.rest) {
      bool isInside = !isPure(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
        return moved.contains(operand.getDefiningOp());
      });
      if (isInside) {
        moved.insert(op);
        rest.push_back(op);
      } else {
        op->moveBefore(each.sync);
      }
    }
    SmallVector<Value> results;
    for (Operation *op : rest)
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !moved.contains(user); }))
          results.push_back(result);
    b.setInsertionPoint(each.loop.getBody()->getTerminator());
    Value isLater = createIsLater(b, loc, each.getUse());
    auto branch = [&](bool later) {
      return [&, later](OpBuilder &b, Location loc) { emit(b, loc, each, rest, results, later); };
    };
    auto ifOp = scf::IfOp::create(b, loc, isLater, branch(true), branch(false));
    for (auto [result, value] : llvm::zip_equal(results, ifOp.getResults()))
      result.replaceUsesWithIf(value, [&](OpOperand &use) {
        return use.getOwner()->getBlock() == each.loop.getBody() && !moved.contains(use.getOwner());
      });
    for (Operation *op : llvm::reverse(each.handover))
      op->erase();
    for (Operation *op : llvm::reverse(rest))
      op->erase();
    each.wait->erase();
    each.commit->erase();
    each.product->erase();
    each.sync->erase();
    if (each.fence)
      each.fence->erase();
  }

  /// The rest of an iteration, with the product of the previous one if it is not the first.
  void emit(OpBuilder &b, Location loc, Iteration &each, ArrayRef<Operation *> rest,
            ArrayRef<Value> results, bool later) {
    Groups groups;
    IRMapping own, previous;
    if (later)
      previous = issue(b, each, each.getUse(), groups);
    bool isWritten = false;
    for (Operation *op : rest) {
      auto wait = dyn_cast<WgmmaWaitOp>(op);
      // After all products: another warpgroup needs the slot half an iteration later.
      if (wait && !std::exchange(isWritten, true)) {
        FenceAsyncOp::create(b, loc);
        ArriveOp::create(b, loc, full, each.getUse(), ArriveScope::Warp);
        if (later)
          handOver(b, each, previous, groups);
      }
      Operation *copy = b.clone(*op, own);
      groups.add(op);
      if (wait)
        cast<WgmmaWaitOp>(copy).setPending(groups.takeUntil(wait));
    }
    scf::YieldOp::create(
        b, loc, llvm::map_to_vector(results, [&](Value value) { return own.lookup(value); }));
  }

  AllocRingOp ring;
  int64_t warps;
  SmallVector<Iteration> iterations;
  llvm::SmallSetVector<Operation *, 4> tops;
  Tile tile;
  Value full, empty;
};

struct TgpuDelayProductsPass : tilewright::impl::TgpuDelayProductsBase<TgpuDelayProductsPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      auto schedule = roleScheduleAttr.get(kernel);
      if (!schedule || schedule.getLateProducts() == 0)
        continue;
      for (auto roles : kernel.getBody().getOps<RolesOp>())
        for (auto [body, warps] : llvm::zip_equal(roles.getBodies(), roles.getWarps()))
          delayIn(body, warps);
    }
  }

  static void delayIn(Region &role, int64_t warps) {
    llvm::MapVector<Operation *, SmallVector<Iteration>> ofRings;
    role.walk([&](scf::ForOp loop) {
      if (std::optional<Iteration> iteration = Iteration::find(loop))
        if (auto ring = iteration->getRing().getDefiningOp<AllocRingOp>())
          ofRings[ring].push_back(*iteration);
    });
    for (auto &[ring, iterations] : ofRings) {
      Delay delay(cast<AllocRingOp>(ring), warps, std::move(iterations));
      if (delay.isPossible())
        delay.run();
    }
  }
};

} // namespace
