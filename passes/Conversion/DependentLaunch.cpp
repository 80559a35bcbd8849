// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a kernel waits for the end of the previous launch, and where it lets the next one start.
// What only computes from arguments, or has to do with shared memory, comes before the wait: code
// that a multiprocessor executes for the first time takes about five clocks for each instruction,
// and a merge of the parts of a decode computes addresses by about 90. With roles, each waits on
// its own, so that branches, registers and the first tile come before, too (decode of 1,024 keys
// behind another one 5.6 us instead of 6.8; H200, 2026-11-30).

#include "passes/Conversion/DependentLaunch.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Whether the operation itself may access global memory. The stack belongs to a thread, and shared
/// memory to a block.
static bool accessesGlobal(Operation &op) {
  // In PTX, an address is in brackets. An instruction that names shared memory alone has no other.
  if (auto assembly = dyn_cast<LLVM::InlineAsmOp>(op)) {
    StringRef text = assembly.getAsmString();
    return text.contains('[') && (!text.contains(".shared") || text.contains(".global"));
  }
  if (isa<LLVM::AllocaOp>(op) || isMemoryEffectFree(&op))
    return false;
  if (isa<LLVM::CallOp>(op))
    return true;
  constexpr unsigned sharedSpace = 3;
  return llvm::any_of(op.getOperands(), [](Value operand) {
    auto pointer = dyn_cast<LLVM::LLVMPointerType>(operand.getType());
    return pointer && pointer.getAddressSpace() != sharedSpace &&
           !operand.getDefiningOp<LLVM::AllocaOp>();
  });
}

/// The same of the operation with all that is in it.
static bool mayAccessGlobal(Operation &op) {
  return op
      .walk([](Operation *inner) {
        return inner->getNumRegions() == 0 && accessesGlobal(*inner) ? WalkResult::interrupt()
                                                                     : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The first operation of the block that may access global memory; null if there is none.
static Operation *findAccess(Block &block) {
  auto access = llvm::find_if(block, mayAccessGlobal);
  return access == block.end() ? nullptr : &*access;
}

/// An operand of the access in 32 bits, such as the address, that is not known before; null if it
/// has none.
static Value getWordOf(ThreadBuilder &b, Operation &access) {
  for (Value operand : access.getOperands()) {
    Value word = operand;
    if (matchPattern(word, m_Constant()))
      continue;
    if (isa<LLVM::LLVMPointerType>(word.getType()))
      word = LLVM::PtrToIntOp::create(b, b.getI64Type(), word);
    if (word.getType().isInteger(64))
      word = arith::TruncIOp::create(b, b.getI32Type(), word);
    if (word.getType().isInteger(32))
      return word;
  }
  return {};
}

static constexpr StringLiteral allow = "griddepcontrol.launch_dependents;";

namespace {

class LaunchWaits {
public:
  LaunchWaits(ThreadBuilder &b, bool allowsNext)
      : b(b), number(b.threads.thread), allowsNext(allowsNext) {}

  /// Waits before the first access of the block: at its end if it has none, since what follows
  /// waits for the end of this launch alone.
  void cover(Block &block) {
    Operation *access = findAccess(block);
    waitBefore(access ? *access : *block.getTerminator());
  }

  /// The same for a role. A loop whose iterations begin with an access, such as the one that reads
  /// what the next tile is, waits in each of them, which takes no time after the first, and behind
  /// the last, since there may be none.
  void coverRole(Block &block) {
    Operation *loop = findAccess(block);
    if (!isa_and_nonnull<scf::WhileOp, scf::ForOp>(loop))
      return cover(block);
    Operation *access = findAccess(loop->getRegions().back().front());
    bool isFirst = loop->getNumRegions() == 1 || !findAccess(loop->getRegion(0).front());
    if (!isFirst || !access || access->getNumRegions() > 0)
      return cover(block);
    waitBefore(*access, /*allowsNow=*/false);
    waitBefore(*loop->getNextNode());
  }

private:
  void waitBefore(Operation &op, bool allowsNow = true) {
    b.setInsertionPoint(&op);
    // Not the intrinsic, across which LLVM may move accesses. ptxas moves the instruction to the
    // begin of the kernel, unless it has a condition: x * x + x is even for every x, which ptxas
    // does not find out.
    Value word = op.getNumRegions() == 0 ? getWordOf(b, op) : Value();
    b.inlineAsm("{ .reg .pred always; .reg .b32 even; mad.lo.s32 even, $0, $0, $0; and.b32 even, "
                "even, 1; setp.eq.s32 always, even, 0; @always griddepcontrol.wait; }",
                "r,~{memory}", nullptr, word ? word : number);
    if (allowsNext && allowsNow)
      b.inlineAsm(allow, "~{memory}", nullptr, {});
  }

  ThreadBuilder &b;
  Value number; // of the thread
  bool allowsNext;
};

} // namespace

LogicalResult tgpu::overlapLaunches(KernelOp kernel, Block &entry, ArrayRef<Block *> roles,
                                    ThreadBuilder &b) {
  if (!allowsLaunchAttr.isOn(kernel) && !awaitsLaunchAttr.isOn(kernel))
    return success();
  if (!getTargetOf(kernel).has(Feature::DependentLaunch))
    return kernel.emitOpError() << "can await or allow launches for target "
                                << Target::getNamesWith(Feature::DependentLaunch)
                                << " only, but got " << kernel.getTarget()
                                << "; remove tgpu.awaits_launch and tgpu.allows_launch";
  OpBuilder::InsertionGuard guard(b);
  if (!awaitsLaunchAttr.isOn(kernel)) {
    b.setInsertionPointToStart(&entry);
    b.inlineAsm(allow, "", nullptr, {});
    return success();
  }
  // The next launch starts behind the wait: then all launches before this one have ended, and it
  // shares multiprocessors with this one alone.
  LaunchWaits waits(b, allowsLaunchAttr.isOn(kernel));
  Operation *access = findAccess(entry);
  if (access &&
      llvm::any_of(roles, [&](Block *role) { return access->isAncestor(role->getParentOp()); }))
    llvm::for_each(roles, [&](Block *role) { waits.coverRole(*role); });
  else
    waits.cover(entry);
  return success();
}
