// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Asynchronous matrix products of a warpgroup.
//
// The accumulators go through the instruction, and through its wait, as operands tied to results:
// so nothing can read them in between, and no moves are needed.

#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/SharedAccess.h"

#include "base/Layout/WgmmaDescriptor.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

#include <map>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::Major;
using layout::WgmmaOperand;

/// The slot of a ring that contains an operand, if it varies between iterations.
static SlotOp getVaryingSlot(Value operand) {
  auto slot = operand.getDefiningOp<SlotOp>();
  return slot && cast<RingType>(slot.getRing().getType()).getStages() > 1 ? slot : SlotOp();
}

/// Whether ptxas lacks registers for the loop-invariant descriptors of a loop.
static bool hasManyPlaces(scf::ForOp loop) {
  int64_t steps = 0;
  for (auto product : loop.getBody()->getOps<WgmmaOp>()) {
    auto a = dyn_cast<SharedType>(product.getA().getType());
    if (!a || getVaryingSlot(product.getA()))
      continue;
    int64_t depth = a.getShape()[product.getTransposeA() ? 0 : 1];
    steps += depth / getInstructionDepth(a.getElementType());
  }
  return steps >= RegisterLimits::stepsOfManyDescriptors;
}

/// A zero that ptxas cannot prove loop-invariant; null if it is not needed. Added to an operand's
/// address, it keeps the computation of the steps' descriptors inside the loop.
static Value getVaryingZero(KernelEmitter &e, WgmmaOp op, Value operand) {
  auto loop = dyn_cast<scf::ForOp>(op->getParentOp());
  if (!loop || getVaryingSlot(operand) || !hasManyPlaces(loop))
    return {};
  for (Value place : {operand, op.getA(), op.getB()})
    if (auto slot = place.getDefiningOp<SlotOp>(); slot && slot->getBlock() == op->getBlock())
      // The number of uses so far, which stays below 2^31.
      return arith::ShRUIOp::create(e.b, e.getScalar(slot.getUse()), e.b.i32(31));
  return {};
}

/// Keeps what is computed of a tile before the product that takes its registers. LLVM would sink it
/// behind the product, and the tile would have to be copied.
static void keepUsersBefore(KernelEmitter &e, WgmmaOp op) {
  for (Operation *user : op.getAcc().getUsers())
    if (user != op)
      llvm::for_each(user->getResults(), [&](Value result) { e.keepHere(result); });
}

static LogicalResult emitWgmma(KernelEmitter &e, WgmmaOp op) {
  ThreadBuilder &b = e.b;
  auto tile = cast<PendingType>(op.getResult().getType()).getTile();
  int64_t groups = cast<WgmmaAttr>(tile.getEncoding()).getWarpgroups();
  auto bType = cast<SharedType>(op.getB().getType());
  Type element = bType.getElementType();
  int bits = static_cast<int>(getElementBits(element));
  StringRef name = element.isF16()                  ? "f16"
                   : element.isBF16()               ? "bf16"
                   : element.isF32()                ? "tf32"
                   : isa<Float8E4M3FNType>(element) ? "e4m3"
                   : isa<Float8E5M2Type>(element)   ? "e5m2"
                                                    : "";
  if (name.empty())
    return op.emitError() << "there is no wgmma of " << element;
  int64_t rows = tile.getDimSize(0), cols = tile.getDimSize(1);
  if (Status status = layout::checkWgmmaShape(cols, bits); !status)
    return op.emitError() << status.message();

  // The parts of an operand in shared memory: the descriptor of its start, and the increments for a
  // block of 64 rows and a step of k.
  auto plan = [&](Value value, Major major) -> std::optional<std::pair<WgmmaOperand, Value>> {
    auto type = cast<SharedType>(value.getType());
    const layout::SharedLayout *shared = e.getLayout(op, type);
    if (!shared)
      return std::nullopt;
    Result<WgmmaOperand> operand = WgmmaOperand::plan(*shared, major);
    if (!operand) {
      op.emitError() << operand.message();
      return std::nullopt;
    }
    Value chunk = arith::ShRUIOp::create(b, getWindowAddress(b, e.getScalar(value)), b.i32(4));
    if (Value zero = getVaryingZero(e, op, value))
      chunk = b.add(chunk, zero);
    Value address = arith::ExtUIOp::create(b, b.getI64Type(), chunk);
    Value constant = b.i64(static_cast<int64_t>(operand->descriptor(0).encode()));
    return std::pair(*operand, arith::OrIOp::create(b, constant, address).getResult());
  };
  auto bPlan = plan(op.getB(), op.getTransposeB() ? Major::K : Major::MN);
  if (!bPlan)
    return failure();
  bool isRegisterA = !isa<SharedType>(op.getA().getType());
  std::optional<std::pair<WgmmaOperand, Value>> aPlan;
  Values aWords;
  int64_t blocks = rows / (rowsOfWarpgroup * groups), steps = bPlan->first.numSteps();
  if (isRegisterA) {
    aWords = e.get(op.getA());
  } else {
    aPlan = plan(op.getA(), op.getTransposeA() ? Major::MN : Major::K);
    if (!aPlan)
      return failure();
    // Row blocks are assigned to warpgroups in turn; they must be equally spaced.
    int64_t stride = groups * blocks > 1 ? aPlan->first.byteOffset(rowsOfWarpgroup, 0) : 0;
    for (int64_t block = 0; block < groups * blocks; ++block)
      for (int64_t step = 0; step < steps; ++step)
        if (aPlan->first.byteOffset(rowsOfWarpgroup * block, step) !=
            block * stride + aPlan->first.byteOffset(0, step))
          return op.emitError() << "row blocks of operand a do not lie equally far apart";
    if (groups > 1) {
      Value group = arith::DivUIOp::create(b, b.threads.warp, b.i32(Target::warpsOfGroup));
      Value shift = b.mul(group, b.i32(stride / 16));
      aPlan->second = b.add(aPlan->second, arith::ExtUIOp::create(b, b.getI64Type(), shift));
    }
  }

  Values acc;
  bool isFirst = !op.getAddend();
  if (op.getOverwriting())
    keepUsersBefore(e, op);
  if (op.getAcc())
    acc = e.get(op.getAcc());
  else
    acc = Values(e.getLayout(op, tile)->registersPerThread(), b.zero(b.getF32Type()));
  int64_t perBlock = static_cast<int64_t>(acc.size()) / blocks;
  auto firstColumn = static_cast<int64_t>(op.getColumns().value_or(0));
  b.inlineAsm("wgmma.fence.sync.aligned;", "~{memory}", nullptr, {});
  for (int64_t block = 0; block < blocks; ++block) {
    Values sums(ArrayRef<Value>(acc).slice(block * perBlock, perBlock));
    for (int64_t step = 0; step < steps; ++step) {
      auto startOf = [&](const std::pair<WgmmaOperand, Value> &operand, int64_t mn) {
        return b.add(operand.second, b.i64(operand.first.byteOffset(mn, step) / 16));
      };
      size_t n = sums.size();
      std::string text = "{ .reg .pred p; setp.ne.b32 p, " +
                         std::to_string(isFirst && step == 0 ? 0 : 1) + ", 0; " +
                         "wgmma.mma_async.sync.aligned.m64n" + std::to_string(cols) + "k" +
                         std::to_string(layout::wgmmaDepth(bits)) + ".f32." + name.str() + "." +
                         name.str() + " {" + operandList(0, n, ",") + "}, ";
      Values operands;
      std::string constraints;
      size_t next = 2 * n; // tied operands have numbers of their own
      if (isRegisterA) {
        text += "{" + operandList(next, 4, ",") + "}";
        llvm::append_range(operands, ArrayRef(aWords).slice(4 * (block * steps + step), 4));
        constraints = "r,r,r,r,";
        next += 4;
      } else {
        text += "$" + std::to_string(next++);
        operands.push_back(startOf(*aPlan, rowsOfWarpgroup * groups * block));
        constraints = "l,";
      }
      text += ", $" + std::to_string(next) + ", p, 1, 1";
      operands.push_back(startOf(*bPlan, firstColumn));
      constraints += "l,~{memory}";
      if (bits == 16) {
        if (!isRegisterA)
          text += op.getTransposeA() ? ", 1" : ", 0";
        text += op.getTransposeB() ? ", 0" : ", 1";
      }
      sums = b.tiedAsm(text + "; }", constraints, sums, operands);
    }
    llvm::copy(sums, acc.begin() + block * perBlock);
  }
  e.set(op.getResult(), acc);
  return success();
}

/// A thread's rows and columns do not depend on the number of columns.
static LogicalResult emitColumns(KernelEmitter &e, ColumnsOp op) {
  const layout::RegisterLayout &source = *e.getLayout(op, op.getSource().getType());
  const layout::RegisterLayout &result = *e.getLayout(op, op.getResult().getType());
  llvm::DenseMap<std::pair<int64_t, int64_t>, int> registers;
  for (int reg = 0; reg < source.registersPerThread(); ++reg)
    registers[{source.registerPart(reg)[0], source.registerPart(reg)[1]}] = reg;
  Values elements = e.getElements(op.getSource()), kept;
  for (int reg = 0; reg < result.registersPerThread(); ++reg) {
    layout::Coord at = result.registerPart(reg);
    auto it = registers.find({at[0], at[1] + static_cast<int64_t>(op.getFirst())});
    if (it == registers.end())
      return op.emitError() << "the columns of " << op.getSource().getType()
                            << " are spread over other threads than those of "
                            << op.getResult().getType();
    kept.push_back(elements[it->second]);
  }
  e.setElements(op.getResult(), kept);
  return success();
}

static LogicalResult emitJoinColumns(KernelEmitter &e, JoinColumnsOp op) {
  const layout::RegisterLayout &result = *e.getLayout(op, op.getResult().getType());
  std::map<std::pair<int64_t, int64_t>, Value> elements;
  int64_t before = 0;
  for (Value part : op.getParts()) {
    const layout::RegisterLayout &layout = *e.getLayout(op, part.getType());
    for (auto [reg, element] : llvm::enumerate(e.getElements(part))) {
      layout::Coord at = layout.registerPart(static_cast<int>(reg));
      elements[{at[0], at[1] + before}] = element;
    }
    before += cast<RankedTensorType>(part.getType()).getDimSize(1);
  }
  Values joined;
  for (int reg = 0; reg < result.registersPerThread(); ++reg) {
    layout::Coord at = result.registerPart(reg);
    auto it = elements.find({at[0], at[1]});
    if (it == elements.end())
      return op.emitError() << "the columns of " << op.getResult().getType()
                            << " are spread over other threads than those of "
                            << op.getParts().front().getType();
    joined.push_back(it->second);
  }
  e.setElements(op.getResult(), joined);
  return success();
}

static void emitWgmmaWait(KernelEmitter &e, WgmmaWaitOp op) {
  std::string text = "wgmma.wait_group.sync.aligned " + std::to_string(op.getPending()) + ";";
  Values tied = e.flatten(op.getTiles());
  if (tied.empty()) {
    e.b.inlineAsm(text, "~{memory}", nullptr, {});
    return;
  }
  e.unflatten(op.getResults(), e.b.tiedAsm(text, "~{memory}", tied, {}));
}

static void emitWgmmaCommit(KernelEmitter &e, WgmmaCommitOp) {
  e.b.inlineAsm("wgmma.commit_group.sync.aligned;", "~{memory}", nullptr, {});
}

void tgpu::registerWgmmaLowerings(LoweringTable &table) {
  table.add<WgmmaOp>(emitWgmma);
  table.add<ColumnsOp>(emitColumns);
  table.add<JoinColumnsOp>(emitJoinColumns);
  table.add<WgmmaCommitOp>(emitWgmmaCommit);
  table.add<WgmmaWaitOp>(emitWgmmaWait);
}
