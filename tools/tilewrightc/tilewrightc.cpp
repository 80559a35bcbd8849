// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewrightc: compiles one kernel or program of a file and prints the result.

#include "lib/Codegen/GpuCompiler.h"
#include "lib/Driver/CompileOptions.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace tilewright;

namespace cl = llvm::cl;

static constexpr llvm::StringLiteral tool = "tilewrightc";

/// For a GPU the file may also be what --emit=tgpu printed, edited or not. Null after an error.
static mlir::OwningOpRef<mlir::ModuleOp> load(mlir::MLIRContext &context, llvm::StringRef file,
                                              const TilePipelineOptions &options, EntryKind kind,
                                              bool forGpu) {
  if (!forGpu)
    return compileFile(context, file, options, kind);
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(file, /*IsText=*/true);
  if (!buffer) {
    mlir::emitError(mlir::UnknownLoc::get(&context))
        << "cannot open '" << file << "': " << buffer.getError().message();
    return nullptr;
  }
  mlir::OwningOpRef<mlir::ModuleOp> module = parseBuffer(context, **buffer);
  if (!module || isMapped(*module))
    return module;
  return compileBuffer(context, **buffer, options, kind);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("tilewrightc");
  CompileOptions compile(category);
  cl::opt<std::string> emit(
      "emit",
      cl::desc("What to print: tile (specialised tile IR), or for a GPU tgpu, llvm, "
               "ptx or cubin"),
      cl::init("tile"), cl::value_desc("form"), cl::cat(category));
  GpuOptions gpu;
  cl::opt<std::string> target("target", cl::desc("The GPU: sm_80 (and newer) or sm_90a"),
                              cl::init(gpu.target), cl::value_desc("name"), cl::cat(category));
  cl::opt<int64_t> warps("warps", cl::desc("Warps of a thread block"), cl::init(gpu.warps),
                         cl::value_desc("n"), cl::cat(category));
  cl::opt<std::string> output("o", cl::desc("Where to print; standard output by default"),
                              cl::init("-"), cl::value_desc("file"), cl::cat(category));
  cl::opt<bool> report("report",
                       cl::desc("Say on standard error what each kernel of a cubin takes"),
                       cl::cat(category));
  if (!parseOptions(argc, argv, category, "Tilewright compiler\n"))
    return exitUsage;
  std::optional<GpuForm> form = parseGpuForm(emit);
  if (emit != "tile" && !form)
    return reportUsage(tool,
                       "--emit: expected tile, tgpu, llvm, ptx or cubin but got '" + emit + "'");
  gpu.target = target;
  gpu.warps = warps;
  if (llvm::Expected<GpuTarget> known = GpuTarget::get(target); !known)
    return reportUsage(tool, known.takeError());

  TilePipelineOptions options;
  EntryKind kind;
  if (llvm::Error error = resolve(compile.request(), options, kind))
    return reportUsage(tool, std::move(error));

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  DiagnosticPrinter diagnostics(context, tool);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      load(context, compile.file, options, kind, form.has_value());
  if (!module)
    return diagnostics.sawError() ? exitFailed : reportFailure(tool, "compilation failed");

  std::string result;
  std::vector<KernelResources> resources;
  if (form) {
    llvm::Expected<std::string> compiled = compileForGpu(*module, *form, gpu, &resources);
    if (!compiled && diagnostics.sawError()) {
      llvm::consumeError(compiled.takeError());
      return exitFailed;
    }
    if (!compiled)
      return reportFailure(tool, compiled.takeError());
    result = std::move(*compiled);
    for (const KernelResources &kernel : resources)
      if (report)
        llvm::errs() << kernel.kernel << ": " << kernel.registers << " registers, "
                     << kernel.spillStoreBytes + kernel.spillLoadBytes << " bytes spilled, "
                     << kernel.staticSharedBytes << " bytes of static shared memory\n";
  }

  std::error_code code;
  llvm::ToolOutputFile file(
      output, code, form == GpuForm::Cubin ? llvm::sys::fs::OF_None : llvm::sys::fs::OF_Text);
  if (code)
    return reportFailure(tool, "cannot write '" + output + "': " + code.message());
  if (form) {
    file.os() << result;
  } else {
    module->print(file.os());
    file.os() << '\n';
  }
  file.os().flush();
  if (file.os().has_error()) {
    std::string message = file.os().error().message();
    file.os().clear_error();
    return reportFailure(tool, "cannot write '" + output + "': " + message);
  }
  file.keep();
  return exitDone;
}
