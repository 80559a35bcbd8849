// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: the state of barriers, the participants that wait at them, and the knowledge
// that passing a barrier transfers.

#include "passes/Tgpu/Sync/VerifySync.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

int64_t sync::getStages(AllocBarriersOp allocation) {
  return cast<BarriersType>(allocation.getBarriers().getType()).getStages();
}

AllocBarriersOp sync::getAllocation(Operation *op) {
  for (Value operand : op->getOperands())
    if (isa<BarriersType>(operand.getType()))
      return operand.getDefiningOp<AllocBarriersOp>();
  return nullptr;
}

NamedBarrier sync::getNamedBarrier(Value declared) {
  auto named = declared.getDefiningOp<NamedBarrierOp>();
  if (std::optional<uint64_t> id = named.getId())
    return {nullptr, static_cast<int64_t>(*id)};
  return {named, 0};
}

int64_t sync::countArrivals(Operation *op, int64_t warps) {
  if (isa<ExpectOp>(op))
    return 1;
  auto arrive = dyn_cast<ArriveOp>(op);
  if (!arrive)
    return 0;
  switch (arrive.getPer()) {
  case ArriveScope::Thread:
    return Target::lanes * warps;
  case ArriveScope::Warp:
    return warps;
  case ArriveScope::Warpgroup:
    return warps / Target::warpsOfGroup;
  case ArriveScope::Role:
    return 1;
  }
  return 0;
}

Player::Barrier &Player::getBarrier(AllocBarriersOp allocation, int64_t use) {
  std::vector<Barrier> &all = barriers[allocation];
  int64_t stages = getStages(allocation);
  if (all.empty()) {
    Barrier fresh;
    fresh.missing = allocation.getArrivals();
    fresh.arrived.resize(static_cast<unsigned>(states.size()));
    fresh.arriving.of.resize(states.size());
    fresh.published = fresh.arriving;
    all.assign(stages, fresh);
    for (Barrier &barrier : all)
      barrier.number = numBarriers++;
  }
  return all[use % stages];
}

Knowledge Player::publish(int who, bool byAll) const {
  Knowledge knowledge = states[who].knows;
  knowledge.of[who] = {byAll ? getNow(who) : states[who].synced, getNow(who)};
  return knowledge;
}

FailureOr<Player::Barrier *> Player::getBarrierInPhase(const Step &step,
                                                       AllocBarriersOp allocation) {
  Barrier &barrier = getBarrier(allocation, step.use);
  int64_t stages = getStages(allocation), phase = step.use / stages;
  if (barrier.completed == phase)
    return &barrier;
  InFlightDiagnostic diagnostic = step.op->emitOpError();
  diagnostic.attachNote(allocation.getLoc()) << "the barriers";
  if (barrier.completed > phase)
    return diagnostic << "must be one of the " << allocation.getArrivals()
                      << " arrivals per use for which the barriers were declared, but got one more "
                         "of use "
                      << step.use;
  return diagnostic
         << "belongs to use " << step.use << " of the barriers, while use "
         << barrier.completed * stages + step.use % stages
         << " is not complete; both sides must count uses alike, and wait before they reuse a slot";
}

const Player::Access *Player::findUnknown(ArrayRef<Access> arrivals, int who, bool byFirst) const {
  for (const Access &arrival : arrivals) {
    bool isOwn = arrival.who == who && arrival.copy < 0 && trace.participants[who].warps == 1;
    if (!isOwn && !isBehind(arrival, who, byFirst))
      return &arrival;
  }
  return nullptr;
}

LogicalResult Player::arrive(int who, const Step &step, AllocBarriersOp allocation, int64_t count,
                             bool byAll) {
  FailureOr<Barrier *> barrier = getBarrierInPhase(step, allocation);
  if (failed(barrier))
    return failure();
  if ((*barrier)->missing < count)
    return step.op->emitOpError() << "makes " << count << " arrivals for use " << step.use
                                  << ", but the barrier was declared for "
                                  << allocation.getArrivals() << ", of which "
                                  << (*barrier)->missing << " are missing";
  // Warps arrive at their own time, and an arrival counts for the phase that it finds.
  ArrayRef<int64_t> known = states[who].knows.phases;
  size_t number = (*barrier)->number;
  if ((*barrier)->completed > (number < known.size() ? known[number] : 0) &&
      (*barrier)->arrivedBefore != who) {
    InFlightDiagnostic diagnostic = step.op->emitOpError();
    diagnostic.attachNote(allocation.getLoc()) << "the barriers";
    return diagnostic
           << "may count for the previous use of its barrier: " << trace.participants[who].name
           << " arrives for use " << step.use
           << " without knowing that the previous one is complete; it must wait for that "
              "use, or for another role that has done so";
  }
  bool isAlone = ((*barrier)->arriver == Barrier::none || (*barrier)->arriver == who) &&
                 trace.participants[who].warps == 1;
  (*barrier)->arriver = isAlone ? who : Barrier::several;
  (*barrier)->missing -= count;
  (*barrier)->arrival = &step;
  (*barrier)->arrived.set(who);
  (*barrier)->arriving.merge(publish(who, byAll));
  if (auto expect = dyn_cast<ExpectOp>(step.op)) {
    (*barrier)->expected += expect.getBytes();
    (*barrier)->expect = expect;
  }
  return completePhase(**barrier, allocation);
}

/// The number of roles that arrive at barriers; what comes before and after the roles counts as
/// one.
static unsigned countArrivingRoles(AllocBarriersOp allocation) {
  llvm::SmallPtrSet<Region *, 4> roles;
  for (Operation *user : allocation.getBarriers().getUsers()) {
    if (!isa<ArriveOp, ExpectOp>(user))
      continue;
    Region *region = user->getParentRegion();
    while (!isa<RolesOp, KernelOp>(region->getParentOp()))
      region = region->getParentRegion();
    roles.insert(region);
  }
  return roles.size();
}

LogicalResult Player::checkPhases() {
  AllocBarriersOp allocation;
  const Barrier *partial = nullptr; // the first by number, since the order of a map varies
  for (auto &[op, all] : barriers)
    for (const Barrier &barrier : all) {
      auto of = cast<AllocBarriersOp>(op);
      bool isPartial =
          barrier.missing > 0 && barrier.missing < static_cast<int64_t>(of.getArrivals());
      // Not all roles release what says that there are no more tiles.
      if (!isPartial || (partial && partial->number < barrier.number) ||
          barrier.arrived.count() < countArrivingRoles(of))
        continue;
      partial = &barrier;
      allocation = of;
    }
  if (!partial)
    return success();
  auto declared = static_cast<int64_t>(allocation.getArrivals());
  InFlightDiagnostic diagnostic = partial->arrival->op->emitOpError();
  diagnostic.attachNote(allocation.getLoc()) << "the barriers";
  return diagnostic << "arrives for use " << partial->arrival->use << ", which has "
                    << declared - partial->missing
                    << " arrivals when the block ends, but the barrier was declared for "
                    << declared << "; with more tiles, a role would wait for the others";
}

static InFlightDiagnostic reportBytes(Operation *expect, Operation *load, int64_t expected,
                                      int64_t brought) {
  InFlightDiagnostic diagnostic = (expect ? expect : load)->emitOpError();
  if (!expect)
    return std::move(diagnostic << "must copy bytes that a tgpu.expect of its barriers counts, but "
                                   "got "
                                << brought << " that none counts");
  if (load)
    diagnostic.attachNote(load->getLoc()) << "copied here";
  return std::move(diagnostic << "expects " << expected
                              << " bytes, but the copies of this use have " << brought);
}

LogicalResult Player::completePhase(Barrier &barrier, AllocBarriersOp allocation) {
  if (barrier.missing != 0 || barrier.expected != barrier.delivered)
    return success();
  if (barrier.underWay)
    return reportBytes(barrier.expect, barrier.load, barrier.expected,
                       barrier.delivered + barrier.underWay);
  barrier.published.merge(barrier.arriving);
  barrier.arrivedBefore = std::exchange(barrier.arriver, int(Barrier::none));
  ++barrier.completed;
  barrier.missing = allocation.getArrivals();
  barrier.arrived.reset();
  barrier.expected = barrier.delivered = 0;
  barrier.expect = barrier.load = nullptr;
  return success();
}

LogicalResult Player::startFlight(int who, const Step &step, AllocBarriersOp allocation,
                                  int64_t bytes, int64_t copy) {
  FailureOr<Barrier *> barrier = getBarrierInPhase(step, allocation);
  if (failed(barrier))
    return failure();
  (*barrier)->arriver = Barrier::several; // the bytes arrive, too
  (*barrier)->underWay += bytes;
  (*barrier)->load = step.op;
  Flight flight{allocation, step.use, bytes, copy};
  if (deliversEarly)
    return deliver(flight);
  flights.push_back(flight);
  return success();
}

LogicalResult Player::deliver(Flight flight) {
  Barrier &barrier = getBarrier(flight.allocation, flight.use);
  barrier.underWay -= flight.bytes;
  barrier.delivered += flight.bytes;
  Knowledge &knowledge = barrier.arriving;
  if (static_cast<int64_t>(knowledge.arrived.size()) <= flight.copy)
    knowledge.arrived.resize(flight.copy + 1);
  knowledge.arrived.set(flight.copy);
  return completePhase(barrier, flight.allocation);
}

Player::Outcome Player::waitFor(int who, const Step &step, AllocBarriersOp allocation,
                                bool forRelease) {
  Barrier &barrier = getBarrier(allocation, step.use);
  int64_t needed = step.use / getStages(allocation) + (forRelease ? 0 : 1);
  if (barrier.completed < needed)
    return Outcome::Blocked;
  if (barrier.completed > needed) {
    // A wait observes only the parity of a phase.
    step.op->emitOpError() << "waits too late for use " << step.use << ": its barrier is "
                           << barrier.completed - needed
                           << " phases ahead, so the wait may never end; the other side must not "
                              "advance before this wait";
    return Outcome::Error;
  }
  if (needed > 0) {
    Knowledge &knows = states[who].knows;
    knows.merge(barrier.published);
    if (knows.phases.size() <= barrier.number)
      knows.phases.resize(barrier.number + 1);
    knows.phases[barrier.number] = std::max(knows.phases[barrier.number], needed);
  }
  return Outcome::Done;
}

/// All warpgroups wait at this barrier, of which those without the turn wait for it.
LogicalResult Player::checkTurnAtBarrier(int who, const Step &step) {
  const llvm::DenseMap<Operation *, Operation *> &taken = states[who].turns;
  if (taken.empty() || trace.participants[who].warps <= Target::warpsOfGroup)
    return success();
  InFlightDiagnostic diagnostic =
      step.op->emitOpError("waits for all warpgroups while one has the turn that the others wait "
                           "for, so that none goes on; tgpu.pass_turn must come before");
  diagnostic.attachNote(taken.begin()->second->getLoc()) << "taken here";
  return diagnostic;
}

Player::Outcome Player::meet(int who, const Step &step, Value named, bool waits) {
  State &state = states[who];
  if (state.isMet) {
    state.isMet = false;
    return Outcome::Done;
  }
  auto declared = named.getDefiningOp<NamedBarrierOp>();
  if (declared.getPerWarpgroup()) {
    states[who].syncedByGroup = getNow(who);
    return Outcome::Done;
  }
  Meeting &meeting = meetings[getNamedBarrier(declared)];
  if (llvm::is_contained(meeting.waiting, who))
    return Outcome::Blocked;
  int64_t warps = meeting.warps + trace.participants[who].warps;
  if (llvm::is_contained(meeting.who, who)) {
    step.op->emitOpError() << "must arrive at the barrier a second time after all "
                           << declared.getWarps() << " warps, but got " << meeting.warps
                           << " that have arrived";
    return Outcome::Error;
  }
  if (warps > static_cast<int64_t>(declared.getWarps())) {
    step.op->emitOpError() << "raises the arrivals to " << warps
                           << " warps, but the barrier was declared for " << declared.getWarps();
    return Outcome::Error;
  }
  if (const Access *unknown = findUnknown(meeting.previous, who, /*byFirst=*/false)) {
    report(step.op, *unknown, "the earlier arrival")
        << "may arrive at the barrier again before the warps of an earlier arrival; "
           "a barrier must come between";
    return Outcome::Error;
  }
  if (meeting.arriving.of.empty())
    meeting.arriving.of.resize(states.size());
  meeting.arrivals.push_back({step.op, who, getNow(who), /*byFirst=*/false});
  meeting.warps = warps;
  meeting.who.push_back(who);
  meeting.arriving.merge(publish(who, /*byAll=*/true));
  if (waits)
    meeting.waiting.push_back(who);
  if (warps < static_cast<int64_t>(declared.getWarps()))
    return waits ? Outcome::Blocked : Outcome::Done;
  Meeting done = std::move(meeting);
  meeting = Meeting();
  meeting.previous = done.arrivals;
  for (int other : done.waiting) {
    states[other].knows.merge(done.arriving);
    states[other].synced = getNow(other);
    states[other].isMet = other != who;
  }
  return Outcome::Done;
}

LogicalResult Player::turn(int who, const Step &step, bool takes) {
  llvm::DenseMap<Operation *, Operation *> &taken = states[who].turns;
  Operation *turns = step.op->getOperand(0).getDefiningOp();
  if (takes) {
    if (taken.try_emplace(turns, step.op).second)
      return success();
    InFlightDiagnostic diagnostic =
        step.op->emitOpError("takes the turn again before passing it "
                             "on; tgpu.take_turn and tgpu.pass_turn must alternate");
    diagnostic.attachNote(taken[turns]->getLoc()) << "taken here";
    return diagnostic;
  }
  if (taken.erase(turns))
    return success();
  return step.op->emitOpError(
      "passes on a turn that was not taken; tgpu.take_turn and tgpu.pass_turn must alternate");
}

/// Other blocks are not executed; assume that the turn comes.
LogicalResult Player::awaitTurn(int who, const Step &step) {
  State &state = states[who];
  if (!state.ownTurn) {
    if (!cast<AwaitTurnOp>(step.op).getLast())
      state.ownTurn = &step;
    return success();
  }
  InFlightDiagnostic diagnostic = step.op->emitOpError(
      "awaits a turn while its thread has another, so that blocks may deadlock; "
      "tgpu.end_turn must come before");
  diagnostic.attachNote(state.ownTurn->op->getLoc()) << "the other turn";
  return diagnostic;
}

LogicalResult Player::endTurn(int who, const Step &step) {
  State &state = states[who];
  const Step *own = std::exchange(state.ownTurn, nullptr);
  if (!own || own->use != step.use || own->products != step.products)
    return step.op->emitOpError("ends a turn that its thread has not awaited; tgpu.await_turn of "
                                "the same number and counter must come before");
  Operation *write = state.openBulkWrite;
  for (Operation *op : state.bulkWrites)
    write = op ? op : write;
  if (!write)
    return success();
  InFlightDiagnostic diagnostic = step.op->emitOpError(
      "releases the turn before its writes to the view have completed; tgpu.bulk_wait pending 0 "
      "without 'read' must come before");
  diagnostic.attachNote(write->getLoc()) << "the write";
  return diagnostic;
}

Player::Outcome Player::playBarrier(int who, const Step &step) {
  auto outcome = [](LogicalResult result) {
    return failed(result) ? Outcome::Error : Outcome::Done;
  };
  AllocBarriersOp allocation = getAllocation(step.op);
  if (allocation && step.use < 0) {
    step.op->emitOpError() << "uses must be counted from 0, but got " << step.use;
    return Outcome::Error;
  }
  return TypeSwitch<Operation *, Outcome>(step.op)
      .Case<WaitOp>([&](auto) { return waitFor(who, step, allocation, /*forRelease=*/false); })
      .Case<AcquireOp>([&](auto) { return waitFor(who, step, allocation, /*forRelease=*/true); })
      .Case<ArriveOp, ExpectOp>([&](Operation *op) {
        auto scope = isa<ArriveOp>(op) ? cast<ArriveOp>(op).getPer() : ArriveScope::Role;
        bool byAll = scope == ArriveScope::Thread || scope == ArriveScope::Warp;
        int64_t count = countArrivals(op, trace.participants[who].warps);
        return outcome(arrive(who, step, allocation, count, byAll));
      })
      .Case<SyncOp>([&](SyncOp sync) {
        if (failed(checkTurnAtBarrier(who, step)))
          return Outcome::Error;
        if (sync.getBarrier())
          return meet(who, step, sync.getBarrier(), /*waits=*/true);
        states[who].synced = getNow(who);
        return Outcome::Done;
      })
      .Case<AnyOp>([&](AnyOp any) {
        if (any.getBarrier() && failed(checkTurnAtBarrier(who, step)))
          return Outcome::Error;
        if (any.getBarrier())
          return meet(who, step, any.getBarrier(), /*waits=*/true);
        states[who].synced = getNow(who);
        return Outcome::Done;
      })
      .Case<SignalOp>(
          [&](SignalOp signal) { return meet(who, step, signal.getBarrier(), /*waits=*/false); })
      .Case<TakeTurnOp>([&](auto) { return outcome(turn(who, step, /*takes=*/true)); })
      .Case<PassTurnOp>([&](auto) { return outcome(turn(who, step, /*takes=*/false)); })
      .Case<AwaitTurnOp>([&](auto) { return outcome(awaitTurn(who, step)); })
      .Case<EndTurnOp>([&](auto) { return outcome(endTurn(who, step)); })
      .Default([&](Operation *) { return outcome(playMemory(who, step)); });
}

//===----------------------------------------------------------------------===//
// No participant goes on
//===----------------------------------------------------------------------===//

int64_t Player::countComing(AllocBarriersOp allocation, int64_t use) const {
  int64_t count = 0;
  for (auto [state, participant] : llvm::zip_equal(states, trace.participants))
    for (size_t i = state.next; i < participant.steps.size(); ++i) {
      const Step &step = participant.steps[i];
      if (step.use == use && isa<ArriveOp, ExpectOp>(step.op) &&
          getAllocation(step.op) == allocation)
        count += countArrivals(step.op, participant.warps);
    }
  return count;
}

bool Player::explain(int who, bool mustBeSure) {
  const Step &step = trace.participants[who].steps[states[who].next];
  std::string name = trace.participants[who].name;
  if (auto sync = dyn_cast<SyncOp>(step.op)) {
    auto declared = sync.getBarrier().getDefiningOp<NamedBarrierOp>();
    const Meeting &meeting = meetings[getNamedBarrier(declared)];
    bool comesMore = false;
    for (int other = 0, end = static_cast<int>(states.size()); other < end; ++other)
      for (size_t i = states[other].next; i < trace.participants[other].steps.size(); ++i) {
        Operation *op = trace.participants[other].steps[i].op;
        comesMore |= !llvm::is_contained(meeting.who, other) && isa<SyncOp, SignalOp>(op) &&
                     op->getNumOperands() != 0 &&
                     getNamedBarrier(op->getOperand(0)) == getNamedBarrier(declared);
      }
    if (mustBeSure && comesMore)
      return false;
    InFlightDiagnostic diagnostic = step.op->emitOpError();
    diagnostic << "deadlocks in " << name << ": expected " << declared.getWarps()
               << " warps at the barrier, but got " << meeting.warps;
    return true;
  }
  AllocBarriersOp allocation = getAllocation(step.op);
  int64_t stages = getStages(allocation);
  Barrier &barrier = getBarrier(allocation, step.use);
  if (barrier.missing == 0) {
    reportBytes(barrier.expect, barrier.load, barrier.expected, barrier.delivered);
    return true;
  }
  // The use that the barrier's current phase belongs to.
  int64_t use = barrier.completed * stages + step.use % stages;
  auto declared = static_cast<int64_t>(allocation.getArrivals());
  int64_t coming = declared - barrier.missing + countComing(allocation, use);
  if (mustBeSure && coming >= declared)
    return false;
  InFlightDiagnostic diagnostic = step.op->emitOpError();
  diagnostic.attachNote(allocation.getLoc()) << "the barriers";
  if (coming == 0)
    diagnostic << "deadlocks in " << name << ": expected an arrival at the barriers for use " << use
               << ", but got none";
  else if (coming < declared)
    diagnostic << "deadlocks in " << name << ": expected the " << declared
               << " arrivals for which the barriers were declared, but got " << coming
               << " for use " << use;
  else
    diagnostic << "deadlocks in " << name << ": expected arrivals at the barriers for use " << use
               << ", but got warps that are also waiting";
  return true;
}

LogicalResult Player::reportDeadlock(ArrayRef<int> stuck) {
  for (bool mustBeSure : {true, false})
    for (int who : stuck)
      if (explain(who, mustBeSure))
        return failure();
  return failure();
}
