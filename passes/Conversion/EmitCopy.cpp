// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cp.async: tiles from global to shared memory, shared out among the threads of the block in
// chunks.

#include "passes/Conversion/KernelEmitter.h"

#include "base/Layout/CopyPartition.h"
#include "passes/Conversion/LoweringTable.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::CopyPartition;
using ViewRegion = KernelEmitter::ViewRegion;

static LogicalResult emitCopyAsync(KernelEmitter &e, CopyAsyncOp op) {
  auto type = cast<SharedType>(op.getBuffer().getType());
  const layout::SharedLayout *shared = e.getLayout(op, type);
  if (!shared)
    return failure();
  int numThreads = static_cast<int>(32 * e.numWarps);
  // A vector is small; element by element it needs no alignment.
  int widest = type.getShape().size() == 1 ? static_cast<int>(shared->elementBits() / 8) : 16;
  Result<CopyPartition> planned = CopyPartition::plan(*shared, numThreads, widest);
  for (int chunk : {8, 4})
    if (!planned)
      planned = CopyPartition::plan(*shared, numThreads, chunk);
  if (!planned)
    return op.emitError() << planned.message();
  const CopyPartition &partition = *planned;
  int64_t rank = static_cast<int64_t>(type.getShape().size());
  ViewRegion region = e.getRegion(op.getView(), op.getIndices(), op.getStaticIndices(),
                                  op.getDims(), type.getShape());
  Value buffer = e.getScalar(op.getBuffer());
  int64_t bytes = region.view.bytes, chunk = partition.chunkBytes(), perChunk = chunk / bytes;

  // CopyPartition::chunkOf, of a chunk known at run time: row and column.
  auto divide = [&](Value x, int64_t by) {
    return arith::DivUIOp::create(e.b, x, e.i32(by)).getResult();
  };
  auto modulo = [&](Value x, int64_t by) {
    return arith::RemUIOp::create(e.b, x, e.i32(by)).getResult();
  };
  auto locate = [&](Value number) -> std::pair<Value, Value> {
    Value byte = e.mul(number, e.i32(chunk));
    int64_t width = shared->panelBytes();
    constexpr int64_t lineBytes = CopyPartition::lineBytes;
    if (!partition.isInLines()) {
      int64_t rowBytes = shared->cols() * bytes;
      return {divide(byte, rowBytes), divide(modulo(byte, rowBytes), bytes)};
    }
    Value line = divide(byte, lineBytes), inLine = modulo(byte, lineBytes);
    Value panel = modulo(line, shared->numPanels()),
          lineOfPanel = divide(line, shared->numPanels());
    Value rowInLine = divide(inLine, width);
    Value row = e.add(e.mul(lineOfPanel, e.i32(lineBytes / width)), rowInLine);
    Value colInPanel = modulo(inLine, width);
    Value col = e.add(e.mul(panel, e.i32(width)), colInPanel);
    return {row, divide(col, bytes)};
  };
  auto isInside = [&](Value row, Value col) {
    Value inside = e.less(e.add(region.index.back(), col), region.extent.back());
    if (rank == 2)
      inside = e.conjunction(inside, e.less(e.add(region.index[0], row), region.extent[0]));
    return e.conjunction(inside, region.inside);
  };
  // Sums of 32 bits first: one product for a row. A row may lie before the view while one that is
  // reached from it by steps lies inside, so its sign counts.
  auto addressOf = [&](Value row, Value col, bool isUnit) {
    Value offset = e.toU64(e.add(region.index.back(), col));
    if (!isUnit)
      offset = e.mul(offset, region.stride.back());
    Value from = region.outer;
    if (rank == 2) {
      Value start = e.mul(e.toI64(e.add(region.index[0], row)), region.stride[0]);
      from = e.advance(from, e.mul(start, e.i64(bytes)));
    }
    return e.advance(from, e.mul(offset, e.i64(bytes)));
  };
  /// Does nothing for chunks beyond the last.
  auto guarded = [&](Value number, bool isGuarded, llvm::function_ref<void()> copy) {
    OpBuilder::InsertionGuard guard(e.b);
    if (isGuarded) {
      auto branch = scf::IfOp::create(e.b, e.less(number, e.i32(partition.numChunks())),
                                      /*withElseRegion=*/false);
      e.b.setInsertionPoint(branch.thenBlock()->getTerminator());
    }
    copy();
  };

  auto branch = scf::IfOp::create(e.b, TypeRange(), e.isVectorisable(region, perChunk),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(e.b);

  e.b.setInsertionPointToEnd(branch.thenBlock());
  std::string name = chunk == 16
                         ? "llvm.nvvm.cp.async.cg.shared.global.16.s"
                         : "llvm.nvvm.cp.async.ca.shared.global." + std::to_string(chunk) + ".s";
  auto [row, col] = locate(e.thread);
  Value target = e.byteOffset(*shared, row, col);
  Value source = addressOf(row, col, /*isUnit=*/true);
  std::optional<int64_t> rowStep = partition.rowsPerIssue();
  // One addition from issue to issue: a product for each would take as many registers.
  Value firstRow = rank == 2 ? e.add(region.index[0], row) : Value();
  Value colInside =
      e.conjunction(e.less(e.add(region.index.back(), col), region.extent.back()), region.inside);
  Value sourceStep;
  if (rowStep && rank == 2)
    sourceStep = e.mul(region.stride[0], e.i64(*rowStep * bytes));
  for (int issue = 0; issue < partition.numIssues(); ++issue) {
    bool isLast = issue + 1 == partition.numIssues();
    Value number = e.add(e.thread, e.i32(int64_t(issue) * numThreads));
    guarded(number, isLast && !partition.isEven(), [&] {
      Value from = source, to = e.advance(buffer, target), inside;
      if (rowStep) {
        int64_t rows = issue * *rowStep;
        to = e.advance(to, rows * shared->rowPitch());
        inside = colInside;
        if (rank == 2)
          inside = e.conjunction(e.less(e.add(firstRow, e.i32(rows)), region.extent[0]), inside);
      } else {
        auto [thisRow, thisCol] = locate(number);
        from = addressOf(thisRow, thisCol, /*isUnit=*/true);
        to = e.advance(buffer, e.byteOffset(*shared, thisRow, thisCol));
        inside = isInside(thisRow, thisCol);
      }
      // A copy of 0 bytes reads nothing and fills the chunk with zeros.
      Value size = arith::SelectOp::create(e.b, inside, e.i32(chunk), e.i32(0));
      e.intrinsic(name, ValueRange{to, from, size});
    });
    if (sourceStep && !isLast)
      source = e.advance(source, sourceStep);
  }
  scf::YieldOp::create(e.b);

  // Element by element. This path is rare, so it is a loop, which is small.
  e.b.setInsertionPointToEnd(branch.elseBlock());
  auto loop = scf::ForOp::create(e.b, e.i32(0), e.i32(partition.numIssues()), e.i32(1));
  e.b.setInsertionPoint(loop.getBody()->getTerminator());
  Value number = e.add(e.thread, e.mul(loop.getInductionVar(), e.i32(numThreads)));
  guarded(number, !partition.isEven(), [&] {
    auto [row, col] = locate(number);
    Values elements;
    for (int64_t i = 0; i < perChunk; ++i) {
      Value at = e.add(col, e.i32(i));
      Value inside = isInside(row, at), address = addressOf(row, at, /*isUnit=*/false);
      llvm::append_range(elements, e.loadGlobal(address, inside, region.view.element, 1, nullptr));
    }
    e.storeVector(e.advance(buffer, e.byteOffset(*shared, row, col)), elements);
  });
  e.b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(e.b);
  return success();
}

static void emitCopyCommit(KernelEmitter &e, CopyCommitOp) {
  e.intrinsic("llvm.nvvm.cp.async.commit.group", ValueRange());
}

static void emitCopyWait(KernelEmitter &e, CopyWaitOp op) {
  e.intrinsic("llvm.nvvm.cp.async.wait.group", e.i32(op.getPending()));
}

void tgpu::registerCopyLowerings(LoweringTable &table) {
  table.add<CopyAsyncOp>(emitCopyAsync);
  table.add<CopyCommitOp>(emitCopyCommit);
  table.add<CopyWaitOp>(emitCopyWait);
}
