// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thread block: warps, shared memory, barriers, asynchronous work.
//
// Warps that execute the same code (a role, or the whole block outside of roles) form one Context:
// they compute together, but each warp has its own clock, arrivals and accesses to shared memory.
// Only one context runs at a time; it yields when it has to wait.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_MACHINE_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_MACHINE_H

#include "lib/Interpreter/Frame.h"
#include "lib/Interpreter/Simulator/Coroutine.h"
#include "lib/Interpreter/Simulator/ShadowMemory.h"
#include "lib/Interpreter/Simulator/SimulationOptions.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>
#include <memory>
#include <random>

namespace tilewright::simulator {

class Machine;
struct Context;

/// The values of a context.
struct SimulatedFrame : interpreter::Frame {
  Machine *machine = nullptr;
  Context *context = nullptr;
};

/// Asynchronous work, which is executed once, at a moment that the machine chooses.
struct Deferred {
  mlir::Operation *op;
  std::function<bool()> work;
  bool wakes = false; ///< a thread may wait for it at a barrier
  bool isDone = false;
};
using DeferredRef = std::shared_ptr<Deferred>;

/// Groups of asynchronous work that complete in order. Group numbers begin at 1.
struct GroupQueue {
  struct Item {
    Time group;
    DeferredRef work;
  };
  std::vector<Item> items; ///< unfinished
  Time committed = 0, finished = 0;
  mlir::Operation *last = nullptr; ///< the last operation that started work
  Time complete = 0;               ///< for stores: groups known to have reached memory

  Time open() const { return committed + 1; }
  bool hasOpen() const { return !items.empty() && items.back().group == open(); }
};

/// A wgmma product, and its result tile.
struct Product {
  DeferredRef work;
  Time group = 0;
  interpreter::Datum result;
};

struct Context {
  std::string name; ///< "role 'compute'"
  unsigned firstWarp = 0, numWarps = 0;
  SimulatedFrame *frame = nullptr;

  GroupQueue copies, stores, products;
  std::vector<std::shared_ptr<Product>> started; ///< indexed by values of type !tgpu.pending

  /// The warpgroup whose idle rounds are counted, or none: see IdleRoundsStep.
  std::optional<unsigned> idleGroup;

  mlir::Operation *turn = nullptr;         ///< operation that waits for a turn among blocks
  std::pair<const void *, int64_t> turnOf; ///< its counter and number

  // Set while the context waits.
  llvm::function_ref<bool()> isReady = nullptr;
  llvm::function_ref<std::string()> waitsFor = nullptr;
  mlir::Operation *waitsAt = nullptr;

  std::unique_ptr<Coroutine> coroutine; ///< coroutine of a role
};

/// Properties of a kernel that are known before it runs.
struct BlockPlan {
  unsigned warps = 0;
  int64_t sharedBytes = 0, granule = 1;
  llvm::DenseMap<mlir::Operation *, unsigned> barriers, namedBarriers; ///< first number of each
  unsigned numBarriers = 0, numNamedBarriers = 0;
};

class Machine {
public:
  Machine(const BlockPlan &plan, AsyncMoment moment, uint64_t seed, int64_t mostSteps,
          llvm::ArrayRef<int64_t> gridExtents);

  //===--- faults ---------------------------------------------------------===//

  struct Fault {
    mlir::Operation *op;
    std::string message;
    std::vector<std::pair<mlir::Operation *, std::string>> notes;
  };
  /// Records the first fault. Always returns false.
  bool fail(mlir::Operation *op, std::string message);
  void note(mlir::Operation *op, std::string message);
  const std::optional<Fault> &fault() const { return firstFault; }

  //===--- contexts -------------------------------------------------------===//

  struct Role {
    Context context;
    std::function<bool()> run;
  };
  /// Executes the roles concurrently until all have ended.
  bool runRoles(llvm::MutableArrayRef<Role> roles);
  /// Returns true once `isReady`; false if that cannot happen, or after a fault.
  bool waitUntil(Context &context, mlir::Operation *op, llvm::function_ref<bool()> isReady,
                 llvm::function_ref<std::string()> what);
  /// Lets other contexts run and asynchronous work be executed. Fails after too many steps.
  bool step(Context &context, mlir::Operation *op);
  /// Counts work that takes as long as `count` steps.
  bool countSteps(const Context &context, mlir::Operation *op, int64_t count);
  /// Reports that the context does not end, and what others wait for.
  bool failEndless(const Context &context, mlir::Operation *op, const std::string &limit);
  /// Checks that nothing is in flight when a context ends.
  bool finish(Context &context, mlir::Operation *op);

  //===--- shared memory --------------------------------------------------===//

  char *memory() { return bytes.data(); }
  /// Fills with all ones: a NaN in every float type.
  void poison(int64_t base, const Bytes &range);
  /// Accesses by the warps of a context, with the bytes of each warp.
  bool accessByWarps(Context &context, mlir::Operation *op, int64_t base,
                     llvm::ArrayRef<Bytes> byWarp, bool writes);
  bool read(Context &context, mlir::Operation *op, int64_t base, llvm::ArrayRef<Bytes> byWarp) {
    return accessByWarps(context, op, base, byWarp, /*writes=*/false);
  }
  bool write(Context &context, mlir::Operation *op, int64_t base, llvm::ArrayRef<Bytes> byWarp) {
    return accessByWarps(context, op, base, byWarp, /*writes=*/true);
  }
  bool writeByCopies(Context &context, mlir::Operation *op, int64_t base,
                     llvm::ArrayRef<Bytes> byWarp);
  /// The reads of a product; `bytes` are per warpgroup, relative to the start of the window.
  bool readByProduct(Context &context, mlir::Operation *op, llvm::ArrayRef<Bytes> byWarpgroup);
  /// TMA, issued by the warp.
  bool readByStore(Context &context, mlir::Operation *op, int64_t base, const Bytes &range,
                   unsigned warp);
  /// TMA, issued by the first warp of the context.
  bool writeByTma(Context &context, mlir::Operation *op, int64_t base, const Bytes &range,
                  unsigned barrier, int64_t phase);

  //===--- asynchronous work ----------------------------------------------===//

  DeferredRef defer(mlir::Operation *op, bool wakes, std::function<bool()> work);
  /// Starts work that completes with the open group.
  DeferredRef start(GroupQueue &queue, mlir::Operation *op, std::function<bool()> work);
  bool force(Deferred &work);
  /// Waits until at most `pending` groups are incomplete.
  bool waitForGroups(GroupQueue &queue, int64_t pending);
  bool waitForCopies(Context &context, int64_t pending);
  bool waitForStores(Context &context, int64_t pending, bool reachesMemory);
  bool waitForProducts(Context &context, int64_t pending);

  //===--- barriers -------------------------------------------------------===//

  /// From then on, no other buffer may use their words in shared memory.
  bool initialize(mlir::Operation *op, unsigned first, unsigned stages, int64_t arrivals,
                  std::optional<int64_t> offset);
  bool arrive(Context &context, mlir::Operation *op, unsigned barrier, int64_t phase, unsigned warp,
              int64_t count);
  /// Arrivals of a warpgroup in a round that it skips. They must be as many as those that it makes
  /// in the phase when it takes part.
  bool arriveIdle(mlir::Operation *op, unsigned barrier, int64_t phase, unsigned warpgroup,
                  int64_t count);
  bool expect(Context &context, mlir::Operation *op, unsigned barrier, int64_t phase,
              int64_t bytes);
  bool wait(Context &context, mlir::Operation *op, unsigned barrier, int64_t phase);
  /// Bytes of a copy that belongs to this phase.
  bool deliver(mlir::Operation *op, unsigned barrier, int64_t phase, int64_t bytes,
               const Clock &issuer);
  /// Whether bytes may be delivered to the phase.
  bool checkPhase(Context &context, mlir::Operation *op, unsigned barrier, int64_t phase,
                  unsigned warp);

  /// `count` warps of the context from `first` on arrive.
  bool meet(Context &context, mlir::Operation *op, unsigned barrier, int64_t warps, bool waits,
            unsigned first, unsigned count);
  /// Synchronizes all warps of the context at a barrier of their own.
  void meetAll(Context &context);
  void fence(Context &context);
  bool takeTurn(Context &context, mlir::Operation *op, mlir::Operation *turns, bool takes);
  /// Turns that are counted in global memory; `counter` is null if it is outside of the view.
  bool awaitTurn(Context &context, mlir::Operation *op, const int32_t *counter, int64_t number);
  bool endTurn(Context &context, mlir::Operation *op, int32_t *counter, int64_t number);

  //===--- queries --------------------------------------------------------===//

  const BlockPlan &plan;
  const Components components;
  llvm::ArrayRef<int64_t> gridExtents;
  Context main;
  const Clock &clockOf(unsigned warp) const { return clocks[warp]; }
  llvm::DenseSet<mlir::Operation *> *executed = nullptr; ///< null if not requested

  //===--- tiles of a launch ----------------------------------------------===//

  /// The tiles that the block takes: dealt to blocks at random, consistently over all blocks.
  int64_t tileSeed = 0, block = 0, lastTile = 0;
  int64_t takeTile(int64_t tiles);
  /// The same including the first tile. Blocks run one after the other, and a tile may wait for
  /// tiles with smaller numbers, so each block takes a range of random length.
  std::optional<int64_t> nextOfAll;
  int64_t takeTileOfAll(int64_t tiles);

private:
  struct Barrier {
    mlir::Operation *op = nullptr;
    unsigned stage = 0;
    int64_t arrivals = 0, phase = 0, missing = 0, missingBytes = 0;
    Clock arriving, completed;
    struct Waiter {
      Time time = 0;
      mlir::Operation *op = nullptr;
    };
    std::vector<Waiter> waiters; ///< warp by warp, the last wait for the previous phase
    llvm::DenseMap<unsigned, int64_t> arrivedOf; ///< arrivals of the phase, by warpgroup
    struct Idle {
      int64_t phase, count = 0;
      unsigned warpgroup;
      mlir::Operation *op;
    };
    std::vector<Idle> idle; ///< of this phase and later ones
    mlir::Operation *lastCopy = nullptr;
    Time lastCopyPhase = 0;
  };
  struct NamedBarrier {
    int64_t arrived = 0;
    Time generation = 0;
    Clock arriving, completed;
    std::vector<Time> due; ///< warp by warp: the generation after the one it arrived in
  };

  bool checkInFlight(mlir::Operation *op, size_t count);
  bool complete(unsigned number, mlir::Operation *op);
  bool checkIdle(Barrier &barrier);
  std::string describe(const Barrier &barrier) const;
  std::string describeSource(unsigned component) const;
  bool report(const std::optional<Conflict> &conflict, mlir::Operation *op, const Access &access,
              const std::string &who);
  void tick(unsigned warp) { ++clocks[components.warp(warp)][components.warp(warp)]; }
  bool deliverOne();
  void giveWay(Context &context);
  bool reportDeadlock(llvm::ArrayRef<Context *> contexts);

  AsyncMoment moment;
  std::mt19937_64 random;
  int64_t steps = 0;
  const int64_t mostSteps;
  llvm::MutableArrayRef<Role> running;
  std::optional<Fault> firstFault;
  std::vector<Clock> clocks; ///< clocks of the warps
  std::vector<char> bytes;
  ShadowMemory shadow;
  std::vector<Barrier> barriers;
  std::vector<NamedBarrier> namedBarriers;
  llvm::DenseMap<mlir::Operation *, Context *> turnTaken; ///< the holder; null: not taken
  std::vector<DeferredRef> inFlight;                      ///< in the order of issue
};

} // namespace tilewright::simulator

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_MACHINE_H
