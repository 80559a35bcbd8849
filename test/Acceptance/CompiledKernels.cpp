// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles kernels, and lists the bindings that a target refuses.

#include "test/Acceptance/CompiledKernels.h"

#include "lib/Codegen/GpuCompiler.h"
#include "lib/Driver/Compiler.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

namespace tilewright::acceptance {

namespace {

/// A binding that all targets refuse.
struct Refusal {
  const char *file;
  Params params;       ///< among those of the binding
  const char *message; ///< a part of the error
};
const std::vector<Refusal> &getRefusals() {
  constexpr const char *memory = "bytes of shared memory, but the limit";
  static const std::vector<Refusal> refusals = {
      // The smallest blocks are 16 x 16; bundles also have code for sm_80.
      {"attention_backward", {{"T", "f64"}, {"D", "320"}}, memory},
      {"attention_backward", {{"T", "f64"}, {"D", "392"}}, memory},
      {"attention_backward", {{"T", "f64"}, {"D", "512"}}, memory},
      {"attention_forward", {{"T", "f64"}, {"D", "512"}}, memory},
  };
  return refusals;
}

mlir::DialectRegistry makeRegistry() {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

} // namespace

bool isExpectedRefusal(const Binding &binding, llvm::StringRef errors) {
  return llvm::any_of(getRefusals(), [&](const Refusal &refusal) {
    bool hasParams = llvm::all_of(refusal.params, [&](const auto &param) {
      return llvm::is_contained(binding.params, param);
    });
    return binding.file == refusal.file && hasParams && errors.contains(refusal.message);
  });
}

CompiledKernels::CompiledKernels()
    : context(makeRegistry(), mlir::MLIRContext::Threading::DISABLED),
      handler(&context, [this](mlir::Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
          llvm::raw_string_ostream os(errors);
          os << diagnostic.getLocation() << ": " << diagnostic << '\n';
        }
        return mlir::success();
      }) {}

CompiledKernels &CompiledKernels::get() {
  static CompiledKernels kernels;
  return kernels;
}

mlir::Operation *CompiledKernels::compile(const Binding &binding, const std::string &target) {
  std::string key = binding.text() + " for " + target;
  auto found = modules.find(key);
  if (found == modules.end()) {
    TilePipelineOptions options;
    options.params = binding.params;
    options.target = target;
    options.sums = binding.sums;
    for (const std::string &mod : binding.with)
      options.with.push_back("kernels/" + mod + ".mlir");
    // Tests run in the root of the source tree, or of the unpacked package.
    found = modules.emplace(key, compileFile(context, "kernels/" + binding.file + ".mlir", options))
                .first;
    errorsOf[key] = errors;
  }
  errors = errorsOf[key];
  return found->second ? findEntry(*found->second) : nullptr;
}

mlir::Operation *CompiledKernels::load(const std::string &file) {
  auto found = modules.find(file);
  if (found == modules.end()) {
    auto buffer = llvm::MemoryBuffer::getFile(file);
    mlir::OwningOpRef<mlir::ModuleOp> module;
    if (buffer)
      module = parseBuffer(context, (*buffer)->getMemBufferRef());
    else
      errors += file + ": " + buffer.getError().message();
    mlir::PassManager manager(&context);
    manager.addPass(createTgpuPlanSharedMemory());
    if (module && mlir::failed(manager.run(*module)))
      module = nullptr;
    found = modules.emplace(file, std::move(module)).first;
  }
  return found->second ? findEntry(*found->second) : nullptr;
}

mlir::Operation *CompiledKernels::map(const Binding &binding, const std::string &target) {
  std::string key = binding.text() + " mapped onto " + target;
  auto found = modules.find(key);
  if (found == modules.end()) {
    mlir::OwningOpRef<mlir::ModuleOp> mapped;
    if (mlir::Operation *entry = compile(binding, target)) {
      mapped = mlir::cast<mlir::ModuleOp>(entry->getParentOfType<mlir::ModuleOp>()->clone());
      GpuOptions options;
      options.target = target;
      if (mlir::failed(mapToGpu(*mapped, options)))
        mapped = nullptr;
    }
    found = modules.emplace(key, std::move(mapped)).first;
    errorsOf[key] = errors;
  }
  errors = errorsOf[key];
  return found->second ? findEntry(*found->second) : nullptr;
}

} // namespace tilewright::acceptance
