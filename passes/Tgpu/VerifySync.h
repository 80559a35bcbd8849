// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the parts of tgpu-verify-sync share. Small launches are chosen (VerifySyncLaunch.cpp). A
// block of one is first traced (VerifySyncTrace.cpp): scalars are computed, so each participant
// (the block, then each role) becomes a list of steps. Then the steps are played against each other
// (Player), which keeps two things: what barriers hold (VerifySyncBarriers.cpp) and who knows of
// which access to shared memory (VerifySyncMemory.cpp). Warpgroups with rounds of their own are
// played apart once more (VerifySyncWarpgroups.cpp).

#ifndef TILEWRIGHT_PASSES_TGPU_VERIFYSYNC_H
#define TILEWRIGHT_PASSES_TGPU_VERIFYSYNC_H

#include "dialect/Tgpu/Tgpu.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace tilewright::tgpu::sync {

/// An operation that is executed once, with what its operands stand for.
struct Step {
  mlir::Operation *op = nullptr;
  int64_t use = 0;   // of its barriers
  int buffer = -1;   // place of the buffer (a product's b), where it has one
  int operandA = -1; // place of a product's a
  /// wgmma: its own number. wgmma_wait: those of the products it yields. scf.yield: those whose
  /// operand a lies in registers that the next round gives another value. A turn of the block
  /// (whose number is `use`): the counter, as a number for its view, and its indices.
  llvm::SmallVector<int64_t, 1> products;
};

/// One buffer, or one slot of a ring.
struct Place {
  mlir::Operation *allocation = nullptr;
  int64_t slot = 0;
  int64_t begin = -1, end = -1;          // bytes, once planned
  llvm::SmallVector<int, 2> overlapping; // places of the same bytes, itself among them
};

/// Warps that execute the same steps: the block, or a role; or a warpgroup of a role.
struct Participant {
  std::string name;
  int64_t warps;
  std::vector<Step> steps;
  int64_t warpgroup = 0;
};

struct Trace {
  std::vector<Place> places;
  std::vector<Participant> participants;
  /// Which participants run at the same time; one such set after the other.
  std::vector<llvm::SmallVector<int>> phases;
  /// Too long, or not understood: what was traced is right, but more would follow.
  bool isCut = false;
  int64_t numVisited = 0; // operations
};

/// What is left open by the kernel.
struct Launch {
  /// Integers among the arguments: those of a few elements; a window that leaves out something on
  /// both sides, and keeps whole tiles between; as large as extents.
  enum class Integers { Small, Window, Large };
  /// Extents that the kernel divides by each other, or subtracts from each other.
  enum class Relation { Equal, More, Less };

  bool answer;          // of conditions on data
  bool hasPartialTiles; // extents end within a tile
  Integers integers;
  Relation relation;
  bool hasOptional = true; // arguments that may be absent are there
  bool hasFewRows = false; // the last partial tile is of one row: other warpgroups have none
};
/// Whether `integers` means something.
bool takesIntegers(KernelOp kernel);
bool takesOptional(KernelOp kernel);

/// What a launch gives a kernel.
class LaunchShape {
public:
  LaunchShape(KernelOp kernel, const Launch &launch);

  bool isAbsent(mlir::Value argument) const { return absent.contains(argument); }
  /// Of an argument that is a view; 0 where it is absent.
  int64_t getExtent(mlir::Value argument, int64_t dim) const;
  /// Of dimensions that tiles run along.
  int64_t getLongExtent() const { return longExtent; }
  /// Every integer among the arguments.
  int64_t getInteger() const { return integer; }
  llvm::ArrayRef<int64_t> getGrid() const { return grid; }
  /// The numbers of the first, middle and last blocks.
  std::vector<llvm::SmallVector<int64_t>> getBlocks() const;

private:
  void findTiles(KernelOp kernel);
  void noteTile(mlir::Value view, llvm::ArrayRef<int64_t> shape,
                std::optional<llvm::ArrayRef<int64_t>> dims);
  void noteExtent(int64_t ofTile);
  void relate(KernelOp kernel, Launch::Relation relation);

  int64_t longExtent = 0, integer = 0, stages = 1, largestTile = 16;
  int64_t smallestTile = std::numeric_limits<int64_t>::max();
  llvm::SmallVector<int64_t> grid;
  llvm::DenseSet<std::pair<mlir::Value, int64_t>> longDims;
  llvm::DenseSet<mlir::Value> accessed, absent;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, int64_t> changed;
};

/// `apart`: warpgroups of roles that have first rounds of their own are participants.
Trace traceKernel(KernelOp kernel, const LaunchShape &shape, llvm::ArrayRef<int64_t> block,
                  bool answer, bool apart = false);

/// The result of an operation of arith on integers, sign-extended as `a` and `b` are (the one
/// operand twice, if there is one); none where it has none, such as of a division by zero, or is
/// not known here.
std::optional<int64_t> evaluateScalar(mlir::Operation *op, int64_t a, int64_t b);

/// What a participant knows to have happened. Of a participant, the number of steps done: by all of
/// its warps, and by its first thread alone. Of copies by TMA, which have arrived.
struct Knowledge {
  struct Progress {
    int64_t all = 0, first = 0;
  };
  llvm::SmallVector<Progress> of;
  llvm::BitVector arrived;

  void merge(const Knowledge &other);
};

/// Plays a trace; stops at the first error.
class Player {
public:
  Player(KernelOp kernel, const Trace &trace, bool deliversEarly);
  mlir::LogicalResult play();

private:
  enum class Outcome { Done, Blocked, Error };

  /// What a step did to a place.
  struct Access {
    mlir::Operation *op = nullptr;
    int who = 0;
    int64_t time = 0;
    bool byFirst = false;   // by the first thread of the participant
    bool isPending = false; // it is not known when it ends
    bool isOperandA = false;
    int64_t copy = -1;     // number of a copy by TMA
    int64_t fence = -1;    // when the writer has fenced it
    uint32_t fencedBy = 0; // others that have fenced it after they knew of it
  };
  struct PlaceState {
    int write = -1; // into accesses
    llvm::SmallVector<int, 4> reads;
  };
  /// Accesses that end together.
  using Group = llvm::SmallVector<int, 4>;
  struct Groups {
    Group open;
    std::deque<Group> closed; // unfinished
  };
  struct State {
    size_t next = 0; // step
    Knowledge knows;
    int64_t synced = 0; // what all of its warps know of each other
    Groups copies, stores, products;
    int64_t numProductGroups = 0;
    llvm::DenseMap<int64_t, int64_t> groupOfProduct;
    llvm::SmallVector<int64_t, 4> openProducts;
    llvm::DenseMap<int64_t, mlir::Operation *> startedProducts; // by number
    bool isMet = false; // the barrier at which it waits has let it go
    llvm::DenseMap<mlir::Operation *, mlir::Operation *> turns; // taken, at
    const Step *ownTurn = nullptr;                              // of the block, awaited
    // The last addition of each group that may not have reached memory, and of the open group.
    std::deque<mlir::Operation *> additions;
    mlir::Operation *openAddition = nullptr;
  };

  //===--- VerifySyncMemory.cpp ---===//
  /// Whether `access` ended, and is known to `who`, before what it does now.
  bool isBehind(const Access &access, int who, bool byFirst) const;
  mlir::LogicalResult read(int who, const Step &step, int place, bool isAsync, bool byFirst,
                           Group *group, bool isOperandA = false);
  mlir::LogicalResult write(int who, const Step &step, int place, bool byFirst, Group *group,
                            int64_t copy = -1);
  /// Ends the oldest groups until `pending` are left.
  void finish(int who, Groups &groups, int64_t pending, bool byFirst);
  void fence(int who);
  bool isSameThread(const Access &access, int who, mlir::Operation *op) const;
  mlir::LogicalResult playProduct(int who, const Step &step);
  mlir::LogicalResult playProductWait(int who, const Step &step);
  mlir::LogicalResult playYield(int who, const Step &step);
  mlir::LogicalResult playMemory(int who, const Step &step);
  mlir::LogicalResult checkEnd(int who);
  std::string describe(int place) const;
  mlir::InFlightDiagnostic report(mlir::Operation *op, const Access &other, const char *note);

  //===--- VerifySyncBarriers.cpp ---===//
  struct Barrier {
    int64_t completed = 0;                             // phases
    int64_t missing = 0;                               // arrivals of the phase
    int64_t expected = 0, delivered = 0, underWay = 0; // bytes of the phase
    mlir::Operation *expect = nullptr, *load = nullptr;
    Knowledge arriving, published;
  };
  struct Meeting { // at a named barrier
    int64_t warps = 0;
    llvm::SmallVector<int, 4> who, waiting;
    Knowledge arriving;
  };
  struct Flight {
    AllocBarriersOp allocation;
    int64_t use, bytes, copy;
  };

  Barrier &getBarrier(AllocBarriersOp allocation, int64_t use);
  /// What others learn from an arrival of `who`.
  Knowledge publish(int who, bool byAll) const;
  mlir::LogicalResult arrive(int who, const Step &step, AllocBarriersOp allocation, int64_t count,
                             bool byAll);
  mlir::LogicalResult startFlight(int who, const Step &step, AllocBarriersOp allocation,
                                  int64_t bytes, int64_t copy);
  mlir::LogicalResult deliver(Flight flight);
  mlir::LogicalResult completePhase(Barrier &barrier, AllocBarriersOp allocation);
  /// The barrier, where it is in the phase of the use.
  mlir::FailureOr<Barrier *> getBarrierInPhase(const Step &step, AllocBarriersOp allocation);
  int64_t getNow(int who) const { return static_cast<int64_t>(states[who].next) + 1; }
  Outcome waitFor(int who, const Step &step, AllocBarriersOp allocation, bool forRelease);
  Outcome meet(int who, const Step &step, mlir::Value named, bool waits);
  mlir::LogicalResult turn(int who, const Step &step, bool takes);
  mlir::LogicalResult awaitTurn(int who, const Step &step);
  mlir::LogicalResult endTurn(int who, const Step &step);
  Outcome playBarrier(int who, const Step &step);
  mlir::LogicalResult playPhase(llvm::ArrayRef<int> who);
  /// All participants that are left wait: says why.
  mlir::LogicalResult reportDeadlock(llvm::ArrayRef<int> stuck);
  bool explain(int who, bool mustBeSure);
  /// Arrivals at the barrier of a use that are still to come, over all participants.
  int64_t countComing(AllocBarriersOp allocation, int64_t use) const;

  KernelOp kernel;
  const Trace &trace;
  bool deliversEarly; // bytes of copies arrive as early, or as late, as they may
  std::vector<State> states;
  std::vector<Access> accesses;
  std::vector<PlaceState> memory;
  llvm::DenseMap<mlir::Operation *, std::vector<Barrier>> barriers;
  llvm::DenseMap<mlir::Operation *, Meeting> meetings;
  std::deque<Flight> flights;
  int64_t numCopies = 0;
};

/// Whether warpgroups of one role that have different rounds go on to their ends, and not only the
/// role as a whole: barriers and turns alone (VerifySyncWarpgroups.cpp).
mlir::LogicalResult playWarpgroups(const Trace &trace);

/// What declares the barriers of a step, or null; and how many uses go around before one comes
/// again.
AllocBarriersOp getAllocation(mlir::Operation *op);
int64_t getStages(AllocBarriersOp allocation);

/// Arrivals of one step of so many warps at its barrier; 0 of others.
int64_t countArrivals(mlir::Operation *op, int64_t warps);

} // namespace tilewright::tgpu::sync

#endif // TILEWRIGHT_PASSES_TGPU_VERIFYSYNC_H
