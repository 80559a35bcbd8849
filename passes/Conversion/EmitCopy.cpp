// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cp.async: tiles from global to shared memory, distributed over the threads of the block in
// chunks.

#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/PagedAccess.h"
#include "passes/Conversion/SharedAccess.h"
#include "passes/Conversion/ThreadCoords.h"

#include "base/Layout/CopyPartition.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::CopyPartition;

static LogicalResult emitCopyAsync(KernelEmitter &e, CopyAsyncOp op) {
  ThreadBuilder &b = e.b;
  auto type = cast<SharedType>(op.getBuffer().getType());
  const layout::SharedLayout *shared = e.getLayout(op, type);
  if (!shared)
    return failure();
  int numThreads = static_cast<int>(32 * b.threads.numWarps);
  // A vector is small; element by element, it needs no alignment.
  int widest = type.getShape().size() == 1 ? static_cast<int>(shared->elementBits() / 8) : 16;
  Result<CopyPartition> planned = CopyPartition::plan(*shared, numThreads, widest);
  for (int chunk : {8, 4})
    if (!planned)
      planned = CopyPartition::plan(*shared, numThreads, chunk);
  if (!planned)
    return op.emitError() << planned.message();
  const CopyPartition &partition = *planned;
  int64_t rank = static_cast<int64_t>(type.getShape().size());
  ViewRegion region = getRegion(e, op.getView(), op.getIndices(), op.getStaticIndices(),
                                op.getDims(), type.getShape());
  Value buffer = e.getScalar(op.getBuffer());
  int64_t bytes = region.view.bytes, chunk = partition.chunkBytes(), perChunk = chunk / bytes;

  // CopyPartition::chunkOf, of a chunk known at run time: row and column.
  auto divide = [&](Value x, int64_t by) {
    return arith::DivUIOp::create(b, x, b.i32(by)).getResult();
  };
  auto modulo = [&](Value x, int64_t by) {
    return arith::RemUIOp::create(b, x, b.i32(by)).getResult();
  };
  auto locate = [&](Value number) -> std::pair<Value, Value> {
    Value byte = b.mul(number, b.i32(chunk));
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
    Value row = b.add(b.mul(lineOfPanel, b.i32(lineBytes / width)), rowInLine);
    Value colInPanel = modulo(inLine, width);
    Value col = b.add(b.mul(panel, b.i32(width)), colInPanel);
    return {row, divide(col, bytes)};
  };
  std::optional<PagedRows> pages;
  if (auto paged = op.getView().getDefiningOp<tile::PagedOp>(); paged && rank == 2)
    pages.emplace(e, paged);
  /// Of rows of pages, the row is found once for its address and its condition.
  auto findRow = [&](Value row) {
    return pages ? pages->find(b.add(region.index[0], row)) : PagedRows::Place();
  };
  auto isInside = [&](Value row, Value col, const PagedRows::Place &place) {
    Value inside = b.less(b.add(region.index.back(), col), region.extent.back());
    if (pages)
      inside = b.conjunction(inside, place.inside);
    else if (rank == 2)
      inside = b.conjunction(inside, b.less(b.add(region.index[0], row), region.extent[0]));
    return b.conjunction(inside, region.inside);
  };
  // Sums in 32 bits first: one product per row. A row may be before the view while one that is
  // addressed relative to it is inside, so its sign matters.
  auto addressOf = [&](Value row, Value col, bool isUnit, const PagedRows::Place &place) {
    Value offset = b.toU64(b.add(region.index.back(), col));
    if (!isUnit)
      offset = b.mul(offset, region.stride.back());
    Value from = region.outer;
    if (pages) {
      from = b.advance(from, b.mul(pages->getOffset(place), b.i64(bytes)));
    } else if (rank == 2) {
      Value start = b.mul(b.toI64(b.add(region.index[0], row)), region.stride[0]);
      from = b.advance(from, b.mul(start, b.i64(bytes)));
    }
    return b.advance(from, b.mul(offset, b.i64(bytes)));
  };
  /// Has no effect for chunks beyond the last.
  auto guarded = [&](Value number, bool isGuarded, llvm::function_ref<void()> copy) {
    if (isGuarded)
      b.onlyIf(b.less(number, b.i32(partition.numChunks())), copy);
    else
      copy();
  };

  auto branch = scf::IfOp::create(b, TypeRange(), isVectorizable(e, region, perChunk),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);

  b.setInsertionPointToEnd(branch.thenBlock());
  std::string name = chunk == 16
                         ? "llvm.nvvm.cp.async.cg.shared.global.16.s"
                         : "llvm.nvvm.cp.async.ca.shared.global." + std::to_string(chunk) + ".s";
  auto [row, col] = locate(b.threads.thread);
  Value target = getByteOffset(b, *shared, row, col);
  std::optional<int64_t> rowStep = partition.rowsPerIssue();
  Value source = pages ? Value() : addressOf(row, col, /*isUnit=*/true, {});
  // One addition from issue to issue: a product for each would take as many registers.
  Value firstRow = rank == 2 ? b.add(region.index[0], row) : Value();
  Value colInside =
      b.conjunction(b.less(b.add(region.index.back(), col), region.extent.back()), region.inside);
  Value sourceStep;
  if (rowStep && rank == 2 && !pages)
    sourceStep = b.mul(region.stride[0], b.i64(*rowStep * bytes));
  for (int issue = 0; issue < partition.numIssues(); ++issue) {
    bool isLast = issue + 1 == partition.numIssues();
    Value number = b.add(b.threads.thread, b.i32(int64_t(issue) * numThreads));
    guarded(number, isLast && !partition.isEven(), [&] {
      Value from = source, to = b.advance(buffer, target), inside;
      if (pages) {
        Value thisRow = row, thisCol = col;
        if (rowStep)
          thisRow = b.add(row, b.i32(issue * *rowStep));
        else
          std::tie(thisRow, thisCol) = locate(number);
        PagedRows::Place place = findRow(thisRow);
        from = addressOf(thisRow, thisCol, /*isUnit=*/true, place);
        to = b.advance(buffer, getByteOffset(b, *shared, thisRow, thisCol));
        inside = isInside(thisRow, thisCol, place);
      } else if (rowStep) {
        int64_t rows = issue * *rowStep;
        to = b.advance(to, rows * shared->rowPitch());
        inside = colInside;
        if (rank == 2)
          inside = b.conjunction(b.less(b.add(firstRow, b.i32(rows)), region.extent[0]), inside);
      } else {
        auto [thisRow, thisCol] = locate(number);
        from = addressOf(thisRow, thisCol, /*isUnit=*/true, {});
        to = b.advance(buffer, getByteOffset(b, *shared, thisRow, thisCol));
        inside = isInside(thisRow, thisCol, {});
      }
      // A copy of 0 bytes reads nothing and fills the chunk with zeros.
      Value size = arith::SelectOp::create(b, inside, b.i32(chunk), b.i32(0));
      b.intrinsic(name, ValueRange{to, from, size});
    });
    if (sourceStep && !isLast)
      source = b.advance(source, sourceStep);
  }
  scf::YieldOp::create(b);

  // Element by element. This path is rare, so it is a loop, which is small.
  b.setInsertionPointToEnd(branch.elseBlock());
  auto loop = scf::ForOp::create(b, b.i32(0), b.i32(partition.numIssues()), b.i32(1));
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value number = b.add(b.threads.thread, b.mul(loop.getInductionVar(), b.i32(numThreads)));
  guarded(number, !partition.isEven(), [&] {
    auto [row, col] = locate(number);
    PagedRows::Place place = findRow(row);
    Values elements;
    for (int64_t i = 0; i < perChunk; ++i) {
      Value at = b.add(col, b.i32(i));
      Value inside = isInside(row, at, place);
      Value address = addressOf(row, at, /*isUnit=*/false, place);
      llvm::append_range(elements, loadGlobal(b, address, inside, region.view.element, 1));
    }
    storeVector(b, b.advance(buffer, getByteOffset(b, *shared, row, col)), elements);
  });
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b);
  return success();
}

static void emitCopyCommit(KernelEmitter &e, CopyCommitOp) {
  e.b.intrinsic("llvm.nvvm.cp.async.commit.group", ValueRange());
}

static void emitCopyWait(KernelEmitter &e, CopyWaitOp op) {
  e.b.intrinsic("llvm.nvvm.cp.async.wait.group", e.b.i32(op.getPending()));
}

void tgpu::registerCopyLowerings(LoweringTable &table) {
  table.add<CopyAsyncOp>(emitCopyAsync);
  table.add<CopyCommitOp>(emitCopyCommit);
  table.add<CopyWaitOp>(emitCopyWait);
}
