// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code and manifest of a module for one target.

#include "lib/Bundle/BundleCompiler.h"

#include "lib/Bundle/ManifestBuilder.h"
#include "passes/Tgpu/ScheduleNames.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::bundle;

llvm::Error tilewright::toError(const runtime::Status &status) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), status.message());
}

/// 70 for ".version 7.0".
static int getPtxVersion(llvm::StringRef ptx) {
  llvm::StringRef version = ptx.split(".version ").second.split('\n').first.trim();
  auto [major, minor] = version.split('.');
  int majorNumber = 0, minorNumber = 0;
  if (major.getAsInteger(10, majorNumber) || minor.getAsInteger(10, minorNumber))
    return 0;
  return 10 * majorNumber + minorNumber;
}

/// Parameters of one program that have the same values on all targets.
static runtime::Params getCommon(const runtime::Params &a, const runtime::Params &b) {
  runtime::Params common;
  for (const auto &param : a)
    for (const auto &other : b)
      if (param.first == other.first && param.second == other.second)
        common.push_back(param);
  return common;
}

/// A program is not chosen by device, so the launches of one that is compiled for several targets
/// list the kernels of all.
static llvm::Error mergeProgram(runtime::ProgramSpec &into, const runtime::ProgramSpec &from,
                                const std::string &target) {
  if (!haveOneForm(into, from))
    return llvm::createStringError("program '" + into.name +
                                   "' has other launches or workspaces "
                                   "for " +
                                   target +
                                   " than for the target before; make a bundle "
                                   "for each");
  into.params = getCommon(into.params, from.params);
  for (auto [launch, other] : llvm::zip_equal(into.launches, from.launches))
    llvm::append_range(launch.kernels, other.kernels);
  return llvm::Error::success();
}

/// What a kernel's code declares for exchanges between warps.
static uint32_t getStaticSharedBytes(llvm::StringRef ptx, llvm::StringRef entry) {
  uint32_t bytes = 0;
  ptx.split((" " + entry + "_scratch[").str()).second.consumeInteger(10, bytes);
  return bytes;
}

/// The code of a mapped module, which is consumed, into its kernels.
static llvm::Error makeCode(runtime::BundleWriter &bundle, ModuleOp module, const BundlePart &part,
                            bool assemble, std::vector<runtime::KernelSpec> &kernels) {
  const GpuOptions &gpu = part.gpu;
  std::optional<runtime::Arch> arch = runtime::Arch::parse(gpu.target);
  SpillWarnings spills(module, gpu);
  llvm::Expected<std::string> ptx = part.ptx;
  if (part.ptx.empty())
    ptx = compileForGpu(module, GpuForm::Ptx, gpu);
  if (!ptx)
    return ptx.takeError();
  for (const runtime::KernelSpec &kernel : kernels) {
    runtime::Status entry = runtime::checkEntry(kernel, runtime::CodeSpec::Kind::Ptx, *ptx);
    if (!entry)
      return llvm::createStringError("a bundle " + entry.message());
  }
  std::vector<runtime::CodeSpec> codes;
  codes.push_back({runtime::CodeSpec::Kind::Ptx, *arch, getPtxVersion(*ptx), bundle.addPtx(*ptx)});
  if (assemble && !findAssembler().empty()) {
    llvm::Expected<Assembly> assembly = assembleCubin(*ptx, gpu.target);
    if (!assembly)
      return assembly.takeError();
    spills.emit(assembly->resources);
    codes.push_back(
        {runtime::CodeSpec::Kind::Cubin, *arch, 0, bundle.addCubin(std::move(assembly->cubin))});
  }
  for (runtime::KernelSpec &kernel : kernels) {
    kernel.codes = codes;
    kernel.staticSharedBytes = getStaticSharedBytes(*ptx, kernel.entry);
  }
  return llvm::Error::success();
}

static int64_t getSharedBytes(ModuleOp module) {
  int64_t most = 0;
  for (auto kernel : module.getOps<tgpu::KernelOp>())
    most = std::max(most, static_cast<int64_t>(kernel.getSharedBytes().value_or(0)));
  return most;
}

static int64_t getSharedBytes(const std::vector<runtime::KernelSpec> &kernels) {
  int64_t most = 0;
  for (const runtime::KernelSpec &kernel : kernels)
    most = std::max(most, kernel.allSharedBytes());
  return most;
}

/// Where kernels take more shared memory than the smallest chips that run code for their target
/// leave to a block, the bundle gets them without rings, too, unless the caller has decided about
/// those.
static std::optional<BundlePart> getSmallPart(const BundlePart &part,
                                              const std::vector<runtime::KernelSpec> &kernels) {
  const Target *target = Target::find(part.gpu.target);
  if (!target || target->leastSharedOfBlock == target->sharedOfBlock)
    return std::nullopt;
  bool isDecided = !part.ptx.empty() || !part.gpu.schedule.empty();
  if (isDecided || getSharedBytes(kernels) <= target->leastSharedOfBlock)
    return std::nullopt;
  BundlePart small = part;
  small.gpu.schedule = {"stages=1"};
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(part.module->clone());
  if (failed(mapToGpu(*copy, small.gpu)) || getSharedBytes(*copy) > target->leastSharedOfBlock)
    return std::nullopt;
  return small;
}

/// Where kernels can copy what they capture by tensor maps, the bundle gets them in this form, too,
/// unless the caller has decided about it. What is refused so is left to the other form.
static std::optional<BundlePart> getCopyingPart(const BundlePart &part) {
  const Target *target = Target::find(part.gpu.target);
  auto decides = [](StringRef entry) { return entry.split('=').first == tgpu::copyCapturesKey; };
  ModuleOp module = part.module;
  if (!target || !target->hasRoles() || !part.ptx.empty() || isMapped(module) ||
      module.getOps<tile::CaptureOp>().empty() || llvm::any_of(part.gpu.schedule, decides))
    return std::nullopt;
  BundlePart copying = part;
  copying.gpu.schedule.push_back((tgpu::copyCapturesKey + "=1").str());
  ScopedDiagnosticHandler quiet(module.getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> copy = module.clone();
  if (failed(mapToGpu(*copy, copying.gpu)))
    return std::nullopt;
  WalkResult found = copy->walk([](tgpu::TensorMapOp map) {
    return map.getView().getDefiningOp<tile::CapturedOp>() ? WalkResult::interrupt()
                                                           : WalkResult::advance();
  });
  return found.wasInterrupted() ? std::optional(copying) : std::nullopt;
}

llvm::Error tilewright::addToBundle(runtime::BundleWriter &bundle, ArrayRef<BundlePart> wanted,
                                    bool assemble) {
  runtime::Manifest manifest = bundle.manifest;
  size_t firstProgram = manifest.programs.size();
  SmallVector<BundlePart> parts;
  for (const BundlePart &part : wanted) {
    if (std::optional<BundlePart> copying = getCopyingPart(part))
      parts.push_back(std::move(*copying)); // it goes first
    parts.push_back(part);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    BundlePart part = parts[i];
    if (llvm::Expected<const Target &> known = findTarget(part.gpu.target); !known)
      return known.takeError();
    OwningOpRef<ModuleOp> copy = cast<ModuleOp>(part.module->clone());
    if (failed(mapToGpu(*copy, part.gpu)))
      return llvm::createStringError("mapping onto " + part.gpu.target + " failed");

    std::vector<runtime::KernelSpec> kernels;
    for (auto kernel : copy->getOps<tgpu::KernelOp>()) {
      tgpu::AlignedViews aligned = tgpu::getAlignedViews(kernel);
      // Code from elsewhere may have one form only.
      std::string entry = tgpu::getAlignedEntry(kernel.getSymName());
      bool hasForm =
          !aligned.empty() &&
          (part.ptx.empty() || llvm::StringRef(part.ptx).contains(".entry " + entry + "("));
      for (bool isAligned : {true, false}) {
        if (isAligned && !hasForm)
          continue;
        auto spec = makeKernelSpec(kernel, isAligned ? aligned : tgpu::AlignedViews());
        if (!spec)
          return spec.takeError();
        kernels.push_back(std::move(*spec));
      }
    }
    for (auto program : copy->getOps<tile::ProgramOp>()) {
      auto spec = makeProgramSpec(program, kernels, manifest.kernels.size());
      if (!spec)
        return spec.takeError();
      auto same = std::find_if(manifest.programs.begin() + firstProgram, manifest.programs.end(),
                               [&](const auto &known) { return known.name == spec->name; });
      if (same == manifest.programs.end())
        manifest.programs.push_back(std::move(*spec));
      else if (llvm::Error error = mergeProgram(*same, *spec, part.gpu.target))
        return error;
    }
    if (llvm::Error error = makeCode(bundle, *copy, part, assemble, kernels))
      return error;
    if (std::optional<BundlePart> small = getSmallPart(part, kernels))
      parts.push_back(std::move(*small));
    for (runtime::KernelSpec &kernel : kernels)
      manifest.kernels.push_back(std::move(kernel));
  }
  bundle.manifest.kernels.swap(manifest.kernels);
  bundle.manifest.programs.swap(manifest.programs);
  runtime::Expected<std::string> bytes = bundle.bytes(); // finalizes
  if (bytes)
    return llvm::Error::success();
  bundle.manifest.kernels.swap(manifest.kernels);
  bundle.manifest.programs.swap(manifest.programs);
  return toError(bytes.status());
}
