// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewrightc: compiles one kernel or program of a file and prints the result.

#include "lib/Driver/CompileOptions.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace tilewright;

namespace cl = llvm::cl;

static constexpr llvm::StringLiteral tool = "tilewrightc";

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("tilewrightc");
  CompileOptions compile(category);
  cl::opt<std::string> emit("emit", cl::desc("What to print: tile (specialised tile IR)"),
                            cl::init("tile"), cl::value_desc("form"), cl::cat(category));
  cl::opt<std::string> output("o", cl::desc("Where to print; standard output by default"),
                              cl::init("-"), cl::value_desc("file"), cl::cat(category));
  if (!parseOptions(argc, argv, category, "Tilewright compiler\n"))
    return exitUsage;
  if (emit != "tile")
    return reportUsage(tool, "--emit: expected tile but got '" + emit + "'");

  TilePipelineOptions options;
  EntryKind kind;
  if (llvm::Error error = resolve(compile.request(), options, kind))
    return reportUsage(tool, std::move(error));

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  DiagnosticPrinter diagnostics(context, tool);
  mlir::OwningOpRef<mlir::ModuleOp> module = compileFile(context, compile.file, options, kind);
  if (!module)
    return diagnostics.sawError() ? exitFailed : reportFailure(tool, "compilation failed");

  std::error_code code;
  llvm::ToolOutputFile file(output, code, llvm::sys::fs::OF_Text);
  if (code)
    return reportFailure(tool, "cannot write '" + output + "': " + code.message());
  module->print(file.os());
  file.os() << '\n';
  file.os().flush();
  if (file.os().has_error()) {
    std::string message = file.os().error().message();
    file.os().clear_error();
    return reportFailure(tool, "cannot write '" + output + "': " + message);
  }
  file.keep();
  return exitDone;
}
