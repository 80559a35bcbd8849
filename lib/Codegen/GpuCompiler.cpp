// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes from tile IR to the LLVM dialect, in order, and code generation.

#include "lib/Codegen/GpuCompiler.h"

#include "dialect/Tgpu/Tgpu.h"
#include "lib/Codegen/CrashReproducer.h"
#include "lib/Codegen/Dump.h"
#include "passes/Blocks/BodyRegisters.h"
#include "passes/Conversion/AlignedViews.h"
#include "passes/Conversion/Timeline.h"
#include "passes/Passes.h"
#include "passes/Tgpu/Plan/ScheduleKeys.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace tilewright;

std::optional<GpuForm> tilewright::parseGpuForm(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<GpuForm>>(name)
      .Case("tgpu", GpuForm::Tgpu)
      .Case("llvm", GpuForm::Llvm)
      .Case("ptx", GpuForm::Ptx)
      .Case("cubin", GpuForm::Cubin)
      .Default(std::nullopt);
}

void tilewright::loadGpuDialects(MLIRContext &context) {
  OpPassManager manager(ModuleOp::getOperationName());
  GpuPipelineOptions options;
  options.schedule = {"copy_captures=1"}; // adds a pass
  buildGpuPipeline(manager, options);
  manager.addPass(createConvertTgpuToNvvm());
  DialectRegistry registry;
  manager.getDependentDialects(registry);
  registerCodegenDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

bool tilewright::isMapped(ModuleOp module) { return !module.getOps<tgpu::KernelOp>().empty(); }

/// Options of roles would be ignored on targets without roles.
static LogicalResult checkSchedule(ModuleOp module, const GpuOptions &options) {
  const Target *target = Target::find(options.target);
  if (target && target->hasRoles())
    return success();
  for (llvm::StringRef entry : options.schedule) {
    const tgpu::ScheduleKey *key = tgpu::findScheduleKey(entry.split('=').first);
    if (key && key->isOfRoles)
      return emitError(module.getLoc())
             << "schedule: " << key->name << " requires roles, which only "
             << Target::getNamesWithRoles() << " supports, but the target is " << options.target
             << "; leave it out or give --target=" << Target::getNamesWithRoles();
  }
  return success();
}

/// The module is verified after the last pass, by the caller, and after each of them only where
/// one that fails is looked for.
static void verifyOnce(PassManager &manager) {
  manager.enableVerifier(isDumping() || wantsCrashReproducer());
}

static LogicalResult runMapping(ModuleOp module, const GpuOptions &options) {
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  dumpPasses(manager);
  reproduceCrashes(manager);
  if (isMapped(module)) {
    const Target *target = Target::find(options.target);
    for (auto kernel : module.getOps<tgpu::KernelOp>())
      if (!target || !tgpu::getTargetOf(kernel).runsOn(*target))
        return kernel.emitOpError()
               << "was mapped onto " << kernel.getTarget() << ", but the target is "
               << options.target << "; give --target=" << kernel.getTarget();
    manager.addPass(createTgpuVerifySync());
    return manager.run(module);
  }
  if (failed(checkSchedule(module, options)))
    return failure();
  buildGpuPipeline(manager, options);
  verifyOnce(manager);
  return success(succeeded(manager.run(module)) && succeeded(verify(module)));
}

LogicalResult tilewright::mapToGpu(ModuleOp module, const GpuOptions &options) {
  if (failed(runMapping(module, options)))
    return failure();
  return options.timelineWords ? tgpu::addTimeline(module, options.timelineWords) : success();
}

SpillWarnings::SpillWarnings(ModuleOp mapped, const GpuOptions &options) : target(options.target) {
  if (!options.warnsOfSpills)
    return;
  for (auto kernel : mapped.getOps<tgpu::KernelOp>()) {
    auto blocks = kernel->getAttrOfType<DictionaryAttr>(blocksAttrName);
    auto fewer = blocks ? blocks.getAs<StringAttr>(fewerRegistersName) : StringAttr();
    kernels.push_back({kernel.getSymName().str(), tgpu::getAlignedEntry(kernel.getSymName()),
                       kernel.getLoc(), static_cast<int64_t>(kernel.getWarps()),
                       !kernel.getBody().getOps<tgpu::RolesOp>().empty(),
                       fewer ? fewer.str() : ""});
  }
}

void SpillWarnings::emit(llvm::ArrayRef<KernelResources> resources) const {
  for (const Kernel &kernel : kernels) {
    // A few registers that ptxas saves once, outside of loops, have no measurable cost.
    constexpr int64_t mostHarmless = 32;
    // The form that the report names first, unless only the other one spills.
    const KernelResources *spilled = nullptr;
    for (const KernelResources &entry : resources)
      if (entry.spillStoreBytes > mostHarmless &&
          (entry.kernel == kernel.alignedEntry || (entry.kernel == kernel.name && !spilled)))
        spilled = &entry;
    if (!spilled)
      continue;
    bool hasAligned = llvm::any_of(resources, [&](const KernelResources &entry) {
      return entry.kernel == kernel.alignedEntry;
    });
    InFlightDiagnostic warning =
        emitWarning(kernel.location)
        << "kernel @" << kernel.name << " spills registers on " << target << ", "
        << spilled->spillStoreBytes << " bytes stored and " << spilled->spillLoadBytes << " loaded"
        << (hasAligned && spilled->kernel == kernel.name ? " in its code for unaligned views" : "")
        << ": its live values exceed the registers of its threads; ";
    if (kernel.fewer.empty())
      warning << "make its tiles smaller or their extents multiples of 256";
    else
      // Fewer registers do not make a kernel faster by themselves: with a bias and ALiBi at D 64,
      // such blocks had half of the speed on an H200.
      warning << "measure blocks that need fewer, such as " << kernel.fewer
              << ", which may be slower all the same";
    // The warps of a kernel with roles follow from the rows of its blocks.
    if (!kernel.hasRoles && kernel.warps < 32)
      warning << ", or give more warps than " << kernel.warps << " with --warps";
  }
}

llvm::Expected<std::string> tilewright::compileForGpu(ModuleOp module, GpuForm form,
                                                      const GpuOptions &options,
                                                      std::vector<KernelResources> *resources) {
  llvm::Expected<const Target &> target = findTarget(options.target);
  if (!target)
    return target.takeError();
  if (failed(mapToGpu(module, options)))
    return llvm::createStringError("mapping onto " + options.target + " failed");
  return compileMapped(module, form, options, resources);
}

llvm::Expected<std::string> tilewright::compileMapped(ModuleOp module, GpuForm form,
                                                      const GpuOptions &options,
                                                      std::vector<KernelResources> *resources) {
  if (form == GpuForm::Tgpu) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream);
    return text + "\n";
  }

  SpillWarnings spills(module, options);
  DialectRegistry registry;
  registerCodegenDialects(registry);
  module.getContext()->appendDialectRegistry(registry);
  PassManager manager(module.getContext(), ModuleOp::getOperationName());
  dumpPasses(manager);
  reproduceCrashes(manager);
  manager.addPass(createConvertTgpuToNvvm({options.forms}));
  // The module of a large kernel has 10^5 operations.
  verifyOnce(manager);
  if (failed(manager.run(module)) || failed(verify(module)))
    return llvm::createStringError("code generation for " + options.target + " failed");
  if (form == GpuForm::Llvm)
    return emitLlvmIr(module, options.target);
  llvm::Expected<std::string> ptx = emitPtx(module, options.target);
  if (!ptx || form == GpuForm::Ptx)
    return ptx;
  llvm::Expected<Assembly> assembly = assembleCubin(*ptx, options.target);
  if (!assembly)
    return assembly.takeError();
  spills.emit(assembly->resources);
  if (resources)
    *resources = std::move(assembly->resources);
  return std::move(assembly->cubin);
}
