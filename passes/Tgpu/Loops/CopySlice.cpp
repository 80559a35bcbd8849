// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the copies of a loop that can be started iterations ahead.

#include "passes/Tgpu/Loops/CopySlice.h"
#include "dialect/Tile/Origin.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

FailureOr<CopySlice> CopySlice::get(scf::ForOp loop, bool explain) {
  CopySlice slice;
  Block *body = loop.getBody();
  llvm::append_range(slice.copies, body->getOps<CopyAsyncOp>());
  auto reject = [&](Operation *op, const Twine &why) -> LogicalResult {
    if (explain)
      op->emitError() << "loop cannot be pipelined: " << why
                      << "; use the schedule skeleton=synchronous";
    return failure();
  };
  if (slice.copies.empty())
    return reject(loop, "its body must have a copy, but has none");
  WrittenViews written(loop);

  llvm::SmallSetVector<Operation *, 8> needed;
  SmallVector<Value> worklist;
  for (CopyAsyncOp copy : slice.copies) {
    auto alloc = copy.getBuffer().getDefiningOp<AllocOp>();
    if (!alloc)
      return reject(copy, "the buffer of a copy must be the result of tgpu.alloc, but got " +
                              Twine(tile::describeOrigin(copy.getBuffer())));
    for (Operation *user : alloc->getUsers())
      if (!loop->isProperAncestor(user))
        return reject(copy, "the buffer of a copy must be used only in the loop, but got '" +
                                user->getName().getStringRef() + "' outside of it");
    if (!slice.buffers.insert(copy.getBuffer()))
      return reject(
          copy,
          "copies of an iteration must have different buffers, but got the buffer of another one");
    if (written.contains(copy.getView()))
      return reject(copy, "the view that a copy reads must not be written in the loop, but is");
    worklist.push_back(copy.getView());
    llvm::append_range(worklist, copy.getIndices());
  }
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!loop->isAncestor(value.getParentRegion()->getParentOp()) ||
        value == loop.getInductionVar())
      continue;
    Operation *def = value.getDefiningOp();
    if (!def)
      return reject(loop, "the indices of a copy must not depend on loop-carried values, but got " +
                              Twine(tile::describeOrigin(value)));
    if (!written.canComputeAhead(def))
      return reject(def,
                    "the indices of a copy must be computed by operations that may be executed "
                    "ahead, but got '" +
                        def->getName().getStringRef() + "'");
    if (needed.insert(def))
      llvm::append_range(worklist, def->getOperands());
  }
  for (Operation &op : *body)
    if (needed.contains(&op))
      slice.scalars.push_back(&op);
  return slice;
}

bool tgpu::isUnchangedIn(scf::ForOp loop, Value buffer) {
  auto alloc = buffer.getDefiningOp<AllocOp>();
  if (!alloc || loop->isAncestor(alloc))
    return false;
  return llvm::all_of(alloc->getUsers(), [&](Operation *user) {
    return isa<ReadOp, FmaDotOp>(user) || !loop->isAncestor(user);
  });
}

bool tgpu::writesShared(Operation *op) {
  WalkResult result = op->walk([](Operation *inner) {
    auto convert = dyn_cast<ConvertOp>(inner);
    return isa<WriteSharedOp>(inner) || (convert && convert.getScratch()) ? WalkResult::interrupt()
                                                                          : WalkResult::advance();
  });
  return result.wasInterrupted();
}
