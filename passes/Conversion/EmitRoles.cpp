// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roles: branches on the number of the warp.

#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/Nvvm.h"
#include "passes/Conversion/RoleThreads.h"
#include "passes/Conversion/TimelineWriter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Branches to part i where `number` is below the i-th of `ends` and not below those before.
static LogicalResult dispatch(ThreadBuilder &b, Value number, ArrayRef<int64_t> ends,
                              llvm::function_ref<LogicalResult(size_t)> emitPart) {
  OpBuilder::InsertionGuard guard(b);
  SmallVector<Block *>
      open; // the preceding parts are branches, each in the else of the previous one
  for (size_t i = 0; i < ends.size(); ++i) {
    bool isLast = i + 1 == ends.size();
    scf::IfOp branch;
    if (!isLast) {
      branch =
          scf::IfOp::create(b, TypeRange(), b.less(number, b.i32(ends[i])), /*addThenBlock=*/true,
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

/// Emits the body of a role. Thread and warp numbers count from the first of the role, and values
/// that are computed once are computed at the entry of the role.
static LogicalResult emitRole(KernelEmitter &e, mlir::Region &body, Value wholeWarp, int64_t first,
                              int64_t warps, int64_t number) {
  ThreadBuilder &b = e.b;
  ThreadBuilder::Threads outer = b.threads;
  b.threads.endOfEntry = arith::ConstantOp::create(b, b.getBoolAttr(false));
  b.threads.numWarps = warps;
  b.threads.first = 32 * first;
  e.role = &body;
  {
    OpBuilder::InsertionGuard entry(b);
    b.setInsertionPoint(b.threads.endOfEntry);
    b.threads.numbers.clear();
    b.threads.warp = arith::SubIOp::create(b, wholeWarp, b.i32(first));
    b.threads.thread = arith::SubIOp::create(b, b.threads.thread, b.i32(32 * first));
  }
  LogicalResult result = success();
  auto emitBody = [&] {
    e.roleBlocks.push_back(b.getInsertionBlock());
    TimelineWriter &timeline = e.state<TimelineWriter>();
    bool hasEvents = timeline.hasEvents(body);
    if (hasEvents)
      timeline.open(b, number);
    result = e.emitBlock(body.front());
    if (hasEvents)
      timeline.close(b);
  };
  e.isOneThread = isForOneThread(body);
  if (e.isOneThread)
    b.onlyIf(b.equal(b.threads.thread, b.i32(0)), emitBody);
  else
    emitBody();
  e.isOneThread = false;
  e.role = nullptr;
  b.threads.endOfEntry->erase();
  b.threads = std::move(outer);
  return result;
}

/// Decides the registers per thread with which a block is launched, of which its roles take their
/// own: the most that there are, or, if the next launch of its program may start early, as many as
/// leave room for a block of it, but at least what the roles have on average. A role that takes
/// more than the launch gave waits for what other roles of its block give back, never for another
/// block's. Not fewer than there is room for: with a lower limit, ptxas takes another order, though
/// nothing needs so many registers (a decode has 2,320 instructions with 152, 2,224 with 224 and
/// more; B1 S1k 6.58 and 6.49 us, H200, 2026-11-30).
static int64_t setRegistersAtEntry(KernelEmitter &e, RolesOp op) {
  // Of a block of four warps that have 64 each, such as one that merges.
  constexpr int64_t ofNextBlock = 4 * Target::lanes * 64;
  const int64_t warps = e.b.threads.numWarps, most = Target::getRegistersAtEntry(warps);
  if (llvm::all_of(op.getRegisters(), [](int64_t registers) { return registers == 0; }))
    return most;
  int64_t taken = 0;
  bool areNamed = true;
  for (auto [ofRole, registers] : llvm::zip_equal(op.getWarps(), op.getRegisters())) {
    taken += ofRole * registers;
    areNamed &= registers != 0;
  }
  constexpr auto unit = static_cast<uint64_t>(Target::roleRegisterUnit);
  int64_t average = llvm::alignTo(llvm::divideCeil(taken, warps), unit);
  int64_t left = llvm::alignDown((Target::registers - ofNextBlock) / (Target::lanes * warps), unit);
  int64_t atEntry = std::max(average, left);
  if (!areNamed || !allowsLaunchAttr.isOn(e.kernel) || atEntry >= most) {
    nvvm::setLeastBlocks(e.func, 1);
    return most;
  }
  nvvm::setRegisters(e.func, atEntry);
  return atEntry;
}

static LogicalResult emitRoles(KernelEmitter &e, RolesOp op) {
  ThreadBuilder &b = e.b;
  // The shuffle tells ptxas that the warp's number is uniform across its lanes.
  Value wholeWarp = shuffle(b, "idx", b.threads.warp, b.i32(0));
  int64_t atEntry = setRegistersAtEntry(e, op);
  // A whole warpgroup sets its registers, before its roles diverge.
  SmallVector<SmallVector<int64_t>> roleEnds(1);
  SmallVector<int64_t> runEnds, runStarts{0};
  int64_t end = 0;
  for (auto [i, warps] : llvm::enumerate(op.getWarps())) {
    end += warps;
    roleEnds.back().push_back(end);
    bool isLast = i + 1 == op.getWarps().size();
    if (end % Target::warpsOfGroup != 0 && !isLast)
      continue;
    runEnds.push_back(end);
    if (isLast)
      break;
    roleEnds.emplace_back();
    runStarts.push_back(static_cast<int64_t>(i) + 1);
  }
  return dispatch(b, wholeWarp, runEnds, [&](size_t run) {
    auto firstRole = static_cast<size_t>(runStarts[run]);
    if (int64_t registers = op.getRegisters()[firstRole]) {
      b.inlineAsm((Twine("setmaxnreg.") + (registers > atEntry ? "inc" : "dec") +
                   ".sync.aligned.u32 " + Twine(registers) + ";")
                      .str(),
                  "~{memory}", nullptr, {});
    }
    return dispatch(b, wholeWarp, roleEnds[run], [&](size_t part) {
      size_t role = firstRole + part;
      int64_t warps = op.getWarps()[role];
      LogicalResult result =
          emitRole(e, *(op.getBodies().begin() + role), wholeWarp, roleEnds[run][part] - warps,
                   warps, static_cast<int64_t>(role));
      b.setLoc(op.getLoc());
      return result;
    });
  });
}

void tgpu::registerRoleLowerings(LoweringTable &table) { table.add<RolesOp>(emitRoles); }
