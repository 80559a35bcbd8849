// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds and compiles each variant for each target.

#include "lib/Driver/BundleRequest.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"

#include "lib/Bundle/HeldDiagnostics.h"
#include "lib/Codegen/Report.h"
#include "lib/Driver/BindingOptions.h"
#include "lib/Driver/CommandLine.h"
#include "lib/Driver/MappedModule.h"
#include "lib/Driver/Progress.h"
#include "passes/Tile/BindParameters.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

using namespace tilewright;

llvm::Expected<BundleRequest::Params> tilewright::parseVariant(llvm::StringRef text) {
  BundleRequest::Params params;
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    auto param = parseParam(part);
    if (!param)
      return param.takeError();
    params.push_back(std::move(*param));
  }
  return params;
}

/// Lengths for which the table has other blocks than those of the only kernel or program: a bundle
/// has an entry for each, with its condition.
static std::vector<int64_t> getLengths(mlir::ModuleOp module) {
  std::vector<int64_t> lengths;
  auto programs = llvm::to_vector(module.getOps<tile::ProgramOp>());
  auto kernels = llvm::to_vector(module.getOps<tile::KernelOp>());
  if (programs.size() > 1 || (programs.empty() && kernels.size() != 1))
    return lengths;
  mlir::Operation *entry = programs.empty() ? kernels.front().getOperation() : programs.front();
  if (auto blocks = entry->getAttrOfType<mlir::DictionaryAttr>(blocksAttrName))
    if (auto shorter = blocks.getAs<mlir::ArrayAttr>("shorter"))
      for (auto length : shorter.getAsRange<mlir::IntegerAttr>())
        lengths.push_back(length.getInt());
  return lengths;
}

/// The binding of each kernel.
static std::vector<mlir::Attribute> getBindings(mlir::ModuleOp module) {
  std::vector<mlir::Attribute> bindings;
  for (auto kernel : module.getOps<tile::KernelOp>())
    bindings.push_back(kernel.getBindingsAttr());
  return bindings;
}

namespace {

/// The variants of a request, one after the other, from the parsed file.
class BundleMaker {
public:
  BundleMaker(llvm::MemoryBufferRef source, mlir::ModuleOp parsed, const BundleRequest &request)
      : source(source), parsed(parsed), request(request), isReady(isMapped(parsed)) {
    variants = request.variants;
    if (variants.empty())
      variants.emplace_back();
    chooseTargets();
  }

  llvm::Expected<std::string> run() {
    if (!request.ptx.empty() && targets.size() * variants.size() > 1)
      return llvm::createStringError(
          "code can be given for one variant and one target only; make a bundle for each");
    if (isReady && targets.size() * variants.size() > 1)
      return llvm::createStringError(
          "a tgpu module is for one variant and one target only; give one --target");
    runtime::BundleWriter writer;
    writer.manifest.producer = ("tilewrightc " + getVersion()).str();
    writer.manifest.source = llvm::sys::path::filename(source.getBufferIdentifier()).str();
    for (size_t i = 0; i < variants.size(); ++i) {
      if (llvm::is_contained(llvm::ArrayRef(variants).take_front(i), variants[i]))
        return llvm::createStringError("variant " + llvm::Twine(i + 1) +
                                       " occurs twice; leave one out");
      std::string number =
          "variant " + std::to_string(i + 1) + " of " + std::to_string(variants.size());
      // For a device: one target after the other, until there is code.
      size_t step = request.device ? 1 : targets.size(), before = writer.manifest.kernels.size();
      LeftOut leftOut;
      for (size_t first = 0; first < targets.size() && writer.manifest.kernels.size() == before;
           first += step) {
        modules.clear();
        parts.clear();
        for (const std::string &target : llvm::ArrayRef(targets).slice(first, step)) {
          tell(number + " for " + target);
          if (llvm::Error error = addParts(variants[i], target))
            return error;
        }
        if (!forOtherViews.empty())
          addPartForOtherViews(variants[i]);
        tell("code of " + number);
        BundleScope scope = request.scope;
        // Machine code for another generation would be of no use.
        if (request.device)
          scope.assemble &= Target::find(targets[first])
                                ->cubinServes(request.device->major, request.device->minor);
        if (llvm::Error error = addToBundle(writer, parts, scope, &leftOut))
          return error;
      }
    }
    Result<std::string> bytes = writer.bytes();
    if (!bytes)
      return toError(bytes.status());
    return std::move(*bytes);
  }

private:
  void chooseTargets() {
    targets = request.targets;
    // Schedules and code apply to one target.
    bool appliesToAll = request.ptx.empty() && request.gpu.schedule.empty() &&
                        request.gpu.warps == GpuOptions().warps;
    isChosen = targets.empty() && appliesToAll;
    auto hasRoles = [](llvm::StringRef name) { return Target::find(name)->hasRoles(); };
    if (!targets.empty() && appliesToAll && !isReady && !request.device &&
        !request.scope.preferredOnly && llvm::all_of(targets, hasRoles))
      forOtherViews = Target::getDefault().name;
    if (targets.empty())
      targets.emplace_back(getBaseTarget().name);
    if (isChosen && !isReady)
      for (const Target &target : Target::all())
        if (target.hasRoles() && (!request.device || request.device->mayUse(target)))
          targets.emplace_back(target.name);
    // Exact targets are preferred on their devices.
    llvm::stable_sort(targets, [](llvm::StringRef a, llvm::StringRef b) {
      return Target::find(a)->isExact && !Target::find(b)->isExact;
    });
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  }

  /// That of the code that runs on the device, or everywhere, for views of any kind.
  const Target &getBaseTarget() const {
    const Target *best = request.device ? request.device->getTarget() : nullptr;
    return best && !best->hasRoles() ? *best : Target::getDefault();
  }

  void tell(const std::string &what) const {
    if (request.progress)
      request.progress(what);
  }

  /// For one variant and one target: the entries for limited lengths, then the general one.
  llvm::Error addParts(const BundleRequest::Params &variant, const std::string &target) {
    TilePipelineOptions options = request.options;
    options.target = target;
    llvm::append_range(options.params, variant);
    llvm::Expected<mlir::ModuleOp> module = compile(options);
    if (!module)
      return module.takeError();
    BundlePart part{*module, request.gpu, request.ptx};
    part.gpu.target = target;
    // Code for a target with roles is added to that for the default target if the kernels split
    // into roles. Kernels that are slow or rejected there only have the default, without a
    // diagnostic.
    part.needsRoles = isChosen && Target::find(target)->hasRoles();
    // Ordered or not is the compiler's choice unless the caller made it.
    if (!isReady && !llvm::StringRef(options.sums).contains("ordered") && addsInOrder(*module))
      part.bindUnordered = [this, options] { return bindUnordered(options); };
    if (request.report && !report(part))
      return llvm::Error::success();
    if (!isReady)
      part.bindSmaller = [this, options, module = *module](int64_t shared) {
        return bindSmaller(options, module, shared);
      };
    // Entries for limited lengths come first; they are omitted if they have the same blocks.
    if (!isReady && request.ptx.empty()) {
      for (int64_t length : getLengths(part.module)) {
        options.length = length;
        llvm::Expected<mlir::ModuleOp> some = compile(options);
        if (!some)
          return some.takeError();
        if (getBindings(*some) != getBindings(part.module))
          part.shorter.push_back(*some);
      }
    }
    parts.push_back(std::move(part));
    return llvm::Error::success();
  }

  /// What the bundle also has if kernels turn out to have tensor maps. Nothing if the entry has no
  /// binding for that target: the caller did not name it.
  void addPartForOtherViews(const BundleRequest::Params &variant) {
    HeldDiagnostics held(parsed.getContext());
    TilePipelineOptions options = request.options;
    options.target = forOtherViews;
    llvm::append_range(options.params, variant);
    llvm::Expected<mlir::ModuleOp> module = compile(options);
    if (!module) {
      llvm::consumeError(module.takeError());
      return;
    }
    BundlePart part{*module, request.gpu, request.ptx};
    part.gpu.target = forOtherViews;
    part.isForOtherViews = true;
    parts.push_back(std::move(part));
  }

  /// Prints the report of a part, or returns false if the bundle will not have it.
  bool report(BundlePart &part) {
    mlir::OwningOpRef<mlir::ModuleOp> mapped;
    auto map = [&](mlir::ModuleOp module) {
      HeldDiagnostics held(parsed.getContext()); // the compilation of the part emits them
      mapped = module.clone();
      return mlir::succeeded(mapToGpu(*mapped, part.gpu));
    };
    bool isMapped = map(part.module);
    if (mlir::ModuleOp unordered =
            !isMapped && part.bindUnordered ? part.bindUnordered() : mlir::ModuleOp())
      isMapped = map(unordered);
    bool hasRoles = false;
    mapped->walk([&](tgpu::RolesOp) { hasRoles = true; });
    if (part.needsRoles && (!isMapped || !hasRoles))
      return false;
    if (!isMapped)
      return true;
    std::string text;
    llvm::raw_string_ostream stream(text);
    reportOn(*mapped, part.gpu, stream, request.reportLength);
    Progress::hide();
    *request.report << text;
    part.gpu.warnsOfSpills = false; // the report printed a warning
    return true;
  }

  mlir::ModuleOp bindSmaller(TilePipelineOptions options, mlir::ModuleOp module, int64_t shared) {
    HeldDiagnostics held(parsed.getContext()); // about blocks that the caller did not request
    options.shared = shared;
    llvm::Expected<mlir::ModuleOp> smaller = compile(options);
    if (smaller && getBindings(*smaller) != getBindings(module))
      return *smaller;
    llvm::consumeError(smaller.takeError());
    return nullptr;
  }

  static bool addsInOrder(mlir::ModuleOp module) {
    return module
        .walk([](tile::AtomicAddOp add) {
          return add.getNumber() ? mlir::WalkResult::interrupt() : mlir::WalkResult::advance();
        })
        .wasInterrupted();
  }

  mlir::ModuleOp bindUnordered(TilePipelineOptions options) {
    HeldDiagnostics held(parsed.getContext()); // what the form in order has said already
    options.sums = options.sums == "auto" ? "unordered" : options.sums + ",unordered";
    llvm::Expected<mlir::ModuleOp> unordered = compile(options);
    if (unordered)
      return *unordered;
    llvm::consumeError(unordered.takeError());
    return nullptr;
  }

  /// Binds the entry, or checks that there are no bindings for a mapped one. The module is kept.
  llvm::Expected<mlir::ModuleOp> compile(const TilePipelineOptions &options) {
    mlir::OwningOpRef<mlir::ModuleOp> module = parsed.clone();
    if (!isReady)
      module = compileModule(std::move(module), source, options, request.kind);
    else if (mlir::failed(checkMappedOptions(parsed, options, request.gpu)))
      module = nullptr;
    if (!module)
      return llvm::createStringError("compilation failed; correct the errors above");
    modules.push_back(std::move(module));
    return *modules.back();
  }

  llvm::MemoryBufferRef source;
  mlir::ModuleOp parsed;
  const BundleRequest &request;
  bool isReady;  ///< the source is mapped onto a target
  bool isChosen; ///< use only default targets for which code is useful
  std::vector<std::string> targets;
  std::string forOtherViews; ///< target of code for views without tensor maps; empty: none
  std::vector<BundleRequest::Params> variants;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules; ///< modules of the parts
  std::vector<BundlePart> parts;                          ///< parts of the variant
};

} // namespace

llvm::Expected<std::string> tilewright::compileBundle(mlir::MLIRContext &context,
                                                      llvm::MemoryBufferRef source,
                                                      const BundleRequest &request) {
  for (const std::string &target : request.targets)
    if (llvm::Expected<const Target &> known = findTarget(target); !known)
      return known.takeError();
    else if (request.device && !request.device->mayUse(*known))
      return llvm::createStringError(
          "a target must run on the device of the request, of compute capability " +
          std::to_string(request.device->major) + "." + std::to_string(request.device->minor) +
          ", but got " + target + "; leave it out");
  mlir::OwningOpRef<mlir::ModuleOp> parsed = parseBuffer(context, source, request.options.source);
  if (!parsed)
    return llvm::createStringError("compilation failed; correct the errors above");
  return BundleMaker(source, *parsed, request).run();
}
