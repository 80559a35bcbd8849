// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binding and compiling each variant for each target.

#include "lib/Driver/BundleRequest.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"

#include "lib/Codegen/Report.h"
#include "lib/Driver/BindingOptions.h"
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

/// Whether code for a target with roles is worth having beside that for the default one: where the
/// kernels split into roles. What is slow or refused there is left to the default without a word.
static bool hasRoles(mlir::ModuleOp module, const GpuOptions &gpu) {
  mlir::ScopedDiagnosticHandler quiet(module.getContext(),
                                      [](mlir::Diagnostic &) { return mlir::success(); });
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
  if (mlir::failed(mapToGpu(*copy, gpu)))
    return false;
  auto result = copy->walk([](tgpu::RolesOp) { return mlir::WalkResult::interrupt(); });
  return result.wasInterrupted();
}

/// Lengths for which the table has other blocks than those of the only kernel: a bundle has an
/// entry for each, with its condition.
static std::vector<int64_t> getLengths(mlir::ModuleOp module) {
  std::vector<int64_t> lengths;
  auto kernels = llvm::to_vector(module.getOps<tile::KernelOp>());
  if (kernels.size() != 1 || !module.getOps<tile::ProgramOp>().empty())
    return lengths;
  if (auto blocks = kernels.front()->getAttrOfType<mlir::DictionaryAttr>(blocksAttrName))
    if (auto shorter = blocks.getAs<mlir::ArrayAttr>("shorter"))
      for (auto length : shorter.getAsRange<mlir::IntegerAttr>())
        lengths.push_back(length.getInt());
  return lengths;
}

/// What the only kernel is bound to.
static mlir::Attribute getBindings(mlir::ModuleOp module) {
  auto kernels = module.getOps<tile::KernelOp>();
  return kernels.empty() ? mlir::Attribute() : (*kernels.begin()).getBindingsAttr();
}

llvm::Expected<std::string> tilewright::compileBundle(mlir::MLIRContext &context,
                                                      llvm::MemoryBufferRef source,
                                                      const BundleRequest &request) {
  // Exact targets are preferred where they run.
  std::vector<std::string> targets = request.targets;
  // Schedules and code are for one target.
  bool isChosen = targets.empty() && request.ptx.empty() && request.gpu.schedule.empty() &&
                  request.gpu.warps == GpuOptions().warps;
  if (targets.empty())
    targets.emplace_back(Target::getDefault().name);
  if (mlir::OwningOpRef<mlir::ModuleOp> parsed = isChosen ? parseBuffer(context, source) : nullptr;
      parsed && !isMapped(*parsed))
    for (const Target &target : Target::all())
      if (target.hasRoles())
        targets.emplace_back(target.name);
  for (const std::string &target : targets)
    if (llvm::Expected<const Target &> known = findTarget(target); !known)
      return known.takeError();
  llvm::stable_sort(targets, [](llvm::StringRef a, llvm::StringRef b) {
    return Target::find(a)->isExact && !Target::find(b)->isExact;
  });
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());

  if (!request.ptx.empty() && targets.size() * std::max<size_t>(request.variants.size(), 1) > 1)
    return llvm::createStringError("code can be given for one variant and one target only");

  std::vector<BundleRequest::Params> variants = request.variants;
  if (variants.empty())
    variants.emplace_back();
  runtime::BundleWriter writer;
  writer.manifest.producer = "tilewrightc 0.1.0";
  writer.manifest.source = llvm::sys::path::filename(source.getBufferIdentifier()).str();
  for (size_t i = 0; i < variants.size(); ++i) {
    if (llvm::is_contained(llvm::ArrayRef(variants).take_front(i), variants[i]))
      return llvm::createStringError("variant " + llvm::Twine(i + 1) + " occurs twice");
    std::vector<mlir::OwningOpRef<mlir::ModuleOp>> modules;
    std::vector<BundlePart> parts;
    for (const std::string &target : targets) {
      if (request.progress)
        request.progress("variant " + std::to_string(i + 1) + " of " +
                         std::to_string(variants.size()) + " for " + target);
      TilePipelineOptions options = request.options;
      options.target = target;
      llvm::append_range(options.params, variants[i]);
      mlir::OwningOpRef<mlir::ModuleOp> parsed = parseBuffer(context, source);
      bool isReady = parsed && isMapped(*parsed);
      if (isReady && targets.size() * variants.size() > 1)
        return llvm::createStringError("a module of tgpu is one variant for one target");
      if (isReady && mlir::failed(checkMappedOptions(*parsed, options, request.gpu)))
        return llvm::createStringError("compilation failed");
      modules.push_back(isReady  ? std::move(parsed)
                        : parsed ? compileBuffer(context, source, options, request.kind)
                                 : nullptr);
      if (!modules.back())
        return llvm::createStringError("compilation failed");
      GpuOptions gpu = request.gpu;
      gpu.target = target;
      if (isChosen && Target::find(target)->hasRoles() && !hasRoles(*modules.back(), gpu)) {
        modules.pop_back();
        continue;
      }
      if (request.report) {
        mlir::OwningOpRef<mlir::ModuleOp> copy = modules.back()->clone();
        if (mlir::failed(mapToGpu(*copy, gpu)))
          return llvm::createStringError("mapping onto " + target + " failed");
        Progress::hide();
        reportOn(*copy, gpu, *request.report);
        gpu.warnsOfSpills = false; // the report has warned
      }
      BundlePart part{*modules.back(), std::move(gpu), request.ptx};
      // Entries for some lengths only go first; without blocks of their own they are not needed.
      std::vector<int64_t> lengths;
      if (!isReady && request.ptx.empty())
        lengths = getLengths(part.module);
      for (int64_t length : lengths) {
        TilePipelineOptions some = options;
        some.length = length;
        mlir::OwningOpRef<mlir::ModuleOp> module =
            compileBuffer(context, source, some, request.kind);
        if (!module)
          return llvm::createStringError("compilation failed");
        if (getBindings(*module) == getBindings(part.module))
          continue;
        modules.push_back(std::move(module));
        parts.push_back({*modules.back(), part.gpu, {}});
      }
      parts.push_back(std::move(part));
    }
    if (request.progress)
      request.progress("code of variant " + std::to_string(i + 1) + " of " +
                       std::to_string(variants.size()));
    if (llvm::Error error = addToBundle(writer, parts, request.assemble))
      return error;
  }
  Result<std::string> bytes = writer.bytes();
  if (!bytes)
    return toError(bytes.status());
  return std::move(*bytes);
}
