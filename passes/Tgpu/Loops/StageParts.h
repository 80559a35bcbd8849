// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of a chain of loops, as tgpu-expand-stages reads their stages and places.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_STAGEPARTS_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_STAGEPARTS_H

#include "passes/Tgpu/Analysis/LoopChain.h"

#include "llvm/ADT/SetVector.h"

namespace tilewright::tgpu {

/// One loop of a chain.
struct Part {
  mutable mlir::scf::ForOp loop;            ///< mutable: MLIR's accessors are not const
  llvm::SmallVector<mlir::Operation *> ops; ///< sorted by position
  llvm::SetVector<mlir::Value> crossing;    ///< values of stage 0 that stage 1 reads
  /// What each iteration argument is in the next iteration: the yielded value or, of a sum in
  /// flight, the product that extends it.
  llvm::SmallVector<mlir::Value> next;
  llvm::SmallVector<int64_t> stagesOfNext;

  bool contains(mlir::Value value) const;
  bool isInFlight(unsigned number) const;

  /// Whether the operation is the wait, in stage 1, for sums that stage 0 leaves in flight.
  bool endsSums(mlir::Operation *op) const;
};

int64_t getStage(mlir::Operation *op);

/// The counts of waits, recomputed in the order in which operations are written: the number of
/// groups that are committed after the awaited one.
class PendingGroups {
public:
  /// Notes an operation. Returns the count if it is a wait.
  std::optional<int64_t> note(mlir::Operation *op);

  /// The same, and gives the count to the operation's copy.
  void note(mlir::Operation *op, mlir::Operation *copy);

  bool areInFlight() const { return commits > ended; }
  int64_t getCommits() const { return commits; }

private:
  int64_t commits = 0, ended = 0;
  llvm::DenseMap<mlir::Value, int64_t> committed;
};

/// Erases a barrier directly behind the same one: moving operations can make two adjacent.
void dropRepeated(mlir::Operation *op);

/// Moves an operation to the end of the loop, where it has the next place.
void moveToEnd(mlir::Operation *op, mlir::scf::ForOp loop, PendingGroups &groups);

/// Reads the parts of a chain, all of whose operations have places; fails with a diagnostic if a
/// place is illegal (see ExpandStages.cpp). All parts have stage 0 or stage 1 in common.
mlir::FailureOr<llvm::SmallVector<Part>> readParts(const LoopChain &chain);

/// Whether the parts have stage 1 in common; otherwise, stage 0.
bool shareSecondStage(llvm::ArrayRef<Part> parts);

/// The same, with a diagnostic if they have not.
mlir::LogicalResult requireSecondStage(llvm::ArrayRef<Part> parts);

/// For parts with stage 0 in common: gives all parts the same list of values that cross stages,
/// each value that at least one part reads.
void uniteCrossing(llvm::MutableArrayRef<Part> parts);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_STAGEPARTS_H
