// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The context of a fuzz target that compiles, and its contract: every failure reports an error.

#ifndef TILEWRIGHT_TEST_FUZZ_COMPILERFUZZING_H
#define TILEWRIGHT_TEST_FUZZ_COMPILERFUZZING_H

#include "lib/Driver/Compiler.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace tilewright::fuzzing {

/// One thread, all dialects; diagnostics are built to exercise their code, counted and discarded.
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

  /// Aborts if a step failed without an error since the last call.
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
