// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text of options, and the binding of files to the arguments of a compiled kernel.

#include "base/Npy/Npy.h"
#include "lib/Driver/NpyBinding.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "gtest/gtest.h"

using namespace tilewright;

namespace {

template <typename T> std::string message(llvm::Expected<T> result) {
  return result ? "" : llvm::toString(result.takeError());
}

TEST(BindingOptions, SplitsNameFileAndType) {
  ArrayRequest request = llvm::cantFail(parseIn("q=x.npy"));
  EXPECT_EQ(request.name, "q");
  EXPECT_EQ(request.input, "x.npy");
  EXPECT_FALSE(request.type);
  request = llvm::cantFail(parseIn("q=dir/x.npy:bf16"));
  EXPECT_EQ(request.input, "dir/x.npy");
  EXPECT_EQ(request.type, ElementType::BF16);
}

TEST(BindingOptions, LeavesSeparatorsInsidePathsAlone) {
  EXPECT_EQ(llvm::cantFail(parseIn("q=a=b.npy")).input, "a=b.npy");
  EXPECT_EQ(llvm::cantFail(parseIn("q=a:b.npy")).input, "a:b.npy");
  EXPECT_EQ(llvm::cantFail(parseIn("q=a:f32/b:f16")).input, "a:f32/b");
  ArrayRequest out = llvm::cantFail(parseOut("o=a@b/c:d.npy:f16@2x3"));
  EXPECT_EQ(out.output, "a@b/c:d.npy");
  EXPECT_EQ(out.type, ElementType::F16);
  EXPECT_EQ(out.shape, llvm::ArrayRef<int64_t>({2, 3}));
  ArrayRequest both = llvm::cantFail(parseInOut("x=a=b.npy:f32=c.npy"));
  EXPECT_EQ(both.input, "a=b.npy");
  EXPECT_EQ(both.type, ElementType::F32);
  EXPECT_EQ(both.output, "c.npy");
}

TEST(BindingOptions, ReadsShapesOfEveryRank) {
  EXPECT_TRUE(llvm::cantFail(parseOut("o=y.npy@")).shape.empty());
  EXPECT_EQ(llvm::cantFail(parseOut("o=y.npy@0")).shape, llvm::ArrayRef<int64_t>({0}));
  EXPECT_EQ(message(parseOut("o=y.npy@2x")),
            "expected extents such as 2x8x128 after '@' but got '2x'");
}

TEST(BindingOptions, SaysWhatItExpected) {
  EXPECT_EQ(message(parseIn("q")), "expected NAME=FILE.npy[:TYPE] but got 'q'");
  EXPECT_EQ(message(parseIn("=x.npy")), "expected NAME=FILE.npy[:TYPE] but got '=x.npy'");
  EXPECT_EQ(message(parseOut("o=@2")), "expected NAME=FILE.npy[:TYPE]@DIMxDIM... but got 'o=@2'");
  EXPECT_EQ(message(parseInOut("x=a.npy=")),
            "expected NAME=FILE.npy[:TYPE]=RESULT.npy but got 'x=a.npy='");
  EXPECT_EQ(message(parseStrides("q=1,,2")),
            "expected strides in elements such as 1024,64,1 but got '1,,2'");
  EXPECT_EQ(message(parseParam("D")), "expected NAME=VALUE but got 'D'");
}

constexpr llvm::StringLiteral kernelText = R"(
tile.capture @unused : f32
tile.capture @table : !tile.view<[?], i32>
tile.capture @gain : f32
func.func private @f(%x: f32, %i: i32) -> f32 {
  %g = func.call @scaled() : () -> f32
  %unread = tile.at @table[%i] : i32
  %y = arith.mulf %x, %g : f32
  return %y : f32
}
func.func private @scaled() -> f32 {
  %g = tile.at @gain : f32
  return %g : f32
}
tile.kernel @k params(N: int)
    (%x: !tile.view<[?, N], f32>, %y: optional !tile.view<[?, N], f32>, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %t = tile.load %x[0, 0] : !tile.view<[?, N], f32> -> !tile.tile<[N], f32>
  %j = tile.iota %c0 dim 0 : !tile.tile<[N], i32>
  %u = tile.map @f(%t, %j) : (!tile.tile<[N], f32>, !tile.tile<[N], i32>) -> !tile.tile<[N], f32>
  tile.store %u, %y[0, 0] : !tile.tile<[N], f32>, !tile.view<[?, N], f32>
}
)";

class BindingTest : public ::testing::Test {
protected:
  BindingTest() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
    TilePipelineOptions options;
    options.params = {{"N", "4"}};
    module = compileBuffer(context, llvm::MemoryBufferRef(kernelText, "kernel.mlir"), options);
    llvm::sys::fs::createUniqueDirectory("tilewright", folder);
  }
  ~BindingTest() override { llvm::sys::fs::remove_directories(folder); }

  std::string path(llvm::StringRef name) { return (folder + "/" + name).str(); }

  template <typename T>
  std::string write(llvm::StringRef name, ElementType type, std::vector<int64_t> shape,
                    const std::vector<T> &values) {
    Result<NpyArray> array = convertToNpy(type, values.data(), shape);
    EXPECT_TRUE(array && writeNpy(path(name), *array).ok());
    return path(name);
  }

  BindingRequest completeRequest() {
    BindingRequest request;
    std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7};
    std::vector<int32_t> table = {5};
    request.arrays.push_back({"x", write("x.npy", ElementType::F32, {2, 4}, x), "", {}, {}});
    request.arrays.push_back({"table", write("t.npy", ElementType::I32, {1}, table), "", {}, {}});
    request.arrays.push_back({"y", "", path("y.npy"), {}, {2, 4}});
    request.scalars = {{"gain", "2"}, {"n", "7"}};
    return request;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::SmallString<128> folder;
};

TEST_F(BindingTest, ArgumentsEndWithTheCapturesThatAreReached) {
  ASSERT_TRUE(module);
  llvm::SmallVector<ArgumentInfo> arguments = getArguments(findEntry(*module));
  std::vector<std::string> names;
  for (const ArgumentInfo &argument : arguments)
    names.push_back(argument.name);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "y", "n", "table", "gain"}));
  EXPECT_FALSE(arguments[0].isOptional);
  EXPECT_TRUE(arguments[1].isOptional);
  EXPECT_TRUE(arguments[3].isCapture);
}

TEST_F(BindingTest, BindsRunsAndWrites) {
  BindingRequest request = completeRequest();
  request.strides = {{"x", {1, 3}}, {"y", {9, 2}}};
  mlir::Operation *entry = findEntry(*module);
  llvm::Expected<NpyBinding> binding = NpyBinding::create(getArguments(entry), request);
  ASSERT_TRUE(static_cast<bool>(binding)) << llvm::toString(binding.takeError());
  ASSERT_TRUE(mlir::succeeded(runOnCpu(entry, binding->getArguments(), {})));
  ASSERT_FALSE(binding->writeResults());
  Result<NpyArray> y = readNpy(path("y.npy"));
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(y->shape, (std::vector<int64_t>{2, 4}));
  const float *values = reinterpret_cast<const float *>(y->bytes.data());
  EXPECT_EQ(std::vector<float>(values, values + 4), (std::vector<float>{0, 2, 4, 6}));
}

TEST_F(BindingTest, ResetRestoresInputsAndPoisonsOutputs) {
  llvm::Expected<NpyBinding> binding =
      NpyBinding::create(getArguments(findEntry(*module)), completeRequest());
  ASSERT_TRUE(static_cast<bool>(binding)) << llvm::toString(binding.takeError());
  auto dataOf = [&](llvm::StringRef name) {
    const auto &array = std::get<ArrayArgument>(binding->getArguments().find(name)->second);
    return static_cast<float *>(array.data);
  };
  dataOf("x")[1] = 100.0f;
  dataOf("y")[1] = 100.0f;
  binding->reset();
  EXPECT_EQ(dataOf("x")[1], 1.0f);
  EXPECT_NE(dataOf("y")[1], dataOf("y")[1]) << "NaN";
}

TEST_F(BindingTest, ReportsMemoryWrittenBetweenElements) {
  BindingRequest request = completeRequest();
  request.strides = {{"y", {5, 1}}};
  llvm::Expected<NpyBinding> binding =
      NpyBinding::create(getArguments(findEntry(*module)), request);
  ASSERT_TRUE(static_cast<bool>(binding)) << llvm::toString(binding.takeError());
  const auto &y = std::get<ArrayArgument>(binding->getArguments().find("y")->second);
  static_cast<float *>(y.data)[4] = 0.0f;
  EXPECT_EQ(llvm::toString(binding->writeResults()),
            "memory between the elements of 'y' must not be written, but is by the kernel");
}

TEST_F(BindingTest, HoldsFloatsInF64OnRequest) {
  BindingRequest request = completeRequest();
  request.f64 = true;
  llvm::Expected<NpyBinding> binding =
      NpyBinding::create(getArguments(findEntry(*module)), request);
  ASSERT_TRUE(static_cast<bool>(binding)) << llvm::toString(binding.takeError());
  EXPECT_EQ(std::get<ArrayArgument>(binding->getArguments().find("x")->second).type,
            ElementType::F64);
  EXPECT_EQ(std::get<ArrayArgument>(binding->getArguments().find("table")->second).type,
            ElementType::I32);
}

TEST_F(BindingTest, MistypedNamesComeBeforeMissingArguments) {
  BindingRequest request = completeRequest();
  request.scalars = {{"gian", "2"}};
  EXPECT_EQ(message(NpyBinding::create(getArguments(findEntry(*module)), request)),
            "there is no argument 'gian'; did you mean 'gain'?");
}

} // namespace
