// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roles, barriers and the tensor memory accelerator.
//
// Use k of a ring of n stages belongs to barrier k mod n and its phase k div n. A wait for the
// parity of the phase before the first one returns at once, so `acquire` needs no case for the
// first round.

#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/RoleThreads.h"
#include "runtime/KernelAbi.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

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

/// What one thread of the role does for all.
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

LogicalResult KernelEmitter::dispatch(Value number, ArrayRef<int64_t> ends,
                                      llvm::function_ref<LogicalResult(size_t)> emitPart) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Block *> open; // the parts so far are branches, each in the else of the one before
  for (size_t i = 0; i < ends.size(); ++i) {
    bool isLast = i + 1 == ends.size();
    scf::IfOp branch;
    if (!isLast) {
      branch = scf::IfOp::create(b, TypeRange(), less(number, i32(ends[i])), /*addThenBlock=*/true,
                                 /*addElseBlock=*/true);
      b.setInsertionPointToEnd(branch.thenBlock());
    }
    if (failed(emitPart(i)))
      return failure();
    if (!isLast) {
      scf::YieldOp::create(b);
      b.setInsertionPointToEnd(branch.elseBlock());
      open.push_back(branch.elseBlock());
    }
  }
  for (Block *block : llvm::reverse(open)) {
    b.setInsertionPointToEnd(block);
    scf::YieldOp::create(b);
  }
  return success();
}

/// What a role computes, it computes for itself: numbers of threads count within it.
LogicalResult KernelEmitter::emitRole(mlir::Region &body, Value wholeWarp, int64_t first,
                                      int64_t warps, int64_t number) {
  auto outer = std::make_tuple(endOfEntry, warp, lane, thread, constants, threadNumbers, numWarps);
  endOfEntry = arith::ConstantOp::create(b, b.getBoolAttr(false));
  numWarps = warps;
  role = &body;
  {
    OpBuilder::InsertionGuard entry(b);
    b.setInsertionPoint(endOfEntry);
    threadNumbers.clear();
    warp = arith::SubIOp::create(b, wholeWarp, i32(first));
    thread = arith::SubIOp::create(b, thread, i32(32 * first));
  }
  LogicalResult result = success();
  {
    OpBuilder::InsertionGuard role(b);
    isOneThread = isForOneThread(body);
    if (isOneThread) {
      Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, thread, i32(0));
      auto branch = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
      b.setInsertionPoint(branch.thenBlock()->getTerminator());
    }
    bool hasEvents = timeline && llvm::any_of(timeline->numbers, [&](const auto &event) {
                       return body.isAncestor(event.first->getParentRegion());
                     });
    if (hasEvents)
      openTimeline(number);
    result = emitBlock(body.front());
    if (hasEvents)
      closeTimeline();
    isOneThread = false;
  }
  role = nullptr;
  endOfEntry->erase();
  std::tie(endOfEntry, warp, lane, thread, constants, threadNumbers, numWarps) = outer;
  return result;
}

LogicalResult KernelEmitter::emitRoles(RolesOp op) {
  // The warp, known to be the same in all of its lanes.
  Value wholeWarp = shuffle("idx", warp, i32(0));
  int64_t atEntry = Target::getRegistersAtEntry(numWarps);
  // Registers are set by whole warpgroups, before their roles part.
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
  return dispatch(wholeWarp, runEnds, [&](size_t run) {
    auto firstRole = static_cast<size_t>(runStarts[run]);
    if (int64_t registers = op.getRegisters()[firstRole]) {
      // Without this the entry count is unknown, and the request ignored.
      func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(1));
      inlineAsm((Twine("setmaxnreg.") + (registers > atEntry ? "inc" : "dec") +
                 ".sync.aligned.u32 " + Twine(registers) + ";")
                    .str(),
                "~{memory}", nullptr, {});
    }
    return dispatch(wholeWarp, roleEnds[run], [&](size_t part) {
      size_t role = firstRole + part;
      int64_t warps = op.getWarps()[role];
      LogicalResult result =
          emitRole(*(op.getBodies().begin() + role), wholeWarp, roleEnds[run][part] - warps, warps,
                   static_cast<int64_t>(role));
      b.setLoc(op.getLoc());
      return result;
    });
  });
}

//===----------------------------------------------------------------------===//
// Named barriers
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitNamedBarrier(NamedBarrierOp op) {
  if (!op.getId())
    return op.emitError() << "a named barrier must have a number before code is generated; run "
                             "tgpu-plan-shared-memory";
  set(op.getBarrier(), {i32(*op.getId())});
  return success();
}

LogicalResult KernelEmitter::meetAt(Operation *op, Value barrierValue, StringRef how) {
  auto named = barrierValue.getDefiningOp<NamedBarrierOp>();
  if (!named || !named.getId())
    return op->emitError() << "the barrier must be the result of tgpu.named_barrier, numbered";
  // Constants, so that only as many barriers as there are get reserved.
  intrinsic(("llvm.nvvm.barrier.cta." + how + ".aligned.count").str(),
            ValueRange{i32(*named.getId()), i32(32 * named.getWarps())});
  return success();
}

LogicalResult KernelEmitter::emitAny(AnyOp op) {
  Values list = getElements(op.getTile());
  Value any = list.front();
  for (Value next : ArrayRef(list).drop_front())
    any = arith::OrIOp::create(b, any, next);
  Value result;
  if (op.getBarrier()) {
    auto named = op.getBarrier().getDefiningOp<NamedBarrierOp>();
    if (!named || !named.getId())
      return op.emitError() << "the barrier must be the result of tgpu.named_barrier, numbered";
    result = intrinsic("llvm.nvvm.barrier.cta.red.or.aligned.count", b.getI1Type(),
                       {i32(*named.getId()), i32(32 * named.getWarps()), any});
  } else {
    result = intrinsic("llvm.nvvm.barrier.cta.red.or.aligned.all", b.getI1Type(), {i32(0), any});
  }
  // All agree already; but only of a vote does ptxas know it. Otherwise it takes every branch
  // on the result for divergent, and writes whatever shuffles after it twice.
  set(op.getResult(), {intrinsic("llvm.nvvm.vote.any.sync", b.getI1Type(), {i32(-1), result})});
  return success();
}

//===----------------------------------------------------------------------===//
// mbarriers
//===----------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitAllocBarriers(AllocBarriersOp op) {
  int64_t stages = cast<BarriersType>(op.getBarriers().getType()).getStages();
  if (failed(emitAlloc(op, op.getOffset(), stages * kBarrierBytes, kBarrierBytes)))
    return failure();
  Value base = getScalar(op.getBarriers());
  byOneThread([&] {
    for (int64_t stage = 0; stage < stages; ++stage)
      inlineAsm("mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", nullptr,
                {windowAddress(advance(base, stage * kBarrierBytes)), i32(op.getArrivals())});
    inlineAsm("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;", "~{memory}",
              nullptr, {});
  });
  barrier();
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

void KernelEmitter::waitFor(Value barriers, Value use, bool forRelease) {
  int64_t stages = cast<BarriersType>(barriers.getType()).getStages();
  Value address = barrierOf(barriers, use);
  Value phase = stages == 1 ? use : arith::DivUIOp::create(b, use, i32(stages)).getResult();
  if (forRelease)
    phase = add(phase, i32(1));
  Value parity = arith::AndIOp::create(b, phase, i32(1));
  auto loop = scf::WhileOp::create(b, TypeRange(), ValueRange());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&loop.getBefore());
  Value done = inlineAsm("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; "
                         "selp.b32 $0, 1, 0, p; }",
                         "=r,r,r,~{memory}", b.getI32Type(), {address, parity});
  scf::ConditionOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::eq, done, i32(0)),
                           ValueRange());
  b.createBlock(&loop.getAfter());
  scf::YieldOp::create(b);
}

LogicalResult KernelEmitter::emitExpect(ExpectOp op) {
  Value address = barrierOf(op.getBarriers(), getScalar(op.getUse()));
  byOneThread([&] {
    inlineAsm("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", nullptr,
              {address, i32(op.getBytes())});
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Tensor memory accelerator
//===----------------------------------------------------------------------===//

template <typename TmaOp>
LogicalResult KernelEmitter::emitTma(TmaOp op,
                                     llvm::function_ref<void(Value, Value, ValueRange)> issue) {
  Value map = op.getMap(), bufferValue = op.getBuffer();
  auto mapType = cast<TensorMapType>(map.getType());
  auto type = cast<SharedType>(bufferValue.getType());
  const layout::SharedLayout *shared = getLayout(op, type);
  if (!shared)
    return failure();
  ArrayRef<int64_t> box = mapType.getBox();
  int64_t rank = static_cast<int64_t>(box.size());
  int64_t boxCols = box.back(), boxRows = 1;
  for (int64_t extent : box.drop_back())
    boxRows *= extent;
  if (shared->cols() % boxCols != 0 || shared->rows() % boxRows != 0)
    return op->emitError() << "a buffer of " << type << " is not made of boxes of " << mapType;
  Values index;
  size_t dynamic = 0;
  for (int64_t known : op.getStaticIndices())
    index.push_back(ShapedType::isDynamic(known) ? getScalar(op.getIndices()[dynamic++])
                                                 : i32(known));
  Values outer; // the outermost first
  if (mapType.isRagged()) {
    auto definition = map.template getDefiningOp<TensorMapOp>();
    if (!definition)
      return op->emitError() << "the tensor map must be the result of tgpu.tensor_map";
    int64_t dim = mapType.getRagged();
    Value begin = getScalar(op.getBegin());
    Value size =
        clampPart(begin, getScalar(op.getSize()), getView(definition.getView()).extents[dim]);
    index[dim] = add(arith::SubIOp::create(b, i32(runtime::raggedBound), size), index[dim]);
    outer = {i32(runtime::raggedBound), add(begin, size)};
  }
  Value buffer = windowAddress(getScalar(bufferValue)), mapAddress = getScalar(map);
  byOneThread([&] {
    for (int64_t col = 0; col < shared->cols(); col += boxCols)
      for (int64_t row = 0; row < shared->rows(); row += boxRows) {
        Values at = index;
        at.back() = add(at.back(), i32(col));
        if (rank > 1)
          at[mapType.getRowDim()] = add(at[mapType.getRowDim()], i32(row));
        if (mapType.leavesOutFirst())
          at.erase(at.begin());
        at.insert(at.begin(), outer.begin(), outer.end());
        std::reverse(at.begin(), at.end()); // the innermost first
        issue(add(buffer, i32(col / shared->panelCols() * shared->panelStride() +
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

LogicalResult KernelEmitter::emitTmaLoad(TmaLoadOp op) {
  Value full = barrierOf(op.getBarriers(), getScalar(op.getUse()));
  return emitTma(op, [&](Value buffer, Value map, ValueRange at) {
    Values operands{buffer, map, full};
    llvm::append_range(operands, at);
    inlineAsm("cp.async.bulk.tensor." + std::to_string(at.size()) +
                  "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, " +
                  coordinates(3, at.size()) + "], [$2];",
              "r,l,r" + repeated("r", at.size()) + ",~{memory}", nullptr, operands);
  });
}

template <typename TmaOp> LogicalResult KernelEmitter::emitTmaWrite(TmaOp op) {
  return emitTma(op, [&](Value source, Value mapAddress, ValueRange at) {
    Values operands{source, mapAddress};
    llvm::append_range(operands, at);
    bool isReduction = isa<TmaReduceAddOp>(op.getOperation());
    std::string name = isReduction ? "cp.reduce.async.bulk.tensor." : "cp.async.bulk.tensor.";
    name += std::to_string(at.size()) + "d.global.shared::cta.";
    name += isReduction ? "add.tile.bulk_group" : "tile.bulk_group";
    inlineAsm(name + " [$1, " + coordinates(2, at.size()) + "], [$0];",
              "r,l" + repeated("r", at.size()) + ",~{memory}", nullptr, operands);
  });
}

LogicalResult KernelEmitter::emitTmaStore(TmaStoreOp op) { return emitTmaWrite(op); }
LogicalResult KernelEmitter::emitTmaReduceAdd(TmaReduceAddOp op) { return emitTmaWrite(op); }
