// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products: mma.sync, and multiply-adds on the CUDA cores.

#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/SharedAccess.h"
#include "passes/Conversion/ThreadCoords.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

namespace {
/// The words of an operand; null if they have not been read.
struct Operand {
  Values words;
  const MatrixRead *read;
};
} // namespace

//===----------------------------------------------------------------------===//
// mma.sync
//===----------------------------------------------------------------------===//

static Operand makeOperand(KernelEmitter &e, Value value) {
  if (const MatrixRead *read = getDeferredRead(e, value))
    return {Values(e.getFlatTypes(value.getType()).size()), read};
  return {e.get(value), nullptr};
}

/// A scheduling barrier for ptxas, which moves no instruction across it.
static void endScheduling(ThreadBuilder &b) {
  // ptxas moves no instruction across a performance event (number 0, which users may count as
  // well); it is one instruction and does not wait. Warp barriers do not have this effect.
  b.intrinsic("llvm.nvvm.pm.event.mask", b.constant(b.getI16IntegerAttr(1)));
}

static LogicalResult emitMma(KernelEmitter &e, MmaOp op) {
  ThreadBuilder &b = e.b;
  auto accType = cast<RankedTensorType>(op.getAcc().getType());
  auto mma = cast<MmaAttr>(accType.getEncoding());
  Type element = e.getScalarType(op.getA().getType());
  StringRef name;
  Type word = b.getI32Type();
  if (element.isF16()) {
    name = "llvm.nvvm.mma.m16n8k16.row.col.f32.f32";
    word = VectorType::get(2, element);
  } else if (element.isBF16()) {
    name = "llvm.nvvm.mma.m16n8k16.row.col.bf16";
  } else if (element.isF32()) {
    name = "llvm.nvvm.mma.m16n8k8.row.col.tf32";
  }
  if (name.empty() || !accType.getElementType().isF32())
    return op.emitError() << "mma.sync must be of f16, bf16 or f32 into f32 on "
                          << e.kernel.getTarget() << ", but got " << op.getA().getType() << " into "
                          << accType.getElementType();

  Values acc = e.getElements(op.getAcc());
  int64_t atomsM = accType.getDimSize(0) / (16 * mma.getWarpsM());
  int64_t atomsN = accType.getDimSize(1) / (8 * mma.getWarpsN());
  int64_t atomsK = static_cast<int64_t>(e.getFlatTypes(op.getA().getType()).size()) / (4 * atomsM);
  Operand operands[] = {makeOperand(e, op.getA()), makeOperand(e, op.getB())};
  if (static_cast<int64_t>(operands[1].words.size()) != 2 * atomsK * atomsN ||
      static_cast<int64_t>(acc.size()) != 4 * atomsM * atomsN)
    return op.emitError("operands do not fit the atoms of the accumulator");
  /// Words `first` to `first + count - 1` of an operand, read now if they have not been read.
  auto getWords = [&](Operand &operand, int64_t first, int64_t count) {
    for (size_t i = 0; operand.read && i < operand.read->issues.size(); ++i) {
      const layout::MatrixIssue &issue = operand.read->issues[i];
      auto isWanted = [&](int word) { return first <= word && word < first + count; };
      ArrayRef<int> words = ArrayRef(issue.words).take_front(issue.numMatrices);
      if (operand.words[words[0]] || llvm::none_of(words, isWanted))
        continue;
      for (auto [number, value] : llvm::zip_equal(words, loadMatrices(b, *operand.read, i)))
        operand.words[number] = value;
    }
    Values list;
    for (Value value : ArrayRef(operand.words).slice(first, count))
      list.push_back(b.bitcast(value, word));
    return list;
  };

  Type sumType = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                                  SmallVector<Type>(4, accType.getElementType()));
  // One ldmatrix loads operand b for two atoms along k. A few columns at a time for both:
  // consecutive products then do not depend on each other, and operands occupy few registers.
  constexpr int64_t atomsOfStepK = 2, atomsOfStepN = 4;
  struct Atom {
    int64_t m, n, k;
  };
  SmallVector<SmallVector<Atom>> steps;
  for (int64_t firstK = 0; firstK < atomsK; firstK += atomsOfStepK)
    for (int64_t firstN = 0; firstN < atomsN; firstN += atomsOfStepN) {
      SmallVector<Atom> &step = steps.emplace_back();
      for (int64_t k = firstK; k < std::min(firstK + atomsOfStepK, atomsK); ++k)
        for (int64_t n = firstN; n < std::min(firstN + atomsOfStepN, atomsN); ++n)
          for (int64_t m = 0; m < atomsM; ++m)
            step.push_back({m, n, k});
    }
  auto getOperands = [&](const Atom &atom) {
    Values list = getWords(operands[0], 4 * (atom.m * atomsK + atom.k), 4);
    llvm::append_range(list, getWords(operands[1], 2 * (atom.n * atomsK + atom.k), 2));
    return list;
  };
  auto readAhead = [&](ArrayRef<Atom> step) {
    for (const Atom &atom : step)
      getOperands(atom);
  };
  if (op.getStepwise())
    readAhead(steps.front());
  for (auto [number, step] : llvm::enumerate(steps)) {
    if (op.getStepwise()) {
      endScheduling(b);
      if (number + 1 < steps.size())
        readAhead(steps[number + 1]);
    }
    for (const Atom &atom : step) {
      Values list = getOperands(atom);
      MutableArrayRef<Value> sums = MutableArrayRef(acc).slice(4 * (atom.m * atomsN + atom.n), 4);
      llvm::append_range(list, sums);
      Value result = b.intrinsic(name, sumType, list);
      for (auto [i, value] : llvm::enumerate(sums))
        value = b.extract(result, static_cast<int64_t>(i));
    }
  }
  e.setElements(op.getResult(), acc);
  return success();
}

//===----------------------------------------------------------------------===//
// Multiply-adds
//===----------------------------------------------------------------------===//

static LogicalResult emitFmaDot(KernelEmitter &e, FmaDotOp op) {
  ThreadBuilder &b = e.b;
  const RegisterLayout &layout = *e.getLayout(op, op.getResult().getType());
  Type element = e.getScalarType(op.getResult().getType());
  auto aType = cast<SharedType>(op.getA().getType()), bType = cast<SharedType>(op.getB().getType());
  const layout::SharedLayout *shared[2] = {e.getLayout(op, aType), e.getLayout(op, bType)};
  if (!shared[0] || !shared[1])
    return failure();
  int64_t bytes = element.getIntOrFloatBitWidth() / 8;
  int64_t depth = aType.getShape()[op.getTransposeA() ? 0 : 1];
  int64_t step = 16 / bytes;
  while (depth % step != 0)
    step /= 2;

  // The rows and columns of the thread, each once; registers are given by their numbers among them.
  SmallVector<int64_t> places[2];
  SmallVector<size_t> placeOf[2];
  for (int dim : {0, 1})
    for (int reg = 0; reg < layout.registersPerThread(); ++reg) {
      int64_t part = layout.registerPart(reg)[dim];
      auto found = llvm::find(places[dim], part);
      placeOf[dim].push_back(found - places[dim].begin());
      if (found == places[dim].end())
        places[dim].push_back(part);
    }
  int64_t vector = getRunLength(layout, bytes);

  /// For each position, the elements k to k + step - 1 of operand `which`.
  auto load = [&](int which, Value k) {
    Value buffer = e.getScalar(which == 0 ? op.getA() : op.getB());
    Value base = getThreadCoord(b, layout, which);
    const layout::SharedLayout &lies = *shared[which];
    bool kInRow = which == 0 ? !op.getTransposeA() : op.getTransposeB();
    SmallVector<Values> strips(places[which].size());
    if (kInRow) {
      // A strip is always within the 16 bytes that a swizzle keeps together.
      for (auto [place, strip] : llvm::zip_equal(places[which], strips))
        strip =
            loadVector(b, b.advance(buffer, getByteOffset(b, lies, b.add(base, b.i32(place)), k)),
                       element, step);
      return strips;
    }
    int64_t run = which == 1 ? vector : 1;
    for (int64_t i = 0; i < step; ++i)
      for (size_t first = 0; first < strips.size(); first += run) {
        Value col = b.add(base, b.i32(places[which][first]));
        Value address = b.advance(buffer, getByteOffset(b, lies, b.add(k, b.i32(i)), col));
        for (auto [j, value] : llvm::enumerate(loadVector(b, address, element, run)))
          strips[first + j].push_back(value);
      }
    return strips;
  };

  // The block is summed separately, then added: errors grow with the length of a block and with the
  // number of blocks, not with their product.
  Values acc = e.getElements(op.getAcc());
  Value zero = b.constant(b.getFloatAttr(element, 0));
  auto loop = scf::ForOp::create(b, b.i32(0), b.i32(depth), b.i32(step), Values(acc.size(), zero));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(loop.getBody());
    Values sums(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    SmallVector<Values> rows = load(0, loop.getInductionVar());
    SmallVector<Values> cols = load(1, loop.getInductionVar());
    for (int64_t i = 0; i < step; ++i)
      for (auto [reg, sum] : llvm::enumerate(sums))
        sum = LLVM::FMAOp::create(b, rows[placeOf[0][reg]][i], cols[placeOf[1][reg]][i], sum);
    scf::YieldOp::create(b, sums);
  }
  for (auto [total, sum] : llvm::zip_equal(acc, loop.getResults()))
    total = matchPattern(total, m_AnyZeroFloat())
                ? Value(sum)
                : arith::AddFOp::create(b, total, sum).getResult();
  e.setElements(op.getResult(), acc);
  return success();
}

void tgpu::registerMatrixLowerings(LoweringTable &table) {
  table.add<MmaOp>(emitMma);
  table.add<FmaDotOp>(emitFmaDot);
}
