// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the code of one thread for a tgpu.kernel. Internal to convert-tgpu-to-nvvm.
//
// Every value of the kernel becomes a list of scalars of the thread:
//
//   register tile      one for each register of its layout; operands of matrix instructions as
//                      32-bit words, two elements of 16 bits in one
//   view               pointer, extents (i32), strides in elements (i64)
//   buffer, ring       pointer to shared memory
//   scalar             itself; an index is an i64
//
// Where an element of a tile lies is a coordinate that depends on the thread (computed once, at
// entry) plus a constant for each register; base/Layout knows both.

#ifndef TILEWRIGHT_PASSES_CONVERSION_KERNELEMITTER_H
#define TILEWRIGHT_PASSES_CONVERSION_KERNELEMITTER_H

#include "base/Layout/RegisterAccess.h"
#include "passes/Conversion/AlignedViews.h"
#include "passes/Conversion/TileLayouts.h"
#include "passes/Conversion/Timeline.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>
#include <map>
#include <memory>

namespace tilewright::tgpu {

using Values = llvm::SmallVector<mlir::Value>;

/// What the lowerings of operations (LoweringTable.h) share: the values of the kernel, the builder,
/// and pieces of code that several families of operations write. All of it is public, since a
/// lowering is a function of its own.
class KernelEmitter {
public:
  /// For code named `entry`, which assumes the alignment in `aligned`.
  KernelEmitter(KernelOp kernel, llvm::StringRef entry, AlignedViews aligned);

  /// Adds the kernel's llvm.func to the module. Fails with a diagnostic at the operation concerned.
  mlir::LogicalResult run();

  //===--- KernelEmitter.cpp: blocks and values ---------------------------===//

  /// Writes all operations of a block but the terminator.
  mlir::LogicalResult emitBlock(mlir::Block &block);
  /// Lowers an operation by its entry in getLowerings().
  mlir::LogicalResult emitOp(mlir::Operation *op);
  /// Inlines a function in place of a call.
  mlir::LogicalResult inlineCall(mlir::Operation *call, mlir::StringRef callee,
                                 mlir::ArrayRef<Values> arguments, Values &results);

  const Values &get(mlir::Value value);
  mlir::Value getScalar(mlir::Value value) { return get(value).front(); }
  /// Of a tile: one value for each register, words taken apart.
  Values getElements(mlir::Value value);
  /// Sets the elements of a tile; they are packed into words where it is an operand.
  void setElements(mlir::Value value, mlir::ArrayRef<mlir::Value> elements);
  void set(mlir::Value value, Values list) { values[value] = std::move(list); }
  Values flatten(mlir::ValueRange list);
  /// Binds each of `list` to its part of `flat`.
  void unflatten(mlir::ValueRange list, mlir::ValueRange flat);

  mlir::Type getScalarType(mlir::Type type);
  llvm::SmallVector<mlir::Type> getFlatTypes(mlir::Type type);
  llvm::SmallVector<mlir::Type> getFlatTypes(mlir::TypeRange types);
  static bool isPacked(mlir::Type type);
  Values packWords(mlir::ArrayRef<mlir::Value> elements);
  Values unpackWords(mlir::ArrayRef<mlir::Value> words, mlir::Type element);

  //===--- EmitThread.cpp: constants, intrinsics, coordinates -------------===//

  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value constant(mlir::TypedAttr value);
  mlir::Value zero(mlir::Type type);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value conjunction(mlir::Value a, mlir::Value b); ///< null stands for true
  mlir::Value less(mlir::Value a, mlir::Value b);        ///< unsigned
  mlir::Value toI64(mlir::Value a);                      ///< signed
  mlir::Value toU64(mlir::Value a);                      ///< unsigned
  mlir::Value bitcast(mlir::Value value, mlir::Type type);
  mlir::Value advance(mlir::Value pointer, mlir::Value bytes);
  mlir::Value advance(mlir::Value pointer, int64_t bytes);
  mlir::Value intrinsic(llvm::StringRef name, mlir::Type result, mlir::ValueRange operands);
  void intrinsic(llvm::StringRef name, mlir::ValueRange operands);
  mlir::Value inlineAsm(llvm::StringRef text, llvm::StringRef constraints, mlir::Type result,
                        mlir::ValueRange operands);
  mlir::Value vectorOf(mlir::ArrayRef<mlir::Value> elements);
  mlir::Value extract(mlir::Value aggregate, int64_t index);
  /// A scheduling barrier for ptxas, which moves no instruction across it.
  void endScheduling();
  /// Synchronizes all warps that execute the operation.
  void barrier();

  const layout::RegisterLayout *getLayout(mlir::Operation *op, mlir::Type tile);
  const layout::SharedLayout *getLayout(mlir::Operation *op, SharedType buffer);
  /// A number that depends on warp and lane, as an i32 computed at entry, or here. `compute` must
  /// add up over the digits of `warpDigits` and the bits of the lane; null where it does not.
  mlir::Value threadNumber(llvm::function_ref<int64_t(int warp, int lane)> compute,
                           mlir::ArrayRef<layout::Digit> warpDigits, bool atUse = false);
  /// The thread's part of coordinate `dim` of a layout.
  mlir::Value threadCoord(const layout::RegisterLayout &layout, int dim);
  /// Coordinate `dim` of register `reg`.
  mlir::Value coord(const layout::RegisterLayout &layout, int dim, int reg);
  /// Whether the thread is the one that stores what several hold; null where all are.
  mlir::Value isCanonicalThread(const layout::RegisterLayout &layout);
  static bool isCanonicalRegister(const layout::RegisterLayout &layout, int reg);
  /// SharedLayout::byteOffset of a row and a column known at run time.
  mlir::Value byteOffset(const layout::SharedLayout &buffer, mlir::Value row, mlir::Value col);

  //===--- EmitKernel.cpp: signature, grid --------------------------------===//

  mlir::LogicalResult emitSignature();
  mlir::LogicalResult emitGrid();

  //===--- EmitColumns.cpp: columns compared with a bound of each row -----===//

  /// Of each row of the thread: a bound that its columns are below, or not below, or a condition on
  /// the whole row.
  struct ColumnBound {
    enum class Kind { Below, NotBelow, WholeRow } kind;
    Values rows;
  };
  /// Tiles of i1 whose elements are all bounds together.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<ColumnBound>> columnBounds;
  /// Calls `visit` with the i1 of each register of such a tile.
  void visitColumnBits(mlir::Value tile, llvm::function_ref<void(int reg, mlir::Value is)> visit);
  /// Lowers an operation that makes such a tile. Returns false, and writes nothing, for others.
  bool emitColumnCompare(mlir::arith::CmpIOp op);
  bool emitColumnAnd(mlir::arith::AndIOp op);

  //===--- EmitCast.cpp ---------------------------------------------------===//

  /// Between element types of tiles: floats of 8 bits by their own types.
  Values castElements(mlir::ArrayRef<mlir::Value> source, mlir::Type from, mlir::Type to);

  //===--- EmitTiles.cpp, EmitThread.cpp: exchanges, reductions -----------===//

  /// The indices along all dimensions of `shape` but the last, of which `row` is the number.
  Values splitRow(mlir::Value row, mlir::ArrayRef<int64_t> shape);
  /// Prepares an exchange of elements between warps, which calls barrier(). Inside a role it takes
  /// a named barrier of its own and, with `usesScratch`, scratch memory that no other role uses.
  mlir::LogicalResult beginExchange(mlir::Operation *op, bool usesScratch);
  mlir::Value combine(tile::ReduceKind kind, mlir::Value a, mlir::Value b);
  mlir::Value shuffle(llvm::StringRef mode, mlir::Value value, mlir::Value lane);

  //===--- EmitView.cpp, EmitGlobal.cpp, EmitLoad.cpp: views and their elements ---===//

  struct View {
    mlir::Value base;
    Values extents, strides;
    mlir::Type element;
    int64_t bytes;
  };
  /// Where a tile begins in a view, and along which of its dimensions it runs.
  struct ViewRegion {
    View view;
    mlir::Value outer;    ///< address of where indices along the tile's dimensions count from
    mlir::Value origin;   ///< address of element 0 of the tile, inside or not
    mlir::Value inside;   ///< whether the indices along other dimensions are inside; may be null
    Values index, extent; ///< of the tile's dimensions
    Values stride;        ///< in elements
    mlir::Value viewValue;
    /// An argument or capture of the kernel of whose alignment the view's follows; or null.
    mlir::Value root;
    bool runsAlongLast = false;       ///< the tile's last dimension is the view's
    std::optional<size_t> dense;      ///< the tile's dimension that runs along the view's last
    llvm::SmallVector<int64_t> shape; ///< of the tile
    /// Along this dimension, elements lie where the index of each register says. Rank 1 and 2 only.
    int gathered = -1;
    Values gatheredAt;
  };
  View getView(mlir::Value value);
  ViewRegion getRegion(mlir::Value view, mlir::OperandRange indices,
                       mlir::ArrayRef<int64_t> staticIndices,
                       std::optional<mlir::ArrayRef<int64_t>> dims,
                       mlir::ArrayRef<int64_t> tileShape);
  /// Whether runs of `vector` elements along the last dimension are contiguous, aligned to their
  /// size, and inside the view as a whole or not at all.
  mlir::Value isVectorisable(const ViewRegion &region, int64_t vector);
  /// Whether the code is for arguments of which this is known.
  bool isKnownAligned(mlir::Value viewValue, int64_t vector);

  mlir::Value clampPart(mlir::Value offset, mlir::Value asked, mlir::Value extent);
  /// A tile that is read run by run, where each is used: place `at` lies `at` strides from place 0.
  struct DeferredLoad {
    const layout::RegisterLayout *layout = nullptr;
    mlir::Type element;
    int64_t vector = 1, bytes = 0;
    size_t unit = 0; ///< the dimension along which elements lie side by side
    Values strides;  ///< in bytes, along the other, of LocalTile::steps; none in rank 1
    std::map<int64_t, mlir::Value> places;
    std::map<int, Values> early; ///< runs that are read where the load stands
  };
  /// The run that begins at register `reg`.
  Values loadRun(DeferredLoad &load, int reg);
  /// Whether all of it is inside.
  mlir::Value isWhole(const ViewRegion &region);
  /// Calls `access` for runs of up to `vector` registers with their address and the condition under
  /// which they are inside (and `condition`); null: always. Neighbours along the tile's dimension
  /// `unit` are known to lie side by side; where `isInside`, all of the tile to be inside.
  void forEachRun(const ViewRegion &region, const layout::RegisterLayout &layout, int64_t vector,
                  mlir::Value condition,
                  llvm::function_ref<void(int reg, mlir::Value address, mlir::Value inside)> access,
                  std::optional<size_t> unit = std::nullopt, bool isInside = false);
  int64_t globalVector(const layout::RegisterLayout &layout, int64_t bytes);
  Values loadGlobal(mlir::Value address, mlir::Value inside, mlir::Type element, int64_t count,
                    mlir::Value pad);

  //===--- EmitShared.cpp -------------------------------------------------===//

  mlir::LogicalResult emitAlloc(mlir::Operation *op, std::optional<uint64_t> offset, int64_t bytes,
                                int64_t alignment);
  mlir::LogicalResult readShared(mlir::Operation *op, mlir::Value buffer, SharedType type,
                                 bool exchanged, mlir::Value result);
  /// A tile that ldmatrix can read: one instruction for each address.
  struct MatrixRead {
    std::vector<layout::MatrixIssue> issues;
    Values addresses;
    bool transposed = false;
  };
  Values loadMatrices(const MatrixRead &read, size_t issue);
  mlir::LogicalResult writeShared(mlir::Operation *op, mlir::Value value, mlir::Value buffer,
                                  SharedType type, bool exchanged);
  Values loadVector(mlir::Value address, mlir::Type element, int64_t count);
  void storeVector(mlir::Value address, mlir::ArrayRef<mlir::Value> elements);

  //===--- EmitBarriers.cpp: barriers in shared memory --------------------===//

  mlir::Value windowAddress(mlir::Value pointer);
  void byOneThread(llvm::function_ref<void()> body);
  mlir::Value barrierOf(mlir::Value barriers, mlir::Value use);

  //===--- EmitWgmma.cpp --------------------------------------------------===//

  /// Inline assembly whose results are tied to its first operands.
  Values tiedAsm(llvm::StringRef text, llvm::StringRef moreConstraints,
                 mlir::ArrayRef<mlir::Value> tied, mlir::ValueRange more);

  //===--- EmitTimeline.cpp: nothing where the kernel has no timeline -----===//

  void emitTimelineState();
  /// What follows is written by the warpgroups of a role; `roleNumber` counts roles.
  void openTimeline(int64_t roleNumber);
  void closeTimeline();
  /// Before an operation and behind it, or at the ends of a loop's body, if it is an event.
  void sample(mlir::Operation *op, bool isEnd);

  //===--- State ----------------------------------------------------------===//

  KernelOp kernel;
  std::string entry;
  AlignedViews aligned;
  mlir::ModuleOp module;
  /// Counts what is written.
  struct Counter : mlir::OpBuilder::Listener {
    uint64_t operations = 0;
    void notifyOperationInserted(mlir::Operation *, mlir::OpBuilder::InsertPoint) override {
      ++operations;
    }
  };
  Counter counter;
  mlir::ImplicitLocOpBuilder b;
  mlir::LLVM::LLVMFuncOp func;
  mlir::LLVM::GlobalOp sharedMemory, scratch;
  /// Everything before it is computed once, at entry.
  mlir::Operation *endOfEntry = nullptr;
  mlir::Value warp, lane, thread;

  llvm::DenseMap<mlir::Value, Values> values;
  llvm::DenseMap<mlir::Value, DeferredLoad> deferredLoads;
  /// By the number of the load in its block, and bytes.
  std::map<std::pair<unsigned, int64_t>, mlir::Value> localTiles;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
  llvm::DenseMap<mlir::Type, std::unique_ptr<layout::RegisterLayout>> registerLayouts;
  llvm::DenseMap<mlir::Type, std::unique_ptr<layout::SharedLayout>> sharedLayouts;
  /// By the view and the number of elements.
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> alignedViews;
  std::map<std::pair<mlir::Operation *, bool>, mlir::Value> barriersOfTurns;
  /// Numbers of threads by their values: for each warp and lane.
  std::map<std::vector<int64_t>, mlir::Value> threadNumbers;
  llvm::DenseMap<mlir::StringAttr, Values> captures;
  /// Exponentials that follow raised maxima (EmitRaiseMax.cpp), and whether the warp raises any:
  /// where not, they are one.
  llvm::DenseMap<mlir::Value, mlir::Value> mayDifferFromOne;
  llvm::DenseSet<mlir::Operation *> emittedAhead; ///< of their block; not to be written again
  /// Operands of products that are read as the product needs them.
  llvm::DenseMap<mlir::Value, MatrixRead> deferredReads;
  llvm::SmallVector<llvm::StringRef> callStack;
  int64_t numWarps;
  mlir::Value tileCounter;  ///< where the entry of this grid is kept
  bool isOneThread = false; ///< what is written is reached by one thread of the role
  int64_t scratchBytes = 0;
  mlir::Region *role = nullptr;        ///< that is being written; null outside of roles
  mlir::Region *scratchRole = nullptr; ///< that exchanges through scratch memory
  llvm::DenseMap<mlir::Region *, int64_t> roleBarriers; ///< numbers of their named barriers
  std::optional<Timeline> timeline;
  mlir::Value timelineState, timelineBuffer, timelineChunks;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_KERNELEMITTER_H
