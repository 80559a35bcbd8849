// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a kernel with roles in place of one in which all warps do the same: see
// tgpu-assign-roles.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLEWRITER_H
#define TILEWRIGHT_PASSES_TGPU_ROLEWRITER_H

#include "passes/Tgpu/RoleSlice.h"
#include "passes/Tgpu/TileOrder.h"
#include "passes/Tgpu/WrittenViews.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace tilewright::tgpu {

class RoleWriter {
public:
  /// Warps besides those that compute. One copies, one adds to memory, and one may take tiles;
  /// registers are dealt to whole warpgroups, so the others of their group are idle.
  static constexpr int64_t moreWarps = 4;

  RoleWriter(KernelOp kernel, RoleScheduleAttr schedule, RoleSlice slice)
      : old(kernel), schedule(schedule), slice(std::move(slice)), written(kernel),
        b(kernel.getLoc(), kernel.getContext()) {}

  void run();

private:
  enum class Role { Load, Reduce, Schedule, Compute };

  /// A ring between two roles, and its barriers in the new kernel.
  struct Channel {
    const CopyGroup *group = nullptr;     ///< from load to compute, or
    const Reduction *reduction = nullptr; ///< from compute to reduce
    mlir::Value full, empty;              ///< the latter is null where slots are used but once
    llvm::SmallVector<mlir::Value> maps, rings; ///< of each copy; a buffer where there is one stage

    /// A tile ends with a use that nothing is copied into (tgpu.lend_slot).
    bool lends = false;

    bool concerns(Role role) const {
      return role == Role::Compute || role == (group ? Role::Load : Role::Reduce);
    }
    bool isUsedIn(mlir::Operation *op) const;
  };

  /// A buffer that every round of a loop writes and reads, and the ring of two that replaces it.
  struct Scratch {
    mlir::Value buffer; ///< in the old kernel
    mlir::scf::ForOp loop;
    mlir::Value ring;
  };

  bool isPersistent() { return schedule.getGroup() > 0; }
  bool isDynamic() { return schedule.getDynamic() != 0; }
  /// Whether a tile waits for tiles of smaller numbers, which so must have been started.
  bool isOrdered() { return slice.isOrdered(); }
  /// The role that takes tiles and tells the others of them.
  Role getTeller() const { return hasScheduler ? Role::Schedule : Role::Load; }
  /// Whether a role receives more than the number of a tile.
  bool isTold() const { return hasScheduler ? role != Role::Schedule : role == Role::Compute; }
  mlir::Value i32(int64_t value);

  //===--- RoleWriter.cpp: the kernel and what its roles share ------------------===//

  void makeKernel();
  void makeRoles();
  /// What the loops of a step of the second id read and add to: all rows of these views. `zero` is
  /// added to their extents.
  mlir::Value getBytesOfStep(mlir::Value zero);
  mlir::Value getRowsOfPart(mlir::Value rows, const MappedView &view);
  std::string getNewName(std::string name);
  void makeChannel(const CopyGroup &group);
  void makeChannel(const Reduction &reduction);
  mlir::Value makeRing(SharedType slot, int64_t stages, bool always = false);
  mlir::Value makeBarriers(int64_t stages, int64_t arrivals);
  mlir::Value getArgument(mlir::Value view);
  mlir::Value getMap(mlir::Value view, TensorMapType type);
  void makeScratch();
  void makeBarrier();

  //===--- RoleTiles.cpp: tiles of the grid -------------------------------------===//

  void writeRole();
  void mapIds(mlir::Value tile);
  void writeTakenTiles();
  mlir::Operation *findLastLoop();
  void finishTile();
  void lendSlots();     ///< by the role that copies, at the end of a tile
  void waitForSlots();  ///< by the role that computes, before the first result leaves
  void giveSlotsBack(); ///< at its end of the tile
  /// `takeNext` is given the tile, and how many have been published.
  mlir::Value writePublished(mlir::Value tile, mlir::Value taken,
                             llvm::function_ref<void(mlir::Value, mlir::Value)> takeNext);
  mlir::Value writeIsVoid();
  bool canWriteScalar(mlir::Value value);
  void writeScalar(mlir::Value value);

  //===--- RoleTold.cpp: what one role tells the others of a tile ----------------===//

  void findToldScalars();
  bool isToldLate();
  bool mayTell(mlir::Operation &op, const llvm::DenseSet<mlir::Operation *> &refused);
  void makeTileRing();
  void writeTold();
  void writePublish(mlir::Value number, mlir::Value taken);
  /// The number of the next tile, or -1, and what the role is told of it.
  llvm::SmallVector<mlir::Value> writeReceive(mlir::Value taken);
  void writeReceived(mlir::Value taken);
  void writeReceivedWhere(mlir::arith::CmpIPredicate predicate, mlir::Value left);
  mlir::scf::ForOp findReleasingLoop();

  void mapTold(mlir::ValueRange words);

  //===--- RoleReads.cpp: what is read by row, a tile ahead ----------------------===//

  void findReadsAhead();
  bool canReadAhead(mlir::Value value);
  /// `outside` maps what is the same for all tiles.
  llvm::SmallVector<mlir::Value> writeReadsAhead(const mlir::IRMapping &outside,
                                                 mlir::ValueRange words);

  //===--- RoleBodies.cpp: what a role does of the old kernel --------------------===//

  void writeBlock(mlir::Block &block);
  /// A part of a view that only the role that copies needs, whose copies say where it lies.
  static bool isOnlyCopied(mlir::Operation *op);
  llvm::SmallVector<mlir::Value> getAll(mlir::ValueRange values); ///< in the new kernel
  void writeForLoad(mlir::Operation &op);
  void writeForReduce(mlir::Operation &op);
  void writeForCompute(mlir::Operation &op);
  void writeCopy(CopyAsyncOp copy);
  /// Through the ring to the role that adds it to memory; whether it goes there.
  bool writeReduction(AtomicAddOp add);
  void writeToRing(size_t channel, mlir::Value tile);
  /// Zeros for the channels that would have been used inside.
  void writeZeros(mlir::Operation *op);
  mlir::Value getSlot(size_t channel, size_t copy);
  void writeOp(mlir::Operation &op);
  void writeFor(mlir::scf::ForOp loop);
  void writeIf(mlir::scf::IfOp branch);
  void writeYield(mlir::Operation *yield, llvm::ArrayRef<unsigned> kept,
                  llvm::ArrayRef<size_t> inner);
  /// Numbers of the role's channels that are used inside.
  llvm::SmallVector<size_t> getInner(mlir::Operation *op);
  bool has(mlir::Operation *op);  ///< whether the role needs the operation
  bool keeps(mlir::Value result); ///< whether it needs this result of a loop or branch
  size_t getChannel(AtomicAddOp add);
  /// Whether a barrier only keeps a round's writes behind the reads of the round before.
  bool isHeadOfRound(SyncOp sync);

  KernelOp old, mapped;
  RoleScheduleAttr schedule;
  RoleSlice slice;
  WrittenViews written;
  mlir::ImplicitLocOpBuilder b;
  mlir::IRMapping map;
  llvm::SmallVector<Channel> channels;
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> maps;
  llvm::DenseMap<mlir::Attribute, mlir::Value> captures;
  mlir::Value barrier;     ///< of the role that computes, where it writes to shared memory
  mlir::Value voteBarrier; ///< for votes of that role
  mlir::Value tileRing, tileFull, tileEmpty;   ///< of tiles, where they are taken
  bool hasScheduler = false;                   ///< whether a role of its own takes them
  llvm::SmallVector<mlir::Value> told;         ///< in the old kernel: ids and results of toldBy
  llvm::SmallVector<mlir::Operation *> toldBy; ///< in order
  /// Products by constants whose other operand is told.
  llvm::SmallVector<mlir::Operation *> multiples;
  llvm::SmallVector<mlir::Operation *> readsAhead; ///< of the old kernel, by row
  /// What is written behind the last loop, of the role that computes.
  mlir::Operation *lastLoop = nullptr;
  std::function<void()> afterLoops;
  mlir::Value current; ///< use of the ring of tiles, of the role that copies
  std::optional<TileOrder> order;
  mlir::Value blocks; ///< of the grid
  Role role = Role::Compute;
  llvm::SmallVector<Scratch> scratch;
  llvm::SmallVector<mlir::Value> uses; ///< of each channel and scratch: how often, until here
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLEWRITER_H
