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

namespace {

/// Shared memory belongs to a block, so that its accesses need not wait for another launch. The
/// stack, which belongs to a thread, does not count as memory.
enum class Memory { Global, Any };

} // namespace

/// Whether the operation itself may access memory.
static bool accesses(Operation &op, Memory memory) {
  // In PTX, an address is in brackets. An instruction that names shared memory alone has no other.
  if (auto assembly = dyn_cast<LLVM::InlineAsmOp>(op)) {
    SmallVector<StringRef> instructions;
    assembly.getAsmString().split(instructions, ';');
    return llvm::any_of(instructions, [&](StringRef text) {
      bool isShared = text.contains(".shared") && !text.contains(".global");
      return text.contains('[') && (memory == Memory::Any || !isShared);
    });
  }
  if (isa<LLVM::AllocaOp>(op) || isMemoryEffectFree(&op))
    return false;
  if (isa<LLVM::CallOp>(op))
    return true;
  constexpr unsigned sharedSpace = 3;
  return llvm::any_of(op.getOperands(), [&](Value operand) {
    auto pointer = dyn_cast<LLVM::LLVMPointerType>(operand.getType());
    return pointer && !operand.getDefiningOp<LLVM::AllocaOp>() &&
           (memory == Memory::Any || pointer.getAddressSpace() != sharedSpace);
  });
}

/// The same of the operation with all that is in it.
static bool mayAccess(Operation &op, Memory memory) {
  auto visit = [&](Operation *inner) {
    return inner->getNumRegions() == 0 && accesses(*inner, memory) ? WalkResult::interrupt()
                                                                   : WalkResult::advance();
  };
  return op.walk(visit).wasInterrupted();
}

/// The first operation of the block that may access memory; null if there is none.
static Operation *findAccess(Block &block, Memory memory) {
  auto access = llvm::find_if(block, [&](Operation &op) { return mayAccess(op, memory); });
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

static constexpr StringLiteral launchDependents = "griddepcontrol.launch_dependents;";

namespace {

class LaunchWaits {
public:
  LaunchWaits(ThreadBuilder &b, bool allowsNext) : b(b), allowsNext(allowsNext) {}

  /// Waits before the first access of the block to global memory: at its end if it has none, since
  /// what follows waits for the end of this launch alone.
  void cover(Block &block) { waitBeforeOrAtEnd(findAccess(block, Memory::Global), block); }

  /// The same for a role, but also before its first access to shared memory: the roles wait for the
  /// launch at the same time, not one after what another gives it. A loop whose iterations begin
  /// with an access to global memory, such as the one that reads what the next tile is, waits in
  /// each of them, which takes no time after the first, and behind the last, as there may be none.
  void coverRole(Block &block) {
    Operation *access = findAccess(block, Memory::Any);
    if (isa_and_nonnull<scf::WhileOp, scf::ForOp>(access)) {
      Operation *inner = findAccess(access->getRegions().back().front(), Memory::Any);
      bool isFirst =
          access->getNumRegions() == 1 || !findAccess(access->getRegion(0).front(), Memory::Any);
      if (isFirst && inner && accesses(*inner, Memory::Global)) {
        waitBefore(*inner);
        access = access->getNextNode();
      }
    }
    waitBeforeOrAtEnd(access, block);
  }

private:
  /// At the end of the block if `access` is null.
  void waitBeforeOrAtEnd(Operation *access, Block &block) {
    waitBefore(access ? *access : *block.getTerminator());
  }

  void waitBefore(Operation &op) {
    b.setInsertionPoint(&op);
    // Not the intrinsic, across which LLVM may move accesses. ptxas moves the instruction to the
    // begin of the kernel, unless it has a condition: x * x + x is even for every x, which ptxas
    // does not find out.
    constexpr StringLiteral wait = "mad.lo.s32 even, even, even, even; and.b32 even, even, 1; "
                                   "setp.eq.s32 always, even, 0; @always griddepcontrol.wait; }";
    constexpr StringLiteral begin = "{ .reg .pred always; .reg .b32 even; mov.b32 even, ";
    Value word = op.getNumRegions() == 0 ? getWordOf(b, op) : Value();
    if (word)
      b.inlineAsm((begin + "$0; " + wait).str(), "r,~{memory}", nullptr, word);
    else // the number of the thread, read here: as an operand it made a backward spill 76 bytes
      b.inlineAsm((begin + "%tid.x; " + wait).str(), "~{memory}", nullptr, {});
    if (allowsNext)
      b.inlineAsm(launchDependents, "~{memory}", nullptr, {});
  }

  ThreadBuilder &b;
  bool allowsNext;
};

} // namespace

LogicalResult tgpu::overlapLaunches(KernelOp kernel, Block &entry, ArrayRef<Block *> roles,
                                    ThreadBuilder &b) {
  const bool awaits = awaitsLaunchAttr.isOn(kernel), allows = allowsLaunchAttr.isOn(kernel),
             allowsRun = allowsRunAttr.isOn(kernel);
  if (!awaits && !allows && !allowsRun)
    return success();
  if (!getTargetOf(kernel).has(Feature::DependentLaunch))
    return kernel.emitOpError() << "can await or allow launches for target "
                                << Target::getNamesWith(Feature::DependentLaunch)
                                << " only, but got " << kernel.getTarget()
                                << "; remove tgpu.awaits_launch, tgpu.allows_launch and "
                                   "tgpu.allows_run";
  OpBuilder::InsertionGuard guard(b);
  // The next launch of a program starts behind the wait: then all launches before this one have
  // ended, and it shares multiprocessors with this one alone. The next run may start at once: its
  // blocks take the place of blocks that end, and what they do before their own wait is hidden
  // (1,024 keys 5.4 us for 5.85; H200, 2026-11-30).
  bool isBehindWait = allows && awaits;
  if (!isBehindWait && (allows || allowsRun)) {
    b.setInsertionPointToStart(&entry);
    b.inlineAsm(launchDependents, "", nullptr, {});
  }
  if (!awaits)
    return success();
  LaunchWaits waits(b, isBehindWait);
  // Each role by itself, if nothing else accesses memory.
  Operation *access = findAccess(entry, Memory::Global);
  auto isRoles = [&](Block *role) { return access->isAncestor(role->getParentOp()); };
  bool isOfRoles = access && llvm::any_of(roles, isRoles) &&
                   !llvm::any_of(llvm::make_range(std::next(access->getIterator()), entry.end()),
                                 [](Operation &op) { return mayAccess(op, Memory::Global); });
  if (isOfRoles)
    llvm::for_each(roles, [&](Block *role) { waits.coverRole(*role); });
  else
    waits.cover(entry);
  return success();
}
