// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The context of a fuzz target that compiles, and its contract: what fails says why.

#ifndef TILEWRIGHT_TEST_FUZZ_COMPILERFUZZING_H
#define TILEWRIGHT_TEST_FUZZ_COMPILERFUZZING_H

#include "lib/Driver/Compiler.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace tilewright::fuzzing {

/// One thread, all dialects; diagnostics are built, since that is code too, counted and dropped.
class CompilerContext {
public:
  CompilerContext() : context(registerAll(), mlir::MLIRContext::Threading::DISABLED) {
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
      (void)diagnostic.str();
      errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
      return mlir::success();
    });
  }

  operator mlir::MLIRContext &() { return context; }

  /// Ends the program where something failed without an error since the last call.
  void requireReason(bool ok) {
    if (!ok && errors == 0)
      __builtin_trap();
    errors = 0;
  }

private:
  static mlir::DialectRegistry registerAll() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }

  mlir::MLIRContext context;
  unsigned errors = 0;
};

} // namespace tilewright::fuzzing

#endif // TILEWRIGHT_TEST_FUZZ_COMPILERFUZZING_H
