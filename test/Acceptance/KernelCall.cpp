// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds arrays and scalars, and runs kernels on the device.

#include "test/Acceptance/KernelCall.h"

#include "lib/Driver/GpuDevice.h"
#include "lib/Driver/UnmappedViews.h"
#include "lib/Interpreter/CpuDevice.h"
#include "lib/Interpreter/Simulator/Simulate.h"
#include "test/Acceptance/TestedGpu.h"

#include "mlir/IR/SymbolTable.h"
#include "gtest/gtest.h"

#include <cstdio>
#include <cstdlib>

namespace tilewright::acceptance {

namespace {

ArrayArgument argumentOf(const StridedArray &array) {
  ArrayArgument argument;
  argument.type = array.type();
  argument.shape.assign(array.shape().begin(), array.shape().end());
  argument.strides.assign(array.strides().begin(), array.strides().end());
  argument.data = array.data();
  return argument;
}

/// GTEST_SKIP returns from a function without a value.
void markSkipped(const std::string &reason) { GTEST_SKIP() << reason; }

bool runOnCpu(const Binding &binding, const llvm::StringMap<Argument> &arguments,
              const RunSettings &settings) {
  CompiledKernels &kernels = CompiledKernels::get();
  mlir::Operation *entry = kernels.compile(binding);
  if (!entry) {
    ADD_FAILURE() << binding.file << " does not compile: " << kernels.takeErrors();
    return false;
  }
  RunOptions options;
  options.threads = settings.threads;
  options.f64 = settings.f64;
  if (mlir::succeeded(tilewright::runOnCpu(entry, arguments, options)))
    return true;
  ADD_FAILURE() << binding.file << " does not run: " << kernels.takeErrors();
  return false;
}

bool runOnSimulator(const Binding &binding, const llvm::StringMap<Argument> &arguments) {
  CompiledKernels &kernels = CompiledKernels::get();
  mlir::Operation *entry = kernels.load(binding.golden);
  if (entry && mlir::succeeded(simulate(entry->getParentOfType<mlir::ModuleOp>(),
                                        mlir::SymbolTable::getSymbolName(entry), arguments)))
    return true;
  ADD_FAILURE() << binding.golden << " does not run: " << kernels.takeErrors();
  return false;
}

/// As a GPU would run it; null if the target refuses the kernel.
std::optional<bool> runSimulated(const Binding &binding,
                                 const llvm::StringMap<Argument> &arguments) {
  CompiledKernels &kernels = CompiledKernels::get();
  // If tensor maps do not support a view, a bundle uses its code for sm_80.
  for (const std::string &target : {simulatedTarget(), std::string("sm_80")}) {
    mlir::Operation *entry = kernels.map(binding, target);
    if (!entry) {
      std::string message = kernels.takeErrors();
      if (!isExpectedRefusal(binding, message)) {
        ADD_FAILURE() << binding.text() << " does not compile for " << target << ": " << message;
        return false;
      }
      markSkipped(binding.text() + " is not for " + target + ": " + message);
      return std::nullopt;
    }
    auto module = entry->getParentOfType<mlir::ModuleOp>();
    llvm::StringRef name = mlir::SymbolTable::getSymbolName(entry);
    if (!areAligned(arguments) && !explainUnmappedView(module, name, arguments).empty())
      continue;
    if (mlir::succeeded(simulate(module, name, arguments)))
      return true;
    break;
  }
  ADD_FAILURE() << binding.text() << " does not run: " << kernels.takeErrors();
  return false;
}

enum class GpuRun { Done, Failed, TooLarge };

GpuRun runOnGpu(const Binding &binding, const GpuOperation &operation,
                const llvm::StringMap<Argument> &arguments, const std::vector<HostRange> &ranges,
                std::string &message) {
  llvm::Expected<std::unique_ptr<GpuCall>> call = GpuCall::create(operation, arguments, ranges);
  llvm::Error error = call ? (*call)->run() : call.takeError();
  if (!error)
    return GpuRun::Done;
  message = llvm::toString(std::move(error));
  if (llvm::StringRef(message).contains("CUDA_ERROR_OUT_OF_MEMORY"))
    return GpuRun::TooLarge;
  ADD_FAILURE() << binding.text() << " does not run: " << message;
  return GpuRun::Failed;
}

} // namespace

bool runsOnGpu() { return TestedGpu::get() != nullptr; }

bool runsMapped() { return runsOnGpu() || !simulatedTarget().empty(); }

ElementType elementType(reference::Type type) {
  return *parseElementType(reference::typeName(type));
}

ElementType accumulatorType(reference::Type type) {
  return type == reference::Type::F64 ? ElementType::F64 : ElementType::F32;
}

KernelCall::KernelCall(std::string file, Params params, std::vector<std::string> with)
    : file(std::move(file)), params(std::move(params)), with(std::move(with)) {}

bool KernelCall::useGolden() {
  std::map<std::string, std::string> given(params.begin(), params.end());
  auto take = [&](const char *name) {
    auto found = given.find(name);
    std::string value = found == given.end() ? "" : found->second;
    if (found != given.end())
      given.erase(found);
    return value;
  };
  std::string D = take("D"), DV = take("DV"), T = take("T"), causal = take("CAUSAL");
  std::string window = take("WINDOW");
  bool isKnown = (D == "64" || D == "128" || D == "256") && (DV.empty() || DV == D) &&
                 T == "bf16" && (causal.empty() || causal == "none" || causal == "top_left") &&
                 (window.empty() || window == "false");
  std::string name = "d" + D + (causal == "top_left" ? "_causal" : "");
  if (std::string rows = take("BLOCK_M"), keys = take("BLOCK_N"); !rows.empty() || !keys.empty()) {
    isKnown &= name == "d128" && rows == "128" && keys == "128";
    name = "d128_n128";
  }
  // Any other argument gives another kernel.
  if (file != "attention_forward" || !with.empty() || !isKnown || !given.empty())
    return false;
  golden = "test/Tgpu/attention_forward_sm90_" + name + ".mlir";
  return true;
}

void KernelCall::input(const std::string &name, ElementType type, std::vector<int64_t> shape,
                       const std::vector<double> &values, Layout layout) {
  StridedArray array(type, std::move(shape), std::move(layout));
  array.write(values);
  std::vector<uint8_t> given = array.readBytes();
  arrays.insert_or_assign(name, Bound{std::move(array), true, std::move(given)});
}

void KernelCall::integers(const std::string &name, std::vector<int64_t> shape,
                          const std::vector<int64_t> &values, ElementType type) {
  StridedArray array(type, std::move(shape));
  array.write(values);
  std::vector<uint8_t> given = array.readBytes();
  arrays.insert_or_assign(name, Bound{std::move(array), true, std::move(given)});
}

void KernelCall::output(const std::string &name, ElementType type, std::vector<int64_t> shape,
                        Layout layout) {
  arrays.insert_or_assign(
      name, Bound{StridedArray(type, std::move(shape), std::move(layout)), false, {}});
}

void KernelCall::scalar(const std::string &name, double value) { scalars[name] = value; }

void KernelCall::integer(const std::string &name, int64_t value) { integerScalars[name] = value; }

const StridedArray &KernelCall::array(const std::string &name) const {
  auto found = arrays.find(name);
  if (found == arrays.end()) {
    std::fprintf(stderr, "the test reads '%s', which it did not bind\n", name.c_str());
    std::abort();
  }
  return found->second.array;
}

bool KernelCall::runTwice(RunSettings settings) {
  if (!run(settings))
    return false;
  std::map<std::string, std::vector<uint8_t>> first;
  for (const auto &[name, bound] : arrays)
    if (!bound.isInput)
      first[name] = bound.array.readBytes();
  settings.threads = 3;
  if (!run(settings))
    return false;
  for (const auto &[name, bytes] : first)
    if (bytes != readBytes(name)) {
      ADD_FAILURE() << file << " gives '" << name << "' other bits in a second run";
      return false;
    }
  return true;
}

bool KernelCall::run(RunSettings settings) {
  llvm::StringMap<Argument> arguments;
  std::vector<HostRange> ranges;
  for (auto &[name, bound] : arrays) {
    if (!bound.isInput)
      bound.array.clear();
    arguments[name] = argumentOf(bound.array);
    Buffer &buffer = bound.array.buffer();
    ranges.push_back({buffer.data(), buffer.size()});
  }
  for (const auto &[name, value] : scalars)
    arguments[name] = value;
  for (const auto &[name, value] : integerScalars)
    arguments[name] = value;

  TestedGpu *gpu = TestedGpu::get();
  if (gpu && prefersGoldens() && !settings.f64)
    useGolden();
  Binding binding{file, params, with, golden, settings.sums};
  auto runHere = [&] {
    return (golden.empty() ? runOnCpu(binding, arguments, settings)
                           : runOnSimulator(binding, arguments)) &&
           checkMemory();
  };
  if (!simulatedTarget().empty() && golden.empty() && !settings.f64)
    if (std::optional<bool> ran = runSimulated(binding, arguments))
      return *ran && checkMemory();
  if (!gpu)
    return runHere();
  std::string rejection = "f64 precision is supported on the CPU only";
  if (!settings.f64) {
    const TestedGpu::Compiled &compiled = gpu->compile(binding);
    if (!compiled.failure.empty()) {
      ADD_FAILURE() << binding.text() << " does not compile or load: " << compiled.failure;
      return false;
    }
    if (compiled.rejection.empty())
      gpu->countRun();
    rejection = compiled.rejection;
    if (compiled.operation) {
      GpuRun result = runOnGpu(binding, *compiled.operation, arguments, ranges, rejection);
      if (result != GpuRun::TooLarge)
        return result == GpuRun::Done && checkMemory();
    } else if (rejection.empty()) {
      return runHere();
    }
  }
  gpu->countRejection(file, rejection);
  markSkipped(binding.text() + " is not for the GPU: " + rejection);
  return runHere();
}

bool KernelCall::checkMemory() const {
  bool ok = true;
  for (const auto &[name, bound] : arrays) {
    if (int64_t gap = bound.array.buffer().findWrittenGap(); gap >= 0) {
      ADD_FAILURE() << file << " wrote between the elements of '" << name << "', at byte " << gap;
      ok = false;
    }
    if (bound.isInput && bound.array.readBytes() != bound.given) {
      ADD_FAILURE() << file << " changed its input '" << name << "'";
      ok = false;
    }
  }
  return ok;
}

} // namespace tilewright::acceptance
