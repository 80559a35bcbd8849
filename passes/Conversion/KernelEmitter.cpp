// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values of a kernel, their types and layouts, and the lowering of one operation.

#include "passes/Conversion/KernelEmitter.h"

#include "dialect/Tile/Calls.h"
#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/LoweringTable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

KernelEmitter::KernelEmitter(KernelOp kernel, StringRef entry, AlignedViews aligned)
    : b(kernel.getLoc(), kernel.getContext()), kernel(kernel),
      module(kernel->getParentOfType<ModuleOp>()), entry(entry), aligned(std::move(aligned)) {
  b.threads.numWarps = kernel.getWarps();
  b.setListener(&counter);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool KernelEmitter::isPacked(Type type) {
  auto tile = dyn_cast<RankedTensorType>(type);
  return tile && isa_and_nonnull<OperandAttr>(tile.getEncoding()) &&
         getElementBits(tile.getElementType()) <= 32;
}

/// 8-bit floats are bytes: LLVM has no type for them.
Type KernelEmitter::getScalarType(Type type) {
  type = tile::getElementType(type);
  if (isa<IndexType>(type))
    return b.getI64Type();
  if (isFloat8(type))
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

Values KernelEmitter::getElements(Value value) {
  if (auto found = deferred.find(value); found != deferred.end())
    return found->second();
  const Values &list = get(value);
  return isPacked(value.getType()) ? b.unpackWords(list, getScalarType(value.getType())) : list;
}

void KernelEmitter::setElements(Value value, ArrayRef<Value> elements) {
  set(value, isPacked(value.getType()) ? b.packWords(elements) : Values(elements));
}

void KernelEmitter::defer(Value tile, std::function<Values()> getElements) {
  deferred[tile] = std::move(getElements);
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

const Values *KernelEmitter::getCapture(Operation *op, FlatSymbolRefAttr name) {
  auto found = captures.find(name.getAttr());
  if (found != captures.end())
    return &found->second;
  op->emitError() << "'" << name << "' is not a capture in the module";
  return nullptr;
}

int64_t KernelEmitter::getAlignment(Value view) {
  BlockArgument argument = getAlignedArgument(kernel, view);
  return argument ? aligned.lookup(argument.getArgNumber()) : 0;
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

const RegisterLayout *KernelEmitter::getLayout(Operation *op, Type tile) {
  std::unique_ptr<RegisterLayout> &known = registerLayouts[tile];
  if (known)
    return known.get();
  if (!isRegisterTile(tile)) {
    op->emitError() << "a tile must have a layout here, but got " << tile;
    return nullptr;
  }
  Result<RegisterLayout> layout = getRegisterLayout(cast<RankedTensorType>(tile));
  if (!layout) {
    op->emitError() << layout.message() << ", in " << tile;
    return nullptr;
  }
  if (layout->numWarps() != b.threads.numWarps) {
    op->emitError() << "a layout must spread a tile over the " << b.threads.numWarps
                    << " warps of the block, but got " << layout->numWarps() << ", in " << tile;
    return nullptr;
  }
  known = std::make_unique<RegisterLayout>(*layout);
  return known.get();
}

const layout::SharedLayout *KernelEmitter::getLayout(Operation *op, SharedType buffer) {
  std::unique_ptr<layout::SharedLayout> &known = sharedLayouts[buffer];
  if (known)
    return known.get();
  Result<layout::SharedLayout> layout = getSharedLayout(buffer);
  if (!layout) {
    op->emitError() << layout.message() << ", in " << buffer;
    return nullptr;
  }
  known = std::make_unique<layout::SharedLayout>(*layout);
  return known.get();
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitOp(Operation *op) {
  if (const LoweringTable::Lowering *lower = getLowerings().find(op))
    return (*lower)(*this, op);
  return op->emitError() << "'" << op->getName().getStringRef() << "' cannot be lowered to "
                         << kernel.getTarget() << "; use another operation of arith or math";
}

/// Calls are emitted by recursion. The default pipeline leaves only those of elementwise functions.
constexpr size_t kMostNestedCalls = 64;

LogicalResult KernelEmitter::inlineCall(Operation *call, StringRef callee,
                                        ArrayRef<Values> arguments, Values &results) {
  auto function = module.lookupSymbol<func::FuncOp>(callee);
  if (!function || function.isExternal())
    return call->emitError()
           << "function '" << callee
           << "' has no body in the module; define it, or link the file that does";
  if (!function.getBody().hasOneBlock())
    return call->emitError() << "function '" << callee
                             << "' must have structured control flow (scf), but got branches";
  if (llvm::is_contained(callStack, callee))
    return call->emitError() << "function '" << callee << "' must not be recursive; write a loop";
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
