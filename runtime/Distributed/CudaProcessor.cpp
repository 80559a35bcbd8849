// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GPU through the table of the driver's functions.

#include "runtime/Distributed/CudaProcessor.h"

#include "runtime/AttentionPlan.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

#define CHECK_CALL(attempted, function, ...)                                                       \
  if (Status status = driver.check(driver.function(__VA_ARGS__), #function, attempted); !status)   \
  return status

class CudaProcessor;

/// The arguments of a plan or an operation, by name.
template <typename Code> class CudaKernel : public ProcessorKernel {
public:
  CudaKernel(CudaProcessor &processor, Code code) : processor(processor), code(std::move(code)) {}
  bool takes(const std::string &name) const override;
  Status run(const NamedArguments &arguments) override;

private:
  CudaProcessor &processor;
  Code code;
  ProcessorMemory workspace;
  uint64_t workspaceBytes = 0;
};

class CudaProcessor : public Processor {
public:
  CudaProcessor(const DriverTable &driver, CudaProcessorDesc desc)
      : driver(driver), desc(std::move(desc)) {}

  Status open() {
    for (const void *function : {reinterpret_cast<const void *>(driver.cuMemAlloc),
                                 reinterpret_cast<const void *>(driver.cuMemcpy2DAsync),
                                 reinterpret_cast<const void *>(driver.cuMemcpyDtoDAsync),
                                 reinterpret_cast<const void *>(driver.cuStreamQuery),
                                 reinterpret_cast<const void *>(driver.cuStreamWaitEvent),
                                 reinterpret_cast<const void *>(driver.cuEventRecord)})
      if (!function)
        return Status::failure(Code::NoDriver, "the CUDA driver must have functions for memory, "
                                               "streams and events; 11.2 is the oldest that works");
    Result<DeviceInfo> device = queryDevice(driver, desc.device);
    if (!device)
      return device.status();
    Result<PrimaryContext> retained = PrimaryContext::retain(driver, *device);
    if (!retained)
      return retained.status();
    context = std::move(*retained);
    ContextScope current(driver, context.get());
    constexpr unsigned nonBlocking = 1, disableTiming = 2;
    if (!desc.compute) {
      CHECK_CALL("create a stream", cuStreamCreate, &desc.compute, nonBlocking);
      ownsCompute = true;
    }
    if (!desc.exchange) {
      CHECK_CALL("create a stream", cuStreamCreate, &desc.exchange, nonBlocking);
      ownsExchange = true;
    }
    CHECK_CALL("create an event", cuEventCreate, &event, disableTiming);
    return Status::success();
  }

  ~CudaProcessor() override {
    if (!context.get())
      return;
    ContextScope current(driver, context.get());
    if (event)
      (void)driver.cuEventDestroy(event);
    if (ownsCompute)
      (void)driver.cuStreamDestroy(desc.compute);
    if (ownsExchange)
      (void)driver.cuStreamDestroy(desc.exchange);
  }

  Status allocate(uint64_t bytes, uint64_t &address) override {
    address = 0;
    if (!bytes)
      return Status::success();
    ContextScope current(driver, context.get());
    cuda::DevicePtr made = 0;
    CHECK_CALL("allocate " + std::to_string(bytes) + " bytes", cuMemAlloc, &made, bytes);
    address = made;
    return Status::success();
  }
  void release(uint64_t address) override {
    ContextScope current(driver, context.get());
    (void)driver.cuMemFree(address); // waits for the device
  }
  cuda::Stream stream(Queue queue) const override {
    return queue == Queue::Compute ? desc.compute : desc.exchange;
  }
  Status order(Queue before, Queue after) override {
    ContextScope current(driver, context.get());
    CHECK_CALL("order two streams", cuEventRecord, event, stream(before));
    CHECK_CALL("order two streams", cuStreamWaitEvent, stream(after), event, 0);
    return Status::success();
  }
  Status copyRows(uint64_t to, uint64_t toPitch, uint64_t from, uint64_t fromPitch, uint64_t width,
                  uint64_t rows, Queue queue) override {
    ContextScope current(driver, context.get());
    // The largest pitch of a two-dimensional copy, on all devices.
    constexpr uint64_t maxPitch = (uint64_t(1) << 31) - 1;
    if (rows == 1 || toPitch > maxPitch || fromPitch > maxPitch) {
      for (uint64_t row = 0; row < rows; ++row)
        CHECK_CALL("copy rows", cuMemcpyDtoDAsync, to + row * toPitch, from + row * fromPitch,
                   width, stream(queue));
      return Status::success();
    }
    cuda::RowCopy copy;
    copy.from = from;
    copy.fromPitch = fromPitch;
    copy.to = to;
    copy.toPitch = toPitch;
    copy.width = width;
    copy.height = rows;
    CHECK_CALL("copy rows", cuMemcpy2DAsync, &copy, stream(queue));
    return Status::success();
  }
  Status upload(uint64_t to, const void *from, uint64_t bytes) override {
    ContextScope current(driver, context.get());
    if (bytes)
      CHECK_CALL("copy to the device", cuMemcpyHtoDAsync, to, from, bytes, desc.compute);
    return Status::success();
  }
  Status download(void *to, uint64_t from, uint64_t bytes) override {
    ContextScope current(driver, context.get());
    if (bytes)
      CHECK_CALL("copy from the device", cuMemcpyDtoHAsync, to, from, bytes, desc.compute);
    return Status::success();
  }
  bool kernelsDelayMessages() const override { return true; }

  Result<std::unique_ptr<ProcessorKernel>> load(const AttentionDesc &attention) override {
    return firstOf(entryOf(attention), [&](const std::shared_ptr<const Bundle> &bundle) {
      return AttentionPlan::create(driver, bundle, attention);
    });
  }
  Result<std::unique_ptr<ProcessorKernel>> load(const std::string &entry,
                                                const Params &params) override {
    return firstOf(entry, [&](const std::shared_ptr<const Bundle> &bundle) {
      return Operation::create(driver, bundle, entry, params);
    });
  }

  /// Runs the code with arguments in its order.
  template <typename Code>
  Status run(const Code &code, const NamedArguments &arguments, ProcessorMemory &workspace,
             uint64_t &workspaceBytes) {
    const std::vector<ArgumentSpec> &specs = code.arguments();
    const Argument absent;
    const Argument *values[maxArguments];
    size_t used = 0;
    for (size_t i = 0; i < specs.size(); ++i) {
      auto found = std::find_if(arguments.begin(), arguments.end(), [&](const NamedArgument &each) {
        return each.name == specs[i].name;
      });
      values[i] = found == arguments.end() ? &absent : &found->value;
      used += found != arguments.end();
    }
    if (used != arguments.size())
      for (const NamedArgument &argument : arguments)
        if (std::none_of(specs.begin(), specs.end(),
                         [&](const ArgumentSpec &spec) { return spec.name == argument.name; }))
          return Status::failure("the arguments of the call must be those of " + code.signature() +
                                 ", but got '" + argument.name + "'");
    ContextScope current(driver, context.get());
    uint64_t bytes = 0;
    if (Status status = code.workspaceSize(values, specs.size(), desc.device, bytes); !status)
      return status;
    if (bytes > workspaceBytes) {
      Result<ProcessorMemory> memory = ProcessorMemory::allocate(*this, bytes);
      if (!memory)
        return memory.status();
      workspace = std::move(*memory); // cuMemFree of the old one waits for the device
      workspaceBytes = bytes;
    }
    return code.run(values, specs.size(), bytes ? workspace.get() : 0, bytes, desc.compute);
  }

private:
  /// The code of the first bundle that has it; else the failure of the first one with this entry.
  template <typename Create>
  Result<std::unique_ptr<ProcessorKernel>> firstOf(const std::string &entry, Create create) {
    Status failure = Status::failure(Code::MissingVariant,
                                     "a bundle must have '" + entry + "', but got no bundle");
    bool isOfEntry = false;
    for (const std::shared_ptr<const Bundle> &bundle : desc.bundles) {
      auto code = create(bundle);
      if (!code) {
        const Manifest &manifest = bundle->manifest();
        auto isNamed = [&](const auto &each) { return each.name == entry; };
        bool hasEntry = std::any_of(manifest.kernels.begin(), manifest.kernels.end(), isNamed) ||
                        std::any_of(manifest.programs.begin(), manifest.programs.end(), isNamed);
        if (!isOfEntry)
          failure = code.status();
        isOfEntry |= hasEntry;
        continue;
      }
      ContextScope current(driver, context.get());
      if (Status status = code->prepare(desc.device); !status)
        return status;
      using Code = std::decay_t<decltype(*code)>;
      return std::unique_ptr<ProcessorKernel>(
          std::make_unique<CudaKernel<Code>>(*this, std::move(*code)));
    }
    return failure;
  }

  const DriverTable &driver;
  CudaProcessorDesc desc;
  PrimaryContext context;
  bool ownsCompute = false, ownsExchange = false;
  cuda::Event event = nullptr;
};

template <typename Code> bool CudaKernel<Code>::takes(const std::string &name) const {
  const std::vector<ArgumentSpec> &specs = code.arguments();
  return std::any_of(specs.begin(), specs.end(),
                     [&](const ArgumentSpec &spec) { return spec.name == name; });
}

template <typename Code> Status CudaKernel<Code>::run(const NamedArguments &arguments) {
  return processor.run(code, arguments, workspace, workspaceBytes);
}

} // namespace

Result<std::unique_ptr<Processor>>
tilewright::runtime::makeCudaProcessor(const DriverTable &driver, const CudaProcessorDesc &desc) {
  if (Status status = driver.expectFunctions(); !status)
    return status;
  auto processor = std::make_unique<CudaProcessor>(driver, desc);
  if (Status status = processor->open(); !status)
    return status;
  return std::unique_ptr<Processor>(std::move(processor));
}
