// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: chooses the extents, integers and blocks of a small launch such that every loop
// executes several iterations, in each part into which a mask divides its range.

#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Sync/VerifySync.h"

#include "dialect/Tile/TileExprEval.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

/// Extents along which no tile lies, and those of views that are read only by index.
constexpr int64_t kShortExtent = 2;
constexpr int64_t kTableExtent = 8;
constexpr int64_t kMultiprocessors = 4;
/// Extents along which tiles lie, as a number of the largest tiles: enough that a window of the
/// middle size masks keys on both sides.
constexpr int64_t kTilesAroundWindow = 8;

static bool isDynamic(Value view, int64_t dim) {
  return tile::getDims(view.getType())[dim].isUnknown();
}

bool sync::takesIntegers(KernelOp kernel) {
  return llvm::any_of(kernel.getArgs(),
                      [](Value argument) { return isa<IntegerType>(argument.getType()); });
}

bool sync::takesOptional(KernelOp kernel) {
  return llvm::is_contained(kernel.getArgOptional(), true);
}

LaunchShape::LaunchShape(KernelOp kernel, const Launch &launch)
    : numbers(findNumbers(kernel)), number(launch.number) {
  if (!launch.hasOptional)
    for (auto [argument, isOptional] : llvm::zip(kernel.getArgs(), kernel.getArgOptional()))
      if (isOptional)
        absent.insert(argument);
  tiled = findTiledDims(kernel, accessed);
  for (auto &[dim, tiles] : tiled) {
    largestTile = std::max(largestTile, tiles.largest);
    smallestTile = std::min(smallestTile, tiles.smallest);
  }
  smallestTile = std::min(smallestTile, largestTile);
  int64_t tiles = getMostStages(kernel) + 2; // more than a ring's stages
  if (launch.integers == Launch::Integers::Window)
    tiles = std::max(tiles, kTilesAroundWindow);
  // Either all tiles are full, or the last one is partial. The latter has one smallest tile less,
  // so that a loop over such tiles ends in another slot of a ring.
  longExtent = largestTile * tiles - (launch.hasPartialTiles ? smallestTile + 1 : 0);
  if (launch.hasFewRows)
    longExtent = largestTile * (tiles - 1) + 1;
  switch (launch.integers) {
  case Launch::Integers::Small:
    integer = kShortExtent;
    break;
  case Launch::Integers::Window:
    // More than one and a half tiles on each side, but not a multiple of a tile.
    integer = 2 * largestTile + largestTile / 4 + 3;
    break;
  case Launch::Integers::Large:
    integer = longExtent;
    break;
  }
  if (launch.relation != Launch::Relation::Equal)
    relate(kernel, launch.relation);

  if (!setGrid(kernel)) {
    // A kernel may leave the work to another one, depending on the extent of an array that it does
    // not use.
    for (Value argument : kernel.getArgs())
      if (llvm::all_of(argument.getUsers(), [](Operation *user) { return isa<tile::DimOp>(user); }))
        empty.insert(argument);
    setGrid(kernel);
  }
}

bool LaunchShape::setGrid(KernelOp kernel) {
  tile::ExprEnvironment environment;
  environment.smCount = kMultiprocessors;
  environment.dim = [&](StringRef name, int64_t dim) -> std::optional<int64_t> {
    for (auto [argument, argName] : llvm::zip(kernel.getArgs(), kernel.getArgNames()))
      if (cast<StringAttr>(argName).getValue() == name)
        return getExtent({argument, {}}, dim);
    return std::nullopt;
  };
  environment.name = [&](StringRef) {
    return tile::ExprAttr::getInt(kernel.getContext(), integer);
  };
  grid.clear();
  bool hasBlocks = true;
  for (Attribute extent : kernel.getGrid()) {
    llvm::Expected<int64_t> value = tile::evaluateInt(cast<tile::ExprAttr>(extent), environment);
    if (!value)
      llvm::consumeError(value.takeError());
    hasBlocks &= value && *value > 0;
    grid.push_back(value ? std::max<int64_t>(*value, 1) : 1);
  }
  return hasBlocks;
}

int64_t sync::getMostStages(KernelOp kernel) {
  int64_t stages = 1;
  kernel.walk([&](AllocRingOp op) {
    stages = std::max(stages, cast<RingType>(op.getRing().getType()).getStages());
  });
  return stages;
}

TiledDims sync::findTiledDims(KernelOp kernel, llvm::DenseSet<Value> &accessed) {
  TiledDims found;
  auto note = [&](Value view, int64_t dim, int64_t extent) {
    TilesOfDim &tiles = found[{view, dim}];
    if (!isDynamic(view, dim))
      return;
    tiles.smallest = std::min(tiles.smallest, extent);
    tiles.largest = std::max(tiles.largest, extent);
  };
  auto noteTile = [&](Value view, ArrayRef<int64_t> shape,
                      std::optional<ArrayRef<int64_t>> dims = std::nullopt) {
    // Rows in pages are dimension 1 of the pool, and other dimensions follow.
    int64_t before = view.getDefiningOp<tile::PagedOp>() ? 1 : 0;
    view = getViewRoot(view);
    accessed.insert(view);
    int64_t rank = static_cast<int64_t>(shape.size()), viewRank = tile::getRank(view.getType());
    for (int64_t i = 0; i < rank; ++i)
      note(view, dims ? (*dims)[i] + before : viewRank - rank + i, shape[i]);
  };
  auto shapeOf = [](Value buffer) { return cast<SharedType>(buffer.getType()).getShape(); };
  auto tileOf = [](Type type) { return cast<RankedTensorType>(type).getShape(); };
  kernel.walk([&](Operation *op) {
    TypeSwitch<Operation *>(op)
        .Case([&](LoadOp op) { noteTile(op.getView(), tileOf(op.getType()), op.getDims()); })
        .Case<StoreOp, AtomicAddOp>(
            [&](auto op) { noteTile(op.getView(), tileOf(op.getValue().getType()), op.getDims()); })
        .Case(
            [&](CopyAsyncOp op) { noteTile(op.getView(), shapeOf(op.getBuffer()), op.getDims()); })
        .Case([&](BulkLoadOp op) { noteTile(op.getView(), shapeOf(op.getBuffer())); })
        .Case<TmaLoadOp, TmaStoreOp, TmaReduceAddOp>([&](auto op) {
          auto map = op.getMap().template getDefiningOp<TensorMapOp>();
          if (!map)
            return;
          // A buffer consists of boxes, so it may have more rows and columns than one box.
          ArrayRef<int64_t> box = cast<TensorMapType>(map.getMap().getType()).getBox();
          ArrayRef<int64_t> buffer = shapeOf(op.getBuffer());
          accessed.insert(map.getView());
          for (auto [dim, extent] : llvm::enumerate(box))
            if (extent != 1)
              note(map.getView(), static_cast<int64_t>(dim),
                   dim + 1 == box.size() ? buffer.back() : buffer.front());
        });
  });
  return found;
}

/// The argument and dimension of which a scalar is the extent, if it is one.
static std::optional<std::pair<Value, int64_t>> getDim(KernelOp kernel, Value value) {
  // Skip the maximum with 1 that guards a divisor.
  if (auto most = value.getDefiningOp<arith::MaxSIOp>();
      most && matchPattern(most.getRhs(), m_Constant()))
    value = most.getLhs();
  auto dim = value.getDefiningOp<tile::DimOp>();
  auto argument = dim ? dyn_cast_if_present<BlockArgument>(dim.getView()) : BlockArgument();
  if (!argument || argument.getOwner() != &kernel.getBody().front())
    return std::nullopt;
  auto at = static_cast<int64_t>(dim.getDim());
  if (!isDynamic(argument, at))
    return std::nullopt;
  return std::pair<Value, int64_t>(argument, at);
}

/// Extents that a kernel divides by each other, or subtracts from each other, may differ: numbers
/// of heads, or of rows, of queries and keys. All other extents of the same dimension would have to
/// equal one of the two, so nothing is changed if the kernel reads another one.
void LaunchShape::relate(KernelOp kernel, Launch::Relation relation) {
  SmallVector<std::pair<Value, int64_t>> read;
  kernel.walk([&](tile::DimOp op) {
    if (auto dim = getDim(kernel, op.getResult()))
      read.push_back(*dim);
  });
  kernel.walk([&](Operation *op) {
    bool divides = isa<arith::DivSIOp, arith::DivUIOp, arith::FloorDivSIOp>(op);
    if (!divides && !isa<arith::SubIOp>(op))
      return;
    auto left = getDim(kernel, op->getOperand(0)), right = getDim(kernel, op->getOperand(1));
    if (!left || !right || left == right || left->second != right->second)
      return;
    bool isLong = tiled.contains(*left) && tiled.contains(*right);
    bool isOther = llvm::any_of(read, [&](auto dim) {
      return dim.second == left->second && dim != *left && dim != *right;
    });
    if (isOther || isLong == divides)
      return;
    int64_t more = largestTile + largestTile / 4 + 3; // not a multiple of a tile
    if (divides)
      changed[*left] = 2 * getExtent({right->first, {}}, right->second);
    else
      changed[*left] = longExtent + (relation == Launch::Relation::More ? more : -more);
  });
}

int64_t LaunchShape::getExtent(const ArrayRoot &array, int64_t dim) const {
  Value argument = array.view;
  if (!argument) // of a capture, all dimensions may have tiles
    return longExtent;
  if (isAbsent(argument) || empty.contains(argument))
    return 0;
  if (auto found = changed.find({argument, dim}); found != changed.end())
    return found->second;
  if (tiled.contains({argument, dim}))
    return longExtent;
  return accessed.contains(argument) ? kShortExtent : kTableExtent;
}

int64_t LaunchShape::getElement(const ArrayRoot &array, ArrayRef<int64_t> indices) const {
  if (numbers.contains(array.view))
    return number;
  // An integer like those of the kernel, such as the size of a window, offsets of consecutive
  // sequences, or lists of small numbers.
  if (indices.empty())
    return integer;
  return indices.size() == 1 ? indices.back() * longExtent : indices.back() + 1;
}

std::vector<SmallVector<int64_t>> LaunchShape::getBlocks() const {
  std::vector<SmallVector<int64_t>> blocks;
  // Neighboring blocks, since a mask may end at different positions within their tiles.
  for (int64_t neighbor : {0, 1})
    for (int place : {0, 1, 2}) {
      SmallVector<int64_t> block;
      for (int64_t extent : grid) {
        int64_t last = extent - 1;
        int64_t at = place == 0 ? neighbor : place == 1 ? extent / 2 + neighbor : last - neighbor;
        block.push_back(std::clamp<int64_t>(at, 0, last));
      }
      if (!llvm::is_contained(blocks, block))
        blocks.push_back(block);
    }
  return blocks;
}
