// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Skips the iterations of a block loop in which a warpgroup's rows keep no pair. Under a causal
// mask with descending blocks, the upper rows of a tile begin later than its lower rows. In a
// partial tile the lowest warpgroups may have no rows.

#include "passes/MaskRanges.h"
#include "passes/Tgpu/Analysis/BlockOrigin.h"
#include "passes/Tgpu/Analysis/IdleRounds.h"
#include "passes/Tgpu/Map/BlockLoop.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using arith::CmpIPredicate;

Value KernelMapper::getFirstRound(tile::ForBlocksOp op, const BlockLoop &loop, Value rounds) {
  Value zero = i32(0);
  // Only if a tile has more rows than a block has columns do some rows end a whole block before
  // others.
  auto layout = dyn_cast_or_null<WgmmaAttr>(layouts.get(op.getKeep()));
  int64_t groups = loop.rowCount / rowsOfWarpgroup;
  if (!target.hasRoles() || !layout || layout.getWarpgroups() != groups || groups < 2 ||
      loop.rowCount <= loop.columnCount || !loop.hasIdleRows || !leavesIdleRows(op))
    return zero;
  Value columns = i32(loop.columnCount), one = i32(1);
  SmallVector<Value> own;
  for (int64_t group = 0; group < groups; ++group) {
    Value before = i32(group * rowsOfWarpgroup);
    Value first = zero;
    if (op.getRanges()) {
      // For the last warpgroup this is the tile's end, which has been computed already.
      Value end = loop.rows;
      if (group + 1 < groups)
        end = arith::MinSIOp::create(b, loop.rows, i32((group + 1) * rowsOfWarpgroup));
      Values operands{arith::AddIOp::create(b, loop.start, before),
                      arith::AddIOp::create(b, loop.start, end), loop.lower, loop.upper};
      for (Value operand : op.getMaskOperands())
        operands.push_back(map.lookup(operand));
      Value mayEnd = cloneBody(b, getRanges(op), operands)[MayEnd];
      // A load from memory for each warpgroup would cost as much as it saves.
      if (isFromMemory(mayEnd))
        return zero;
      mayEnd = arith::MinSIOp::create(b, mayEnd, loop.upper);
      Value hasBlocks = arith::CmpIOp::create(b, CmpIPredicate::sgt, mayEnd, loop.origin);
      Value last = arith::SubIOp::create(b, arith::SubIOp::create(b, mayEnd, loop.origin), one);
      Value count = arith::AddIOp::create(b, arith::DivSIOp::create(b, last, columns), one);
      count = arith::SelectOp::create(b, hasBlocks, count, zero);
      first = arith::SubIOp::create(b, loop.end, count);
      first = arith::MinSIOp::create(b, arith::MaxSIOp::create(b, first, zero), rounds);
    }
    Value hasRows = arith::CmpIOp::create(b, CmpIPredicate::sgt, loop.rows, before);
    own.push_back(arith::SelectOp::create(b, hasRows, first, rounds));
  }
  return FirstRoundOp::create(b, b.getI32Type(), zero, own);
}
