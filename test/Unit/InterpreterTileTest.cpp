// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layout, reductions, products and random bits.

#include "InterpreterTesting.h"
#include "PhiloxBlock.h"

namespace tilewright {
namespace {

class TileTest : public InterpreterTest {};

TEST_F(TileTest, IotaAlongEveryDimension) {
  for (int64_t dim = 0; dim < 3; ++dim) {
    std::string source = substitute(R"(
tile.kernel @k (%out: !tile.view<[?, ?, ?], i32>) grid(%g = 1) {
  %start = arith.constant 2147483645 : i32
  %z = tile.iota %start dim $D : tensor<3x4x5xi32>
  tile.store %z, %out[0, 0, 0] : tensor<3x4x5xi32>, !tile.view<[?, ?, ?], i32>
})",
                                    {{"D", std::to_string(dim)}});
    Tensor out(ElementType::I32, {3, 4, 5});
    run(source, {{"out", out.argument()}});
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t position[] = {i / 20, i / 5 % 4, i % 5};
      EXPECT_EQ(out.get(i), int32_t(uint32_t(2147483645) + uint32_t(position[dim]))) << dim;
    }
  }
}

TEST_F(TileTest, ExpandsOfExpands) {
  // A vector of 4 becomes 2x3x4x5, with every order of insertions around its dimension.
  struct Case {
    const char *body;
    int64_t position; // position of the vector's dimension
  } cases[] = {{"%a = tile.expand %v dim 1 : tensor<4xf32> -> tensor<4x5xf32>\n"
                "%b = tile.expand %a dim 0 : tensor<4x5xf32> -> tensor<3x4x5xf32>\n"
                "%z = tile.expand %b dim 0 : tensor<3x4x5xf32> -> tensor<2x3x4x5xf32>",
                2},
               {"%a = tile.expand %v dim 0 : tensor<4xf32> -> tensor<3x4xf32>\n"
                "%b = tile.expand %a dim 0 : tensor<3x4xf32> -> tensor<2x3x4xf32>\n"
                "%z = tile.expand %b dim 3 : tensor<2x3x4xf32> -> tensor<2x3x4x5xf32>",
                2},
               {"%a = tile.expand %v dim 1 : tensor<4xf32> -> tensor<4x3xf32>\n"
                "%b = tile.expand %a dim 2 : tensor<4x3xf32> -> tensor<4x3x5xf32>\n"
                "%z = tile.expand %b dim 0 : tensor<4x3x5xf32> -> tensor<2x4x3x5xf32>",
                1}};
  for (const Case &test : cases) {
    std::string source =
        substitute(R"(
tile.kernel @k (%x: !tile.view<[?], f32>, %out: !tile.view<[?], f32>) grid(%g = 1) {
  %v = tile.load %x[0] : !tile.view<[?], f32> -> tensor<4xf32>
  $BODY
  %flat = tile.reshape %z : tensor<$SHAPExf32> -> tensor<120xf32>
  tile.store %flat, %out[0] : tensor<120xf32>, !tile.view<[?], f32>
})",
                   {{"BODY", test.body}, {"SHAPE", test.position == 2 ? "2x3x4x5" : "2x4x3x5"}});
    Tensor x(ElementType::F32, {4}, [](int64_t i) { return double(i) + 1; });
    Tensor out(ElementType::F32, {120});
    run(source, {{"x", x.argument()}, {"out", out.argument()}});
    for (int64_t i = 0; i < 120; ++i)
      EXPECT_EQ(out.get(i), x.get(test.position == 2 ? i / 5 % 4 : i / 15 % 4)) << test.body;
  }
}

TEST_F(TileTest, TransposesEveryForm) {
  // 0: dense, 1: constant along rows, 2: along columns, 3: everywhere.
  const char *const bodies[] = {
      "%t = tile.load %x[0, 0] : !tile.view<[?, ?], f32> -> tensor<3x5xf32>",
      "%v = tile.load %x[0, 0] dims [0] : !tile.view<[?, ?], f32> -> tensor<3xf32>\n"
      "%t = tile.expand %v dim 1 : tensor<3xf32> -> tensor<3x5xf32>",
      "%v = tile.load %x[0, 0] dims [1] : !tile.view<[?, ?], f32> -> tensor<5xf32>\n"
      "%t = tile.expand %v dim 0 : tensor<5xf32> -> tensor<3x5xf32>",
      "%v = arith.constant 7.0 : f32\n %t = tile.full %v : tensor<3x5xf32>"};
  for (int form = 0; form < 4; ++form) {
    std::string source = substitute(R"(
tile.kernel @k (%x: !tile.view<[?, ?], f32>, %out: !tile.view<[?, ?], f32>) grid(%g = 1) {
  $BODY
  %u = tile.transpose %t [1, 0] : tensor<3x5xf32> -> tensor<5x3xf32>
  %y = tile.load %x[0, 0] dims [1, 0] : !tile.view<[?, ?], f32> -> tensor<5x3xf32>
  %z = arith.addf %u, %y : tensor<5x3xf32>
  tile.store %z, %out[0, 0] : tensor<5x3xf32>, !tile.view<[?, ?], f32>
})",
                                    {{"BODY", bodies[form]}});
    Tensor x(ElementType::F32, {3, 5}, [](int64_t i) { return double(i) + 1; });
    Tensor out(ElementType::F32, {5, 3});
    run(source, {{"x", x.argument()}, {"out", out.argument()}});
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        double t = form == 0 ? x.get(j, i) : form == 1 ? x.get(j, 0) : form == 2 ? x.get(0, i) : 7;
        EXPECT_EQ(out.get(i, j), t + x.get(j, i)) << form;
      }
  }
}

TEST_F(TileTest, Reductions) {
  struct Case {
    const char *kind;
    double (*combine)(double, double);
    double start;
  } cases[] = {{"add", [](double a, double b) { return a + b; }, 0},
               {"mul", [](double a, double b) { return a * b; }, 1},
               {"max", [](double a, double b) { return std::max(a, b); }, -infinity},
               {"min", [](double a, double b) { return std::min(a, b); }, infinity}};
  for (const Case &test : cases)
    for (int64_t dim = 0; dim < 2; ++dim) {
      int64_t kept = dim == 0 ? 7 : 4;
      std::string source = substitute(
          R"(
tile.kernel @k (%x: !tile.view<[?, ?], f32>, %out: !tile.view<[?], f32>) grid(%g = 1) {
  %t = tile.load %x[0, 0] : !tile.view<[?, ?], f32> -> tensor<4x7xf32>
  %z = tile.reduce $KIND %t dim $D : tensor<4x7xf32> -> tensor<$Nxf32>
  tile.store %z, %out[0] : tensor<$Nxf32>, !tile.view<[?], f32>
})",
          {{"KIND", test.kind}, {"D", std::to_string(dim)}, {"N", std::to_string(kept)}});
      Tensor x(ElementType::F32, {4, 7}, [](int64_t i) { return std::sin(double(i)) + 0.2; });
      Tensor out(ElementType::F32, {kept});
      run(source, {{"x", x.argument()}, {"out", out.argument()}});
      for (int64_t i = 0; i < kept; ++i) {
        double expected = test.start;
        for (int64_t k = 0; k < 11 - kept; ++k)
          expected = test.combine(expected, dim == 0 ? x.get(k, i) : x.get(i, k));
        expectValue(out.get(i), expected, 1e-6, test.kind);
      }
    }
}

TEST_F(TileTest, ReductionsOfVectorsToScalarsAndOfSplats) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?], f32>, %out: !tile.view<[?], f32>, %s: f32) grid(%g = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> tensor<6xf32>
  %max = tile.reduce max %t dim 0 : tensor<6xf32> -> tensor<f32>
  tile.store %max, %out[0] : tensor<f32>, !tile.view<[?], f32>
  %splat = tile.full %s : tensor<2x6xf32>
  %sum = tile.reduce add %splat dim 1 : tensor<2x6xf32> -> tensor<2xf32>
  tile.store %sum, %out[1] : tensor<2xf32>, !tile.view<[?], f32>
  %min = tile.reduce min %splat dim 0 : tensor<2x6xf32> -> tensor<6xf32>
  tile.store %min, %out[3] : tensor<6xf32>, !tile.view<[?], f32>
})";
  Tensor x(ElementType::F32, {6}, [](int64_t i) { return i == 3 ? notANumber : double(i); });
  Tensor out(ElementType::F32, {9});
  run(source, {{"x", x.argument()}, {"out", out.argument()}, {"s", 2.5}});
  EXPECT_TRUE(std::isnan(out.get(0))) << "max propagates NaN";
  EXPECT_EQ(out.get(2), 15);
  EXPECT_EQ(out.get(8), 2.5);
}

TEST_F(TileTest, IntegerReductions) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?, ?], i32>, %out: !tile.view<[?], i32>) grid(%g = 1) {
  %t = tile.load %x[0, 0] : !tile.view<[?, ?], i32> -> tensor<2x3xi32>
  %max = tile.reduce max %t dim 1 : tensor<2x3xi32> -> tensor<2xi32>
  %or = tile.reduce or %t dim 1 : tensor<2x3xi32> -> tensor<2xi32>
  %zero = arith.constant dense<0> : tensor<2x3xi32>
  %positive = arith.cmpi sgt, %t, %zero : tensor<2x3xi32>
  %all = tile.reduce and %positive dim 1 : tensor<2x3xi1> -> tensor<2xi1>
  %alli = tile.cast %all : tensor<2xi1> -> tensor<2xi32>
  tile.store %max, %out[0] : tensor<2xi32>, !tile.view<[?], i32>
  tile.store %or, %out[2] : tensor<2xi32>, !tile.view<[?], i32>
  tile.store %alli, %out[4] : tensor<2xi32>, !tile.view<[?], i32>
})";
  const double values[] = {1, 6, 8, -5, 2, -1};
  Tensor x(ElementType::I32, {2, 3}, [&](int64_t i) { return values[i]; });
  Tensor out(ElementType::I32, {6});
  run(source, {{"x", x.argument()}, {"out", out.argument()}});
  const double expected[] = {8, 2, 15, -1, 1, 0};
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_EQ(out.get(i), expected[i]) << i;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

class DotTest : public InterpreterTest {
protected:
  /// c = op(a) op(b) + acc for a 5x7 by 7x6 product; expected values from doubles.
  void check(ElementType type, bool transposeA, bool transposeB, const std::string &acc,
             double tolerance, bool f64 = false) {
    bool wide = type == ElementType::F64 || f64;
    std::string name = std::string(elementTypeName(type));
    std::string source = substitute(
        R"(
tile.kernel @k (%av: !tile.view<[?, ?], $T>, %bv: !tile.view<[?, ?], $T>,
                %cv: !tile.view<[?, ?], $C>, %out: !tile.view<[?, ?], $C>) grid(%g = 1) {
  %a = tile.load %av[0, 0] : !tile.view<[?, ?], $T> -> tensor<$SAx$T>
  %b = tile.load %bv[0, 0] : !tile.view<[?, ?], $T> -> tensor<$SBx$T>
  %c = tile.load %cv[0, 0] : !tile.view<[?, ?], $C> -> tensor<5x6x$C>
  %v = tile.load %cv[0, 0] dims [0] : !tile.view<[?, ?], $C> -> tensor<5x$C>
  %row = tile.expand %v dim 1 : tensor<5x$C> -> tensor<5x6x$C>
  %zero = arith.constant dense<0.0> : tensor<5x6x$C>
  %z = tile.dot %a, %b$ACC$FLAGS : tensor<$SAx$T>, tensor<$SBx$T> -> tensor<5x6x$C>
  %twice = arith.addf %z, %c : tensor<5x6x$C>
  tile.store %twice, %out[0, 0] : tensor<5x6x$C>, !tile.view<[?, ?], $C>
})",
        {{"ACC", acc},
         {"FLAGS",
          std::string(transposeA ? " transpose_a" : "") + (transposeB ? " transpose_b" : "")},
         {"SA", transposeA ? "7x5" : "5x7"},
         {"SB", transposeB ? "6x7" : "7x6"},
         {"C", type == ElementType::F64 ? "f64" : "f32"},
         {"T", name}});
    ElementType memory = f64 ? ElementType::F64 : type;
    ElementType result = wide ? ElementType::F64 : ElementType::F32;
    Tensor a(memory,
             transposeA ? llvm::SmallVector<int64_t>{7, 5} : llvm::SmallVector<int64_t>{5, 7},
             [](int64_t i) { return std::sin(double(i)); });
    Tensor b(memory,
             transposeB ? llvm::SmallVector<int64_t>{6, 7} : llvm::SmallVector<int64_t>{7, 6},
             [](int64_t i) { return std::cos(double(i)); });
    Tensor c(result, {5, 6}, [](int64_t i) { return double(i) * 0.125; });
    Tensor out(result, {5, 6});
    RunOptions options;
    options.f64 = f64;
    run(source,
        {{"av", a.argument()}, {"bv", b.argument()}, {"cv", c.argument()}, {"out", out.argument()}},
        options);
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 6; ++j) {
        double sum = c.get(i, j);
        if (acc == ", %c")
          sum += c.get(i, j);
        else if (acc == ", %row")
          sum += c.get(i, 0);
        for (int64_t k = 0; k < 7; ++k)
          sum +=
              (transposeA ? a.get(k, i) : a.get(i, k)) * (transposeB ? b.get(j, k) : b.get(k, j));
        expectValue(out.get(i, j), sum, tolerance, name + acc);
      }
  }
};

TEST_F(DotTest, TransposesAndAccumulators) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (const char *acc : {"", ", %c", ", %row", ", %zero"}) {
        check(ElementType::F32, transposeA, transposeB, acc, 1e-6);
        check(ElementType::F64, transposeA, transposeB, acc, 1e-14);
      }
}

TEST_F(DotTest, NarrowOperandsAccumulateInF32) {
  check(ElementType::F16, false, true, ", %c", 1e-6);
  check(ElementType::BF16, false, false, ", %c", 1e-6);
  check(ElementType::BF16, false, true, "", 1e-14, /*f64=*/true);
}

TEST_F(DotTest, TF32RoundsTheOperands) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?, ?], f32>, %out: !tile.view<[?, ?], f32>) grid(%g = 1) {
  %a = tile.load %x[0, 0] : !tile.view<[?, ?], f32> -> tensor<1x2xf32>
  %one = arith.constant dense<1.0> : tensor<2x1xf32>
  %z = tile.dot %a, %one precision tf32 : tensor<1x2xf32>, tensor<2x1xf32> -> tensor<1x1xf32>
  tile.store %z, %out[0, 0] : tensor<1x1xf32>, !tile.view<[?, ?], f32>
})";
  Tensor x(ElementType::F32, {1, 2}), out(ElementType::F32, {1, 1});
  x.set(0, 1 + 0x1p-11 + 0x1p-20); // above the midpoint of two tf32 values
  run(source, {{"x", x.argument()}, {"out", out.argument()}});
  EXPECT_EQ(out.get(0), 1 + 0x1p-10);
  x.set(0, 1 + 0x1p-11); // the midpoint: rounds to even
  run(source, {{"x", x.argument()}, {"out", out.argument()}});
  EXPECT_EQ(out.get(0), 1);
}

/// Column 16 a + 8 b + 2 c + d meets row 16 a + 4 c + 2 b + d, whichever operand is stored
/// transposed.
TEST_F(DotTest, InterleavedPairs) {
  for (bool isTransposed : {false, true}) {
    std::string shape = isTransposed ? "32x1" : "1x32";
    std::string source = substitute(R"(
tile.kernel @k (%x: !tile.view<[?, ?], f32>, %y: !tile.view<[?, ?], f32>,
                %out: !tile.view<[?, ?], f32>) grid(%g = 1) {
  %a = tile.load %x[0, 0] : !tile.view<[?, ?], f32> -> tensor<$SAxf32>
  %b = tile.load %y[0, 0] : !tile.view<[?, ?], f32> -> tensor<32x32xf32>
  %z = tile.dot %a, %b$FLAGS interleaved : tensor<$SAxf32>, tensor<32x32xf32> -> tensor<1x32xf32>
  tile.store %z, %out[0, 0] : tensor<1x32xf32>, !tile.view<[?, ?], f32>
})",
                                    {{"SA", shape}, {"FLAGS", isTransposed ? " transpose_a" : ""}});
    llvm::SmallVector<int64_t> extents{1, 32};
    if (isTransposed)
      std::swap(extents[0], extents[1]);
    Tensor x(ElementType::F32, extents, [](int64_t i) { return double(i); });
    Tensor identity(ElementType::F32, {32, 32}, [](int64_t i) { return double(i / 32 == i % 32); });
    Tensor out(ElementType::F32, {1, 32});
    run(source, {{"x", x.argument()}, {"y", identity.argument()}, {"out", out.argument()}});
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t b = 0; b < 2; ++b)
        for (int64_t c = 0; c < 4; ++c)
          for (int64_t d = 0; d < 2; ++d)
            EXPECT_EQ(out.get(16 * a + 4 * c + 2 * b + d), 16 * a + 8 * b + 2 * c + d);
  }
}

//===----------------------------------------------------------------------===//
// Random bits
//===----------------------------------------------------------------------===//

TEST_F(TileTest, RandomBitsDependOnTheCounterAlone) {
  const char *source = R"(
func.func private @bits(%i: i32, %j: i32, %seed: i64, %offset: i64) -> i32 {
  %c7 = arith.constant 7 : i32
  %w = tile.random %seed, %offset at (%j, %i, %c7) : i32
  %h = tile.random %seed, %offset at (%j, %i, %c7) bits 16 rounds 7 : i32
  %z = arith.subi %w, %h : i32
  return %z : i32
}
tile.kernel @k (%out: !tile.view<[?, ?], i32>, %seed: i64, %offset: i64) grid(%g = 2) {
  %c4 = arith.constant 4 : i32
  %c0 = arith.constant 0 : i32
  %row = arith.muli %g, %c4 : i32
  %i = tile.iota %row dim 0 : tensor<4x12xi32>
  %j = tile.iota %c0 dim 1 : tensor<4x12xi32>
  %z = tile.map @bits(%i, %j, %seed, %offset)
     : (tensor<4x12xi32>, tensor<4x12xi32>, i64, i64) -> tensor<4x12xi32>
  tile.store %z, %out[%row, 0] : tensor<4x12xi32>, !tile.view<[?, ?], i32>
})";
  int64_t seed = 0x123456789abcdef0, offset = 0x0fedcba987654321;
  Tensor out(ElementType::I32, {8, 12});
  run(source, {{"out", out.argument()}, {"seed", seed}, {"offset", offset}});
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 12; ++j) {
      std::array<uint32_t, 2> key = {uint32_t(seed), uint32_t((seed >> 32) ^ (offset >> 32))};
      auto words = numeric::philoxBlock(key, {uint32_t(j >> 2), uint32_t(i), 7u, uint32_t(offset)});
      auto halves =
          numeric::philoxBlock(key, {uint32_t(j >> 3), uint32_t(i), 7u, uint32_t(offset)}, 7);
      uint32_t half = halves[j >> 1 & 3] << (j & 1 ? 0 : 16);
      EXPECT_EQ(out.get(i, j), int32_t(words[j & 3] - half));
    }
}

} // namespace
} // namespace tilewright
