// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime on a real GPU, with a handwritten kernel that follows KernelAbi.h. Skipped without a
// driver.

#include "runtime/Operation.h"

#include "gtest/gtest.h"

#include <dlfcn.h>

#include <cmath>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

// y[i] = x[i] * scale. The second entry also takes a tensor map over x, which it ignores.
constexpr char ptx[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u32 x0, .param .u64 xs, .param .u64 y, .param .u32 y0,
                      .param .u64 ys, .param .f32 factor) {
  .reg .pred %p;
  .reg .b32 %r<5>;
  .reg .b64 %d<6>;
  .reg .f32 %f<3>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.s32 %r3, %r0, %r1, %r2;
  ld.param.u32 %r4, [x0];
  setp.ge.s32 %p, %r3, %r4;
  @%p bra DONE;
  cvt.s64.s32 %d0, %r3;
  ld.param.u64 %d1, [xs];
  mul.lo.s64 %d1, %d1, %d0;
  shl.b64 %d1, %d1, 2;
  ld.param.u64 %d2, [x];
  add.s64 %d2, %d2, %d1;
  ld.global.f32 %f0, [%d2];
  ld.param.f32 %f1, [factor];
  mul.f32 %f0, %f0, %f1;
  ld.param.u64 %d3, [ys];
  mul.lo.s64 %d3, %d3, %d0;
  shl.b64 %d3, %d3, 2;
  ld.param.u64 %d4, [y];
  add.s64 %d4, %d4, %d3;
  st.global.f32 [%d4], %f0;
DONE:
  ret;
}
.visible .entry mapped(.param .u64 x, .param .u32 x0, .param .u32 x1, .param .u64 xs0,
                       .param .u64 xs1, .param .align 64 .b8 map[128]) {
  ret;
}
)";

BundleWriter gpuBundle() {
  BundleWriter writer;
  writer.manifest.source = "scale.mlir";
  KernelSpec scale;
  scale.name = scale.entry = "scale";
  scale.arguments = {ArgumentSpec::view("x", ElementType::F32, {-1}),
                     ArgumentSpec::view("y", ElementType::F32, {-1}),
                     ArgumentSpec::scalar("scale", ElementType::F32)};
  scale.codes = {{CodeSpec::Kind::Ptx, *Arch::parse("sm_80"), 70, writer.addPtx(ptx)}};
  scale.grid = {*Expr::call("ceildiv", {Expr::dim("x", 0), Expr::integer(128)})};
  scale.block = {128, 1, 1};
  scale.sharedBytes = 65536;
  KernelSpec mapped = scale;
  mapped.name = mapped.entry = "mapped";
  mapped.arguments = {ArgumentSpec::view("x", ElementType::BF16, {-1, -1})};
  mapped.grid = {Expr::integer(1)};
  mapped.tensorMaps = {{0, {64, 64}, Swizzle::B128}};
  KernelSpec broken = scale;
  broken.name = "broken";
  broken.codes[0].blob = writer.addPtx(
      ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry scale() nonsense\n");
  KernelSpec wrong = scale;
  wrong.name = "wrong";
  wrong.arguments.push_back(ArgumentSpec::scalar("more", ElementType::I32));
  KernelSpec indexed = scale; // its code does not use the elements of x as indices
  indexed.name = "indexed";
  indexed.arguments[0].type = ElementType::I32;
  indexed.elements.resize(1);
  indexed.elements.push_back(
      {numeric::ElementRule::Within, 0, Expr::integer(0), Expr::dim("y", 0), 0, Expr()});
  ProgramSpec program;
  program.name = "square";
  program.arguments = scale.arguments;
  formOf(program).workspaces = {
      {"tmp", ElementType::F32, {Expr::dim("x", 0)}, fillPattern(ElementType::F32, 3.0)}};
  LaunchSpec first, last;
  first.kernels = last.kernels = {0};
  first.arguments = {"x", "tmp", "scale"};
  last.arguments = {"tmp", "y", "scale"};
  formOf(program).launches = {first, last};
  writer.manifest.kernels = {scale, mapped, broken, wrong, indexed};
  writer.manifest.programs = {program};
  return writer;
}

class RuntimeGpu : public ::testing::Test {
protected:
  void SetUp() override {
    Result<const DriverTable *> system = DriverTable::system();
    if (!system)
      GTEST_SKIP() << "no GPU: " << system.status().message();
    driver = *system;
    if (Result<int> count = countDevices(*driver); !count || *count == 0)
      GTEST_SKIP() << "no GPU: the driver has no device";
    setenv("TILEWRIGHT_CACHE_DIR", (::testing::TempDir() + "/runtime-gpu-cache").c_str(), 1);
    bundle = *Bundle::fromBytes(*gpuBundle().bytes());
    Result<PrimaryContext> retained = PrimaryContext::retain(*driver, *queryDevice(*driver, 0));
    ASSERT_TRUE(retained.ok()) << retained.status().message();
    primary = std::move(*retained);
    ASSERT_EQ(driver->cuCtxPushCurrent(primary.get()), cuda::Success);
    ASSERT_EQ(driver->cuStreamCreate(&stream, 1), cuda::Success);
    ASSERT_EQ(driver->cuMemAlloc(&x, 4 * n), cuda::Success);
    ASSERT_EQ(driver->cuMemAlloc(&y, 4 * n), cuda::Success);
    ASSERT_EQ(driver->cuMemAlloc(&workspace, 1 << 20), cuda::Success);
    for (int64_t i = 0; i < n; ++i)
      host[i] = float(i % 1000);
    ASSERT_EQ(driver->cuMemcpyHtoDAsync(x, host.data(), 4 * n, stream), cuda::Success);
  }
  void TearDown() override {
    if (!stream)
      return;
    for (cuda::DevicePtr memory : {x, y, workspace})
      EXPECT_EQ(driver->cuMemFree(memory), cuda::Success);
    EXPECT_EQ(driver->cuStreamDestroy(stream), cuda::Success);
    cuda::Context popped;
    EXPECT_EQ(driver->cuCtxPopCurrent(&popped), cuda::Success);
  }
  Operation create(const char *name) {
    Result<Operation> operation = Operation::create(*driver, bundle, name);
    EXPECT_TRUE(operation.ok()) << operation.status().message();
    return std::move(*operation);
  }
  Status run(const Operation &operation, float scale, cuda::Stream on) {
    Argument list[] = {Argument::dense(x, ElementType::F32, {n}),
                       Argument::dense(y, ElementType::F32, {n}), Argument::scalar(scale)};
    const Argument *pointers[] = {&list[0], &list[1], &list[2]};
    return operation.run(pointers, 3, workspace, 1 << 20, on);
  }
  void expectResult(float factor) {
    std::vector<float> result(n);
    ASSERT_EQ(driver->cuMemcpyDtoHAsync(result.data(), y, 4 * n, stream), cuda::Success);
    ASSERT_EQ(driver->cuStreamSynchronize(stream), cuda::Success);
    int64_t wrong = 0;
    for (int64_t i = 0; i < n; ++i)
      wrong += result[i] != host[i] * factor;
    EXPECT_EQ(wrong, 0);
  }

  static constexpr int64_t n = 100001;
  const DriverTable *driver = nullptr;
  std::shared_ptr<const Bundle> bundle;
  PrimaryContext primary;
  cuda::Stream stream = nullptr;
  cuda::DevicePtr x = 0, y = 0, workspace = 0;
  std::vector<float> host = std::vector<float>(n);
};

TEST_F(RuntimeGpu, RunsAKernelOnAStream) {
  for (int i = 0; i < 2; ++i) { // the second finds the code in the cache
    Operation operation = create("scale");
    Status status = operation.prepare(0);
    ASSERT_TRUE(status.ok()) << status.message();
    status = run(operation, 2.0f, stream);
    ASSERT_TRUE(status.ok()) << status.message();
    expectResult(2.0f);
  }
}

TEST_F(RuntimeGpu, RunsAProgramWithoutACurrentContext) {
  Operation operation = create("square");
  ASSERT_TRUE(operation.prepare(0).ok());
  cuda::Context popped;
  ASSERT_EQ(driver->cuCtxPopCurrent(&popped), cuda::Success);
  Status status = run(operation, 3.0f, stream);
  ASSERT_EQ(driver->cuCtxPushCurrent(popped), cuda::Success);
  ASSERT_TRUE(status.ok()) << status.message();
  expectResult(9.0f);
}

TEST_F(RuntimeGpu, IsCapturedIntoAGraph) {
  // Looked up as an application would: the runtime itself does not use graphs.
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  auto find = [&](const char *name) { return dlsym(library, name); };
  auto begin = reinterpret_cast<int (*)(cuda::Stream, int)>(find("cuStreamBeginCapture_v2"));
  auto end = reinterpret_cast<int (*)(cuda::Stream, void **)>(find("cuStreamEndCapture"));
  auto instantiate = reinterpret_cast<int (*)(void **, void *, unsigned long long)>(
      find("cuGraphInstantiateWithFlags"));
  auto launch = reinterpret_cast<int (*)(void *, cuda::Stream)>(find("cuGraphLaunch"));
  ASSERT_TRUE(begin && end && instantiate && launch);
  Operation late = create("scale"), operation = create("square");
  ASSERT_TRUE(operation.prepare(0).ok());
  ASSERT_EQ(driver->cuStreamSynchronize(stream), cuda::Success);
  ASSERT_EQ(begin(stream, 0), cuda::Success);
  Status unprepared = run(late, 1.0f, stream);
  EXPECT_EQ(unprepared.code(), Code::NotPrepared);
  EXPECT_NE(unprepared.message().find("is being captured"), std::string::npos);
  Status status = run(operation, 2.0f, stream);
  EXPECT_TRUE(status.ok()) << status.message();
  void *graph = nullptr, *executable = nullptr;
  ASSERT_EQ(end(stream, &graph), cuda::Success);
  ASSERT_EQ(instantiate(&executable, graph, 0), cuda::Success);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(launch(executable, stream), cuda::Success);
  expectResult(4.0f);
}

TEST_F(RuntimeGpu, ChecksIndicesBehindTheWorkOfTheStream) {
  Operation operation = create("indexed");
  ASSERT_TRUE(operation.prepare(0).ok());
  operation.checkIndices(true);
  std::vector<int32_t> indices(n);
  auto runOn = [&](int64_t count, int64_t stride) {
    int64_t extents[] = {count}, strides[] = {stride};
    Argument list[] = {Argument::view(x, ElementType::I32, 1, extents, strides),
                       Argument::dense(y, ElementType::F32, {n}), Argument::scalar(1.0f)};
    const Argument *pointers[] = {&list[0], &list[1], &list[2]};
    // The stream has not copied them yet when the run begins.
    EXPECT_EQ(driver->cuMemcpyHtoDAsync(x, indices.data(), 4 * n, stream), cuda::Success);
    return operation.run(pointers, 3, workspace, 1 << 20, stream).message();
  };
  for (int64_t i = 0; i < n; ++i)
    indices[size_t(i)] = int32_t(i);
  EXPECT_EQ(runOn(n, 1), "");
  indices[n - 1] = 5;
  EXPECT_EQ(runOn(n, 1), "kernel 'indexed' requires 'ascending(x)', but got x[100000] = 5 after "
                         "99999");
  EXPECT_EQ(runOn(100, 3), "");
  indices[300] = int32_t(n);
  EXPECT_EQ(runOn(101, 3), "kernel 'indexed' requires 'within(x, 0, dim(y, 0))', but got x[100] = "
                           "100001; it must be from 0 to 100000");
  indices[300] = -1;
  EXPECT_EQ(runOn(101, 3), "kernel 'indexed' requires 'ascending(x)', but got x[100] = -1 after "
                           "297");
  operation.checkIndices(false);
  EXPECT_EQ(runOn(n, 1), "");
  if (!driver->cuStreamBeginCapture || !driver->cuStreamEndCapture)
    return;
  operation.checkIndices(true);
  Argument list[] = {Argument::dense(x, ElementType::I32, {n}),
                     Argument::dense(y, ElementType::F32, {n}), Argument::scalar(1.0f)};
  const Argument *pointers[] = {&list[0], &list[1], &list[2]};
  ASSERT_EQ(driver->cuStreamSynchronize(stream), cuda::Success);
  ASSERT_EQ(driver->cuStreamBeginCapture(stream, 0), cuda::Success);
  Status status = operation.run(pointers, 3, workspace, 1 << 20, stream);
  cuda::Graph graph = nullptr;
  // An error does not affect the capture.
  EXPECT_EQ(driver->cuStreamEndCapture(stream, &graph), cuda::Success);
  EXPECT_EQ(status.code(), Code::Unsupported) << status.message();
}

TEST_F(RuntimeGpu, EncodesTensorMaps) {
  if (queryDevice(*driver, 0)->major < 9)
    GTEST_SKIP() << "tensor maps need compute capability 9.0";
  Operation operation = create("mapped");
  ASSERT_TRUE(operation.prepare(0).ok());
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{100, 64}, {0, 64}, {1, 64}}) {
    Argument argument = Argument::dense(x, ElementType::BF16, {rows, columns});
    const Argument *pointer = &argument;
    Status status = operation.run(&pointer, 1, 0, 0, stream);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(driver->cuStreamSynchronize(stream), cuda::Success);
}

TEST_F(RuntimeGpu, ReportsTheCompilerOfTheDriver) {
  Status status = create("broken").prepare(0);
  EXPECT_EQ(status.code(), Code::Compile) << status.message();
  EXPECT_NE(status.log(), "");
  EXPECT_EQ(status.driverName(), "CUDA_ERROR_INVALID_PTX");
  if (!driver->cuKernelGetParamInfo)
    GTEST_SKIP() << "this driver does not tell the parameters of a kernel";
  EXPECT_EQ(create("wrong").prepare(0).message(),
            "the code of kernel 'wrong' takes 7 parameters, but its manifest says 8");
}

TEST_F(RuntimeGpu, ReportsALackOfMemory) {
  cuda::DevicePtr memory = 0;
  Status status = driver->check(driver->cuMemAlloc(&memory, size_t(1) << 50), "cuMemAlloc",
                                "allocate 2^50 bytes");
  EXPECT_EQ(status.code(), Code::OutOfMemory);
  EXPECT_EQ(status.driverName(), "CUDA_ERROR_OUT_OF_MEMORY");
}

} // namespace
