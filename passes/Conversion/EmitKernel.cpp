// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The signature of a kernel, its place in the grid, its shared memory.
//
// Arguments, in order: a view is its pointer, its extents (i32 each), its strides (i64 each); a
// scalar is itself; captures follow the declared ones. The grid is launched along x alone, the
// first id the fastest, so that no extent but the product is limited.

#include "passes/Conversion/KernelEmitter.h"

#include "dialect/Tile/TileExpr.h"
#include "passes/ExprLowering.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

SmallVector<tile::CaptureOp> tgpu::getReachedCaptures(KernelOp kernel) {
  auto module = kernel->getParentOfType<ModuleOp>();
  llvm::DenseSet<Operation *> reached;
  SmallVector<Operation *> pending{kernel};
  while (!pending.empty())
    if (auto uses = SymbolTable::getSymbolUses(pending.pop_back_val()))
      for (SymbolTable::SymbolUse use : *uses) {
        Operation *symbol = SymbolTable::lookupSymbolIn(module, use.getSymbolRef());
        if (symbol && reached.insert(symbol).second)
          pending.push_back(symbol);
      }
  // Of a bound kernel, what the module declares is its contract, read or not.
  bool isBound = kernel.getBindings().has_value();
  SmallVector<tile::CaptureOp> captures;
  for (auto capture : module.getOps<tile::CaptureOp>())
    if (isBound || reached.contains(capture))
      captures.push_back(capture);
  return captures;
}

LogicalResult KernelEmitter::emitSignature() {
  SmallVector<tile::CaptureOp> captureOps = getReachedCaptures(kernel);
  SmallVector<Type> types;
  for (Value argument : kernel.getArgs())
    llvm::append_range(types, getFlatTypes(argument.getType()));
  for (tile::CaptureOp capture : captureOps)
    llvm::append_range(types, getFlatTypes(capture.getType()));
  // Tensor maps come last, 128 bytes each.
  auto maps = llvm::to_vector(kernel.getBody().getOps<TensorMapOp>());
  size_t firstMap = types.size();
  types.append(maps.size(), LLVM::LLVMPointerType::get(b.getContext()));

  b.setInsertionPoint(kernel);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), types);
  func = LLVM::LLVMFuncOp::create(b, entry, type);
  func->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  func->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                b.getDenseI32ArrayAttr({static_cast<int32_t>(32 * numWarps)}));
  for (size_t i = 0; i < maps.size(); ++i) {
    unsigned argument = static_cast<unsigned>(firstMap + i);
    func.setArgAttr(argument, LLVM::LLVMDialect::getByValAttrName(),
                    TypeAttr::get(LLVM::LLVMArrayType::get(b.getI8Type(), 128)));
    func.setArgAttr(argument, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(64));
    func.setArgAttr(argument, NVVM::NVVMDialect::getGridConstantAttrName(), b.getUnitAttr());
  }
  Block *body = func.addEntryBlock(b);
  for (auto [i, map] : llvm::enumerate(maps))
    set(map.getMap(), {body->getArgument(static_cast<unsigned>(firstMap + i))});
  b.setInsertionPointToEnd(body);
  // Replaced by nothing in the end: marks where what is computed once goes.
  endOfEntry = arith::ConstantOp::create(b, b.getBoolAttr(false));

  ValueRange flat = body->getArguments();
  for (auto [argument, isOptional] : llvm::zip_equal(kernel.getArgs(), kernel.getArgOptional())) {
    size_t count = getFlatTypes(argument.getType()).size();
    unflatten(argument, flat.take_front(count));
    flat = flat.drop_front(count);
    // The launch has checked the extents that are known, unless there is no view.
    if (auto view = dyn_cast<tile::ViewType>(argument.getType()); view && !isOptional)
      for (auto [d, extent] : llvm::enumerate(view.getShape()))
        if (!ShapedType::isDynamic(extent))
          values[argument][1 + d] = i32(extent);
  }
  for (tile::CaptureOp capture : captureOps) {
    size_t count = getFlatTypes(capture.getType()).size();
    captures[capture.getSymNameAttr()] = llvm::to_vector(flat.take_front(count));
    flat = flat.drop_front(count);
  }

  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(endOfEntry);
    thread = NVVM::ThreadIdXOp::create(b, b.getI32Type());
    warp = arith::DivUIOp::create(b, thread, i32(32));
    lane = arith::RemUIOp::create(b, thread, i32(32));
  }

  // One external array for all kernels of the module; its size is given at launch.
  sharedMemory = module.lookupSymbol<LLVM::GlobalOp>("shared_memory");
  if (!sharedMemory) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    sharedMemory = LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), 0),
                                          /*isConstant=*/false, LLVM::Linkage::External,
                                          "shared_memory", Attribute(), /*alignment=*/1024,
                                          /*addrSpace=*/3);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Grid
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitGrid() {
  Value rest = NVVM::BlockIdXOp::create(b, b.getI32Type());
  size_t count = kernel.getGrid().size();
  for (auto [i, id] : llvm::enumerate(kernel.getGridIds())) {
    if (i + 1 == count) {
      set(id, {rest});
      break;
    }
    Value extent = emitExpr(cast<tile::ExprAttr>(kernel.getGrid()[i]));
    if (!extent)
      return failure();
    if (extent.getType().isInteger(64))
      extent = arith::TruncIOp::create(b, b.getI32Type(), extent);
    set(id, {arith::RemUIOp::create(b, rest, extent).getResult()});
    rest = arith::DivUIOp::create(b, rest, extent);
  }
  return success();
}

/// The last extent, which the kernel may not be able to compute, is what the others leave of the
/// grid.
LogicalResult KernelEmitter::emitGridExtent(GridExtentOp op) {
  int64_t dim = op.getDim(), last = static_cast<int64_t>(kernel.getGrid().size()) - 1;
  Value rest = NVVM::GridDimXOp::create(b, b.getI32Type());
  for (int64_t i = 0; i <= dim; ++i) {
    Value extent = rest;
    if (i < last) {
      extent = emitExpr(cast<tile::ExprAttr>(kernel.getGrid()[i]));
      if (!extent)
        return failure();
      if (extent.getType().isInteger(64))
        extent = arith::TruncIOp::create(b, b.getI32Type(), extent);
    }
    if (i == dim)
      set(op.getResult(), {extent});
    else
      rest = arith::DivUIOp::create(b, rest, extent);
  }
  return success();
}

/// In 64 bits, as the launch computes it; flags as i1.
Value KernelEmitter::emitExpr(tile::ExprAttr expr) {
  auto getLeaf = [&](tile::ExprAttr leaf) -> Value {
    for (auto [name, argument] : llvm::zip(kernel.getArgNames(), kernel.getArgs())) {
      if (cast<StringAttr>(name).getValue() != leaf.getName())
        continue;
      if (leaf.getKind() == tile::ExprKind::Name)
        return toI64(getScalar(argument));
      return toI64(getView(argument).extents[leaf.getValue()]);
    }
    if (DictionaryAttr bindings = kernel.getBindingsAttr())
      if (auto value = bindings.getAs<IntegerAttr>(leaf.getName()))
        return i64(value.getInt());
    return nullptr;
  };
  auto fail = [&](const Twine &message) { kernel.emitError() << "in the grid, " << message; };
  auto isPlain = [&](tile::ExprAttr division) {
    // A quotient that is an extent is at least 1, since a block runs.
    bool isPositive = llvm::is_contained(kernel.getGrid(), Attribute(division)) &&
                      tile::getFunction(division) != expr::Function::Mod &&
                      isNotNegative(division.getOperands()[1]);
    return isPositive || isNotNegative(division);
  };
  return lowerExpr({b, /*width=*/64, getLeaf, fail, isPlain}, expr);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitAlloc(Operation *op, std::optional<uint64_t> offset, int64_t bytes,
                                       int64_t alignment) {
  if (!offset)
    return op->emitError() << "a buffer must have an offset before code is generated; run "
                              "tgpu-plan-shared-memory";
  if (std::optional<uint64_t> limit = kernel.getSharedBytes(); limit && *offset + bytes > *limit)
    return op->emitError() << "a buffer of " << bytes << " bytes at " << *offset
                           << " must lie within the kernel's " << *limit
                           << " bytes of shared memory";
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(endOfEntry);
  Value base = LLVM::AddressOfOp::create(b, sharedMemory);
  set(op->getResult(0), {advance(base, static_cast<int64_t>(*offset))});
  return success();
}

LogicalResult KernelEmitter::emitSlot(SlotOp op) {
  auto type = cast<RingType>(op.getRing().getType());
  int64_t slot = llvm::alignTo(getBytes(type.getSlot()), getAlignment(type.getSlot()));
  Value ring = getScalar(op.getRing());
  if (type.getStages() == 1) {
    set(op.getBuffer(), {ring});
    return success();
  }
  Value index = arith::RemUIOp::create(b, getScalar(op.getUse()), i32(type.getStages()));
  set(op.getBuffer(), {advance(ring, mul(index, i32(slot)))});
  return success();
}
