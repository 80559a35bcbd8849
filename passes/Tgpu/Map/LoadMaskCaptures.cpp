// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-load-mask-captures: as tile-load-captures, for the masks of loops over blocks, whose maps
// exist only since tile-to-tgpu. A thread reads a number of a column once, not for each of its
// rows.

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Passes.h"
#include "passes/Tile/CaptureLoads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPULOADMASKCAPTURES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static Value createLoad(OpBuilder &b, const CaptureLoad &load) {
  RankedTensorType type = load.whole;
  if (load.wholeDims.size() == 1) {
    int64_t dim = load.wholeDims.front();
    type = RankedTensorType::get(type.getDimSize(dim), type.getElementType(),
                                 getSlice(type.getEncoding(), 1 - dim));
  }
  return LoadOp::create(b, load.loc, type, load.view, load.indices, load.staticIndices, load.dims,
                        Value());
}

namespace {

struct TgpuLoadMaskCapturesPass
    : tilewright::impl::TgpuLoadMaskCapturesBase<TgpuLoadMaskCapturesPass> {
  using TgpuLoadMaskCapturesBase::TgpuLoadMaskCapturesBase;

  void runOnOperation() override {
    SmallVector<tile::MapOp> masks;
    getOperation().walk([&](tile::MapOp map) {
      auto type = dyn_cast<RankedTensorType>(map.getType());
      if (type && type.getEncoding() && type.getRank() == 2 && type.getElementType().isInteger(1))
        masks.push_back(map);
    });
    CaptureLoads::run(getOperation(), masks, createLoad);
  }
};

} // namespace
