// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles and runs kernels. The only file of these tests that uses MLIR.

#include "test/Acceptance/KernelCall.h"

#include "base/Target/Target.h"
#include "lib/Codegen/GpuCompiler.h"
#include "lib/Driver/Compiler.h"
#include "lib/Driver/GpuDevice.h"
#include "lib/Driver/UnmappedViews.h"
#include "lib/Interpreter/CpuDevice.h"
#include "lib/Interpreter/Simulator/Simulate.h"
#include "passes/Passes.h"
#include "passes/Tile/ProgramOfKernel.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tilewright::acceptance {

namespace {

/// The target of the goldens.
constexpr const char *goldenTarget = "sm_90a";

/// Whether goldens replace compiled kernels, where they exist.
bool prefersGoldens() {
  static const bool prefers = std::getenv("TILEWRIGHT_TEST_GOLDENS") != nullptr;
  return prefers;
}

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

/// A binding that a target refuses: the test is skipped, and continues on the CPU. Whatever else
/// does not compile fails its test.
struct Refusal {
  const char *file;
  Params params;       ///< among those of the binding
  const char *target;  ///< or "" for all
  const char *message; ///< a part of the error
};
const std::vector<Refusal> &getRefusals() {
  static const std::vector<Refusal> refusals = {
      // The smallest blocks are 16 x 16; bundles also have code for sm_80.
      {"attention_backward",
       {{"T", "f64"}, {"D", "320"}},
       "",
       "bytes of shared memory, but the limit"},
      {"attention_backward",
       {{"T", "f64"}, {"D", "392"}},
       "",
       "bytes of shared memory, but the limit"},
      {"attention_backward",
       {{"T", "f64"}, {"D", "512"}},
       "",
       "bytes of shared memory, but the limit"},
      {"attention_forward",
       {{"T", "f64"}, {"D", "512"}},
       "",
       "bytes of shared memory, but the limit"},
  };
  return refusals;
}

bool isExpected(const Binding &binding, const std::string &target, llvm::StringRef errors) {
  return llvm::any_of(getRefusals(), [&](const Refusal &refusal) {
    bool hasParams = llvm::all_of(refusal.params, [&](const auto &param) {
      return llvm::is_contained(binding.params, param);
    });
    return binding.file == refusal.file && hasParams &&
           (!*refusal.target || target == refusal.target) && errors.contains(refusal.message);
  });
}

/// All kernels compiled so far.
class Compiler {
public:
  static Compiler &get() {
    static Compiler compiler;
    return compiler;
  }

  /// Null after an error.
  mlir::Operation *compile(const Binding &binding, const std::string &target = "cpu") {
    std::string key = binding.text() + " for " + target;
    auto found = modules.find(key);
    if (found == modules.end()) {
      TilePipelineOptions options;
      options.params = binding.params;
      options.target = target;
      options.sums = binding.sums;
      for (const std::string &mod : binding.with)
        options.with.push_back("kernels/" + mod + ".mlir");
      // Tests run in the root of the source tree, or of the unpacked package.
      found =
          modules.emplace(key, compileFile(context, "kernels/" + binding.file + ".mlir", options))
              .first;
      errorsOf[key] = errors;
    }
    errors = errorsOf[key];
    return found->second ? findEntry(*found->second) : nullptr;
  }

  /// A golden with assigned buffer offsets. Null after an error.
  mlir::Operation *load(const std::string &file) {
    auto found = modules.find(file);
    if (found == modules.end()) {
      auto buffer = llvm::MemoryBuffer::getFile(file);
      mlir::OwningOpRef<mlir::ModuleOp> module;
      if (buffer)
        module = parseBuffer(context, (*buffer)->getMemBufferRef());
      else
        errors += file + ": " + buffer.getError().message();
      mlir::PassManager manager(&context);
      manager.addPass(createTgpuPlanSharedMemory());
      if (module && mlir::failed(manager.run(*module)))
        module = nullptr;
      found = modules.emplace(file, std::move(module)).first;
    }
    return found->second ? findEntry(*found->second) : nullptr;
  }

  /// Mapped onto a GPU, for the simulator. Null after an error.
  mlir::Operation *map(const Binding &binding, const std::string &target) {
    std::string key = binding.text() + " mapped onto " + target;
    auto found = modules.find(key);
    if (found == modules.end()) {
      mlir::OwningOpRef<mlir::ModuleOp> mapped;
      if (mlir::Operation *entry = compile(binding, target)) {
        mapped = mlir::cast<mlir::ModuleOp>(entry->getParentOfType<mlir::ModuleOp>()->clone());
        GpuOptions options;
        options.target = target;
        if (mlir::failed(mapToGpu(*mapped, options)))
          mapped = nullptr;
      }
      found = modules.emplace(key, std::move(mapped)).first;
      errorsOf[key] = errors;
    }
    errors = errorsOf[key];
    return found->second ? findEntry(*found->second) : nullptr;
  }

  std::string takeErrors() { return std::exchange(errors, ""); }

private:
  Compiler()
      : context(makeRegistry(), mlir::MLIRContext::Threading::DISABLED),
        handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
            llvm::raw_string_ostream os(errors);
            os << diagnostic.getLocation() << ": " << diagnostic << '\n';
          }
          return mlir::success();
        }) {}

  static mlir::DialectRegistry makeRegistry() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }

  mlir::MLIRContext context;
  std::string errors;                          ///< since they were last taken
  std::map<std::string, std::string> errorsOf; ///< of each key of `modules`
  mlir::ScopedDiagnosticHandler handler;
  std::map<std::string, mlir::OwningOpRef<mlir::ModuleOp>> modules;
};

ArrayArgument argumentOf(const StridedArray &array) {
  ArrayArgument argument;
  argument.type = array.type();
  argument.shape.assign(array.shape().begin(), array.shape().end());
  argument.strides.assign(array.strides().begin(), array.strides().end());
  argument.data = array.data();
  return argument;
}

/// The target if TILEWRIGHT_TEST_DEVICE is sim: and a target, else none.
const std::string &simulatedTarget() {
  static const std::string target = [] {
    const char *name = std::getenv("TILEWRIGHT_TEST_DEVICE");
    llvm::StringRef text = name ? name : "";
    return text.consume_front("sim:") && Target::find(text) ? text.str() : std::string();
  }();
  return target;
}

/// The GPU that the tests run on, and the code compiled for it.
class Gpu : public ::testing::Environment {
public:
  struct Compiled {
    bool isCompiled = false;
    std::optional<GpuOperation> operation;
    std::string rejection; ///< why the target refuses the kernel
    std::string failure;   ///< error of the compiler or the driver
  };

  /// Null if no code is compiled for a GPU. Exits if the requested device is missing, so that no
  /// test passes without it.
  static Gpu *get() {
    static Gpu *gpu = open();
    return gpu;
  }

  const Compiled &compile(const Binding &binding) {
    Compiled &compiled = operations[binding.text()];
    if (compiled.isCompiled || !compiled.rejection.empty() || !compiled.failure.empty())
      return compiled;
    Compiler &compiler = Compiler::get();
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
      entry = isGolden ? compiler.load(binding.golden) : compiler.compile(binding, each);
      if (!entry) {
        refuse(binding, each, "its tile IR does not compile: " + compiler.takeErrors(), compiled);
        return compiled;
      }
      GpuOptions gpu;
      gpu.target = each;
      BundlePart part{entry->getParentOfType<mlir::ModuleOp>(), gpu};
      // As compileBundle does: blocks of tests need not have roles, which additions in order need.
      if (binding.sums == "auto" && !isGolden)
        part.bindUnordered = [binding, each, &compiler]() {
          Binding unordered = binding;
          unordered.sums = "unordered";
          mlir::Operation *other = compiler.compile(unordered, each);
          return other ? other->getParentOfType<mlir::ModuleOp>() : mlir::ModuleOp();
        };
      parts.push_back(std::move(part));
    }
    if (parts.empty()) {
      compiled.rejection = "additions in order are for sm_90a";
      return compiled;
    }
    auto bundle = GpuOperation::compile(parts, /*assemble=*/false);
    std::string errors = compiler.takeErrors();
    if (!bundle) {
      std::string message = llvm::toString(bundle.takeError());
      if (!errors.empty())
        message += ": " + errors.substr(0, errors.find('\n'));
      refuse(binding, targets.front(), message, compiled);
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

  void countRun() { ++numRuns; }
  void countRejection(const std::string &file, const std::string &reason) {
    ++rejections[file + ": " + reason];
  }

  void TearDown() override {
    int total = 0;
    for (const auto &[reason, count] : rejections)
      total += count;
    std::printf("%s: %d runs, %d rejected\n",
                device ? device->getInfo().toString().c_str() : "compiled only", numRuns, total);
    for (const auto &[reason, count] : rejections)
      std::printf("  rejected %d times: %s\n", count, reason.c_str());
  }

private:
  static void refuse(const Binding &binding, const std::string &target, const std::string &message,
                     Compiled &compiled) {
    (isExpected(binding, target, message) ? compiled.rejection : compiled.failure) = message;
  }

  static Gpu *open() {
    const char *name = std::getenv("TILEWRIGHT_TEST_DEVICE");
    std::string text = name ? name : "cpu";
    if (text == "cpu" || !simulatedTarget().empty())
      return nullptr;
    Gpu *gpu = new Gpu;
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
    bool isKnown =
        text == "cuda" || (text.rfind("cuda:", 0) == 0 &&
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

  std::unique_ptr<GpuDevice> device;
  std::vector<std::string> targets; // in order of preference
  std::map<std::string, Compiled> operations;
  std::map<std::string, int> rejections;
  int numRuns = 0;
};

/// Opened before the first test; GoogleTest owns it.
const bool hasGpu = [] {
  Gpu *gpu = Gpu::get();
  if (gpu)
    ::testing::AddGlobalTestEnvironment(gpu);
  return gpu != nullptr;
}();

/// GTEST_SKIP returns from a function without a value.
void markSkipped(const std::string &reason) { GTEST_SKIP() << reason; }

bool runOnCpu(const Binding &binding, const llvm::StringMap<Argument> &arguments,
              const RunSettings &settings) {
  Compiler &compiler = Compiler::get();
  mlir::Operation *entry = compiler.compile(binding);
  if (!entry) {
    ADD_FAILURE() << binding.file << " does not compile: " << compiler.takeErrors();
    return false;
  }
  RunOptions options;
  options.threads = settings.threads;
  options.f64 = settings.f64;
  if (mlir::succeeded(tilewright::runOnCpu(entry, arguments, options)))
    return true;
  ADD_FAILURE() << binding.file << " does not run: " << compiler.takeErrors();
  return false;
}

bool runOnSimulator(const Binding &binding, const llvm::StringMap<Argument> &arguments) {
  Compiler &compiler = Compiler::get();
  mlir::Operation *entry = compiler.load(binding.golden);
  if (entry && mlir::succeeded(simulate(entry->getParentOfType<mlir::ModuleOp>(),
                                        mlir::SymbolTable::getSymbolName(entry), arguments)))
    return true;
  ADD_FAILURE() << binding.golden << " does not run: " << compiler.takeErrors();
  return false;
}

/// As a GPU would run it; null if the target refuses the kernel.
std::optional<bool> runSimulated(const Binding &binding,
                                 const llvm::StringMap<Argument> &arguments) {
  Compiler &compiler = Compiler::get();
  // If tensor maps do not support a view, a bundle uses its code for sm_80.
  for (const std::string &target : {simulatedTarget(), std::string("sm_80")}) {
    mlir::Operation *entry = compiler.map(binding, target);
    if (!entry) {
      std::string message = compiler.takeErrors();
      if (!isExpected(binding, target, message)) {
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
  ADD_FAILURE() << binding.text() << " does not run: " << compiler.takeErrors();
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

bool runsOnGpu() { return Gpu::get() != nullptr; }

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

  Gpu *gpu = Gpu::get();
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
    const Gpu::Compiled &compiled = gpu->compile(binding);
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
