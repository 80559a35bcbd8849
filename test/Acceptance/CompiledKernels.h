// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels with the values of their parameters, compiled once for all tests. KernelCall.cpp,
// TestedGpu.cpp and this are the only files of these tests that use MLIR.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_COMPILEDKERNELS_H
#define TILEWRIGHT_TEST_ACCEPTANCE_COMPILEDKERNELS_H

#include "test/Acceptance/KernelCall.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace tilewright::acceptance {

/// A kernel with the values of its parameters.
struct Binding {
  const std::string &file;
  const Params &params;
  const std::vector<std::string> &with;
  std::string golden;        ///< file of test/Tgpu to run instead
  std::string sums = "auto"; ///< --sums

  std::string text() const {
    if (!golden.empty())
      return golden;
    std::string text = file;
    for (const auto &[name, value] : params)
      text += " " + name + "=" + value;
    for (const std::string &mod : with)
      text += " +" + mod;
    return sums == "auto" ? text : text + " sums=" + sums;
  }
};

/// Whether targets are known to refuse the binding with such an error. The test is then skipped,
/// and continues on the CPU. Whatever else does not compile fails its test.
bool isExpectedRefusal(const Binding &binding, llvm::StringRef errors);

/// All kernels compiled so far.
class CompiledKernels {
public:
  static CompiledKernels &get();

  /// Null after an error.
  mlir::Operation *compile(const Binding &binding, const std::string &target = "cpu");
  /// A golden with assigned buffer offsets. Null after an error.
  mlir::Operation *load(const std::string &file);
  /// Mapped onto a GPU, for the simulator. Null after an error.
  mlir::Operation *map(const Binding &binding, const std::string &target);

  std::string takeErrors() { return std::exchange(errors, ""); }

private:
  CompiledKernels();

  mlir::MLIRContext context;
  std::string errors;                          ///< since they were last taken
  std::map<std::string, std::string> errorsOf; ///< of each key of `modules`
  mlir::ScopedDiagnosticHandler handler;
  std::map<std::string, mlir::OwningOpRef<mlir::ModuleOp>> modules;
};

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_COMPILEDKERNELS_H
