// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: the operations of a kernel that a trace has to visit. Most operations compute
// tiles, or positions of their elements, on which no step depends.

#include "passes/Tgpu/Sync/VerifySync.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

/// Whether a trace has a number for values of the type.
static bool isTraced(Type type) { return !isa<RankedTensorType, FloatType>(type); }

namespace {

/// Marks what the steps of a kernel depend on.
class SliceBuilder {
public:
  llvm::DenseSet<Operation *> needed;

  void run(KernelOp kernel) {
    kernel.walk([&](Operation *op) {
      bool isOpaque = op->getNumRegions() != 0 &&
                      !isa<KernelOp, RolesOp, scf::ForOp, scf::IfOp, scf::WhileOp>(op);
      if (isOpaque || isSynchronization(*op) || mayBeStep(op))
        needOp(op);
    });
    while (!worklist.empty())
      needDefinition(worklist.pop_back_val());
  }

private:
  static bool mayBeStep(Operation *op) {
    return isa<PublishOp, ReceiveOp, TakeTileOp, GetTileOp, WgmmaOp>(op) ||
           llvm::any_of(op->getOperandTypes(),
                        [](Type type) { return isa<SharedType, BarriersType>(type); });
  }

  void need(Value value) {
    if (isTraced(value.getType()) && values.insert(value).second)
      worklist.push_back(value);
  }
  void need(ValueRange range) {
    for (Value value : range)
      need(value);
  }

  void needOp(Operation *op) {
    if (isa<KernelOp, RolesOp>(op) || !needed.insert(op).second)
      return;
    needOp(op->getParentOp());
    if (auto loop = dyn_cast<scf::ForOp>(op))
      need({loop.getLowerBound(), loop.getUpperBound(), loop.getStep()});
    else if (auto branch = dyn_cast<scf::IfOp>(op))
      need(branch.getCondition());
    else if (auto loop = dyn_cast<scf::WhileOp>(op))
      need(loop.getConditionOp().getCondition());
    else
      need(op->getOperands());
  }

  void needDefinition(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      Operation *parent = argument.getOwner()->getParentOp();
      if (isa<KernelOp>(parent))
        return;
      needOp(parent);
      unsigned i = argument.getArgNumber();
      if (auto loop = dyn_cast<scf::ForOp>(parent); loop && i > 0) {
        need(loop.getInitArgs()[i - 1]);
        need(loop.getYieldedValues()[i - 1]);
      } else if (auto loop = dyn_cast<scf::WhileOp>(parent)) {
        if (argument.getOwner() == loop.getBeforeBody()) {
          need(loop.getInits()[i]);
          need(loop.getYieldOp().getResults()[i]);
        } else {
          need(loop.getConditionOp().getArgs()[i]);
        }
      }
      return;
    }
    Operation *op = value.getDefiningOp();
    unsigned i = cast<OpResult>(value).getResultNumber();
    needOp(op);
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      need(loop.getRegionIterArgs()[i]);
      need(loop.getInitArgs()[i]);
      need(loop.getYieldedValues()[i]);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      need(branch.thenYield().getResults()[i]);
      need(branch.elseYield().getResults()[i]);
    } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      need(loop.getConditionOp().getArgs()[i]);
    }
  }

  llvm::DenseSet<Value> values;
  SmallVector<Value> worklist;
};

} // namespace

static ScalarKind getScalarKind(Operation &op) {
  using Kind = ScalarKind;
  return llvm::TypeSwitch<Operation *, Kind>(&op)
      .Case<arith::AddIOp>([](auto) { return Kind::Add; })
      .Case<arith::SubIOp>([](auto) { return Kind::Sub; })
      .Case<arith::MulIOp>([](auto) { return Kind::Mul; })
      .Case<arith::AndIOp>([](auto) { return Kind::And; })
      .Case<arith::OrIOp>([](auto) { return Kind::Or; })
      .Case<arith::XOrIOp>([](auto) { return Kind::Xor; })
      .Case<arith::MinSIOp>([](auto) { return Kind::MinS; })
      .Case<arith::MaxSIOp>([](auto) { return Kind::MaxS; })
      .Case<arith::MinUIOp>([](auto) { return Kind::MinU; })
      .Case<arith::MaxUIOp>([](auto) { return Kind::MaxU; })
      .Case<arith::CmpIOp>([](auto) { return Kind::Compare; })
      .Case<arith::DivSIOp>([](auto) { return Kind::DivS; })
      .Case<arith::RemSIOp>([](auto) { return Kind::RemS; })
      .Case<arith::DivUIOp>([](auto) { return Kind::DivU; })
      .Case<arith::RemUIOp>([](auto) { return Kind::RemU; })
      .Case<arith::CeilDivSIOp>([](auto) { return Kind::CeilDivS; })
      .Case<arith::CeilDivUIOp>([](auto) { return Kind::CeilDivU; })
      .Case<arith::FloorDivSIOp>([](auto) { return Kind::FloorDivS; })
      .Case<arith::ShLIOp>([](auto) { return Kind::ShiftLeft; })
      .Case<arith::ShRSIOp>([](auto) { return Kind::ShiftRightS; })
      .Case<arith::ShRUIOp>([](auto) { return Kind::ShiftRightU; })
      .Case<arith::ExtUIOp>([](auto) { return Kind::ExtendU; })
      .Case<arith::ExtSIOp, arith::TruncIOp, arith::IndexCastOp>([](auto) { return Kind::Same; })
      .Case<arith::SelectOp>([](auto) { return Kind::Select; })
      .Default([](Operation *) { return Kind::Other; });
}

unsigned Slice::addPlace(Value value) {
  if (!isTraced(value.getType()))
    return 0;
  auto [found, isNew] = places.try_emplace(value, numbers.size());
  if (isNew)
    numbers.push_back(0);
  return found->second;
}

void Slice::number(Block &block) {
  for (Value argument : block.getArguments())
    addPlace(argument);
  for (Operation &op : block)
    for (Value result : op.getResults())
      addPlace(result);
}

void Slice::add(Block &block, Operation &op) {
  APInt constant;
  bool isScalar = op.getNumResults() == 1 && op.getResult(0).getType().isIntOrIndex();
  if (isScalar && op.hasTrait<OpTrait::ConstantLike>() &&
      matchPattern(op.getResult(0), m_ConstantInt(&constant))) {
    numbers[getPlace(op.getResult(0))] = constant.getSExtValue();
    return;
  }
  SlicedOp sliced;
  sliced.op = &op;
  auto widthOf = [](Type type) { return type.isIndex() ? 64u : type.getIntOrFloatBitWidth(); };
  if (isScalar && llvm::all_of(op.getOperandTypes(), [](Type type) { return type.isIntOrIndex(); }))
    sliced.kind = getScalarKind(op);
  if (sliced.kind != ScalarKind::Other) {
    sliced.width = widthOf(op.getOperand(0).getType());
    sliced.resultWidth = widthOf(op.getResult(0).getType());
    sliced.result = getPlace(op.getResult(0));
    for (auto [i, operand] : llvm::enumerate(op.getOperands()))
      sliced.operands[i] = getPlace(operand);
    if (auto compare = dyn_cast<arith::CmpIOp>(op))
      sliced.predicate = static_cast<uint8_t>(compare.getPredicate());
  }
  ops[&block].push_back(sliced);
}

Slice::Slice(KernelOp kernel) {
  SliceBuilder builder;
  builder.run(kernel);
  kernel.walk([&](Block *block) { number(*block); });
  kernel.walk([&](Block *block) {
    ops[block];
    for (Operation &op : *block)
      if (isa<RolesOp>(op) || builder.needed.contains(&op))
        add(*block, op);
  });
  kernel->getParentOfType<ModuleOp>().walk([&](func::FuncOp function) {
    function.walk([&](Block *block) { number(*block); });
    function.walk([&](Block *block) {
      ops[block];
      for (Operation &op : *block)
        add(*block, op);
    });
  });
}
