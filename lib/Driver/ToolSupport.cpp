// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options, diagnostics and exit codes of the tools.

#include "lib/Driver/ToolSupport.h"

#include "lib/Driver/BindingOptions.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

namespace tilewright {

bool parseOptions(int argc, char **argv, llvm::cl::OptionCategory &category,
                  llvm::StringRef overview) {
  llvm::cl::HideUnrelatedOptions(category);
  llvm::cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << "tilewright 0.1.0\n"; });
  // With a stream for errors the parser returns instead of leaving with code 1.
  return llvm::cl::ParseCommandLineOptions(argc, argv, overview, &llvm::errs());
}

ExitCode reportFailure(llvm::StringRef tool, const llvm::Twine &message) {
  llvm::WithColor::error(llvm::errs(), tool) << message << '\n';
  return exitFailed;
}

ExitCode reportFailure(llvm::StringRef tool, llvm::Error error) {
  return reportFailure(tool, llvm::toString(std::move(error)));
}

ExitCode reportUsage(llvm::StringRef tool, const llvm::Twine &message) {
  reportFailure(tool, message);
  return exitUsage;
}

ExitCode reportUsage(llvm::StringRef tool, llvm::Error error) {
  return reportUsage(tool, llvm::toString(std::move(error)));
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

struct DiagnosticPrinter::Impl {
  Impl(mlir::MLIRContext &context, llvm::StringRef tool)
      : tool(tool.str()), printer(sources, &context, llvm::errs()),
        filter(&context, [this](mlir::Diagnostic &diagnostic) { return handle(diagnostic); }) {}

  /// Success keeps a diagnostic from the handler before, which prints.
  mlir::LogicalResult handle(mlir::Diagnostic &diagnostic) {
    switch (diagnostic.getSeverity()) {
    case mlir::DiagnosticSeverity::Error: {
      bool first = !sawError;
      sawError = true;
      if (!first)
        return mlir::success();
      // MLIR's parser knows no tiles: what it says of their literals lacks what to write.
      if (llvm::StringRef(diagnostic.str()).starts_with("elements literal"))
        diagnostic << "; a constant tile is tile.full of a scalar constant";
      if (!mlir::isa<mlir::UnknownLoc>(diagnostic.getLocation()))
        return mlir::failure();
      reportFailure(tool, diagnostic.str());
      return mlir::success();
    }
    case mlir::DiagnosticSeverity::Warning:
      return mlir::failure();
    case mlir::DiagnosticSeverity::Note:
    case mlir::DiagnosticSeverity::Remark:
      return mlir::success();
    }
    return mlir::success();
  }

  std::string tool;
  bool sawError = false;
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler printer;
  mlir::ScopedDiagnosticHandler filter; // the last one registered is asked first
};

DiagnosticPrinter::DiagnosticPrinter(mlir::MLIRContext &context, llvm::StringRef tool)
    : impl(std::make_unique<Impl>(context, tool)) {
  context.printOpOnDiagnostic(false); // the line of source says it better
}
DiagnosticPrinter::~DiagnosticPrinter() = default;
bool DiagnosticPrinter::sawError() const { return impl->sawError; }

//===----------------------------------------------------------------------===//
// Requests
//===----------------------------------------------------------------------===//

llvm::Error resolve(const CompileRequest &request, TilePipelineOptions &options, EntryKind &kind) {
  auto failure = [](const llvm::Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
  };
  if (!request.kernel.empty() && !request.program.empty())
    return failure("--kernel and --program exclude each other");
  kind = !request.kernel.empty()    ? EntryKind::Kernel
         : !request.program.empty() ? EntryKind::Program
                                    : EntryKind::Any;
  options.entry = request.kernel + request.program;
  options.with = request.with;
  options.fastMath = request.fastMath;
  options.blocks = request.blocks;
  options.length = request.length;
  if (llvm::Error error = parseEach("--param", request.params, parseParam, options.params))
    return error;
  return llvm::Error::success();
}

std::string findKernelsFolder(const char *argv0, llvm::StringRef given) {
  if (!given.empty())
    return given.str();
  static int anchor; // any address inside the executable
  std::string executable = llvm::sys::fs::getMainExecutable(argv0, &anchor);
  for (llvm::StringRef up : {"..", "../.."}) {
    llvm::SmallString<128> folder = llvm::sys::path::parent_path(executable);
    llvm::sys::path::append(folder, up, "kernels", "attention_forward.mlir");
    llvm::sys::path::remove_dots(folder, /*remove_dot_dot=*/true);
    if (llvm::sys::fs::exists(folder))
      return llvm::sys::path::parent_path(folder).str();
  }
  return "";
}

Timing Timing::of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  size_t n = seconds.size();
  return {(seconds[(n - 1) / 2] + seconds[n / 2]) / 2, seconds.front(), seconds.back()};
}

double timeOf(llvm::function_ref<void()> body) {
  auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace tilewright
