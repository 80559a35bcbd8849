// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opens the GPU, and counts runs on it.

#include "test/Acceptance/TestedGpu.h"

#include "base/Target/Target.h"
#include "lib/Codegen/GpuCompiler.h"
#include "passes/Tile/ProgramOfKernel.h"

#include <cstdio>
#include <cstdlib>

namespace tilewright::acceptance {

namespace {

/// The target of the goldens.
constexpr const char *goldenTarget = "sm_90a";

/// Opened before the first test; GoogleTest owns it.
const bool hasGpu = [] {
  TestedGpu *gpu = TestedGpu::get();
  if (gpu)
    ::testing::AddGlobalTestEnvironment(gpu);
  return gpu != nullptr;
}();

} // namespace

bool prefersGoldens() {
  static const bool prefers = std::getenv("TILEWRIGHT_TEST_GOLDENS") != nullptr;
  return prefers;
}

const std::string &simulatedTarget() {
  static const std::string target = [] {
    const char *name = std::getenv("TILEWRIGHT_TEST_DEVICE");
    llvm::StringRef text = name ? name : "";
    return text.consume_front("sim:") && Target::find(text) ? text.str() : std::string();
  }();
  return target;
}

TestedGpu *TestedGpu::get() {
  static TestedGpu *gpu = open();
  return gpu;
}

const TestedGpu::Compiled &TestedGpu::compile(const Binding &binding) {
  Compiled &compiled = operations[binding.text()];
  if (compiled.isCompiled || !compiled.rejection.empty() || !compiled.failure.empty())
    return compiled;
  CompiledKernels &kernels = CompiledKernels::get();
  mlir::Operation *entry = nullptr;
  std::vector<BundlePart> parts;
  if (!binding.golden.empty() && targets.front() != goldenTarget) {
    compiled.rejection = std::string("goldens are for ") + goldenTarget;
    return compiled;
  }
  for (const std::string &each : targets) {
    // Only Hopper has roles, and therefore additions in order.
    if (each != "sm_90a" && binding.sums == "ordered")
      continue;
    bool isGolden = !binding.golden.empty() && each == goldenTarget;
    // A test that requests a golden runs no other kernel.
    if (!binding.golden.empty() && !isGolden && !prefersGoldens())
      continue;
    entry = isGolden ? kernels.load(binding.golden) : kernels.compile(binding, each);
    if (!entry) {
      refuse(binding, "its tile IR does not compile: " + kernels.takeErrors(), compiled);
      return compiled;
    }
    GpuOptions gpu;
    gpu.target = each;
    BundlePart part{entry->getParentOfType<mlir::ModuleOp>(), gpu};
    // As compileBundle does: blocks of tests need not have roles, which additions in order need.
    if (binding.sums == "auto" && !isGolden)
      part.bindUnordered = [binding, each, &kernels]() {
        Binding unordered = binding;
        unordered.sums = "unordered";
        mlir::Operation *other = kernels.compile(unordered, each);
        return other ? other->getParentOfType<mlir::ModuleOp>() : mlir::ModuleOp();
      };
    parts.push_back(std::move(part));
  }
  if (parts.empty()) {
    compiled.rejection = "additions in order are for sm_90a";
    return compiled;
  }
  auto bundle = GpuOperation::compile(parts, /*assemble=*/false);
  std::string errors = kernels.takeErrors();
  if (!bundle) {
    std::string message = llvm::toString(bundle.takeError());
    if (!errors.empty())
      message += ": " + errors.substr(0, errors.find('\n'));
    refuse(binding, message, compiled);
    return compiled;
  }
  compiled.isCompiled = true;
  if (!device)
    return compiled;
  llvm::Expected<GpuOperation> operation =
      GpuOperation::create(*device, *bundle, getEntryName(entry));
  if (operation)
    compiled.operation.emplace(std::move(*operation));
  else
    compiled.failure = llvm::toString(operation.takeError());
  return compiled;
}

void TestedGpu::TearDown() {
  int total = 0;
  for (const auto &[reason, count] : rejections)
    total += count;
  std::printf("%s: %d runs, %d rejected\n",
              device ? device->getInfo().toString().c_str() : "compiled only", numRuns, total);
  for (const auto &[reason, count] : rejections)
    std::printf("  rejected %d times: %s\n", count, reason.c_str());
}

void TestedGpu::refuse(const Binding &binding, const std::string &message, Compiled &compiled) {
  (isExpectedRefusal(binding, message) ? compiled.rejection : compiled.failure) = message;
}

TestedGpu *TestedGpu::open() {
  const char *name = std::getenv("TILEWRIGHT_TEST_DEVICE");
  std::string text = name ? name : "cpu";
  if (text == "cpu" || !simulatedTarget().empty())
    return nullptr;
  TestedGpu *gpu = new TestedGpu;
  const char *target = std::getenv("TILEWRIGHT_TEST_TARGET");
  // The defaults of users.
  auto choose = [&](const std::string &byDefault) {
    gpu->targets = {target ? target : byDefault};
    if (gpu->targets.front() == "sm_90a")
      gpu->targets.push_back("sm_80");
  };
  choose("sm_80");
  if (text == "compile")
    return gpu;
  int ordinal = 0;
  bool isKnown = text == "cuda" || (text.rfind("cuda:", 0) == 0 &&
                                    !llvm::StringRef(text).drop_front(5).getAsInteger(10, ordinal));
  if (!isKnown) {
    std::fprintf(stderr,
                 "TILEWRIGHT_TEST_DEVICE must be cpu, %s, compile or cuda[:N] but is '%s'\n",
                 Target::getNames("sim:").c_str(), text.c_str());
    std::exit(2);
  }
  llvm::Expected<std::unique_ptr<GpuDevice>> device = GpuDevice::open(ordinal);
  if (!device) {
    std::fprintf(stderr, "TILEWRIGHT_TEST_DEVICE=%s: %s\n", text.c_str(),
                 llvm::toString(device.takeError()).c_str());
    std::exit(2);
  }
  gpu->device = std::move(*device);
  choose(gpu->device->getTarget());
  return gpu;
}

} // namespace tilewright::acceptance
