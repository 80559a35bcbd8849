// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows a counter through the loops of a tile.

#include "passes/Tgpu/Loops/CountedRun.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

std::optional<unsigned> tgpu::getCarriedNumber(Value value, scf::ForOp loop) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getOwner() != loop.getBody() || argument.getArgNumber() == 0)
    return std::nullopt;
  return argument.getArgNumber() - 1;
}

/// Follows a counter through the loops of a block to its value before them.
static Value traceBack(Value value, Block *block, CountedRun &run) {
  while (auto result = dyn_cast<OpResult>(value)) {
    auto loop = dyn_cast<scf::ForOp>(result.getOwner());
    if (!loop || loop->getBlock() != block)
      break;
    run.loops.insert(loop);
    value = loop.getInitArgs()[result.getResultNumber()];
  }
  return value;
}

std::optional<CountedRun> CountedRun::get(scf::ForOp loop, unsigned number) {
  auto next = loop.getYieldedValues()[number].getDefiningOp<arith::AddIOp>();
  if (!next || next.getLhs() != loop.getRegionIterArg(number) ||
      !matchPattern(next.getRhs(), m_One()))
    return std::nullopt;
  CountedRun run;
  for (;;) {
    Block *block = loop->getBlock();
    run.top = loop;
    run.loops.insert(loop);
    run.last = loop.getResult(number);
    run.first = traceBack(loop.getInitArgs()[number], block, run);
    auto outer = dyn_cast<scf::ForOp>(block->getParentOp());
    if (!outer)
      return run;
    std::optional<unsigned> carried = getCarriedNumber(run.first, outer);
    if (!carried || traceBack(outer.getYieldedValues()[*carried], block, run) != run.first)
      return std::nullopt;
    number = *carried;
    loop = outer;
  }
}
