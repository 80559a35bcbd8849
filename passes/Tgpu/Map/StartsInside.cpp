// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows the definitions of a scalar.

#include "passes/Tgpu/Map/StartsInside.h"

#include "passes/Tgpu/Analysis/IdleRounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;

namespace {

/// The maximum depth of the recursion.
constexpr int mostDepth = 16;

bool isNonNegative(Value value, int depth);

bool areNonNegative(ValueRange values, int depth) {
  return llvm::all_of(values, [&](Value value) { return isNonNegative(value, depth); });
}

/// Whether `value` is an operand of a select that compares it with 0.
bool isCheckedBy(Value condition, Value value, int depth) {
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  if (!compare || compare.getLhs() != value)
    return false;
  arith::CmpIPredicate predicate = compare.getPredicate();
  return (predicate == arith::CmpIPredicate::sge || predicate == arith::CmpIPredicate::sgt) &&
         isNonNegative(compare.getRhs(), depth);
}

bool isNonNegativeArgument(BlockArgument argument, int depth) {
  Operation *parent = argument.getOwner()->getParentOp();
  if (auto kernel = dyn_cast<tile::KernelOp>(parent))
    return llvm::is_contained(kernel.getGridIds(), argument);
  if (auto loop = dyn_cast<tile::ForBlocksOp>(parent))
    return argument == loop.getBlockStart() && isNonNegative(loop.getLower(), depth);
  if (auto loop = dyn_cast<scf::ForOp>(parent))
    return argument == loop.getInductionVar() &&
           isNonNegative(tgpu::getFirstOfAll(loop.getLowerBound()), depth);
  return false;
}

bool isNonNegative(Value value, int depth) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return !constant.isNegative();
  if (depth == 0)
    return false;
  --depth;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return isNonNegativeArgument(argument, depth);
  Operation *op = value.getDefiningOp();
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<tile::DimOp>([](auto) { return true; })
      .Case<arith::MaxSIOp>([&](auto max) {
        return isNonNegative(max.getLhs(), depth) || isNonNegative(max.getRhs(), depth);
      })
      .Case<arith::AddIOp, arith::MulIOp, arith::MinSIOp, arith::DivSIOp, arith::CeilDivSIOp,
            arith::FloorDivSIOp, arith::ExtSIOp>(
          [&](auto op) { return areNonNegative(op->getOperands(), depth); })
      .Case<arith::SelectOp>([&](arith::SelectOp select) {
        Value yes = select.getTrueValue();
        return isNonNegative(select.getFalseValue(), depth) &&
               (isNonNegative(yes, depth) || isCheckedBy(select.getCondition(), yes, depth));
      })
      .Default(false);
}

} // namespace

bool tgpu::isNonNegative(Value value) { return ::isNonNegative(value, mostDepth); }

bool tgpu::startsInside(tile::SubviewOp part, OperandRange indices,
                        ArrayRef<int64_t> staticIndices) {
  size_t dynamic = 0;
  for (auto [dim, known] : llvm::enumerate(staticIndices)) {
    Value index = ShapedType::isDynamic(known) ? indices[dynamic++] : Value();
    if (static_cast<int64_t>(dim) == static_cast<int64_t>(part.getDim()))
      return index ? tgpu::isNonNegative(index) : known >= 0;
  }
  return false;
}
