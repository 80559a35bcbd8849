// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations: selection of variants, preparation for devices, and runs.

#include "runtime/Operation.h"

#include "runtime/IndexCheck.h"
#include "runtime/Launch.h"
#include "runtime/Module.h"
#include "runtime/SharedHeads.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

constexpr int maxDevices = 64;
constexpr unsigned maxSteps = 32;

/// One launch, and its possible variants. A kernel is a program of one step.
struct Step {
  std::vector<const KernelSpec *> variants;
  const LaunchSpec *launch = nullptr; // null: the arguments of the operation itself
  std::optional<ExprCode> condition;  // condition of the launch
};

/// The variant that a run launches for a step: null if the step's condition does not hold.
struct Choice {
  const PreparedKernel *kernel;
  const Argument **arguments;
};

struct PreparedStep {
  std::vector<PreparedKernel> kernels;
};

/// The prepared state on one device.
struct PreparedDevice {
  DeviceInfo info;
  PrimaryContext primary;
  cuda::Context onlyContext = nullptr;            // context of modules, which are used in no other
  std::vector<std::pair<size_t, Module>> modules; // indexed by blob
  std::vector<PreparedStep> steps;
  std::vector<Arch> targets; // of all kernels, in the order of the bundle
};

bool haveParams(const Params &have, const Params &wanted) {
  for (const auto &param : wanted) {
    bool same = false;
    for (const auto &candidate : have)
      same |= candidate.first == param.first && candidate.second == param.second;
    if (!same)
      return false;
  }
  return true;
}

} // namespace

struct Operation::Impl {
  explicit Impl(const DriverTable &driver) : driver(driver) {
    for (auto &device : devices)
      device.store(nullptr, std::memory_order_relaxed);
  }

  const DriverTable &driver;
  std::shared_ptr<const Bundle> bundle;
  std::string name;
  Params params;
  const ProgramSpec *program = nullptr; // null: a kernel
  const std::vector<ArgumentSpec> *contract = nullptr;
  std::vector<Step> steps;
  // As flat code, compiled by finish.
  std::optional<ContractCheck> contractCheck;
  ExprCode conditions;
  std::vector<std::vector<ExprCode>> workspaceExtents;
  std::optional<SharedHeads> sharedHeads;

  std::atomic<bool> checksIndices{checksIndicesByDefault()};

  std::mutex mutex; // held by prepare
  std::vector<std::unique_ptr<PreparedDevice>> owned;
  std::atomic<const PreparedDevice *> devices[maxDevices]; // indexed by the handle of the driver
  std::atomic<const PreparedDevice *> first{nullptr};

  const char *kind() const { return program ? "program" : "kernel"; }

  void finish();
  bool haveSharedHeads(const Argument *const *arguments, size_t numArguments) const {
    return sharedHeads && numArguments == contract->size() && sharedHeads->areIn(arguments);
  }
  Status check(const Argument *const *arguments, size_t numArguments) const;
  Status checkConditions(const ExprInputs &inputs) const;
  Status launch(const PreparedKernel &kernel, const ExprInputs &inputs, cuda::Stream stream,
                bool checksIndices) const;
  Status missing(const std::string &reason, const std::string &arch) const {
    return Status::failure(Code::MissingVariant, reason + "; compile it with: " +
                                                     bundle->compileCommand(name, params, arch));
  }
  Status notPrepared(cuda::Stream stream) const;
  Status prepareStep(PreparedDevice &device, const Step &step, const CubinCache &cache);
  Result<const Module *> loadModule(PreparedDevice &device, const KernelSpec &kernel,
                                    const CodeSpec &code, const CubinCache &cache);
  Status layOutWorkspaces(const ExprInputs &inputs, ArgumentArray &array, uint64_t &bytes) const;
  Status chooseKernel(const PreparedStep &step, const ExprInputs &inputs,
                      const PreparedKernel *&chosen) const;
  Status chooseKernels(const PreparedDevice &device, const ExprInputs &inputs,
                       const Argument *views, Choice *choices, const Argument **passed) const;
  bool chooseOfTarget(const PreparedDevice &device, const Arch &target, int smCount,
                      Choice *choices) const;
};

Operation::Operation(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Operation::Operation(Operation &&) noexcept = default;
Operation &Operation::operator=(Operation &&) noexcept = default;
Operation::~Operation() = default;

const std::vector<ArgumentSpec> &Operation::arguments() const { return *impl->contract; }

Result<Operation> Operation::create(const DriverTable &driver, std::shared_ptr<const Bundle> bundle,
                                    const std::string &name, const Params &params) {
  auto impl = std::make_unique<Impl>(driver);
  impl->bundle = bundle;
  impl->name = name;
  impl->params = params;
  bool isKnown = false;
  for (const ProgramSpec &program : bundle->manifest().programs) {
    isKnown |= program.name == name;
    if (program.name != name || !haveParams(program.params, params))
      continue;
    if (program.launches.size() > maxSteps)
      return Status::failure(Code::Unsupported, "program '" + name + "' has " +
                                                    std::to_string(program.launches.size()) +
                                                    " launches; the limit is " +
                                                    std::to_string(maxSteps));
    impl->program = &program;
    impl->contract = &program.arguments;
    for (const LaunchSpec &launch : program.launches) {
      Step step;
      step.launch = &launch;
      for (size_t index : launch.kernels)
        step.variants.push_back(&bundle->manifest().kernels[index]);
      impl->steps.push_back(std::move(step));
    }
    impl->finish();
    return Operation(std::move(impl));
  }
  Step step;
  for (const KernelSpec &kernel : bundle->manifest().kernels) {
    isKnown |= kernel.name == name;
    if (kernel.name != name || !haveParams(kernel.params, params))
      continue;
    if (!impl->contract)
      impl->contract = &kernel.arguments;
    if (!haveOneContract(*impl->contract, kernel.arguments))
      return Status::failure(Code::InvalidArgument, "kernel '" + name + "' of '" + bundle->name() +
                                                        "' has variants of different arguments (" +
                                                        toString(kernel.params) +
                                                        "); give more parameters");
    step.variants.push_back(&kernel);
  }
  if (!isKnown)
    return Status::failure(Code::MissingVariant,
                           "'" + bundle->name() + "' has no kernel or program '" + name + "'");
  if (step.variants.empty())
    return impl->missing("'" + bundle->name() + "' has no variant of '" + name + "' for " +
                             toString(params),
                         "sm_80");
  impl->steps.push_back(std::move(step));
  impl->finish();
  return Operation(std::move(impl));
}

void Operation::Impl::finish() {
  contractCheck.emplace(*contract);
  sharedHeads = SharedHeads::find(*contract);
  if (!program)
    return;
  conditions = ExprCode(program->conditions, *contract);
  for (const WorkspaceSpec &workspace : program->workspaces) {
    workspaceExtents.emplace_back();
    for (const Expr &extent : workspace.extents)
      workspaceExtents.back().emplace_back(extent, *contract);
  }
  for (Step &step : steps)
    if (step.launch->condition)
      step.condition.emplace(*step.launch->condition, *contract);
}

Status Operation::Impl::check(const Argument *const *arguments, size_t numArguments) const {
  return contractCheck->check(arguments, numArguments, kind(), name);
}

Status Operation::checkSupport(const Target &target) const {
  DeviceInfo device;
  device.major = target.major;
  device.minor = target.minor;
  std::string capability = std::to_string(target.major) + "." + std::to_string(target.minor);
  if (target.major < 8) // no bundle supports it
    return Status::failure(Code::Unsupported, std::string(impl->kind()) + " '" + impl->name +
                                                  "' needs compute capability 8.0 or newer, but "
                                                  "this is " +
                                                  capability);
  for (const Step &step : impl->steps) {
    std::string reason;
    bool isServed = false;
    for (const KernelSpec *kernel : step.variants) {
      if (!chooseCode(*kernel, device)) {
        reason += (reason.empty() ? "" : ", ") + std::string("that of entry '") + kernel->entry +
                  "' is for " + kernel->codes[0].arch.toString();
      } else if (target.sharedLimit && kernel->allSharedBytes() > target.sharedLimit) {
        reason += (reason.empty() ? "" : ", ") + std::string("that of entry '") + kernel->entry +
                  "' needs " + std::to_string(kernel->allSharedBytes()) +
                  " bytes of shared memory, limit " + std::to_string(target.sharedLimit);
      } else {
        isServed = true;
      }
    }
    if (!isServed)
      return impl->missing("no variant of kernel '" + step.variants[0]->name +
                               "' runs on compute capability " + capability + ": " + reason,
                           target.major == 9 && target.minor == 0 ? "sm_90a" : "sm_80");
  }
  return Status::success();
}

Result<const Module *> Operation::Impl::loadModule(PreparedDevice &device, const KernelSpec &kernel,
                                                   const CodeSpec &code, const CubinCache &cache) {
  for (const auto &entry : device.modules)
    if (entry.first == code.blob)
      return &entry.second;
  Result<Module> module =
      Module::load(driver, device.info, code, bundle->blob(code.blob), cache,
                   "the " + code.arch.toString() + " code of kernel '" + kernel.name + "' from '" +
                       bundle->name() + "' on " + device.info.toString());
  if (!module)
    return module.status();
  device.modules.emplace_back(code.blob, std::move(*module));
  return &device.modules.back().second;
}

Status Operation::Impl::prepareStep(PreparedDevice &device, const Step &step,
                                    const CubinCache &cache) {
  PreparedStep prepared;
  Status tooLarge;
  // An earlier kernel accepts everything that this one accepts: then this one is for devices with
  // less shared memory, without rings or with smaller blocks.
  auto isServed = [&](const KernelSpec &kernel, const Arch &target) {
    std::set<std::string> required;
    for (const Expr &condition : kernel.conditions)
      required.insert(condition.toString());
    return std::any_of(prepared.kernels.begin(), prepared.kernels.end(), [&](const auto &other) {
      const std::vector<Expr> &conditions = other.spec->conditions;
      return (!program || other.target == target) && other.spec->tensorMaps.empty() &&
             other.spec->requirements.empty() &&
             std::all_of(conditions.begin(), conditions.end(), [&](const Expr &condition) {
               return required.count(condition.toString()) != 0;
             });
    });
  };
  for (const KernelSpec *kernel : step.variants) {
    const CodeSpec *code = chooseCode(*kernel, device.info);
    if (!code || isServed(*kernel, code->arch))
      continue;
    Result<const Module *> module = loadModule(device, *kernel, *code, cache);
    if (!module)
      return module.status();
    Result<cuda::Function> function = (*module)->prepare(*kernel, device.info);
    if (!function && function.status().code() == Code::Unsupported) {
      tooLarge = function.status(); // another variant may fit
      continue;
    }
    if (!function)
      return function.status();
    prepared.kernels.emplace_back(*kernel, *function);
    prepared.kernels.back().target = code->arch;
    if (std::find(device.targets.begin(), device.targets.end(), code->arch) == device.targets.end())
      device.targets.push_back(code->arch);
  }
  if (prepared.kernels.empty() && !tooLarge.ok())
    return tooLarge;
  device.steps.push_back(std::move(prepared));
  return Status::success();
}

Status Operation::prepare(int ordinal) {
  std::lock_guard<std::mutex> lock(impl->mutex);
  const DriverTable &driver = impl->driver;
  for (const auto &device : impl->owned)
    if (device->info.ordinal == ordinal)
      return Status::success();
  auto device = std::make_unique<PreparedDevice>();
  Result<DeviceInfo> info = queryDevice(driver, ordinal);
  if (!info)
    return info.status();
  device->info = *info;
  if (info->handle < 0 || info->handle >= maxDevices)
    return Status::failure(Code::Unsupported, "device " + std::to_string(ordinal) +
                                                  " exceeds the limit of 64 devices");
  if (Status status = checkSupport({info->major, info->minor, 0}); !status)
    return status;
  ContextScope scope(driver);
  if (Status status = scope.enterDevice(*info, device->primary); !status)
    return status;
  CubinCache cache = CubinCache::fromEnvironment();
  for (const Step &step : impl->steps)
    if (Status status = impl->prepareStep(*device, step, cache); !status)
      return status;
  for (const auto &module : device->modules)
    if (module.second.isOfOneContext())
      device->onlyContext = scope.get();
  impl->devices[info->handle].store(device.get(), std::memory_order_release);
  if (!impl->first.load())
    impl->first.store(device.get(), std::memory_order_release);
  impl->owned.push_back(std::move(device));
  return Status::success();
}

Status Operation::Impl::checkConditions(const ExprInputs &inputs) const {
  ExprCode::End end = conditions.findBroken(inputs);
  if (!end.expr)
    return Status::success();
  if (end.fault != expr::Fault::None)
    return ExprCode::failure(end);
  return Status::failure(Code::InvalidArgument,
                         "program '" + name +
                             "' cannot take these arguments: " + ExprCode::describe(end, inputs));
}

Status Operation::Impl::layOutWorkspaces(const ExprInputs &inputs, ArgumentArray &array,
                                         uint64_t &bytes) const {
  bytes = 0;
  if (!program)
    return Status::success();
  Argument *views = array.reset(program->workspaces.size());
  for (size_t i = 0; i < program->workspaces.size(); ++i) {
    const WorkspaceSpec &spec = program->workspaces[i];
    auto fail = [&](const std::string &what) {
      return Status::failure(Code::InvalidArgument,
                             "workspace '" + spec.name + "' of program '" + name + "' " + what);
    };
    Argument &view = views[i];
    view.kind = Argument::Kind::View;
    view.type = spec.type;
    view.rank = uint8_t(spec.extents.size());
    for (unsigned dim = 0; dim < view.rank; ++dim) {
      if (Status status = workspaceExtents[i][dim].evaluate(inputs, view.extents[dim]); !status)
        return status;
      if (view.extents[dim] < 0)
        return fail("has the negative extent " + std::to_string(view.extents[dim]));
    }
    int64_t elements = 1;
    for (unsigned dim = view.rank; dim-- > 0;) {
      view.strides[dim] = elements;
      if (__builtin_mul_overflow(elements, view.extents[dim], &elements) || elements > int64_t(1)
                                                                                           << 50)
        return fail("has more than 2^50 elements");
    }
    uint64_t size = uint64_t(elements) * byteWidth(spec.type);
    view.bits = bytes; // still an offset
    bytes += (size + workspaceAlignment - 1) / workspaceAlignment * workspaceAlignment;
  }
  return Status::success();
}

Status Operation::Impl::launch(const PreparedKernel &kernel, const ExprInputs &inputs,
                               cuda::Stream stream, bool checksIndices) const {
  if (checksIndices)
    if (Status status = checkElementRules(driver, kernel.spec->elements, kernel.spec->arguments,
                                          inputs, "kernel", kernel.spec->name, stream);
        !status)
      return status;
  return launchKernel(driver, kernel, inputs, stream);
}

void Operation::checkIndices(bool isWanted) {
  impl->checksIndices.store(isWanted, std::memory_order_relaxed);
}

Status Operation::workspaceSize(const Argument *const *arguments, size_t numArguments, int device,
                                uint64_t &bytes) const {
  if (impl->haveSharedHeads(arguments, numArguments)) {
    UnitedHeads united(*impl->sharedHeads, arguments, numArguments);
    return workspaceSize(united.pointers, numArguments, device, bytes);
  }
  if (Status status = impl->check(arguments, numArguments); !status)
    return status;
  const PreparedDevice *prepared =
      device >= 0 && device < maxDevices ? impl->devices[device].load() : nullptr;
  ExprInputs inputs{arguments, prepared ? prepared->info.smCount : 0};
  ArgumentArray views;
  return impl->layOutWorkspaces(inputs, views, bytes);
}

Status Operation::Impl::notPrepared(cuda::Stream stream) const {
  int capturing = cuda::CaptureNone;
  if (cuda::Result result = driver.cuStreamIsCapturing(stream, &capturing))
    return driver.check(result, "cuStreamIsCapturing", "ask whether the stream is captured");
  std::string message = std::string(kind()) + " '" + name + "' is not prepared for this device";
  if (capturing != cuda::CaptureNone)
    return Status::failure(Code::NotPrepared,
                           message + ", and the stream is being captured; call prepare before the "
                                     "capture begins");
  return Status::failure(Code::NotPrepared, message + "; call prepare before run");
}

Status Operation::Impl::chooseKernel(const PreparedStep &step, const ExprInputs &inputs,
                                     const PreparedKernel *&chosen) const {
  for (const PreparedKernel &kernel : step.kernels) {
    Rejection rejection;
    if (isUsable(kernel, inputs, rejection)) {
      chosen = &kernel;
      return Status::success();
    }
    if (rejection.condition.fault != expr::Fault::None)
      return ExprCode::failure(rejection.condition);
  }
  const KernelSpec &kernel = *step.kernels.front().spec;
  std::string reasons;
  for (const PreparedKernel &variant : step.kernels) {
    Rejection rejection;
    isUsable(variant, inputs, rejection);
    reasons += (reasons.empty() ? "" : "; ") + rejection.toString(*variant.spec, inputs);
  }
  return Status::failure(Code::Unsupported, "no variant of kernel '" + kernel.name +
                                                "' takes these arguments: " + reasons);
}

Status Operation::Impl::chooseKernels(const PreparedDevice &device, const ExprInputs &inputs,
                                      const Argument *views, Choice *choices,
                                      const Argument **passed) const {
  for (size_t i = 0; i < steps.size(); ++i) {
    const LaunchSpec &launch = *steps[i].launch;
    choices[i] = {nullptr, passed};
    int64_t isWanted = 1;
    if (steps[i].condition)
      if (Status status = steps[i].condition->evaluate(inputs, isWanted); !status)
        return status;
    if (!isWanted)
      continue;
    for (uint32_t source : launch.sources)
      *passed++ =
          source < contract->size() ? inputs.arguments[source] : &views[source - contract->size()];
    const PreparedStep &step = device.steps[i];
    const PreparedKernel &first = step.kernels.front(); // all variants have the same contract
    if (Status status = first.contract.check(choices[i].arguments, launch.sources.size(), "kernel",
                                             first.spec->name);
        !status)
      return status;
    // Also reports a launch for which no target has a variant.
    if (Status status =
            chooseKernel(step, {choices[i].arguments, inputs.smCount}, choices[i].kernel);
        !status)
      return status;
  }
  // What one launch leaves for another may depend on the target of both: a kernel that takes over
  // the work of the next one, or that needs no zeros. So all have one target, the first for which
  // each launch has a variant: usually that of the best variants.
  const Choice *last = nullptr;
  bool isMixed = false;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!choices[i].kernel)
      continue;
    isMixed |= last && !(last->kernel->target == choices[i].kernel->target);
    last = &choices[i];
  }
  if (!isMixed)
    return Status::success();
  for (const Arch &target : device.targets)
    if (chooseOfTarget(device, target, inputs.smCount, choices))
      return Status::success();
  return Status::failure(Code::Unsupported,
                         "program '" + name +
                             "' has no target for which every kernel has a variant that accepts "
                             "these arguments");
}

/// Replaces the choices by variants of the target; the choices are unchanged if one has none.
bool Operation::Impl::chooseOfTarget(const PreparedDevice &device, const Arch &target, int smCount,
                                     Choice *choices) const {
  const PreparedKernel *found[maxSteps];
  for (size_t i = 0; i < steps.size(); ++i) {
    found[i] = nullptr;
    if (!choices[i].kernel)
      continue;
    for (const PreparedKernel &kernel : device.steps[i].kernels) {
      Rejection rejection;
      if (!found[i] && kernel.target == target &&
          isUsable(kernel, {choices[i].arguments, smCount}, rejection))
        found[i] = &kernel;
    }
    if (!found[i])
      return false;
  }
  for (size_t i = 0; i < steps.size(); ++i)
    choices[i].kernel = found[i];
  return true;
}

Status Operation::run(const Argument *const *arguments, size_t numArguments, uint64_t workspace,
                      uint64_t workspaceBytes, cuda::Stream stream) const {
  if (impl->haveSharedHeads(arguments, numArguments)) {
    UnitedHeads united(*impl->sharedHeads, arguments, numArguments);
    return run(united.pointers, numArguments, workspace, workspaceBytes, stream);
  }
  const DriverTable &driver = impl->driver;
  const PreparedDevice *first = impl->first.load(std::memory_order_acquire);
  if (!first) // prepared operations have a driver
    if (Status status = driver.expectFunctions(); !status)
      return status;
  ContextScope scope(driver);
  cuda::Device handle = first ? first->info.handle : 0;
  if (Status status = scope.enterStream(stream, first ? first->primary.get() : nullptr, handle);
      !status)
    return status;
  const PreparedDevice *device = handle >= 0 && handle < maxDevices
                                     ? impl->devices[handle].load(std::memory_order_acquire)
                                     : nullptr;
  if (!device)
    return impl->notPrepared(stream);
  if (device->onlyContext && device->onlyContext != scope.get())
    return Status::failure(Code::NotPrepared,
                           std::string(impl->kind()) + " '" + impl->name +
                               "' was prepared in another context; drivers before CUDA 12.0 load "
                               "code for a single context");
  if (Status status = impl->check(arguments, numArguments); !status)
    return status;
  ExprInputs inputs{arguments, device->info.smCount};
  const bool checksIndices = impl->checksIndices.load(std::memory_order_relaxed);
  if (!impl->program) {
    const PreparedKernel *kernel = nullptr;
    if (Status status = impl->chooseKernel(device->steps[0], inputs, kernel); !status)
      return status;
    return impl->launch(*kernel, inputs, stream, checksIndices);
  }

  if (Status status = impl->checkConditions(inputs); !status)
    return status;

  ArgumentArray viewArray;
  uint64_t needed = 0;
  if (Status status = impl->layOutWorkspaces(inputs, viewArray, needed); !status)
    return status;
  Argument *views = viewArray.get();
  if (needed > workspaceBytes || (needed && !workspace))
    return Status::failure(Code::InvalidArgument,
                           "program '" + impl->name + "' needs a workspace of " +
                               std::to_string(needed) + " bytes, but got " +
                               std::to_string(workspace ? workspaceBytes : 0));
  if (needed && workspace % workspaceAlignment != 0)
    return Status::failure(Code::InvalidArgument, "the workspace of program '" + impl->name +
                                                      "' must be aligned to 256 bytes");
  const std::vector<WorkspaceSpec> &workspaces = impl->program->workspaces;
  for (size_t i = 0; i < workspaces.size(); ++i)
    views[i].bits += workspace;

  Choice choices[maxSteps];
  const Argument *passed[maxSteps * maxArguments];
  if (Status status = impl->chooseKernels(*device, inputs, views, choices, passed); !status)
    return status;
  if (checksIndices)
    if (Status status = checkElementRules(driver, impl->program->elements, *impl->contract, inputs,
                                          "program", impl->name, stream);
        !status)
      return status;
  for (size_t i = 0; i < workspaces.size(); ++i) {
    uint64_t end = i + 1 < workspaces.size() ? views[i + 1].bits : workspace + needed;
    if (!workspaces[i].fill || end == views[i].bits)
      continue;
    if (cuda::Result result = driver.cuMemsetD32Async(views[i].bits, *workspaces[i].fill,
                                                      (end - views[i].bits) / 4, stream))
      return driver.check(result, "cuMemsetD32Async",
                          "fill workspace '" + workspaces[i].name + "' of program '" + impl->name +
                              "'");
  }
  for (size_t i = 0; i < impl->steps.size(); ++i) {
    if (!choices[i].kernel)
      continue;
    if (Status status =
            impl->launch(*choices[i].kernel, {choices[i].arguments, device->info.smCount}, stream,
                         checksIndices);
        !status)
      return status;
  }
  return Status::success();
}
