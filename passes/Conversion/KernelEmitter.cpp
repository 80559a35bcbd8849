// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Values, control flow, and which function emits what.

#include "passes/Conversion/KernelEmitter.h"

#include "dialect/Tile/Calls.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

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
    // Layouts that cannot be are reported here, once, at the operation that makes the tile.
    for (Type type : op.getResultTypes())
      if (auto tile = dyn_cast<RankedTensorType>(type); tile && !getLayout(&op, tile))
        return failure();
    bool isEvent = !isa<scf::ForOp>(op);
    if (isEvent)
      sample(&op, /*isEnd=*/false);
    if (failed(emitOp(&op)))
      return failure();
    // What follows, ptxas above all, takes minutes and gigabytes for more.
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
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<scf::ForOp>([&](auto op) { return emitFor(op); })
      .Case<scf::IfOp>([&](auto op) { return emitIf(op); })
      .Case<scf::WhileOp>([&](auto op) { return emitWhile(op); })
      .Case<func::CallOp>([&](func::CallOp call) -> LogicalResult {
        SmallVector<Values> arguments;
        for (Value operand : call.getOperands())
          arguments.push_back(get(operand));
        Values results;
        if (failed(inlineCall(call, call.getCallee(), arguments, results)))
          return failure();
        unflatten(call.getResults(), results);
        return success();
      })
      .Case<arith::ConstantOp>([&](auto op) { return emitConstant(op); })
      .Case<arith::CmpIOp>(
          [&](auto op) { return emitColumnCompare(op) ? success() : emitElementwise(op); })
      .Case<arith::AndIOp>(
          [&](auto op) { return emitColumnAnd(op) ? success() : emitElementwise(op); })
      .Case<tile::SelectOp>([&](auto op) { return emitSelect(op); })
      .Case<tile::CastOp>([&](auto op) { return emitCast(op); })
      .Case<tile::MapOp>([&](auto op) { return emitMap(op); })
      .Case<tile::RandomOp>([&](auto op) { return emitRandom(op); })
      .Case<tile::FullOp>([&](auto op) { return emitFull(op); })
      .Case<tile::IotaOp>([&](auto op) { return emitIota(op); })
      .Case<tile::ExpandOp>([&](auto op) { return emitExpand(op); })
      .Case<tile::TransposeOp>([&](auto op) { return emitTranspose(op); })
      .Case<tile::ReshapeOp>([&](auto op) { return emitReshape(op); })
      .Case<tile::SliceOp>([&](auto op) { return emitSlice(op); })
      .Case<tile::GatherOp>([&](auto op) { return emitGather(op); })
      .Case<tile::ScatterAddOp>([&](auto op) { return emitScatterAdd(op); })
      .Case<tile::AddAtOp>([&](auto op) { return emitAddAt(op); })
      .Case<tile::ReduceOp>([&](auto op) { return emitReduce(op); })
      .Case<ThreadSumOp>([&](auto op) {
        emitThreadSum(op);
        return success();
      })
      .Case<RaiseMaxOp>([&](auto op) { return emitRaiseMax(op); })
      .Case<FirstRoundOp>([&](auto op) {
        emitFirstRound(op);
        return success();
      })
      .Case<tile::DimOp>([&](auto op) { return emitDim(op); })
      .Case<tile::SubviewOp>([&](auto op) { return emitSubview(op); })
      .Case<tile::CapturedOp>([&](auto op) { return emitCaptured(op); })
      .Case<tile::RepeatOp>([&](auto op) { return emitRepeat(op); })
      .Case<tile::AtOp>([&](auto op) { return emitAt(op); })
      .Case<ConvertOp>([&](auto op) { return emitConvert(op); })
      .Case<LoadOp>([&](auto op) { return emitLoad(op); })
      .Case<StoreOp>([&](auto op) { return emitStore(op); })
      .Case<AtomicAddOp>([&](auto op) { return emitAtomicAdd(op); })
      .Case<CopyAsyncOp>([&](auto op) { return emitCopyAsync(op); })
      .Case<CopyCommitOp>([&](auto) {
        intrinsic("llvm.nvvm.cp.async.commit.group", ValueRange());
        return success();
      })
      .Case<CopyWaitOp>([&](CopyWaitOp op) {
        intrinsic("llvm.nvvm.cp.async.wait.group", i32(op.getPending()));
        return success();
      })
      .Case<SyncOp>([&](SyncOp op) -> LogicalResult {
        if (op.getBarrier())
          return meetAt(op, op.getBarrier(), "sync");
        barrier();
        return success();
      })
      .Case<SignalOp>([&](SignalOp op) { return meetAt(op, op.getBarrier(), "arrive"); })
      .Case<NamedBarrierOp>([&](auto op) { return emitNamedBarrier(op); })
      .Case<RolesOp>([&](auto op) { return emitRoles(op); })
      .Case<AllocBarriersOp>([&](auto op) { return emitAllocBarriers(op); })
      .Case<WaitOp>([&](WaitOp op) {
        waitFor(op.getBarriers(), getScalar(op.getUse()), /*forRelease=*/false);
        return success();
      })
      .Case<AcquireOp>([&](AcquireOp op) {
        waitFor(op.getBarriers(), getScalar(op.getUse()), /*forRelease=*/true);
        return success();
      })
      .Case<ArriveOp>([&](auto op) { return emitArrive(op); })
      .Case<TurnsOp>([&](auto op) { return emitTurns(op); })
      .Case<TakeTurnOp>([&](TakeTurnOp op) { return emitTurn(op, op.getTurns(), /*takes=*/true); })
      .Case<PassTurnOp>([&](PassTurnOp op) { return emitTurn(op, op.getTurns(), /*takes=*/false); })
      .Case<BulkLoadOp>([&](auto op) { return emitBulkLoad(op); })
      .Case<ExpectOp>([&](auto op) { return emitExpect(op); })
      .Case<TensorMapOp>([](auto) { return success(); }) // a parameter, bound at entry
      .Case<TmaLoadOp>([&](auto op) { return emitTmaLoad(op); })
      .Case<TmaStoreOp>([&](auto op) { return emitTmaStore(op); })
      .Case<TmaReduceAddOp>([&](auto op) { return emitTmaReduceAdd(op); })
      .Case<BulkCommitOp>([&](auto) {
        inlineAsm("cp.async.bulk.commit_group;", "~{memory}", nullptr, {});
        return success();
      })
      .Case<BulkWaitOp>([&](BulkWaitOp op) {
        std::string text =
            op.getRead() ? "cp.async.bulk.wait_group.read " : "cp.async.bulk.wait_group ";
        inlineAsm(text + std::to_string(op.getPending()) + ";", "~{memory}", nullptr, {});
        return success();
      })
      .Case<FenceAsyncOp>([&](auto) {
        inlineAsm("fence.proxy.async.shared::cta;", "~{memory}", nullptr, {});
        return success();
      })
      .Case<WgmmaOp>([&](auto op) { return emitWgmma(op); })
      .Case<ColumnsOp>([&](auto op) { return emitColumns(op); })
      .Case<WgmmaCommitOp>([&](auto) {
        inlineAsm("wgmma.commit_group.sync.aligned;", "~{memory}", nullptr, {});
        return success();
      })
      .Case<WgmmaWaitOp>([&](auto op) {
        emitWgmmaWait(op);
        return success();
      })
      .Case<GridExtentOp>([&](auto op) { return emitGridExtent(op); })
      .Case<AnyOp>([&](AnyOp op) { return emitAny(op); })
      .Case<TakeTileOp>([&](auto op) { return emitTakeTile(op); })
      .Case<AwaitTurnOp>([&](auto op) { return emitAwaitTurn(op); })
      .Case<EndTurnOp>([&](auto op) { return emitEndTurn(op); })
      .Case<GetTileOp>([&](auto op) {
        emitGetTile(op);
        return success();
      })

      .Case<PublishOp>([&](auto op) { return emitPublish(op); })
      .Case<ReceiveOp>([&](auto op) {
        emitReceive(op);
        return success();
      })
      .Case<AllocOp>([&](AllocOp op) {
        auto type = cast<SharedType>(op.getBuffer().getType());
        return emitAlloc(op, op.getOffset(), getBytes(type), getAlignment(type));
      })
      .Case<AllocRingOp>([&](AllocRingOp op) {
        auto type = cast<RingType>(op.getRing().getType());
        int64_t alignment = getAlignment(type.getSlot());
        int64_t slot = llvm::alignTo(getBytes(type.getSlot()), alignment);
        return emitAlloc(op, op.getOffset(), type.getStages() * slot, alignment);
      })
      .Case<SlotOp>([&](auto op) { return emitSlot(op); })
      .Case<ReadOp>([&](auto op) { return emitRead(op); })
      .Case<WriteSharedOp>([&](auto op) { return emitWrite(op); })
      .Case<MmaOp>([&](auto op) { return emitMma(op); })
      .Case<FmaDotOp>([&](auto op) { return emitFmaDot(op); })
      .Default([&](Operation *op) -> LogicalResult {
        StringRef dialect = op->getName().getDialectNamespace();
        if (dialect == math::MathDialect::getDialectNamespace())
          return emitMath(op);
        if (dialect == arith::ArithDialect::getDialectNamespace())
          return emitElementwise(op);
        return op->emitError() << "'" << op->getName().getStringRef() << "' cannot be lowered to "
                               << kernel.getTarget() << " yet";
      });
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitFor(scf::ForOp op) {
  auto loop = scf::ForOp::create(b, getScalar(op.getLowerBound()), getScalar(op.getUpperBound()),
                                 getScalar(op.getStep()), flatten(op.getInitArgs()));
  set(op.getInductionVar(), {loop.getInductionVar()});
  unflatten(op.getRegionIterArgs(), loop.getRegionIterArgs());
  {
    OpBuilder::InsertionGuard guard(b);
    // With nothing carried the builder has already closed the body.
    if (loop.getInitArgs().empty())
      b.setInsertionPoint(loop.getBody()->getTerminator());
    else
      b.setInsertionPointToEnd(loop.getBody());
    sample(op, /*isEnd=*/false);
    if (failed(emitBlock(*op.getBody())))
      return failure();
    sample(op, /*isEnd=*/true);
    if (!loop.getInitArgs().empty())
      scf::YieldOp::create(b, flatten(op.getBody()->getTerminator()->getOperands()));
  }
  unflatten(op.getResults(), loop.getResults());
  return success();
}

/// Whether one lane alone does what a block does last.
static bool endsWithArrival(Block &block) {
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (!isMemoryEffectFree(&op))
      return isa<ArriveOp>(op);
  return false;
}

/// What one lane does last must not lead to where values of several ways meet, or back to the
/// beginning of a loop, in two ways: ptxas would take those values for different in each thread.
void KernelEmitter::joinWarp() {
  if (!isOneThread)
    intrinsic("llvm.nvvm.bar.warp.sync", i32(-1));
}

LogicalResult KernelEmitter::emitIf(scf::IfOp op) {
  auto branch =
      scf::IfOp::create(b, getFlatTypes(op.getResultTypes()), getScalar(op.getCondition()),
                        /*addThenBlock=*/true, /*addElseBlock=*/!op.getElseRegion().empty());
  for (auto [from, to] : llvm::zip(op->getRegions(), branch->getRegions())) {
    if (from.empty())
      continue;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&to.front());
    if (failed(emitBlock(from.front())))
      return failure();
    b.setLoc(op.getLoc());
    if (endsWithArrival(from.front()))
      joinWarp();
    if (to.front().empty() || !to.front().back().hasTrait<OpTrait::IsTerminator>())
      scf::YieldOp::create(b, flatten(from.front().getTerminator()->getOperands()));
  }
  unflatten(op.getResults(), branch.getResults());
  return success();
}

LogicalResult KernelEmitter::emitWhile(scf::WhileOp op) {
  auto loop = scf::WhileOp::create(b, getFlatTypes(op.getResultTypes()), flatten(op.getInits()));
  for (auto [from, to] : llvm::zip(op->getRegions(), loop->getRegions())) {
    SmallVector<Type> types = getFlatTypes(from.getArgumentTypes());
    OpBuilder::InsertionGuard guard(b);
    Block *block = b.createBlock(&to, {}, types, SmallVector<Location>(types.size(), op.getLoc()));
    unflatten(from.getArguments(), block->getArguments());
    if (failed(emitBlock(from.front())))
      return failure();
    b.setLoc(op.getLoc());
    Operation *terminator = from.front().getTerminator();
    if (auto condition = dyn_cast<scf::ConditionOp>(terminator)) {
      // All threads agree. Of a vote ptxas knows it, and so that what the loop counts is the same
      // for all, and belongs in uniform registers.
      Value goesOn = getScalar(condition.getCondition());
      if (!isOneThread)
        goesOn = intrinsic("llvm.nvvm.vote.any.sync", b.getI1Type(), {i32(-1), goesOn});
      scf::ConditionOp::create(b, goesOn, flatten(condition.getArgs()));
    } else {
      joinWarp();
      scf::YieldOp::create(b, flatten(terminator->getOperands()));
    }
  }
  unflatten(op.getResults(), loop.getResults());
  return success();
}

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
