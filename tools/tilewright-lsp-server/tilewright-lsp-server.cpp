// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Language server for kernel files: errors while typing, definitions, hover. For editors.

#include "lib/Driver/CommandLine.h"
#include "passes/Pipelines/Pipelines.h"
#include "tools/tilewright-lsp-server/GuardedInput.h"
#include "tools/tilewright-lsp-server/LinkedDocuments.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/LogicalResult.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>

int main(int argc, char **argv) {
  tilewright::hideLibraryOptions();
  bool isDelimited = false;
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef option = llvm::StringRef(argv[i]).ltrim('-');
    isDelimited |= option == "lit-test" || option == "input-style=delimited";
  }
  std::signal(SIGPIPE, SIG_IGN); // of the pipe that replaces standard input
  mlir::DialectRegistry registry;
  tilewright::registerDialects(registry);
  // Not destroyed: the thread that reads may outlive main.
  auto *documents = new tilewright::LinkedDocuments(registry);
  if (!tilewright::guardStandardInput(*documents, isDelimited) ||
      !tilewright::correctStandardOutput(*documents)) {
    llvm::WithColor::error(llvm::errs(), "tilewright-lsp-server") << "cannot make a pipe\n";
    return 1;
  }
  // An editor starts the server and speaks through its standard input and output.
  llvm::cl::extrahelp help(
      "\nEXAMPLES:\n\n  printf '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"shutdown\"}\\n// "
      "-----\\n"
      "{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}\\n' | tilewright-lsp-server --lit-test\n");
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
