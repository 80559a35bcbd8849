// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which blocks take the tiles of a grid, computed for every tile of small grids.

#include "passes/Tgpu/Roles/TileOrder.h"

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

#include <array>
#include <numeric>
#include <set>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Longest tiles first: the first id. Then heads and batches.
struct Tile {
  int64_t x, head, batch;
  bool operator<(const Tile &other) const {
    return std::tie(x, head, batch) < std::tie(other.x, other.head, other.batch);
  }
};

/// The order of a grid of 5 by 3 by `batches`.
class TileOrderTest : public testing::Test {
protected:
  using Last = TileOrder::Last;
  static constexpr int64_t columns = 5, heads = 3, group = 2;

  TileOrderTest() {
    context.loadDialect<tile::TileDialect, TgpuDialect, arith::ArithDialect>();
    context.allowUnregisteredDialects(false);
  }

  /// All tiles in their order. `blocks`: 0 does not merge the last groups. `bytes` of a step: with
  /// half of the cache, a group has one step.
  std::vector<Tile> getTiles(int64_t batches, bool goesOn, int64_t blocks,
                             Last last = Last::TwoGroups, int64_t bytes = 1) {
    return getTilesOf("%b = " + std::to_string(batches), batches, goesOn, blocks, last, bytes);
  }

  /// The same, with `batches` tiles of `outer` ids after the first two.
  std::vector<Tile> getTilesOf(const std::string &outer, int64_t batches, bool goesOn,
                               int64_t blocks, Last last = Last::TwoGroups, int64_t bytes = 1) {
    std::string text = "tgpu.kernel @k target \"sm_90a\" warps 4 () grid(%x = 5, %h = 3" +
                       (outer.empty() ? "" : ", " + outer) + ") {\n}\n";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    auto kernel = *module->getOps<KernelOp>().begin();
    auto b = ImplicitLocOpBuilder::atBlockBegin(kernel.getLoc(), &kernel.getBody().front());
    TileOrder order(kernel, kernel.getGrid(), group);
    order.limitGroup(
        [&](Value) -> Value { return arith::ConstantOp::create(b, b.getI64IntegerAttr(bytes)); },
        goesOn);
    if (blocks > 0)
      order.uniteLastTiles(
          arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(blocks))), last);
    std::vector<Tile> tiles;
    for (int64_t t = 0; t < columns * heads * batches; ++t) {
      Value number = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(t)));
      SmallVector<Value> ids = order.getIds(b, number);
      EXPECT_EQ(ids.size(), kernel.getGrid().size());
      int64_t batch = 0;
      for (size_t i = ids.size() - 1; i >= 2; --i)
        batch = batch * getExtent(kernel, i) + evaluate(ids[i]);
      tiles.push_back({evaluate(ids[0]), evaluate(ids[1]), batch});
    }
    std::set<Tile> distinct(tiles.begin(), tiles.end());
    EXPECT_EQ(distinct.size(), tiles.size()) << "a tile is taken twice";
    for (const Tile &tile : tiles)
      EXPECT_TRUE(tile.x < columns && tile.head < heads && tile.batch < batches);
    return tiles;
  }

  /// The number of tiles at the end that are ordered by the first id only.
  static size_t countLastGroup(const std::vector<Tile> &tiles) {
    size_t count = 1;
    while (count < tiles.size() &&
           tiles[tiles.size() - count - 1].x <= tiles[tiles.size() - count].x)
      ++count;
    return count;
  }

private:
  static int64_t getExtent(KernelOp kernel, size_t i) {
    return cast<tile::ExprAttr>(kernel.getGrid()[i]).getValue();
  }

  static int64_t evaluate(Value value) {
    IntegerAttr attr;
    if (matchPattern(value, m_Constant(&attr)))
      return attr.getInt();
    Operation *op = value.getDefiningOp();
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands())
      operands.push_back(IntegerAttr::get(operand.getType(), evaluate(operand)));
    SmallVector<OpFoldResult> results;
    EXPECT_TRUE(succeeded(op->fold(operands, results)) && results.size() == 1);
    if (auto folded = dyn_cast_if_present<Attribute>(results.front()))
      return cast<IntegerAttr>(folded).getInt();
    return evaluate(cast<Value>(results.front()));
  }

  MLIRContext context;
};

TEST_F(TileOrderTest, GroupsOfTwoHeadsEndWithABatch) {
  std::vector<Tile> tiles = getTiles(/*batches=*/2, /*goesOn=*/false, /*blocks=*/0);
  // Heads 0 and 1 alternate, then head 2 alone.
  EXPECT_EQ(tiles[1].head, 1);
  EXPECT_EQ(tiles[9].x, columns - 1);
  for (size_t t = 10; t < 15; ++t)
    EXPECT_EQ(tiles[t].head, 2);
  EXPECT_EQ(tiles[15].batch, 1);
  EXPECT_EQ(countLastGroup(tiles), 5U);
}

TEST_F(TileOrderTest, GroupsGoOnInTheNextBatch) {
  std::vector<Tile> tiles = getTiles(2, /*goesOn=*/true, 0);
  EXPECT_EQ(tiles[10].head, 2);
  EXPECT_EQ(tiles[11].batch, 1);
  EXPECT_EQ(countLastGroup(tiles), 10U);
}

TEST_F(TileOrderTest, TheLastGroupIsTwiceAsHigh) {
  for (bool goesOn : {false, true}) {
    std::vector<Tile> tiles = getTiles(5, goesOn, /*blocks=*/3);
    EXPECT_EQ(countLastGroup(tiles), 2 * group * columns);
    // Four of fifteen heads: the last one of the fourth batch, all of the fifth.
    EXPECT_EQ(tiles[11 * columns].batch, 3);
    EXPECT_EQ(tiles[11 * columns].head, 2);
  }
}

TEST_F(TileOrderTest, FewTilesAreOneGroup) {
  // 30 tiles are fewer than four for each of eight blocks.
  for (Last last : {Last::TwoGroups, Last::NoneUnlessFew})
    EXPECT_EQ(countLastGroup(getTiles(2, false, /*blocks=*/8, last)), 30U);
  EXPECT_EQ(countLastGroup(getTiles(2, false, /*blocks=*/7, Last::NoneUnlessFew)), 5U);
}

TEST_F(TileOrderTest, TheLastGroupHasTwoTilesForEachBlock) {
  // Two steps of five tiles are the fewest with six.
  std::vector<Tile> tiles = getTiles(5, false, /*blocks=*/3, Last::TwoRounds);
  EXPECT_EQ(countLastGroup(tiles), 2 * columns);
  EXPECT_EQ(tiles[13 * columns].batch, 4);
  EXPECT_EQ(tiles[13 * columns].head, 1);
  EXPECT_EQ(countLastGroup(getTiles(5, false, /*blocks=*/5, Last::TwoRounds)), 2 * columns);
  EXPECT_EQ(countLastGroup(getTiles(5, false, /*blocks=*/6, Last::TwoRounds)), 3 * columns);
}

TEST_F(TileOrderTest, OneBatchHasNoThirdId) {
  EXPECT_EQ(countLastGroup(getTiles(1, false, /*blocks=*/1)), 15U); // two groups need more
  std::vector<Tile> tiles = getTiles(1, false, 0);
  EXPECT_EQ(countLastGroup(tiles), 5U);
}

TEST_F(TileOrderTest, GridsOfOtherRanks) {
  // Three heads of five tiles are fewer than four tiles for each of four blocks.
  EXPECT_EQ(countLastGroup(getTilesOf("", 1, false, /*blocks=*/4, Last::NoneUnlessFew)), 15U);
  EXPECT_EQ(countLastGroup(getTilesOf("", 1, false, /*blocks=*/3, Last::NoneUnlessFew)), 5U);
  // The third id and those after it count as one.
  std::vector<Tile> tiles = getTilesOf("%b = 2, %c = 3", 6, false, /*blocks=*/3);
  EXPECT_EQ(countLastGroup(tiles), 2 * group * columns);
  EXPECT_EQ(tiles[14 * columns].batch, 4);
}

TEST_F(TileOrderTest, AGroupIsNoHigherThanTheCache) {
  constexpr int64_t allOfCache = 16 << 20;
  std::vector<Tile> tiles = getTiles(5, false, /*blocks=*/3, Last::TwoGroups, allOfCache);
  EXPECT_EQ(tiles[1].head, 0); // a single head
  EXPECT_EQ(countLastGroup(tiles), 2 * columns);
}

TEST_F(TileOrderTest, FewTilesThatGoOn) {
  EXPECT_EQ(countLastGroup(getTiles(2, true, /*blocks=*/8, Last::NoneUnlessFew)), 30U);
  EXPECT_EQ(countLastGroup(getTiles(2, true, /*blocks=*/7, Last::NoneUnlessFew)), 10U);
}

} // namespace
