// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces a kernel in which all warps execute the same code by one with roles: see
// tgpu-assign-roles.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLES_ROLEWRITER_H
#define TILEWRIGHT_PASSES_TGPU_ROLES_ROLEWRITER_H

#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Roles/RoleSlice.h"
#include "passes/Tgpu/Roles/TileOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace tilewright::tgpu {

class RoleWriter {
public:
  /// The warps besides the compute warps: one or two copy, and there may be one that adds to memory
  /// and one that takes tiles; if there is a tile.spread, the others execute most of it. Registers
  /// are assigned to whole warpgroups, so the remaining warps of their warpgroup are idle.
  static constexpr int64_t moreWarps = 4;
  /// Of these, the warps that gather rows: with one, indices of 128 keys would take as long as the
  /// products of a block of 8-bit keys.
  static constexpr int64_t gatherWarps = 2;

  RoleWriter(KernelOp kernel, RoleScheduleAttr schedule, RoleSlice slice)
      : old(kernel), schedule(schedule), slice(std::move(slice)), written(kernel),
        b(kernel.getLoc(), kernel.getContext()) {}

  void run();

private:
  enum class Role { Load, SecondLoad, Reduce, Gather, Schedule, Spread, Compute, Second };

  /// A ring between two roles, and its barriers in the new kernel.
  struct Channel {
    const CopyGroup *group = nullptr;                 ///< from `loader` to compute, or
    const Reduction *reduction = nullptr;             ///< from compute to reduce, or
    const ComputeSplit::Handover *handover = nullptr; ///< from the first role that computes
    /// Of the group: the operations of its block with the first and the last use of its buffers by
    /// the first and by the second role that computes; null without uses.
    std::pair<mlir::Operation *, mlir::Operation *> usesOf[2];
    mlir::Value full, empty;             ///< `empty` is null if slots are used only once
    llvm::SmallVector<mlir::Value> maps; ///< one per copy
    /// One per copy, then one per gathered row; one stage: a plain buffer.
    llvm::SmallVector<mlir::Value> rings;

    Role loader = Role::Load; ///< of the group
    /// A tile ends with a use of the ring without a copy (tgpu.lend_slot).
    bool lends = false;

    bool concerns(Role role) const {
      if (role == Role::Compute || role == Role::Second)
        return group ? usesOf[role == Role::Second].first != nullptr
                     : handover || role == Role::Compute;
      if (role == Role::Gather)
        return group && !group->gathers.empty();
      return role == (group ? loader : Role::Reduce) && !handover;
    }
    bool isUsedIn(mlir::Operation *op) const;
  };

  /// A buffer that every iteration of a loop writes and reads, and the ring of two that replaces
  /// it.
  struct Scratch {
    mlir::Value buffer; ///< in the old kernel
    mlir::scf::ForOp loop;
    mlir::Value ring;
  };

  bool isPersistent() { return schedule.getGroup() > 0; }
  bool isDynamic() const { return schedule.getDynamic() != 0; }
  /// Whether a separate role takes tiles. The load role would take a tile and compute its values
  /// only after it has copied all of the previous tile. With one warp instead of two, the role
  /// "spread" may end after all others (docs/design/tiles.md).
  bool hasScheduler() const { return isDynamic() && !slice.spread; }
  /// Whether a tile waits for tiles with smaller numbers, which must have been started.
  bool isOrdered() { return slice.isOrdered(); }
  /// The role that takes tiles and publishes them to the others.
  Role getPublisher() const { return hasScheduler() ? Role::Schedule : Role::Load; }
  /// Whether the current role receives more than the tile number.
  bool receivesValues() const { return hasScheduler() ? role != Role::Schedule : computes(); }
  bool computes() const { return role == Role::Compute || role == Role::Second; }
  bool loads() const { return role == Role::Load || role == Role::SecondLoad; }
  int64_t getComputeRoles() const { return slice.split ? 2 : 1; }
  mlir::Value i32(int64_t value);

  //===--- RoleWriter.cpp: the kernel and the objects its roles share --------===//

  void makeKernel();
  void makeRoles();
  /// The bytes that the loops of one step of the second id read and add to: all rows of their
  /// views. `zero` is added to their extents.
  mlir::Value getBytesOfStep(mlir::Value zero);
  mlir::Value getRowsOfPart(mlir::Value rows, const MappedView &view);
  std::string getNewName(std::string name);
  void makeChannel(const CopyGroup &group);
  void makeChannel(const Reduction &reduction);
  void makeChannel(const ComputeSplit::Handover &handover);
  mlir::Value makeRing(SharedType slot, int64_t stages, bool always = false);
  mlir::Value makeBarriers(int64_t stages, int64_t arrivals);
  mlir::Value getArgument(mlir::Value view);
  mlir::Value getMap(mlir::Value view, TensorMapType type);
  void makeScratch();
  void makeBarrier();

  //===--- RoleTiles.cpp: tiles of the grid ----------------------------------===//

  void writeRole();
  void mapIds(mlir::Value tile);
  void writeTakenTiles();
  mlir::Operation *findLastLoop();
  void finishTile();
  void lendSlots();     ///< load roles, at the end of a tile
  void waitForSlots();  ///< compute role, before the first store
  void giveSlotsBack(); ///< compute role, at the end of a tile
  /// `takeNext` receives the tile and the number of tiles published.
  mlir::Value writeTakenTile(mlir::Value tile, mlir::Value taken,
                             llvm::function_ref<void(mlir::Value, mlir::Value)> takeNext);
  mlir::Value writeIsVoid();
  bool canWriteScalar(mlir::Value value);
  void writeScalar(mlir::Value value);

  //===--- RolePublish.cpp: publishes tiles to the other roles ---------------===//

  void findPublishedValues();
  bool mayPublish(mlir::Operation &op, const llvm::DenseSet<mlir::Operation *> &rejected);
  void makeTileRing();
  void writePublishedValues();
  void writePublish(mlir::Value number, mlir::Value taken);
  /// Receives the number of the next tile, or -1, and the words published with it.
  llvm::SmallVector<mlir::Value> writeReceive(mlir::Value taken);
  void writeReceived(mlir::Value taken);
  void writeReceivedWhere(mlir::arith::CmpIPredicate predicate, mlir::Value left);
  mlir::scf::ForOp findReleasingLoop();

  void mapPublished(mlir::ValueRange words);

  //===--- RoleReads.cpp: per-row reads, one tile ahead ----------------------===//

  void findReadsAhead();
  bool canReadAhead(mlir::Value value);
  /// `outside` maps the tile-invariant values.
  llvm::SmallVector<mlir::Value> writeReadsAhead(const mlir::IRMapping &outside,
                                                 mlir::ValueRange words);

  //===--- RoleBodies.cpp: the bodies of roles -------------------------------===//

  void writeBlock(mlir::Block &block);
  /// Whether a part of a view is used only by copies, which encode its bounds.
  static bool isOnlyCopied(mlir::Operation *op);
  /// Whether the current role makes the copy.
  bool copies(CopyAsyncOp copy);
  llvm::SmallVector<mlir::Value> getAll(mlir::ValueRange values); ///< in the new kernel
  void writeForLoad(mlir::Operation &op);
  /// The loop behind whose first copies those of the whole tile are made; null: before the loop.
  mlir::scf::ForOp findLoopBeforeTile();
  CopyAsyncOp findFirstCopied(mlir::scf::ForOp loop);
  void writeTileCopies(mlir::Value isNow);
  void writeForReduce(mlir::Operation &op);
  void writeForCompute(mlir::Operation &op);
  void writeCopy(CopyAsyncOp copy);
  /// Writes the value to the ring of the reduce role. Returns false if the addition has no such
  /// ring.
  bool writeReduction(AtomicAddOp add);
  void writeToRing(size_t channel, mlir::Value tile);
  /// Writes zeros to the rings of the additions that `op` contains.
  void writeZeros(mlir::Operation *op);
  mlir::Value getSlot(size_t channel, size_t copy);
  void writeOp(mlir::Operation &op);
  void writeFor(mlir::scf::ForOp loop);
  void writeIf(mlir::scf::IfOp branch);
  void writeYield(mlir::Operation *yield, llvm::ArrayRef<unsigned> kept,
                  llvm::ArrayRef<size_t> inner);
  /// The indices of the role's channels that are used inside `op`.
  llvm::SmallVector<size_t> getInner(mlir::Operation *op);
  bool has(mlir::Operation *op);  ///< whether the role needs the operation
  bool keeps(mlir::Value result); ///< whether it needs this result of a loop or branch
  const RolePart *getPart();      ///< of the present role; null if it needs all operations
  size_t getChannel(AtomicAddOp add);
  /// Whether roles need no barrier in place of this one: its loop writes nothing to shared memory,
  /// or it only orders an iteration's writes after the reads of the previous iteration, whose
  /// buffer is another one.
  bool isUnneeded(SyncOp sync);

  //===--- RoleHandover.cpp: two roles that compute --------------------------===//

  /// Finds which of the roles that compute use the buffers of a group.
  void findUses(Channel &channel);
  /// Whether both sides of a branch do the same in one of two roles that compute, in the same order
  /// and with the same handovers: the mask that distinguishes them is in the other role.
  bool hasEqualSides(mlir::scf::IfOp branch);
  /// After an operation: writes its results to the rings of the second role, or reads them.
  void handOver(mlir::Operation &op);

  //===--- RoleGather.cpp: rows that another role gathers --------------------===//

  /// In the old kernel: puts the operations that gather rows in front of the operations that read
  /// these, and removes them from there.
  void detachGathers();
  void detachGather(CopyGroup &group, GatheredRow &row, mlir::IRMapping &clones);
  void writeForGather(mlir::Operation &op);
  /// In a role that computes: reads a row from its slot, if another role gathers it.
  bool readGathered(mlir::Operation &op);

  //===--- RoleSpread.cpp: tile.spread ---------------------------------------===//

  void writeSpread();
  /// The warps of the current role, which executes a share of it.
  int64_t getSpreadWarps() { return role == Role::Spread ? spreadWarps : old.getWarps(); }
  void writeSpreadBlock(mlir::Block &block);
  /// Emits the operations on tiles for some rows, starting at `first`.
  void writeSpreadRows(mlir::Value first, int64_t rows);

  KernelOp old, mapped;
  RoleScheduleAttr schedule;
  RoleSlice slice;
  WrittenViews written;
  mlir::ImplicitLocOpBuilder b;
  mlir::IRMapping map;
  llvm::SmallVector<Channel> channels;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> maps;
  llvm::DenseMap<mlir::Attribute, mlir::Value> captures;
  mlir::Value barrier;                       ///< of the compute role, if it writes to shared memory
  mlir::Value voteBarrier;                   ///< for votes of the compute role
  mlir::Value tileRing, tileFull, tileEmpty; ///< of tiles, if they are taken from a counter
  llvm::SmallVector<mlir::Value> published;  ///< of the old kernel: ids and results of publishedOps
  llvm::SmallVector<mlir::Operation *> publishedOps; ///< in order
  /// Products by constants whose other operand is published.
  llvm::SmallVector<mlir::Operation *> multiples;
  llvm::SmallVector<mlir::Operation *> readsAhead; ///< of the old kernel, one value per row
  /// The compute role calls `afterLoops` after this loop.
  mlir::Operation *lastLoop = nullptr;
  std::function<void()> afterLoops;
  mlir::Value current; ///< a load role's use of the ring of tiles
  std::optional<TileOrder> order;
  int64_t spreadWarps = 0; ///< of the role for tile.spread
  mlir::Value blocks;      ///< of the grid
  Role role = Role::Compute;
  llvm::SmallVector<Scratch> scratch;
  llvm::DenseSet<mlir::Operation *> gatherOps; ///< of the old kernel, for the role that gathers
  llvm::DenseMap<mlir::Block *, mlir::Operation *> lastGathers; ///< the last of them in a loop
  llvm::SmallVector<CopyAsyncOp> tileCopies; ///< of the load role, that wait for findLoopBeforeTile
  llvm::SmallVector<mlir::Value> uses;       ///< current use count of each channel and scratch
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLES_ROLEWRITER_H
