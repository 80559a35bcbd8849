// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiling and running kernels on the GPU of the machine.

#include "test/Gpu/GpuTesting.h"

#include "base/Numeric/Transfer.h"
#include "lib/Driver/Compiler.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <map>
#include <random>

namespace tilewright::gputest {

namespace {

constexpr size_t width = 2; // bytes of bf16

void require(const GpuDevice &device, cuda::Result result, const char *call) {
  if (result == cuda::Success)
    return;
  ADD_FAILURE() << device.getDriver().check(result, call, "run a test").message();
}

} // namespace

std::unique_ptr<GpuDevice> GpuTest::device;

Memory::Memory(const GpuDevice &device, size_t bytes) : device(device), bytes((bytes + 3) / 4 * 4) {
  require(device, device.getDriver().cuMemAlloc(&pointer, this->bytes), "cuMemAlloc");
  poison();
}

Memory::~Memory() {
  if (pointer)
    require(device, device.getDriver().cuMemFree(pointer), "cuMemFree");
}

void Memory::poison() {
  require(device,
          device.getDriver().cuMemsetD32Async(pointer, 0xffffffff, bytes / 4, device.getStream()),
          "cuMemsetD32Async");
  require(device, device.getDriver().cuStreamSynchronize(device.getStream()),
          "cuStreamSynchronize");
}

void Memory::write(size_t offset, const std::vector<uint8_t> &values) {
  require(device,
          device.getDriver().cuMemcpyHtoDAsync(pointer + offset, values.data(), values.size(),
                                               device.getStream()),
          "cuMemcpyHtoDAsync");
  require(device, device.getDriver().cuStreamSynchronize(device.getStream()),
          "cuStreamSynchronize");
}

std::vector<uint8_t> Memory::read(size_t offset, size_t size) const {
  std::vector<uint8_t> values(size);
  require(device,
          device.getDriver().cuMemcpyDtoHAsync(values.data(), pointer + offset, size,
                                               device.getStream()),
          "cuMemcpyDtoHAsync");
  require(device, device.getDriver().cuStreamSynchronize(device.getStream()),
          "cuStreamSynchronize");
  return values;
}

void GpuTest::SetUp() {
  if (!device) {
    llvm::Expected<std::unique_ptr<GpuDevice>> opened = GpuDevice::open();
    if (!opened)
      GTEST_SKIP() << "no GPU: " << llvm::toString(opened.takeError());
    device = std::move(*opened);
  }
  // The primary context, which the device retains, for this thread.
  cuda::Context context = nullptr;
  require(*device, driver().cuStreamGetCtx(device->getStream(), &context), "cuStreamGetCtx");
  require(*device, driver().cuCtxPushCurrent(context), "cuCtxPushCurrent");
  pushed = context;
}

void GpuTest::TearDown() {
  if (!pushed)
    return;
  for (cuda::Stream stream : streams)
    require(*device, driver().cuStreamDestroy(stream), "cuStreamDestroy");
  cuda::Context popped;
  require(*device, driver().cuCtxPopCurrent(&popped), "cuCtxPopCurrent");
}

std::shared_ptr<const runtime::Bundle>
GpuTest::compileBundle(const std::string &file,
                       const std::vector<std::pair<std::string, std::string>> &params,
                       std::string *entryName) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  std::string errors;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream(errors) << diagnostic << '\n';
    return mlir::success();
  });
  TilePipelineOptions options;
  options.params = params;
  options.target = device->getTarget();
  // Tests run in the root of the source tree, or of the unpacked package.
  auto module = compileFile(context, "kernels/" + file + ".mlir", options);
  mlir::Operation *entry = module ? findEntry(*module) : nullptr;
  if (!entry) {
    ADD_FAILURE() << file << " does not compile: " << errors;
    return nullptr;
  }
  if (entryName)
    *entryName = mlir::SymbolTable::getSymbolName(entry).getValue().str();
  GpuOptions gpu;
  gpu.target = device->getTarget();
  auto bundle = GpuOperation::compile(entry, gpu, /*assemble=*/false);
  if (!bundle) {
    ADD_FAILURE() << file << ": " << llvm::toString(bundle.takeError()) << ": " << errors;
    return nullptr;
  }
  return *bundle;
}

std::shared_ptr<GpuOperation>
GpuTest::compile(const std::string &file,
                 const std::vector<std::pair<std::string, std::string>> &params) {
  static std::map<std::string, std::shared_ptr<GpuOperation>> compiled;
  std::string key = file;
  for (const auto &[name, value] : params)
    key += " " + name + "=" + value;
  auto &operation = compiled[key];
  if (operation)
    return operation;
  std::string entry;
  std::shared_ptr<const runtime::Bundle> bundle = compileBundle(file, params, &entry);
  if (!bundle)
    return nullptr;
  llvm::Expected<GpuOperation> loaded = GpuOperation::create(*device, bundle, entry);
  if (!loaded) {
    ADD_FAILURE() << key << ": " << llvm::toString(loaded.takeError());
    return nullptr;
  }
  operation = std::make_shared<GpuOperation>(std::move(*loaded));
  return operation;
}

std::shared_ptr<GpuOperation> GpuTest::compileAttention(int64_t D) {
  return compile("attention_forward",
                 {{"D", std::to_string(D)}, {"T", "bf16"}, {"BLOCK_M", "64"}, {"BLOCK_N", "64"}});
}

std::vector<uint8_t> GpuTest::normal(size_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> distribution;
  std::vector<double> values(count);
  for (double &value : values)
    value = distribution(engine);
  std::vector<uint8_t> bytes(count * width);
  numeric::convertToMemory(Storage::F64, values.data(), type, bytes.data(), 1, count);
  return bytes;
}

cuda::Stream GpuTest::createStream(unsigned flags) {
  cuda::Stream stream = nullptr;
  require(*device, driver().cuStreamCreate(&stream, flags), "cuStreamCreate");
  streams.push_back(stream);
  return stream;
}

void GpuTest::wait(cuda::Stream stream) {
  require(*device, driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
}

cuda::GraphExec GpuTest::capture(cuda::Stream stream, llvm::function_ref<Status()> record) {
  const runtime::DriverTable &table = driver();
  auto skip = []() { GTEST_SKIP() << "this driver has no graphs"; };
  if (!table.cuStreamBeginCapture || !table.cuStreamEndCapture || !table.cuGraphInstantiate ||
      !table.cuGraphLaunch) {
    skip();
    return nullptr;
  }
  require(*device, table.cuStreamBeginCapture(stream, 0), "cuStreamBeginCapture");
  Status status = record();
  cuda::Graph graph = nullptr;
  require(*device, table.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
  EXPECT_TRUE(status.ok()) << status.message();
  cuda::GraphExec executable = nullptr;
  if (graph) {
    require(*device, table.cuGraphInstantiate(&executable, graph, 0), "cuGraphInstantiate");
    require(*device, table.cuGraphDestroy(graph), "cuGraphDestroy");
  }
  return executable;
}

Attention::Attention(const GpuDevice &device, const AttentionShape &given)
    : shape(given), q(device, spanOf(shape.Sq)), k(device, spanOf(shape.Skv)),
      v(device, spanOf(shape.Skv)), o(device, spanOf(shape.Sq)) {}

size_t Attention::spanOf(int64_t rows) const {
  return offsetOf(rows, shape.B - 1, shape.H - 1) + static_cast<size_t>(rows * shape.D) * width;
}

size_t Attention::offsetOf(int64_t rows, int64_t b, int64_t h) const {
  int64_t head = shape.headStride ? shape.headStride : rows * shape.D;
  int64_t batch = shape.batchStride ? shape.batchStride : head * shape.H;
  return static_cast<size_t>(b * batch + h * head) * width;
}

runtime::Argument Attention::view(const Memory &memory, int64_t rows) const {
  int64_t extents[] = {shape.B, shape.H, rows, shape.D};
  int64_t strides[] = {static_cast<int64_t>(offsetOf(rows, 1, 0) / width),
                       static_cast<int64_t>(offsetOf(rows, 0, 1) / width), shape.D, 1};
  return runtime::Argument::view(memory.address(), ElementType::BF16, 4, extents, strides);
}

void Attention::setHead(int64_t b, int64_t h, const std::vector<uint8_t> &qHead,
                        const std::vector<uint8_t> &kHead, const std::vector<uint8_t> &vHead) {
  q.write(offsetOf(shape.Sq, b, h), qHead);
  k.write(offsetOf(shape.Skv, b, h), kHead);
  v.write(offsetOf(shape.Skv, b, h), vHead);
}

Status Attention::run(const GpuOperation &operation, cuda::Stream stream) const {
  runtime::Argument arguments[] = {
      view(q, shape.Sq),
      view(k, shape.Skv),
      view(v, shape.Skv),
      view(o, shape.Sq),
      runtime::Argument::absent(),
      runtime::Argument::scalar(static_cast<float>(1 / std::sqrt(double(shape.D)))),
      runtime::Argument::scalar(int32_t(-1)),
      runtime::Argument::scalar(int32_t(-1))};
  const runtime::Argument *pointers[8];
  for (unsigned i = 0; i < 8; ++i)
    pointers[i] = &arguments[i];
  return operation.getOperation().run(pointers, 8, 0, 0, stream);
}

std::vector<uint8_t> Attention::readHead(int64_t b, int64_t h) const {
  return o.read(offsetOf(shape.Sq, b, h), static_cast<size_t>(shape.Sq * shape.D) * width);
}

std::vector<uint8_t> Attention::readO() const { return o.read(0, spanOf(shape.Sq)); }

} // namespace tilewright::gputest
