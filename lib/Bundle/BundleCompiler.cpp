// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code and manifest of the entries of a bundle: all kernels are mapped, then all code is made, then
// the manifest is written.

#include "lib/Bundle/BundleCompiler.h"

#include "lib/Bundle/HeldDiagnostics.h"
#include "lib/Bundle/KernelJob.h"
#include "lib/Bundle/ManifestBuilder.h"
#include "lib/Bundle/ProgramForms.h"
#include "lib/Bundle/ReachedSymbols.h"
#include "lib/Codegen/CrashReproducer.h"
#include "lib/Codegen/Dump.h"
#include "passes/Tgpu/Analysis/Notes.h"
#include "passes/Tgpu/Plan/ScheduleKeys.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::bundle;

llvm::Error tilewright::toError(const Status &status) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), status.message());
}

namespace {
/// For the parallel parts of passes, each of which a job executes itself: a job that waited for
/// tasks of a common pool would meanwhile begin another job, and end only after that.
class OwnThread : public llvm::ThreadPoolInterface {
public:
  ~OwnThread() override = default;
  void wait() override {}
  void wait(llvm::ThreadPoolTaskGroup &) override {}
  unsigned getMaxConcurrency() const override { return 1; }

private:
  void asyncEnqueue(llvm::unique_function<void()> task, llvm::ThreadPoolTaskGroup *) override {
    task();
  }
};
} // namespace

ThreadedContext::ThreadedContext(MLIRContext &context) : context(context) {
  if (context.isMultithreadingEnabled() || isDumping() || wantsCrashReproducer() ||
      llvm::hardware_concurrency().compute_thread_count() < 2)
    return;
  static OwnThread ownThread; // a context keeps the pool that it was given
  context.setThreadPool(ownThread);
  if (context.isMultithreadingEnabled()) // not with --mlir-disable-threading
    pool = std::make_unique<llvm::DefaultThreadPool>();
}

ThreadedContext::~ThreadedContext() {
  if (pool)
    context.disableMultithreading();
}

llvm::ThreadPoolInterface *ThreadedContext::getPool() const {
  if (pool || !context.isMultithreadingEnabled())
    return pool.get();
  return &context.getThreadPool();
}

namespace {

/// The jobs of one module.
struct Entry {
  ModuleOp module;
  std::vector<std::shared_ptr<KernelJob>> jobs; ///< in order of preference for each kernel

  /// Programs are bound with the kernels; a timeline changes them when these are mapped.
  ModuleOp getPrograms() const {
    return jobs.front()->gpu.timelineWords ? *jobs[0]->mapped : module;
  }
};

/// Adds the parts of one call to a manifest, which the bundle gets when all is done.
class PartsCompiler {
public:
  PartsCompiler(runtime::BundleWriter &bundle, const BundleScope &scope, LeftOut &leftOut,
                llvm::ThreadPoolInterface *pool)
      : bundle(bundle), scope(scope), jobs(pool), manifest(bundle.manifest),
        firstProgram(manifest.programs.size()), leftOut(leftOut) {}

  llvm::Error run(ArrayRef<BundlePart> parts);
  runtime::Manifest &getManifest() { return manifest; }

private:
  struct Part {
    const BundlePart *source = nullptr;
    ModuleOp module; ///< that of the source, or without additions in order
    std::vector<Entry> entries;
    std::vector<std::pair<Entry *, std::shared_ptr<KernelJob>>> copying; ///< not yet decided
    std::optional<Entry> small = std::nullopt; ///< for chips with less shared memory
    unsigned smallForm = 0;
    ModuleOp smaller = nullptr; ///< bound with smaller blocks
  };

  Entry makeEntry(const BundlePart &part, ModuleOp module);
  void addCopying(Part &part);
  void bindUnordered(Part &part);
  llvm::Error check(Part &part, ArrayRef<Part *> before, bool &isLeftOut);
  llvm::Error finish(Entry &entry);
  llvm::Error addEntry(const Entry &entry);
  llvm::StringSet<> listTooLarge(const Part &part) const;
  std::optional<Entry> findSmall(const Part &part, ModuleOp module, StringRef schedule,
                                 const llvm::StringSet<> &names);
  std::optional<unsigned> findSmall(Part &part, unsigned first);
  llvm::Error addSmall(Part &part);
  void makeCode(const Entry &entry);
  int64_t getSharedLimit(const GpuOptions &gpu) const;
  bool isTooLarge(const KernelJob &job) const;
  runtime::ProgramSpec *findProgram(const runtime::ProgramSpec &program);

  runtime::BundleWriter &bundle;
  const BundleScope &scope;
  JobList jobs;
  runtime::Manifest manifest;
  size_t firstProgram;
  /// Where the kernels of a unit are in the manifest, one after the other.
  llvm::DenseMap<const CodeUnit *, size_t> places;
  LeftOut &leftOut;
};

} // namespace

/// Code that is given, and timelines, whose tags and arguments concern all kernels of a module, are
/// not divided.
static bool isWhole(const BundlePart &part) { return !part.ptx.empty() || part.gpu.timelineWords; }

template <typename Visit> static void forEachKernel(ModuleOp module, Visit visit) {
  for (Operation &op : *module.getBody())
    if (isa<tile::KernelOp, tgpu::KernelOp>(op))
      visit(&op);
}

Entry PartsCompiler::makeEntry(const BundlePart &part, ModuleOp module) {
  Entry entry{module, {}};
  if (isWhole(part))
    entry.jobs.push_back(jobs.add(module, nullptr, part.gpu, part.ptx));
  else
    forEachKernel(module, [&](Operation *kernel) {
      entry.jobs.push_back(jobs.add(module, kernel, part.gpu));
    });
  return entry;
}

/// If kernels can copy captures by tensor maps, the bundle also contains this form, unless the
/// caller has decided. Kernels that cannot be mapped in this form only have the other one.
void PartsCompiler::addCopying(Part &part) {
  const BundlePart &source = *part.source;
  const Target *target = Target::find(source.gpu.target);
  auto decides = [](StringRef entry) { return entry.split('=').first == tgpu::copyCapturesKey; };
  if (!target || !target->hasRoles() || isWhole(source) || isMapped(source.module) ||
      llvm::any_of(source.gpu.schedule, decides))
    return;
  auto isView = [](Operation *op) {
    auto capture = dyn_cast<tile::CaptureOp>(op);
    return capture && isa<tile::ViewType>(capture.getType());
  };
  GpuOptions gpu = source.gpu;
  gpu.schedule.push_back((tgpu::copyCapturesKey + "=1").str());
  for (Entry &entry : part.entries)
    forEachKernel(entry.module, [&](Operation *kernel) {
      llvm::DenseSet<Operation *> reached;
      collectReached(entry.module, kernel, reached);
      if (llvm::any_of(reached, isView))
        part.copying.emplace_back(&entry, jobs.add(entry.module, kernel, gpu));
    });
}

/// After mapping: if a kernel cannot be mapped, replaces the entries of the part by one without
/// additions in order, and says why.
void PartsCompiler::bindUnordered(Part &part) {
  std::string reason;
  for (const Entry &entry : part.entries)
    for (const auto &job : entry.jobs)
      if (reason.empty())
        reason = job->getFirstError();
  ModuleOp module =
      !reason.empty() && part.source->bindUnordered ? part.source->bindUnordered() : ModuleOp();
  if (!module)
    return;
  part.module.walk([&](tile::AtomicAddOp add) {
    if (add.getNumber())
      leftOut[add->getParentOfType<tile::KernelOp>().getSymName()].push_back(
          "does not add in order on " + part.source->gpu.target + ": " + reason);
  });
  part.module = module;
  part.entries.clear();
  part.entries.push_back(makeEntry(*part.source, module));
  part.copying.clear();
  addCopying(part);
}

/// After mapping: the first error of a part, or whether it is left out. `before` are the parts that
/// are not.
llvm::Error PartsCompiler::check(Part &part, ArrayRef<Part *> before, bool &isLeftOut) {
  const Entry &general = part.entries.back();
  auto isAnyOf = [](ArrayRef<Entry> entries, auto holds) {
    return llvm::any_of(entries, [&](const Entry &entry) {
      return llvm::any_of(entry.jobs, [&](const auto &job) { return holds(*job); });
    });
  };
  auto hasMaps = [](const KernelJob &job) { return job.hasTensorMaps(); };
  if (part.source->isForOtherViews &&
      (isAnyOf(part.entries, [](const KernelJob &job) { return job.error.has_value(); }) ||
       llvm::none_of(before, [&](Part *other) { return isAnyOf(other->entries, hasMaps); }))) {
    isLeftOut = true;
    return llvm::Error::success();
  }
  if (part.source->needsRoles &&
      (llvm::any_of(general.jobs, [](const auto &job) { return job->error.has_value(); }) ||
       llvm::none_of(general.jobs, [](const auto &job) { return job->hasRoles(); }))) {
    isLeftOut = true;
    for (const auto &job : general.jobs)
      if (job->mapped)
        for (auto kernel : job->mapped->getOps<tgpu::KernelOp>())
          if (auto reason = tgpu::noRolesAttr.get(kernel))
            leftOut[kernel.getSymName()].push_back(
                ("has no code for " + kernel.getTarget() + ": " + reason.getValue()).str());
    return llvm::Error::success();
  }
  for (Entry &entry : part.entries)
    for (const auto &job : entry.jobs)
      if (job->error) {
        job->emitDiagnostics();
        return llvm::createStringError(*job->error);
      }
  // The copying form goes before the other one of its kernel.
  for (auto &[entry, job] : part.copying) {
    if (!job->copiesCaptures())
      continue;
    StringRef name = job->units.front().kernels.front().name;
    auto plain = llvm::find_if(entry->jobs, [&](const auto &other) {
      return other->units.front().kernels.front().name == name;
    });
    entry->jobs.insert(plain, job);
  }
  return llvm::Error::success();
}

/// Emits the diagnostics of an entry; its first error.
llvm::Error PartsCompiler::finish(Entry &entry) {
  for (const auto &job : entry.jobs) {
    job->emitDiagnostics();
    for (const CodeUnit &unit : job->units)
      if (unit.error)
        return llvm::createStringError(*unit.error);
  }
  return llvm::Error::success();
}

runtime::ProgramSpec *PartsCompiler::findProgram(const runtime::ProgramSpec &program) {
  auto found = std::find_if(manifest.programs.begin() + firstProgram, manifest.programs.end(),
                            [&](const auto &known) { return known.name == program.name; });
  return found == manifest.programs.end() ? nullptr : &*found;
}

/// Adds kernels with their code, as far as they are new, and the programs that launch them.
llvm::Error PartsCompiler::addEntry(const Entry &entry) {
  std::vector<runtime::KernelSpec> kernels;
  std::vector<size_t> numbers; // in the manifest
  runtime::Arch arch = *runtime::Arch::parse(entry.jobs.front()->gpu.target);
  for (const auto &job : entry.jobs)
    for (const CodeUnit &unit : job->units) {
      auto [place, isNew] = places.try_emplace(&unit, manifest.kernels.size());
      std::vector<runtime::CodeSpec> codes;
      if (isNew)
        codes.push_back(
            {runtime::CodeSpec::Kind::Ptx, arch, unit.ptxVersion, bundle.addPtx(unit.ptx)});
      if (isNew && !unit.cubin.empty())
        codes.push_back({runtime::CodeSpec::Kind::Cubin, arch, 0, bundle.addCubin(unit.cubin)});
      for (auto [i, kernel] : llvm::enumerate(unit.kernels)) {
        kernels.push_back(kernel);
        numbers.push_back(place->second + i);
        if (!isNew)
          continue;
        manifest.kernels.push_back(kernel);
        manifest.kernels.back().codes = codes;
        auto &remarks = manifest.kernels.back().remarks;
        if (auto missing = leftOut.find(kernel.name); missing != leftOut.end())
          remarks.insert(remarks.end(), missing->second.begin(), missing->second.end());
      }
    }
  for (auto program : entry.getPrograms().getOps<tile::ProgramOp>()) {
    auto spec = makeProgramSpec(program, kernels, numbers, arch);
    if (!spec)
      return spec.takeError();
    runtime::ProgramSpec *same = findProgram(*spec);
    if (!same)
      manifest.programs.push_back(std::move(*spec));
    else if (llvm::Error error = addForm(*same, std::move(*spec)))
      return error;
  }
  return llvm::Error::success();
}

/// Bytes of shared memory that a block has on the device, or on the smallest chips for the target.
int64_t PartsCompiler::getSharedLimit(const GpuOptions &gpu) const {
  return scope.sharedLimit ? scope.sharedLimit : Target::find(gpu.target)->leastSharedOfBlock;
}

bool PartsCompiler::isTooLarge(const KernelJob &job) const {
  int64_t least = getSharedLimit(job.gpu);
  return llvm::any_of(job.units, [&](const CodeUnit &unit) {
    return llvm::any_of(unit.kernels, [&](const runtime::KernelSpec &kernel) {
      return kernel.allSharedBytes() > least;
    });
  });
}

/// The kernels of a part that smaller chips cannot run, if the caller has not decided about rings.
llvm::StringSet<> PartsCompiler::listTooLarge(const Part &part) const {
  llvm::StringSet<> names;
  if (!part.source->gpu.schedule.empty() || isWhole(*part.source) || isMapped(part.module))
    return names;
  for (const Entry &entry : part.entries)
    for (const auto &job : entry.jobs)
      if (isTooLarge(*job))
        names.insert(job->units.front().kernels.front().name);
  return names;
}

/// The entry of a module with `schedule` (empty: as it is) for the named kernels, if these can be
/// mapped with it and then are small, as far as that is known.
std::optional<Entry> PartsCompiler::findSmall(const Part &part, ModuleOp module, StringRef schedule,
                                              const llvm::StringSet<> &names) {
  GpuOptions gpu = part.source->gpu;
  if (!schedule.empty())
    gpu.schedule.push_back(schedule.str());
  Entry entry{module, {}};
  forEachKernel(module, [&](Operation *kernel) {
    bool isNamed = names.contains(SymbolTable::getSymbolName(kernel).getValue());
    entry.jobs.push_back(jobs.add(module, kernel, isNamed ? gpu : part.source->gpu));
  });
  jobs.map();
  for (const auto &job : entry.jobs)
    if (job->error || isTooLarge(*job))
      return std::nullopt;
  return entry;
}

/// For chips with little shared memory: without rings, then with smaller blocks, then both. Forms
/// before `first` are left out; returns the number of the form, or none.
std::optional<unsigned> PartsCompiler::findSmall(Part &part, unsigned first) {
  constexpr llvm::StringLiteral withoutRings = "stages=1";
  part.small = std::nullopt;
  llvm::StringSet<> names = listTooLarge(part);
  if (names.empty())
    return std::nullopt;
  for (unsigned form = first; form < 3; ++form) {
    if (form > 0 && !part.smaller) {
      if (part.source->bindSmaller)
        part.smaller = part.source->bindSmaller(getSharedLimit(part.source->gpu));
      if (!part.smaller)
        return std::nullopt;
    }
    std::optional<Entry> found =
        findSmall(part, form ? part.smaller : part.module,
                  form == 1 ? llvm::StringRef() : llvm::StringRef(withoutRings), names);
    if (found) {
      part.small = std::move(found);
      return form;
    }
  }
  return std::nullopt;
}

/// Adds the small form of a part, whose code exists. Code may need more shared memory than was
/// known, so that the next form is tried.
llvm::Error PartsCompiler::addSmall(Part &part) {
  for (unsigned form = part.smallForm; part.small;
       form = findSmall(part, form + 1).value_or(form)) {
    makeCode(*part.small);
    if (llvm::none_of(part.small->jobs, [&](const auto &job) { return isTooLarge(*job); })) {
      if (llvm::Error error = finish(*part.small))
        return error;
      return addEntry(*part.small);
    }
  }
  return llvm::Error::success();
}

void PartsCompiler::makeCode(const Entry &entry) {
  std::vector<WantedCode> wanted;
  for (const auto &job : entry.jobs)
    wanted.push_back({job.get(), scope.assemble});
  jobs.makeCode(wanted, scope.preferredOnly);
}

llvm::Error PartsCompiler::run(ArrayRef<BundlePart> sources) {
  std::vector<Part> parts;
  for (const BundlePart &source : sources) {
    if (llvm::Expected<const Target &> known = findTarget(source.gpu.target); !known)
      return known.takeError();
    Part part;
    part.source = &source;
    part.module = source.module;
    for (ModuleOp module : source.shorter)
      part.entries.push_back(makeEntry(source, module));
    part.entries.push_back(makeEntry(source, source.module));
    parts.push_back(std::move(part));
  }
  for (Part &part : parts)
    addCopying(part);
  jobs.map();
  llvm::for_each(parts, [&](Part &part) { bindUnordered(part); });
  jobs.map();

  std::vector<Part *> kept;
  std::vector<WantedCode> wanted;
  for (Part &part : parts) {
    bool isLeftOut = false;
    if (llvm::Error error = check(part, kept, isLeftOut))
      return error;
    if (isLeftOut)
      continue;
    kept.push_back(&part);
    // The devices for which the bundle is made would not take a cubin for the other target.
    bool assemble = scope.assemble && !part.source->isForOtherViews;
    // Together with the others, so that no core waits.
    if (!part.source->isForOtherViews)
      part.smallForm = findSmall(part, 0).value_or(0);
    for (const Entry &entry : part.entries)
      for (const auto &job : entry.jobs)
        wanted.push_back({job.get(), assemble});
    if (part.small)
      for (const auto &job : part.small->jobs)
        wanted.push_back({job.get(), assemble});
  }
  jobs.makeCode(wanted, scope.preferredOnly);
  for (Part *part : kept)
    for (Entry &entry : part->entries) {
      if (llvm::Error error = finish(entry))
        return error;
      if (llvm::Error error = addEntry(entry))
        return error;
    }
  for (Part *part : kept)
    if (llvm::Error error = addSmall(*part))
      return error;
  return llvm::Error::success();
}

llvm::Error tilewright::addToBundle(runtime::BundleWriter &bundle, ArrayRef<BundlePart> parts,
                                    const BundleScope &scope, LeftOut *leftOut) {
  if (parts.empty())
    return llvm::Error::success();
  MLIRContext *context = ModuleOp(parts.front().module).getContext();
  ThreadedContext threads(*context);
  loadGpuDialects(*context);
  LeftOut ofThisCall;
  PartsCompiler compiler(bundle, scope, leftOut ? *leftOut : ofThisCall, threads.getPool());
  if (llvm::Error error = compiler.run(parts))
    return error;
  bundle.manifest.kernels.swap(compiler.getManifest().kernels);
  bundle.manifest.programs.swap(compiler.getManifest().programs);
  Status status = bundle.check();
  if (status)
    return llvm::Error::success();
  bundle.manifest.kernels.swap(compiler.getManifest().kernels);
  bundle.manifest.programs.swap(compiler.getManifest().programs);
  return toError(status);
}
