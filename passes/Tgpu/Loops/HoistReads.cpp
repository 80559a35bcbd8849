// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-hoist-reads: hoists the reads that the schedule keeps in registers out of the loops in which
// their buffers do not change.

#include "passes/Passes.h"
#include "passes/Tgpu/Loops/CopySlice.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUHOISTREADS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

struct TgpuHoistReadsPass : tilewright::impl::TgpuHoistReadsBase<TgpuHoistReadsPass> {
  void runOnOperation() override {
    hoisted.clear();
    SmallVector<ReadOp> reads;
    getOperation()->walk([&](ReadOp read) {
      if (keepInRegistersAttr.isOn(read))
        reads.push_back(read);
    });
    for (ReadOp read : reads)
      hoist(read);
  }

private:
  /// Keyed by loop, buffer and type, so that clones of a body share a read.
  llvm::DenseMap<std::tuple<Operation *, Value, Type>, Value> hoisted;

  void hoist(ReadOp read) {
    keepInRegistersAttr.remove(read);
    scf::ForOp outermost;
    for (auto loop = read->getParentOfType<scf::ForOp>();
         loop && isUnchangedIn(loop, read.getBuffer()); loop = loop->getParentOfType<scf::ForOp>())
      outermost = loop;
    if (!outermost)
      return;
    // A plain and a transposed read of the same buffer need different keys, even if the tile is
    // square.
    Type key = read.getTranspose() ? Type(TupleType::get(read.getContext(), {read.getType()}))
                                   : Type(read.getType());
    Value &before = hoisted[{outermost, read.getBuffer(), key}];
    if (before) {
      read.getResult().replaceAllUsesWith(before);
      read.erase();
      return;
    }
    read->moveBefore(outermost);
    before = read.getResult();
  }
};

} // namespace
