// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a tgpu.kernel for a tile.kernel. Internal to tile-to-tgpu.
//
// Copies are synchronous: a tile that a dot reads is copied where it is loaded (in a block loop, at
// the beginning of the body if possible) and waited for before the first product that reads it.
// Later passes pipeline the loops. A buffer is written once per iteration of the innermost loop
// around its write and read only in that iteration, so one barrier at the beginning of the loop
// body orders the write after the reads of the previous iteration.

#ifndef TILEWRIGHT_PASSES_TGPU_MAP_KERNELMAPPER_H
#define TILEWRIGHT_PASSES_TGPU_MAP_KERNELMAPPER_H

#include "passes/Tgpu/Map/LayoutInference.h"
#include "passes/Tgpu/Map/StartsInside.h"

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

  /// Replaces the kernel by a tgpu.kernel of the same name. Fails with a diagnostic.
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
  mlir::LogicalResult mapScan(tile::ScanOp op);
  mlir::LogicalResult mapGather(tile::GatherOp op);
  mlir::LogicalResult mapScatterAdd(tile::ScatterAddOp op);
  /// The tile of indices of a gather or scatter, in the layout that `tile` requires.
  mlir::Value getIndexTile(mlir::Value at, mlir::Type tile, mlir::Type view, int64_t along,
                           std::optional<llvm::ArrayRef<int64_t>> dims);
  mlir::Value reshape(mlir::Value tile, llvm::ArrayRef<int64_t> shape, mlir::Attribute layout);
  mlir::LogicalResult dispatch(mlir::Operation *op);
  mlir::LogicalResult mapSpread(tile::SpreadOp op);
  mlir::LogicalResult mapFor(mlir::scf::ForOp op);
  mlir::LogicalResult mapIf(mlir::scf::IfOp op);
  /// Maps the operations before the terminator. `yielded` are its operands in the layouts of
  /// `like`.
  mlir::LogicalResult mapBody(mlir::Block &from, mlir::ValueRange like, Values &yielded);
  /// Runs `body` at the end of a block, in a new scope for the contents of shared memory. A loop
  /// body begins with a barrier if it writes to shared memory.
  mlir::LogicalResult inScope(mlir::Block *block, bool isLoop,
                              llvm::function_ref<mlir::LogicalResult()> body);

  mlir::Type getType(mlir::Type type, mlir::Attribute layout);
  mlir::Type getType(mlir::Value value); ///< when carried by a loop: a tile in its class's layout
  mlir::Value getTile(mlir::Value value, mlir::Attribute layout);
  mlir::Value get(mlir::Value value); ///< has type getType(value)
  Values getAll(mlir::ValueRange values, mlir::ValueRange like);
  mlir::Value i32(int64_t value);

  //===--- MapBlockLoop.cpp --------------------------------------------------===//

  struct BlockLoop;
  mlir::LogicalResult mapForBlocks(tile::ForBlocksOp op);
  mlir::Value getListedBlock(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value round);
  bool endsAtBlock(mlir::func::FuncOp ranges, mlir::ValueRange operands, const BlockLoop &loop);
  void computeBounds(tile::ForBlocksOp op, BlockLoop &loop);
  /// MapFirstRounds.cpp: the lower bound of a loop of `rounds` iterations over descending blocks.
  mlir::Value getFirstRound(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value rounds);
  mlir::LogicalResult visitBlock(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value round,
                                 mlir::Value number, mlir::ValueRange carried, Values &yielded);
  mlir::LogicalResult visitMasked(tile::ForBlocksOp op, const BlockLoop &loop, mlir::Value begin,
                                  mlir::ValueRange carried, Values &yielded);
  /// A null `keep` means that all elements are kept.
  mlir::LogicalResult mapBlockBody(tile::ForBlocksOp op, mlir::Value begin, mlir::Value keep,
                                   mlir::ValueRange carried, Values &yielded);
  /// Copies the product operands whose indices depend only on the block's number.
  mlir::LogicalResult copyAhead(tile::ForBlocksOp op, mlir::Value begin);
  /// Creates an scf.if that yields values of the types of `like`.
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
  /// Copies the tile into the buffers that products read.
  mlir::LogicalResult copyForDots(tile::LoadOp op);
  mlir::LogicalResult mapDot(tile::DotOp op);
  mlir::LogicalResult mapWgmma(tile::DotOp op, WgmmaAttr layout);
  bool usesMma(tile::DotOp op);
  /// The type of the buffer of a dot's operand.
  SharedType getOperandBuffer(tile::DotOp op, unsigned operand);
  SharedType getShared(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::FailureOr<mlir::Value> getOperand(tile::DotOp op, unsigned operand, MmaAttr layout);
  /// The buffer that holds the tile: the destination of its load's copy, or one written here.
  mlir::Value getInShared(mlir::Value value, SharedType type);
  mlir::Value getAlloc(mlir::Value key, SharedType type);
  /// Writes a tile, or its transpose, to the buffer of `value`. Readers need a barrier.
  void writeShared(mlir::Value source, mlir::Value value, SharedType type, bool transpose);
  /// Writes the tile to its buffer, if it is not there.
  void putInShared(mlir::Value value, SharedType type);
  /// Writes a tile for the products that read it from shared memory, at its definition: for
  /// products of the same block, so that one barrier serves all such tiles; for products of inner
  /// loops, so that it is written once.
  mlir::LogicalResult putForDots(mlir::Value value);
  /// Whether one product takes a converted tile from registers, and another one from shared memory.
  bool isReadBothWays(mlir::Value value);
  /// Whether wgmma takes operand a from registers.
  bool isAccumulator(tile::DotOp op, mlir::Attribute layout);
  /// Writes the operands of a product by wgmma, and those of later products that exist already.
  mlir::LogicalResult putForWgmma(tile::DotOp op);
  /// Whether mma.sync reads the operand from registers in its present layout.
  bool isReadFromRegisters(tile::DotOp op, unsigned operand);
  /// Waits for the copies in flight.
  void waitForCopies();
  /// Waits for the copies in flight, and for writes of other warps.
  void waitForAll();
  /// Whether the load is copied to a buffer from which registers read it, such as a vector that a
  /// loop reads in every iteration: it is copied ahead with the operands of products.
  static bool isReadFromBuffer(tile::LoadOp load);
  SharedType getReadBuffer(tile::LoadOp load);
  /// Starts a copy of the tile.
  void copyToShared(tile::LoadOp op, SharedType type);
  /// Records facts that tensor maps need about an access to a part of a view.
  template <typename AccessOp> void noteStart(AccessOp access, mlir::Operation *mapped) {
    auto part = access.getView().template getDefiningOp<tile::SubviewOp>();
    if (part && startsInside(part, access.getIndices(), access.getStaticIndices()))
      startsInsideAttr.set(mapped);
  }

  tile::KernelOp kernel;
  KernelOp mapped; ///< what is written
  const Target &target;
  int64_t warps;
  LayoutInference layouts;
  mlir::ImplicitLocOpBuilder b;
  mlir::IRMapping map;
  /// Mask tiles that are all true in the clone of the body that is being written.
  llvm::DenseSet<mlir::Value> allTrue;
  /// Loads whose copies precede the clones of the body.
  llvm::DenseSet<mlir::Operation *> copiedAhead;

  mlir::Block *entry = nullptr;
  mlir::Operation *lastAlloc = nullptr;
  /// Keyed by the tile that the buffer holds (null: scratch memory of converts) and its type.
  /// Clones of a body share buffers.
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> allocs;
  /// The buffers that hold a tile at this point.
  llvm::DenseMap<std::pair<mlir::Value, mlir::Type>, mlir::Value> inShared;
  bool copiesPending = false, writesShared = false;
  /// The buffers written since the last barrier.
  llvm::SmallDenseSet<mlir::Value> writesPending;
  bool isRejected = false; ///< a diagnostic has been emitted
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MAP_KERNELMAPPER_H
