// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewrightc: compiles one kernel or program of a file and prints the result.

#include "base/Abi/TimelineFormat.h"
#include "dialect/Tile/TextInput.h"
#include "lib/Codegen/CrashReproducer.h"
#include "lib/Codegen/GpuCompiler.h"
#include "lib/Codegen/Report.h"
#include "lib/Driver/BundleRequest.h"
#include "lib/Driver/CompileOptions.h"
#include "lib/Driver/MappedModule.h"
#include "lib/Driver/Progress.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

using namespace tilewright;

namespace cl = llvm::cl;

static constexpr llvm::StringLiteral tool = "tilewrightc";

/// LLVM IR or PTX, by the name of the file, as PTX.
static llvm::Expected<std::string> readCode(llvm::MemoryBufferRef buffer, llvm::StringRef target) {
  if (buffer.getBufferIdentifier().ends_with(".ll"))
    return emitPtxFromIr(buffer, target);
  return buffer.getBuffer().str();
}

/// For a file of LLVM IR or PTX.
static llvm::Expected<std::string> compileCode(llvm::MemoryBufferRef buffer, GpuForm form,
                                               llvm::StringRef target) {
  llvm::Expected<std::string> ptx = readCode(buffer, target);
  if (!ptx || form == GpuForm::Ptx)
    return ptx;
  llvm::Expected<Assembly> assembly = assembleCubin(*ptx, target);
  if (!assembly)
    return assembly.takeError();
  return std::move(assembly->cubin);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("tilewrightc");
  CompileOptions compile(category);
  cl::opt<std::string> emit("emit",
                            cl::desc("Output: tile (specialized tile IR), or for a GPU tgpu, llvm, "
                                     "ptx, cubin or bundle (the file for the runtime)"),
                            cl::init("tile"), cl::value_desc("tile|tgpu|llvm|ptx|cubin|bundle"),
                            cl::cat(category));
  GpuOptions gpu;
  cl::list<std::string> targets(
      "target",
      cl::desc(
          "Target GPU: sm_80 (the default), sm_86 or sm_89, whose code also runs on later ones, or "
          "one with an 'a', whose code runs there alone. A bundle can have several; by default "
          "sm_80, and sm_90a if kernels have roles there. One for sm_90a alone also has sm_80, for "
          "views that no tensor map can describe"),
      cl::value_desc(targetWords()), cl::cat(category));
  cl::list<std::string> variants("variant",
                                 cl::desc("Additional parameters of one variant of a bundle"),
                                 cl::value_desc("NAME=VALUE,..."), cl::cat(category));
  cl::opt<int64_t> warps("warps", cl::desc("Warps per thread block; 0: chosen by the compiler"),
                         cl::init(gpu.warps), cl::value_desc("n"), cl::cat(category));
  cl::list<std::string> schedule(
      "schedule",
      cl::desc("Override a decision about loops (skeleton, stages, in_flight, "
               "keep_in_registers) or roles (turns, group, store_buffers and others: see the "
               "author's guide)"),
      cl::value_desc("KEY=VALUE"), cl::cat(category));
  cl::opt<std::string> code(
      "code",
      cl::desc(
          "LLVM IR (.ll) or PTX (.ptx), such as an edited dump, to use as the code of a bundle"),
      cl::value_desc("file"), cl::cat(category));
  cl::opt<std::string> output("o", cl::desc("Output file; standard output by default"),
                              cl::init("-"), cl::value_desc("file"), cl::cat(category));
  cl::opt<std::string> reportText(
      "report",
      cl::desc("Print the resources, schedule and memory accesses of each kernel on standard "
               "error; =summary: one line for each kernel, and what is slower than it could be"),
      cl::ValueOptional, cl::value_desc("summary"), cl::cat(category));
  cl::opt<std::string> timelineText(
      "timeline",
      cl::desc("Kernels write the times of their operations to an argument 'timeline', with this "
               "many 64-bit words per warpgroup of a role of a block (4096)"),
      cl::ValueOptional, cl::value_desc("words"), cl::cat(category));
  cl::opt<bool> quiet("quiet", cl::desc("Do not show progress"), cl::cat(category));
  cl::opt<std::string> crashReproducer(
      "crash-reproducer",
      cl::desc("Output file for the pass and its input if a pass fails or crashes; tilewright-opt "
               "--run-reproducer runs it"),
      cl::value_desc("file"), cl::cat(category));
  if (!parseOptions(
          argc, argv, category, "Tilewright compiler\n",
          {"tilewrightc kernels/matmul.mlir --param T=f16",
           "tilewrightc kernels/attention_forward.mlir --param D=64 --param T=f16 --emit=tgpu "
           "--report -o /dev/null",
           "tilewrightc kernels/matmul.mlir --param T=f16 --emit=bundle -o matmul.twb"}))
    return exitUsage;
  std::optional<GpuForm> form = parseGpuForm(emit);
  bool isBundle = emit == "bundle";
  if (emit != "tile" && !form && !isBundle)
    return reportUsage(tool, "--emit: expected tile, tgpu, llvm, ptx, cubin or bundle but got '" +
                                 emit + "'");
  if (!isBundle && targets.size() > 1)
    return reportUsage(tool,
                       "--target: several targets require --emit=bundle, but got --emit=" + emit);
  if (!isBundle && !variants.empty())
    return reportUsage(tool, "--variant: variants require --emit=bundle, but got --emit=" + emit);
  bool hasTimeline = timelineText.getNumOccurrences() != 0;
  if (hasTimeline && !form && !isBundle)
    return reportUsage(tool, "--timeline requires GPU output, but got --emit=" + emit +
                                 "; give --emit=tgpu, llvm, ptx, cubin or bundle");
  int64_t timelineWords = hasTimeline ? timeline::defaultWords : 0;
  if (!timelineText.empty() && (llvm::StringRef(timelineText).getAsInteger(10, timelineWords) ||
                                !timeline::isChunkSize(timelineWords)))
    return reportUsage(
        tool, "--timeline: expected a power of 2 from " + llvm::Twine(timeline::leastWords) +
                  " to " + llvm::Twine(timeline::mostWords) + " but got '" + timelineText + "'");
  const bool report = reportText.getNumOccurrences() != 0;
  if (!reportText.empty() && reportText != "summary")
    return reportUsage(tool, "--report: expected no value or summary but got '" + reportText + "'");
  const auto reportLength = reportText.empty() ? ReportLength::Full : ReportLength::Summary;
  if (report && !form && !isBundle)
    return reportUsage(tool, "--report requires GPU output, but got --emit=" + emit +
                                 "; give --emit=tgpu, llvm, ptx, cubin or bundle");
  if (!code.empty() && !isBundle)
    return reportUsage(tool, "--code requires --emit=bundle, but got --emit=" + emit);
  bool isCode = llvm::StringRef(compile.file).ends_with(".ll") ||
                llvm::StringRef(compile.file).ends_with(".ptx");
  if (isCode && form != GpuForm::Cubin &&
      !(form == GpuForm::Ptx && llvm::StringRef(compile.file).ends_with(".ll")))
    return reportUsage(tool, "--emit: expected ptx (from a .ll file) or cubin for a file of code; "
                             "for a bundle, give the kernel, and this file with --code");
  if (!targets.empty())
    gpu.target = targets.front();
  gpu.warps = warps;
  gpu.schedule = schedule;
  gpu.timelineWords = timelineWords;
  for (const std::string &target : targets)
    if (llvm::Expected<const Target &> known = findTarget(target); !known)
      return reportUsage(tool, known.takeError());

  TilePipelineOptions options;
  EntryKind kind;
  if (llvm::Error error = resolve(compile.request(), options, kind))
    return reportUsage(tool, std::move(error));
  if (form || !targets.empty())
    options.target = gpu.target;
  options.source = getLinkSource(compile.file);
  BundleRequest request;
  request.options = options;
  request.kind = kind;
  request.targets.assign(targets.begin(), targets.end());
  request.gpu = gpu;
  if (report)
    request.report = &llvm::errs();
  request.reportLength = reportLength;
  if (llvm::Error error = parseEach("--variant", variants, parseVariant, request.variants))
    return reportUsage(tool, std::move(error));

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  DiagnosticPrinter diagnostics(context, tool);
  if (!crashReproducer.empty())
    setCrashReproducer(crashReproducer);
  llvm::scope_exit tellOfReproducer([&] {
    if (wroteCrashReproducer())
      llvm::WithColor::note(llvm::errs(), tool) << "the pass that failed is in '" << crashReproducer
                                                << "'; run it by tilewright-opt --run-reproducer\n";
  });
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(compile.file);
  if (!buffer)
    return reportFailure(tool, "cannot open '" + compile.file +
                                   "': " + llvm::toString(buffer.takeError()));
  if (compile.file == "-")
    diagnostics.keepStandardInput((*buffer)->getBuffer());

  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::Expected<std::string> result = "";
  std::optional<Progress> progress(std::in_place, tool, quiet);
  auto show = [&](const std::string &what) {
    progress->show(what + " for " + (isCode ? gpu.target : options.target));
  };
  if (isCode) {
    show(emit);
    result = compileCode(**buffer, *form, gpu.target);
  } else if (isBundle) {
    if (!code.empty()) {
      llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> codeBuffer = readText(code);
      if (!codeBuffer)
        return reportFailure(tool, "cannot open '" + code +
                                       "': " + llvm::toString(codeBuffer.takeError()));
      llvm::Expected<std::string> ptx = readCode(**codeBuffer, gpu.target);
      if (!ptx)
        return reportFailure(tool, ptx.takeError());
      request.ptx = std::move(*ptx);
    }
    request.progress = [&](const std::string &what) { progress->show(what); };
    result = compileBundle(context, **buffer, request);
  } else {
    show("tile IR");
    module = parseBuffer(context, **buffer, options.source);
    if (form)
      module = compileOrTakeMapped(std::move(module), **buffer, options, kind, gpu);
    else if (module)
      module = compileModule(std::move(module), **buffer, options, kind);
    if (!module)
      return diagnostics.sawError()
                 ? exitFailed
                 : reportFailure(tool, "compilation failed, but no error was reported; report it");
    if (report) {
      show("report");
      if (failed(mapToGpu(*module, gpu)))
        return exitFailed;
      std::string text;
      llvm::raw_string_ostream stream(text);
      reportOn(*module, gpu, stream, reportLength);
      Progress::hide();
      llvm::errs() << text;
      gpu.warnsOfSpills = false; // the report has warned
    }
    if (form) {
      show(emit);
      result = compileForGpu(*module, *form, gpu);
    }
  }
  progress.reset();
  if (!result && diagnostics.sawError()) {
    llvm::consumeError(result.takeError());
    return exitFailed;
  }
  if (!result)
    return reportFailure(tool, result.takeError());

  std::error_code failure;
  bool isText = !isBundle && form != GpuForm::Cubin;
  llvm::ToolOutputFile file(output, failure,
                            isText ? llvm::sys::fs::OF_Text : llvm::sys::fs::OF_None);
  if (failure)
    return reportFailure(tool, "cannot write '" + output + "': " + failure.message());
  if (form || isBundle) {
    file.os() << *result;
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
