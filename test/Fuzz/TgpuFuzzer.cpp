// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: text of tgpu, through the parser, the verifier, the printer and
// tgpu-verify-sync. Any text may be rejected; none may crash. The output of the printer for
// accepted text is accepted as well.

#include "CompilerFuzzing.h"
#include "TextMutation.h"

#include "passes/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBufferRef.h"

namespace {

std::string print(mlir::ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os);
  return text;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return tilewright::fuzzing::mutateText(data, size, maxSize, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  tilewright::fuzzing::CompilerContext context;
  auto module = tilewright::parseBuffer(context, llvm::MemoryBufferRef(text, "fuzz.mlir"));
  context.requireReason(bool(module));
  if (!module)
    return 0;
  std::string printed = print(*module);
  auto again = tilewright::parseBuffer(context, llvm::MemoryBufferRef(printed, "again.mlir"));
  // Printed text may exceed the limits of nesting or count, which is then reported.
  context.requireReason(bool(again));
  mlir::PassManager manager(module->getContext());
  manager.addPass(tilewright::createTgpuVerifySync());
  context.requireReason(mlir::succeeded(manager.run(*module)));
  return 0;
}
