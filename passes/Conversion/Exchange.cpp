// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Named barriers of roles, and scratch memory.

#include "passes/Conversion/Exchange.h"

#include "passes/Conversion/SharedAccess.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {
struct ExchangeState {
  llvm::DenseMap<Region *, int64_t> roleBarriers; ///< numbers of the named barriers of roles
  Region *scratchRole = nullptr; ///< the role that exchanges through scratch memory
  LLVM::GlobalOp scratch;
  int64_t scratchBytes = 0;
};
} // namespace

void tgpu::syncWarps(KernelEmitter &e) {
  ThreadBuilder &b = e.b;
  if (!e.role)
    return b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", b.i32(0));
  b.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.count",
              ValueRange{b.i32(e.state<ExchangeState>().roleBarriers.lookup(e.role)),
                         b.i32(layout::kLanes * b.threads.numWarps)});
}

LogicalResult tgpu::beginExchange(KernelEmitter &e, Operation *op, bool usesScratch) {
  auto &[roleBarriers, scratchRole, scratch, scratchBytes] = e.state<ExchangeState>();
  if (!e.role)
    return success();
  if (usesScratch && scratchRole && scratchRole != e.role)
    return op->emitError("only one role can exchange elements between its warps, but two roles do; "
                         "use layouts with one column of warps in one of them");
  if (usesScratch)
    scratchRole = e.role;
  if (roleBarriers.contains(e.role))
    return success();
  llvm::SmallBitVector taken(Target::namedBarriers);
  taken.set(0); // the barrier of the whole block
  e.kernel.walk([&](Operation *other) {
    if (std::optional<int64_t> first = getFirstHardwareBarrier(other))
      taken.set(*first, *first + getNumHardwareBarriers(other));
  });
  for (auto [region, number] : roleBarriers)
    taken.set(number);
  int number = taken.find_first_unset();
  if (number < 0)
    return op->emitError("an exchange between warps of a role requires a named barrier, but the "
                         "kernel uses all ")
           << Target::namedBarriers - 1;
  roleBarriers[e.role] = number;
  return success();
}

Value tgpu::getScratch(KernelEmitter &e, int64_t bytes) {
  ThreadBuilder &b = e.b;
  auto &state = e.state<ExchangeState>();
  state.scratchBytes = std::max(state.scratchBytes, bytes);
  OpBuilder::InsertionGuard guard(b);
  if (!state.scratch) {
    b.setInsertionPoint(e.func);
    state.scratch = LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), 0),
                                           /*isConstant=*/false, LLVM::Linkage::Internal,
                                           (e.func.getName() + "_scratch").str(), Attribute(),
                                           /*alignment=*/16, /*addrSpace=*/3);
  }
  b.setInsertionPoint(b.threads.endOfEntry);
  return LLVM::AddressOfOp::create(b, LLVM::LLVMPointerType::get(b.getContext(), 3),
                                   state.scratch.getSymNameAttr());
}

LogicalResult tgpu::endExchanges(KernelEmitter &e) {
  auto &state = e.state<ExchangeState>();
  if (!state.scratch)
    return success();
  // Buffers follow the scratch memory. The driver's compiler puts them right after it, regardless
  // of their alignment (driver 580); ptxas does not.
  if (getTargetOf(e.kernel).has(Feature::Tma))
    state.scratchBytes = llvm::alignTo(state.scratchBytes, sharedMemoryAlignment);
  int64_t limit = getTargetOf(e.kernel).sharedOfBlock;
  int64_t planned = static_cast<int64_t>(e.kernel.getSharedBytes().value_or(0));
  if (planned + state.scratchBytes > limit)
    return e.kernel.emitError() << "needs " << planned << " bytes of shared memory and "
                                << state.scratchBytes
                                << " for exchanges between warps, but the limit of "
                                << e.kernel.getTarget() << " is " << limit
                                << "; use smaller blocks";
  state.scratch.setGlobalTypeAttr(
      TypeAttr::get(LLVM::LLVMArrayType::get(e.b.getI8Type(), state.scratchBytes)));
  return success();
}
