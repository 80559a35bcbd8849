// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options, file, arguments, device: in this order, so that the first error is reported.

#include "lib/Driver/FileRun.h"

#include "base/Abi/TimelineFormat.h"
#include "dialect/Tile/TextInput.h"
#include "dialect/Tile/Tile.h"
#include "lib/Bundle/HeldDiagnostics.h"
#include "lib/Driver/MappedModule.h"
#include "lib/Driver/ParamInference.h"
#include "lib/Driver/UnmappedViews.h"
#include "lib/Support/MakeError.h"
#include "passes/Tile/BindParameters.h"

using namespace tilewright;

llvm::Expected<std::unique_ptr<FileRun>> FileRun::create(mlir::MLIRContext &context,
                                                         FileRunRequest request) {
  std::unique_ptr<FileRun> run(new FileRun(context, std::move(request)));
  const FileRunRequest &asked = run->request;
  llvm::Expected<DeviceName> device = DeviceName::parse(asked.device);
  if (!device)
    return makeError("--device: " + llvm::toString(device.takeError()));
  if (!asked.target.empty()) {
    if (llvm::Expected<const Target &> known = findTarget(asked.target); !known)
      return known.takeError();
    if (device->kind != DeviceName::Kind::Cuda)
      return makeError("--target requires --device=cuda, but the device is " + asked.device);
    device->target = asked.target;
  }
  run->device = std::move(*device);
  if (llvm::Error error = resolve(asked.compile, run->options, run->kind))
    return error;
  run->options.exactLiterals = asked.binding.f64;
  run->options.target = run->device.target;
  run->options.keepDebug |= run->device.kind == DeviceName::Kind::Simulator;
  run->options.source = getLinkSource(asked.file);
  return run;
}

llvm::Error FileRun::read(DiagnosticPrinter *printer) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> text = readText(request.file);
  if (!text)
    return makeError("cannot open '" + request.file + "': " + llvm::toString(text.takeError()));
  buffer = std::move(*text);
  if (printer && request.file == "-")
    printer->keepStandardInput(buffer->getBuffer());
  module = parseBuffer(context, *buffer, options.source);
  if (!module)
    return makeError("compilation failed; correct the errors above");
  if (isMapped(*module))
    return llvm::Error::success();
  mlir::Operation *entry = findEntry(*module, options.entry);
  if (llvm::isa_and_present<tile::KernelOp, tile::ProgramOp>(entry))
    stated = interpreter::StatedConditions(tile::Signature(entry));
  return inferParams(*module, options, request.binding);
}

llvm::Error FileRun::compile() {
  DeviceRunOptions runOptions;
  runOptions.f64 = request.binding.f64;
  runOptions.seed = request.binding.seed;
  runOptions.gpu.warps = request.warps;
  runOptions.gpu.schedule = request.schedule;
  runOptions.checksIndices = request.checksIndices;
  runOptions.timelineFile = request.timelineFile;
  runOptions.timelineBytes = request.timelineBytes;
  if (!runOptions.timelineFile.empty())
    runOptions.gpu.timelineWords = timeline::defaultWords;
  // A schedule, like an edited one, is for one target.
  mlir::OwningOpRef<mlir::ModuleOp> parsed;
  if (const Target *target = Target::find(device.target);
      target && target->hasRoles() && !isMapped(*module) && request.schedule.empty() &&
      request.warps == GpuOptions().warps)
    parsed = module->clone();
  module = compileOrTakeMapped(std::move(module), *buffer, options, kind, runOptions.gpu);
  mlir::Operation *entry = module ? chooseEntry(*module, options.entry, kind, *buffer) : nullptr;
  if (!entry)
    return makeError("compilation failed; correct the errors above");
  stated.attach(*module);
  llvm::SmallVector<ArgumentInfo> arguments = getArguments(entry);
  llvm::SmallVector<llvm::StringRef> captures;
  for (const ArgumentInfo &argument : arguments) {
    auto view = llvm::dyn_cast<tile::ViewType>(argument.type);
    if (argument.isCapture &&
        llvm::isa<mlir::FloatType>(view ? view.getElementType() : argument.type))
      captures.push_back(argument.name);
  }
  llvm::Expected<NpyBinding> bound =
      NpyBinding::create(arguments, request.binding, [&](llvm::StringRef name) {
        return stated.explainAbsent(entry, name, captures);
      });
  if (!bound)
    return bound.takeError();
  binding.emplace(std::move(*bound));
  if (parsed && takesOtherTarget(entry, runOptions.gpu)) {
    options.target = device.target = std::string(Target::getDefault().name);
    module = compileModule(std::move(parsed), *buffer, options, kind);
    entry = module ? chooseEntry(*module, options.entry, kind, *buffer) : nullptr;
    if (!entry)
      return makeError("compilation failed; correct the errors above");
    stated.attach(*module);
  }
  llvm::Expected<std::unique_ptr<DeviceRun>> made = DeviceRun::create(device, entry, runOptions);
  if (!made)
    return made.takeError();
  deviceRun = std::move(*made);
  return llvm::Error::success();
}

bool FileRun::takesOtherTarget(mlir::Operation *entry, GpuOptions gpu) const {
  if (areAligned(binding->getArguments()))
    return false;
  gpu.target = device.target;
  mlir::OwningOpRef<mlir::ModuleOp> mapped =
      llvm::cast<mlir::ModuleOp>(entry->getParentOfType<mlir::ModuleOp>()->clone());
  {
    HeldDiagnostics held(&context); // the device reports what cannot be mapped
    if (mlir::failed(mapToGpu(*mapped, gpu)))
      return false;
  }
  std::string reason = explainUnmappedView(
      *mapped, mlir::SymbolTable::getSymbolName(entry).getValue(), binding->getArguments());
  if (reason.empty())
    return false;
  emitWarning(entry->getLoc()) << "the code for " << device.target
                               << " does not take these arrays: " << reason << "; that for "
                               << Target::getDefault().name << " runs, as from a bundle";
  return true;
}

llvm::Expected<double> FileRun::run(WatchList *watches) {
  if (hasRun)
    binding->reset();
  hasRun = true;
  return deviceRun->run(binding->getArguments(), watches);
}
