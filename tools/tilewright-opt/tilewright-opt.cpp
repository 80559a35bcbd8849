// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs single passes on a module: for tests and for looking at what a pass does.

#include "dialect/Tile/TextInput.h"
#include "lib/Driver/Compiler.h"
#include "lib/Driver/ToolSupport.h"
#include "passes/Passes.h"
#include "passes/Pipelines/Pipelines.h"
#include "passes/Tile/LinkLibraries.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

/// Declarations of the functions that the text calls and only a file that it links has. MLIR's
/// driver verifies what it has parsed, and func.call requires them. Empty if the text has other
/// faults, which the driver reports.
static std::string declareCalled(llvm::StringRef text, llvm::StringRef source,
                                 const mlir::DialectRegistry &registry) {
  std::string declarations;
  if (!text.contains("tile.link"))
    return declarations;
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) { return mlir::success(); });
  mlir::ParserConfig config(&context, /*verifyAfterParse=*/false);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, config, source);
  if (!module)
    return declarations;
  llvm::StringSet<> known, called;
  for (auto function : module->getOps<mlir::func::FuncOp>())
    known.insert(function.getSymName());
  module->walk([&](mlir::func::CallOp call) {
    if (!known.contains(call.getCallee()))
      called.insert(call.getCallee());
  });
  if (called.empty() || failed(tilewright::declareLinked(*module, source)))
    return declarations;
  llvm::raw_string_ostream os(declarations);
  for (auto function : module->getOps<mlir::func::FuncOp>())
    if (called.contains(function.getSymName()))
      os << "\nfunc.func private @" << function.getSymName() << function.getFunctionType();
  return declarations;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  tilewright::hideLibraryOptions();
  mlir::DialectRegistry registry;
  tilewright::registerDialects(registry);
  tilewright::registerTilewrightPasses();
  tilewright::registerTilewrightPipelines();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerInlinerPass();
  mlir::registerLoopInvariantCodeMotionPass();
  mlir::registerSymbolDCEPass();
  llvm::SmallVector<const char *> arguments(argv, argv + argc);
  if (!tilewright::takeColorOption(arguments))
    return tilewright::exitUsage;
  std::string header = mlir::registerCLIOptions("Tilewright pass driver\n", registry);
  tilewright::printOptionsIfAsked(arguments, /*category=*/nullptr);
  std::string examples = tilewright::describeExamples(
      {"tilewright-opt kernels/row_softmax.mlir --tile-link",
       "tilewright-opt kernels/matmul.mlir --tile-pipeline=\"params=T=f16\" --gpu-pipeline"});
  llvm::cl::extrahelp help(examples);
  arguments.push_back(nullptr);
  auto [input, output] = mlir::parseCLIOptions(static_cast<int>(arguments.size()) - 1,
                                               const_cast<char **>(arguments.data()), header);
  mlir::MlirOptMainConfig config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));

  auto reject = [&](const llvm::Twine &message) {
    llvm::WithColor::error(llvm::errs(), "tilewright-opt") << message << '\n';
    return 1;
  };
  auto text = tilewright::readText(input);
  if (!text)
    return reject("cannot open '" + input + "': " + llvm::toString(text.takeError()));
  bool isText = !mlir::isBytecode(**text);
  if (auto fault = tilewright::findTextFault(isText ? (*text)->getBuffer() : ""))
    return reject("'" + input + "', line " +
                  llvm::Twine((*text)->getBuffer().take_front(fault->offset).count('\n') + 1) +
                  ": " + fault->message);
  std::unique_ptr<llvm::MemoryBuffer> buffer = std::move(*text);
  if (isText) {
    std::string aliased = buffer->getBuffer().str();
    if (auto fault = tilewright::addLinkedAliases(aliased, tilewright::getLinkSource(input)))
      return reject("'" + input + "', line " +
                    llvm::Twine(buffer->getBuffer().take_front(fault->offset).count('\n') + 1) +
                    ": " + fault->message);
    buffer = llvm::MemoryBuffer::getMemBufferCopy(aliased, buffer->getBufferIdentifier());
  }
  // After the text, so that locations stay as they are.
  std::string declarations =
      isText ? declareCalled(buffer->getBuffer(), tilewright::getLinkSource(input), registry) : "";
  if (!declarations.empty())
    buffer = llvm::MemoryBuffer::getMemBufferCopy(buffer->getBuffer().str() + declarations,
                                                  buffer->getBufferIdentifier());
  // MLIR's driver does not tell passes which file it parses.
  mlir::MlirOptMainConfig asked = config;
  config.setPassPipelineSetupFn([&](mlir::PassManager &manager) {
    if (failed(asked.setupPassPipeline(manager)))
      return mlir::failure();
    tilewright::setLinkSource(manager, tilewright::getLinkSource(input));
    return mlir::success();
  });
  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> file = mlir::openOutputFile(output, &message);
  if (!file)
    return reject(message);
  if (failed(mlir::MlirOptMain(file->os(), std::move(buffer), registry, config)))
    return 1;
  file->keep();
  return 0;
}
