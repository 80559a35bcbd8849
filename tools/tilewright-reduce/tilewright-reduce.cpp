// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-reduce: reduces a kernel file that exhibits a fault.

#include "dialect/Tile/TextInput.h"
#include "lib/Driver/Progress.h"
#include "lib/Driver/ToolSupport.h"
#include "tools/tilewright-reduce/Reducer.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace tilewright;

namespace cl = llvm::cl;

static constexpr llvm::StringLiteral tool = "tilewright-reduce";

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("tilewright-reduce");
  cl::opt<std::string> input(cl::Positional, cl::Required, cl::desc("FILE"), cl::cat(category));
  cl::opt<std::string> script(
      "test",
      cl::desc("The test script: a program that is called with a file as its last argument and "
               "exits with 1 if the file is interesting, else with 0 (as for mlir-reduce)"),
      cl::Required, cl::value_desc("program"), cl::cat(category));
  cl::list<std::string> scriptArguments("test-arg", cl::desc("Additional argument of the program"),
                                        cl::value_desc("text"), cl::cat(category));
  cl::opt<std::string> output("o", cl::desc("Output file; standard output by default"),
                              cl::init("-"), cl::value_desc("file"), cl::cat(category));
  cl::opt<bool> quiet("quiet", cl::desc("Do not show progress on a terminal"), cl::cat(category));
  if (!parseOptions(
          argc, argv, category,
          "Reduces a file of tile or tgpu while a test script finds it interesting.\n",
          {"tilewright-reduce kernels/matmul.mlir --test=./interesting.sh -o small.mlir"}))
    return exitUsage;
  llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName(script);
  if (!program || !llvm::sys::fs::can_execute(*program))
    return reportUsage(tool, "--test: expected a program that can be run but got '" + script + "'");

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  DiagnosticPrinter diagnostics(context, tool);
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(input);
  if (!buffer)
    return reportFailure(tool,
                         "cannot open '" + input + "': " + llvm::toString(buffer.takeError()));
  if (input == "-")
    diagnostics.keepStandardInput((*buffer)->getBuffer());
  mlir::OwningOpRef<mlir::ModuleOp> module = parseBuffer(context, **buffer, getLinkSource(input));
  if (!module)
    return exitFailed;
  llvm::SmallVector<std::string> arguments(scriptArguments.begin(), scriptArguments.end());
  mlir::Tester tester(*program, arguments);
  Reducer reducer(std::move(module), tester);
  if (!reducer.linkFiles(getLinkSource(input)) && !reducer.isInteresting())
    return reportFailure(tool, "the test script must exit with 1 on the input, but got 0 from '" +
                                   script + "'; run it on the input");
  unsigned before = Reducer::countOps(reducer.getModule());
  {
    Progress progress(tool, quiet);
    reducer.run([&](unsigned ops, unsigned tests) {
      progress.show(llvm::Twine(before) + " operations reduced to " + llvm::Twine(ops) + ", by " +
                    llvm::Twine(tests) + " tests");
    });
  }

  std::error_code failure;
  llvm::ToolOutputFile file(output, failure, llvm::sys::fs::OF_Text);
  if (failure)
    return reportFailure(tool, "cannot write '" + output + "': " + failure.message());
  reducer.getModule().print(file.os());
  file.os() << '\n';
  file.keep();
  llvm::errs() << tool << ": " << before << " operations reduced to "
               << Reducer::countOps(reducer.getModule()) << ", by " << reducer.getNumTests()
               << " tests\n";
  return exitDone;
}
