// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mapping and code of one kernel, and lists of such jobs.

#include "lib/Bundle/KernelJob.h"

#include "lib/Bundle/HeldDiagnostics.h"
#include "lib/Bundle/ManifestBuilder.h"
#include "lib/Bundle/ReachedSymbols.h"
#include "passes/Conversion/Nvvm.h"
#include "passes/Tile/BindParameters.h"
#include "runtime/Bundle.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/ThreadPool.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::bundle;

//===----------------------------------------------------------------------===//
// One kernel
//===----------------------------------------------------------------------===//

namespace {

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

  /// Whether the entry may start before the previous launch has ended. The code may be older than
  /// the kernel, or come from elsewhere. As with all given code, what it does where is not checked:
  /// all threads must wait, before they access memory.
  bool awaitsLaunch(llvm::StringRef entry) const {
    llvm::StringRef body = text.split((".entry " + entry + "(").str()).second;
    return body.split(".entry ").first.contains("griddepcontrol.wait;");
  }

  uint32_t getStaticSharedBytes(llvm::StringRef entry) const {
    uint32_t bytes = 0;
    text.split((" " + entry + "_scratch[").str()).second.consumeInteger(10, bytes);
    return bytes;
  }

private:
  llvm::StringRef text;
};

} // namespace

void CodeUnit::takeCode(const CodeUnit &other) {
  ptxVersion = other.ptxVersion;
  ptx = other.ptx;
  cubin = other.cubin;
  error = other.error;
  for (auto [kernel, same] : llvm::zip_equal(kernels, other.kernels)) {
    kernel.staticSharedBytes = same.staticSharedBytes;
    kernel.awaitsLaunch = same.awaitsLaunch;
  }
}

KernelJob::KernelJob(OwningOpRef<ModuleOp> module, GpuOptions gpu, std::string ptx)
    : gpu(std::move(gpu)), context(ModuleOp(module.get()).getContext()), module(std::move(module)),
      ptx(std::move(ptx)) {}

void KernelJob::map() {
  HeldDiagnostics held(context);
  if (failed(mapToGpu(*module, gpu))) {
    error = "mapping onto " + gpu.target + " failed";
    module = nullptr;
  } else {
    mapped = std::move(module);
    spills.emplace(*mapped, gpu);
    if (llvm::Error failure = addUnits()) {
      error = llvm::toString(std::move(failure));
      mapped = nullptr;
    }
  }
  said = held.take();
}

llvm::Error KernelJob::addUnits() {
  auto kernels = llvm::to_vector(mapped->getOps<tgpu::KernelOp>());
  bool isSplit = kernels.size() == 1 && ptx.empty();
  auto unitOf = [&](tgpu::CodeForms forms) -> CodeUnit & {
    if (units.empty() || isSplit)
      units.emplace_back();
    units.back().forms = isSplit ? forms : tgpu::CodeForms::All;
    return units.back();
  };
  for (tgpu::KernelOp kernel : kernels) {
    tgpu::AlignedViews aligned = tgpu::getAlignedViews(kernel);
    // Code from a file may have only one form.
    if (!aligned.empty() && !ptx.empty() &&
        !GivenPtx(ptx).hasEntry(tgpu::getAlignedEntry(kernel.getSymName())))
      aligned.clear();
    if (!aligned.empty()) {
      auto spec = makeKernelSpec(kernel, aligned);
      if (!spec)
        return spec.takeError();
      unitOf(tgpu::CodeForms::Aligned).kernels.push_back(std::move(*spec));
    }
    auto spec = makeKernelSpec(kernel);
    if (!spec)
      return spec.takeError();
    unitOf(tgpu::CodeForms::General).kernels.push_back(std::move(*spec));
  }
  return llvm::Error::success();
}

/// The PTX of a unit.
llvm::Expected<std::string> KernelJob::emit(CodeUnit &unit) const {
  unit.ptxVersion = Target::find(gpu.target)->ptxVersion;
  if (!ptx.empty()) {
    GivenPtx given(ptx);
    unit.ptxVersion = given.getVersion();
    for (runtime::KernelSpec &kernel : unit.kernels) {
      Status entry = runtime::checkEntry(kernel, runtime::CodeSpec::Kind::Ptx, ptx);
      if (!entry)
        return llvm::createStringError("a bundle cannot be made of this PTX: it " +
                                       entry.message());
      kernel.staticSharedBytes = given.getStaticSharedBytes(kernel.entry);
      kernel.awaitsLaunch &= given.awaitsLaunch(kernel.entry);
    }
    return ptx;
  }
  OwningOpRef<ModuleOp> lowered = ModuleOp(mapped.get()).clone();
  GpuOptions options = gpu;
  options.forms = unit.forms;
  llvm::Expected<std::string> made = compileMapped(*lowered, GpuForm::Ptx, options);
  if (made)
    for (runtime::KernelSpec &kernel : unit.kernels)
      kernel.staticSharedBytes = nvvm::getStaticSharedBytes(*lowered, kernel.entry);
  return made;
}

void KernelJob::makeCode(CodeUnit &unit, bool assemble) const {
  HeldDiagnostics held(context);
  llvm::Expected<std::string> made = emit(unit);
  unit.said = held.take();
  if (!made) {
    unit.error = llvm::toString(made.takeError());
    return;
  }
  unit.ptx = std::move(*made);
  std::string assembler = findAssembler();
  if (!assemble || assembler.empty())
    return;
  llvm::Expected<Assembly> assembly = assembleCubin(unit.ptx, gpu.target);
  if (!assembly) {
    std::string text = llvm::toString(assembly.takeError());
    // If it is too old for this PTX, the driver assembles.
    if (!isLastAssembler(assembler) || !llvm::StringRef(text).contains("nsupported .version"))
      unit.error = std::move(text);
    return;
  }
  unit.cubin = std::move(assembly->cubin);
  unit.resources = std::move(assembly->resources);
}

void KernelJob::emitDiagnostics() {
  if (std::exchange(hasEmitted, true))
    return;
  emitAll(context, std::exchange(said, {}));
  std::vector<KernelResources> resources;
  for (CodeUnit &unit : units) {
    emitAll(context, std::exchange(unit.said, {}));
    llvm::append_range(resources, unit.resources);
  }
  if (spills)
    spills->emit(resources);
}

std::string KernelJob::getFirstError() const {
  for (const Diagnostic &each : said)
    if (each.getSeverity() == DiagnosticSeverity::Error)
      return each.str();
  return "";
}

/// The constraints on which the code may depend. The launcher alone checks extents.
static ArrayAttr getOfScalars(ArrayAttr constraints) {
  SmallVector<Attribute> list;
  for (auto constraint : constraints.getAsRange<tile::ExprAttr>()) {
    bool readsExtent = false;
    tile::walkExpr(constraint, [&](tile::ExprAttr leaf) {
      readsExtent |= leaf.getKind() == tile::ExprKind::Dim;
    });
    if (!readsExtent)
      list.push_back(constraint);
  }
  return ArrayAttr::get(constraints.getContext(), list);
}

std::string KernelJob::describeCode() const {
  OwningOpRef<ModuleOp> copy = ModuleOp(mapped.get()).clone();
  for (auto kernel : copy->getOps<tgpu::KernelOp>()) {
    kernel.removeBindingsAttr();
    kernel->removeAttr(blocksAttrName);
    kernel->removeAttr(strategyAttrName);
    if (ArrayAttr constraints = kernel.getConstraintsAttr())
      kernel.setConstraintsAttr(getOfScalars(constraints));
  }
  std::string text = gpu.target + '\n' + ptx + '\n';
  llvm::raw_string_ostream stream(text);
  copy->print(stream, OpPrintingFlags().useLocalScope());
  return text;
}

bool KernelJob::hasRoles() const {
  return mapped && ModuleOp(mapped.get())
                       ->walk([](tgpu::RolesOp) { return WalkResult::interrupt(); })
                       .wasInterrupted();
}

bool KernelJob::hasTensorMaps() const {
  return mapped && ModuleOp(mapped.get())
                       ->walk([](tgpu::TensorMapOp) { return WalkResult::interrupt(); })
                       .wasInterrupted();
}

bool KernelJob::copiesCaptures() const {
  return mapped && ModuleOp(mapped.get())
                       ->walk([](tgpu::TensorMapOp map) {
                         return map.getView().getDefiningOp<tile::CapturedOp>()
                                    ? WalkResult::interrupt()
                                    : WalkResult::advance();
                       })
                       .wasInterrupted();
}

//===----------------------------------------------------------------------===//
// Many kernels
//===----------------------------------------------------------------------===//

/// Runs task(0) ... task(count - 1), in the threads of a pool if it is not null, and waits for all.
static void runAll(llvm::ThreadPoolInterface *pool, size_t count,
                   llvm::function_ref<void(size_t)> task) {
  if (!pool || count < 2) {
    for (size_t i = 0; i < count; ++i)
      task(i);
    return;
  }
  llvm::ThreadPoolTaskGroup group(*pool);
  for (size_t i = 0; i < count; ++i)
    group.async([task, i] { task(i); });
  group.wait();
}

std::shared_ptr<KernelJob> JobList::add(ModuleOp module, Operation *kernel, const GpuOptions &gpu,
                                        const std::string &ptx) {
  OwningOpRef<ModuleOp> copy = kernel ? copyReached(module, kernel) : module.clone();
  std::string key;
  llvm::raw_string_ostream stream(key);
  stream << gpu.target << ' ' << gpu.warps << ' ' << gpu.timelineWords;
  for (const std::string &entry : gpu.schedule)
    stream << ' ' << entry;
  stream << '\n' << ptx << '\n';
  (*copy)->print(stream, OpPrintingFlags().useLocalScope());
  std::shared_ptr<KernelJob> &job = known[key];
  if (!job) {
    job = std::make_shared<KernelJob>(std::move(copy), gpu, ptx);
    pending.emplace_back(key.size(), job.get());
  }
  return job;
}

void JobList::map() {
  // Large ones first, so that none of them runs alone at the end.
  llvm::stable_sort(pending, [](const auto &a, const auto &b) { return a.first > b.first; });
  runAll(pool, pending.size(), [&](size_t i) { pending[i].second->map(); });
  pending.clear();
}

void JobList::makeCode(llvm::ArrayRef<WantedCode> wanted, bool preferredOnly) {
  struct Task {
    KernelJob *job;
    CodeUnit *unit;
    bool assemble;
    size_t cost;
    std::vector<CodeUnit *> equal;
  };
  std::vector<Task> tasks;
  llvm::StringMap<size_t> numbers;         // of tasks
  llvm::MapVector<KernelJob *, bool> jobs; // whether they are assembled
  for (const WantedCode &each : wanted)
    jobs[each.job] |= each.assemble;
  for (auto [job, assemble] : jobs) {
    if (preferredOnly && job->units.size() > 1)
      job->units.resize(1);
    std::string text;
    for (CodeUnit &unit : job->units) {
      if (!unit.ptx.empty() || unit.error)
        continue;
      if (text.empty())
        text = job->describeCode();
      std::string key =
          std::to_string(assemble) + std::to_string(static_cast<int>(unit.forms)) + text;
      auto [place, isNew] = numbers.try_emplace(key, tasks.size());
      if (!isNew) {
        tasks[place->second].equal.push_back(&unit);
        continue;
      }
      // In addition to code for aligned views, that for any views is about half as long
      // (tgpu-join-segments). ptxas takes about as long as the rest.
      bool isShort = job->units.size() > 1 && unit.forms == tgpu::CodeForms::General;
      size_t cost = text.size() * (assemble ? 2 : 1) / (isShort ? 2 : 1);
      tasks.push_back({job, &unit, assemble, cost, {}});
    }
  }
  // As in map().
  llvm::stable_sort(tasks, [](const Task &a, const Task &b) { return a.cost > b.cost; });
  runAll(pool, tasks.size(), [&](size_t i) {
    tasks[i].job->makeCode(*tasks[i].unit, tasks[i].assemble);
    for (CodeUnit *other : tasks[i].equal)
      other->takeCode(*tasks[i].unit);
  });
}
