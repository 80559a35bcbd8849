// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a tgpu.kernel for a tile.kernel. Internal to tile-to-tgpu.
//
// Copies are synchronous: a tile that a dot reads is copied where it is loaded (in a block loop, at
// the beginning of the body where that is possible) and waited for before the first product that
// needs it; passes that pipeline loops follow. A buffer is written once in each iteration of the
// innermost loop around its writer, and read only in that iteration, so one barrier at the
// beginning of the loop's body keeps the writer behind the readers of the iteration before.

#ifndef TILEWRIGHT_PASSES_TGPU_KERNELMAPPER_H
#define TILEWRIGHT_PASSES_TGPU_KERNELMAPPER_H

#include "passes/Tgpu/LayoutInference.h"
#include "passes/Tgpu/ScheduleNames.h"
#include "passes/Tgpu/StartsInside.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright::tgpu {

class KernelMapper {
public:
  KernelMapper(tile::KernelOp kernel, const Target &target, int64_t warps)
      : kernel(kernel), target(target), warps(warps), layouts(kernel, target, warps),
        b(kernel.getLoc(), kernel.getContext()) {}

  /// Puts a tgpu.kernel of the same name in place of the kernel. Fails with a diagnostic.
  mlir::LogicalResult run();

private:
  using Values = llvm::SmallVector<mlir::Value>;

  //===--- KernelMapper.cpp: operations and control flow -------------------===//

  mlir::LogicalResult mapOp(mlir::Operation *op);
  mlir::LogicalResult mapElementwise(mlir::Operation *op);
  mlir::LogicalResult mapReduce(tile::ReduceOp op);
  mlir::LogicalResult mapExpand(tile::ExpandOp op);
  mlir::LogicalResult mapTranspose(tile::TransposeOp op);
  mlir::LogicalResult mapReshape(tile::ReshapeOp op);
  mlir::LogicalResult mapSlice(tile::SliceOp op);
  mlir::LogicalResult mapGather(tile::GatherOp op);
  mlir::LogicalResult mapScatterAdd(tile::ScatterAddOp op);
  /// The tile of indices of a gather or scatter, in the layout that `tile` asks for.
  mlir::Value getIndexTile(mlir::Value at, mlir::Type tile, mlir::Type view, int64_t along,
                           std::optional<llvm::ArrayRef<int64_t>> dims);
  mlir::Value reshape(mlir::Value tile, llvm::ArrayRef<int64_t> shape, mlir::Attribute layout);
  mlir::LogicalResult dispatch(mlir::Operation *op);
  mlir::LogicalResult mapFor(mlir::scf::ForOp op);
  mlir::LogicalResult mapIf(mlir::scf::IfOp op);
  /// The operations before the terminator, whose operands become `yielded` in the layouts of
  /// `like`.
  mlir::LogicalResult mapBody(mlir::Block &from, mlir::ValueRange like, Values &yielded);
  /// Runs `body` at the end of a block, in a scope of its own for what lies in shared memory. Of a
  /// loop's body, begins with a barrier if it writes there.
  mlir::LogicalResult inScope(mlir::Block *block, bool isLoop,
                              llvm::function_ref<mlir::LogicalResult()> body);

  mlir::Type getType(mlir::Type type, mlir::Attribute layout);
  mlir::Type getType(mlir::Value value); ///< as it is carried: a tile in the layout of its class
  mlir::Value getTile(mlir::Value value, mlir::Attribute layout);
  mlir::Value get(mlir::Value value); ///< of the type getType(value)
  Values getAll(mlir::ValueRange values, mlir::ValueRange like);
  mlir::Value i32(int64_t value);

  //===--- MapBlockLoop.cpp --------------------------------------------------===//

  struct BlockLoop;
  mlir::LogicalResult mapForBlocks(tile::ForBlocksOp op);
  mlir::Value getListedBlock(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value round);
  bool endsAtBlock(mlir::func::FuncOp ranges, mlir::ValueRange operands, const BlockLoop &loop);
  void computeBounds(tile::ForBlocksOp op, BlockLoop &loop);
  /// MapFirstRounds.cpp: the lower bound of a loop of `rounds` whose blocks come last to first.
  mlir::Value getFirstRound(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value rounds);
  mlir::LogicalResult visitBlock(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value round,
                                 mlir::Value number, mlir::ValueRange carried, Values &yielded);
  mlir::LogicalResult visitMasked(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value begin,
                                  mlir::ValueRange carried, Values &yielded);
  /// A null `keep` stands for all true.
  mlir::LogicalResult mapBlockBody(tile::ForBlocksOp op, mlir::Value begin, mlir::Value keep,
                                   mlir::ValueRange carried, Values &yielded);
  /// Copies the operands of products whose place depends on the block's number alone.
  mlir::LogicalResult copyAhead(tile::ForBlocksOp op, mlir::Value begin);
  /// scf.if whose branches yield values of the types of `like`.
  mlir::LogicalResult branch(mlir::Value condition, mlir::ValueRange like,
                             llvm::function_ref<mlir::LogicalResult(Values &)> thenBody,
                             llvm::function_ref<mlir::LogicalResult(Values &)> elseBody,
                             Values &results);

  //===--- MapBlockMask.cpp --------------------------------------------------===//

  mlir::Value computeKeep(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value begin);
  mlir::Value computeMask(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value begin);
  mlir::Value computeRowMask(tile::ForBlocksOp op, const BlockLoop &loop);
  void computeRowLimits(tile::ForBlocksOp op, BlockLoop &loop);
  bool hasRoomForMask(tile::ForBlocksOp op, const BlockLoop &loop);
  mlir::func::FuncOp getRowLimit(mlir::func::FuncOp ranges, llvm::StringRef suffix,
                                 unsigned result);
  mlir::Value mapVote(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value keep);

  //===--- MapDot.cpp: products, loads and shared memory ---------------------===//

  mlir::LogicalResult mapLoad(tile::LoadOp op);
  /// Copies the tile into the buffers from which products read it.
  mlir::LogicalResult copyForDots(tile::LoadOp op);
  mlir::LogicalResult mapDot(tile::DotOp op);
  mlir::LogicalResult mapWgmma(tile::DotOp op, WgmmaAttr layout);
  bool usesMma(tile::DotOp op);
  /// The buffer that holds an operand of a dot.
  SharedType getOperandBuffer(tile::DotOp op, unsigned operand);
  SharedType getShared(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::FailureOr<mlir::Value> getOperand(tile::DotOp op, unsigned operand, MmaAttr layout);
  /// A buffer that holds the tile: where its load was copied to, or written now.
  mlir::Value getInShared(mlir::Value value, SharedType type);
  mlir::Value getAlloc(mlir::Value key, SharedType type);
  /// Writes the tile there, to be read behind a barrier.
  void putInShared(mlir::Value value, SharedType type);
  /// Does so for products that read it from there, as soon as it is known: for those of the block,
  /// so that one barrier serves all that is written before the first of them; for those of inner
  /// loops, so that it is written once.
  mlir::LogicalResult putForDots(mlir::Value value);
  /// Whether mma.sync takes the operand as it lies in registers.
  bool isReadFromRegisters(tile::DotOp op, unsigned operand);
  /// Waits for copies that are under way.
  void waitForCopies();
  /// For copies, and for what other warps have written.
  void waitForAll();
  /// A vector that a loop reads from memory in every round, such as a number for each row: copied
  /// ahead with the operands of its products.
  /// Whether registers read the tile from a buffer that it is copied to.
  static bool isReadFromBuffer(tile::LoadOp load);
  SharedType getReadBuffer(tile::LoadOp load);
  /// Starts a copy of the tile.
  void copyToShared(tile::LoadOp op, SharedType type);
  /// What the road through tensor maps has to know of an access to a part of a view.
  template <typename AccessOp> void noteStart(AccessOp access, mlir::Operation *mapped) {
    auto part = access.getView().template getDefiningOp<tile::SubviewOp>();
    if (part && startsInside(part, access.getIndices(), access.getStaticIndices()))
      mapped->setAttr(startsInsideName, b.getUnitAttr());
  }
  static bool isStaged(mlir::Value value);

  tile::KernelOp kernel;
  const Target &target;
  int64_t warps;
  LayoutInference layouts;
  mlir::ImplicitLocOpBuilder b;
  mlir::IRMapping map;
  /// Mask tiles that are all true in the copy of the body being written.
  llvm::DenseSet<mlir::Value> allTrue;
  /// Loads whose copies were written ahead of the copies of the body.
  llvm::DenseSet<mlir::Operation *> copiedAhead;

  mlir::Block *entry = nullptr;
  mlir::Operation *lastAlloc = nullptr;
  /// By the tile that is kept (null: a scratch buffer of converts). Copies of a body share them.
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> allocs;
  /// What buffers hold at this place.
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> inShared;
  bool copiesPending = false, writesShared = false;
  /// Buffers written since the last barrier.
  llvm::SmallDenseSet<mlir::Value> writesPending;
  bool isRefused = false; ///< a diagnostic has been emitted
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_KERNELMAPPER_H
