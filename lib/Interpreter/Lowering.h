// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a specialized kernel into steps. Scalar functions are compiled into their callers: as
// scalar code for func.call, and at the shape of a tile ("lifted") for tile.map and for masks.

#ifndef TILEWRIGHT_LIB_INTERPRETER_LOWERING_H
#define TILEWRIGHT_LIB_INTERPRETER_LOWERING_H

#include "dialect/Tile/Tile.h"
#include "lib/Interpreter/ControlSteps.h"
#include "lib/Interpreter/ElementwiseSteps.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

#include <functional>

namespace mlir::scf {
class ForOp;
} // namespace mlir::scf

namespace tilewright::interpreter {

/// The element type of a scalar, a tile or a view; nothing if the device does not support it.
std::optional<ElementType> elementTypeOf(mlir::Type type);

/// A compiled kernel.
struct CompiledKernel {
  /// A value that is set before execution. Empty elements: a splat.
  struct Constant {
    Slot slot;
    Scalar scalar;
    std::vector<char> elements;
  };
  struct Parameter {
    Slot slot;
    bool isView;
  };
  struct Capture {
    std::string name;
    Slot slot;
    bool isView;
  };

  tile::KernelOp op;
  Code code;
  unsigned numValues = 0, numViews = 0;
  std::vector<Constant> constants;
  std::vector<Parameter> arguments;
  std::vector<Slot> gridIds;
  std::vector<Capture> captures;
  bool hasTurns = false; ///< an instance may wait for earlier ones
};

class Lowering;
/// The function that lowers an operation, by its name.
using LowerFn = std::function<mlir::LogicalResult(Lowering &, mlir::Operation *)>;
using LoweringTable = llvm::StringMap<LowerFn>;
/// The table of the CPU device.
const LoweringTable &lowerings();

/// Null after a diagnostic.
std::unique_ptr<CompiledKernel> compileKernel(tile::KernelOp kernel, bool f64,
                                              const LoweringTable &table = lowerings());

/// The state of a kernel's compilation. The table's function for each operation appends steps to
/// the current code.
class Lowering {
public:
  Lowering(CompiledKernel &kernel, bool f64, const LoweringTable &table)
      : kernel(kernel), f64(f64), table(table) {}

  mlir::LogicalResult run();

  //===--- values ---------------------------------------------------------===//

  Slot newSlot() { return kernel.numValues++; }
  /// Allocates the slot of a result or a block argument.
  Slot define(mlir::Value value);
  Slot slotOf(mlir::Value value) const;
  static bool isView(mlir::Value value) { return mlir::isa<tile::ViewType>(value.getType()); }
  ElementType elementType(mlir::Value value) const { return *elementTypeOf(value.getType()); }
  Storage storage(mlir::Value value) const { return storageOf(elementType(value), f64); }
  /// The shape at which the value is computed: that of the tile, or of the lifted function.
  llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) const;
  int64_t countOf(mlir::Value value) const;
  /// The shape at which a scalar function is computed; empty for scalar code.
  llvm::ArrayRef<int64_t> lift() const { return scope->lift; }
  bool isLifted() const { return !scope->lift.empty(); }
  bool allF64() const { return f64; }

  IntOperand intOperand(mlir::Value value) const;
  ValueOperand operand(mlir::OpOperand &operand) const;
  /// Defines the value.
  ValueResult result(mlir::Value value);
  /// A slot that holds this constant.
  Slot constant(Scalar scalar);
  void addConstant(CompiledKernel::Constant constant) {
    kernel.constants.push_back(std::move(constant));
  }
  /// The slot of the captured view or scalar, which becomes a capture of the kernel.
  Slot capture(tile::CaptureOp op);
  Slot newViewSlot() { return kernel.numViews++; }
  void noteTurn() { kernel.hasTurns = true; }

  //===--- code -----------------------------------------------------------===//

  template <typename StepT, typename... Args> StepT &emit(Args &&...args) {
    auto step = std::make_unique<StepT>(std::forward<Args>(args)...);
    StepT &reference = *step;
    code->steps.push_back(std::move(step));
    return reference;
  }
  template <typename FunctionT> void emitFunction(mlir::Operation *op, FunctionT function) {
    emit<FunctionStep<FunctionT>>(op, std::move(function));
  }
  void emit(std::unique_ptr<Step> step) { code->steps.push_back(std::move(step)); }
  void append(Code other) {
    for (std::unique_ptr<Step> &step : other.steps)
      emit(std::move(step));
  }
  /// Executes `lower` with `into` as the current code.
  mlir::LogicalResult withCode(Code &into, llvm::function_ref<mlir::LogicalResult()> lower);

  /// Compiles the operations of a block before its terminator.
  mlir::LogicalResult lowerBlock(mlir::Block &block, Code &into);
  /// Moves of the operands to these slots.
  Moves movesTo(llvm::MutableArrayRef<mlir::OpOperand> operands, llvm::ArrayRef<Slot> to) const;
  Moves movesFrom(llvm::ArrayRef<Slot> from, mlir::ValueRange to) const;
  llvm::SmallVector<Slot> defineAll(mlir::ValueRange values);

  /// Compiles the body of a function into `into`. `arguments` are the slots of its arguments and
  /// whether the function may reuse their buffers. A non-empty `lift` is the shape at which scalars
  /// are computed.
  struct CallArgument {
    Slot slot;
    bool mayTake;
  };
  mlir::LogicalResult inlineFunction(mlir::Operation *call, mlir::FlatSymbolRefAttr callee,
                                     llvm::ArrayRef<CallArgument> arguments,
                                     llvm::ArrayRef<int64_t> lift, Code &into,
                                     llvm::SmallVectorImpl<ValueOperand> &results);
  /// The operands of a call, in order, as arguments of inlineFunction.
  llvm::SmallVector<CallArgument>
  callArguments(llvm::MutableArrayRef<mlir::OpOperand> operands) const;

  /// Compiles the operation, in a lifted function, as scalar code that is executed per element.
  mlir::LogicalResult lowerPerElement(mlir::Operation *op, llvm::ArrayRef<Slot> results);

private:
  struct Scope {
    llvm::DenseMap<mlir::Value, Slot> slots;
    /// Arguments whose buffers belong to the caller.
    llvm::DenseSet<mlir::Value> borrowed;
    llvm::SmallVector<int64_t, 4> lift;
  };

  mlir::LogicalResult lowerOperation(mlir::Operation *op);
  mlir::LogicalResult checkTypes(mlir::Operation *op) const;
  mlir::Operation *lastUser(mlir::Value value) const;
  bool mayDie(mlir::Value value) const;
  bool dies(mlir::OpOperand &operand) const;

  CompiledKernel &kernel;
  bool f64;
  const LoweringTable &table;
  uint64_t numOperations = 0;
  mlir::SymbolTableCollection symbols;
  Scope *scope = nullptr;
  Code *code = nullptr;
  llvm::SmallVector<mlir::Operation *> callStack;
  mutable llvm::DenseMap<mlir::Value, mlir::Operation *> lastUsers;
};

/// Emits a step whose result is computed element by element: see ElementwiseFunctionStep.
template <typename ApplyT>
mlir::LogicalResult emitElementwise(Lowering &lowering, mlir::Operation *op,
                                    llvm::ArrayRef<ValueOperand> operands, ValueResult result,
                                    ApplyT apply, bool mayReuseOperands = true) {
  lowering.emit<ElementwiseFunctionStep<ApplyT>>(op, operands, result, std::move(apply),
                                                 mayReuseOperands);
  return mlir::success();
}

/// Lowers a loop of scalar code into `step`, and emits that.
mlir::LogicalResult lowerFor(Lowering &lowering, mlir::scf::ForOp op,
                             std::unique_ptr<ForStep> step);

/// Enters `lower(lowering, op)` for each of these operations.
template <typename... OpTs, typename LowerT>
void addLowerings(LoweringTable &table, const LowerT &lower) {
  ((table[OpTs::getOperationName()] =
        [lower](Lowering &lowering, mlir::Operation *op) {
          return lower(lowering, mlir::cast<OpTs>(op));
        }),
   ...);
}

void addArithLowerings(LoweringTable &table);
void addTileLowerings(LoweringTable &table);
void addControlLowerings(LoweringTable &table);
void addDebugLowerings(LoweringTable &table);
void addTgpuLowerings(LoweringTable &table);

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_LOWERING_H
