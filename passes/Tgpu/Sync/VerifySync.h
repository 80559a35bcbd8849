// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared declarations of tgpu-verify-sync. The pass chooses small launches (VerifySyncLaunch.cpp)
// and traces some blocks of each (VerifySyncTrace.cpp): scalars are computed
// (VerifySyncScalars.cpp), so each participant (the block, then each role) becomes a list of steps.
// Coverage (VerifySyncCoverage.cpp) records what the traces execute, and further launches are
// derived until every loop and branch was executed in each way (VerifySyncSearch.cpp). A Player
// then executes the steps against each other and tracks two states: the barriers
// (VerifySyncBarriers.cpp), and which participant knows of which access to shared memory
// (VerifySyncMemory.cpp). Warpgroups with first iterations of their own are executed separately
// once more (VerifySyncWarpgroups.cpp).

#ifndef TILEWRIGHT_PASSES_TGPU_SYNC_VERIFYSYNC_H
#define TILEWRIGHT_PASSES_TGPU_SYNC_VERIFYSYNC_H

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Tgpu/Sync/SyncCoverage.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"

#include <deque>
#include <limits>
#include <memory>
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

/// Why a trace is incomplete; its steps are correct.
struct Cut {
  mlir::Operation *op = nullptr; // that was not followed, or null if the trace is complete
  const char *reason = nullptr;
  bool isLength = false; // it has too many operations

  explicit operator bool() const { return op != nullptr; }
};

struct Trace {
  std::vector<Place> places;
  std::vector<Participant> participants;
  /// The sets of participants that run concurrently, in order.
  std::vector<llvm::SmallVector<int>> phases;
  Cut cut;
  int64_t numVisited = 0; // operations
  /// Identify the ways in which loops and branches were executed; see Coverage.
  std::vector<size_t> ways;
};

/// An operation on integers, or any other operation.
enum class ScalarKind : uint8_t {
  Other,
  Same,
  Select,
  Add,
  Sub,
  Mul,
  And,
  Or,
  Xor,
  MinS,
  MaxS,
  MinU,
  MaxU,
  Compare,
  DivS,
  RemS,
  DivU,
  RemU,
  CeilDivS,
  CeilDivU,
  FloorDivS,
  ShiftLeft,
  ShiftRightS,
  ShiftRightU,
  ExtendU
};

/// An operation that a trace visits; for one on integers, with the places of its values.
struct SlicedOp {
  mlir::Operation *op = nullptr;
  ScalarKind kind = ScalarKind::Other;
  uint8_t predicate = 0;                 // of a comparison
  unsigned width = 64, resultWidth = 64; // of the first operand, and of the result
  unsigned result = 0;
  unsigned operands[3] = {0, 0, 0};
};

/// The operations that a trace visits, by block: those on which a step depends, without constants.
/// The values that a trace computes are numbered.
class Slice {
public:
  explicit Slice(KernelOp kernel);
  llvm::ArrayRef<SlicedOp> getOps(mlir::Block &block) const { return ops.find(&block)->second; }
  /// The place of a value in the numbers of a trace; 0 if the trace does not compute it.
  unsigned getPlace(mlir::Value value) const { return places.lookup(value); }
  /// The numbers before the first operation: those of constants.
  llvm::ArrayRef<int64_t> getNumbers() const { return numbers; }

private:
  void number(mlir::Block &block);
  void add(mlir::Block &block, mlir::Operation &op);
  unsigned addPlace(mlir::Value value);

  llvm::DenseMap<mlir::Block *, std::vector<SlicedOp>> ops;
  llvm::DenseMap<mlir::Value, unsigned> places;
  std::vector<int64_t> numbers = {0};
};

/// What traces have executed of a kernel. A way of executing a loop is its number of rounds (0, 1,
/// 2, or more), together with that of the loop before it in the same block, whether the enclosing
/// loop was in its first round, and the answers of its votes; that of a branch is the region taken.
/// Loops and branches without synchronization or access to shared memory do not count.
class Coverage {
public:
  explicit Coverage(KernelOp kernel);

  /// More rounds of a loop than this are the same way.
  static constexpr int64_t kMostRounds = 3;
  /// Identifies a way: the rounds of a loop or the side of a branch, and a second number.
  static size_t getWay(mlir::Operation *op, int64_t first, int64_t second,
                       mlir::Operation *before = nullptr) {
    return llvm::hash_combine(op, first, second, before);
  }

  bool counts(mlir::Operation *loopOrBranch) const { return counted.contains(loopOrBranch); }
  bool votes(mlir::Operation *loop) const { return voting.contains(loop); }
  /// Adds a trace. Returns whether it has a way that no other had, or one of the first two
  /// executions of a synchronization.
  bool add(const Trace &trace);
  void addReached(const Trace &trace);
  bool isReached(mlir::Operation *op) const { return executions.contains(op); }
  bool hasSynchronization() const { return !synchronizations.empty(); }
  /// Whether every synchronization of blocks with a matrix product was executed twice.
  bool hasProductsTwice() const;
  /// Whether every synchronization was executed.
  bool hasAll() const;
  /// The synchronization that was not executed; of each block, the first.
  llvm::SmallVector<UncheckedSync> findUnreached() const;

private:
  llvm::DenseSet<mlir::Operation *> counted, voting;
  llvm::SmallVector<mlir::Operation *> synchronizations;
  llvm::SetVector<mlir::Operation *> besideProducts;
  llvm::DenseMap<mlir::Operation *, int64_t> executions;
  llvm::DenseSet<size_t> ways;
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
  int64_t number = 0;      // the elements of arrays that findNumbers finds
};
/// Whether the kernel depends on `integers`.
bool takesIntegers(KernelOp kernel);
bool takesOptional(KernelOp kernel);

/// The tiles along a dimension of an argument.
struct TilesOfDim {
  int64_t smallest = std::numeric_limits<int64_t>::max(), largest = 0;
};
using TiledDims = llvm::DenseMap<std::pair<mlir::Value, int64_t>, TilesOfDim>;

/// An array of a launch: an argument of the kernel, or a capture by its name. Each role has views
/// of its own of a capture, so a view does not identify one.
struct ArrayRoot {
  mlir::Value view; // null for a capture
  llvm::StringRef capture;
};
ArrayRoot getArrayRoot(mlir::Value view);
/// The arguments whose elements are read at constant indices alone: these are numbers, not offsets
/// of sequences or lists.
llvm::DenseSet<mlir::Value> findNumbers(KernelOp kernel);

/// The values of conditions that depend on data.
struct Answers {
  /// In mixed launches, votes differ between the rounds of a loop.
  enum class Votes { True, False, Mixed };

  bool onData = true;
  Votes ofVotes = Votes::True;

  static Answers all(bool value) { return {value, value ? Votes::True : Votes::False}; }
};

/// What the control flow of a kernel depends on.
class LaunchData {
public:
  virtual ~LaunchData() = default;
  virtual bool isAbsent(mlir::Value argument) const = 0;
  /// The extent of an array; 0 if it is absent or must be empty.
  virtual int64_t getExtent(const ArrayRoot &array, int64_t dim) const = 0;
  virtual int64_t getInteger(mlir::Value argument) const = 0;
  /// An element of an array of integers, or the value of a captured integer.
  virtual int64_t getElement(const ArrayRoot &array, llvm::ArrayRef<int64_t> indices) const = 0;
  virtual llvm::ArrayRef<int64_t> getGrid() const = 0;
};

/// The extents, integers and grid of a launch.
class LaunchShape : public LaunchData {
public:
  LaunchShape(KernelOp kernel, const Launch &launch);

  bool isAbsent(mlir::Value argument) const override { return absent.contains(argument); }
  int64_t getExtent(const ArrayRoot &array, int64_t dim) const override;
  /// The same for every integer argument.
  int64_t getInteger(mlir::Value) const override { return integer; }
  int64_t getElement(const ArrayRoot &array, llvm::ArrayRef<int64_t> indices) const override;
  llvm::ArrayRef<int64_t> getGrid() const override { return grid; }
  /// The ids of the first, middle and last blocks.
  std::vector<llvm::SmallVector<int64_t>> getBlocks() const;

private:
  /// Computes the grid; false if it has no blocks.
  bool setGrid(KernelOp kernel);
  void relate(KernelOp kernel, Launch::Relation relation);

  /// The extent of dimensions along which tiles lie.
  int64_t longExtent = 0;
  int64_t integer = 0, largestTile = 16;
  int64_t smallestTile = std::numeric_limits<int64_t>::max();
  llvm::SmallVector<int64_t> grid;
  TiledDims tiled;
  llvm::DenseSet<mlir::Value> accessed, absent, empty, numbers;
  int64_t number = 0; ///< the elements of `numbers`
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, int64_t> changed;
};

/// The dimensions of views along which tiles lie. Only dynamic extents have tiles.
TiledDims findTiledDims(KernelOp kernel, llvm::DenseSet<mlir::Value> &accessed);
/// The largest number of stages of a ring.
int64_t getMostStages(KernelOp kernel);

/// Launches that the loops of a kernel are searched with: `Genes` are numbers from which all
/// extents, integers and elements follow such that the constraints of the kernel, or of the program
/// that launches it, hold.
class LaunchSpace {
public:
  using Genes = llvm::SmallVector<uint32_t, 32>;
  class Derived;
  struct Impl; // VerifySyncSpace.h

  explicit LaunchSpace(KernelOp kernel);
  ~LaunchSpace();
  size_t getNumGenes() const;
  /// Null if the constraints do not hold, or there is no block.
  std::unique_ptr<Derived> derive(llvm::ArrayRef<uint32_t> genes) const;

private:
  std::unique_ptr<Impl> impl;
};

class LaunchSpace::Derived : public LaunchData {
public:
  bool isAbsent(mlir::Value argument) const override { return absent.contains(argument); }
  int64_t getExtent(const ArrayRoot &array, int64_t dim) const override;
  int64_t getInteger(mlir::Value argument) const override { return integers.lookup(argument); }
  int64_t getElement(const ArrayRoot &array, llvm::ArrayRef<int64_t> indices) const override;
  llvm::ArrayRef<int64_t> getGrid() const override { return grid; }

  /// Elements as a function of their last index.
  struct Table {
    uint32_t kind = 0;
    int64_t number = 0, longest = 0, fewBlocks = 0;
  };
  Answers answers;
  llvm::SmallVector<llvm::SmallVector<int64_t>, 2> blocks;
  llvm::SmallVector<int64_t> grid;
  llvm::DenseSet<mlir::Value> absent;
  llvm::DenseMap<mlir::Value, int64_t> integers;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int64_t>> extents;
  llvm::DenseMap<mlir::Value, Table> tables;
  llvm::StringMap<llvm::SmallVector<int64_t>> captureExtents;
  llvm::StringMap<Table> captureTables;
};

constexpr int64_t kMostOperations = 1000000;
struct TraceOptions {
  /// Warpgroups with separate first iterations are separate participants.
  bool apart = false;
  const Coverage *coverage = nullptr; ///< whose ways are recorded
  /// A trace of more is cut.
  int64_t mostOperations = kMostOperations;
  /// The result of this operation on integers, or null, is raised by `raisedBy` each time.
  mlir::Operation *forced = nullptr;
  int64_t raisedBy = 0;
};
Trace traceKernel(KernelOp kernel, const Slice &slice, const LaunchData &launch,
                  llvm::ArrayRef<int64_t> block, Answers answers, const TraceOptions &options = {});

/// The scalars of a launch: integers, or for other values numbers that identify them. Integers are
/// computed. Data is not; conditions on data all have the truth value `answer`.
class Scalars {
protected:
  Scalars(const Slice &slice, const LaunchData &launch, Answers answers)
      : slice(slice), launch(launch), answers(answers), numbers(slice.getNumbers()) {}

  void set(mlir::Value value, int64_t number);
  void assign(mlir::ValueRange to, llvm::ArrayRef<int64_t> numbers);
  int64_t get(mlir::Value value) const { return numbers[slice.getPlace(value)]; }
  /// Computes an operation on integers.
  void compute(const SlicedOp &op);
  void raise(const SlicedOp &op, int64_t by);
  llvm::SmallVector<int64_t> get(mlir::ValueRange range) const;
  /// Sets the results of an operation without steps and regions.
  void compute(mlir::Operation &op);

  const Slice &slice;
  const LaunchData &launch;
  const Answers answers;

private:
  int64_t getElement(tile::AtOp at);
  int64_t getExtent(mlir::Value view, int64_t dim);
  int64_t getExtentOfWhole(mlir::Value view, int64_t dim,
                           llvm::SmallVectorImpl<tile::SubviewOp> &parts);

  std::vector<int64_t> numbers;
};

/// The events that a participant knows to have happened: for each participant the number of steps
/// done by all of its warps, and by its first thread; the TMA copies that have arrived; and for
/// each barrier the number of complete phases, which a wait observes.
struct Knowledge {
  struct Progress {
    int64_t all = 0, first = 0;
  };
  llvm::SmallVector<Progress> of;
  llvm::BitVector arrived;
  llvm::SmallVector<int64_t, 0> phases;

  void merge(const Knowledge &other);
};

/// Identifies a named barrier: declarations of one id are the same one.
using NamedBarrier = std::pair<mlir::Operation *, int64_t>;
NamedBarrier getNamedBarrier(mlir::Value declared);

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
    int64_t copy = -1; // number of the TMA copy
  };
  /// The first proxy fence of a participant after a write. Of a writer that does not know of its
  /// other warps, each thread fences what it has written itself.
  struct Fence {
    int who;
    int64_t time;
    bool knewAll;
  };
  struct PlaceState {
    int write = -1;                     // index into `accesses`
    llvm::SmallVector<Fence, 2> fences; // of the write
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
  /// Whether a proxy fence lies between the last write to the place and the next action of `who`.
  bool isFenced(const PlaceState &state, int who, bool byFirst, mlir::Operation *op) const;
  bool isSameThread(const Access &access, int who, mlir::Operation *op) const;
  mlir::LogicalResult playProduct(int who, const Step &step);
  mlir::LogicalResult playProductWait(int who, const Step &step);
  mlir::LogicalResult playYield(int who, const Step &step);
  mlir::LogicalResult playMemory(int who, const Step &step);
  mlir::LogicalResult checkEnd(int who);
  /// A phase in which all participants that use a barrier have arrived, but too few times, does no
  /// harm only because no wait for it follows.
  mlir::LogicalResult checkPhases();
  std::string describe(int place) const;
  mlir::InFlightDiagnostic report(mlir::Operation *op, const Access &other, const char *note);

  //===--- VerifySyncBarriers.cpp ---===//
  struct Barrier {
    int64_t completed = 0;                             // number of phases
    int64_t missing = 0;                               // arrivals that the phase lacks
    int64_t expected = 0, delivered = 0, underWay = 0; // bytes of the phase
    mlir::Operation *expect = nullptr, *load = nullptr;
    const Step *arrival = nullptr; // the last one
    llvm::SmallBitVector arrived;  // participants, in this phase
    Knowledge arriving, published;
    size_t number = 0; // of all barriers
    /// The participants of one warp that alone arrived for this phase, and for the one before.
    static constexpr int none = -1, several = -2;
    int arriver = none, arrivedBefore = none;
  };
  struct Meeting { // warps at a named barrier
    int64_t warps = 0;
    llvm::SmallVector<int, 4> who, waiting;
    Knowledge arriving;
    llvm::SmallVector<Access, 4> arrivals, previous; // of this phase, and of the one before
  };
  struct Flight {
    AllocBarriersOp allocation;
    int64_t use, bytes, copy;
  };

  Barrier &getBarrier(AllocBarriersOp allocation, int64_t use);
  /// Whether `who` knows that all of these arrivals have happened; else the first that it does not.
  const Access *findUnknown(llvm::ArrayRef<Access> arrivals, int who, bool byFirst) const;
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
  mlir::LogicalResult checkTurnAtBarrier(int who, const Step &step);
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
  llvm::DenseMap<NamedBarrier, Meeting> meetings;
  std::deque<Flight> flights;
  int64_t numCopies = 0;
  size_t numBarriers = 0;
};

bool isSynchronization(mlir::Operation &op);

/// Executes launches of a kernel. `coverage` gets what they execute, `cut` the first place that
/// could not be followed. Fails with a diagnostic at the first error.
mlir::LogicalResult verifyLaunches(KernelOp kernel, Coverage &coverage, Cut &cut);

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

#endif // TILEWRIGHT_PASSES_TGPU_SYNC_VERIFYSYNC_H
