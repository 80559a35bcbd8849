// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contexts, shared memory and asynchronous work of a simulated block.

#include "lib/Interpreter/Simulator/Machine.h"

#include "mlir/IR/Operation.h"

#include <algorithm>

using namespace mlir;

namespace tilewright::simulator {

/// More asynchronous operations than this that no wait has ended are not held.
constexpr size_t kMostInFlight = size_t(1) << 16;

Machine::Machine(const BlockPlan &plan, AsyncMoment moment, uint64_t seed, int64_t mostSteps,
                 ArrayRef<int64_t> gridExtents)
    : plan(plan), components(plan.warps, plan.numBarriers, plan.numNamedBarriers),
      gridExtents(gridExtents), moment(moment), random(seed), mostSteps(mostSteps),
      clocks(plan.warps, Clock(components.count())), bytes(plan.sharedBytes, '\xff'),
      shadow(components, plan.sharedBytes, plan.granule), barriers(plan.numBarriers),
      namedBarriers(plan.numNamedBarriers) {
  main.name = "the block";
  main.numWarps = plan.warps;
  for (unsigned w = 0; w < plan.warps; ++w)
    clocks[w][components.warp(w)] = 1;
  for (NamedBarrier &barrier : namedBarriers) {
    barrier.arriving = barrier.completed = Clock(components.count());
    barrier.due.resize(plan.warps);
  }
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

bool Machine::fail(Operation *op, std::string message) {
  if (!firstFault)
    firstFault = {op, std::move(message), {}};
  return false;
}

void Machine::note(Operation *op, std::string message) {
  if (firstFault)
    firstFault->notes.emplace_back(op, std::move(message));
}

std::string Machine::describeSource(unsigned component) const {
  unsigned warps = plan.warps;
  auto warp = [](unsigned w) { return "warp " + std::to_string(w); };
  if (component < warps)
    return warp(component);
  if (component < 2 * warps)
    return "an asynchronous copy of " + warp(component - warps);
  if (component < components.products(0))
    return "a store of " + warp(component - components.stores(0));
  if (component < components.barrier(0))
    return "a product of warpgroup " + std::to_string(component - components.products(0));
  return "a copy by TMA";
}

bool Machine::report(const std::optional<Conflict> &conflict, Operation *op, const Access &access,
                     const std::string &who) {
  if (!conflict)
    return true;
  using Kind = Conflict::Kind;
  std::string by = conflict->earlier ? describeSource(conflict->component) : "";
  std::string found = "byte " + std::to_string(conflict->byte) + " in an access by " + who;
  switch (conflict->kind) {
  case Kind::Unwritten:
    fail(op, "must read shared memory that was written, but got " + found);
    break;
  case Kind::ReadOfWrite:
    fail(op, "must read shared memory when it has been written, but got " + found + ", which " +
                 by + " may still be writing");
    break;
  case Kind::WriteOfRead:
    fail(op, "must overwrite shared memory when it has been read, but got " + found + ", which " +
                 by + " may still be reading");
    break;
  case Kind::WriteOfWrite:
    fail(op, "must overwrite shared memory when it has been written, but got " + found +
                 ", which " + by + " may still be writing");
    break;
  case Kind::NoFence:
    fail(op, "must access generic-proxy writes through the async proxy after a fence, but got " +
                 found + ", which " + by + " wrote without one; put tgpu.fence_async between");
    break;
  case Kind::Outside:
    fail(op, "must access one of the " + std::to_string(plan.sharedBytes) +
                 " bytes of shared memory, but got " + found);
    break;
  }
  if (conflict->earlier)
    note(conflict->earlier, "the other access");
  return false;
}

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

void Machine::giveWay(Context &context) { context.coroutine->pause(); }

bool Machine::runRoles(MutableArrayRef<Role> roles) {
  running = roles;
  for (Role &role : roles)
    role.context.coroutine = std::make_unique<Coroutine>([&] {
      if (!firstFault)
        role.run();
    });

  while (true) {
    SmallVector<Context *> open, ready;
    for (Role &role : roles)
      if (!role.context.coroutine->isDone())
        open.push_back(&role.context);
    if (open.empty())
      break;
    for (Context *context : open)
      if (firstFault || !context->isReady || context->isReady())
        ready.push_back(context);
    if (ready.empty()) {
      if (!deliverOne())
        reportDeadlock(open);
      continue;
    }
    size_t next = moment == AsyncMoment::Random ? random() % ready.size() : 0;
    ready[next]->coroutine->resume();
  }
  running = {};
  if (firstFault)
    inFlight.clear(); // its closures refer to tiles in the roles' frames
  // Later operations execute after all roles, but this does not order memory accesses.
  return !firstFault;
}

bool Machine::reportDeadlock(ArrayRef<Context *> contexts) {
  fail(contexts.front()->waitsAt, "must return, but got " + contexts.front()->name +
                                      " waiting for " + contexts.front()->waitsFor());
  for (Context *context : contexts.drop_front())
    note(context->waitsAt, context->name + " waits for " + context->waitsFor());
  return false;
}

bool Machine::waitUntil(Context &context, Operation *op, llvm::function_ref<bool()> isReady,
                        llvm::function_ref<std::string()> what) {
  while (!firstFault && !isReady()) {
    if (&context == &main) {
      if (!deliverOne())
        return fail(op, "must return, but got a wait for " + what());
      continue;
    }
    context.isReady = isReady;
    context.waitsFor = what;
    context.waitsAt = op;
    giveWay(context);
    context.isReady = nullptr;
  }
  return !firstFault;
}

bool Machine::failEndless(const Context &context, Operation *op, const std::string &limit) {
  if (firstFault)
    return false;
  fail(op, "is executed by " + context.name + ", which has not ended after " + limit +
               "; the condition under which its loops end may never hold");
  for (const Role &role : running)
    if (&role.context != &context && role.context.isReady)
      note(role.context.waitsAt, role.context.name + " waits for " + role.context.waitsFor());
  return false;
}

bool Machine::countSteps(const Context &context, Operation *op, int64_t count) {
  steps += count;
  return steps <= mostSteps || failEndless(context, op,
                                           std::to_string(mostSteps) +
                                               " steps of the block, the most that are simulated");
}

bool Machine::step(Context &context, Operation *op) {
  if (!countSteps(context, op, 1))
    return false;
  if (moment != AsyncMoment::Random || firstFault)
    return !firstFault;
  std::vector<DeferredRef> chosen;
  for (const DeferredRef &work : inFlight)
    if (random() % 4 == 0)
      chosen.push_back(work);
  for (const DeferredRef &work : chosen)
    if (!force(*work))
      return false;
  if (&context != &main && random() % 2)
    giveWay(context);
  return !firstFault;
}

bool Machine::finish(Context &context, Operation *op) {
  auto check = [&](GroupQueue &queue, const char *what) {
    if (queue.items.empty())
      return true;
    Operation *last = queue.items.back().work->op;
    return queue.hasOpen() ? fail(last, "must be committed before " + context.name +
                                            " ends, but got " + what + " without a commit")
                           : fail(last, "must be complete before " + context.name +
                                            " ends, but got " + what + " without a wait");
  };
  if (!check(context.copies, "an asynchronous copy") ||
      !check(context.products, "an asynchronous product") ||
      !check(context.stores, "a store that reads shared memory"))
    return false;
  if (context.turn)
    return fail(context.turn, "must be ended before " + context.name + " ends, but is not");
  if (&context != &main)
    return true;
  // Copies without a wait may still be pending.
  while (!firstFault && !inFlight.empty())
    force(*DeferredRef(inFlight.back()));
  if (firstFault)
    return false;
  for (auto [turns, holder] : turnTaken)
    if (holder)
      return fail(turns, "must be passed on before the block ends, but got a turn that " +
                             holder->name + " has taken");
  for (auto [number, barrier] : llvm::enumerate(namedBarriers))
    if (barrier.arrived)
      for (auto [op, index] : plan.namedBarriers)
        if (index == number)
          return fail(op, "must have a warp that waits for those that arrived, but got none for " +
                              std::to_string(barrier.arrived) + " when the block ends");
  // A thread must know of every TMA copy of a phase.
  for (auto [number, barrier] : llvm::enumerate(barriers)) {
    if (!barrier.op)
      continue;
    if (barrier.missingBytes != 0)
      return fail(barrier.op,
                  "must have no phase under way when the block ends, but got " + describe(barrier));
    if (barrier.lastCopy) {
      bool isKnown =
          llvm::any_of(clocks, [&, number = number, &barrier = barrier](const Clock &clock) {
            return clock[components.barrier(number)] > barrier.lastCopyPhase;
          });
      if (!isKnown)
        return fail(barrier.lastCopy, "must be followed by a wait for its phase, but has none");
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

void Machine::poison(int64_t base, const Bytes &range) {
  for (auto [begin, end] : range)
    std::fill(bytes.begin() + base + begin, bytes.begin() + base + end, '\xff');
}

static std::string warpName(const Context &context, unsigned warp) {
  return "warp " + std::to_string(warp) + " of " + context.name;
}

bool Machine::accessByWarps(Context &context, Operation *op, int64_t base, ArrayRef<Bytes> byWarp,
                            bool writes) {
  for (unsigned i = 0; i < context.numWarps; ++i) {
    unsigned w = context.firstWarp + i, component = components.warp(w);
    Access access{clocks[w], component, clocks[w][component], false, op};
    auto conflict =
        writes ? shadow.write(base, byWarp[i], access) : shadow.read(base, byWarp[i], access);
    if (!report(conflict, op, access, warpName(context, w)))
      return false;
  }
  return true;
}

bool Machine::writeByCopies(Context &context, Operation *op, int64_t base, ArrayRef<Bytes> byWarp) {
  for (unsigned i = 0; i < context.numWarps; ++i) {
    unsigned w = context.firstWarp + i;
    Access access{clocks[w], components.copies(w), context.copies.open(), false, op};
    if (!report(shadow.write(base, byWarp[i], access), op, access, warpName(context, w)))
      return false;
  }
  return true;
}

bool Machine::readByProduct(Context &context, Operation *op, ArrayRef<Bytes> byWarpgroup) {
  if (context.firstWarp % 4 != 0)
    return fail(op, "must be issued by warpgroups that begin at a multiple of four warps, but got "
                    "warp " +
                        std::to_string(context.firstWarp));
  for (auto [g, range] : llvm::enumerate(byWarpgroup)) {
    unsigned first = context.firstWarp + 4 * g;
    // All warps of the warpgroup must have waited.
    Clock known = clocks[first];
    for (unsigned w = first + 1; w < first + 4; ++w)
      simulator::meet(known, clocks[w]);
    Access access{known, components.products(first / 4), context.products.open(), true, op};
    std::string who = "warpgroup " + std::to_string(g) + " of " + context.name;
    if (!report(shadow.read(0, range, access), op, access, who))
      return false;
  }
  return true;
}

bool Machine::readByStore(Context &context, Operation *op, int64_t base, const Bytes &range,
                          unsigned w) {
  Access access{clocks[w], components.stores(w), context.stores.open(), true, op};
  return report(shadow.read(base, range, access), op, access, "TMA for " + warpName(context, w));
}

bool Machine::writeByTma(Context &context, Operation *op, int64_t base, const Bytes &range,
                         unsigned barrier, int64_t phase) {
  unsigned w = context.firstWarp;
  Access access{clocks[w], components.barrier(barrier), static_cast<Time>(phase + 1), true, op};
  return report(shadow.write(base, range, access), op, access, "TMA for " + warpName(context, w));
}

//===----------------------------------------------------------------------===//
// Asynchronous work
//===----------------------------------------------------------------------===//

bool Machine::force(Deferred &work) {
  if (work.isDone)
    return true;
  work.isDone = true;
  llvm::erase_if(inFlight, [&](const DeferredRef &other) { return other.get() == &work; });
  return work.work();
}

bool Machine::checkInFlight(Operation *op, size_t count) {
  return count < kMostInFlight ||
         fail(op, "is one more than the " + std::to_string(kMostInFlight) +
                      " asynchronous operations that may be in flight; a wait must come between");
}

DeferredRef Machine::defer(Operation *op, bool wakes, std::function<bool()> work) {
  auto deferred = std::make_shared<Deferred>(Deferred{op, std::move(work), wakes});
  if (!checkInFlight(op, inFlight.size()))
    return deferred;
  inFlight.push_back(deferred);
  if (moment == AsyncMoment::Earliest)
    force(*deferred);
  return deferred;
}

DeferredRef Machine::start(GroupQueue &queue, Operation *op, std::function<bool()> work) {
  checkInFlight(op, queue.items.size());
  DeferredRef deferred = defer(op, /*wakes=*/false, std::move(work));
  queue.items.push_back({queue.open(), deferred});
  queue.last = op;
  return deferred;
}

/// Executed when all threads wait. Delivers the youngest work first, to differ from the earliest
/// moment as much as possible.
bool Machine::deliverOne() {
  if (firstFault)
    return true;
  for (const DeferredRef &work : llvm::reverse(inFlight))
    if (work->wakes) {
      DeferredRef chosen = work;
      force(*chosen);
      return true;
    }
  return false;
}

bool Machine::waitForGroups(GroupQueue &queue, int64_t pending) {
  Time target = queue.committed > pending ? queue.committed - static_cast<Time>(pending) : 0;
  queue.finished = std::max(queue.finished, target);
  for (const GroupQueue::Item &item : queue.items)
    if (item.group <= target && !force(*item.work))
      return false;
  llvm::erase_if(queue.items, [&](const GroupQueue::Item &item) { return item.group <= target; });
  return !firstFault;
}

bool Machine::waitForCopies(Context &context, int64_t pending) {
  if (!waitForGroups(context.copies, pending))
    return false;
  for (unsigned w = context.firstWarp; w < context.firstWarp + context.numWarps; ++w)
    clocks[w][components.copies(w)] = context.copies.finished;
  return true;
}

/// Groups belong to the thread that issued them.
bool Machine::waitForStores(Context &context, int64_t pending, bool reachesMemory) {
  if (!waitForGroups(context.stores, pending))
    return false;
  Time target = context.stores.committed;
  target = target > static_cast<Time>(pending) ? target - static_cast<Time>(pending) : 0;
  if (reachesMemory)
    context.stores.complete = std::max(context.stores.complete, target);
  // The first thread of each warpgroup knows of the copies that it started; all start theirs
  // together.
  for (unsigned w = context.firstWarp; w < context.firstWarp + context.numWarps;
       w += Target::warpsOfGroup)
    clocks[w][components.stores(w)] = context.stores.finished;
  return true;
}

bool Machine::waitForProducts(Context &context, int64_t pending) {
  if (!waitForGroups(context.products, pending))
    return false;
  for (unsigned w = context.firstWarp; w < context.firstWarp + context.numWarps; ++w)
    clocks[w][components.products(w / 4)] = context.products.finished;
  return true;
}

int64_t Machine::takeTile(int64_t tiles) {
  int64_t blocks = std::max<int64_t>(1, gridExtents.empty() ? 1 : gridExtents.front());
  lastTile = std::max(lastTile + 1, blocks);
  auto ownerOf = [&](int64_t tile) {
    std::mt19937_64 dealt(static_cast<uint64_t>(tileSeed * 1000003 + tile));
    return static_cast<int64_t>(dealt() % static_cast<uint64_t>(blocks));
  };
  while (lastTile < tiles && ownerOf(lastTile) != block)
    ++lastTile;
  return lastTile = std::min(lastTile, tiles);
}

int64_t Machine::takeTileOfAll(int64_t tiles) {
  int64_t blocks = std::max<int64_t>(1, gridExtents.empty() ? 1 : gridExtents.front());
  auto startOf = [&](int64_t number) {
    std::vector<int64_t> starts{0, tiles};
    std::mt19937_64 dealt(static_cast<uint64_t>(tileSeed));
    for (int64_t i = 1; i < blocks; ++i)
      starts.push_back(static_cast<int64_t>(dealt() % static_cast<uint64_t>(tiles + 1)));
    llvm::sort(starts);
    return starts[number];
  };
  int64_t tile = nextOfAll ? *nextOfAll : startOf(block);
  nextOfAll = tile + 1;
  return tile < startOf(block + 1) ? tile : tiles;
}

bool Machine::awaitTurn(Context &context, Operation *op, const int32_t *counter, int64_t number) {
  if (context.turn) {
    fail(op, "must await a turn while its thread has no other one, but has one, so that blocks may "
             "deadlock; end that one first");
    note(context.turn, "the other turn");
    return false;
  }
  auto describe = [&] {
    return "turn " + std::to_string(number) + ", but the counter is " + std::to_string(*counter) +
           " and all blocks before have ended";
  };
  if (counter && !waitUntil(context, op, [&] { return *counter == number; }, describe))
    return false;
  if (cast<tgpu::AwaitTurnOp>(op).getLast())
    return true;
  context.turn = op;
  context.turnOf = {counter, number};
  return true;
}

bool Machine::endTurn(Context &context, Operation *op, int32_t *counter, int64_t number) {
  if (!context.turn || context.turnOf != std::pair<const void *, int64_t>(counter, number))
    return fail(op, "must end the turn that its thread has awaited, but got turn " +
                        std::to_string(number) + " and " +
                        (context.turn ? "turn " + std::to_string(context.turnOf.second)
                                      : std::string("none")));
  context.turn = nullptr;
  if (context.stores.hasOpen() || context.stores.complete < context.stores.committed) {
    fail(op, "must release the turn when its writes to the view have completed, but has waited for "
             "their reads of shared memory only; wait for the writes");
    note(context.stores.last, "the write");
    return false;
  }
  if (counter)
    *counter = static_cast<int32_t>(number + 1);
  return true;
}

} // namespace tilewright::simulator
