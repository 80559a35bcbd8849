// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a kernel waits for the end of the previous launch. What only computes from arguments comes
// before: code that a multiprocessor executes for the first time takes about five clocks for each
// instruction, and a merge of the parts of a decode computes addresses by about 90.

#include "passes/Conversion/DependentLaunch.h"

#include "dialect/Tgpu/Tgpu.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Whether the operation may access memory of the GPU. Inline assembly without operands reads the
/// number of a thread, and the stack belongs to it.
static bool mayAccessMemory(Operation &op) {
  auto isOfStack = [](Value address) { return address.getDefiningOp<LLVM::AllocaOp>() != nullptr; };
  if (isa<LLVM::InlineAsmOp>(op))
    return op.getNumOperands() > 0;
  if (isa<LLVM::AllocaOp>(op))
    return false;
  if (auto store = dyn_cast<LLVM::StoreOp>(op))
    return !isOfStack(store.getAddr());
  if (auto load = dyn_cast<LLVM::LoadOp>(op))
    return !isOfStack(load.getAddr());
  return !isMemoryEffectFree(&op);
}

/// An operand of the access in 32 bits, such as the address; null if it has none.
static Value getWordOf(ThreadBuilder &b, Operation &access) {
  for (Value operand : access.getOperands()) {
    Value word = operand;
    if (isa<LLVM::LLVMPointerType>(word.getType()))
      word = LLVM::PtrToIntOp::create(b, b.getI64Type(), word);
    if (word.getType().isInteger(64))
      word = arith::TruncIOp::create(b, b.getI32Type(), word);
    if (word.getType().isInteger(32))
      return word;
  }
  return {};
}

LogicalResult tgpu::overlapLaunches(KernelOp kernel, LLVM::LLVMFuncOp func, ThreadBuilder &b) {
  if (!allowsLaunchAttr.isOn(kernel) && !awaitsLaunchAttr.isOn(kernel))
    return success();
  if (!getTargetOf(kernel).has(Feature::DependentLaunch))
    return kernel.emitOpError() << "can await or allow launches for target "
                                << Target::getNamesWith(Feature::DependentLaunch)
                                << " only, but got " << kernel.getTarget()
                                << "; remove tgpu.awaits_launch and tgpu.allows_launch";
  OpBuilder::InsertionGuard guard(b);
  Block &entry = func.getBody().front();
  if (allowsLaunchAttr.isOn(kernel)) {
    b.setInsertionPointToStart(&entry);
    b.inlineAsm("griddepcontrol.launch_dependents;", "", nullptr, {});
  }
  if (!awaitsLaunchAttr.isOn(kernel))
    return success();
  // Without an access, at the end: what follows waits for the end of this launch alone.
  Operation *access = entry.getTerminator();
  for (Operation &op : entry.without_terminator())
    if (mayAccessMemory(op)) {
      access = &op;
      break;
    }
  b.setInsertionPoint(access);
  // Not the intrinsic, across which LLVM may move accesses. ptxas moves the instruction to the
  // begin of the kernel, unless it has a condition: x * x + x is even for every x, which ptxas does
  // not find out.
  constexpr StringLiteral wait = "griddepcontrol.wait;";
  if (Value word = getWordOf(b, *access))
    b.inlineAsm(("{ .reg .pred always; .reg .b32 even; mad.lo.s32 even, $0, $0, $0; and.b32 even, "
                 "even, 1; setp.eq.s32 always, even, 0; @always " +
                 wait + " }")
                    .str(),
                "r,~{memory}", nullptr, word);
  else
    b.inlineAsm(wait, "~{memory}", nullptr, {});
  return success();
}
