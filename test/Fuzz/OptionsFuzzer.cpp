// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: the strings of --schedule, --param, --in, --out, --inout, --scalar and
// --strides. The first line of the input is the value of one option of each kind. If the first byte
// is below 64, the other lines are parameters, or with a leading '!' schedule options, with which
// kernels/matmul.mlir is compiled for a GPU. It must run in the root of the source tree.

#include "CompilerFuzzing.h"

#include "lib/Driver/BindingOptions.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBufferRef.h"

using namespace tilewright;

namespace {

template <typename Result> void drop(llvm::Expected<Result> result) {
  if (!result && llvm::toString(result.takeError()).empty())
    __builtin_trap();
}

void compile(llvm::ArrayRef<llvm::StringRef> lines, bool isHopper) {
  fuzzing::CompilerContext context;
  TilePipelineOptions options;
  GpuPipelineOptions gpu;
  options.target = gpu.target = isHopper ? "sm_90a" : "sm_80";
  bool hasType = false;
  for (llvm::StringRef line : lines) {
    if (line.consume_front("!")) {
      gpu.schedule.push_back(line.str());
      continue;
    }
    auto [name, value] = line.split('=');
    hasType |= name == "T";
    options.params.emplace_back(name.str(), value.str());
  }
  if (!hasType)
    options.params.emplace_back("T", "f16");
  auto module = compileFile(context, "kernels/matmul.mlir", options);
  bool isDone = bool(module);
  if (module) {
    mlir::PassManager manager(module->getContext());
    buildGpuPipeline(manager, gpu);
    isDone = mlir::succeeded(manager.run(*module));
  }
  context.requireReason(isDone);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  llvm::StringRef text(reinterpret_cast<const char *>(data + 1), size - 1);
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', /*MaxSplit=*/16);
  drop(parseIn(lines[0]));
  drop(parseOut(lines[0]));
  drop(parseInOut(lines[0]));
  drop(parseScalar(lines[0]));
  drop(parseStrides(lines[0]));
  drop(parseParam(lines[0]));
  if (data[0] < 64)
    compile(llvm::ArrayRef(lines).drop_front(), data[0] % 2);
  return 0;
}
