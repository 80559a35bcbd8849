// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arguments, programs, threads and the f64 run of the CPU device.

#include "InterpreterTesting.h"

#include "base/Numeric/ThreadPool.h"

namespace tilewright {
namespace {

class DeviceTest : public InterpreterTest {
protected:
  /// A kernel with one argument of each kind; good() returns valid arguments.
  static constexpr const char *source = R"(
tile.capture @slopes : !tile.view<[?], f32>
tile.kernel @k (%x: !tile.view<[?, 4], f16>, %y: optional !tile.view<[?], i32>, %scale: f32,
                %n: i32,
                %on: i1, %seed: i64) grid(%g = dim(x, 0), %h = n) {
})";
  Arguments good() {
    return {{"x", x.argument()},
            {"y", y.argument()},
            {"scale", 0.5},
            {"n", int64_t(1)},
            {"on", int64_t(1)},
            {"seed", int64_t(1) << 40},
            {"slopes", slopes.argument()}};
  }
  Arguments with(const std::string &name, Argument argument) {
    Arguments arguments = good();
    arguments[name] = argument;
    return arguments;
  }
  Arguments without(const std::string &name) {
    Arguments arguments = good();
    arguments.erase(name);
    return arguments;
  }
  Tensor x{ElementType::F16, {3, 4}}, y{ElementType::I32, {5}}, slopes{ElementType::F32, {2}};
};

TEST_F(DeviceTest, ArgumentsThatFit) {
  run(source, good());
  run(source, without("y"));
  run(source, with("scale", int64_t(2)));
  run(source, with("x", Tensor(ElementType::F16, {0, 4}).argument()));
  run(source, with("n", int64_t(0)));
}

TEST_F(DeviceTest, ArgumentsThatDoNotFit) {
  expectError(source, without("x"), "requires argument 'x', but got none");
  expectError(source, without("slopes"), "requires capture 'slopes', but got none");
  expectError(source, with("z", 1.0),
              "has no argument 'z'; it takes x, y, scale, n, on, seed, slopes");
  expectError(source, with("x", 1.0), "requires an array for argument 'x', but got a scalar");
  expectError(source, with("scale", x.argument()),
              "requires a scalar of type 'f32' for argument 'scale', but got an array");
  expectError(source, with("x", Tensor(ElementType::F32, {3, 4}).argument()),
              "requires elements of type f16 in argument 'x', but got f32");
  expectError(source, with("x", Tensor(ElementType::F16, {3, 4, 1}).argument()),
              "requires an array of rank 2 for argument 'x', but got rank 3");
  expectError(source, with("x", Tensor(ElementType::F16, {3, 5}).argument()),
              "requires extent 4 along dimension 1 of argument 'x', but got 5");
  expectError(source, with("n", 1.5),
              "requires an integer for argument 'n' of type 'i32', but got 1.5");
  expectError(source, with("n", int64_t(1) << 31),
              "requires a value from -2147483648 to 2147483647 for argument 'n' of type 'i32', but "
              "got 2147483648");
  expectError(source, with("on", int64_t(2)), "requires a value from 0 to 1 for argument 'on'");
  expectError(source, with("n", int64_t(-1)),
              "requires a grid extent from 0 to 2147483647 for 'h', but got -1");

  ArrayArgument array = x.argument();
  array.shape[0] = -1;
  expectError(source, with("x", array),
              "requires extents that are not negative, but got -1 along "
              "dimension 0 of argument 'x'");
  array.shape[0] = int64_t(1) << 31;
  expectError(source, with("x", array), "requires extents up to 2147483647, but got 2147483648");
  array = x.argument();
  array.strides.pop_back();
  expectError(source, with("x", array),
              "requires one stride for each of the 2 dimensions of argument 'x', but got 1");
  array = x.argument();
  array.data = nullptr;
  expectError(source, with("x", array), "requires memory for argument 'x', but got a null pointer");
}

TEST_F(DeviceTest, ArraysOfARunInF64) {
  RunOptions options;
  options.f64 = true;
  expectError(source, good(),
              "requires elements of type f64 in argument 'x', since the run is in f64, but got f16",
              options);
  Tensor wide(ElementType::F64, {3, 4}), slopes64(ElementType::F64, {2});
  Arguments arguments = with("x", wide.argument());
  arguments["slopes"] = slopes64.argument();
  run(source, arguments, options);
}

TEST_F(DeviceTest, ScalarsAreRoundedToTheirType) {
  const char *kernel = R"(
tile.kernel @k (%s: f16, %out: !tile.view<[?], f16>) grid(%g = 1) {
  %t = tile.full %s : tensor<1xf16>
  tile.store %t, %out[0] : tensor<1xf16>, !tile.view<[?], f16>
})";
  Tensor out(ElementType::F16, {1}), wide(ElementType::F64, {1});
  run(kernel, {{"s", 0.1}, {"out", out.argument()}});
  EXPECT_EQ(out.get(0), numeric::roundToType(0.1, ElementType::F16));
  RunOptions options;
  options.f64 = true;
  run(kernel, {{"s", 0.1}, {"out", wide.argument()}}, options);
  EXPECT_EQ(wide.get(0), 0.1);
}

TEST_F(DeviceTest, EveryPointOfTheGridRunsOnce) {
  const char *kernel = R"(
tile.kernel @k (%out: !tile.view<[?, ?, ?], i32>)
    grid(%i = dim(out, 0), %j = dim(out, 1), %k = dim(out, 2)) {
  %one = arith.constant dense<1> : tensor<1x1x1xi32>
  tile.atomic_add %one, %out[%i, %j, %k] : tensor<1x1x1xi32>, !tile.view<[?, ?, ?], i32>
})";
  for (unsigned threads : {1u, 2u, 7u}) {
    Tensor out(ElementType::I32, {5, 11, 3});
    RunOptions options;
    options.threads = threads;
    run(kernel, {{"out", out.argument()}}, options);
    for (int64_t i = 0; i < out.count; ++i)
      EXPECT_EQ(out.get(i), 1);
  }
}

TEST_F(DeviceTest, ResultsDoNotDependOnThreads) {
  const char *kernel = R"(
tile.kernel @k (%x: !tile.view<[?, ?], f32>, %y: !tile.view<[?], f32>)
    grid(%g = ceildiv(dim(x, 0), 8)) {
  %c8 = arith.constant 8 : i32
  %row = arith.muli %g, %c8 : i32
  %t = tile.load %x[%row, 0] : !tile.view<[?, ?], f32> -> tensor<8x64xf32>
  %e = math.exp %t : tensor<8x64xf32>
  %p = tile.dot %e, %e transpose_b : tensor<8x64xf32>, tensor<8x64xf32> -> tensor<8x8xf32>
  %s = tile.reduce add %p dim 1 : tensor<8x8xf32> -> tensor<8xf32>
  tile.store %s, %y[%row] : tensor<8xf32>, !tile.view<[?], f32>
})";
  Tensor in(ElementType::F32, {203, 64}, [](int64_t i) { return std::sin(double(i) * 0.37); });
  std::vector<char> first;
  for (unsigned threads : {1u, 2u, 3u, 8u, 0u}) {
    Tensor out(ElementType::F32, {203});
    RunOptions options;
    options.threads = threads;
    run(kernel, {{"x", in.argument()}, {"y", out.argument()}}, options);
    if (first.empty())
      first = out.memory;
    EXPECT_EQ(out.memory, first) << threads;
  }
}

TEST_F(DeviceTest, TheFirstErrorStopsTheRun) {
  const char *kernel = R"(
tile.kernel @k (%n: i32) grid(%g = 1000000000) {
  %c1 = arith.constant 1 : i32
  %d = arith.subi %n, %g : i32
  %z = arith.divsi %c1, %d : i32
})";
  expectError(kernel, {{"n", int64_t(5)}}, "note: while running the kernel at g = 5");
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

class ProgramTest : public InterpreterTest {
protected:
  static constexpr const char *kernels = R"(
tile.capture @offset : f32
tile.kernel @square (%in: !tile.view<[?], f32>, %out: !tile.view<[?], f32>) grid(%g = dim(in, 0)) {
  %t = tile.load %in[%g] : !tile.view<[?], f32> -> tensor<1xf32>
  %z = arith.mulf %t, %t : tensor<1xf32>
  tile.store %z, %out[%g] : tensor<1xf32>, !tile.view<[?], f32>
}
tile.kernel @add (%in: !tile.view<[?], f32>, %out: !tile.view<[?], f32>, %s: f32)
    grid(%g = dim(in, 0)) {
  %f = tile.at @offset : f32
  %o = arith.addf %f, %s : f32
  %t = tile.load %in[%g] : !tile.view<[?], f32> -> tensor<1xf32>
  %b = tile.full %o : tensor<1xf32>
  %z = arith.addf %t, %b : tensor<1xf32>
  tile.store %z, %out[%g] : tensor<1xf32>, !tile.view<[?], f32>
}
)";
};

TEST_F(ProgramTest, LaunchesInOrderThroughWorkspaces) {
  std::string source = std::string(kernels) + R"(
tile.program @p (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>, %s: f32, %again: i32) {
  %w = tile.workspace [dim(x, 0)] : !tile.view<[?], f32>
  tile.launch @square(%x, %w) : !tile.view<[?], f32>, !tile.view<[?], f32>
  tile.launch @square(%w, %w) when (again > 0) : !tile.view<[?], f32>, !tile.view<[?], f32>
  tile.launch @add(%w, %y, %s) : !tile.view<[?], f32>, !tile.view<[?], f32>, f32
})";
  for (int64_t again : {0, 1}) {
    Tensor x(ElementType::F32, {9}, [](int64_t i) { return double(i); });
    Tensor y(ElementType::F32, {9});
    run(source,
        {{"x", x.argument()}, {"y", y.argument()}, {"s", 0.5}, {"again", again}, {"offset", 0.25}});
    for (int64_t i = 0; i < 9; ++i)
      EXPECT_EQ(y.get(i), std::pow(double(i), again ? 4 : 2) + 0.75);
  }
}

TEST_F(ProgramTest, WorkspacesAreFilledOrPoisoned) {
  auto source = [](const std::string &type, const std::string &fill) {
    return substitute(R"(
tile.kernel @copy (%in: !tile.view<[?, 3], $T>, %out: !tile.view<[?, 3], $T>) grid(%g = 1) {
  %t = tile.load %in[0, 0] : !tile.view<[?, 3], $T> -> tensor<8x4x$T>
  tile.store %t, %out[0, 0] : tensor<8x4x$T>, !tile.view<[?, 3], $T>
}
tile.program @p (%y: !tile.view<[?, 3], $T>, %n: i32) {
  %w = tile.workspace [n * 2 + 1, 3] $FILL : !tile.view<[?, 3], $T>
  tile.launch @copy(%w, %y) : !tile.view<[?, 3], $T>, !tile.view<[?, 3], $T>
})",
                      {{"T", type}, {"FILL", fill}});
  };
  struct Case {
    ElementType type;
    const char *name;
  } cases[] = {{ElementType::F32, "f32"},       {ElementType::F64, "f64"},
               {ElementType::F16, "f16"},       {ElementType::BF16, "bf16"},
               {ElementType::E4M3, "f8E4M3FN"}, {ElementType::E5M2, "f8E5M2"}};
  for (const Case &test : cases) {
    Tensor y(test.type, {5, 3});
    run(source(test.name, ""), {{"y", y.argument()}, {"n", int64_t(2)}});
    for (int64_t i = 0; i < y.count; ++i)
      EXPECT_TRUE(std::isnan(y.get(i))) << test.name;
    run(source(test.name, "fill -1.5"), {{"y", y.argument()}, {"n", int64_t(2)}});
    for (int64_t i = 0; i < y.count; ++i)
      EXPECT_EQ(y.get(i), -1.5) << test.name;
    run(source(test.name, "fill 7"), {{"y", y.argument()}, {"n", int64_t(2)}});
    EXPECT_EQ(y.get(14), 7) << test.name;
  }
  Tensor y(ElementType::I32, {5, 3});
  run(source("i32", "fill 7"), {{"y", y.argument()}, {"n", int64_t(2)}});
  EXPECT_EQ(y.get(14), 7);
  Tensor words(ElementType::I64, {5, 3});
  run(source("i64", "fill -9007199254740993"), {{"y", words.argument()}, {"n", int64_t(2)}});
  EXPECT_EQ(reinterpret_cast<const int64_t *>(words.memory.data())[14], -9007199254740993);
  run(source("i32", ""), {{"y", y.argument()}, {"n", int64_t(2)}});
  EXPECT_LT(y.get(14), -1e9);
  expectError(source("i32", ""), {{"y", y.argument()}, {"n", int64_t(-2)}},
              "'tile.workspace' op requires extents from 0 to 2147483647, but got -3 along "
              "dimension 0");
}

TEST_F(ProgramTest, ExtentsAreCheckedAtTheLaunch) {
  const char *source = R"(
tile.kernel @k (%x: !tile.view<[4], f32>) grid(%g = 1) {
}
tile.program @p (%x: !tile.view<[?], f32>) {
  tile.launch @k(%x) : !tile.view<[?], f32>
})";
  Tensor four(ElementType::F32, {4}), five(ElementType::F32, {5});
  run(source, {{"x", four.argument()}});
  expectError(source, {{"x", five.argument()}},
              "'tile.launch' op requires extent 4 along dimension 0 of argument 'x', but got 5");
}

TEST_F(ProgramTest, ReadsTheNumberOfCores) {
  const char *source = R"(
tile.kernel @k (%n: !tile.view<[?], i32>) grid(%g = sm_count()) {
  %one = arith.constant dense<1> : tensor<1xi32>
  tile.atomic_add %one, %n[0] : tensor<1xi32>, !tile.view<[?], i32>
})";
  Tensor n(ElementType::I32, {1});
  run(source, {{"n", n.argument()}});
  EXPECT_EQ(n.get(0), double(numeric::hardwareThreads()));
}

TEST_F(ProgramTest, NothingRunsWhereAKernelIsRejected) {
  const char *source = R"(
tile.kernel @good (%x: !tile.view<[?], f32>) grid(%g = 1) {
  %one = arith.constant dense<1.0> : tensor<4xf32>
  tile.store %one, %x[0] : tensor<4xf32>, !tile.view<[?], f32>
}
tile.kernel @bad (%x: !tile.view<[?], f32>) grid(%g = 1) {
  %one = arith.constant 1.0 : f32
  %z = math.asinh %one : f32
}
tile.program @p (%x: !tile.view<[?], f32>) {
  tile.launch @good(%x) : !tile.view<[?], f32>
  tile.launch @bad(%x) : !tile.view<[?], f32>
})";
  Tensor x(ElementType::F32, {4});
  expectError(source, {{"x", x.argument()}},
              "operation 'math.asinh' is not supported by the CPU device; use operations of arith, "
              "math, scf, func, tile and tgpu");
  EXPECT_EQ(x.get(0), 0);
}

} // namespace
} // namespace tilewright
