// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A handler belongs to a context, which threads share.

#include "lib/Bundle/HeldDiagnostics.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Threading.h"

using namespace mlir;
using namespace tilewright;

HeldDiagnostics::HeldDiagnostics(MLIRContext *context) : context(context) {
  handler.emplace(context, [this, thread = llvm::get_threadid()](Diagnostic &diagnostic) {
    if (llvm::get_threadid() != thread)
      return failure(); // for the handler of that thread
    said.push_back(std::move(diagnostic));
    return success();
  });
}

void HeldDiagnostics::emit() { emitAll(context, take()); }

std::vector<Diagnostic> HeldDiagnostics::take() {
  handler.reset();
  return std::exchange(said, {});
}

void tilewright::emitAll(MLIRContext *context, std::vector<Diagnostic> diagnostics) {
  for (Diagnostic &diagnostic : diagnostics)
    context->getDiagEngine().emit(std::move(diagnostic));
}
