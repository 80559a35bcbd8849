// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A driver without a GPU: functions for a DriverTable that record their arguments and fail on
// request; and the bundles that the tests of the runtime share.

#ifndef TILEWRIGHT_TEST_UNIT_RUNTIMETESTING_H
#define TILEWRIGHT_TEST_UNIT_RUNTIMETESTING_H

#include "RuntimeForms.h"

#include "runtime/AttentionForward.h"
#include "runtime/Module.h"

#include "gtest/gtest.h"

#include <map>

namespace tilewright::runtime::testing {

inline cuda::Context contextOf(int device) {
  return reinterpret_cast<cuda::Context>(uintptr_t(0x1000 + device));
}
/// A stream of the device's second context, which is not the primary one.
inline cuda::Stream streamOf(int device) {
  return reinterpret_cast<cuda::Stream>(uintptr_t(0x5000 + device));
}

struct FakeLaunch {
  cuda::Function function = nullptr;
  unsigned grid[3] = {}, block[3] = {}, cluster[3] = {1, 1, 1}, sharedBytes = 0;
  cuda::Stream stream = nullptr;
  cuda::Context context = nullptr;
  bool overlaps = false; // may start before the previous launch has ended
  std::string params;    // packed as `layout` says
};
struct FakeFill {
  uint64_t address;
  unsigned value;
  size_t count;
};
struct FakeMap {
  int type, swizzle;
  std::vector<uint64_t> extents, strides;
  std::vector<uint32_t> box;
};

struct FakeDriver {
  // Settings of the fake.
  std::map<std::string, cuda::Result> failures; // indexed by function
  int failsFrom = -1, failsTo = -1;             // numbers of the calls that fail with `failure`
  cuda::Result failure = 999;
  std::string jitLog;
  int driverVersion = 12040, numDevices = 3, major = 8, minor = 0, smCount = 108;
  int sharedLimit = 166912, reservedShared = 1024;
  int threadsOfMultiprocessor = 2048, sharedOfMultiprocessor = 167936;
  std::map<std::string, int> registers, staticShared; // indexed by entry; 32 and 0 if not given
  bool isCapturing = false;
  const ParamLayout *layout = nullptr;     // parameter layout of launches
  size_t numWithLayout = SIZE_MAX;         // number of launches with this layout, from the first
  const ParamLayout *codeLayout = nullptr; // layout that the code declares; null: `layout`
  std::string linkedCubin = "cubin";

  // Recorded calls.
  std::map<std::string, int> calls;
  int numCalls = 0; // calls of functions that may fail
  std::string failedCall;
  std::vector<cuda::Context> contexts; // context stack of the thread
  std::vector<FakeLaunch> launches;
  std::vector<FakeFill> fills;
  std::vector<FakeMap> maps;
  std::vector<std::string> images, entries;
  std::map<int, int> functionAttributes;
  std::map<cuda::Function, unsigned> allowedShared;
  int retained = 0, loaded = 0;
  bool isPrimaryActive = false;

  cuda::Result enter(const char *name) {
    ++calls[name];
    bool isError =
        !std::strncmp(name, "cuGetError", 10); // looking up error names is not a step of a run
    int number = isError ? -1 : numCalls++;
    if (number >= 0 && number >= failsFrom && number <= failsTo) {
      failedCall = name;
      return failure;
    }
    auto told = failures.find(name);
    return told == failures.end() ? cuda::Success : told->second;
  }
};

inline FakeDriver &fake() {
  static FakeDriver driver;
  return driver;
}

inline void recordAttribute(cuda::Function function, int attribute, int value) {
  fake().functionAttributes[attribute] = value;
  if (attribute == cuda::FunctionMaxDynamicShared)
    fake().allowedShared[function] = unsigned(value);
}

inline void recordLaunch(const cuda::LaunchConfig &config, cuda::Function function, void **params) {
  FakeLaunch launch;
  launch.function = function;
  const unsigned *numbers = &config.gridX;
  for (unsigned i = 0; i < 3; ++i) {
    launch.grid[i] = numbers[i];
    launch.block[i] = numbers[3 + i];
  }
  launch.sharedBytes = config.sharedBytes;
  EXPECT_LE(launch.sharedBytes, fake().allowedShared[function]);
  launch.stream = config.stream;
  launch.context = fake().contexts.back();
  for (unsigned i = 0; i < config.numAttributes; ++i) {
    const cuda::LaunchAttribute &attribute = config.attributes[i];
    if (attribute.id == cuda::launchAttributeClusterDimension) {
      launch.cluster[0] = attribute.value.clusterDim.x;
      launch.cluster[1] = attribute.value.clusterDim.y;
      launch.cluster[2] = attribute.value.clusterDim.z;
    } else if (attribute.id == cuda::launchAttributeProgrammaticSerialization) {
      launch.overlaps = attribute.value.programmaticSerialization == 1;
    } else {
      ADD_FAILURE() << "unknown launch attribute " << attribute.id;
    }
  }
  if (const ParamLayout *layout = fake().layout;
      layout && fake().launches.size() < fake().numWithLayout) {
    launch.params.resize(layout->bytes);
    for (size_t i = 0; i < layout->params.size(); ++i)
      std::memcpy(launch.params.data() + layout->params[i].offset, params[i],
                  layout->params[i].bytes);
  }
  fake().launches.push_back(std::move(launch));
}

/// A complete table; tests set optional functions to null to simulate an older driver.
inline DriverTable fakeTable() {
  DriverTable table;
#define ENTER(name)                                                                                \
  if (cuda::Result failure = fake().enter(#name))                                                  \
  return failure
  table.cuInit = [](unsigned) -> cuda::Result {
    ENTER(cuInit);
    return cuda::Success;
  };
  table.cuDriverGetVersion = [](int *version) -> cuda::Result {
    ENTER(cuDriverGetVersion);
    *version = fake().driverVersion;
    return cuda::Success;
  };
  table.cuGetErrorName = [](cuda::Result result, const char **name) -> cuda::Result {
    ENTER(cuGetErrorName);
    *name = result == cuda::ErrorOutOfMemory  ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == cuda::ErrorInvalidPtx ? "CUDA_ERROR_INVALID_PTX"
                                              : "CUDA_ERROR_FAKE";
    return cuda::Success;
  };
  table.cuGetErrorString = [](cuda::Result, const char **text) -> cuda::Result {
    ENTER(cuGetErrorString);
    *text = "as told";
    return cuda::Success;
  };
  table.cuDeviceGet = [](cuda::Device *device, int ordinal) -> cuda::Result {
    ENTER(cuDeviceGet);
    *device = ordinal;
    return cuda::Success;
  };
  table.cuDeviceGetCount = [](int *count) -> cuda::Result {
    ENTER(cuDeviceGetCount);
    *count = fake().numDevices;
    return cuda::Success;
  };
  table.cuDeviceGetName = [](char *name, int n, cuda::Device) -> cuda::Result {
    ENTER(cuDeviceGetName);
    std::strncpy(name, "Fake", size_t(n));
    return cuda::Success;
  };
  table.cuDeviceGetAttribute = [](int *value, int attribute, cuda::Device) -> cuda::Result {
    ENTER(cuDeviceGetAttribute);
    const FakeDriver &told = fake();
    const std::map<int, int> values = {
        {cuda::AttributeSmCount, told.smCount},
        {cuda::AttributeComputeMajor, told.major},
        {cuda::AttributeComputeMinor, told.minor},
        {cuda::AttributeSharedMemoryOptin, told.sharedLimit},
        {cuda::AttributeReservedSharedOfBlock, told.reservedShared},
        {cuda::AttributeThreadsOfMultiprocessor, told.threadsOfMultiprocessor},
        {cuda::AttributeSharedOfMultiprocessor, told.sharedOfMultiprocessor},
        {cuda::AttributeRegistersOfMultiprocessor, 65536}};
    *value = values.at(attribute);
    return cuda::Success;
  };
  table.cuDevicePrimaryCtxRetain = [](cuda::Context *context, cuda::Device d) -> cuda::Result {
    ENTER(cuDevicePrimaryCtxRetain);
    *context = contextOf(d);
    ++fake().retained;
    return cuda::Success;
  };
  table.cuDevicePrimaryCtxGetState = [](cuda::Device, unsigned *, int *active) -> cuda::Result {
    ENTER(cuDevicePrimaryCtxGetState);
    *active = fake().isPrimaryActive;
    return cuda::Success;
  };
  table.cuDevicePrimaryCtxRelease = [](cuda::Device) -> cuda::Result {
    --fake().retained;
    return cuda::Success;
  };
  table.cuCtxGetCurrent = [](cuda::Context *context) -> cuda::Result {
    ENTER(cuCtxGetCurrent);
    *context = fake().contexts.empty() ? nullptr : fake().contexts.back();
    return cuda::Success;
  };
  table.cuCtxPushCurrent = [](cuda::Context context) -> cuda::Result {
    ENTER(cuCtxPushCurrent);
    fake().contexts.push_back(context);
    return cuda::Success;
  };
  table.cuCtxPopCurrent = [](cuda::Context *) -> cuda::Result {
    ENTER(cuCtxPopCurrent);
    fake().contexts.pop_back();
    return cuda::Success;
  };
  table.cuCtxGetDevice = [](cuda::Device *device) -> cuda::Result {
    ENTER(cuCtxGetDevice);
    *device = int(reinterpret_cast<uintptr_t>(fake().contexts.back()) & 0xf);
    return cuda::Success;
  };
  table.cuStreamGetCtx = [](cuda::Stream stream, cuda::Context *context) -> cuda::Result {
    ENTER(cuStreamGetCtx);
    *context =
        reinterpret_cast<cuda::Context>(0x2000 + (reinterpret_cast<uintptr_t>(stream) & 0xf));
    return cuda::Success;
  };
  table.cuStreamIsCapturing = [](cuda::Stream, int *status) -> cuda::Result {
    ENTER(cuStreamIsCapturing);
    *status = fake().isCapturing ? cuda::CaptureActive : cuda::CaptureNone;
    return cuda::Success;
  };
  table.cuModuleLoadDataEx = [](cuda::Module *module, const void *image, unsigned, int *,
                                void **values) -> cuda::Result {
    std::strcpy(static_cast<char *>(values[0]), fake().jitLog.c_str());
    ENTER(cuModuleLoadDataEx);
    fake().images.push_back(static_cast<const char *>(image));
    *module = reinterpret_cast<cuda::Module>(uintptr_t(0x7000));
    ++fake().loaded;
    return cuda::Success;
  };
  table.cuModuleUnload = [](cuda::Module) -> cuda::Result {
    --fake().loaded;
    return cuda::Success;
  };
  table.cuModuleGetFunction = [](cuda::Function *function, cuda::Module,
                                 const char *name) -> cuda::Result {
    ENTER(cuModuleGetFunction);
    fake().entries.push_back(name);
    *function = reinterpret_cast<cuda::Function>(0x8000 + fake().entries.size());
    return cuda::Success;
  };
  table.cuFuncSetAttribute = [](cuda::Function function, int attribute, int value) -> cuda::Result {
    ENTER(cuFuncSetAttribute);
    recordAttribute(function, attribute, value);
    return cuda::Success;
  };
  table.cuLaunchKernelEx = [](const cuda::LaunchConfig *config, cuda::Function function,
                              void **params, void **) -> cuda::Result {
    ENTER(cuLaunchKernelEx);
    recordLaunch(*config, function, params);
    return cuda::Success;
  };
  table.cuLaunchKernel = [](cuda::Function function, unsigned gx, unsigned gy, unsigned gz,
                            unsigned bx, unsigned by, unsigned bz, unsigned shared,
                            cuda::Stream stream, void **params, void **) -> cuda::Result {
    ENTER(cuLaunchKernel);
    recordLaunch({gx, gy, gz, bx, by, bz, shared, stream, nullptr, 0}, function, params);
    return cuda::Success;
  };
  table.cuMemsetD32Async = [](cuda::DevicePtr address, unsigned value, size_t n,
                              cuda::Stream) -> cuda::Result {
    ENTER(cuMemsetD32Async);
    fake().fills.push_back({address, value, n});
    return cuda::Success;
  };
  table.cuLibraryLoadData = [](cuda::Library *library, const void *image, int *, void **values,
                               unsigned, int *, void **, unsigned) -> cuda::Result {
    std::strcpy(static_cast<char *>(values[0]), fake().jitLog.c_str());
    ENTER(cuLibraryLoadData);
    fake().images.push_back(static_cast<const char *>(image));
    *library = reinterpret_cast<cuda::Library>(uintptr_t(0x9000));
    ++fake().loaded;
    return cuda::Success;
  };
  table.cuLibraryUnload = [](cuda::Library) -> cuda::Result {
    --fake().loaded;
    return cuda::Success;
  };
  table.cuLibraryGetKernel = [](cuda::Kernel *kernel, cuda::Library,
                                const char *name) -> cuda::Result {
    ENTER(cuLibraryGetKernel);
    fake().entries.push_back(name);
    *kernel = reinterpret_cast<cuda::Kernel>(0x8000 + fake().entries.size());
    return cuda::Success;
  };
  table.cuKernelSetAttribute = [](int attribute, int value, cuda::Kernel kernel,
                                  cuda::Device) -> cuda::Result {
    ENTER(cuKernelSetAttribute);
    recordAttribute(reinterpret_cast<cuda::Function>(kernel), attribute, value);
    return cuda::Success;
  };
  table.cuKernelGetAttribute = [](int *value, int attribute, cuda::Kernel kernel,
                                  cuda::Device) -> cuda::Result {
    ENTER(cuKernelGetAttribute);
    const std::string &entry = fake().entries[reinterpret_cast<uintptr_t>(kernel) - 0x8001];
    bool isRegisters = attribute == cuda::FunctionRegisters;
    EXPECT_TRUE(isRegisters || attribute == cuda::FunctionStaticShared);
    const std::map<std::string, int> &told = isRegisters ? fake().registers : fake().staticShared;
    auto own = told.find(entry);
    *value = own != told.end() ? own->second : isRegisters ? 32 : 0;
    return cuda::Success;
  };
  table.cuKernelGetFunction = [](cuda::Function *function, cuda::Kernel) -> cuda::Result {
    ENTER(cuKernelGetFunction);
    *function = nullptr;
    return cuda::Success;
  };
  table.cuFuncLoad = [](cuda::Function) -> cuda::Result {
    ENTER(cuFuncLoad);
    return cuda::Success;
  };
  table.cuTensorMapEncodeTiled = [](cuda::TensorMap *map, int type, uint32_t rank, void *address,
                                    const uint64_t *extents, const uint64_t *strides,
                                    const uint32_t *box, const uint32_t *, int, int swizzle, int,
                                    int) -> cuda::Result {
    ENTER(cuTensorMapEncodeTiled);
    fake().maps.push_back({type, swizzle, std::vector<uint64_t>(extents, extents + rank),
                           std::vector<uint64_t>(strides, strides + rank - 1),
                           std::vector<uint32_t>(box, box + rank)});
    map->opaque[0] = reinterpret_cast<uintptr_t>(address);
    return cuda::Success;
  };
  table.cuLinkCreate = [](unsigned, int *, void **, cuda::LinkState *state) -> cuda::Result {
    ENTER(cuLinkCreate);
    *state = reinterpret_cast<cuda::LinkState>(uintptr_t(0xa000));
    return cuda::Success;
  };
  table.cuLinkAddData = [](cuda::LinkState, int, void *, size_t, const char *, unsigned, int *,
                           void **) -> cuda::Result {
    ENTER(cuLinkAddData);
    return cuda::Success;
  };
  table.cuLinkComplete = [](cuda::LinkState, void **cubin, size_t *bytes) -> cuda::Result {
    ENTER(cuLinkComplete);
    *cubin = fake().linkedCubin.data();
    *bytes = fake().linkedCubin.size();
    return cuda::Success;
  };
  table.cuLinkDestroy = [](cuda::LinkState) -> cuda::Result {
    ENTER(cuLinkDestroy);
    return cuda::Success;
  };
#undef ENTER
  return table;
}

/// The parameters of the code, from fake().codeLayout; not part of fakeTable because most tests
/// have kernels with several layouts.
inline cuda::Result fakeParamInfo(cuda::Kernel, size_t index, size_t *offset, size_t *bytes) {
  const std::vector<ParamLayout::Param> &params = fake().codeLayout->params;
  if (index >= params.size())
    return cuda::ErrorInvalidValue;
  *offset = params[index].offset;
  *bytes = params[index].bytes;
  return cuda::Success;
}

/// y = x * scale over rows: a view with a literal extent, an optional view and a scalar.
inline KernelSpec scaleKernel() {
  KernelSpec kernel;
  kernel.name = "scale";
  kernel.params = {{"D", Expr::integer(64)}, {"T", Expr::symbol(Expr::Kind::Type, "bf16")}};
  kernel.arguments = {ArgumentSpec::view("x", ElementType::BF16, {-1, 64}),
                      ArgumentSpec::view("y", ElementType::BF16, {-1, 64}),
                      ArgumentSpec::view("bias", ElementType::F32, {-1}, true),
                      ArgumentSpec::scalar("scale", ElementType::F32),
                      ArgumentSpec::scalar("rows", ElementType::I32)};
  kernel.entry = "scale_bf16_64";
  kernel.codes = {{CodeSpec::Kind::Ptx, *Arch::parse("sm_80"), 80, 0}};
  kernel.grid = {*Expr::call("ceildiv", {Expr::dim("x", 0), Expr::integer(128)})};
  kernel.block = {128, 1, 1};
  kernel.sharedBytes = 65536;
  return kernel;
}

/// With the entries of all variants that the tests make.
constexpr char scalePtx[] = ".version 8.0\n.visible .entry scale_bf16_64()\n.entry fast()\n"
                            ".entry second()\n.entry mapped()\n.entry plain()";

inline BundleWriter scaleBundle() {
  BundleWriter writer;
  writer.addPtx(scalePtx);
  writer.manifest.producer = "a test";
  writer.manifest.source = "scale.mlir";
  writer.manifest.kernels = {scaleKernel()};
  return writer;
}

/// Two launches over x [n, 64] -> y [n, 64] through tmp [n, 64] bf16 and sums [n] f32, which is
/// zeroed; the second only when rows > 0.
inline BundleWriter programBundle() {
  BundleWriter writer = scaleBundle();
  KernelSpec second = scaleKernel();
  second.name = "scale_sums";
  second.entry = "second";
  writer.manifest.kernels.push_back(second);
  ProgramSpec program;
  program.name = "twice";
  program.params = {{"D", Expr::integer(64)}};
  program.arguments = scaleKernel().arguments;
  formOf(program).workspaces = {
      {"tmp", ElementType::BF16, {Expr::dim("x", 0), Expr::name("D")}, std::nullopt},
      {"sums", ElementType::F32, {Expr::dim("x", 0)}, fillPattern(ElementType::F32, 1.0)}};
  LaunchSpec first, last;
  first.kernels = {0};
  first.arguments = {"x", "tmp", "sums", "scale", "rows"};
  last.kernels = {1};
  last.arguments = {"tmp", "y", "sums", "scale", "rows"};
  last.condition = *Expr::call(">", {Expr::name("rows"), Expr::integer(0)});
  formOf(program).launches = {first, last};
  writer.manifest.programs = {program};
  return writer;
}

inline std::shared_ptr<const Bundle> read(const BundleWriter &writer) {
  Result<std::string> bytes = writer.bytes();
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(*bytes, "test.twb");
  EXPECT_TRUE(bundle.ok()) << bundle.status().message();
  return *bundle;
}

/// Arguments and pointers to them.
struct Arguments {
  std::vector<Argument> values;
  std::vector<const Argument *> pointers;
  Arguments(std::initializer_list<Argument> list) : values(list) {
    for (const Argument &value : values)
      pointers.push_back(&value);
  }
  const Argument *const *data() const { return pointers.data(); }
  size_t size() const { return pointers.size(); }
};

inline Arguments scaleArguments(int64_t rows = 300) {
  return {Argument::dense(0x10000, ElementType::BF16, {rows, 64}),
          Argument::dense(0x20000, ElementType::BF16, {rows, 64}), Argument::absent(),
          Argument::scalar(0.5f), Argument::scalar(int32_t(7))};
}

/// Starts each test with a new fake, without a cache, and with the defaults of plans.
class RuntimeTest : public ::testing::Test {
protected:
  void SetUp() override {
    setenv("TILEWRIGHT_CACHE_DIR", "", 1);
    unsetenv("TILEWRIGHT_OVERLAP_PREVIOUS");
    fake() = FakeDriver();
  }
  DriverTable driver = fakeTable();
};

/// A test that creates an operation of a bundle and runs it.
class OperationTest : public RuntimeTest {
protected:
  Operation create(const BundleWriter &writer, const std::string &name = "scale",
                   const Params &params = {}) {
    bundle = read(writer);
    if (!bundle->manifest().kernels.empty())
      fake().layout = &bundle->manifest().kernels[0].layout;
    Result<Operation> operation = Operation::create(driver, bundle, name, params);
    EXPECT_TRUE(operation.ok()) << operation.status().message();
    return std::move(*operation);
  }
  Status run(const Operation &operation, const Arguments &arguments,
             cuda::Stream stream = nullptr) {
    return operation.run(arguments.data(), arguments.size(), 0, 0, stream);
  }
  template <typename T> T paramAt(const FakeLaunch &launch, size_t index) {
    T value;
    std::memcpy(&value, launch.params.data() + fake().layout->params[index].offset, sizeof(T));
    return value;
  }
  std::shared_ptr<const Bundle> bundle;
};

#define EXPECT_OK(expression)                                                                      \
  do {                                                                                             \
    ::tilewright::Status status_ = (expression);                                                   \
    EXPECT_TRUE(status_.ok()) << status_.message();                                                \
  } while (false)

/// Expects a failure with this code and exactly this text.
#define EXPECT_FAILURE(expression, wantedCode, text)                                               \
  do {                                                                                             \
    ::tilewright::Status status_ = (expression);                                                   \
    EXPECT_EQ(status_.code(), wantedCode) << status_.message();                                    \
    EXPECT_EQ(status_.message(), text);                                                            \
  } while (false)

/// The same for the C interface; include runtime/tilewright.h.
#define EXPECT_C_FAILURE(expression, code, text)                                                   \
  do {                                                                                             \
    EXPECT_EQ(expression, code);                                                                   \
    EXPECT_STREQ(tilewright_last_error(), text);                                                   \
  } while (false)

} // namespace tilewright::runtime::testing

#endif // TILEWRIGHT_TEST_UNIT_RUNTIMETESTING_H
