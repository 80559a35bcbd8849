// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bundles of the compiler, and calls with host arrays, on a driver without a GPU whose device
// memory is host memory.

#include "lib/Driver/BundleRequest.h"
#include "lib/Driver/DeviceRun.h"
#include "lib/Interpreter/EntryRun.h"
#include "test/Unit/DriverGpuDeviceTesting.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace tilewright;
using namespace tilewright::testing;

namespace {

std::string textOf(llvm::Error error) { return llvm::toString(std::move(error)); }

class DriverGpuDevice : public ::testing::Test {
protected:
  void SetUp() override {
    setenv("TILEWRIGHT_CACHE_DIR", "", 1);
    fake() = runtime::testing::FakeDriver();
    memory() = FakeMemory();
  }

  llvm::Expected<std::string> compile(const BundleRequest &request) {
    errors.clear();
    return compileBundle(context, llvm::MemoryBufferRef(source, "scale.mlir"), request);
  }
  std::shared_ptr<const runtime::Bundle> bundleOf(const BundleRequest &request) {
    llvm::Expected<std::string> bytes = compile(request);
    if (!bytes) {
      ADD_FAILURE() << textOf(bytes.takeError()) << errors;
      return nullptr;
    }
    return *runtime::Bundle::fromBytes(*bytes);
  }
  static BundleRequest request(const char *entry, std::vector<std::string> targets = {"sm_80"}) {
    BundleRequest request;
    request.options.entry = entry;
    request.targets = std::move(targets);
    request.scope.assemble = false;
    return request;
  }
  GpuOperation load(const char *entry) {
    llvm::Expected<std::unique_ptr<GpuDevice>> opened = GpuDevice::open(driver, 0);
    EXPECT_TRUE(static_cast<bool>(opened));
    device = std::move(*opened);
    auto operation = GpuOperation::create(*device, bundleOf(request(entry)), entry);
    if (!operation)
      ADD_FAILURE() << textOf(operation.takeError());
    return std::move(*operation);
  }
  static ArrayArgument array(std::vector<float> &values, llvm::ArrayRef<int64_t> shape,
                             llvm::ArrayRef<int64_t> strides, int64_t first = 0) {
    ArrayArgument argument;
    argument.type = ElementType::F32;
    argument.shape.assign(shape.begin(), shape.end());
    argument.strides.assign(strides.begin(), strides.end());
    argument.data = values.data() + first;
    return argument;
  }

  runtime::DriverTable driver = tableWithMemory();
  std::string errors;
  mlir::MLIRContext context{[] {
                              mlir::DialectRegistry registry;
                              registerDialects(registry);
                              return registry;
                            }(),
                            mlir::MLIRContext::Threading::DISABLED};
  mlir::ScopedDiagnosticHandler handler{&context, [this](mlir::Diagnostic &diagnostic) {
                                          llvm::raw_string_ostream(errors) << diagnostic << '\n';
                                          return mlir::success();
                                        }};
  std::unique_ptr<GpuDevice> device;
};

TEST_F(DriverGpuDevice, AKernelSaysHowToLaunchIt) {
  auto bundle = bundleOf(request("scale"));
  ASSERT_TRUE(bundle);
  EXPECT_EQ(bundle->manifest().source, "scale.mlir");
  ASSERT_EQ(bundle->manifest().kernels.size(), 1u);
  const runtime::KernelSpec &kernel = bundle->manifest().kernels[0];
  EXPECT_EQ(runtime::toString(kernel.params), "BLOCK = 64, N = 32, TARGET = \"sm_80\"");
  std::string contract;
  for (const runtime::ArgumentSpec &argument : kernel.arguments)
    contract += argument.name + (argument.isOptional ? "? " : argument.isCapture ? "! " : " ");
  EXPECT_EQ(contract, "x y bias? factor rows gain! ");
  EXPECT_EQ(kernel.arguments[0].extents, (std::vector<int64_t>{-1, 32}));
  ASSERT_EQ(kernel.grid.size(), 1u) << "a linear grid";
  EXPECT_EQ(kernel.grid[0].toString(), "ceildiv(dim(x, 0), 64) * dim(y, 1)");
  EXPECT_EQ(kernel.block, (std::array<uint32_t, 3>{128, 1, 1}));
  ASSERT_EQ(kernel.conditions.size(), 3u);
  EXPECT_EQ(kernel.conditions[2].toString(), "rows >= 1");
  ASSERT_EQ(kernel.codes.size(), 1u);
  EXPECT_EQ(kernel.codes[0].arch.toString(), "sm_80");
  EXPECT_EQ(kernel.codes[0].ptxVersion, 70);
  std::string ptx(bundle->blob(kernel.codes[0].blob));
  EXPECT_NE(ptx.find(".entry scale("), std::string::npos);
  // One parameter of the code for each of the layout.
  llvm::StringRef signature = llvm::StringRef(ptx).split(".entry scale(").second.split(')').first;
  EXPECT_EQ(signature.count(".param"), kernel.layout.params.size());
}

TEST_F(DriverGpuDevice, AProgramListsItsLaunches) {
  auto bundle = bundleOf(request("twice"));
  ASSERT_TRUE(bundle);
  ASSERT_EQ(bundle->manifest().programs.size(), 1u);
  const runtime::ProgramSpec &program = bundle->manifest().programs[0];
  ASSERT_EQ(program.forms.size(), 1u);
  const runtime::FormSpec &form = program.forms[0];
  EXPECT_EQ(form.target.toString(), "sm_80");
  ASSERT_EQ(form.workspaces.size(), 1u);
  EXPECT_EQ(form.workspaces[0].fill, 0x3f800000u);
  EXPECT_EQ(form.workspaces[0].extents[1].toString(), "32");
  ASSERT_EQ(form.launches.size(), 2u);
  EXPECT_EQ(form.launches[0].arguments,
            (std::vector<std::string>{"x", "workspace0", "bias", "factor", "rows", "gain"}));
  EXPECT_FALSE(form.launches[0].condition);
  EXPECT_EQ(form.launches[1].condition->toString(), "rows > 1");
  EXPECT_EQ(program.conditions.size(), 2u);
  EXPECT_EQ(bundle->manifest().kernels[0].params.back().second.toString(), "\"sm_80\"")
      << "a launch hands TARGET on";
}

TEST_F(DriverGpuDevice, VariantsAndTheirRejections) {
  BundleRequest both = request("scale");
  both.variants = {{{"N", "32"}}, {{"N", "64"}}};
  auto bundle = bundleOf(both);
  ASSERT_TRUE(bundle);
  EXPECT_EQ(bundle->manifest().kernels.size(), 2u);
  both.variants.push_back({{"N", "64"}});
  EXPECT_EQ(textOf(compile(both).takeError()), "variant 3 occurs twice; leave one out");
  both.variants = {{{"N", "48"}}};
  EXPECT_EQ(textOf(compile(both).takeError()), "compilation failed; correct the errors above");
  EXPECT_NE(errors.find("must be one of 32, 64, but got 48"), std::string::npos) << errors;
  EXPECT_EQ(
      textOf(compile(request("scale", {"sm_70"})).takeError()),
      "target must be sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a or sm_120a, but got 'sm_70'");
  EXPECT_EQ(textOf(parseVariant("N=1,M").takeError()), "expected NAME=VALUE but got 'M'");
}

TEST_F(DriverGpuDevice, StridedArraysGoToTheDeviceAndBack) {
  GpuOperation operation = load("scale");
  // The rows of x are in reverse order with gaps; y is stored in the gaps.
  std::vector<float> values(2000, -1);
  llvm::StringMap<Argument> arguments;
  arguments["x"] = array(values, {3, 32}, {-128, 1}, 1000);
  arguments["y"] = array(values, {3, 32}, {128, 1}, 800);
  arguments["factor"] = 2.0;
  arguments["rows"] = int64_t(3);
  arguments["gain"] = 1.5;
  for (int i = 0; i < 32; ++i)
    values[1000 + i] = float(i);
  runtime::ParamLayout layout;
  layout.addView(2);
  layout.addView(2);
  layout.addView(1);
  layout.addScalar(ElementType::F32);
  layout.addScalar(ElementType::I32);
  layout.addScalar(ElementType::F32);
  fake().layout = &layout;
  auto call = GpuCall::create(operation, arguments);
  ASSERT_TRUE(static_cast<bool>(call)) << textOf(call.takeError());
  ASSERT_EQ(memory().blocks.size(), 1u) << "arrays that interleave share a block";
  cuda::DevicePtr block = memory().blocks.begin()->first;
  EXPECT_EQ(memory().used, (1088u - 744u) * 4) << "from the lowest to the end of the highest";
  EXPECT_EQ(textOf((*call)->upload()), "");
  EXPECT_EQ(textOf((*call)->launch()), "");
  ASSERT_EQ(fake().launches.size(), 1u);
  const runtime::testing::FakeLaunch &launch = fake().launches[0];
  EXPECT_EQ(launch.grid[0], 32u);
  auto param = [&](size_t index) {
    uint64_t value = 0;
    std::memcpy(&value, launch.params.data() + layout.params[index].offset,
                layout.params[index].bytes);
    return value;
  };
  EXPECT_EQ(param(0), block + (1000 - 744) * 4);
  EXPECT_EQ(int64_t(param(3)), -128);
  EXPECT_EQ(param(5), block + (800 - 744) * 4);
  EXPECT_EQ(param(10), 0u) << "bias is absent";
  EXPECT_EQ(param(14), 3u);
  reinterpret_cast<float *>(block)[800 - 744] = 42; // writes as a kernel would
  EXPECT_EQ(textOf((*call)->download()), "");
  EXPECT_EQ(values[800], 42);
  EXPECT_EQ(values[1031], 31);
  EXPECT_EQ(values[900], -1);
  call->reset();
  EXPECT_EQ(memory().blocks.size(), 0u);
}

TEST_F(DriverGpuDevice, ProgramsGetTheirWorkspace) {
  GpuOperation operation = load("twice");
  std::vector<float> x(100 * 32), y(100 * 32);
  llvm::StringMap<Argument> arguments;
  arguments["x"] = array(x, {100, 32}, {32, 1});
  arguments["y"] = array(y, {100, 32}, {32, 1});
  arguments["factor"] = 2.0;
  arguments["gain"] = 1.0;
  arguments["rows"] = int64_t(1);
  auto run = [&] {
    auto call = GpuCall::create(operation, arguments);
    return textOf(call ? (*call)->run() : call.takeError());
  };
  fake().launches.clear();
  EXPECT_EQ(run(), "");
  EXPECT_EQ(fake().launches.size(), 1u) << "the second launch is for more rows";
  arguments["rows"] = int64_t(2);
  EXPECT_EQ(run(), "");
  EXPECT_EQ(fake().launches.size(), 3u);
  arguments["rows"] = int64_t(1001);
  EXPECT_EQ(run(), "program 'twice' cannot take these arguments: its condition 'rows <= 1000' "
                   "does not hold, but got rows = 1001");
  arguments["rows"] = int64_t(0);
  EXPECT_EQ(run(), "no variant of kernel 'scale' takes these arguments: its condition 'rows >= 1' "
                   "does not hold, but got rows = 0");
  std::vector<float> bias(99);
  arguments["rows"] = int64_t(1);
  arguments["bias"] = array(bias, {99}, {1});
  EXPECT_EQ(run(), "no variant of kernel 'scale' takes these arguments: its condition "
                   "'dim(bias, 0) == dim(x, 0)' does not hold, but got dim(bias, 0) = 99, "
                   "dim(x, 0) = 100; give 'bias' an extent of 100 along dimension 0");
  memory().limit = 30000;
  arguments.erase("bias");
  EXPECT_EQ(run(), "cannot allocate a workspace of 12800 bytes on device 0 (Fake, compute "
                   "capability 8.0): cuMemAlloc returned CUDA_ERROR_OUT_OF_MEMORY (2), as told");
}

TEST_F(DriverGpuDevice, ChecksIndicesInTheWordsOfTheCpu) {
  auto load = [&](const char *file,
                  const std::vector<std::pair<std::string, std::string>> &params) {
    TilePipelineOptions options;
    options.params = params;
    options.target = "sm_80";
    auto module = compileFile(context, std::string("kernels/") + file, options);
    EXPECT_TRUE(module) << errors;
    mlir::Operation *entry = findEntry(*module);
    auto bundle = GpuOperation::compile(entry, GpuOptions(), /*assemble=*/false);
    EXPECT_TRUE(static_cast<bool>(bundle));
    auto operation =
        GpuOperation::create(*device, *bundle, mlir::SymbolTable::getSymbolName(entry).getValue());
    if (!operation)
      ADD_FAILURE() << textOf(operation.takeError());
    return std::pair(std::move(module), std::move(*operation));
  };
  /// The common text of both messages after the name of the kernel.
  auto rejections = [&](const auto &loaded, const llvm::StringMap<Argument> &arguments) {
    errors.clear();
    EXPECT_TRUE(
        mlir::failed(interpreter::checkEntry(findEntry(*loaded.first), arguments, std::nullopt)));
    llvm::Expected<std::unique_ptr<GpuCall>> call = GpuCall::create(loaded.second, arguments);
    EXPECT_TRUE(static_cast<bool>(call));
    return std::pair(llvm::StringRef(errors).trim().split(" requires ").second.str(),
                     llvm::StringRef(textOf((*call)->run())).split(" requires ").second.str());
  };
  auto indices = [](std::vector<int32_t> &values, llvm::ArrayRef<int64_t> shape) {
    ArrayArgument argument;
    argument.type = ElementType::I32;
    argument.shape.assign(shape.begin(), shape.end());
    argument.strides.assign(shape.size(), 1);
    if (shape.size() == 2)
      argument.strides[0] = shape[1];
    argument.data = values.data();
    return argument;
  };
  llvm::Expected<std::unique_ptr<GpuDevice>> opened = GpuDevice::open(driver, 0);
  ASSERT_TRUE(static_cast<bool>(opened));
  device = std::move(*opened);

  std::vector<float> rows(7 * 2 * 16), out(7 * 2 * 16);
  std::vector<int32_t> queries = {0, 3, 7}, keys = {0, 3, 7};
  ArrayArgument data = array(rows, {1, 2, 7, 16}, {224, 16, 32, 1});
  llvm::StringMap<Argument> arguments;
  for (const char *name : {"q", "k", "v"})
    arguments[name] = data;
  arguments["o"] = array(out, {1, 2, 7, 16}, {224, 16, 32, 1});
  arguments["cu_seqlens_q"] = indices(queries, {3});
  arguments["cu_seqlens_k"] = indices(keys, {3});
  arguments["scale"] = 1.0;
  arguments["window_left"] = arguments["window_right"] = int64_t(-1);
  auto packed = load("attention_forward.mlir", {{"D", "16"}, {"T", "f32"}, {"PACKED", "true"}});
  packed.second.checkIndices(true);
  auto call = GpuCall::create(packed.second, arguments);
  ASSERT_TRUE(static_cast<bool>(call)) << textOf(call.takeError());
  EXPECT_EQ(textOf((*call)->run()), "");
  call->reset();
  queries = {0, 5, 3};
  auto [onCpu, onGpu] = rejections(packed, arguments);
  EXPECT_EQ(onGpu, "'ascending(cu_seqlens_q)', but got cu_seqlens_q[2] = 3 after 5");
  EXPECT_EQ(onGpu, onCpu);
  queries = {0, 3, 7};
  keys = {0, 3, 8};
  std::tie(onCpu, onGpu) = rejections(packed, arguments);
  EXPECT_EQ(onGpu, "'within(cu_seqlens_k, 0, dim(k, 2) + 1)', but got cu_seqlens_k[2] = 8; it must "
                   "be from 0 to 7");
  EXPECT_EQ(onGpu, onCpu);

  // A bound with products and a parameter, and rows of which only the first elements count.
  std::vector<int32_t> table = {0, 2, 1, -9}, lengths = {32, 16};
  auto decode = load("attention_decode.mlir", {{"D", "16"}, {"PAGE_ROWS", "16"}, {"T", "f32"}});
  decode.second.checkIndices(true);
  std::vector<float> pages(3 * 16 * 16);
  arguments.clear();
  arguments["q"] = arguments["o"] = array(out, {2, 1, 1, 16}, {16, 16, 16, 1});
  arguments["k_pages"] = arguments["v_pages"] = array(pages, {3, 16, 1, 16}, {256, 16, 16, 1});
  arguments["block_table"] = indices(table, {2, 2});
  arguments["seq_lens"] = indices(lengths, {2});
  arguments["scale"] = 1.0;
  arguments["window_left"] = arguments["window_right"] = int64_t(-1);
  auto decodeCall = GpuCall::create(decode.second, arguments);
  ASSERT_TRUE(static_cast<bool>(decodeCall)) << textOf(decodeCall.takeError());
  EXPECT_EQ(textOf((*decodeCall)->run()), "");
  decodeCall->reset();
  lengths[1] = 17;
  std::tie(onCpu, onGpu) = rejections(decode, arguments);
  EXPECT_EQ(onGpu, "'within_first(block_table, 0, dim(k_pages, 0), seq_lens, max(dim(k_pages, "
                   "1), 1))', but got block_table[1, 1] = -9; it must be from 0 to 2");
  EXPECT_EQ(onGpu, onCpu);
  lengths[0] = 33;
  std::tie(onCpu, onGpu) = rejections(decode, arguments);
  EXPECT_EQ(onGpu, "'within(seq_lens, 0, dim(block_table, 1) * dim(k_pages, 1) + 1)', but got "
                   "seq_lens[0] = 33; it must be from 0 to 32");
  EXPECT_EQ(onGpu, onCpu);
}

/// Arrays of f16 [1, 1, 64, width] with rows of `stride` elements, and of f32 [1, 1, 64].
class HalfArrays {
public:
  HalfArrays(int64_t width, int64_t stride) : tiles(64 * stride), rows(64) {
    half = argument(ElementType::F16, tiles.data(), {1, 1, 64, width},
                    {64 * stride, 64 * stride, stride, 1});
    sums = argument(ElementType::F32, rows.data(), {1, 1, 64}, {64, 64, 1});
  }
  llvm::StringMap<Argument> named(llvm::ArrayRef<const char *> names) const {
    llvm::StringMap<Argument> arguments;
    for (const char *name : names)
      arguments[name] = half;
    arguments["scale"] = 1.0;
    return arguments;
  }
  static ArrayArgument argument(ElementType type, void *data, llvm::ArrayRef<int64_t> shape,
                                llvm::ArrayRef<int64_t> strides) {
    ArrayArgument argument;
    argument.type = type;
    argument.shape.assign(shape.begin(), shape.end());
    argument.strides.assign(strides.begin(), strides.end());
    argument.data = data;
    return argument;
  }

  ArrayArgument half, sums;

private:
  std::vector<uint16_t> tiles;
  std::vector<float> rows;
};

// A bundle for sm_90a alone had no code for views that a tensor map cannot describe, and rejected
// rows of 20 or 25 elements of 16 bits.
TEST_F(DriverGpuDevice, ABundleForATargetWithTensorMapsTakesAllViews) {
  const std::vector<const char *> ofForward = {"q", "k", "v", "o"};
  const std::vector<const char *> ofBackward = {"q", "k", "v", "o", "do", "dq", "dk", "dv"};
  for (llvm::StringRef entry : {"attention_forward", "attention_backward"}) {
    bool isForward = entry == "attention_forward";
    auto text = llvm::MemoryBuffer::getFile(("kernels/" + entry + ".mlir").str());
    ASSERT_TRUE(static_cast<bool>(text));
    BundleRequest wanted = request(entry.data(), {"sm_90a"});
    wanted.options.params = {{"D", "24"}, {"T", "f16"}};
    auto bundleOf = [&] {
      llvm::Expected<std::string> bytes = compileBundle(context, **text, wanted);
      if (!bytes)
        ADD_FAILURE() << textOf(bytes.takeError()) << errors;
      return *runtime::Bundle::fromBytes(*bytes);
    };
    fake() = runtime::testing::FakeDriver();
    fake().major = 9;
    fake().sharedLimit = 232448;
    fake().driverVersion = 13000;
    llvm::Expected<std::unique_ptr<GpuDevice>> opened = GpuDevice::open(driver, 0);
    ASSERT_TRUE(static_cast<bool>(opened));
    device = std::move(*opened);
    auto run = [&](const std::shared_ptr<const runtime::Bundle> &bundle, int64_t stride) {
      HalfArrays arrays(24, stride);
      llvm::StringMap<Argument> arguments = arrays.named(isForward ? ofForward : ofBackward);
      if (!isForward)
        arguments["lse"] = arrays.sums;
      arguments["window_left"] = arguments["window_right"] = int64_t(-1);
      auto operation = GpuOperation::create(*device, bundle, entry);
      if (!operation)
        return textOf(operation.takeError());
      auto call = GpuCall::create(*operation, arguments);
      fake().maps.clear();
      fake().launches.clear();
      return textOf(call ? (*call)->run() : call.takeError());
    };
    std::shared_ptr<const runtime::Bundle> bundle = bundleOf();
    EXPECT_EQ(run(bundle, 24), "");
    EXPECT_GE(fake().maps.size(), 4u) << "rows of 48 bytes";
    EXPECT_EQ(run(bundle, 25), "");
    EXPECT_EQ(fake().maps.size(), 0u) << "rows of 50 bytes";
    EXPECT_EQ(fake().launches.size(), isForward ? 1u : 3u);
    for (const runtime::KernelSpec &kernel : bundle->manifest().kernels)
      for (const runtime::CodeSpec &code : kernel.codes)
        EXPECT_TRUE(code.arch.toString() == "sm_90a" || code.kind == runtime::CodeSpec::Kind::Ptx);

    // A schedule is for one target.
    wanted.gpu.schedule = {"stages=2"};
    std::string rejection = run(bundleOf(), 25);
    EXPECT_NE(rejection.find("must be a multiple of 16 bytes for a tensor map"), std::string::npos)
        << rejection;
    EXPECT_EQ(fake().launches.size(), 0u);
  }
  // Code without tensor maps takes all views.
  auto plain = bundleOf(request("scale", {"sm_90a"}));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->manifest().kernels.size(), 1u);
}

// Without o, another kernel computes delta; both were required before.
TEST_F(DriverGpuDevice, SavedProbabilitiesNeedNoResultOfTheForward) {
  auto text = llvm::MemoryBuffer::getFile("kernels/attention_backward_saved_probs.mlir");
  ASSERT_TRUE(static_cast<bool>(text));
  BundleRequest wanted = request("attention_backward_saved_probs");
  wanted.options.params = {{"D", "64"}, {"T", "f16"}};
  llvm::Expected<std::string> bytes = compileBundle(context, **text, wanted);
  ASSERT_TRUE(static_cast<bool>(bytes)) << textOf(bytes.takeError()) << errors;
  llvm::Expected<std::unique_ptr<GpuDevice>> opened = GpuDevice::open(driver, 0);
  ASSERT_TRUE(static_cast<bool>(opened));
  device = std::move(*opened);
  auto operation = GpuOperation::create(*device, *runtime::Bundle::fromBytes(*bytes),
                                        "attention_backward_saved_probs");
  ASSERT_TRUE(static_cast<bool>(operation)) << textOf(operation.takeError());
  HalfArrays arrays(64, 64);
  llvm::StringMap<Argument> arguments =
      arrays.named({"q", "k", "v", "o", "do", "p", "dq", "dk", "dv"});
  for (bool hasResult : {true, false}) {
    if (!hasResult)
      arguments.erase("o");
    fake().launches.clear();
    auto call = GpuCall::create(*operation, arguments);
    ASSERT_TRUE(static_cast<bool>(call)) << textOf(call.takeError());
    EXPECT_EQ(textOf((*call)->run()), "");
    ASSERT_EQ(fake().launches.size(), 3u);
    EXPECT_EQ(fake().launches[0].sharedBytes == 0, hasResult) << "only a product has buffers";
  }
}

// GPUs with 99 KB per block run a backward with the smaller blocks that a bundle contains by
// default.
TEST_F(DriverGpuDevice, SmallChipsRunSmallerBlocks) {
  const char *file = "kernels/attention_backward.mlir";
  auto text = llvm::MemoryBuffer::getFile(file);
  ASSERT_TRUE(static_cast<bool>(text)) << file;
  BundleRequest wanted = request("attention_backward");
  wanted.options.params = {{"D", "128"}, {"T", "f16"}};
  llvm::Expected<std::string> bytes = compileBundle(context, **text, wanted);
  ASSERT_TRUE(static_cast<bool>(bytes)) << textOf(bytes.takeError()) << errors;
  auto bundle = *runtime::Bundle::fromBytes(*bytes);

  constexpr int64_t keys = 256, width = 128;
  std::vector<uint16_t> tiles(keys * width);
  std::vector<float> rows(keys);
  auto argument = [](ElementType type, void *data, llvm::ArrayRef<int64_t> shape,
                     llvm::ArrayRef<int64_t> strides) {
    ArrayArgument argument;
    argument.type = type;
    argument.shape.assign(shape.begin(), shape.end());
    argument.strides.assign(strides.begin(), strides.end());
    argument.data = data;
    return argument;
  };
  llvm::StringMap<Argument> arguments;
  for (const char *name : {"q", "k", "v", "o", "do", "dq", "dk", "dv"})
    arguments[name] = argument(ElementType::F16, tiles.data(), {1, 1, keys, width},
                               {keys * width, keys * width, width, 1});
  arguments["lse"] = argument(ElementType::F32, rows.data(), {1, 1, keys}, {keys, keys, 1});
  arguments["scale"] = 1.0;
  arguments["window_left"] = arguments["window_right"] = int64_t(-1);
  // The kernel with the products: its blocks of keys, and whether they need the memory that the
  // limit excludes.
  struct Case {
    int minor, limit;
    unsigned blocks;
  };
  for (const Case &chip : {Case{0, 166912, 2}, Case{6, 101376, 4}}) {
    fake() = runtime::testing::FakeDriver();
    fake().minor = chip.minor;
    fake().sharedLimit = chip.limit;
    llvm::Expected<std::unique_ptr<GpuDevice>> opened = GpuDevice::open(driver, 0);
    ASSERT_TRUE(static_cast<bool>(opened));
    device = std::move(*opened);
    auto operation = GpuOperation::create(*device, bundle, "attention_backward");
    ASSERT_TRUE(static_cast<bool>(operation)) << textOf(operation.takeError());
    auto call = GpuCall::create(*operation, arguments);
    ASSERT_TRUE(static_cast<bool>(call)) << textOf(call.takeError());
    EXPECT_EQ(textOf((*call)->run()), "");
    ASSERT_EQ(fake().launches.size(), 3u); // delta, keys, convert
    EXPECT_EQ(fake().launches[1].grid[0], chip.blocks);
    EXPECT_GT(fake().launches[1].sharedBytes, 65536u);
    EXPECT_LE(fake().launches[1].sharedBytes, unsigned(chip.limit));
    call->reset();
  }
}

TEST_F(DriverGpuDevice, RejectsArgumentsAndDevices) {
  GpuOperation operation = load("scale");
  std::vector<float> x(64);
  auto create = [&](auto edit) {
    llvm::StringMap<Argument> arguments;
    arguments["x"] = array(x, {2, 32}, {32, 1});
    arguments["y"] = array(x, {2, 32}, {32, 1});
    arguments["factor"] = 2.0;
    arguments["rows"] = int64_t(1);
    arguments["gain"] = int64_t(1);
    edit(arguments);
    auto call = GpuCall::create(operation, arguments);
    return textOf(call ? llvm::Error::success() : call.takeError());
  };
  using Map = llvm::StringMap<Argument>;
  EXPECT_EQ(create([](Map &) {}), "");
  EXPECT_EQ(create([](Map &map) { map["z"] = 1.0; }),
            "arguments must be those of the entry, but got 'z'");
  EXPECT_EQ(create([](Map &map) { map.erase("rows"); }),
            "argument 'rows' is missing; it is not optional, and has no default");
  EXPECT_EQ(create([](Map &map) { map["x"] = 1.0; }),
            "argument 'x' must be an array, but got a scalar");
  EXPECT_EQ(create([](Map &map) { map["rows"] = 1.5; }),
            "argument 'rows' must be a scalar of type i32, but got 1.500000");
  EXPECT_EQ(create([](Map &map) { map["rows"] = int64_t(1) << 31; }),
            "argument 'rows' must be a scalar of type i32, but got 2147483648");
  EXPECT_EQ(create([&](Map &map) { map["factor"] = array(x, {1}, {1}); }),
            "argument 'factor' must be a scalar of type f32, but got an array");
  EXPECT_EQ(create([&](Map &map) { map["x"] = array(x, {2, 31}, {32, 1}); }),
            "argument 'x' of kernel 'scale' must have extent 32 along dimension 1, but got 31");
  memory().limit = 100;
  EXPECT_EQ(create([](Map &) {}),
            "cannot allocate 256 bytes on device 0 (Fake, compute capability 8.0): cuMemAlloc "
            "returned CUDA_ERROR_OUT_OF_MEMORY (2), as told");

  auto open = [&](int ordinal) {
    auto opened = GpuDevice::open(driver, ordinal);
    return textOf(opened ? llvm::Error::success() : opened.takeError());
  };
  EXPECT_EQ(open(3), "the device must be one of the 3 of the driver, counted from 0, but got 3");
  fake().major = 7;
  fake().minor = 5;
  EXPECT_EQ(open(0),
            "the device must have compute capability 8.0 or later, but got device 0 (Fake, compute "
            "capability 7.5)");
  driver.cuMemAlloc = nullptr;
  EXPECT_EQ(open(0), "the driver lacks functions that copy arrays; update the driver");
}

TEST_F(DriverGpuDevice, NamesOfDevices) {
  auto parse = [](const char *text) {
    llvm::Expected<DeviceName> name = DeviceName::parse(text);
    if (!name)
      return textOf(name.takeError());
    return std::to_string(int(name->kind)) + " " + std::to_string(name->ordinal) + " " +
           name->target;
  };
  EXPECT_EQ(parse("cpu"), "0 0 cpu");
  EXPECT_EQ(parse("cuda"), "1 0 sm_80");
  EXPECT_EQ(parse("cuda:3"), "1 3 sm_80");
  EXPECT_EQ(parse("sim:sm_90a"), "2 0 sm_90a");
  for (const char *wrong : {"cuda:", "cuda:-1", "cuda:x", "sim", "sim:sm_70", "gpu", ""})
    EXPECT_EQ(parse(wrong), "expected cpu, cuda, cuda:N, auto, sim:sm_80, sim:sm_86, sim:sm_89, "
                            "sim:sm_90a, sim:sm_100a, sim:sm_103a or sim:sm_120a but got '" +
                                std::string(wrong) + "'");
}

} // namespace
