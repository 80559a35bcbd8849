// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-load-captures: mapped functions get what they read at the positions of a tile as operands
// (CaptureLoads.h). After it, every access of a view by a tile states the start of the tile.

#include "passes/Passes.h"
#include "passes/Tile/CaptureLoads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright {
#define GEN_PASS_DEF_TILELOADCAPTURES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;

static Value createLoad(OpBuilder &b, const CaptureLoad &load) {
  SmallVector<int64_t> shape;
  for (int64_t dim : load.wholeDims)
    shape.push_back(load.whole.getDimSize(dim));
  auto type = RankedTensorType::get(shape, load.whole.getElementType());
  return tile::LoadOp::create(b, load.loc, type, load.view, load.indices, load.staticIndices,
                              load.dims, Value());
}

namespace {

struct TileLoadCapturesPass : tilewright::impl::TileLoadCapturesBase<TileLoadCapturesPass> {
  using TileLoadCapturesBase::TileLoadCapturesBase;

  void runOnOperation() override {
    SmallVector<tile::MapOp> maps;
    getOperation().walk([&](tile::MapOp map) { maps.push_back(map); });
    CaptureLoads::run(getOperation(), maps, createLoad);
  }
};

} // namespace
