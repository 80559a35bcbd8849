// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: checks that warpgroups which skip iterations (tgpu.first_round) do not
// deadlock, and arrive as often as the others. When a role is executed as a whole, it never waits
// for turns, and all of its warps arrive together. Here each warpgroup is a participant. Memory
// accesses are checked only by the Player, since the part of a role's access that each warpgroup
// makes is not known.

#include "passes/Tgpu/Sync/VerifySync.h"

#include <map>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

namespace {

class WarpgroupPlayer {
public:
  explicit WarpgroupPlayer(const Trace &trace) : trace(trace), states(trace.participants.size()) {}

  LogicalResult play() {
    for (ArrayRef<int> phase : trace.phases) {
      for (bool moved = true; moved;) {
        moved = false;
        for (int who : phase)
          while (states[who].next < getSteps(who).size() && goOn(who)) {
            if (failed(checkPhase(who)))
              return failure();
            ++states[who].next;
            states[who].isCounted = false;
            moved = true;
          }
      }
      for (int who : phase)
        if (states[who].next < getSteps(who).size())
          return trace.cut ? success() : report(phase, who);
    }
    return trace.cut ? success() : checkShares();
  }

private:
  struct State {
    size_t next = 0;        // next step
    bool isCounted = false; // it has arrived at the barrier of the step
    int64_t meeting = 0;    // index of that barrier's phase
    int64_t turns = 0;      // number of turns taken
  };

  static constexpr const char *kRemedy = "; each warpgroup must arrive as often in rounds that it "
                                         "skips (tgpu.first_round) as in others";

  const std::vector<Step> &getSteps(int who) const { return trace.participants[who].steps; }

  /// The arrivals of a use.
  struct Arrivals {
    struct Share { // of a participant
      int who;
      int64_t count = 0, ofRole = 0; // `ofRole`: for all of its role
      Operation *last = nullptr;
    };
    int64_t all = 0;
    llvm::SmallVector<Share, 4> shares;
  };

  bool isComplete(AllocBarriersOp allocation, int64_t use) {
    auto declared = static_cast<int64_t>(allocation.getArrivals());
    return use < 0 || arrivals[{allocation, use}].all >= declared;
  }

  void arrive(int who, const Step &step, AllocBarriersOp allocation) {
    auto arrival = dyn_cast<ArriveOp>(step.op);
    bool isOfRole = !arrival || arrival.getPer() == ArriveScope::Role;
    // One arrival per role is made by the first warpgroup.
    if (isOfRole && trace.participants[who].warpgroup != 0)
      return;
    int64_t count = countArrivals(step.op, trace.participants[who].warps);
    Arrivals &known = arrivals[{allocation, step.use}];
    auto *own = llvm::find_if(known.shares, [&](auto &share) { return share.who == who; });
    if (own == known.shares.end()) {
      known.shares.push_back({who});
      own = &known.shares.back();
    }
    known.all += count;
    (isOfRole ? own->ofRole : own->count) += count;
    own->last = step.op;
  }

  /// Arrives at a named barrier. Returns whether the participant can continue.
  bool meet(int who, Value named, bool waits) {
    auto declared = named.getDefiningOp<NamedBarrierOp>();
    if (declared.getPerWarpgroup()) // waits for no other participant
      return true;
    auto warps = static_cast<int64_t>(declared.getWarps());
    State &state = states[who];
    int64_t &come = meetings[getNamedBarrier(declared)];
    if (!state.isCounted) {
      state.isCounted = true;
      state.meeting = come / warps;
      come += trace.participants[who].warps;
    }
    return !waits || come >= (state.meeting + 1) * warps;
  }

  /// Executes the next step. Returns false if the participant must wait.
  bool goOn(int who) {
    const Participant &participant = trace.participants[who];
    const Step &step = participant.steps[states[who].next];
    Operation *op = step.op;
    if (auto sync = dyn_cast<SyncOp>(op))
      return !sync.getBarrier() || meet(who, sync.getBarrier(), /*waits=*/true);
    if (auto any = dyn_cast<AnyOp>(op))
      return !any.getBarrier() || meet(who, any.getBarrier(), /*waits=*/true);
    if (auto signal = dyn_cast<SignalOp>(op))
      return meet(who, signal.getBarrier(), /*waits=*/false);
    if (isa<TakeTurnOp, PassTurnOp>(op)) {
      if (participant.warps != Target::warpsOfGroup) // the warpgroups are one participant
        return true;
      auto turns = op->getOperand(0).getDefiningOp<TurnsOp>();
      int64_t &passed = turnsPassed[turns];
      if (isa<PassTurnOp>(op)) {
        ++passed;
        return true;
      }
      auto groups = static_cast<int64_t>(turns.getWarpgroups());
      if (passed != states[who].turns * groups + participant.warpgroup)
        return false;
      ++states[who].turns;
      return true;
    }
    AllocBarriersOp allocation = getAllocation(op);
    if (!allocation)
      return true;
    if (isa<WaitOp>(op))
      return isComplete(allocation, step.use);
    if (isa<AcquireOp>(op))
      return isComplete(allocation, step.use - getStages(allocation));
    if (isa<ArriveOp, ExpectOp>(op))
      arrive(who, step, allocation);
    return true;
  }

  /// A phase that has more arrivals than declared ends while warpgroups that have yet to arrive use
  /// the slot. Reported is the warpgroup that arrived most often.
  LogicalResult checkCount(const Step &step, AllocBarriersOp allocation) {
    const Arrivals &known = arrivals[{allocation, step.use}];
    auto declared = static_cast<int64_t>(allocation.getArrivals());
    if (known.all <= declared)
      return success();
    const Arrivals::Share &most = *llvm::max_element(
        known.shares, [](const auto &a, const auto &b) { return a.count < b.count; });
    InFlightDiagnostic diagnostic = most.last->emitOpError();
    diagnostic << "makes " << most.count + most.ofRole << " arrivals for use " << step.use << " in "
               << trace.participants[most.who].name << ", and all warps make " << known.all
               << ", but the barriers were declared for " << declared << kRemedy;
    diagnostic.attachNote(allocation.getLoc()) << "the barriers";
    return diagnostic;
  }

  /// A warpgroup that arrives in the place of another one ends a phase while that one uses the
  /// slot.
  LogicalResult checkShares() {
    for (const auto &[place, known] : arrivals)
      for (const Arrivals::Share &share : known.shares) {
        int first = share.who - static_cast<int>(trace.participants[share.who].warpgroup);
        for (int who = first, end = static_cast<int>(states.size());
             who < end && trace.participants[who].warpgroup == who - first; ++who) {
          const auto *other =
              llvm::find_if(known.shares, [&](const auto &share) { return share.who == who; });
          int64_t count = other == known.shares.end() ? 0 : other->count;
          if (count >= share.count)
            continue;
          InFlightDiagnostic diagnostic = share.last->emitOpError();
          diagnostic << "must make as many arrivals for use " << place.second
                     << " in all warpgroups, but got " << share.count << " in "
                     << trace.participants[share.who].name << " and " << count << " in "
                     << trace.participants[who].name << kRemedy;
          diagnostic.attachNote(place.first->getLoc()) << "the barriers";
          return diagnostic;
        }
      }
    return success();
  }

  /// Arrivals must belong to the current phase of the barrier: the slot's previous use is complete.
  LogicalResult checkPhase(int who) {
    const Step &step = getSteps(who)[states[who].next];
    AllocBarriersOp allocation = getAllocation(step.op);
    if (!allocation || !isa<ArriveOp, ExpectOp>(step.op))
      return success();
    if (isComplete(allocation, step.use - getStages(allocation)))
      return checkCount(step, allocation);
    return step.op->emitOpError()
           << "reaches use " << step.use << " of its barriers in " << trace.participants[who].name
           << " before the previous use of the slot is complete, while the warpgroups of its "
              "role have different first iterations (tgpu.first_round); it must wait for the slot "
              "first";
  }

  LogicalResult report(ArrayRef<int> phase, int who) {
    // Prefer to report a warpgroup, for which others of its role wait, to a role that moves data.
    for (int other : phase)
      if (trace.participants[other].name.find("warpgroup") != std::string::npos &&
          states[other].next < getSteps(other).size()) {
        who = other;
        break;
      }
    InFlightDiagnostic diagnostic = getSteps(who)[states[who].next].op->emitOpError();
    diagnostic
        << "deadlocks in " << trace.participants[who].name
        << ", while the warpgroups of its role have different first iterations (tgpu.first_round); "
           "each must wait, arrive and take turns as often as the others, in the same order";
    for (int other : phase)
      if (other != who && states[other].next < getSteps(other).size())
        diagnostic.attachNote(getSteps(other)[states[other].next].op->getLoc())
            << trace.participants[other].name << " waits here";
    return diagnostic;
  }

  const Trace &trace;
  std::vector<State> states;
  std::map<std::pair<Operation *, int64_t>, Arrivals> arrivals; // by barriers and use
  llvm::DenseMap<NamedBarrier, int64_t> meetings;               // number of warps that have arrived
  llvm::DenseMap<Operation *, int64_t> turnsPassed;
};

} // namespace

LogicalResult sync::playWarpgroups(const Trace &trace) { return WarpgroupPlayer(trace).play(); }
