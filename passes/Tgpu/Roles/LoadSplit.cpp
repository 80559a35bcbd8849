// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which copies each of two load roles makes.

#include "passes/Tgpu/Roles/LoadSplit.h"

#include "passes/Tgpu/Analysis/LoopChain.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

Readers tgpu::getReaders(const CopyGroup &group) {
  Readers readers;
  for (CopyAsyncOp copy : group.copies)
    for (Operation *user : copy.getBuffer().getUsers()) {
      if (isa<CopyAsyncOp>(user))
        continue;
      auto product = dyn_cast<WgmmaOp>(user);
      if (!product) { // elements, which the iteration needs
        readers.early = true;
        continue;
      }
      bool isCarried = llvm::all_of(product.getResult().getUsers(), [](Operation *wait) {
        return isOnlyYielded(cast<WgmmaWaitOp>(wait));
      });
      (isCarried ? readers.late : readers.early) = true;
    }
  return readers;
}

bool tgpu::isOfSecondLoad(const CopyGroup &group) {
  Readers readers = getReaders(group);
  return group.getLoop() && readers.late && !readers.early;
}

LogicalResult tgpu::verifyLoadSplit(KernelOp kernel, const RoleSlice &slice, bool explain) {
  auto reject = [&](Operation *op, const Twine &why) {
    if (explain)
      op->emitError() << "kernel cannot have two roles that copy: " << why
                      << "; use the schedule load_roles=1";
    return failure();
  };
  if (slice.spread)
    return reject(slice.spread->op, "the second one needs a warp that would be idle, but got "
                                    "tile.spread, which has all of these");
  for (const CopyGroup &group : slice.groups)
    if (!group.gathers.empty())
      return reject(group.gathers.front().ops.front(),
                    "the second one needs a warp that would be idle, but got a row that two of "
                    "these gather");
  SmallVector<scf::ForOp> loops = slice.getCopyingLoops();
  if (loops.empty())
    return reject(kernel, "a loop must copy tiles for its products, but got none that does");
  for (scf::ForOp loop : loops) {
    auto hasCopies = [&](bool isSecond) {
      return llvm::any_of(slice.groups, [&](const CopyGroup &group) {
        return group.getLoop() == loop && isOfSecondLoad(group) == isSecond;
      });
    };
    bool hasFirst = hasCopies(/*isSecond=*/false);
    if (!hasFirst || !hasCopies(/*isSecond=*/true))
      return reject(loop, Twine("a loop must copy tiles for products whose results its iteration "
                                "uses, and others only for products whose results it carries, but "
                                "got none of the ") +
                              (hasFirst ? "latter" : "former"));
  }
  return success();
}
