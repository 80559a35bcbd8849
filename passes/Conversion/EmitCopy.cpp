// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cp.async: tiles from global to shared memory, shared out among the threads of the block in
// chunks.

#include "passes/Conversion/KernelEmitter.h"

#include "lib/Layout/CopyPartition.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::CopyPartition;

namespace {
constexpr int64_t kLineBytes = 128;

/// Whether chunks are dealt out by lines of 128 bytes across panels (see CopyPartition); otherwise
/// along whole rows.
bool isInLines(const layout::SharedLayout &buffer) {
  int64_t width = buffer.panelBytes();
  return buffer.rowPitch() == width && width < kLineBytes && kLineBytes % width == 0 &&
         buffer.rows() * width % kLineBytes == 0;
}
} // namespace

LogicalResult KernelEmitter::emitCopyAsync(CopyAsyncOp op) {
  auto type = cast<SharedType>(op.getBuffer().getType());
  const layout::SharedLayout *shared = getLayout(op, type);
  if (!shared)
    return failure();
  int numThreads = static_cast<int>(32 * numWarps);
  // A vector is small: by elements it need not be aligned.
  int widest = type.getShape().size() == 1 ? static_cast<int>(shared->elementBits() / 8) : 16;
  Result<CopyPartition> planned = CopyPartition::plan(*shared, numThreads, widest);
  for (int chunk : {8, 4})
    if (!planned)
      planned = CopyPartition::plan(*shared, numThreads, chunk);
  if (!planned)
    return op.emitError() << planned.message();
  const CopyPartition &partition = *planned;
  int64_t rank = static_cast<int64_t>(type.getShape().size());
  Region region = getRegion(op.getView(), op.getIndices(), op.getStaticIndices(), op.getDims(),
                            type.getShape());
  Value buffer = getScalar(op.getBuffer());
  int64_t bytes = region.view.bytes, chunk = partition.chunkBytes(), perChunk = chunk / bytes;

  // CopyPartition::chunkOf, of a chunk known at run time: row and column.
  auto divide = [&](Value x, int64_t by) {
    return arith::DivUIOp::create(b, x, i32(by)).getResult();
  };
  auto modulo = [&](Value x, int64_t by) {
    return arith::RemUIOp::create(b, x, i32(by)).getResult();
  };
  auto locate = [&](Value number) -> std::pair<Value, Value> {
    Value byte = mul(number, i32(chunk));
    int64_t width = shared->panelBytes();
    if (!isInLines(*shared)) {
      int64_t rowBytes = shared->numPanels() * width;
      return {divide(byte, rowBytes), divide(modulo(byte, rowBytes), bytes)};
    }
    Value line = divide(byte, kLineBytes), inLine = modulo(byte, kLineBytes);
    Value panel = modulo(line, shared->numPanels()),
          lineOfPanel = divide(line, shared->numPanels());
    Value rowInLine = divide(inLine, width);
    Value row = add(mul(lineOfPanel, i32(kLineBytes / width)), rowInLine);
    Value colInPanel = modulo(inLine, width);
    Value col = add(mul(panel, i32(width)), colInPanel);
    return {row, divide(col, bytes)};
  };
  auto isInside = [&](Value row, Value col) {
    Value inside = less(add(region.index.back(), col), region.extent.back());
    if (rank == 2)
      inside = conjunction(inside, less(add(region.index[0], row), region.extent[0]));
    return conjunction(inside, region.inside);
  };
  // Sums of 32 bits first: one product for a row. A row may lie before the view while one that is
  // reached from it by steps lies inside, so its sign counts.
  auto addressOf = [&](Value row, Value col, bool isUnit) {
    Value offset = toU64(add(region.index.back(), col));
    if (!isUnit)
      offset = mul(offset, region.stride.back());
    Value from = region.outer;
    if (rank == 2) {
      Value start = mul(toI64(add(region.index[0], row)), region.stride[0]);
      from = advance(from, mul(start, i64(bytes)));
    }
    return advance(from, mul(offset, i64(bytes)));
  };
  /// Does nothing for chunks beyond the last.
  auto guarded = [&](Value number, bool isGuarded, llvm::function_ref<void()> copy) {
    OpBuilder::InsertionGuard guard(b);
    if (isGuarded) {
      auto branch = scf::IfOp::create(b, less(number, i32(partition.numChunks())),
                                      /*withElseRegion=*/false);
      b.setInsertionPoint(branch.thenBlock()->getTerminator());
    }
    copy();
  };

  auto branch = scf::IfOp::create(b, TypeRange(), isVectorisable(region, perChunk),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);

  b.setInsertionPointToEnd(branch.thenBlock());
  std::string name = chunk == 16
                         ? "llvm.nvvm.cp.async.cg.shared.global.16.s"
                         : "llvm.nvvm.cp.async.ca.shared.global." + std::to_string(chunk) + ".s";
  auto [row, col] = locate(thread);
  Value target = byteOffset(*shared, row, col);
  Value source = addressOf(row, col, /*isUnit=*/true);
  std::optional<int64_t> rowStep = partition.rowsPerIssue();
  // From issue to issue by one addition: a product for each would cost a thread as many registers.
  Value firstRow = rank == 2 ? add(region.index[0], row) : Value();
  Value colInside =
      conjunction(less(add(region.index.back(), col), region.extent.back()), region.inside);
  Value sourceStep;
  if (rowStep && rank == 2)
    sourceStep = mul(region.stride[0], i64(*rowStep * bytes));
  for (int issue = 0; issue < partition.numIssues(); ++issue) {
    bool isLast = issue + 1 == partition.numIssues();
    Value number = add(thread, i32(int64_t(issue) * numThreads));
    guarded(number, isLast && !partition.isEven(), [&] {
      Value from = source, to = advance(buffer, target), inside;
      if (rowStep) {
        int64_t rows = issue * *rowStep;
        to = advance(to, rows * shared->rowPitch());
        inside = colInside;
        if (rank == 2)
          inside = conjunction(less(add(firstRow, i32(rows)), region.extent[0]), inside);
      } else {
        auto [thisRow, thisCol] = locate(number);
        from = addressOf(thisRow, thisCol, /*isUnit=*/true);
        to = advance(buffer, byteOffset(*shared, thisRow, thisCol));
        inside = isInside(thisRow, thisCol);
      }
      // Of 0 bytes nothing is read, and the chunk is filled with zeros.
      Value size = arith::SelectOp::create(b, inside, i32(chunk), i32(0));
      intrinsic(name, ValueRange{to, from, size});
    });
    if (sourceStep && !isLast)
      source = advance(source, sourceStep);
  }
  scf::YieldOp::create(b);

  // By elements. Rare, so small: a loop.
  b.setInsertionPointToEnd(branch.elseBlock());
  auto loop = scf::ForOp::create(b, i32(0), i32(partition.numIssues()), i32(1));
  b.setInsertionPoint(loop.getBody()->getTerminator());
  Value number = add(thread, mul(loop.getInductionVar(), i32(numThreads)));
  guarded(number, !partition.isEven(), [&] {
    auto [row, col] = locate(number);
    Values elements;
    for (int64_t i = 0; i < perChunk; ++i) {
      Value at = add(col, i32(i));
      Value inside = isInside(row, at), address = addressOf(row, at, /*isUnit=*/false);
      llvm::append_range(elements, loadGlobal(address, inside, region.view.element, 1, nullptr));
    }
    storeVector(advance(buffer, byteOffset(*shared, row, col)), elements);
  });
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b);
  return success();
}
