// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Barriers of a simulated block. The clocks also detect faults of other interleavings: an arriving
// warp must know that the previous phase has completed, and a phase may complete only when all
// warps that wait for the previous one are known to have observed it, because a wait observes only
// the parity.

#include "lib/Interpreter/Simulator/Machine.h"

#include "mlir/IR/Operation.h"

#include <algorithm>
#include <limits>

using namespace mlir;

namespace tilewright::simulator {

std::string Machine::describe(const Barrier &barrier) const {
  std::string text = "phase " + std::to_string(barrier.phase) + " of stage " +
                     std::to_string(barrier.stage) + ", which misses " +
                     std::to_string(barrier.missing) + " of " + std::to_string(barrier.arrivals) +
                     " arrivals";
  if (barrier.missingBytes > 0)
    text += " and " + std::to_string(barrier.missingBytes) + " bytes";
  if (barrier.missingBytes < 0)
    text += " and has " + std::to_string(-barrier.missingBytes) +
            " bytes that no tgpu.expect announced";
  return text;
}

bool Machine::initialize(Operation *op, unsigned first, unsigned stages, int64_t arrivals,
                         std::optional<int64_t> offset) {
  for (unsigned stage = 0; stage < stages; ++stage) {
    Barrier &barrier = barriers[first + stage];
    barrier = Barrier();
    barrier.op = op;
    barrier.stage = stage;
    barrier.arrivals = barrier.missing = arrivals;
    barrier.arriving = barrier.completed = Clock(components.count());
    barrier.waiters.resize(plan.warps);
  }
  if (!offset)
    return true;
  constexpr int64_t wordBytes = 8;
  Access access{clocks[0], components.barrier(first), std::numeric_limits<Time>::max(), false, op};
  Bytes words{{0, stages * wordBytes}};
  return report(shadow.write(*offset, words, access), op, access, "the barriers");
}

bool Machine::complete(unsigned number, Operation *op) {
  Barrier &barrier = barriers[number];
  if (barrier.missing < 0)
    return fail(op, "must be one of the " + std::to_string(barrier.arrivals) +
                        " arrivals of the phase, but got arrival " +
                        std::to_string(barrier.arrivals - barrier.missing));
  if (barrier.missing > 0 || barrier.missingBytes > 0)
    return true;
  if (barrier.missingBytes < 0)
    return fail(op, "must leave a phase that can complete, but got " + describe(barrier));
  for (auto [warp, waiter] : llvm::enumerate(barrier.waiters))
    if (waiter.op && barrier.arriving[components.warp(static_cast<unsigned>(warp))] < waiter.time) {
      fail(op, "must complete phase " + std::to_string(barrier.phase) + " of stage " +
                   std::to_string(barrier.stage) +
                   " when no warp waits for the previous phase, but got warp " +
                   std::to_string(warp) + ", which may still wait and miss its end");
      note(waiter.op, "the wait");
      return false;
    }
  if (!checkIdle(barrier))
    return false;
  std::fill(barrier.waiters.begin(), barrier.waiters.end(), Barrier::Waiter());
  barrier.arrivedOf.clear();
  barrier.completed = barrier.arriving;
  barrier.completed[components.barrier(number)] = static_cast<Time>(++barrier.phase);
  barrier.missing = barrier.arrivals;
  std::fill(barrier.arriving.begin(), barrier.arriving.end(), 0);
  return true;
}

/// Warpgroups are executed as one, so that rounds which some of them skip are executed by all. What
/// a warpgroup arrives in its idle rounds must be what the others wait for.
bool Machine::checkIdle(Barrier &barrier) {
  for (const Barrier::Idle &idle : barrier.idle) {
    int64_t arrived = barrier.arrivedOf.lookup(idle.warpgroup);
    if (idle.phase == barrier.phase && idle.count != arrived)
      return fail(idle.op, "makes " + std::to_string(idle.count) + " arrivals for phase " +
                               std::to_string(idle.phase) + " of stage " +
                               std::to_string(barrier.stage) + " in a round that warpgroup " +
                               std::to_string(idle.warpgroup) + " skips, but the warpgroup makes " +
                               std::to_string(arrived) + " if it takes part");
  }
  llvm::erase_if(barrier.idle,
                 [&](const Barrier::Idle &idle) { return idle.phase <= barrier.phase; });
  return true;
}

bool Machine::arriveIdle(Operation *op, unsigned number, int64_t phase, unsigned warpgroup,
                         int64_t count) {
  Barrier &barrier = barriers[number];
  if (!barrier.op)
    return fail(op, "uses barriers that have not been allocated yet");
  if (phase < 0)
    return fail(op, "requires a use that is not negative, but got one of phase " +
                        std::to_string(phase));
  for (Barrier::Idle &idle : barrier.idle)
    if (idle.phase == phase && idle.warpgroup == warpgroup) {
      idle.count += count;
      idle.op = op;
      return true;
    }
  barrier.idle.push_back({phase, count, warpgroup, op});
  return true;
}

bool Machine::checkPhase(Context &context, Operation *op, unsigned number, int64_t phase,
                         unsigned warp) {
  const Barrier &barrier = barriers[number];
  if (!barrier.op)
    return fail(op, "uses barriers that have not been allocated yet");
  if (phase < 0)
    return fail(op, "requires a use that is not negative, but got one of phase " +
                        std::to_string(phase));
  if (clocks[warp][components.barrier(number)] < phase)
    return fail(op, "is for phase " + std::to_string(phase) + " of stage " +
                        std::to_string(barrier.stage) + ", but got warp " + std::to_string(warp) +
                        " of " + context.name +
                        ", which has not observed the end of the previous phase");
  if (barrier.phase != phase)
    return fail(op, "must be for the phase under way of stage " + std::to_string(barrier.stage) +
                        ", " + std::to_string(barrier.phase) + ", but got phase " +
                        std::to_string(phase) + "; expect as many bytes and arrivals as there are");
  return true;
}

bool Machine::arrive(Context &context, Operation *op, unsigned number, int64_t phase, unsigned warp,
                     int64_t count) {
  if (!checkPhase(context, op, number, phase, warp))
    return false;
  Barrier &barrier = barriers[number];
  join(barrier.arriving, clocks[warp]);
  tick(warp);
  barrier.missing -= count;
  barrier.arrivedOf[warp / Target::warpsOfGroup] += count;
  return complete(number, op);
}

bool Machine::expect(Context &context, Operation *op, unsigned number, int64_t phase,
                     int64_t count) {
  if (!checkPhase(context, op, number, phase, context.firstWarp))
    return false;
  barriers[number].missingBytes += count;
  return arrive(context, op, number, phase, context.firstWarp, 1);
}

bool Machine::deliver(Operation *op, unsigned number, int64_t phase, int64_t count,
                      const Clock &issuer) {
  Barrier &barrier = barriers[number];
  if (barrier.phase != phase)
    return fail(op, "delivers to phase " + std::to_string(phase) + " of stage " +
                        std::to_string(barrier.stage) +
                        ", which is over: it expected too few bytes");
  barrier.missingBytes -= count;
  barrier.lastCopy = op;
  barrier.lastCopyPhase = static_cast<Time>(phase);
  join(barrier.arriving, issuer);
  return complete(number, op);
}

bool Machine::wait(Context &context, Operation *op, unsigned number, int64_t phase) {
  Barrier &barrier = barriers[number];
  if (!barrier.op)
    return fail(op, "uses barriers that have not been allocated yet");
  if (phase < 0)
    return true;
  unsigned end = context.firstWarp + context.numWarps;
  for (unsigned w = context.firstWarp; w < end; ++w)
    if (clocks[w][components.barrier(number)] < phase)
      return fail(op, "must wait for the phase before phase " + std::to_string(phase) +
                          " of stage " + std::to_string(barrier.stage) + " first, but got warp " +
                          std::to_string(w) + " of " + context.name +
                          ", which has not observed its end and may return too early");
  if (!waitUntil(
          context, op, [&] { return barrier.phase > phase; }, [&] { return describe(barrier); }))
    return false;
  if (barrier.phase > phase + 1)
    return fail(op, "waits for phase " + std::to_string(phase) + " of stage " +
                        std::to_string(barrier.stage) + ", but got phase " +
                        std::to_string(barrier.phase) + " under way, so the wait misses it");
  for (unsigned w = context.firstWarp; w < end; ++w) {
    join(clocks[w], barrier.completed);
    barrier.waiters[w] = {clocks[w][components.warp(w)], op};
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Named barriers
//===----------------------------------------------------------------------===//

bool Machine::meet(Context &context, Operation *op, unsigned number, int64_t warps, bool waits,
                   unsigned first, unsigned count) {
  for (auto [turns, holder] : turnTaken)
    if (waits && holder == &context && count == context.numWarps) {
      fail(op,
           "must wait for other warpgroups outside of a turn, but has a turn that they wait for; "
           "pass it on first");
      note(turns, "the turns");
      return false;
    }
  NamedBarrier &barrier = namedBarriers[number];
  unsigned end = first + count, component = components.namedBarrier(number);
  Time generation = barrier.generation;
  for (unsigned w = first; w < end; ++w) {
    if (clocks[w][component] < std::max(generation, barrier.due[w]))
      return fail(op, "must arrive a second time after the other warps, but got warp " +
                          std::to_string(w) + " of " + context.name +
                          ", which has not observed their arrival");
    barrier.due[w] = generation + 1;
    join(barrier.arriving, clocks[w]);
    tick(w);
  }
  barrier.arrived += count;
  if (barrier.arrived > warps)
    return fail(op, "raises the arrivals to " + std::to_string(barrier.arrived) +
                        " warps, but the barrier was declared for " + std::to_string(warps));
  if (barrier.arrived == warps) {
    barrier.completed = barrier.arriving;
    barrier.completed[component] = ++barrier.generation;
    barrier.arrived = 0;
    std::fill(barrier.arriving.begin(), barrier.arriving.end(), 0);
  }
  if (!waits)
    return true;
  if (!waitUntil(
          context, op, [&] { return barrier.generation > generation; },
          [&] {
            return std::to_string(warps - barrier.arrived) + " of the " + std::to_string(warps) +
                   " warps of a named barrier";
          }))
    return false;
  for (unsigned w = first; w < end; ++w)
    join(clocks[w], barrier.completed);
  return true;
}

void Machine::meetAll(Context &context) {
  Clock all(components.count());
  unsigned end = context.firstWarp + context.numWarps;
  for (unsigned w = context.firstWarp; w < end; ++w)
    join(all, clocks[w]);
  for (unsigned w = context.firstWarp; w < end; ++w) {
    clocks[w] = all;
    tick(w);
  }
}

void Machine::fence(Context &context) {
  for (unsigned w = context.firstWarp; w < context.firstWarp + context.numWarps; ++w) {
    // The thread's own writes, and those that it has learned of.
    for (unsigned component = 0; components.isGeneric(component); ++component) {
      Time &fenced = clocks[w][components.fenceOf(component)];
      fenced = std::max(fenced, clocks[w][component]);
    }
    tick(w); // later writes are not fenced
  }
}

bool Machine::takeTurn(Context &context, Operation *op, Operation *turns, bool takes) {
  Context *&holder = turnTaken[turns];
  if (takes && holder)
    return fail(op,
                "must take a turn that was passed on, but got one that " + holder->name + " has");
  if (!takes && !holder)
    return fail(op, "must pass on a turn that was taken, but got one that is free");
  holder = takes ? &context : nullptr;
  return true;
}

} // namespace tilewright::simulator
