// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The three kinds of devices.

#include "lib/Driver/DeviceRun.h"

#include "base/Abi/TimelineFormat.h"
#include "dialect/Tgpu/Tgpu.h"
#include "lib/Driver/BundleCache.h"
#include "lib/Driver/ToolSupport.h"
#include "lib/Interpreter/EntryRun.h"
#include "lib/Interpreter/Simulator/Simulate.h"
#include "lib/Support/MakeError.h"
#include "passes/Tile/ProgramOfKernel.h"
#include "runtime/Timeline.h"

#include "mlir/IR/SymbolTable.h"

using namespace tilewright;

namespace {

llvm::StringRef nameOf(mlir::Operation *entry) {
  return mlir::SymbolTable::getSymbolName(entry).getValue();
}

struct CpuRun : DeviceRun {
  CpuRun(mlir::Operation *entry, const DeviceRunOptions &options) : entry(entry) {
    runOptions.f64 = options.f64;
    runOptions.threads = options.threads;
  }
  llvm::Expected<double> run(const llvm::StringMap<Argument> &arguments,
                             WatchList *watches) override {
    runOptions.watches = watches;
    mlir::LogicalResult result = mlir::failure();
    double seconds = timeOf([&] { result = runOnCpu(entry, arguments, runOptions); });
    if (mlir::failed(result))
      return makeError("the run failed");
    return seconds;
  }

  mlir::Operation *entry;
  RunOptions runOptions;
};

struct CudaRun : DeviceRun {
  CudaRun(std::unique_ptr<GpuDevice> device, GpuOperation operation,
          std::shared_ptr<const runtime::Bundle> bundle, mlir::Operation *bound,
          const DeviceRunOptions &options)
      : bound(bound), device(std::move(device)), operation(std::move(operation)),
        bundle(std::move(bundle)), timelineFile(options.timelineFile),
        timelineWords(options.timelineBytes / 8) {}

  llvm::Expected<double> run(const llvm::StringMap<Argument> &arguments, WatchList *) override {
    // Checks the elements of index arrays, which a launch reads only on request; a mapped file is
    // not bound.
    if (bound && mlir::failed(interpreter::checkEntry(bound, arguments, std::nullopt)))
      return makeError("the run failed");
    if (timelineFile.empty())
      return launch(arguments);
    std::vector<int64_t> timeline(timelineWords);
    llvm::StringMap<Argument> more(arguments);
    ArrayArgument array;
    array.data = timeline.data();
    array.type = ElementType::I64;
    array.shape = {timelineWords};
    array.strides = {1};
    more[timeline::argumentName] = array;
    llvm::Expected<double> seconds = launch(more);
    if (!seconds)
      return seconds;
    Result<std::string> text = runtime::timelineToJson(bundle->manifest(), timeline.data(),
                                                       timeline.size() * sizeof(int64_t));
    Status status = text ? runtime::writeFileAtomically(timelineFile, *text) : text.status();
    return status.ok() ? std::move(seconds) : toError(status);
  }

private:
  llvm::Expected<double> launch(const llvm::StringMap<Argument> &arguments) {
    llvm::Expected<std::unique_ptr<GpuCall>> call = GpuCall::create(operation, arguments);
    if (!call)
      return call.takeError();
    if (llvm::Error error = (*call)->upload())
      return error;
    llvm::Error error = llvm::Error::success();
    (void)static_cast<bool>(error);
    double seconds = timeOf([&] {
      error = (*call)->launch();
      if (!error)
        error = (*call)->wait();
    });
    if (error)
      return error;
    if (llvm::Error error = (*call)->download())
      return error;
    return seconds;
  }

  mlir::Operation *bound; ///< null if it is mapped already
  std::unique_ptr<GpuDevice> device;
  GpuOperation operation;
  std::shared_ptr<const runtime::Bundle> bundle;
  std::string timelineFile;
  int64_t timelineWords;
};

struct SimulatorRun : DeviceRun {
  SimulatorRun(mlir::OwningOpRef<mlir::ModuleOp> module, llvm::StringRef entry, uint64_t seed)
      : module(std::move(module)), entry(entry.str()) {
    options.seed = seed;
  }
  llvm::Expected<double> run(const llvm::StringMap<Argument> &arguments,
                             WatchList *watches) override {
    options.watches = watches;
    mlir::LogicalResult result = mlir::failure();
    double seconds = timeOf([&] { result = simulate(*module, entry, arguments, options); });
    if (mlir::failed(result))
      return makeError("the simulation failed");
    return seconds;
  }

  mlir::OwningOpRef<mlir::ModuleOp> module; ///< mapped
  std::string entry;
  SimulationOptions options;
};

mlir::LogicalResult checkTarget(mlir::ModuleOp module, llvm::StringRef name) {
  const Target *target = Target::find(name);
  for (auto kernel : module.getOps<tgpu::KernelOp>())
    if (!target || !tgpu::getTargetOf(kernel).runsOn(*target))
      return kernel.emitOpError() << "was mapped onto " << kernel.getTarget()
                                  << ", but the device is sim:" << name
                                  << "; give --device=sim:" << kernel.getTarget();
  return mlir::success();
}

} // namespace

DeviceRun::~DeviceRun() = default;

llvm::Expected<DeviceName> DeviceName::parse(llvm::StringRef text) {
  DeviceName device;
  if (text == "cpu" || (text == "auto" && !GpuDevice::isAvailable()))
    return device;
  device.kind = Kind::Cuda;
  llvm::StringRef rest = text;
  if (text == "cuda" || text == "auto" ||
      (rest.consume_front("cuda:") && !rest.getAsInteger(10, device.ordinal) &&
       device.ordinal >= 0)) {
    // The target depends on the device; if there is none, a run reports it.
    llvm::Expected<std::unique_ptr<GpuDevice>> opened = GpuDevice::open(device.ordinal);
    device.target = opened ? (*opened)->getTarget() : std::string(Target::getDefault().name);
    if (!opened)
      llvm::consumeError(opened.takeError());
    return device;
  }
  device.kind = Kind::Simulator;
  rest = text;
  if (rest.consume_front("sim:") && Target::find(rest)) {
    device.target = rest.str();
    return device;
  }
  return makeError("expected cpu, cuda, cuda:N, auto, " + Target::getNames("sim:") + " but got '" +
                   text + "'");
}

llvm::Expected<std::unique_ptr<DeviceRun>>
DeviceRun::create(const DeviceName &name, mlir::Operation *entry, const DeviceRunOptions &options) {
  if (name.kind != DeviceName::Kind::Cuda && !options.timelineFile.empty())
    return makeError("a timeline requires a GPU; give --device=cuda");
  if (name.kind == DeviceName::Kind::Cpu) {
    for (auto kernel : entry->getParentOfType<mlir::ModuleOp>().getOps<tgpu::KernelOp>()) {
      kernel.emitOpError() << "is mapped onto a GPU, but the device is "
                              "cpu; give --device=sim:"
                           << kernel.getTarget();
      return makeError("a mapped kernel cannot run on the CPU");
    }
    return std::make_unique<CpuRun>(entry, options);
  }
  if (options.f64)
    return makeError("f64 precision is supported on the CPU only; give --device=cpu");
  GpuOptions gpu = options.gpu;
  gpu.target = name.target;
  if (name.kind == DeviceName::Kind::Simulator) {
    auto module = entry->getParentOfType<mlir::ModuleOp>();
    mlir::OwningOpRef<mlir::ModuleOp> copy = llvm::cast<mlir::ModuleOp>(module->clone());
    // An edited schedule is always simulated: the simulator shows its effect.
    if (!isMapped(*copy) && mlir::failed(mapToGpu(*copy, gpu)))
      return makeError("mapping onto " + gpu.target + " failed");
    if (mlir::failed(checkTarget(*copy, gpu.target)))
      return makeError("the simulation failed");
    return std::make_unique<SimulatorRun>(std::move(copy), nameOf(entry), options.seed);
  }
  llvm::Expected<std::unique_ptr<GpuDevice>> device = GpuDevice::open(name.ordinal);
  if (!device)
    return device.takeError();
  // Assemble only a cubin that the device can use: it takes as long as the driver's compilation.
  const Target *target = Target::find(gpu.target);
  const runtime::DeviceInfo &info = (*device)->getInfo();
  bool assemble = !target || target->cubinServes(info.major, info.minor);
  auto bundle = compileOrFindEntry(entry, gpu, assemble);
  if (!bundle)
    return bundle.takeError();
  llvm::Expected<GpuOperation> operation =
      GpuOperation::create(**device, *bundle, getEntryName(entry));
  if (!operation)
    return operation.takeError();
  if (options.checksIndices)
    operation->checkIndices(true);
  bool isBound = llvm::isa<tile::KernelOp, tile::ProgramOp>(entry) &&
                 !isMapped(entry->getParentOfType<mlir::ModuleOp>());
  return std::make_unique<CudaRun>(std::move(*device), std::move(*operation), *bundle,
                                   isBound ? entry : nullptr, options);
}
