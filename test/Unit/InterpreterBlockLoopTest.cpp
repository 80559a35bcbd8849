// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.for_blocks against its definition: exactly the blocks with a kept pair, in order, with the
// mask of each.

#include "InterpreterTesting.h"

#include <random>

namespace tilewright {
namespace {

constexpr int64_t blockRows = 4, blockColumns = 6, maxBlocks = 32;

struct Loop {
  int64_t lower, upper, start, limit;
  bool descending = false;
  bool ordersAtRun = false; ///< the order is an operand
  bool listed = false;
  int64_t blocksOfEntry = 1; ///< number of blocks per list entry
  std::vector<int64_t> list;
};

class BlockLoopTest : public InterpreterTest {
protected:
  /// Writes, for each iteration in order, the start of the block and its mask. `where` is the
  /// clause, and `functions` defines the functions that it names.
  std::string source(const Loop &loop, const std::string &where, const std::string &functions) {
    return substitute(
        functions + R"(
tile.kernel @k (%starts: !tile.view<[?], i32>, %masks: !tile.view<[?, ?, ?], i32>,
                %list: optional !tile.view<[?, ?], i32>, %n: i32, %lower: i32, %upper: i32,
                %start: i32, %limit: i32, %p: i32, %q: i32, %down: i32 = 0) grid(%g = 1) {
  %c0 = arith.constant 0 : i32
  %goes_down = arith.cmpi ne, %down, %c0 : i32
  %c1 = arith.constant 1 : i32
  %visits = tile.for_blocks %b in (%lower to %upper$LIST) against (%start to %limit)$ORDER
      $WHERE
      keep %keep : tensor<4x6xi1>
      iter_args(%v = %c0 : i32) {
    %one = tile.full %b : tensor<1xi32>
    tile.store %one, %starts[%v] : tensor<1xi32>, !tile.view<[?], i32>
    %mask = tile.cast %keep : tensor<4x6xi1> -> tensor<4x6xi32>
    tile.store %mask, %masks[%v, 0, 0] : tensor<4x6xi32>, !tile.view<[?, ?, ?], i32>
    %v2 = arith.addi %v, %c1 : i32
    tile.yield %v2 : i32
  }
})",
        {{"LIST", loop.listed ? " listed %list[%c1] count %n each " +
                                    std::to_string(loop.blocksOfEntry * blockColumns) +
                                    " : !tile.view<[?, ?], i32>"
                              : ""},
         {"ORDER", loop.ordersAtRun  ? " descending if %goes_down"
                   : loop.descending ? " descending"
                                     : ""},
         {"WHERE", where}});
  }

  /// Runs the loop and compares it with the definition, for a mask function of the two positions.
  void check(const Loop &loop, const std::string &where, const std::string &functions,
             const std::function<bool(int64_t, int64_t)> &mask, Arguments arguments = {},
             int64_t p = 0, int64_t q = 0) {
    std::vector<int64_t> order;
    int64_t blocks =
        loop.upper > loop.lower ? (loop.upper - loop.lower + blockColumns - 1) / blockColumns : 0;
    if (loop.listed)
      for (int64_t entry : loop.list)
        for (int64_t part = 0; part < loop.blocksOfEntry; ++part)
          order.push_back(entry * loop.blocksOfEntry + part);
    else
      for (int64_t x = 0; x < blocks; ++x)
        order.push_back(x);
    if (loop.descending)
      std::reverse(order.begin(), order.end());

    Tensor starts(ElementType::I32, {maxBlocks}, -1.0);
    Tensor masks(ElementType::I32, {maxBlocks, blockRows, blockColumns}, -1.0);
    Tensor expectedStarts = starts, expectedMasks = masks;
    int64_t visits = 0;
    for (int64_t x : order) {
      if (x < 0 || x >= blocks)
        continue;
      int64_t block = loop.lower + x * blockColumns;
      std::vector<bool> keep;
      bool any = false;
      for (int64_t r = 0; r < blockRows; ++r)
        for (int64_t c = 0; c < blockColumns; ++c) {
          keep.push_back(loop.start + r < loop.limit && block + c < loop.upper &&
                         mask(loop.start + r, block + c));
          any |= keep.back();
        }
      if (!any)
        continue;
      expectedStarts.set(visits, double(block));
      for (size_t e = 0; e < keep.size(); ++e)
        expectedMasks.set(visits * blockRows * blockColumns + e, keep[e]);
      ++visits;
    }

    Tensor list(ElementType::I32, {2, int64_t(loop.list.size())});
    for (size_t i = 0; i < loop.list.size(); ++i)
      list.set(int64_t(loop.list.size() + i), double(loop.list[i]));
    arguments["starts"] = starts.argument();
    arguments["masks"] = masks.argument();
    arguments["list"] = list.argument();
    arguments["n"] = int64_t(loop.list.size());
    for (auto [name, value] : {std::pair<const char *, int64_t>{"lower", loop.lower},
                               {"upper", loop.upper},
                               {"start", loop.start},
                               {"limit", loop.limit},
                               {"p", p},
                               {"q", q},
                               {"down", loop.descending}})
      arguments[name] = value;
    run(source(loop, where, functions), arguments);
    EXPECT_EQ(starts.memory, expectedStarts.memory)
        << where << " " << loop.lower << " " << loop.upper << " " << loop.start << " "
        << loop.limit;
    EXPECT_EQ(masks.memory, expectedMasks.memory) << where << " " << loop.lower << " " << loop.upper
                                                  << " " << loop.start << " " << loop.limit;
  }

  std::mt19937 random{12345};
  int64_t uniform(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }
  Loop randomLoop() {
    Loop loop;
    loop.lower = uniform(-8, 8);
    loop.upper = loop.lower + uniform(-3, 40);
    loop.start = uniform(0, 30);
    loop.limit = loop.start + uniform(-1, 6);
    loop.descending = uniform(0, 1);
    loop.ordersAtRun = uniform(0, 1);
    loop.listed = uniform(0, 3) == 0;
    loop.blocksOfEntry = uniform(1, 3);
    for (int64_t i = loop.listed ? uniform(0, 8) : 0; i > 0; --i)
      loop.list.push_back(uniform(-2, 9));
    return loop;
  }
};

TEST_F(BlockLoopTest, WithoutAMask) {
  for (int i = 0; i < 40; ++i)
    check(randomLoop(), "", "", [](int64_t, int64_t) { return true; });
}

TEST_F(BlockLoopTest, RandomMasksFromACapture) {
  const char *functions = R"(
tile.capture @mask : !tile.view<[?, ?], i32>
func.func private @kept(%i: i32, %j: i32) -> i1 {
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %jj = arith.addi %j, %c8 : i32
  %m = tile.at @mask[%i, %jj] : i32
  %z = arith.cmpi ne, %m, %c0 : i32
  return %z : i1
})";
  for (int i = 0; i < 60; ++i) {
    // From nothing kept to all kept.
    int64_t density = uniform(0, 4);
    Tensor mask(ElementType::I32, {40, 60}, [&](int64_t) {
      return density == 4 || (density > 0 && uniform(1, 40) <= density * density);
    });
    check(randomLoop(), "where @kept(against, block)", functions,
          [&](int64_t i, int64_t j) { return mask.get(i, j + 8) != 0; },
          {{"mask", mask.argument()}});
  }
}

/// i - q <= j <= i + p, with the bounds that an analysis derives.
const char *const bandFunctions = R"(
func.func private @band(%p: i32, %j: i32, %q: i32, %i: i32) -> i1 {
  %ahead = arith.subi %j, %i : i32
  %behind = arith.subi %i, %j : i32
  %a = arith.cmpi sle, %ahead, %p : i32
  %b = arith.cmpi sle, %behind, %q : i32
  %z = arith.andi %a, %b : i1
  return %z : i1
}
func.func private @band_ranges(%ab: i32, %ae: i32, %lower: i32, %upper: i32, %p: i32, %q: i32)
    -> (i32, i32, i32, i32, i1) {
  %c1 = arith.constant 1 : i32
  %unknown = arith.constant false
  %last = arith.subi %ae, %c1 : i32
  %first_j = arith.subi %ab, %q : i32
  %may_begin = arith.maxsi %lower, %first_j : i32
  %end_j = arith.addi %ae, %p : i32
  %may_end = arith.minsi %upper, %end_j : i32
  %must_first = arith.subi %last, %q : i32
  %must_begin = arith.maxsi %lower, %must_first : i32
  %must_last = arith.addi %ab, %p : i32
  %must_limit = arith.addi %must_last, %c1 : i32
  %must_end = arith.minsi %upper, %must_limit : i32
  return %may_begin, %may_end, %must_begin, %must_end, %unknown : i32, i32, i32, i32, i1
})";

TEST_F(BlockLoopTest, BandsWithAndWithoutRanges) {
  for (const char *where : {"where @band(%p, block, %q, against : i32, i32)",
                            "where @band(%p, block, %q, against : i32, i32) ranges @band_ranges"})
    for (int i = 0; i < 80; ++i) {
      int64_t p = uniform(-3, 20), q = uniform(-3, 20);
      check(
          randomLoop(), where, bandFunctions,
          [&](int64_t i, int64_t j) { return j - i <= p && i - j <= q; }, {}, p, q);
    }
}

TEST_F(BlockLoopTest, MasksThatReadOnePositionOrNone) {
  const char *functions = R"(
func.func private @rows(%i: i32, %j: i32, %p: i32) -> i1 {
  %z = arith.cmpi sgt, %i, %p : i32
  return %z : i1
}
func.func private @columns(%i: i32, %j: i32, %p: i32) -> i1 {
  %z = arith.cmpi slt, %j, %p : i32
  return %z : i1
}
func.func private @neither(%i: i32, %j: i32, %p: i32) -> i1 {
  %c3 = arith.constant 3 : i32
  %z = arith.cmpi sgt, %p, %c3 : i32
  return %z : i1
})";
  for (int i = 0; i < 30; ++i) {
    int64_t p = uniform(0, 30);
    Loop loop = randomLoop();
    check(
        loop, "where @rows(against, block, %p : i32)", functions,
        [&](int64_t i, int64_t) { return i > p; }, {}, p);
    check(
        loop, "where @columns(against, block, %p : i32)", functions,
        [&](int64_t, int64_t j) { return j < p; }, {}, p);
    check(
        loop, "where @neither(against, block, %p : i32)", functions,
        [&](int64_t, int64_t) { return p > 3; }, {}, p);
  }
}

TEST_F(BlockLoopTest, BlocksNearTheEndOfTheIntegers) {
  Loop loop;
  loop.lower = 2147483630;
  loop.upper = 2147483647;
  loop.start = 2147483645;
  loop.limit = 2147483647;
  check(loop, "", "", [](int64_t, int64_t) { return true; });
  loop.lower = -2147483648;
  loop.upper = -2147483640;
  loop.descending = true;
  check(loop, "", "", [](int64_t, int64_t) { return true; });
}

TEST_F(BlockLoopTest, InitialValuesWhereNothingIsVisited) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>, %n: i32) grid(%g = 1) {
  %c0 = arith.constant 0 : i32
  %t = tile.load %x[0] : !tile.view<[?], f32> -> tensor<4xf32>
  %a, %b = tile.for_blocks %k in (%c0 to %n) against (%c0 to %n)
      keep %keep : tensor<2x2xi1>
      iter_args(%a = %t : tensor<4xf32>, %b = %t : tensor<4xf32>) {
    %a2 = arith.addf %a, %b : tensor<4xf32>
    tile.yield %b, %a2 : tensor<4xf32>, tensor<4xf32>
  }
  %z = arith.mulf %a, %b : tensor<4xf32>
  tile.store %z, %y[0] : tensor<4xf32>, !tile.view<[?], f32>
})";
  Tensor x(ElementType::F32, {4}, [](int64_t i) { return double(i) + 1; });
  const double factors[] = {1, 2, 6, 15, 40};
  for (int64_t n = 0; n < 5; ++n) {
    Tensor y(ElementType::F32, {4});
    run(source, {{"x", x.argument()}, {"y", y.argument()}, {"n", 2 * n}});
    // (1, 1) (1, 2) (2, 3) (3, 5) (5, 8)
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(y.get(i), factors[n] * x.get(i) * x.get(i));
  }
}

TEST_F(BlockLoopTest, ErrorsInsideTheMask) {
  Loop loop;
  loop.lower = 0;
  loop.upper = 12;
  loop.start = 0;
  loop.limit = 4;
  Tensor starts(ElementType::I32, {1}), masks(ElementType::I32, {1, 1, 1});
  expectError(source(loop, "where @bad(against, block, %p : i32)", R"(
func.func private @bad(%i: i32, %j: i32, %p: i32) -> i1 {
  %d = arith.divsi %i, %p : i32
  %z = arith.cmpi slt, %d, %j : i32
  return %z : i1
})"),
              {{"starts", starts.argument()},
               {"masks", masks.argument()},
               {"n", int64_t(0)},
               {"lower", int64_t(0)},
               {"upper", int64_t(12)},
               {"start", int64_t(0)},
               {"limit", int64_t(4)},
               {"p", int64_t(0)},
               {"q", int64_t(0)}},
              "'arith.divsi' op integer division by zero");
}

} // namespace
} // namespace tilewright
