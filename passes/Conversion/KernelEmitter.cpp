// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel as a whole, its values, and the operations of a block.

#include "passes/Conversion/KernelEmitter.h"

#include "dialect/Tile/Calls.h"
#include "passes/Conversion/LoweringTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

KernelEmitter::KernelEmitter(KernelOp kernel, StringRef entry, AlignedViews aligned)
    : kernel(kernel), entry(entry), aligned(std::move(aligned)),
      module(kernel->getParentOfType<ModuleOp>()), b(kernel.getLoc(), kernel.getContext()),
      numWarps(kernel.getWarps()) {
  b.setListener(&counter);
}

LogicalResult KernelEmitter::run() {
  if (failed(emitSignature()) || failed(emitGrid()))
    return failure();
  emitTimelineState();
  bool hasRoles = !kernel.getBody().getOps<RolesOp>().empty();
  if (!hasRoles)
    openTimeline(/*roleNumber=*/0);
  if (failed(emitBlock(kernel.getBody().front())))
    return failure();
  b.setLoc(kernel.getLoc());
  if (!hasRoles)
    closeTimeline();
  LLVM::ReturnOp::create(b, ValueRange());
  endOfEntry->erase();
  int64_t limit = getTargetOf(kernel).sharedOfBlock;
  int64_t planned = static_cast<int64_t>(kernel.getSharedBytes().value_or(0));
  if (scratch && planned + scratchBytes > limit)
    return kernel.emitError() << "needs " << planned << " bytes of shared memory and "
                              << scratchBytes << " for exchanges between warps, but the limit of "
                              << kernel.getTarget() << " is " << limit << "; use smaller blocks";
  if (scratch)
    scratch.setGlobalTypeAttr(TypeAttr::get(LLVM::LLVMArrayType::get(b.getI8Type(), scratchBytes)));
  return success();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool KernelEmitter::isPacked(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile && isa_and_nonnull<OperandAttr>(tile.getEncoding()) &&
         getElementBits(tile.getElementType()) <= 32;
}

/// Floats of 8 bits are bytes: LLVM has no type for them.
Type KernelEmitter::getScalarType(Type type) {
  type = tile::getElementType(type);
  if (isa<IndexType>(type))
    return b.getI64Type();
  if (isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8)
    return b.getI8Type();
  return type;
}

SmallVector<Type> KernelEmitter::getFlatTypes(Type type) {
  if (auto pending = dyn_cast<PendingType>(type))
    type = pending.getTile();
  if (auto view = dyn_cast<tile::ViewType>(type)) {
    SmallVector<Type> types{LLVM::LLVMPointerType::get(b.getContext(), 1)};
    types.append(view.getRank(), b.getI32Type());
    types.append(view.getRank(), b.getI64Type());
    return types;
  }
  if (isa<SharedType, RingType, BarriersType>(type))
    return {LLVM::LLVMPointerType::get(b.getContext(), 3)};
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile)
    return {getScalarType(type)};
  const layout::RegisterLayout *layout = getLayout(kernel, type);
  size_t count = layout ? layout->registersPerThread() : 0;
  if (isPacked(type))
    return SmallVector<Type>(count * getElementBits(tile.getElementType()) / 32, b.getI32Type());
  return SmallVector<Type>(count, getScalarType(type));
}

SmallVector<Type> KernelEmitter::getFlatTypes(TypeRange types) {
  SmallVector<Type> flat;
  for (Type type : types)
    llvm::append_range(flat, getFlatTypes(type));
  return flat;
}

const Values &KernelEmitter::get(Value value) { return values[value]; }

Values KernelEmitter::packWords(ArrayRef<Value> elements) {
  Values words;
  unsigned perWord = 32 / elements.front().getType().getIntOrFloatBitWidth();
  for (size_t i = 0; i < elements.size(); i += perWord)
    words.push_back(
        bitcast(perWord == 1 ? elements[i] : vectorOf(elements.slice(i, perWord)), b.getI32Type()));
  return words;
}

Values KernelEmitter::unpackWords(ArrayRef<Value> words, Type element) {
  Values elements;
  unsigned perWord = 32 / element.getIntOrFloatBitWidth();
  for (Value word : words) {
    if (perWord == 1) {
      elements.push_back(bitcast(word, element));
      continue;
    }
    Value vector = bitcast(word, VectorType::get(perWord, element));
    for (unsigned i = 0; i < perWord; ++i)
      elements.push_back(extract(vector, i));
  }
  return elements;
}

Values KernelEmitter::getElements(Value value) {
  if (auto load = deferredLoads.find(value); load != deferredLoads.end()) {
    Values elements;
    for (int reg = 0; reg < load->second.layout->registersPerThread();
         reg += static_cast<int>(load->second.vector))
      llvm::append_range(elements, loadRun(load->second, reg));
    return elements;
  }
  if (columnBounds.count(value)) {
    Values elements(getLayout(value.getDefiningOp(), value.getType())->registersPerThread());
    visitColumnBits(value, [&](int reg, Value is) { elements[reg] = is; });
    return elements;
  }
  const Values &list = get(value);
  return isPacked(value.getType()) ? unpackWords(list, getScalarType(value.getType())) : list;
}

void KernelEmitter::setElements(Value value, ArrayRef<Value> elements) {
  set(value, isPacked(value.getType()) ? packWords(elements) : Values(elements));
}

Values KernelEmitter::flatten(ValueRange list) {
  Values flat;
  for (Value value : list)
    llvm::append_range(flat, get(value));
  return flat;
}

void KernelEmitter::unflatten(ValueRange list, ValueRange flat) {
  for (Value value : list) {
    size_t count = getFlatTypes(value.getType()).size();
    set(value, llvm::to_vector(flat.take_front(count)));
    flat = flat.drop_front(count);
  }
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitBlock(Block &block) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break;
    if (emittedAhead.contains(&op))
      continue;
    b.setLoc(op.getLoc());
    // Invalid layouts are reported once, at the operation that makes the tile.
    for (Type type : op.getResultTypes())
      if (auto tile = dyn_cast<RankedTensorType>(type); tile && !getLayout(&op, tile))
        return failure();
    bool isEvent = !isa<scf::ForOp>(op);
    if (isEvent)
      sample(&op, /*isEnd=*/false);
    if (failed(emitOp(&op)))
      return failure();
    // Later passes, above all ptxas, take minutes and gigabytes for more.
    if (counter.operations > tile::kMostOperations)
      return op.emitError() << "the code of a thread must have at most " << tile::kMostOperations
                            << " operations, but got more up to here; use smaller blocks, more "
                               "warps or fewer operations for each element";
    if (isEvent)
      sample(&op, /*isEnd=*/true);
  }
  return success();
}

LogicalResult KernelEmitter::emitOp(Operation *op) {
  if (const LoweringTable::Lowering *lower = getLowerings().find(op))
    return (*lower)(*this, op);
  return op->emitError() << "'" << op->getName().getStringRef() << "' cannot be lowered to "
                         << kernel.getTarget() << " yet";
}

/// Calls are emitted by recursion. The default pipeline leaves none but those of element-wise
/// functions.
constexpr size_t kMostNestedCalls = 64;

LogicalResult KernelEmitter::inlineCall(Operation *call, StringRef callee,
                                        ArrayRef<Values> arguments, Values &results) {
  auto function = module.lookupSymbol<func::FuncOp>(callee);
  if (!function || function.isExternal())
    return call->emitError() << "function '" << callee << "' has no body in the module";
  if (!function.getBody().hasOneBlock())
    return call->emitError() << "function '" << callee
                             << "' must have structured control flow (scf), but got branches";
  if (llvm::is_contained(callStack, callee))
    return call->emitError() << "function '" << callee << "' must not be recursive";
  if (callStack.size() == kMostNestedCalls)
    return call->emitError() << "calls are nested deeper than " << kMostNestedCalls
                             << "; run tile-inline-calls first";
  Block &body = function.getBody().front();
  for (auto [argument, list] : llvm::zip_equal(body.getArguments(), arguments))
    set(argument, list);
  callStack.push_back(callee);
  LogicalResult result = emitBlock(body);
  callStack.pop_back();
  if (failed(result))
    return failure();
  results = flatten(body.getTerminator()->getOperands());
  return success();
}
