// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tensor memory accelerator.

#include "base/Abi/KernelAbi.h"
#include "dialect/Tile/Origin.h"
#include "passes/Conversion/Barriers.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/PagedAccess.h"
#include "passes/Conversion/SharedAccess.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// The coordinates of a box, innermost first, from an index for each dimension of the view and
/// those of the dimensions that a ragged map has in addition.
static Values getCoordinates(TensorMapType mapType, Values index, ArrayRef<Value> outer) {
  if (mapType.leavesOutFirst())
    index.erase(index.begin());
  index.insert(index.begin(), outer.begin(), outer.end());
  std::reverse(index.begin(), index.end());
  return index;
}

/// The address of a box in a buffer.
static Value getBoxAddress(ThreadBuilder &b, const layout::SharedLayout &shared, Value buffer,
                           int64_t row, int64_t col) {
  return b.add(buffer,
               b.i32(col / shared.panelCols() * shared.panelStride() + row * shared.rowPitch()));
}

/// Calls `issue` with buffer, map and coordinates (innermost first) of every box; `perWarpgroup`:
/// of every box of the warpgroup's rows, by its first thread.
template <typename TmaOp>
static LogicalResult emitTma(KernelEmitter &e, TmaOp op,
                             llvm::function_ref<void(Value, Value, ValueRange)> issue,
                             bool perWarpgroup = false) {
  ThreadBuilder &b = e.b;
  Value map = op.getMap(), bufferValue = op.getBuffer();
  auto mapType = cast<TensorMapType>(map.getType());
  auto type = cast<SharedType>(bufferValue.getType());
  const layout::SharedLayout *shared = e.getLayout(op, type);
  if (!shared)
    return failure();
  ArrayRef<int64_t> box = mapType.getBox();
  int64_t rank = static_cast<int64_t>(box.size());
  int64_t boxCols = box.back(), boxRows = 1;
  for (int64_t extent : box.drop_back())
    boxRows *= extent;
  if ((shared->cols() % boxCols != 0 && boxCols != shared->panelCols()) ||
      shared->rows() % boxRows != 0)
    return op->emitError() << "a buffer of " << type << " is not made of boxes of " << mapType;
  Values index = getIndices(e, op.getIndices(), op.getStaticIndices());
  Values outer; // outermost first
  if (mapType.isRagged()) {
    auto definition = map.template getDefiningOp<TensorMapOp>();
    if (!definition)
      return op->emitError() << "the tensor map must be the result of tgpu.tensor_map, but got "
                             << tile::describeOrigin(map);
    int64_t dim = mapType.getRagged();
    Value begin = e.getScalar(op.getBegin());
    Value size = clampPart(b, begin, e.getScalar(op.getSize()),
                           getView(e, definition.getView()).extents[dim]);
    index[dim] = b.add(arith::SubIOp::create(b, b.i32(runtime::raggedBound), size), index[dim]);
    outer = {b.i32(runtime::raggedBound), b.add(begin, size)};
  }
  Value buffer = getWindowAddress(b, e.getScalar(bufferValue)), mapAddress = e.getScalar(map);
  int64_t rows = shared->rows();
  Value thread;
  if (perWarpgroup) {
    rows /= b.threads.numWarps / Target::warpsOfGroup;
    thread = b.readThread();
    Value group = arith::DivUIOp::create(b, thread, b.i32(Target::threadsOfGroup));
    Value first = b.mul(group, b.i32(rows));
    index[mapType.getRowDim()] = b.add(index[mapType.getRowDim()], first);
    buffer = b.add(buffer, b.mul(first, b.i32(shared->rowPitch())));
    thread = arith::RemUIOp::create(b, thread, b.i32(Target::threadsOfGroup));
  }
  auto byIssuer = [&](llvm::function_ref<void()> body) {
    if (perWarpgroup)
      return b.onlyIf(b.equal(thread, b.i32(0)), body);
    byOneThread(e, body);
  };
  byIssuer([&] {
    for (int64_t col = 0; col < shared->cols(); col += boxCols)
      for (int64_t row = 0; row < rows; row += boxRows) {
        Values at = index;
        at.back() = b.add(at.back(), b.i32(col));
        if (rank > 1)
          at[mapType.getRowDim()] = b.add(at[mapType.getRowDim()], b.i32(row));
        issue(getBoxAddress(b, *shared, buffer, row, col), mapAddress,
              getCoordinates(mapType, at, outer));
      }
  });
  return success();
}

static std::string repeated(StringRef constraint, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += "," + constraint.str();
  return text;
}

/// What is read once leaves the L2 cache first: decoding one sequence takes 0.97 to 0.98 of the
/// time.
static void issueLoad(KernelEmitter &e, TmaLoadOp op, Value buffer, Value map, Value full,
                      ValueRange at) {
  // The policy that createpolicy.fractional.L2::evict_first makes for all accesses.
  constexpr uint64_t evictFirst = 0x12F0000000000000;
  bool isOnce = readOnceAttr.isOn(op);
  Values operands{buffer, map, full};
  llvm::append_range(operands, at);
  std::string name = "cp.async.bulk.tensor." + std::to_string(at.size()) +
                     "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
  std::string text = " [$0], [$1, {" + operandList(3, at.size()) + "}], [$2]";
  std::string constraints = "r,l,r" + repeated("r", at.size());
  if (isOnce) {
    name += ".L2::cache_hint";
    text += ", $" + std::to_string(operands.size());
    constraints += ",l";
    operands.push_back(e.b.i64(static_cast<int64_t>(evictFirst)));
  }
  e.b.inlineAsm(name + text + ";", constraints + ",~{memory}", nullptr, operands);
}

/// So many numbers of pages are on their way at once, before a slot is free and before the first of
/// their boxes is copied.
static constexpr int64_t mostAhead = 4;

namespace {
/// Boxes that were found before the acquire of a slot, by the loads that copy them.
struct BoxesAhead {
  llvm::DenseMap<Operation *, SmallVector<PagedBoxes::Box>> ofLoads;
};
} // namespace

/// Reads the numbers of the pages of a load before the acquire of its slot: while this thread waits
/// for the slot, they are on their way, and it is filled as soon as it is free. Decodes that the
/// bandwidth bounds take 0.99 of the time, with two slots of 16 or 32 KiB (H200, 2026-11-30).
void tgpu::readPagesAhead(KernelEmitter &e, AcquireOp acquire) {
  TmaLoadOp load;
  for (Operation *op = acquire->getNextNode();
       op && !load && !isa<AcquireOp>(op) && op->getNumRegions() == 0; op = op->getNextNode())
    load = dyn_cast<TmaLoadOp>(op);
  if (!load || !load.getPages() || !e.isOneThread)
    return;
  auto isKnown = [&](Value value) {
    Operation *definition = value.getDefiningOp();
    return !definition || definition->getBlock() != acquire->getBlock() ||
           definition->isBeforeInBlock(acquire);
  };
  auto mapType = cast<TensorMapType>(load.getMap().getType());
  auto type = cast<SharedType>(load.getBuffer().getType());
  const layout::SharedLayout *shared = e.getLayout(load, type);
  if (!shared || !isKnown(load.getPages()) || !llvm::all_of(load.getIndices(), isKnown))
    return;
  int64_t boxRows = mapType.getBox()[1], boxes = shared->rows() / boxRows;
  PagedRows pages(e, load.getPages().getDefiningOp<tile::PagedOp>());
  Value first = getIndices(e, load.getIndices(), load.getStaticIndices())[1];
  PagedBoxes found(pages, first, boxRows, boxes);
  if (boxes > 1 && found.areKept()) {
    found.readAll();
    return;
  }
  if (boxes > mostAhead)
    return;
  SmallVector<PagedBoxes::Box> places;
  for (int64_t number = 0; number < boxes; ++number)
    places.push_back(found.next());
  e.state<BoxesAhead>().ofLoads[load] = std::move(places);
}

/// Boxes of rows of pages, through the ragged map of the pool.
static LogicalResult emitPagedLoad(KernelEmitter &e, TmaLoadOp op) {
  ThreadBuilder &b = e.b;
  auto mapType = cast<TensorMapType>(op.getMap().getType());
  auto type = cast<SharedType>(op.getBuffer().getType());
  const layout::SharedLayout *shared = e.getLayout(op, type);
  if (!shared)
    return failure();
  int64_t boxRows = mapType.getBox()[1], boxCols = mapType.getBox().back();
  PagedRows pages(e, op.getPages().getDefiningOp<tile::PagedOp>());
  Values index = getIndices(e, op.getIndices(), op.getStaticIndices());
  Value buffer = getWindowAddress(b, e.getScalar(op.getBuffer())), map = e.getScalar(op.getMap());
  Value full = getBarrier(e, op.getBarriers(), e.getScalar(op.getUse()));
  int64_t boxes = shared->rows() / boxRows;
  auto issueBox = [&](int64_t number, Value begin, Value size) {
    int64_t row = number * boxRows;
    for (int64_t col = 0; col < shared->cols(); col += boxCols) {
      Values at = index;
      at[1] = arith::SubIOp::create(b, b.i32(runtime::raggedBound), size);
      at.back() = b.add(at.back(), b.i32(col));
      issueLoad(e, op, getBoxAddress(b, *shared, buffer, row, col), map, full,
                getCoordinates(mapType, at, {b.i32(runtime::raggedBound), b.add(begin, size)}));
    }
  };
  auto issueAny = [&](PagedBoxes found) {
    // Of this acquire alone: a function that is called twice has other boxes each time.
    auto &ofLoads = e.state<BoxesAhead>().ofLoads;
    SmallVector<PagedBoxes::Box> places = ofLoads.lookup(op);
    ofLoads.erase(op);
    for (int64_t number = 0; number < boxes; ++number) {
      if (static_cast<int64_t>(places.size()) == number)
        for (int64_t ahead = number; ahead < std::min(number + mostAhead, boxes); ++ahead)
          places.push_back(found.next());
      auto [page, rowOfPage, size] = places[number];
      issueBox(number, b.add(b.mul(page, pages.getRowsOfPage()), rowOfPage), size);
    }
  };
  byOneThread(e, [&] {
    PagedBoxes found(pages, index[1], boxRows, boxes);
    if (boxes == 1 || !found.areKept())
      return issueAny(found);
    // All but the last block of a sequence: a box takes a product and its coordinates.
    auto branch = scf::IfOp::create(b, found.readAll(), /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    for (int64_t number = 0; number < boxes; ++number)
      issueBox(number, b.mul(found.getNumber(number), pages.getRowsOfPage()), b.i32(boxRows));
    b.setInsertionPoint(branch.elseBlock()->getTerminator());
    pages.hideExtents();
    found.hideRow();
    issueAny(found);
  });
  return success();
}

static LogicalResult emitTmaLoad(KernelEmitter &e, TmaLoadOp op) {
  if (op.getPages())
    return emitPagedLoad(e, op);
  Value full = getBarrier(e, op.getBarriers(), e.getScalar(op.getUse()));
  return emitTma(e, op, [&](Value buffer, Value map, ValueRange at) {
    issueLoad(e, op, buffer, map, full, at);
  });
}

template <typename TmaOp> static LogicalResult emitTmaWrite(KernelEmitter &e, TmaOp op) {
  return emitTma(
      e, op,
      [&](Value source, Value mapAddress, ValueRange at) {
        Values operands{source, mapAddress};
        llvm::append_range(operands, at);
        bool isReduction = isa<TmaReduceAddOp>(op.getOperation());
        std::string name = isReduction ? "cp.reduce.async.bulk.tensor." : "cp.async.bulk.tensor.";
        name += std::to_string(at.size()) + "d.global.shared::cta.";
        name += isReduction ? "add.tile.bulk_group" : "tile.bulk_group";
        e.b.inlineAsm(name + " [$1, {" + operandList(2, at.size()) + "}], [$0];",
                      "r,l" + repeated("r", at.size()) + ",~{memory}", nullptr, operands);
      },
      op.getPerWarpgroup());
}

static LogicalResult emitTmaStore(KernelEmitter &e, TmaStoreOp op) { return emitTmaWrite(e, op); }
static LogicalResult emitTmaReduceAdd(KernelEmitter &e, TmaReduceAddOp op) {
  return emitTmaWrite(e, op);
}

static void emitBulkCommit(KernelEmitter &e, BulkCommitOp) {
  e.b.inlineAsm("cp.async.bulk.commit_group;", "~{memory}", nullptr, {});
}

static void emitBulkWait(KernelEmitter &e, BulkWaitOp op) {
  std::string text = op.getRead() ? "cp.async.bulk.wait_group.read " : "cp.async.bulk.wait_group ";
  e.b.inlineAsm(text + std::to_string(op.getPending()) + ";", "~{memory}", nullptr, {});
}

static void emitFenceAsync(KernelEmitter &e, FenceAsyncOp) {
  e.b.inlineAsm("fence.proxy.async.shared::cta;", "~{memory}", nullptr, {});
}

void tgpu::registerTmaLowerings(LoweringTable &table) {
  table.add<TensorMapOp>([](KernelEmitter &, TensorMapOp) {}); // a parameter, bound at entry
  table.add<TmaLoadOp>(emitTmaLoad);
  table.add<TmaStoreOp>(emitTmaStore);
  table.add<TmaReduceAddOp>(emitTmaReduceAdd);
  table.add<BulkCommitOp>(emitBulkCommit);
  table.add<BulkWaitOp>(emitBulkWait);
  table.add<FenceAsyncOp>(emitFenceAsync);
}
