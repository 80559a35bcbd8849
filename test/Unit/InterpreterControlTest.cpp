// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Branches, loops, calls, and functions applied to tiles.

#include "InterpreterTesting.h"

namespace tilewright {
namespace {

class ControlTest : public InterpreterTest {
protected:
  /// out[g] = the i32 that the code computes as %z, for g below 8.
  std::vector<double> scalars(const std::string &functions, const std::string &code) {
    std::string source = functions + substitute(R"(
tile.kernel @k (%out: !tile.view<[?], i32>) grid(%g = 8) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c3 = arith.constant 3 : i32
  $CODE
  %stored = tile.full %z : tensor<1xi32>
  tile.store %stored, %out[%g] : tensor<1xi32>, !tile.view<[?], i32>
})",
                                                {{"CODE", code}});
    Tensor out(ElementType::I32, {8}, -99.0);
    run(source, {{"out", out.argument()}});
    return values(out);
  }

  /// z = f(i, j, x) for 6 x 8 elements; x(i, j) = 10 i + j - 20, as i32.
  std::vector<double> mapped(const std::string &function, const std::string &others = "") {
    Tensor x(ElementType::I32, {6, 8},
             [](int64_t e) { return 10.0 * double(e / 8) + double(e % 8) - 20; });
    Tensor out(ElementType::I32, {6, 8}, -99.0);
    run(others + mapSource(function), {{"xv", x.argument()}, {"out", out.argument()}});
    return values(out);
  }
  static std::string mapSource(const std::string &function) {
    return function + R"(
tile.kernel @k (%xv: !tile.view<[?, ?], i32>, %out: !tile.view<[?, ?], i32>) grid(%g = 1) {
  %c0 = arith.constant 0 : i32
  %x = tile.load %xv[0, 0] : !tile.view<[?, ?], i32> -> tensor<6x8xi32>
  %i = tile.iota %c0 dim 0 : tensor<6x8xi32>
  %j = tile.iota %c0 dim 1 : tensor<6x8xi32>
  %z = tile.map @f(%i, %j, %x)
     : (tensor<6x8xi32>, tensor<6x8xi32>, tensor<6x8xi32>) -> tensor<6x8xi32>
  tile.store %z, %out[0, 0] : tensor<6x8xi32>, !tile.view<[?, ?], i32>
  %again = arith.addi %x, %i : tensor<6x8xi32>
  tile.store %again, %xv[0, 0] : tensor<6x8xi32>, !tile.view<[?, ?], i32>
})";
  }
  static std::vector<double> values(const Tensor &tensor) {
    std::vector<double> result;
    for (int64_t i = 0; i < tensor.count; ++i)
      result.push_back(tensor.get(i));
    return result;
  }
  static std::vector<double>
  expectedMap(const std::function<int64_t(int64_t, int64_t, int64_t)> &f) {
    std::vector<double> result;
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 8; ++j)
        result.push_back(double(f(i, j, 10 * i + j - 20)));
    return result;
  }
};

TEST_F(ControlTest, ForLoopsCarryValues) {
  // The sum of 0, 3, .. below g, and the number of iterations.
  EXPECT_EQ(scalars("", R"(
  %s, %n = scf.for %i = %c0 to %g step %c3 iter_args(%a = %c0, %b = %c0) -> (i32, i32) : i32 {
    %a2 = arith.addi %a, %i : i32
    %b2 = arith.addi %b, %c1 : i32
    scf.yield %a2, %b2 : i32, i32
  }
  %c100 = arith.constant 100 : i32
  %h = arith.muli %n, %c100 : i32
  %z = arith.addi %h, %s : i32)"),
            (std::vector<double>{0, 100, 100, 100, 203, 203, 203, 309}));
}

TEST_F(ControlTest, YieldsThatSwapAndRepeatValues) {
  // (a, b, c) -> (b, a, a): moves happen simultaneously.
  EXPECT_EQ(scalars("", R"(
  %c7 = arith.constant 7 : i32
  %a, %b, %c = scf.for %i = %c0 to %g step %c1
      iter_args(%a = %c1, %b = %c3, %c = %c7) -> (i32, i32, i32) : i32 {
    scf.yield %b, %a, %a : i32, i32, i32
  }
  %c10 = arith.constant 10 : i32
  %t = arith.muli %a, %c10 : i32
  %u = arith.addi %t, %b : i32
  %v = arith.muli %u, %c10 : i32
  %z = arith.addi %v, %c : i32)"),
            (std::vector<double>{137, 311, 133, 311, 133, 311, 133, 311}));
}

TEST_F(ControlTest, TilesThroughLoopsAndBranches) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?], f32>, %out: !tile.view<[?, ?], f32>) grid(%g = 4) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %t = tile.load %x[0] : !tile.view<[?], f32> -> tensor<4xf32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %a, %b = scf.for %i = %c0 to %g step %c1
      iter_args(%a = %t, %b = %one) -> (tensor<4xf32>, tensor<4xf32>) : i32 {
    %even = arith.remsi %i, %c2 : i32
    %is = arith.cmpi eq, %even, %c0 : i32
    %n = scf.if %is -> tensor<4xf32> {
      %p = arith.addf %a, %b : tensor<4xf32>
      scf.yield %p : tensor<4xf32>
    } else {
      scf.yield %a : tensor<4xf32>
    }
    scf.yield %b, %n : tensor<4xf32>, tensor<4xf32>
  }
  %z = arith.subf %a, %b : tensor<4xf32>
  %y = arith.addf %z, %t : tensor<4xf32>
  tile.store %y, %out[%g, 0] : tensor<4xf32>, !tile.view<[?, ?], f32>
})";
  Tensor x(ElementType::F32, {4}, [](int64_t i) { return double(i) * 3; });
  Tensor out(ElementType::F32, {4, 4});
  run(source, {{"x", x.argument()}, {"out", out.argument()}});
  for (int64_t g = 0; g < 4; ++g)
    for (int64_t e = 0; e < 4; ++e) {
      double a = x.get(e), b = 1;
      for (int64_t i = 0; i < g; ++i) {
        double n = i % 2 == 0 ? a + b : a;
        a = b;
        b = n;
      }
      EXPECT_EQ(out.get(g, e), a - b + x.get(e)) << g;
    }
}

TEST_F(ControlTest, WhileLoops) {
  // Halve until 1; count the steps: the bit length of g + 1, minus one.
  EXPECT_EQ(scalars("", R"(
  %start = arith.addi %g, %c1 : i32
  %last, %z = scf.while (%v = %start, %n = %c0) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi sgt, %v, %c1 : i32
    scf.condition(%more) %v, %n : i32, i32
  } do {
  ^bb0(%v: i32, %n: i32):
    %h = arith.shrui %v, %c1 : i32
    %n2 = arith.addi %n, %c1 : i32
    scf.yield %h, %n2 : i32, i32
  })"),
            (std::vector<double>{0, 1, 1, 2, 2, 2, 2, 3}));
}

TEST_F(ControlTest, CallsOfFunctionsOfSeveralResults) {
  EXPECT_EQ(scalars(R"(
func.func private @divide(%a: i32, %b: i32) -> (i32, i32) {
  %q = arith.divsi %a, %b : i32
  %r = arith.remsi %a, %b : i32
  return %q, %r : i32, i32
}
func.func private @both(%a: i32, %b: i32) -> (i32, i32, i32) {
  %q, %r = func.call @divide(%a, %b) : (i32, i32) -> (i32, i32)
  return %r, %q, %a : i32, i32, i32
})",
                    R"(
  %r, %q, %a = func.call @both(%g, %c3) : (i32, i32) -> (i32, i32, i32)
  %c10 = arith.constant 10 : i32
  %t = arith.muli %q, %c10 : i32
  %u = arith.addi %t, %r : i32
  %v = arith.muli %u, %c10 : i32
  %z = arith.addi %v, %a : i32)"),
            (std::vector<double>{0, 11, 22, 103, 114, 125, 206, 217}));
}

TEST_F(ControlTest, MapsOfUniformAndVaryingValues) {
  EXPECT_EQ(mapped(R"(
func.func private @f(%i: i32, %j: i32, %x: i32) -> i32 {
  %c5 = arith.constant 5 : i32
  %d = arith.subi %i, %j : i32
  %p = arith.muli %d, %c5 : i32
  %z = arith.addi %p, %x : i32
  return %z : i32
})"),
            expectedMap([](int64_t i, int64_t j, int64_t x) { return (i - j) * 5 + x; }));
  EXPECT_EQ(mapped("func.func private @f(%i: i32, %j: i32, %x: i32) -> i32 { return %i : i32 }"),
            expectedMap([](int64_t i, int64_t, int64_t) { return i; }));
  EXPECT_EQ(mapped(R"(
func.func private @f(%i: i32, %j: i32, %x: i32) -> i32 {
  %c5 = arith.constant 5 : i32
  return %c5 : i32
})"),
            expectedMap([](int64_t, int64_t, int64_t) { return 5; }));
}

TEST_F(ControlTest, LogicOfUniformAndVaryingConditions) {
  for (bool uniform : {false, true})
    for (const char *op : {"arith.andi", "arith.ori"})
      for (bool isFirst : {false, true}) {
        std::string source = substitute(R"(
func.func private @f(%i: i32, %j: i32, %x: i32) -> i32 {
  %u = arith.constant $UNIFORM
  %v = arith.cmpi slt, %i, %j : i32
  %k = $OP $A, $B : i1
  %z = arith.select %k, %x, %i : i32
  return %z : i32
})",
                                        {{"UNIFORM", uniform ? "true" : "false"},
                                         {"OP", op},
                                         {"A", isFirst ? "%u" : "%v"},
                                         {"B", isFirst ? "%v" : "%u"}});
        bool isAnd = std::string(op) == "arith.andi";
        EXPECT_EQ(mapped(source), expectedMap([&](int64_t i, int64_t j, int64_t x) {
                    bool keep = isAnd ? uniform && i < j : uniform || i < j;
                    return keep ? x : i;
                  }));
      }
}

TEST_F(ControlTest, MapsWithVaryingBranches) {
  EXPECT_EQ(mapped(R"(
func.func private @f(%i: i32, %j: i32, %x: i32) -> i32 {
  %c2 = arith.constant 2 : i32
  %c1 = arith.constant 1 : i32
  %causal = arith.cmpi sle, %j, %i : i32
  %z, %w = scf.if %causal -> (i32, i32) {
    %big = arith.cmpi sgt, %i, %c2 : i32
    %a = scf.if %big -> i32 {
      %b = arith.muli %x, %c2 : i32
      scf.yield %b : i32
    } else {
      scf.yield %x : i32
    }
    scf.yield %a, %c1 : i32, i32
  } else {
    scf.yield %j, %i : i32, i32
  }
  %s = arith.addi %z, %w : i32
  return %s : i32
})"),
            expectedMap([](int64_t i, int64_t j, int64_t x) {
              return j <= i ? (i > 2 ? 2 * x : x) + 1 : j + i;
            }));
}

TEST_F(ControlTest, BranchesNotTakenDoNotFail) {
  // x / j only if j is not 0, computed element by element.
  EXPECT_EQ(mapped(R"(
func.func private @f(%i: i32, %j: i32, %x: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %safe = arith.cmpi ne, %j, %c0 : i32
  %z = scf.if %safe -> i32 {
    %q = arith.divsi %x, %j : i32
    scf.yield %q : i32
  } else {
    scf.yield %i : i32
  }
  return %z : i32
})"),
            expectedMap([](int64_t i, int64_t j, int64_t x) { return j != 0 ? x / j : i; }));
}

TEST_F(ControlTest, MapsWithLoops) {
  // The sum of 0 .. j - 1 by scf.for, and the bits of i + 1 by scf.while.
  EXPECT_EQ(mapped(R"(
func.func private @sum(%n: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = scf.for %k = %c0 to %n step %c1 iter_args(%a = %c0) -> i32 : i32 {
    %b = arith.addi %a, %k : i32
    scf.yield %b : i32
  }
  return %s : i32
}
func.func private @f(%i: i32, %j: i32, %x: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %s = func.call @sum(%j) : (i32) -> i32
  %start = arith.addi %i, %c1 : i32
  %v, %n = scf.while (%v = %start, %n = %c0) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi sgt, %v, %c0 : i32
    scf.condition(%more) %v, %n : i32, i32
  } do {
  ^bb0(%v: i32, %n: i32):
    %h = arith.shrui %v, %c1 : i32
    %n2 = arith.addi %n, %c1 : i32
    scf.yield %h, %n2 : i32, i32
  }
  %t = arith.addi %s, %n : i32
  %z = arith.addi %t, %x : i32
  return %z : i32
})"),
            expectedMap([](int64_t i, int64_t j, int64_t x) {
              return j * (j - 1) / 2 + int64_t(std::log2(double(i + 1))) + 1 + x;
            }));
}

TEST_F(ControlTest, MapsReadCapturesByVaryingIndices) {
  const char *source = R"(
tile.capture @documents : !tile.view<[?], i32>
tile.capture @bias : !tile.view<[?, ?], f32>
func.func private @f(%i: i32, %j: i32, %s: f32) -> f32 {
  %c2 = arith.constant 2 : i32
  %a = tile.at @documents[%i] : i32
  %b = tile.at @documents[%j] : i32
  %d = arith.subi %j, %i : i32
  %e = arith.addi %d, %c2 : i32
  %t = tile.at @bias[%a, %e] : f32
  %same = arith.cmpi eq, %a, %b : i32
  %u = arith.addf %s, %t : f32
  %z = arith.select %same, %u, %s : f32
  return %z : f32
}
tile.kernel @k (%out: !tile.view<[?, ?], f32>) grid(%g = 1) {
  %c0 = arith.constant 0 : i32
  %i = tile.iota %c0 dim 0 : tensor<5x6xi32>
  %j = tile.iota %c0 dim 1 : tensor<5x6xi32>
  %half = arith.constant dense<0.5> : tensor<5x6xf32>
  %z = tile.map @f(%i, %j, %half)
     : (tensor<5x6xi32>, tensor<5x6xi32>, tensor<5x6xf32>) -> tensor<5x6xf32>
  tile.store %z, %out[0, 0] : tensor<5x6xf32>, !tile.view<[?, ?], f32>
})";
  const double ids[] = {0, 0, 1, 1, 2};
  Tensor documents(ElementType::I32, {5}, [&](int64_t i) { return ids[i]; });
  Tensor bias(ElementType::F32, {3, 4}, [](int64_t i) { return double(i) + 1; });
  Tensor out(ElementType::F32, {5, 6});
  run(source,
      {{"documents", documents.argument()}, {"bias", bias.argument()}, {"out", out.argument()}});
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 6; ++j) {
      double a = ids[i], b = j < 5 ? ids[j] : 0; // outside reads zero
      int64_t e = j - i + 2;
      double t = e >= 0 && e < 4 ? bias.get(int64_t(a), e) : 0;
      EXPECT_EQ(out.get(i, j), a == b ? 0.5 + t : 0.5) << i << " " << j;
    }
}

TEST_F(ControlTest, ErrorsAtRunTime) {
  auto kernel = [](const std::string &code) {
    return substitute(R"(
tile.kernel @k (%n: i32) grid(%g = 3, %h = 2) {
  %c0 = arith.constant 0 : i32
  %c10 = arith.constant 10 : i32
  $CODE
})",
                      {{"CODE", code}});
  };
  expectError(kernel("%z = arith.divsi %c10, %n : i32"), {{"n", int64_t(0)}},
              "'arith.divsi' op integer division by zero; divide by a select that replaces zeros\n"
              "note: while running the kernel at g = 0, h = 0");
  expectError(kernel("%d = arith.subi %g, %n : i32 \n %z = arith.remsi %c10, %d : i32"),
              {{"n", int64_t(2)}}, "note: while running the kernel at g = 2, h = 0");
  expectError(kernel("scf.for %i = %c0 to %c10 step %n : i32 { }"), {{"n", int64_t(0)}},
              "'scf.for' op requires a step that is positive, but got 0");
  expectError(
      kernel("%t = tile.iota %n dim 0 : tensor<4xi32> \n %u = tile.full %c10 : tensor<4xi32> \n"
             "%z = arith.divui %u, %t : tensor<4xi32>"),
      {{"n", int64_t(-2)}}, "integer division by zero");
}

TEST_F(ControlTest, RejectsWhatItCannotRun) {
  expectError(R"(
tile.kernel @k (%x: !tile.view<[?], f32>) grid(%g = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> tensor<4xf32>
  tile.store %t, %x[0] : tensor<4xf32>, !tile.view<[?], f32>
  %z = math.acosh %t : tensor<4xf32>
})",
              {},
              "operation 'math.acosh' is not supported by the CPU device; use operations of arith, "
              "math, scf, func, tile and tgpu");
  expectError(R"(
func.func private @f(%x: f32) -> f32
tile.kernel @k (%x: f32) grid(%g = 1) {
  %z = func.call @f(%x) : (f32) -> f32
})",
              {}, "refers to function @f, which has no body; define it");
  // tile-inline-calls removes such calls.
  expectError(R"(
func.func private @f(%x: !tile.view<[?], f32>) -> i32 {
  %n = tile.dim %x, 0 : !tile.view<[?], f32>
  return %n : i32
}
tile.kernel @k (%x: !tile.view<[?], f32>) grid(%g = 1) {
  %n = func.call @f(%x) : (!tile.view<[?], f32>) -> i32
})",
              {}, "'func.call' op must pass tiles and scalars to run on the CPU device, but got ");
  expectError(R"(
tile.capture @c : !tile.view<[?], f32>
func.func private @f() -> !tile.view<[?], f32> {
  %c = tile.captured @c : !tile.view<[?], f32>
  return %c : !tile.view<[?], f32>
}
tile.kernel @k (%x: f32) grid(%g = 1) {
  %c = func.call @f() : () -> !tile.view<[?], f32>
})",
              {}, "'func.func' op returns a view, which is not supported by the CPU device");
  expectError(R"(
func.func private @f(%x: f32) -> f32 {
  %z = func.call @f(%x) : (f32) -> f32
  return %z : f32
}
tile.kernel @k (%x: f32) grid(%g = 1) {
  %z = func.call @f(%x) : (f32) -> f32
})",
              {}, "must not call a function recursively, but got @f");
  expectError(R"(
tile.kernel @k (%x: i32) grid(%g = 1) {
  %z = arith.extsi %x : i32 to i128
})",
              {},
              "has a value of type 'i128', which is not supported by the CPU device; use a tile of "
              "known extents of a float, an index, or an integer of 1, 8, 32 or 64 bits");
  expectError(R"(
tile.kernel @k (%x: f32) grid(%g = 1) {
  %z = tile.full %x : tensor<8192x4096xf32>
})",
              {}, "has a tile of 33554432 elements; the CPU device supports at most 16777216");
}

TEST_F(ControlTest, RejectsCallsThatGrowWithoutEnd) {
  // @f40 expands to 2^40 operations.
  std::string source = R"(
func.func private @f0(%x: f32) -> f32 {
  %z = arith.negf %x : f32
  return %z : f32
})";
  for (int i = 1; i <= 40; ++i)
    source += substitute(R"(
func.func private @fNEXT(%x: f32) -> f32 {
  %y = func.call @fLAST(%x) : (f32) -> f32
  %z = func.call @fLAST(%y) : (f32) -> f32
  return %z : f32
})",
                         {});
  for (int i = 1; i <= 40; ++i) {
    source.replace(source.find("NEXT"), 4, std::to_string(i));
    for (int k = 0; k < 2; ++k)
      source.replace(source.find("LAST"), 4, std::to_string(i - 1));
  }
  expectError(
      source + R"(
tile.kernel @k (%x: f32) grid(%g = 1) {
  %z = func.call @f40(%x) : (f32) -> f32
})",
      {},
      "function @f17 must have at most 262144 operations, counting a function once for each "
      "call of it, but got 393214; call functions less often, or in a loop (scf.for)");
}

TEST_F(ControlTest, BranchesOfViews) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>, %out: !tile.view<[?], f32>)
    grid(%g = 4) {
  %c2 = arith.constant 2 : i32
  %low = arith.cmpi slt, %g, %c2 : i32
  %from, %to = scf.if %low -> (!tile.view<[?], f32>, !tile.view<[?], f32>) {
    scf.yield %x, %y : !tile.view<[?], f32>, !tile.view<[?], f32>
  } else {
    scf.yield %y, %x : !tile.view<[?], f32>, !tile.view<[?], f32>
  }
  %a = tile.load %from[%g] : !tile.view<[?], f32> -> tensor<1xf32>
  %b = tile.load %to[%g] : !tile.view<[?], f32> -> tensor<1xf32>
  %z = arith.subf %a, %b : tensor<1xf32>
  tile.store %z, %out[%g] : tensor<1xf32>, !tile.view<[?], f32>
})";
  Tensor x(ElementType::F32, {4}, [](int64_t i) { return double(i); });
  Tensor y(ElementType::F32, {4}, 10.0), out(ElementType::F32, {4});
  run(source, {{"x", x.argument()}, {"y", y.argument()}, {"out", out.argument()}});
  EXPECT_EQ(values(out), (std::vector<double>{-10, -9, 8, 7}));
}

} // namespace
} // namespace tilewright
