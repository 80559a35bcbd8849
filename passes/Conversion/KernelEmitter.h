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
// The emitter knows these values, the types that they become, and the order of operations. Each
// family of operations has its own lowerings (LoweringTable.h). Shared code is in these headers:
//
//   ThreadBuilder.h    constants, arithmetic, instructions
//   ThreadCoords.h     where the elements of a thread lie
//   ElementOps.h       conversions, reductions and shuffles of elements
//   GlobalAccess.h     views and their regions; PagedAccess.h: those of pages; DeferredLoads.h:
//                      captures read at their uses
//   SharedAccess.h     buffers and ldmatrix
//   Barriers.h         mbarriers; Exchange.h: exchanges between warps
//   ColumnBounds.h, RaisedMaxima.h    facts about a tile that one family passes to another
//   TimelineWriter.h   samples of the clock

#ifndef TILEWRIGHT_PASSES_CONVERSION_KERNELEMITTER_H
#define TILEWRIGHT_PASSES_CONVERSION_KERNELEMITTER_H

#include "passes/Conversion/AlignedViews.h"
#include "passes/Conversion/ThreadBuilder.h"
#include "passes/Conversion/TileLayouts.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <memory>

namespace tilewright::tgpu {

class KernelEmitter {
public:
  /// For code named `entry`, which assumes the alignment in `aligned`.
  KernelEmitter(KernelOp kernel, llvm::StringRef entry, AlignedViews aligned);

  /// Adds the kernel's llvm.func to the module. Fails with a diagnostic at the operation concerned.
  mlir::LogicalResult run();

  //===--- Operations ------------------------------------------------------===//

  /// Emits all operations of a block except the terminator.
  mlir::LogicalResult emitBlock(mlir::Block &block);
  /// Lowers an operation by its entry in getLowerings().
  mlir::LogicalResult emitOp(mlir::Operation *op);
  /// emitBlock skips an operation of its block that has been emitted ahead.
  void markWritten(mlir::Operation *op) { writtenAhead.insert(op); }
  /// Inlines a function in place of a call.
  mlir::LogicalResult inlineCall(mlir::Operation *call, mlir::StringRef callee,
                                 mlir::ArrayRef<Values> arguments, Values &results);

  //===--- Values ----------------------------------------------------------===//

  const Values &get(mlir::Value value) { return values[value]; }
  mlir::Value getScalar(mlir::Value value) { return get(value).front(); }
  void set(mlir::Value value, Values list) { values[value] = std::move(list); }
  /// Passes a value through empty inline assembly, behind which LLVM does not move its computation.
  void keepHere(mlir::Value value) { set(value, b.tiedAsm("", "~{memory}", get(value), {})); }
  /// The elements of a tile: one value for each register, with words unpacked.
  Values getElements(mlir::Value value);
  /// Sets the elements of a tile; they are packed into words if it is an operand.
  void setElements(mlir::Value value, mlir::ArrayRef<mlir::Value> elements);
  /// The elements of a tile are emitted at each of their uses.
  void defer(mlir::Value tile, std::function<Values()> getElements);
  Values flatten(mlir::ValueRange list);
  /// Binds each of `list` to its part of `flat`.
  void unflatten(mlir::ValueRange list, mlir::ValueRange flat);
  /// Null, with a diagnostic at `op`, if the module has no such capture.
  const Values *getCapture(mlir::Operation *op, mlir::FlatSymbolRefAttr name);
  /// The known alignment of a view in bytes (see AlignedViews); 0 if nothing is known.
  int64_t getAlignment(mlir::Value view);

  //===--- Types and layouts -----------------------------------------------===//

  mlir::Type getScalarType(mlir::Type type);
  llvm::SmallVector<mlir::Type> getFlatTypes(mlir::Type type);
  llvm::SmallVector<mlir::Type> getFlatTypes(mlir::TypeRange types);
  /// Whether the elements of a tile are packed into words.
  static bool isPacked(mlir::Type type);
  /// Null, with a diagnostic at `op`, if the layout is invalid.
  const layout::RegisterLayout *getLayout(mlir::Operation *op, mlir::Type tile);
  const layout::SharedLayout *getLayout(mlir::Operation *op, SharedType buffer);

  //===--- State -----------------------------------------------------------===//

  /// The state of a family of lowerings for this kernel, in a type of its own.
  template <typename StateT> StateT &state() {
    static const char key = 0;
    std::shared_ptr<void> &held = states[&key];
    if (!held)
      held = std::make_shared<StateT>();
    return *static_cast<StateT *>(held.get());
  }

  ThreadBuilder b;
  KernelOp kernel;
  mlir::ModuleOp module;
  mlir::LLVM::LLVMFuncOp func;
  mlir::Region *role = nullptr;                ///< the role being emitted; null outside of roles
  mlir::SmallVector<mlir::Block *> roleBlocks; ///< the code of the roles
  bool isOneThread = false; ///< only one thread of the role executes the code being emitted

private:
  mlir::LogicalResult emitSignature();
  mlir::LogicalResult emitGrid();

  /// Counts emitted operations.
  struct Counter : mlir::OpBuilder::Listener {
    uint64_t operations = 0;
    void notifyOperationInserted(mlir::Operation *, mlir::OpBuilder::InsertPoint) override {
      ++operations;
    }
  };
  Counter counter;
  std::string entry;
  AlignedViews aligned;
  llvm::DenseMap<mlir::Value, Values> values;
  llvm::DenseMap<mlir::Value, std::function<Values()>> deferred;
  llvm::DenseMap<mlir::StringAttr, Values> captures;
  llvm::DenseSet<mlir::Operation *> writtenAhead;
  llvm::SmallVector<llvm::StringRef> callStack;
  llvm::DenseMap<mlir::Type, std::unique_ptr<layout::RegisterLayout>> registerLayouts;
  llvm::DenseMap<mlir::Type, std::unique_ptr<layout::SharedLayout>> sharedLayouts;
  std::map<const void *, std::shared_ptr<void>> states;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_CONVERSION_KERNELEMITTER_H
