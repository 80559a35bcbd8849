// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Slots, scopes and the lifetimes of values during the compilation of a kernel.

#include "lib/Interpreter/Lowering.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Calls.h"
#include "lib/Support/ElementTypes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tilewright::interpreter {

/// Lowering recurses over calls. Far more than kernels need, far less than the stack permits.
static constexpr size_t maxCallDepth = 200;
/// A tile that does not fit into memory must not abort the process.
static constexpr int64_t maxTileElements = int64_t(1) << 24;

std::optional<ElementType> elementTypeOf(Type type) {
  if (auto view = dyn_cast<tile::ViewType>(type))
    type = view.getElementType();
  else if (auto tensor = dyn_cast<RankedTensorType>(type))
    type = tensor.getElementType();
  else if (auto pending = dyn_cast<tgpu::PendingType>(type))
    type = pending.getTile().getElementType();
  else if (auto shared = dyn_cast<tgpu::SharedType>(type))
    type = shared.getElementType();
  // Values that denote objects of the thread block, such as barriers, are numbers.
  if (type.isIndex() || isa<tgpu::RingType, tgpu::BarriersType, tgpu::TensorMapType>(type))
    return ElementType::I64;
  return toElementType(type);
}

const LoweringTable &lowerings() {
  static const LoweringTable table = [] {
    LoweringTable table;
    addArithLowerings(table);
    addTileLowerings(table);
    addControlLowerings(table);
    addDebugLowerings(table);
    addTgpuLowerings(table);
    return table;
  }();
  return table;
}

std::unique_ptr<CompiledKernel> compileKernel(tile::KernelOp kernel, bool f64,
                                              const LoweringTable &table) {
  auto compiled = std::make_unique<CompiledKernel>();
  compiled->op = kernel;
  if (failed(Lowering(*compiled, f64, table).run()))
    return nullptr;
  return compiled;
}

LogicalResult Lowering::run() {
  if (failed(tile::Calls(kernel.op->getParentOfType<ModuleOp>()).checkSize(kernel.op)))
    return failure();
  Scope kernelScope;
  scope = &kernelScope;
  for (BlockArgument argument : kernel.op.getArgs()) {
    if (!elementTypeOf(argument.getType()))
      return kernel.op.emitOpError() << "has an argument of type " << argument.getType()
                                     << ", which is not supported by the CPU device";
    kernel.arguments.push_back({define(argument), isView(argument)});
  }
  for (BlockArgument id : kernel.op.getGridIds())
    kernel.gridIds.push_back(define(id));
  return lowerBlock(kernel.op.getBody().front(), kernel.code);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Slot Lowering::define(Value value) {
  Slot slot = isView(value) ? newViewSlot() : newSlot();
  scope->slots[value] = slot;
  return slot;
}

llvm::SmallVector<Slot> Lowering::defineAll(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) { return define(value); });
}

Slot Lowering::slotOf(Value value) const {
  assert(scope->slots.count(value) && "value is not defined in this scope");
  return scope->slots.lookup(value);
}

ArrayRef<int64_t> Lowering::shapeOf(Value value) const {
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
    return tensor.getShape();
  if (auto pending = dyn_cast<tgpu::PendingType>(value.getType()))
    return pending.getTile().getShape();
  if (auto shared = dyn_cast<tgpu::SharedType>(value.getType()))
    return shared.getShape();
  return scope->lift;
}

int64_t Lowering::countOf(Value value) const {
  int64_t count = 1;
  for (int64_t extent : shapeOf(value))
    count *= extent;
  return count;
}

IntOperand Lowering::intOperand(Value value) const {
  return {slotOf(value), storage(value), false, 0};
}

ValueOperand Lowering::operand(OpOperand &operand) const {
  return {slotOf(operand.get()), storage(operand.get()), dies(operand)};
}

ValueResult Lowering::result(Value value) {
  ElementType type = elementType(value);
  bool rounds = isFloat(type) && !f64;
  return {define(value), storage(value), countOf(value), rounds ? type : ElementType::F32};
}

Slot Lowering::constant(Scalar scalar) {
  Slot slot = newSlot();
  addConstant({slot, scalar, {}});
  return slot;
}

Slot Lowering::capture(tile::CaptureOp op) {
  for (const CompiledKernel::Capture &capture : kernel.captures)
    if (capture.name == op.getSymName())
      return capture.slot;
  bool isView = isa<tile::ViewType>(op.getType());
  Slot slot = isView ? newViewSlot() : newSlot();
  kernel.captures.push_back({op.getSymName().str(), slot, isView});
  return slot;
}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

Operation *Lowering::lastUser(Value value) const {
  auto [it, isNew] = lastUsers.try_emplace(value, nullptr);
  if (!isNew)
    return it->second;
  Operation *last = nullptr;
  Block *block = value.getParentBlock();
  for (Operation *user : value.getUsers()) {
    Operation *ancestor = block->findAncestorOpInBlock(*user);
    if (ancestor && (!last || last->isBeforeInBlock(ancestor)))
      last = ancestor;
  }
  lastUsers[value] = last;
  return last;
}

bool Lowering::mayDie(Value value) const {
  // A buffer stays live until the end of its block.
  if (isView(value) || isa<tgpu::SharedType>(value.getType()) || scope->borrowed.contains(value))
    return false;
  Operation *definition = value.getDefiningOp();
  return !definition || !definition->hasTrait<OpTrait::ConstantLike>();
}

bool Lowering::dies(OpOperand &operand) const {
  Value value = operand.get();
  Operation *op = operand.getOwner();
  if (!mayDie(value) || lastUser(value) != op)
    return false;
  for (OpOperand &use : value.getUses()) {
    if (&use == &operand)
      continue;
    bool isNested = use.getOwner() != op && op->isProperAncestor(use.getOwner());
    bool isLater = use.getOwner() == op && use.getOperandNumber() > operand.getOperandNumber();
    if (isNested || isLater)
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

LogicalResult Lowering::checkTypes(Operation *op) const {
  auto check = [&](Type type) -> LogicalResult {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!elementTypeOf(type) || (tensor && !tensor.hasStaticShape()))
      return op->emitOpError()
             << "has a value of type " << type
             << ", which is not supported by the CPU device; use a tile of known "
                "extents of a float, an index, or an integer of 1, 8, 32 or 64 bits";
    if (tensor && tensor.getNumElements() > maxTileElements)
      return op->emitOpError() << "has a tile of " << tensor.getNumElements()
                               << " elements; the CPU device supports at most " << maxTileElements;
    if (tensor && isLifted())
      return op->emitOpError() << "has a tile in a scalar function, which is not supported by the "
                                  "CPU device";
    return success();
  };
  for (Type type : op->getOperandTypes())
    if (failed(check(type)))
      return failure();
  for (Type type : op->getResultTypes())
    if (failed(check(type)))
      return failure();
  for (Region &region : op->getRegions()) {
    if (!region.empty() && !region.hasOneBlock())
      return op->emitOpError() << "has a region of several blocks, which is not supported by the "
                                  "CPU device";
    for (BlockArgument argument : region.getArguments())
      if (failed(check(argument.getType())))
        return failure();
  }
  return success();
}

LogicalResult Lowering::lowerOperation(Operation *op) {
  auto lowering = table.find(op->getName().getStringRef());
  if (lowering == table.end())
    return op->emitError()
           << "operation '" << op->getName()
           << "' is not supported by the CPU device; use operations of arith, math, "
              "scf, func, tile and tgpu";
  if (failed(checkTypes(op)))
    return failure();
  // In addition to the limit of Calls: some code is compiled both for tiles and for single
  // elements.
  if (++numOperations > tile::kMostOperations)
    return op->emitOpError()
           << "must be one of at most " << tile::kMostOperations
           << " operations of a kernel on the CPU device, where code for single elements counts "
              "twice, but got operation "
           << numOperations << "; use smaller functions or fewer calls";
  return lowering->second(*this, op);
}

LogicalResult Lowering::lowerBlock(Block &block, Code &into) {
  llvm::DenseMap<Operation *, llvm::SmallVector<Value, 2>> deaths;
  auto note = [&](Value value, Operation *definition) {
    if (!mayDie(value))
      return;
    if (Operation *last = lastUser(value))
      deaths[last].push_back(value);
    else if (definition)
      deaths[definition].push_back(value);
  };
  for (BlockArgument argument : block.getArguments())
    note(argument, nullptr);
  for (Operation &op : block)
    for (Value value : op.getResults())
      note(value, &op);

  Code *outer = std::exchange(code, &into);
  llvm::scope_exit restore([&] { code = outer; });
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break;
    size_t before = into.steps.size();
    if (failed(lowerOperation(&op)))
      return failure();
    if (into.steps.size() == before)
      continue;
    for (Value value : deaths.lookup(&op))
      if (!isView(value))
        into.steps.back()->releases.push_back(slotOf(value));
  }
  return success();
}

LogicalResult Lowering::withCode(Code &into, llvm::function_ref<LogicalResult()> lower) {
  Code *outer = std::exchange(code, &into);
  LogicalResult result = lower();
  code = outer;
  return result;
}

Moves Lowering::movesTo(MutableArrayRef<OpOperand> operands, ArrayRef<Slot> to) const {
  Moves moves;
  for (auto [operand, slot] : llvm::zip_equal(operands, to))
    moves.push_back({slotOf(operand.get()), slot, isView(operand.get()), dies(operand)});
  return moves;
}

Moves Lowering::movesFrom(ArrayRef<Slot> from, ValueRange to) const {
  Moves moves;
  for (auto [slot, value] : llvm::zip_equal(from, to))
    moves.push_back({slot, slotOf(value), isView(value), true});
  return moves;
}

llvm::SmallVector<Lowering::CallArgument>
Lowering::callArguments(MutableArrayRef<OpOperand> operands) const {
  llvm::SmallVector<CallArgument> arguments;
  for (OpOperand &operand : operands) {
    // A value that is passed twice has one slot: neither argument may overwrite it.
    bool isOnce = llvm::count_if(operands, [&](OpOperand &other) {
                    return other.get() == operand.get();
                  }) == 1;
    arguments.push_back({slotOf(operand.get()), isOnce && dies(operand)});
  }
  return arguments;
}

LogicalResult Lowering::inlineFunction(Operation *call, FlatSymbolRefAttr callee,
                                       ArrayRef<CallArgument> arguments, ArrayRef<int64_t> lift,
                                       Code &into, SmallVectorImpl<ValueOperand> &results) {
  auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(call, callee);
  if (!function)
    return call->emitOpError() << "refers to " << callee << ", which is not a function";
  if (function.isExternal())
    return call->emitOpError() << "refers to function " << callee
                               << ", which has no body; define it";
  if (!function.getBody().hasOneBlock())
    return function.emitOpError() << "must have one block to run on the CPU device, but got "
                                  << function.getBody().getBlocks().size()
                                  << "; use scf.if and scf.for";
  if (llvm::is_contained(callStack, function.getOperation()))
    return call->emitOpError() << "must not call a function recursively, but got " << callee;
  if (callStack.size() >= maxCallDepth)
    return call->emitOpError() << "nests calls deeper than " << maxCallDepth
                               << ", which is not supported by the CPU device; move the bodies of "
                                  "some functions to their callers";

  Scope functionScope;
  functionScope.lift.assign(lift.begin(), lift.end());
  for (auto [argument, passed] : llvm::zip_equal(function.getArguments(), arguments)) {
    if (!elementTypeOf(argument.getType()))
      return function.emitOpError() << "has an argument of type " << argument.getType()
                                    << ", which is not supported by the CPU device";
    functionScope.slots[argument] = passed.slot;
    if (!passed.mayTake)
      functionScope.borrowed.insert(argument);
  }
  Scope *outer = std::exchange(scope, &functionScope);
  callStack.push_back(function);
  llvm::scope_exit restore([&] {
    scope = outer;
    callStack.pop_back();
  });
  Block &body = function.getBody().front();
  if (failed(lowerBlock(body, into)))
    return failure();
  for (OpOperand &operand : body.getTerminator()->getOpOperands()) {
    if (isView(operand.get()))
      return function.emitOpError()
             << "returns a view, which is not supported by the CPU device; pass it as an "
                "argument to what reads it";
    results.push_back(this->operand(operand));
  }
  return success();
}

LogicalResult Lowering::lowerPerElement(Operation *op, ArrayRef<Slot> results) {
  llvm::SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), inputs);

  int64_t count = 1;
  for (int64_t extent : scope->lift)
    count *= extent;
  auto step = std::make_unique<PerElementStep>(op, count);
  Scope scalarScope;
  for (Value value : inputs) {
    if (isView(value)) {
      scalarScope.slots[value] = slotOf(value);
      continue;
    }
    Slot slot = newSlot();
    scalarScope.slots[value] = slot;
    step->inputs.push_back({slotOf(value), slot, storage(value)});
  }
  {
    Scope *outerScope = std::exchange(scope, &scalarScope);
    Code *outerCode = std::exchange(code, &step->code);
    llvm::scope_exit restore([&] {
      scope = outerScope;
      code = outerCode;
    });
    if (failed(lowerOperation(op)))
      return failure();
    for (auto [value, slot] : llvm::zip_equal(op->getResults(), results))
      step->outputs.push_back({slotOf(value), slot, storage(value)});
  }
  emit(std::move(step));
  return success();
}

} // namespace tilewright::interpreter
