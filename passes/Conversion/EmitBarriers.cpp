// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roles, barriers and the tensor memory accelerator.
//
// Use k of a ring of n stages belongs to barrier k mod n and its phase k div n. A wait for the
// parity of the phase before the first one returns at once, so `acquire` needs no case for the
// first round.

#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/Nvvm.h"
#include "passes/Conversion/RoleThreads.h"
#include "runtime/KernelAbi.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

constexpr int64_t kBarrierBytes = 8;
static_assert(Target::raggedRank == runtime::raggedRank &&
                  Target::mostBoxRank == runtime::maxMapRank,
              "the runtime makes the maps");

/// The address in the shared window, as inline assembly takes it.
Value KernelEmitter::windowAddress(Value pointer) {
  return LLVM::PtrToIntOp::create(b, b.getI32Type(), pointer);
}

/// Runs `body` in one thread of the role.
void KernelEmitter::byOneThread(llvm::function_ref<void()> body) {
  if (isOneThread)
    return body();
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, i32(0));
  auto branch = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  body();
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// Branches to part i where `number` is below the i-th of `ends` and not below those before.
static LogicalResult dispatch(KernelEmitter &e, Value number, ArrayRef<int64_t> ends,
                              llvm::function_ref<LogicalResult(size_t)> emitPart) {
  OpBuilder::InsertionGuard guard(e.b);
  SmallVector<Block *> open; // the parts so far are branches, each in the else of the one before
  for (size_t i = 0; i < ends.size(); ++i) {
    bool isLast = i + 1 == ends.size();
    scf::IfOp branch;
    if (!isLast) {
      branch =
          scf::IfOp::create(e.b, TypeRange(), e.less(number, e.i32(ends[i])), /*addThenBlock=*/true,
                            /*addElseBlock=*/true);
      e.b.setInsertionPointToEnd(branch.thenBlock());
    }
    if (failed(emitPart(i)))
      return failure();
    if (!isLast) {
      scf::YieldOp::create(e.b);
      e.b.setInsertionPointToEnd(branch.elseBlock());
      open.push_back(branch.elseBlock());
    }
  }
  for (Block *block : llvm::reverse(open)) {
    e.b.setInsertionPointToEnd(block);
    scf::YieldOp::create(e.b);
  }
  return success();
}

/// Writes the body of a role. Thread and warp numbers count from the first of the role, and values
/// that are computed once are computed at the entry of the role.
static LogicalResult emitRole(KernelEmitter &e, mlir::Region &body, Value wholeWarp, int64_t first,
                              int64_t warps, int64_t number) {
  auto outer = std::make_tuple(e.endOfEntry, e.warp, e.lane, e.thread, e.constants, e.threadNumbers,
                               e.numWarps);
  e.endOfEntry = arith::ConstantOp::create(e.b, e.b.getBoolAttr(false));
  e.numWarps = warps;
  e.role = &body;
  {
    OpBuilder::InsertionGuard entry(e.b);
    e.b.setInsertionPoint(e.endOfEntry);
    e.threadNumbers.clear();
    e.warp = arith::SubIOp::create(e.b, wholeWarp, e.i32(first));
    e.thread = arith::SubIOp::create(e.b, e.thread, e.i32(32 * first));
  }
  LogicalResult result = success();
  {
    OpBuilder::InsertionGuard role(e.b);
    e.isOneThread = isForOneThread(body);
    if (e.isOneThread) {
      Value isFirst = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, e.thread, e.i32(0));
      auto branch = scf::IfOp::create(e.b, isFirst, /*withElseRegion=*/false);
      e.b.setInsertionPoint(branch.thenBlock()->getTerminator());
    }
    bool hasEvents = e.timeline && llvm::any_of(e.timeline->numbers, [&](const auto &event) {
                       return body.isAncestor(event.first->getParentRegion());
                     });
    if (hasEvents)
      e.openTimeline(number);
    result = e.emitBlock(body.front());
    if (hasEvents)
      e.closeTimeline();
    e.isOneThread = false;
  }
  e.role = nullptr;
  e.endOfEntry->erase();
  std::tie(e.endOfEntry, e.warp, e.lane, e.thread, e.constants, e.threadNumbers, e.numWarps) =
      outer;
  return result;
}

static LogicalResult emitRoles(KernelEmitter &e, RolesOp op) {
  // The shuffle tells ptxas that the warp's number is uniform across its lanes.
  Value wholeWarp = e.shuffle("idx", e.warp, e.i32(0));
  int64_t atEntry = Target::getRegistersAtEntry(e.numWarps);
  // A whole warpgroup sets its registers, before its roles diverge.
  constexpr int64_t warpsOfGroup = 4;
  SmallVector<SmallVector<int64_t>> roleEnds(1);
  SmallVector<int64_t> runEnds, runStarts{0};
  int64_t end = 0;
  for (auto [i, warps] : llvm::enumerate(op.getWarps())) {
    end += warps;
    roleEnds.back().push_back(end);
    bool isLast = i + 1 == op.getWarps().size();
    if (end % warpsOfGroup != 0 && !isLast)
      continue;
    runEnds.push_back(end);
    if (isLast)
      break;
    roleEnds.emplace_back();
    runStarts.push_back(static_cast<int64_t>(i) + 1);
  }
  return dispatch(e, wholeWarp, runEnds, [&](size_t run) {
    auto firstRole = static_cast<size_t>(runStarts[run]);
    if (int64_t registers = op.getRegisters()[firstRole]) {
      nvvm::markRegisters(e.func);
      e.inlineAsm((Twine("setmaxnreg.") + (registers > atEntry ? "inc" : "dec") +
                   ".sync.aligned.u32 " + Twine(registers) + ";")
                      .str(),
                  "~{memory}", nullptr, {});
    }
    return dispatch(e, wholeWarp, roleEnds[run], [&](size_t part) {
      size_t role = firstRole + part;
      int64_t warps = op.getWarps()[role];
      LogicalResult result =
          emitRole(e, *(op.getBodies().begin() + role), wholeWarp, roleEnds[run][part] - warps,
                   warps, static_cast<int64_t>(role));
      e.b.setLoc(op.getLoc());
      return result;
    });
  });
}

//===----------------------------------------------------------------------===//
// Named barriers
//===----------------------------------------------------------------------===//

static LogicalResult emitNamedBarrier(KernelEmitter &e, NamedBarrierOp op) {
  if (!op.getId())
    return op.emitError() << "a named barrier must have a number before code is generated; run "
                             "tgpu-plan-shared-memory";
  e.set(op.getBarrier(), {e.i32(*op.getId())});
  return success();
}

/// `how` is "sync" or "arrive".
static LogicalResult meetAt(KernelEmitter &e, Operation *op, Value barrierValue, StringRef how) {
  auto named = barrierValue.getDefiningOp<NamedBarrierOp>();
  if (!named || !named.getId())
    return op->emitError() << "the barrier must be the result of tgpu.named_barrier, numbered";
  // Constant operands, so that ptxas reserves only the barriers that are used.
  e.intrinsic(("llvm.nvvm.barrier.cta." + how + ".aligned.count").str(),
              ValueRange{e.i32(*named.getId()), e.i32(32 * named.getWarps())});
  return success();
}

static LogicalResult emitAny(KernelEmitter &e, AnyOp op) {
  Values list = e.getElements(op.getTile());
  Value any = list.front();
  for (Value next : ArrayRef(list).drop_front())
    any = arith::OrIOp::create(e.b, any, next);
  Value result;
  if (op.getBarrier()) {
    auto named = op.getBarrier().getDefiningOp<NamedBarrierOp>();
    if (!named || !named.getId())
      return op.emitError() << "the barrier must be the result of tgpu.named_barrier, numbered";
    result = e.intrinsic("llvm.nvvm.barrier.cta.red.or.aligned.count", e.b.getI1Type(),
                         {e.i32(*named.getId()), e.i32(32 * named.getWarps()), any});
  } else {
    result =
        e.intrinsic("llvm.nvvm.barrier.cta.red.or.aligned.all", e.b.getI1Type(), {e.i32(0), any});
  }
  // All lanes already agree, but ptxas knows this only of a vote. Otherwise it treats branches on
  // the result as divergent and duplicates the shuffles after them.
  e.set(op.getResult(),
        {e.intrinsic("llvm.nvvm.vote.any.sync", e.b.getI1Type(), {e.i32(-1), result})});
  return success();
}

//===----------------------------------------------------------------------===//
// mbarriers
//===----------------------------------------------------------------------===//

static LogicalResult emitAllocBarriers(KernelEmitter &e, AllocBarriersOp op) {
  int64_t stages = cast<BarriersType>(op.getBarriers().getType()).getStages();
  if (failed(e.emitAlloc(op, op.getOffset(), stages * kBarrierBytes, kBarrierBytes)))
    return failure();
  Value base = e.getScalar(op.getBarriers());
  e.byOneThread([&] {
    for (int64_t stage = 0; stage < stages; ++stage)
      e.inlineAsm(
          "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", nullptr,
          {e.windowAddress(e.advance(base, stage * kBarrierBytes)), e.i32(op.getArrivals())});
    e.inlineAsm("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;", "~{memory}",
                nullptr, {});
  });
  e.barrier();
  return success();
}

Value KernelEmitter::barrierOf(Value barriers, Value use) {
  int64_t stages = cast<BarriersType>(barriers.getType()).getStages();
  Value base = windowAddress(getScalar(barriers));
  if (stages == 1)
    return base;
  Value stage = arith::RemUIOp::create(b, use, i32(stages));
  return add(base, mul(stage, i32(kBarrierBytes)));
}

static void waitFor(KernelEmitter &e, Value barriers, Value use, bool forRelease) {
  int64_t stages = cast<BarriersType>(barriers.getType()).getStages();
  Value address = e.barrierOf(barriers, use);
  Value phase = stages == 1 ? use : arith::DivUIOp::create(e.b, use, e.i32(stages)).getResult();
  if (forRelease)
    phase = e.add(phase, e.i32(1));
  Value parity = arith::AndIOp::create(e.b, phase, e.i32(1));
  auto loop = scf::WhileOp::create(e.b, TypeRange(), ValueRange());
  OpBuilder::InsertionGuard guard(e.b);
  e.b.createBlock(&loop.getBefore());
  Value done = e.inlineAsm("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; "
                           "selp.b32 $0, 1, 0, p; }",
                           "=r,r,r,~{memory}", e.b.getI32Type(), {address, parity});
  scf::ConditionOp::create(
      e.b, arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, done, e.i32(0)), ValueRange());
  e.b.createBlock(&loop.getAfter());
  scf::YieldOp::create(e.b);
}

static LogicalResult emitExpect(KernelEmitter &e, ExpectOp op) {
  Value address = e.barrierOf(op.getBarriers(), e.getScalar(op.getUse()));
  e.byOneThread([&] {
    e.inlineAsm("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", nullptr,
                {address, e.i32(op.getBytes())});
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Tensor memory accelerator
//===----------------------------------------------------------------------===//

/// Calls `issue` with buffer, map and coordinates (innermost first) of every box.
template <typename TmaOp>
static LogicalResult emitTma(KernelEmitter &e, TmaOp op,
                             llvm::function_ref<void(Value, Value, ValueRange)> issue) {
  Value map = op.getMap(), bufferValue = op.getBuffer();
  auto mapType = cast<TensorMapType>(map.getType());
  auto type = cast<SharedType>(bufferValue.getType());
  const layout::SharedLayout *shared = e.getLayout(op, type);
  if (!shared)
    return failure();
  ArrayRef<int64_t> box = mapType.getBox();
  int64_t rank = static_cast<int64_t>(box.size());
  int64_t boxCols = box.back(), boxRows = 1;
  for (int64_t extent : box.drop_back())
    boxRows *= extent;
  if ((shared->cols() % boxCols != 0 && boxCols != shared->panelCols()) ||
      shared->rows() % boxRows != 0)
    return op->emitError() << "a buffer of " << type << " is not made of boxes of " << mapType;
  Values index;
  size_t dynamic = 0;
  for (int64_t known : op.getStaticIndices())
    index.push_back(ShapedType::isDynamic(known) ? e.getScalar(op.getIndices()[dynamic++])
                                                 : e.i32(known));
  Values outer; // the outermost first
  if (mapType.isRagged()) {
    auto definition = map.template getDefiningOp<TensorMapOp>();
    if (!definition)
      return op->emitError() << "the tensor map must be the result of tgpu.tensor_map";
    int64_t dim = mapType.getRagged();
    Value begin = e.getScalar(op.getBegin());
    Value size =
        e.clampPart(begin, e.getScalar(op.getSize()), e.getView(definition.getView()).extents[dim]);
    index[dim] = e.add(arith::SubIOp::create(e.b, e.i32(runtime::raggedBound), size), index[dim]);
    outer = {e.i32(runtime::raggedBound), e.add(begin, size)};
  }
  Value buffer = e.windowAddress(e.getScalar(bufferValue)), mapAddress = e.getScalar(map);
  e.byOneThread([&] {
    for (int64_t col = 0; col < shared->cols(); col += boxCols)
      for (int64_t row = 0; row < shared->rows(); row += boxRows) {
        Values at = index;
        at.back() = e.add(at.back(), e.i32(col));
        if (rank > 1)
          at[mapType.getRowDim()] = e.add(at[mapType.getRowDim()], e.i32(row));
        if (mapType.leavesOutFirst())
          at.erase(at.begin());
        at.insert(at.begin(), outer.begin(), outer.end());
        std::reverse(at.begin(), at.end()); // the innermost first
        issue(e.add(buffer, e.i32(col / shared->panelCols() * shared->panelStride() +
                                  row * shared->rowPitch())),
              mapAddress, at);
      }
  });
  return success();
}

/// {$2, $3} from operand `first` on.
static std::string coordinates(unsigned first, size_t rank) {
  std::string text = "{";
  for (size_t i = 0; i < rank; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

static std::string repeated(StringRef constraint, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += "," + constraint.str();
  return text;
}

static LogicalResult emitTmaLoad(KernelEmitter &e, TmaLoadOp op) {
  Value full = e.barrierOf(op.getBarriers(), e.getScalar(op.getUse()));
  return emitTma(e, op, [&](Value buffer, Value map, ValueRange at) {
    Values operands{buffer, map, full};
    llvm::append_range(operands, at);
    e.inlineAsm("cp.async.bulk.tensor." + std::to_string(at.size()) +
                    "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, " +
                    coordinates(3, at.size()) + "], [$2];",
                "r,l,r" + repeated("r", at.size()) + ",~{memory}", nullptr, operands);
  });
}

template <typename TmaOp> static LogicalResult emitTmaWrite(KernelEmitter &e, TmaOp op) {
  return emitTma(e, op, [&](Value source, Value mapAddress, ValueRange at) {
    Values operands{source, mapAddress};
    llvm::append_range(operands, at);
    bool isReduction = isa<TmaReduceAddOp>(op.getOperation());
    std::string name = isReduction ? "cp.reduce.async.bulk.tensor." : "cp.async.bulk.tensor.";
    name += std::to_string(at.size()) + "d.global.shared::cta.";
    name += isReduction ? "add.tile.bulk_group" : "tile.bulk_group";
    e.inlineAsm(name + " [$1, " + coordinates(2, at.size()) + "], [$0];",
                "r,l" + repeated("r", at.size()) + ",~{memory}", nullptr, operands);
  });
}

static LogicalResult emitTmaStore(KernelEmitter &e, TmaStoreOp op) { return emitTmaWrite(e, op); }
static LogicalResult emitTmaReduceAdd(KernelEmitter &e, TmaReduceAddOp op) {
  return emitTmaWrite(e, op);
}

static LogicalResult emitSync(KernelEmitter &e, SyncOp op) {
  if (op.getBarrier())
    return meetAt(e, op, op.getBarrier(), "sync");
  e.barrier();
  return success();
}

static LogicalResult emitSignal(KernelEmitter &e, SignalOp op) {
  return meetAt(e, op, op.getBarrier(), "arrive");
}

static void emitWait(KernelEmitter &e, WaitOp op) {
  waitFor(e, op.getBarriers(), e.getScalar(op.getUse()), /*forRelease=*/false);
}

static void emitAcquire(KernelEmitter &e, AcquireOp op) {
  waitFor(e, op.getBarriers(), e.getScalar(op.getUse()), /*forRelease=*/true);
}

static void emitBulkCommit(KernelEmitter &e, BulkCommitOp) {
  e.inlineAsm("cp.async.bulk.commit_group;", "~{memory}", nullptr, {});
}

static void emitBulkWait(KernelEmitter &e, BulkWaitOp op) {
  std::string text = op.getRead() ? "cp.async.bulk.wait_group.read " : "cp.async.bulk.wait_group ";
  e.inlineAsm(text + std::to_string(op.getPending()) + ";", "~{memory}", nullptr, {});
}

static void emitFenceAsync(KernelEmitter &e, FenceAsyncOp) {
  e.inlineAsm("fence.proxy.async.shared::cta;", "~{memory}", nullptr, {});
}

void tgpu::registerBarrierLowerings(LoweringTable &table) {
  table.add<RolesOp>(emitRoles);
  table.add<NamedBarrierOp>(emitNamedBarrier);
  table.add<SyncOp>(emitSync);
  table.add<SignalOp>(emitSignal);
  table.add<AnyOp>(emitAny);
  table.add<AllocBarriersOp>(emitAllocBarriers);
  table.add<WaitOp>(emitWait);
  table.add<AcquireOp>(emitAcquire);
  table.add<ExpectOp>(emitExpect);
  table.add<TensorMapOp>([](KernelEmitter &, TensorMapOp) {}); // a parameter, bound at entry
  table.add<TmaLoadOp>(emitTmaLoad);
  table.add<TmaStoreOp>(emitTmaStore);
  table.add<TmaReduceAddOp>(emitTmaReduceAdd);
  table.add<BulkCommitOp>(emitBulkCommit);
  table.add<BulkWaitOp>(emitBulkWait);
  table.add<FenceAsyncOp>(emitFenceAsync);
}
