// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared declarations of tgpu-verify-sync. The pass chooses small launches (VerifySyncLaunch.cpp)
// and traces some blocks of each (VerifySyncTrace.cpp): scalars are computed
// (VerifySyncScalars.cpp), so each participant (the block, then each role) becomes a list of steps.
// A Player then executes the steps against each other and tracks two states: the barriers
// (VerifySyncBarriers.cpp), and which participant knows of which access to shared memory
// (VerifySyncMemory.cpp). Warpgroups with first iterations of their own are executed separately
// once more (VerifySyncWarpgroups.cpp).

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

/// One execution of an operation, with the places and numbers that its operands denote.
struct Step {
  mlir::Operation *op = nullptr;
  int64_t use = 0;   // use number of its barriers
  int buffer = -1;   // place of the buffer (operand b of a product), or -1
  int operandA = -1; // place of operand a of a product, or -1
  /// wgmma: its number. wgmma_wait: the numbers of the products it yields. scf.yield: the numbers
  /// of the products whose operand a is in registers that the next iteration overwrites. A turn
  /// among thread blocks (`use` is its number): the counter's view, as a number, and its indices.
  llvm::SmallVector<int64_t, 1> products;
};

/// One buffer, or one slot of a ring.
struct Place {
  mlir::Operation *allocation = nullptr;
  int64_t slot = 0;
  int64_t begin = -1, end = -1;          // bytes, if planned
  llvm::SmallVector<int, 2> overlapping; // places that share bytes with this one, including itself
};

/// Warps that execute the same steps: the block, a role, or a warpgroup of a role.
struct Participant {
  std::string name;
  int64_t warps;
  std::vector<Step> steps;
  int64_t warpgroup = 0;
};

struct Trace {
  std::vector<Place> places;
  std::vector<Participant> participants;
  /// The sets of participants that run concurrently, in order.
  std::vector<llvm::SmallVector<int>> phases;
  /// The trace was too long or met an unsupported operation: its steps are correct but incomplete.
  bool isCut = false;
  int64_t numVisited = 0; // operations
};

/// The properties of a launch that the kernel does not determine.
struct Launch {
  /// The integer arguments are a few elements; or a window that masks on both sides and keeps whole
  /// tiles between; or as large as extents.
  enum class Integers { Small, Window, Large };
  /// The relation of extents that the kernel divides by each other, or subtracts from each other.
  enum class Relation { Equal, More, Less };

  bool answer;          // the value of data-dependent conditions
  bool hasPartialTiles; // extents end within a tile
  Integers integers;
  Relation relation;
  bool hasOptional = true; // optional arguments are present
  bool hasFewRows = false; // the last partial tile has one row, so other warpgroups have none
};
/// Whether the kernel depends on `integers`.
bool takesIntegers(KernelOp kernel);
bool takesOptional(KernelOp kernel);

/// The extents, integers and grid of a launch.
class LaunchShape {
public:
  LaunchShape(KernelOp kernel, const Launch &launch);

  bool isAbsent(mlir::Value argument) const { return absent.contains(argument); }
  /// The extent of a view argument; 0 if it is absent or must be empty.
  int64_t getExtent(mlir::Value argument, int64_t dim) const;
  /// The extent of dimensions along which tiles lie.
  int64_t getLongExtent() const { return longExtent; }
  /// The value of every integer argument.
  int64_t getInteger() const { return integer; }
  llvm::ArrayRef<int64_t> getGrid() const { return grid; }
  /// The ids of the first, middle and last blocks.
  std::vector<llvm::SmallVector<int64_t>> getBlocks() const;

private:
  /// Computes the grid; false if it has no blocks.
  bool setGrid(KernelOp kernel);
  void findTiles(KernelOp kernel);
  void noteTile(mlir::Value view, llvm::ArrayRef<int64_t> shape,
                std::optional<llvm::ArrayRef<int64_t>> dims);
  void noteExtent(int64_t ofTile);
  void relate(KernelOp kernel, Launch::Relation relation);

  int64_t longExtent = 0, integer = 0, stages = 1, largestTile = 16;
  int64_t smallestTile = std::numeric_limits<int64_t>::max();
  llvm::SmallVector<int64_t> grid;
  llvm::DenseSet<std::pair<mlir::Value, int64_t>> longDims;
  llvm::DenseSet<mlir::Value> accessed, absent, empty;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, int64_t> changed;
};

/// `apart`: warpgroups with separate first iterations are separate participants.
Trace traceKernel(KernelOp kernel, const LaunchShape &shape, llvm::ArrayRef<int64_t> block,
                  bool answer, bool apart = false);

/// The scalars of a launch: integers, or for other values numbers that identify them. Integers are
/// computed. Data is not; conditions on data all have the truth value `answer`.
class Scalars {
protected:
  Scalars(const LaunchShape &shape, bool answer) : shape(shape), answer(answer) {}

  void set(mlir::Value value, int64_t number);
  void assign(mlir::ValueRange to, llvm::ArrayRef<int64_t> numbers);
  int64_t get(mlir::Value value) const { return values.lookup(value); }
  llvm::SmallVector<int64_t> get(mlir::ValueRange range) const;
  /// Sets the results of an operation without steps and regions.
  void compute(mlir::Operation &op);

  const LaunchShape &shape;
  const bool answer;

private:
  int64_t getExtent(mlir::Value view, int64_t dim);
  int64_t getExtentOfWhole(mlir::Value view, int64_t dim,
                           llvm::SmallVectorImpl<tile::SubviewOp> &parts);

  llvm::DenseMap<mlir::Value, int64_t> values;
};

/// The events that a participant knows to have happened: for each participant the number of steps
/// done by all of its warps, and by its first thread; and the TMA copies that have arrived.
struct Knowledge {
  struct Progress {
    int64_t all = 0, first = 0;
  };
  llvm::SmallVector<Progress> of;
  llvm::BitVector arrived;

  void merge(const Knowledge &other);
};

/// Executes a trace and stops at the first error.
class Player {
public:
  Player(KernelOp kernel, const Trace &trace, bool deliversEarly);
  mlir::LogicalResult play();

private:
  enum class Outcome { Done, Blocked, Error };

  /// An access of a step to a place.
  struct Access {
    mlir::Operation *op = nullptr;
    int who = 0;
    int64_t time = 0;
    bool byFirst = false;   // by the participant's first thread
    bool isPending = false; // its end is not known yet
    bool isOperandA = false;
    int64_t copy = -1;     // number of the TMA copy
    int64_t fence = -1;    // time of the writer's proxy fence
    uint32_t fencedBy = 0; // others with a proxy fence after they knew of the access
  };
  struct PlaceState {
    int write = -1; // index into `accesses`
    llvm::SmallVector<int, 4> reads;
  };
  /// Accesses that end together.
  using Group = llvm::SmallVector<int, 4>;
  struct Groups {
    Group open;
    std::deque<Group> closed; // committed, unfinished
  };
  struct State {
    size_t next = 0; // next step
    Knowledge knows;
    int64_t synced = 0;        // the time up to which all of its warps know of each other
    int64_t syncedByGroup = 0; // and up to which those of each warpgroup do
    Groups copies, stores, products;
    int64_t numProductGroups = 0;
    llvm::DenseMap<int64_t, int64_t> groupOfProduct;
    llvm::SmallVector<int64_t, 4> openProducts;
    llvm::DenseMap<int64_t, mlir::Operation *> startedProducts; // by product number
    bool isMet = false; // the barrier at which it waits has completed
    llvm::DenseMap<mlir::Operation *, mlir::Operation *> turns; // held -> operation that took it
    const Step *ownTurn = nullptr; // the awaited turn among thread blocks
    // The last store or addition of each group, and of the open group, that may not be complete in
    // global memory.
    std::deque<mlir::Operation *> bulkWrites;
    mlir::Operation *openBulkWrite = nullptr;
  };

  //===--- VerifySyncMemory.cpp ---===//
  /// Whether `access` has ended before the next action of `who`, and `who` knows that.
  /// `op`: the action, if it accesses the same place.
  bool isBehind(const Access &access, int who, bool byFirst, mlir::Operation *op = nullptr) const;
  /// Whether each warpgroup of the participant accesses the rows of the buffer that belong to it.
  bool isOfOwnRows(mlir::Operation *op, int who) const;
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
    int64_t completed = 0;                             // number of phases
    int64_t missing = 0;                               // arrivals that the phase lacks
    int64_t expected = 0, delivered = 0, underWay = 0; // bytes of the phase
    mlir::Operation *expect = nullptr, *load = nullptr;
    Knowledge arriving, published;
  };
  struct Meeting { // warps at a named barrier
    int64_t warps = 0;
    llvm::SmallVector<int, 4> who, waiting;
    Knowledge arriving;
  };
  struct Flight {
    AllocBarriersOp allocation;
    int64_t use, bytes, copy;
  };

  Barrier &getBarrier(AllocBarriersOp allocation, int64_t use);
  /// The knowledge that an arrival of `who` publishes.
  Knowledge publish(int who, bool byAll) const;
  mlir::LogicalResult arrive(int who, const Step &step, AllocBarriersOp allocation, int64_t count,
                             bool byAll);
  mlir::LogicalResult startFlight(int who, const Step &step, AllocBarriersOp allocation,
                                  int64_t bytes, int64_t copy);
  mlir::LogicalResult deliver(Flight flight);
  mlir::LogicalResult completePhase(Barrier &barrier, AllocBarriersOp allocation);
  /// Returns the barrier if its current phase is that of the use.
  mlir::FailureOr<Barrier *> getBarrierInPhase(const Step &step, AllocBarriersOp allocation);
  int64_t getNow(int who) const { return static_cast<int64_t>(states[who].next) + 1; }
  Outcome waitFor(int who, const Step &step, AllocBarriersOp allocation, bool forRelease);
  Outcome meet(int who, const Step &step, mlir::Value named, bool waits);
  mlir::LogicalResult turn(int who, const Step &step, bool takes);
  mlir::LogicalResult awaitTurn(int who, const Step &step);
  mlir::LogicalResult endTurn(int who, const Step &step);
  Outcome playBarrier(int who, const Step &step);
  mlir::LogicalResult playPhase(llvm::ArrayRef<int> who);
  /// Reports why all remaining participants wait.
  mlir::LogicalResult reportDeadlock(llvm::ArrayRef<int> stuck);
  bool explain(int who, bool mustBeSure);
  /// The number of arrivals at the barrier of a use that participants have still to execute.
  int64_t countComing(AllocBarriersOp allocation, int64_t use) const;

  KernelOp kernel;
  const Trace &trace;
  bool deliversEarly; // whether bytes of copies arrive as early as possible, or as late
  std::vector<State> states;
  std::vector<Access> accesses;
  std::vector<PlaceState> memory;
  llvm::DenseMap<mlir::Operation *, std::vector<Barrier>> barriers;
  llvm::DenseMap<mlir::Operation *, Meeting> meetings;
  std::deque<Flight> flights;
  int64_t numCopies = 0;
};

/// Whether each warpgroup of a role whose warpgroups have different first iterations terminates,
/// not only the role as a whole. Covers only barriers and turns (VerifySyncWarpgroups.cpp).
mlir::LogicalResult playWarpgroups(const Trace &trace);

/// The allocation of a step's barriers, or null; and the number of uses after which a barrier
/// recurs.
AllocBarriersOp getAllocation(mlir::Operation *op);
int64_t getStages(AllocBarriersOp allocation);

/// The number of arrivals of a step executed by that many warps; 0 for other operations.
int64_t countArrivals(mlir::Operation *op, int64_t warps);

} // namespace tilewright::tgpu::sync

#endif // TILEWRIGHT_PASSES_TGPU_VERIFYSYNC_H
