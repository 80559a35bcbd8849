// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: parse, verify and specialize. Any text may be rejected; none may crash.
//
// Parameters without a default are bound to the first value that they allow, so that the fuzzer
// reaches the passes.

#include "CompilerFuzzing.h"
#include "TextMutation.h"

#include "dialect/Tile/Tile.h"

#include "mlir/Support/LogicalResult.h"
#include "llvm/Support/MemoryBufferRef.h"

namespace {

using llvm::StringRef;

/// Values for the parameters that must be bound. Mutated modules declare other parameters than the
/// kernels, so the values come from the declaration and not from a list.
tilewright::TilePipelineOptions chooseOptions(mlir::Operation *entry) {
  using namespace tilewright::tile;
  tilewright::TilePipelineOptions options;
  for (auto param : Signature(entry).params.getAsRange<ParamDeclAttr>()) {
    if (param.getDefaultValue())
      continue;
    std::string value;
    ExprAttr allowed = param.getAllowed().empty() ? ExprAttr() : param.getAllowed().front();
    switch (param.getKind()) {
    case ParamKind::Int:
      value = std::to_string(allowed ? allowed.getValue() : 64);
      break;
    case ParamKind::Flag:
      value = "true";
      break;
    case ParamKind::Enum:
    case ParamKind::Type:
      value = allowed ? allowed.getName().str() : "f16";
      break;
    }
    options.params.emplace_back(param.getName().str(), value);
  }
  return options;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  return tilewright::fuzzing::mutateText(data, size, maxSize, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StringRef text(reinterpret_cast<const char *>(data), size);
  tilewright::fuzzing::CompilerContext context;
  llvm::MemoryBufferRef buffer(text, "fuzz.mlir");
  mlir::OwningOpRef<mlir::ModuleOp> module = tilewright::parseBuffer(context, buffer);
  if (module) {
    tilewright::TilePipelineOptions options;
    using namespace tilewright::tile;
    mlir::Operation *entry = tilewright::findEntry(*module);
    if (llvm::isa_and_present<KernelOp, ProgramOp>(entry))
      options = chooseOptions(entry);
    module = tilewright::compileBuffer(context, buffer, options);
  }
  context.requireReason(bool(module));
  return 0;
}
