// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Additions to tiles in global memory, and tiles whose rows or columns are selected by a tile of
// indices.

#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/ThreadCoords.h"

#include "base/Layout/Relations.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

static LogicalResult addAtomically(KernelEmitter &e, Operation *op, const ViewRegion &region,
                                   Value tile) {
  ThreadBuilder &b = e.b;
  const RegisterLayout &layout = *e.getLayout(op, tile.getType());
  Type element = region.view.element;
  StringRef type, constraint;
  if (element.isF32())
    type = "f32", constraint = "f";
  else if (element.isF64())
    type = "f64", constraint = "d";
  else if (element.isInteger(32))
    type = "u32", constraint = "r";
  else if (element.isF16())
    type = "noftz.f16", constraint = "h";
  else if (element.isBF16() && getTargetOf(e.kernel).has(Feature::AtomicAddOfBf16))
    type = "noftz.bf16", constraint = "h";
  else
    return op->emitError() << "there is no atomic addition of " << element << " on "
                           << e.kernel.getTarget() << "; add in f32";
  Values elements = e.getElements(tile);
  auto addAll = [&](Value condition, std::optional<size_t> unit, bool isInside) {
    auto addOne = [&](int reg, Value address, Value inside) {
      if (!isCanonicalRegister(layout, reg))
        return;
      Value value = constraint == "h" ? b.bitcast(elements[reg], b.getI16Type()) : elements[reg];
      std::string text = ("red.global.add." + type + " [$0], $1;").str();
      std::string constraints = ("l," + constraint + ",").str();
      if (inside)
        b.inlineAsm("@$2 " + text, constraints + "b,~{memory}", nullptr, {address, value, inside});
      else
        b.inlineAsm(text, constraints + "~{memory}", nullptr, {address, value});
    };
    forEachRun(b, region, layout, 1, condition, addOne, unit, isInside);
  };
  Value isMine = isCanonicalThread(b, layout);
  Value condition = b.conjunction(region.inside, isMine);
  if (!region.dense || region.gathered >= 0 || layout.rank() < 2) {
    addAll(condition, std::nullopt, false);
    return success();
  }
  // Nearly always neighbors are adjacent in memory and the whole tile is in bounds: then addresses
  // differ by constants, and there is no test. (A predicate here costs a branch for each addition.)
  Value isDense = isKnownAligned(e, region.viewValue, 1)
                      ? Value()
                      : b.equal(region.stride[*region.dense], b.i64(1));
  auto branch = scf::IfOp::create(b, TypeRange(), b.conjunction(isDense, isWhole(b, region)),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  addAll(isMine, region.dense, /*isInside=*/true);
  scf::YieldOp::create(b);
  b.setInsertionPointToEnd(branch.elseBlock());
  addAll(condition, std::nullopt, false);
  scf::YieldOp::create(b);
  return success();
}

static LogicalResult emitAtomicAdd(KernelEmitter &e, AtomicAddOp op) {
  ViewRegion region = getRegion(e, op, op.getValue());
  return addAtomically(e, op, region, op.getValue());
}

/// Along dimension `dim` of the tile, `at` counts from the region's index.
static LogicalResult setGathered(KernelEmitter &e, Operation *op, ViewRegion &region, Value tile,
                                 Value at, int64_t along, std::optional<ArrayRef<int64_t>> dims) {
  const RegisterLayout &layout = *e.getLayout(op, tile.getType());
  const RegisterLayout &from = *e.getLayout(op, at.getType());
  int rank = layout.rank(), viewRank = static_cast<int>(region.view.extents.size());
  if (region.shape.size() > 2)
    return op->emitError() << "only a tile of rank 1 or 2 can be indexed by a tile, but got "
                           << tile.getType();
  for (int d = 0; d < rank; ++d)
    if ((dims ? (*dims)[d] : viewRank - rank + d) == along)
      region.gathered = d;
  Values indices = e.getElements(at);
  if (rank == 1) {
    if (from != layout)
      return op->emitError() << "the indices must have the layout of the tile, but got "
                             << at.getType();
    region.gatheredAt = indices;
    return success();
  }
  int other = 1 - region.gathered;
  layout::ReductionPlan plan = layout::reductionPlan(layout, other);
  layout::Conversion conversion = layout::convert(from, plan.result);
  if (from.shape() != plan.result.shape() || conversion.kind != layout::Conversion::Kind::Registers)
    return op->emitError() << "the indices must have the layout slice<" << other
                           << "> of the tile's layout, but got " << at.getType()
                           << "; convert them first";
  for (int reg : plan.resultRegister)
    region.gatheredAt.push_back(indices[conversion.sourceRegister[reg]]);
  return success();
}

static LogicalResult emitGather(KernelEmitter &e, tile::GatherOp op) {
  const RegisterLayout &layout = *e.getLayout(op, op.getResult().getType());
  ViewRegion region = getRegion(e, op, op.getResult());
  if (failed(setGathered(e, op, region, op.getResult(), op.getAt(), op.getAlong(), op.getDims())))
    return failure();
  e.setElements(op.getResult(), loadRegion(e, region, layout));
  return success();
}

static LogicalResult emitScatterAdd(KernelEmitter &e, tile::ScatterAddOp op) {
  ViewRegion region = getRegion(e, op, op.getValue());
  if (failed(setGathered(e, op, region, op.getValue(), op.getAt(), op.getAlong(), op.getDims())))
    return failure();
  return addAtomically(e, op, region, op.getValue());
}

void tgpu::registerGatherLowerings(LoweringTable &table) {
  table.add<tile::GatherOp>(emitGather);
  table.add<tile::ScatterAddOp>(emitScatterAdd);
  table.add<AtomicAddOp>(emitAtomicAdd);
}
