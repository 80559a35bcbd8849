// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views: bounds, pads, strides, subviews, gathers and atomic additions.

#include "InterpreterTesting.h"

#include <memory>

namespace tilewright {
namespace {

class MemoryTest : public InterpreterTest {};

TEST_F(MemoryTest, LoadsPadAndStoresDropWhatLiesOutside) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?, ?], f32>, %y: !tile.view<[?, ?], f32>, %i: i32, %j: i32,
                %pad: f32) grid(%g = 1) {
  %t = tile.load %x[%i, %j] pad %pad : f32 in : !tile.view<[?, ?], f32> -> tensor<4x6xf32>
  %c0 = arith.constant 0 : i32
  tile.store %t, %y[%c0, %c0] : tensor<4x6xf32>, !tile.view<[?, ?], f32>
  tile.store %t, %y[%c0, 100] : tensor<4x6xf32>, !tile.view<[?, ?], f32>
  tile.store %t, %y[-4, 0] : tensor<4x6xf32>, !tile.view<[?, ?], f32>
})";
  Tensor x(ElementType::F32, {5, 7}, [](int64_t i) { return double(i) + 1; });
  for (int64_t i : {-5, -2, 0, 3, 5, 2147483640})
    for (int64_t j : {-3, 0, 4, 7, -2147483647}) {
      Tensor y(ElementType::F32, {4, 5}, -1.0); // narrower than the tile
      run(source, {{"x", x.argument()}, {"y", y.argument()}, {"i", i}, {"j", j}, {"pad", 0.5}});
      for (int64_t r = 0; r < 4; ++r)
        for (int64_t c = 0; c < 5; ++c) {
          bool inside = i + r >= 0 && i + r < 5 && j + c >= 0 && j + c < 7;
          EXPECT_EQ(y.get(r, c), inside ? x.get(i + r, j + c) : 0.5) << i << " " << j;
        }
    }
}

TEST_F(MemoryTest, DimsChooseAndPermuteTheDimensionsOfTheView) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?, ?, ?], f32>, %y: !tile.view<[?, ?], f32>, %h: i32)
    grid(%g = 1) {
  %t = tile.load %x[0, %h, 1] dims [2, 0] : !tile.view<[?, ?, ?], f32> -> tensor<4x8xf32>
  tile.store %t, %y[0, 0] dims [1, 0] : tensor<4x8xf32>, !tile.view<[?, ?], f32>
})";
  Tensor x(ElementType::F32, {5, 3, 4}, [](int64_t i) { return double(i) + 1; });
  for (int64_t h : {-1, 0, 2, 3}) {
    Tensor y(ElementType::F32, {8, 4}, -1.0);
    run(source, {{"x", x.argument()}, {"y", y.argument()}, {"h", h}});
    for (int64_t a = 0; a < 8; ++a) // element (b, a) of the tile is x[a, h, b + 1]
      for (int64_t b = 0; b < 4; ++b) {
        bool inside = a < 5 && h >= 0 && h < 3 && b + 1 < 4;
        EXPECT_EQ(y.get(a, b), inside ? x.get((a * 3 + h) * 4 + b + 1) : 0) << h;
      }
  }
}

TEST_F(MemoryTest, StridesMayBeNegativeZeroAndLarge) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?, ?], bf16>, %y: !tile.view<[?, ?], bf16>) grid(%g = 1) {
  %t = tile.load %x[0, 0] : !tile.view<[?, ?], bf16> -> tensor<4x4xbf16>
  tile.store %t, %y[0, 0] : tensor<4x4xbf16>, !tile.view<[?, ?], bf16>
})";
  Tensor memory(ElementType::BF16, {64}, [](int64_t i) { return double(i); });
  for (auto [first, row, column] : {std::array<int64_t, 3>{63, -16, -1}, {5, 0, 2}, {0, 1, 16}}) {
    ArrayArgument x = memory.argument();
    x.shape = {4, 4};
    x.strides = {row, column};
    x.data = memory.memory.data() + first * 2;
    Tensor y(ElementType::BF16, {4, 4});
    run(source, {{"x", x}, {"y", y.argument()}});
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 4; ++j)
        EXPECT_EQ(y.get(i, j), double(first + i * row + j * column));
  }
}

TEST_F(MemoryTest, SubviewsBoundWhatIsRead) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?, 4], f32>, %y: !tile.view<[?, 4], f32>, %from: i32, %size: i32,
                %dims: !tile.view<[?], i32>) grid(%g = 1) {
  %rows = tile.subview %x dim 0 from %from size %size : !tile.view<[?, 4], f32>
  %t = tile.load %rows[-1, 0] : !tile.view<[?, 4], f32> -> tensor<8x4xf32>
  tile.store %t, %y[0, 0] : tensor<8x4xf32>, !tile.view<[?, 4], f32>
  %extent = tile.dim %rows, 0 : !tile.view<[?, 4], f32>
  %all = tile.full %extent : tensor<1xi32>
  tile.store %all, %dims[0] : tensor<1xi32>, !tile.view<[?], i32>
})";
  Tensor x(ElementType::F32, {10, 4}, [](int64_t i) { return double(i) + 1; });
  for (int64_t from : {0, 3, 8, 10, 50})
    for (int64_t size : {-3, 0, 2, 5, 2147483647}) {
      Tensor y(ElementType::F32, {8, 4}, -1.0), dims(ElementType::I32, {1});
      run(source, {{"x", x.argument()},
                   {"y", y.argument()},
                   {"from", from},
                   {"size", size},
                   {"dims", dims.argument()}});
      int64_t extent = std::max<int64_t>(std::min<int64_t>(size, 10 - from), 0);
      EXPECT_EQ(dims.get(0), double(extent));
      for (int64_t r = 0; r < 8; ++r)
        EXPECT_EQ(y.get(r, 2), r >= 1 && r - 1 < extent ? x.get(from + r - 1, 2) : 0)
            << from << " " << size;
    }
  Tensor y(ElementType::F32, {8, 4}), dims(ElementType::I32, {1});
  expectError(source,
              {{"x", x.argument()},
               {"y", y.argument()},
               {"from", int64_t(-2)},
               {"size", int64_t(4)},
               {"dims", dims.argument()}},
              "'tile.subview' op requires an offset that is not negative, but got -2\n"
              "note: while running the kernel at g = 0");
}

TEST_F(MemoryTest, AtReadsZeroOutside) {
  const char *source = R"(
tile.capture @table : !tile.view<[?, ?], f16>
tile.capture @factor : f32
tile.kernel @k (%start: !tile.view<[?], i32>, %out: !tile.view<[?], f32>, %last: i32)
    grid(%g = 8) {
  %s = tile.at %start[%g] : !tile.view<[?], i32>
  %t = tile.at @table[%s, 1] : f16
  %f = tile.at @factor : f32
  %w = tile.cast %t : f16 -> f32
  %v = arith.mulf %w, %f : f32
  %tile = tile.full %v : tensor<1xf32>
  tile.store %tile, %out[%g] : tensor<1xf32>, !tile.view<[?], f32>
})";
  Tensor start(ElementType::I32, {8}, [](int64_t i) { return double(i) - 2; });
  Tensor table(ElementType::F16, {4, 3}, [](int64_t i) { return double(i) + 1; });
  Tensor out(ElementType::F32, {8});
  run(source, {{"start", start.argument()},
               {"out", out.argument()},
               {"table", table.argument()},
               {"factor", 2.0},
               {"last", int64_t(0)}});
  for (int64_t g = 0; g < 8; ++g)
    EXPECT_EQ(out.get(g), g >= 2 && g < 6 ? 2 * table.get(g - 2, 1) : 0);
}

TEST_F(MemoryTest, AbsentViewsAreEmpty) {
  const char *source = R"(
tile.kernel @k (%x: optional !tile.view<[?, 4], f32>, %y: !tile.view<[?], f32>) grid(%g = 1) {
  %t = tile.load %x[0, 0] : !tile.view<[?, 4], f32> -> tensor<2x4xf32>
  tile.store %t, %x[0, 0] : tensor<2x4xf32>, !tile.view<[?, 4], f32>
  tile.atomic_add %t, %x[0, 0] : tensor<2x4xf32>, !tile.view<[?, 4], f32>
  %sum = tile.reduce add %t dim 1 : tensor<2x4xf32> -> tensor<2xf32>
  tile.store %sum, %y[0] : tensor<2xf32>, !tile.view<[?], f32>
  %n = tile.dim %x, 1 : !tile.view<[?, 4], f32>
  %f = arith.sitofp %n : i32 to f32
  %all = tile.full %f : tensor<1xf32>
  tile.store %all, %y[2] : tensor<1xf32>, !tile.view<[?], f32>
})";
  Tensor x(ElementType::F32, {2, 4}, 1.0), y(ElementType::F32, {3}, -1.0);
  run(source, {{"x", x.argument()}, {"y", y.argument()}});
  EXPECT_EQ(y.get(0), 4);
  EXPECT_EQ(y.get(2), 4);
  run(source, {{"y", y.argument()}});
  EXPECT_EQ(y.get(0), 0);
  EXPECT_EQ(y.get(2), 0);
}

TEST_F(MemoryTest, GatherAndScatterAdd) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?, ?, ?], f32>, %at: !tile.view<[?], i32>,
                %y: !tile.view<[?, ?], f32>, %sums: !tile.view<[?, ?, ?], f32>, %h: i32)
    grid(%g = 1) {
  %rows = tile.load %at[0] : !tile.view<[?], i32> -> tensor<8xi32>
  %t = tile.gather %x[1, %h, 0] dims [0, 2] along 0 at %rows
     : !tile.view<[?, ?, ?], f32>, tensor<8xi32> -> tensor<8x4xf32>
  tile.store %t, %y[0, 0] : tensor<8x4xf32>, !tile.view<[?, ?], f32>
  tile.scatter_add %t, %sums[0, %h, 0] dims [0, 2] along 0 at %rows
     : tensor<8x4xf32>, !tile.view<[?, ?, ?], f32>, tensor<8xi32>
})";
  Tensor x(ElementType::F32, {6, 2, 4}, [](int64_t i) { return double(i) + 1; });
  const double rows[8] = {0, 4, -1, 2, 2, 5, -7, 100};
  Tensor at(ElementType::I32, {8}, [&](int64_t i) { return rows[i]; });
  Tensor y(ElementType::F32, {8, 4}), sums(ElementType::F32, {6, 2, 4}, 10.0);
  run(source, {{"x", x.argument()},
               {"at", at.argument()},
               {"y", y.argument()},
               {"sums", sums.argument()},
               {"h", int64_t(1)}});
  Tensor expected(ElementType::F32, {6, 2, 4}, 10.0);
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t d = 0; d < 4; ++d) {
      double row = rows[i] + 1;
      double value = row >= 0 && row < 6 ? x.get((int64_t(row) * 2 + 1) * 4 + d) : 0;
      EXPECT_EQ(y.get(i, d), value);
      if (rows[i] >= 0 && rows[i] < 6) {
        int64_t target = (int64_t(rows[i]) * 2 + 1) * 4 + d;
        expected.set(target, expected.get(target) + value);
      }
    }
  for (int64_t i = 0; i < sums.count; ++i)
    EXPECT_EQ(sums.get(i), expected.get(i)) << i;
}

TEST_F(MemoryTest, AtomicAddsOfAllThreadsCount) {
  const char *source = R"(
tile.kernel @k (%sums: !tile.view<[?], $T>) grid(%g = 500, %h = 2) {
  %one = arith.constant $ONE : $T
  %t = tile.full %one : tensor<16x$T>
  tile.atomic_add %t, %sums[3] : tensor<16x$T>, !tile.view<[?], $T>
})";
  struct Case {
    ElementType type;
    const char *name, *one;
    double total;
  } cases[] = {{ElementType::F32, "f32", "0.5", 500},
               {ElementType::F64, "f64", "0.5", 500},
               {ElementType::I32, "i32", "3", 3000},
               {ElementType::F16, "f16", "0.5", 500}};
  for (const Case &test : cases) {
    Tensor sums(test.type, {10});
    RunOptions options;
    options.threads = 4;
    run(substitute(source, {{"T", test.name}, {"ONE", test.one}}), {{"sums", sums.argument()}},
        options);
    for (int64_t i = 0; i < 10; ++i)
      EXPECT_EQ(sums.get(i), i >= 3 ? test.total : 0) << test.name << i;
  }
}

/// (x * 3 + n), n = 0, 1, ..: another order gives another number.
TEST_F(MemoryTest, AdditionsInOrder) {
  const char *source = R"(
tile.kernel @k (%sums: !tile.view<[?, 4], f32>, %turns: !tile.view<[?], i32>)
    grid(%g = 40, %h = 3) {
  %c3 = arith.constant 3 : i32
  %n = arith.remsi %g, %c3 : i32
  %x = arith.sitofp %n : i32 to f32
  %third = arith.constant 0.333333343 : f32
  %y = arith.addf %x, %third : f32
  %t = tile.full %y : tensor<1x4xf32>
  tile.atomic_add %t, %sums[%h, 0] in order of %g by %turns[%h]
      : tensor<1x4xf32>, !tile.view<[?, 4], f32>, !tile.view<[?], i32>
})";
  float wanted = 0;
  for (int g = 0; g < 40; ++g)
    wanted += float(g % 3) + 0.333333343f;
  for (unsigned threads : {1, 2, 7}) {
    // The last row has no counter, and no order.
    Tensor sums(ElementType::F32, {3, 4}), turns(ElementType::I32, {2});
    RunOptions options;
    options.threads = threads;
    run(source, {{"sums", sums.argument()}, {"turns", turns.argument()}}, options);
    for (int64_t i = 0; i < 8; ++i)
      EXPECT_EQ(sums.get(i), wanted) << threads;
    EXPECT_NEAR(sums.get(2, 0), wanted, 1e-3);
    EXPECT_EQ(turns.get(0), 40);
    EXPECT_EQ(turns.get(1), 40);
  }
}

/// No instance ever has turn 0.
TEST_F(MemoryTest, ATurnThatNeverComesIsAnError) {
  const char *source = R"(
tile.kernel @k (%sums: !tile.view<[?], f32>, %turns: !tile.view<[?], i32>) grid(%g = 8) {
  %c1 = arith.constant 1 : i32
  %n = arith.addi %g, %c1 : i32
  %one = arith.constant 1.0 : f32
  %t = tile.full %one : tensor<4xf32>
  tile.atomic_add %t, %sums[0] in order of %n by %turns[0]
      : tensor<4xf32>, !tile.view<[?], f32>, !tile.view<[?], i32>
})";
  for (unsigned threads : {1, 4}) {
    Tensor sums(ElementType::F32, {4}), turns(ElementType::I32, {1});
    RunOptions options;
    options.threads = threads;
    EXPECT_FALSE(tryRun(source, {{"sums", sums.argument()}, {"turns", turns.argument()}}, options));
    EXPECT_NE(messages.find("waits for turn 1, but the counter is 0 and all program instances "
                            "before have ended; numbers must count from 0 in the order of the "
                            "first id of the grid"),
              std::string::npos)
        << messages;
  }
}

/// 40 instances add n + 1 to each of three sums; a tile.spread doubles each sum when it has the
/// given number of terms.
static const char *const sumsAndDoubles = R"(
tile.kernel @k (%sums: !tile.view<[?, 4], f32>, %turns: !tile.view<[?], i32>,
                %y: !tile.view<[?, 4], f32>, %terms: i32) grid(%n = 40) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %count = tile.dim %sums, 0 : !tile.view<[?, 4], f32>
  %next = arith.addi %n, %c1 : i32
  %x = arith.sitofp %next : i32 to f32
  %t = tile.full %x : tensor<1x4xf32>
  scf.for %m = %c0 to %count step %c1 : i32 {
    tile.atomic_add %t, %sums[%m, 0] in order of %n by %turns[%m]
        : tensor<1x4xf32>, !tile.view<[?, 4], f32>, !tile.view<[?], i32>
  }
  tile.spread %m to %count {
    tile.await %terms of %turns[%m] : !tile.view<[?], i32>
    %sum = tile.load %sums[%m, 0] : !tile.view<[?, 4], f32> -> tensor<1x4xf32>
    %old = tile.load %y[%m, 0] : !tile.view<[?, 4], f32> -> tensor<1x4xf32>
    %once = arith.addf %old, %sum : tensor<1x4xf32>
    %twice = arith.addf %once, %sum : tensor<1x4xf32>
    tile.store %twice, %y[%m, 0] : tensor<1x4xf32>, !tile.view<[?, 4], f32>
  }
})";

/// The last instance executes tile.spread while earlier instances still add.
TEST_F(MemoryTest, SpreadAwaitsTheInstancesOfAllThreads) {
  for (unsigned threads : {1u, 2u, 3u, 7u, 0u}) {
    for (int round = 0; round < 20; ++round) {
      Tensor sums(ElementType::F32, {3, 4}), turns(ElementType::I32, {3}),
          y(ElementType::F32, {3, 4});
      RunOptions options;
      options.threads = threads;
      run(sumsAndDoubles,
          {{"sums", sums.argument()},
           {"turns", turns.argument()},
           {"y", y.argument()},
           {"terms", int64_t(40)}},
          options);
      for (int64_t i = 0; i < 12; ++i) // 2 (1 + ... + 40), added once
        EXPECT_EQ(y.get(i), 1640) << threads;
    }
  }
}

TEST_F(MemoryTest, ASumThatIsNeverCompleteIsAnError) {
  for (unsigned threads : {1u, 4u}) {
    Tensor sums(ElementType::F32, {3, 4}), turns(ElementType::I32, {3}),
        y(ElementType::F32, {3, 4});
    RunOptions options;
    options.threads = threads;
    EXPECT_FALSE(tryRun(sumsAndDoubles,
                        {{"sums", sums.argument()},
                         {"turns", turns.argument()},
                         {"y", y.argument()},
                         {"terms", int64_t(41)}},
                        options));
    EXPECT_NE(messages.find("'tile.await' op waits for turn 41, but the counter is 40 and all "
                            "program instances before have ended; the kernel must add as many "
                            "tiles there, before tile.spread"),
              std::string::npos)
        << messages;
    EXPECT_EQ(y.get(0), 0);
  }
}

TEST_F(MemoryTest, OffsetsAreSixtyFourBits) {
  // Element (1, 0) is 2^31 + 16 elements after element (0, 0), with no elements between them.
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?, 4], f8E4M3FN>, %y: !tile.view<[?, 4], f32>) grid(%g = 1) {
  %t = tile.load %x[0, 0] : !tile.view<[?, 4], f8E4M3FN> -> tensor<2x4xf8E4M3FN>
  %w = tile.cast %t : tensor<2x4xf8E4M3FN> -> tensor<2x4xf32>
  tile.store %w, %y[0, 0] : tensor<2x4xf32>, !tile.view<[?, 4], f32>
})";
  constexpr int64_t stride = (int64_t(1) << 31) + 16;
  // Reserved, not touched: two pages of it are used.
  std::unique_ptr<char, void (*)(void *)> memory(static_cast<char *>(std::malloc(stride + 64)),
                                                 std::free);
  ASSERT_TRUE(memory);
  for (int64_t i = 0; i < 4; ++i) {
    memory.get()[i] = char(numeric::floatToE4M3(float(i + 1)));
    memory.get()[stride + i] = char(numeric::floatToE4M3(float(i + 5)));
  }
  ArrayArgument x;
  x.type = ElementType::E4M3;
  x.shape = {2, 4};
  x.strides = {stride, 1};
  x.data = memory.get();
  Tensor y(ElementType::F32, {2, 4});
  run(source, {{"x", x}, {"y", y.argument()}});
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_EQ(y.get(i), double(i + 1));
}

} // namespace
} // namespace tilewright
