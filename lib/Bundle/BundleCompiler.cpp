// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code and manifest of a module for one target.

#include "lib/Bundle/BundleCompiler.h"

#include "lib/Bundle/ManifestBuilder.h"
#include "passes/Conversion/Nvvm.h"
#include "passes/Tgpu/ScheduleNames.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::bundle;

llvm::Error tilewright::toError(const Status &status) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), status.message());
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

/// A program is not selected by device, so if it is compiled for several targets, its launches list
/// the kernels of all.
static llvm::Error mergeProgram(runtime::ProgramSpec &into, const runtime::ProgramSpec &from,
                                const std::string &target) {
  if (!haveOneForm(into, from))
    return llvm::createStringError(
        "program '" + into.name +
        "' must have the same launches and workspaces for every target, but those for " + target +
        " differ; make one bundle per target");
  into.params = getCommon(into.params, from.params);
  for (auto [launch, other] : llvm::zip_equal(into.launches, from.launches))
    llvm::append_range(launch.kernels, other.kernels);
  return llvm::Error::success();
}

HeldDiagnostics::HeldDiagnostics(MLIRContext *context) : context(context) {
  handler.emplace(context, [this](Diagnostic &diagnostic) {
    said.push_back(std::move(diagnostic));
    return success();
  });
}

void HeldDiagnostics::emit() {
  handler.reset();
  for (Diagnostic &diagnostic : said)
    context->getDiagEngine().emit(std::move(diagnostic));
  said.clear();
}

llvm::Error tilewright::mapPart(BundlePart &part) {
  if (llvm::Expected<const Target &> known = findTarget(part.gpu.target); !known)
    return known.takeError();
  OwningOpRef<ModuleOp> mapped = part.module.clone();
  if (failed(mapToGpu(*mapped, part.gpu)))
    return llvm::createStringError("mapping onto " + part.gpu.target + " failed");
  part.mapped = std::move(mapped);
  return llvm::Error::success();
}

/// A part of the same module with another entry in the schedule (empty: none), if it can be mapped
/// with it.
static std::optional<BundlePart> mapScheduled(const BundlePart &part, llvm::StringRef entry) {
  BundlePart scheduled{part.module, part.gpu, part.ptx};
  if (!entry.empty())
    scheduled.gpu.schedule.push_back(entry.str());
  if (llvm::Error error = mapPart(scheduled)) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  return scheduled;
}

/// PTX from a file, of which only the text is known.
class GivenPtx {
public:
  explicit GivenPtx(llvm::StringRef text) : text(text) {}

  /// 70 for ".version 7.0".
  int getVersion() const {
    llvm::StringRef version = text.split(".version ").second.split('\n').first.trim();
    auto [major, minor] = version.split('.');
    int majorNumber = 0, minorNumber = 0;
    if (major.getAsInteger(10, majorNumber) || minor.getAsInteger(10, minorNumber))
      return 0;
    return 10 * majorNumber + minorNumber;
  }

  bool hasEntry(const std::string &entry) const { return text.contains(".entry " + entry + "("); }

  uint32_t getStaticSharedBytes(llvm::StringRef entry) const {
    uint32_t bytes = 0;
    text.split((" " + entry + "_scratch[").str()).second.consumeInteger(10, bytes);
    return bytes;
  }

private:
  llvm::StringRef text;
};

struct PartCode {
  std::string ptx;
  int version;
  SpillWarnings spills;
};

/// The code of a part, and the shared memory of its kernels.
static llvm::Expected<PartCode> makeCode(BundlePart &part,
                                         std::vector<runtime::KernelSpec> &kernels) {
  const GpuOptions &gpu = part.gpu;
  PartCode code{part.ptx, Target::find(gpu.target)->ptxVersion, SpillWarnings(*part.mapped, gpu)};
  if (code.ptx.empty()) {
    llvm::Expected<std::string> made = compileMapped(*part.mapped, GpuForm::Ptx, gpu);
    if (!made)
      return made.takeError();
    code.ptx = std::move(*made);
    for (runtime::KernelSpec &kernel : kernels)
      kernel.staticSharedBytes = nvvm::getStaticSharedBytes(*part.mapped, kernel.entry);
    return code;
  }
  GivenPtx given(code.ptx);
  code.version = given.getVersion();
  for (runtime::KernelSpec &kernel : kernels) {
    Status entry = runtime::checkEntry(kernel, runtime::CodeSpec::Kind::Ptx, code.ptx);
    if (!entry)
      return llvm::createStringError("a bundle " + entry.message());
    kernel.staticSharedBytes = given.getStaticSharedBytes(kernel.entry);
  }
  return code;
}

static llvm::Error addCode(runtime::BundleWriter &bundle, const PartCode &code,
                           const std::string &target, bool assemble,
                           std::vector<runtime::KernelSpec> &kernels) {
  runtime::Arch arch = *runtime::Arch::parse(target);
  std::vector<runtime::CodeSpec> codes;
  codes.push_back({runtime::CodeSpec::Kind::Ptx, arch, code.version, bundle.addPtx(code.ptx)});
  if (assemble && !findAssembler().empty()) {
    llvm::Expected<Assembly> assembly = assembleCubin(code.ptx, target);
    if (!assembly)
      return assembly.takeError();
    code.spills.emit(assembly->resources);
    codes.push_back(
        {runtime::CodeSpec::Kind::Cubin, arch, 0, bundle.addCubin(std::move(assembly->cubin))});
  }
  for (runtime::KernelSpec &kernel : kernels)
    kernel.codes = codes;
  return llvm::Error::success();
}

/// Whether kernels take more shared memory per block than the smallest chips for their target have.
static bool isTooLarge(const BundlePart &part, llvm::ArrayRef<runtime::KernelSpec> kernels) {
  int64_t least = Target::find(part.gpu.target)->leastSharedOfBlock;
  return llvm::any_of(
      kernels, [&](const runtime::KernelSpec &kernel) { return kernel.allSharedBytes() > least; });
}

/// If kernels can copy captures by tensor maps, the bundle also contains this form, unless the
/// caller has decided. Kernels that cannot be mapped in this form only have the other one.
static std::optional<BundlePart> mapCopying(const BundlePart &part) {
  const Target *target = Target::find(part.gpu.target);
  auto decides = [](StringRef entry) { return entry.split('=').first == tgpu::copyCapturesKey; };
  ModuleOp module = part.module;
  if (!target || !target->hasRoles() || !part.ptx.empty() || isMapped(module) ||
      module.getOps<tile::CaptureOp>().empty() || llvm::any_of(part.gpu.schedule, decides))
    return std::nullopt;
  HeldDiagnostics held(module.getContext());
  std::optional<BundlePart> copying = mapScheduled(part, (tgpu::copyCapturesKey + "=1").str());
  if (!copying)
    return std::nullopt;
  WalkResult found = copying->mapped->walk([](tgpu::TensorMapOp map) {
    return map.getView().getDefiningOp<tile::CapturedOp>() ? WalkResult::interrupt()
                                                           : WalkResult::advance();
  });
  if (!found.wasInterrupted())
    return std::nullopt;
  held.emit();
  return copying;
}

/// For each form of each kernel, without the code.
static llvm::Expected<std::vector<runtime::KernelSpec>> makeKernelSpecs(const BundlePart &part) {
  std::vector<runtime::KernelSpec> kernels;
  const std::string &ptx = part.ptx;
  for (auto kernel : part.mapped.get().getOps<tgpu::KernelOp>()) {
    tgpu::AlignedViews aligned = tgpu::getAlignedViews(kernel);
    // Code from a file may have only one form.
    bool hasForm =
        !aligned.empty() &&
        (ptx.empty() || GivenPtx(ptx).hasEntry(tgpu::getAlignedEntry(kernel.getSymName())));
    for (bool isAligned : {true, false}) {
      if (isAligned && !hasForm)
        continue;
      auto spec = makeKernelSpec(kernel, isAligned ? aligned : tgpu::AlignedViews());
      if (!spec)
        return spec.takeError();
      kernels.push_back(std::move(*spec));
    }
  }
  return kernels;
}

/// Adds a form of a part for chips with little shared memory, by `add`: the first one that fits.
/// Kernels that cannot be mapped in any form are omitted without a diagnostic; returns whether all
/// are.
static llvm::Expected<bool>
addSmall(const BundlePart &large,
         llvm::function_ref<llvm::Expected<bool>(BundlePart &, bool mustBeSmall)> add) {
  constexpr llvm::StringLiteral withoutRings = "stages=1";
  MLIRContext *context = ModuleOp(large.module).getContext();
  auto addScheduled = [&](const BundlePart &part, llvm::StringRef entry) -> llvm::Expected<bool> {
    HeldDiagnostics held(context);
    std::optional<BundlePart> scheduled = mapScheduled(part, entry);
    if (!scheduled)
      return true;
    held.emit();
    return add(*scheduled, /*mustBeSmall=*/true);
  };
  llvm::Expected<bool> isLarge = addScheduled(large, withoutRings);
  if (!isLarge || !*isLarge || !large.bindSmaller)
    return isLarge;
  ModuleOp module = large.bindSmaller(Target::find(large.gpu.target)->leastSharedOfBlock);
  if (!module)
    return true;
  BundlePart smaller{module, large.gpu, ""};
  isLarge = addScheduled(smaller, "");
  if (!isLarge || !*isLarge)
    return isLarge;
  return addScheduled(smaller, withoutRings);
}

llvm::Error tilewright::addToBundle(runtime::BundleWriter &bundle,
                                    MutableArrayRef<BundlePart> wanted, bool assemble) {
  runtime::Manifest manifest = bundle.manifest;
  size_t firstProgram = manifest.programs.size();
  auto findProgram = [&](const runtime::ProgramSpec &program) {
    return std::find_if(manifest.programs.begin() + firstProgram, manifest.programs.end(),
                        [&](const auto &known) { return known.name == program.name; });
  };
  /// Adds code and manifest of a mapped part; returns whether it needs more memory than smaller
  /// chips have. If it must be small, it is then omitted, as are launches that cannot replace the
  /// existing ones.
  auto add = [&](BundlePart &part, bool mustBeSmall) -> llvm::Expected<bool> {
    auto kernels = makeKernelSpecs(part);
    if (!kernels)
      return kernels.takeError();
    if (mustBeSmall && isTooLarge(part, *kernels)) // without code, which adds to this
      return true;
    std::vector<runtime::ProgramSpec> programs;
    for (auto program : part.mapped->getOps<tile::ProgramOp>()) {
      auto spec = makeProgramSpec(program, *kernels, manifest.kernels.size());
      if (!spec)
        return spec.takeError();
      auto known = findProgram(*spec);
      if (mustBeSmall && known != manifest.programs.end() && !haveOneForm(*known, *spec))
        return true;
      programs.push_back(std::move(*spec));
    }
    llvm::Expected<PartCode> code = makeCode(part, *kernels);
    if (!code)
      return code.takeError();
    bool isLarge = isTooLarge(part, *kernels);
    if (mustBeSmall && isLarge)
      return true;
    if (llvm::Error error = addCode(bundle, *code, part.gpu.target, assemble, *kernels))
      return error;
    for (runtime::ProgramSpec &program : programs) {
      auto same = findProgram(program);
      if (same == manifest.programs.end())
        manifest.programs.push_back(std::move(program));
      else if (llvm::Error error = mergeProgram(*same, program, part.gpu.target))
        return error;
    }
    llvm::move(*kernels, std::back_inserter(manifest.kernels));
    return isLarge;
  };
  // For chips with less shared memory, kernels have no rings or smaller blocks, unless the caller
  // has decided about rings.
  SmallVector<BundlePart *> large;
  for (BundlePart &part : wanted) {
    if (!part.mapped)
      if (llvm::Error error = mapPart(part))
        return error;
    if (std::optional<BundlePart> copying = mapCopying(part)) // it goes first
      if (llvm::Expected<bool> isLarge = add(*copying, /*mustBeSmall=*/false); !isLarge)
        return isLarge.takeError();
    llvm::Expected<bool> isLarge = add(part, /*mustBeSmall=*/false);
    if (!isLarge)
      return isLarge.takeError();
    part.mapped = nullptr; // code generation has consumed it
    if (*isLarge && part.ptx.empty() && part.gpu.schedule.empty())
      large.push_back(&part);
  }
  for (BundlePart *part : large)
    if (llvm::Expected<bool> isLarge = addSmall(*part, add); !isLarge)
      return isLarge.takeError();
  bundle.manifest.kernels.swap(manifest.kernels);
  bundle.manifest.programs.swap(manifest.programs);
  Result<std::string> bytes = bundle.bytes(); // calls finalize
  if (bytes)
    return llvm::Error::success();
  bundle.manifest.kernels.swap(manifest.kernels);
  bundle.manifest.programs.swap(manifest.programs);
  return toError(bytes.status());
}
