// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's crash reproducers, reduced to the pass that failed.

#include "lib/Codegen/CrashReproducer.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

#include <memory>
#include <string>

namespace tilewright {

namespace {

struct State {
  std::string path;
  bool isWritten = false;
};

State &state() {
  static State state;
  return state;
}

struct Stream : mlir::ReproducerStream {
  explicit Stream(std::unique_ptr<llvm::ToolOutputFile> file) : file(std::move(file)) {}
  ~Stream() override {
    file->keep();
    state().isWritten = true;
  }
  llvm::StringRef description() override { return file->getFilename(); }
  llvm::raw_ostream &os() override { return file->os(); }

  std::unique_ptr<llvm::ToolOutputFile> file;
};

} // namespace

void setCrashReproducer(llvm::StringRef path) { state().path = path.str(); }

bool wantsCrashReproducer() { return !state().path.empty(); }

bool wroteCrashReproducer() { return state().isWritten; }

void reproduceCrashes(mlir::PassManager &manager) {
  if (state().path.empty() || manager.getContext()->isMultithreadingEnabled())
    return;
  manager.enableCrashReproducerGeneration(
      [](std::string &error) -> std::unique_ptr<mlir::ReproducerStream> {
        std::unique_ptr<llvm::ToolOutputFile> file = mlir::openOutputFile(state().path, &error);
        if (!file) {
          // MLIR's own message follows the error of the pass, and only the first error is printed.
          llvm::WithColor::warning(llvm::errs(), "--crash-reproducer") << error << '\n';
          return nullptr;
        }
        return std::make_unique<Stream>(std::move(file));
      },
      /*genLocalReproducer=*/true);
}

} // namespace tilewright
