// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel as a whole: its signature, its place in the grid, its blocks of operations.
//
// Arguments, in order: a view is its pointer, its extents (i32 each), its strides (i64 each); a
// scalar is itself; captures follow the declared ones. The grid is launched along x only, the
// first id the fastest, so that only the product of the extents is limited.

#include "passes/Conversion/DependentLaunch.h"
#include "passes/Conversion/Exchange.h"
#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/Nvvm.h"
#include "passes/Conversion/ReachedCaptures.h"
#include "passes/Conversion/SharedAccess.h"
#include "passes/Conversion/TimelineWriter.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/RegisterPressure.h"

#include "dialect/Tile/TileExpr.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/ExprLowering.h"

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
  // All captures that the module declares belong to the contract of a bound kernel, whether they
  // are read or not.
  bool isBound = kernel.getBindings().has_value();
  SmallVector<tile::CaptureOp> captures;
  for (auto capture : module.getOps<tile::CaptureOp>())
    if (isBound || reached.contains(capture))
      captures.push_back(capture);
  return captures;
}

/// The blocks of a kernel without loops that a multiprocessor holds if the tiles that it loads are
/// all in registers at once, with those that several operations read: the others are computed
/// element by element. ptxas does not know that these loads are what the kernel waits for: on its
/// own, it saves registers, down to numbers below which no further block fits, by loading some
/// tiles after the others have arrived.
static std::optional<int64_t> getBlocksOfLoads(KernelOp kernel) {
  const int64_t warps = kernel.getWarps(), threads = Target::lanes * warps;
  int64_t registers = RegisterLimits::besideLoads;
  for (BlockArgument argument : kernel.getArgs())
    if (isa<tile::ViewType>(argument.getType()) && !argument.use_empty())
      registers += RegisterLimits::ofAddress;
  for (Operation &op : kernel.getBody().front()) {
    if (op.getNumRegions() > 0 || isa<MmaOp, FmaDotOp, WgmmaOp>(op))
      return std::nullopt;
    for (Value value : op.getResults())
      if (isa<RankedTensorType>(value.getType()) && !isMadeWhereUsed(value) &&
          (isa<LoadOp>(op) || !value.hasOneUse()))
        registers += getRegistersOf(value.getType(), threads);
  }
  registers = llvm::alignTo(registers, Target::registerUnit / Target::lanes);
  const Target &target = *Target::find(kernel.getTarget());
  return std::min(Target::registers / (threads * registers), target.warpsOfMultiprocessor / warps);
}

LogicalResult KernelEmitter::run() {
  if (failed(emitSignature()) || failed(emitGrid()))
    return failure();
  // Other code has a second way for each access, whose registers are not counted.
  if (!aligned.empty())
    if (std::optional<int64_t> blocks = getBlocksOfLoads(kernel); blocks && *blocks > 0)
      nvvm::setLeastBlocks(func, *blocks);
  auto &timeline = state<TimelineWriter>();
  timeline.begin(*this);
  bool hasRoles = !kernel.getBody().getOps<RolesOp>().empty();
  if (!hasRoles)
    timeline.open(b, /*roleNumber=*/0);
  if (failed(emitBlock(kernel.getBody().front())))
    return failure();
  b.setLoc(kernel.getLoc());
  if (!hasRoles)
    timeline.close(b);
  LLVM::ReturnOp::create(b, ValueRange());
  b.threads.endOfEntry->erase();
  if (failed(overlapLaunches(kernel, func.getBody().front(), roleBlocks, b)))
    return failure();
  return endExchanges(*this);
}

LogicalResult KernelEmitter::emitBlock(Block &block) {
  auto &timeline = state<TimelineWriter>();
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break;
    if (writtenAhead.contains(&op))
      continue;
    b.setLoc(op.getLoc());
    // Invalid layouts are reported once, at the operation that defines the tile.
    for (Type type : op.getResultTypes())
      if (auto tile = dyn_cast<RankedTensorType>(type); tile && !getLayout(&op, tile))
        return failure();
    bool isEvent = !isa<scf::ForOp>(op);
    if (isEvent)
      timeline.sample(b, &op, /*isEnd=*/false);
    if (failed(emitOp(&op)))
      return failure();
    // With more, later passes, especially ptxas, take minutes and gigabytes.
    if (counter.operations > tile::kMostOperations)
      return op.emitError() << "the code of a thread must have at most " << tile::kMostOperations
                            << " operations, but exceeds the limit here; use smaller blocks, more "
                               "warps or fewer operations for each element";
    if (isEvent)
      timeline.sample(b, &op, /*isEnd=*/true);
  }
  return success();
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
  nvvm::markKernel(func, static_cast<int32_t>(32 * b.threads.numWarps));
  for (size_t i = 0; i < maps.size(); ++i) {
    unsigned argument = static_cast<unsigned>(firstMap + i);
    func.setArgAttr(argument, LLVM::LLVMDialect::getByValAttrName(),
                    TypeAttr::get(LLVM::LLVMArrayType::get(b.getI8Type(), 128)));
    func.setArgAttr(argument, LLVM::LLVMDialect::getAlignAttrName(), b.getI64IntegerAttr(64));
    nvvm::markGridConstant(func, argument);
  }
  Block *body = func.addEntryBlock(b);
  for (auto [i, map] : llvm::enumerate(maps))
    set(map.getMap(), {body->getArgument(static_cast<unsigned>(firstMap + i))});
  b.setInsertionPointToEnd(body);
  // Erased at the end.
  b.threads.endOfEntry = arith::ConstantOp::create(b, b.getBoolAttr(false));

  ValueRange flat = body->getArguments();
  for (auto [argument, isOptional] : llvm::zip_equal(kernel.getArgs(), kernel.getArgOptional())) {
    size_t count = getFlatTypes(argument.getType()).size();
    unflatten(argument, flat.take_front(count));
    flat = flat.drop_front(count);
    // The launch has checked the known extents, unless the view is absent.
    if (auto view = dyn_cast<tile::ViewType>(argument.getType()); view && !isOptional)
      for (auto [d, extent] : llvm::enumerate(view.getShape()))
        if (!ShapedType::isDynamic(extent))
          values[argument][1 + d] = b.i32(extent);
  }
  for (tile::CaptureOp capture : captureOps) {
    size_t count = getFlatTypes(capture.getType()).size();
    captures[capture.getSymNameAttr()] = llvm::to_vector(flat.take_front(count));
    flat = flat.drop_front(count);
  }

  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(b.threads.endOfEntry);
    b.threads.thread = nvvm::getThreadId(b);
    b.threads.warp = arith::DivUIOp::create(b, b.threads.thread, b.i32(32));
    b.threads.lane = arith::RemUIOp::create(b, b.threads.thread, b.i32(32));
  }

  if (!module.lookupSymbol(sharedMemoryName)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), 0),
                           /*isConstant=*/false, LLVM::Linkage::External, sharedMemoryName,
                           Attribute(), sharedMemoryAlignment,
                           /*addrSpace=*/3);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Grid
//===----------------------------------------------------------------------===//

/// In 64 bits, as the launch computes it; flags as i1.
static Value emitExpr(KernelEmitter &e, tile::ExprAttr expr) {
  ThreadBuilder &b = e.b;
  auto getLeaf = [&](tile::ExprAttr leaf) -> Value {
    for (auto [name, argument] : llvm::zip(e.kernel.getArgNames(), e.kernel.getArgs())) {
      if (cast<StringAttr>(name).getValue() != leaf.getName())
        continue;
      if (leaf.getKind() == tile::ExprKind::Name)
        return b.toI64(e.getScalar(argument));
      return b.toI64(getView(e, argument).extents[leaf.getValue()]);
    }
    if (DictionaryAttr bindings = e.kernel.getBindingsAttr())
      if (auto value = bindings.getAs<IntegerAttr>(leaf.getName()))
        return b.i64(value.getInt());
    return nullptr;
  };
  auto fail = [&](const Twine &message) { e.kernel.emitError() << "in the grid, " << message; };
  auto isPlain = [&](tile::ExprAttr division) {
    // A quotient that is an extent is at least 1, since the block is executed.
    bool isPositive = llvm::is_contained(e.kernel.getGrid(), Attribute(division)) &&
                      tile::getFunction(division) != expr::Function::Mod &&
                      isNotNegative(division.getOperands()[1]);
    return isPositive || isNotNegative(division);
  };
  return lowerExpr({b, /*width=*/64, getLeaf, fail, isPlain}, expr);
}

LogicalResult KernelEmitter::emitGrid() {
  Value rest = nvvm::getBlockId(b);
  size_t count = kernel.getGrid().size();
  for (auto [i, id] : llvm::enumerate(kernel.getGridIds())) {
    if (i + 1 == count) {
      set(id, {rest});
      break;
    }
    Value extent = emitExpr(*this, cast<tile::ExprAttr>(kernel.getGrid()[i]));
    if (!extent)
      return failure();
    if (extent.getType().isInteger(64))
      extent = arith::TruncIOp::create(b, b.getI32Type(), extent);
    set(id, {arith::RemUIOp::create(b, rest, extent).getResult()});
    rest = arith::DivUIOp::create(b, rest, extent);
  }
  return success();
}

/// The last extent, which the kernel may not be able to compute, is the number of blocks divided by
/// the other extents.
static LogicalResult emitGridExtent(KernelEmitter &e, GridExtentOp op) {
  ThreadBuilder &b = e.b;
  int64_t dim = op.getDim(), last = static_cast<int64_t>(e.kernel.getGrid().size()) - 1;
  Value rest = nvvm::getGridExtent(b);
  for (int64_t i = 0; i <= dim; ++i) {
    Value extent = rest;
    if (i < last) {
      extent = emitExpr(e, cast<tile::ExprAttr>(e.kernel.getGrid()[i]));
      if (!extent)
        return failure();
      if (extent.getType().isInteger(64))
        extent = arith::TruncIOp::create(b, b.getI32Type(), extent);
    }
    if (i == dim)
      e.set(op.getResult(), {extent});
    else
      rest = arith::DivUIOp::create(b, rest, extent);
  }
  return success();
}

static LogicalResult emitShare(KernelEmitter &e, ShareOp op) {
  e.set(op.getFirst(), {e.getScalar(e.kernel.getGridIds()[0])});
  e.set(op.getStep(), {nvvm::getGridExtent(e.b)});
  return success();
}

void tgpu::registerGridLowerings(LoweringTable &table) {
  table.add<GridExtentOp>(emitGridExtent);
  table.add<ShareOp>(emitShare);
}
