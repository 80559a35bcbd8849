// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the stages of compilations.

#include "lib/Codegen/Dump.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <mutex>
#include <string>

namespace tilewright {

namespace {

struct DumpState {
  DumpState() {
    if (const char *value = std::getenv("TILEWRIGHT_DUMP"))
      base = value;
  }
  std::mutex mutex;
  std::string base;
  unsigned number = 0;
};

DumpState &dumpState() {
  static DumpState state;
  return state;
}

/// Passes on parts of a module run in any order: only a pass on the whole module is a stage.
struct AfterEachPass : mlir::PassInstrumentation {
  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override { write(pass, op, ""); }
  void runAfterPassFailed(mlir::Pass *pass, mlir::Operation *op) override {
    write(pass, op, ".failed");
  }
  void write(mlir::Pass *pass, mlir::Operation *op, llvm::StringRef suffix) {
    auto module = llvm::dyn_cast<mlir::ModuleOp>(op);
    if (module && !pass->getArgument().empty())
      dump((pass->getArgument() + suffix + ".mlir").str(), module);
  }
};

} // namespace

bool isDumping() { return !dumpState().base.empty(); }

void dump(llvm::StringRef name, llvm::StringRef bytes) {
  if (!isDumping())
    return;
  std::lock_guard<std::mutex> lock(dumpState().mutex);
  std::string path;
  llvm::raw_string_ostream(path) << dumpState().base << llvm::format(".%03u.", dumpState().number++)
                                 << name;
  std::error_code code;
  llvm::raw_fd_ostream stream(path, code);
  if (!code) {
    stream << bytes;
    stream.close();
    code = stream.error();
    stream.clear_error();
  }
  if (!code)
    return;
  llvm::WithColor::warning(llvm::errs(), "TILEWRIGHT_DUMP")
      << "cannot write '" << path << "': " << code.message() << '\n';
  dumpState().base.clear();
}

void dump(llvm::StringRef name, mlir::ModuleOp module) {
  if (!isDumping())
    return;
  std::string text;
  llvm::raw_string_ostream stream(text);
  // The module after a failed pass need not be valid.
  module->print(stream, mlir::OpPrintingFlags().assumeVerified());
  dump(name, stream.str() + "\n");
}

void dumpPasses(mlir::PassManager &manager) {
  if (isDumping())
    manager.addInstrumentation(std::make_unique<AfterEachPass>());
}

} // namespace tilewright
