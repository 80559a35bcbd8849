// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations: selection of variants, preparation for devices, and runs.

#include "base/Target/Target.h"
#include "runtime/IndexCheck.h"
#include "runtime/OperationImpl.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;

/// Whether a value of a parameter is the wanted one, which a caller may have given as text: a word
/// that names a type may be a value of an enum, too.
static bool isValue(const Expr &value, const Expr &wanted) {
  auto isWord = [](const Expr &expr) {
    return expr.kind() == Expr::Kind::Type || expr.kind() == Expr::Kind::Enum;
  };
  return value == wanted || (isWord(value) && isWord(wanted) && value.text() == wanted.text());
}

bool tilewright::runtime::haveParams(const Params &have, const Params &more, const Params &wanted) {
  for (const auto &param : wanted) {
    bool same = false;
    for (const Params *list : {&have, &more})
      for (const auto &candidate : *list)
        same |= candidate.first == param.first && isValue(candidate.second, param.second);
    if (!same)
      return false;
  }
  return true;
}

namespace {

/// Why a device cannot run the code of a variant; empty if it can.
std::string whyNotOn(const KernelSpec &kernel, const FormSpec *form, const DeviceInfo &device,
                     int64_t sharedLimit) {
  const std::string which = "that of entry '" + kernel.entry + "' ";
  if (!chooseCode(kernel, device, form ? &form->target : nullptr))
    return which + "is for " + (form ? form->target : kernel.codes[0].arch).toString();
  if (sharedLimit && kernel.allSharedBytes() > sharedLimit)
    return which + "needs " + std::to_string(kernel.allSharedBytes()) +
           " bytes of shared memory, limit " + std::to_string(sharedLimit);
  return "";
}

} // namespace

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
    if (program.name != name)
      continue;
    for (const FormSpec &form : program.forms)
      if (haveParams(program.params, form.params, params))
        impl->forms.push_back(std::make_unique<Form>(form, program, bundle->manifest()));
    if (impl->forms.empty())
      continue;
    impl->program = &program;
    impl->contract = &program.arguments;
    impl->finish();
    return Operation(std::move(impl));
  }
  std::vector<const KernelSpec *> variants;
  for (const KernelSpec &kernel : bundle->manifest().kernels) {
    isKnown |= kernel.name == name;
    if (kernel.name != name || !haveParams(kernel.params, {}, params))
      continue;
    if (!impl->contract)
      impl->contract = &kernel.arguments;
    if (!haveOneContract(*impl->contract, kernel.arguments))
      return Status::failure(Code::InvalidArgument, "kernel '" + name + "' of '" + bundle->name() +
                                                        "' has variants of different arguments (" +
                                                        toString(kernel.params) +
                                                        "); give more parameters");
    variants.push_back(&kernel);
  }
  if (!isKnown)
    return impl->unknownName();
  if (variants.empty())
    return impl->missingVariant();
  impl->forms.push_back(std::make_unique<Form>(std::move(variants)));
  impl->finish();
  return Operation(std::move(impl));
}

void Operation::Impl::finish() {
  contractCheck.emplace(*contract);
  sharedHeads = SharedHeads::find(*contract);
  if (program)
    conditions = ExprCode(program->conditions, *contract);
  for (size_t i = 0; i < contract->size(); ++i) {
    const ArgumentSpec &spec = (*contract)[i];
    if (!spec.isView &&
        (spec.byDefault || spec.type == ElementType::F32 || spec.type == ElementType::F64))
      scalars.push_back(i);
  }
}

const Argument *const *Operation::Impl::complete(const Argument *const *arguments,
                                                 size_t numArguments,
                                                 CompletedArguments &completed) const {
  if (numArguments != contract->size()) // the check reports it
    return arguments;
  size_t count = 0;
  auto isReal = [](ElementType type) {
    return type == ElementType::F32 || type == ElementType::F64;
  };
  for (size_t place : scalars) {
    const Argument &given = *arguments[place];
    const ArgumentSpec &spec = (*contract)[place];
    bool isMissing = given.kind == Argument::Kind::Absent && spec.byDefault;
    bool isOther = given.kind == Argument::Kind::Scalar && given.type != spec.type &&
                   isReal(given.type) && isReal(spec.type);
    if (!isMissing && !isOther)
      continue;
    if (count == 0)
      std::copy_n(arguments, numArguments, completed.pointers);
    Argument *value = completed.values.get() + count++;
    new (value) Argument(isMissing                       ? *spec.byDefault
                         : spec.type == ElementType::F64 ? Argument::scalar(given.real())
                                                         : Argument::scalar(float(given.real())));
    completed.pointers[place] = value;
  }
  return count ? completed.pointers : arguments;
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
  // The first form is preferred, so it explains what is missing.
  const KernelSpec *missing = nullptr;
  std::string reasons;
  for (const auto &form : impl->forms) {
    bool isServed = true;
    for (const Step &step : form->steps) {
      std::string own;
      bool hasVariant = false;
      for (const KernelSpec *kernel : step.variants) {
        std::string reason = whyNotOn(*kernel, form->spec, device, target.sharedLimit);
        hasVariant |= reason.empty();
        if (!reason.empty() && reasons.find(reason) == std::string::npos)
          own += (own.empty() ? "" : ", ") + reason;
      }
      if (hasVariant)
        continue;
      isServed = false;
      if (!missing)
        missing = step.variants[0];
      if (!own.empty() && step.variants[0]->name == missing->name)
        reasons += (reasons.empty() ? "" : ", ") + own;
      break;
    }
    if (isServed)
      return Status::success();
  }
  // Not null from 8.0 on.
  const auto *row = tilewright::Target::forDevice(target.major, target.minor);
  const std::string text = "no variant of kernel '" + missing->name +
                           "' runs on compute capability " + capability + ": " + reasons;
  return impl->missing(text, std::string(row->name));
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

Result<const PreparedKernel *> Operation::Impl::prepareKernel(PreparedDevice &device,
                                                              const KernelSpec &kernel,
                                                              const CodeSpec &code,
                                                              const CubinCache &cache) {
  for (const auto &known : device.kernels)
    if (known->spec == &kernel && known->code == &code)
      return known.get();
  if (device.isImagined) {
    if (std::string reason = whyNotOn(kernel, nullptr, device.info, device.info.sharedLimit);
        !reason.empty())
      return Status::failure(Code::Unsupported, reason); // another variant may fit
    device.kernels.push_back(std::make_unique<PreparedKernel>(kernel, code, LoadedKernel(), false));
    return device.kernels.back().get();
  }
  Result<const Module *> module = loadModule(device, kernel, code, cache);
  if (!module)
    return module.status();
  bool mayOverlap =
      (kernel.awaitsLaunch || (program && kernel.allowsLaunch)) && driver.hasDependentLaunches();
  bool mayStartEarly = mayOverlap && kernel.awaitsLaunch;
  if (program && mayOverlap)
    if (Status status = queryMultiprocessor(driver, device.info); !status)
      return status;
  Result<LoadedKernel> loaded = (*module)->prepare(kernel, device.info);
  if (!loaded)
    return loaded.status();
  device.kernels.push_back(std::make_unique<PreparedKernel>(kernel, code, *loaded, mayStartEarly));
  return device.kernels.back().get();
}

/// Adds the form to those of the device if the device can run all its launches.
Status Operation::Impl::prepareForm(PreparedDevice &device, const Form &form,
                                    const CubinCache &cache, Status &tooLarge) {
  PreparedForm prepared{&form, {}};
  // An earlier variant accepts everything that this one accepts: then this one is for devices with
  // less shared memory.
  auto isServed = [](const std::vector<const PreparedKernel *> &earlier, const KernelSpec &kernel) {
    return std::any_of(earlier.begin(), earlier.end(), [&](const PreparedKernel *other) {
      return other->spec->acceptsWhateverDoes(kernel);
    });
  };
  for (const Step &step : form.steps) {
    std::vector<const PreparedKernel *> kernels;
    for (const KernelSpec *kernel : step.variants) {
      const CodeSpec *code =
          chooseCode(*kernel, device.info, form.spec ? &form.spec->target : nullptr);
      if (!code || isServed(kernels, *kernel))
        continue;
      Result<const PreparedKernel *> ready = prepareKernel(device, *kernel, *code, cache);
      if (ready)
        kernels.push_back(*ready);
      else if (ready.status().code() != Code::Unsupported)
        return ready.status();
      else
        tooLarge = ready.status(); // another variant, or another form, may fit
    }
    if (kernels.empty())
      return Status::success();
    prepared.steps.push_back(std::move(kernels));
  }
  device.forms.push_back(std::move(prepared));
  return Status::success();
}

Status Operation::Impl::prepareForms(PreparedDevice &device, const CubinCache &cache) {
  Status tooLarge;
  for (const auto &form : forms) {
    if (std::any_of(device.forms.begin(), device.forms.end(),
                    [&](const PreparedForm &earlier) { return earlier.form->replaces(*form); }))
      continue;
    if (Status status = prepareForm(device, *form, cache, tooLarge); !status)
      return status;
  }
  // checkSupport does not know the limit of shared memory.
  return device.forms.empty() ? tooLarge : Status::success();
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
    return Status::failure(Code::Unsupported, "a device must be one of the first " +
                                                  std::to_string(maxDevices) + ", but got device " +
                                                  std::to_string(ordinal));
  if (Status status = checkSupport({info->major, info->minor, 0}); !status)
    return status;
  ContextScope scope(driver);
  if (Status status = scope.enterDevice(*info, device->primary); !status)
    return status;
  CubinCache cache = CubinCache::fromEnvironment();
  if (Status status = impl->prepareForms(*device, cache); !status)
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

/// The conditions that all variants of a kernel have are those of the kernel: no other variant
/// could take arguments that break one. Only called where no variant takes the arguments.
Status Operation::Impl::checkCommonConditions(const ExprInputs &inputs) const {
  const std::vector<const KernelSpec *> &variants = forms[0]->steps[0].variants;
  if (variants.size() < 2) // its conditions could be those of the variant
    return Status::success();
  std::vector<Expr> common;
  for (const Expr &condition : variants[0]->conditions)
    if (std::all_of(variants.begin() + 1, variants.end(), [&](const KernelSpec *variant) {
          const std::vector<Expr> &own = variant->conditions;
          return std::find(own.begin(), own.end(), condition) != own.end();
        }))
      common.push_back(condition);
  ExprCode code(common, *contract);
  ExprCode::End end = code.findBroken(inputs);
  if (!end.expr)
    return Status::success();
  if (end.fault != expr::Fault::None)
    return ExprCode::failure(end);
  return Status::failure(Code::InvalidArgument,
                         "kernel '" + name +
                             "' cannot take these arguments: " + ExprCode::describe(end, inputs));
}

Status Operation::Impl::launch(const PreparedKernel &kernel, const ExprInputs &inputs,
                               cuda::Stream stream, bool checksIndices, LastLaunch &last) const {
  if (checksIndices)
    if (Status status = checkElementRules(driver, kernel.spec->elements, kernel.spec->arguments,
                                          inputs, "kernel", kernel.spec->name, stream);
        !status)
      return status;
  return launchKernel(driver, kernel, inputs, stream, last);
}

/// Without a driver, the devices are unknown; sizes can then be computed for any that could exist.
Status Operation::Impl::expectDevice(int ordinal) const {
  if (ordinal < 0 || ordinal >= maxDevices)
    return Status::failure(Code::InvalidArgument, "device must be from 0 to " +
                                                      std::to_string(maxDevices - 1) +
                                                      ", but got " + std::to_string(ordinal));
  if (!driver.cuDeviceGetCount)
    return Status::success();
  Result<int> count = countDevices(driver);
  return count ? expectOrdinal(ordinal, *count) : count.status();
}

Status Operation::workspaceSize(const Argument *const *given, size_t numArguments, int device,
                                uint64_t &bytes) const {
  CompletedArguments completed;
  const Argument *const *arguments = impl->complete(given, numArguments, completed);
  if (impl->haveSharedHeads(arguments, numArguments)) {
    UnitedHeads united(*impl->sharedHeads, arguments, numArguments);
    return workspaceSize(united.pointers, numArguments, device, bytes);
  }
  if (Status status = impl->check(arguments, numArguments); !status)
    return status;
  bytes = 0;
  const PreparedDevice *prepared =
      device >= 0 && device < maxDevices ? impl->devices[device].load() : nullptr;
  if (!prepared)
    if (Status status = impl->expectDevice(device); !status)
      return status;
  ExprInputs inputs{arguments, prepared ? prepared->info.smCount : 0};
  auto include = [&](const Form &form) -> Status {
    ExprCode::End end = form.conditions.findBroken(inputs);
    if (end.fault != expr::Fault::None)
      return ExprCode::failure(end);
    if (end.expr)
      return Status::success();
    ArgumentArray views;
    uint64_t own = 0;
    Status status = form.layOutWorkspaces(inputs, impl->name, /*base=*/0, views, own);
    bytes = std::max(bytes, own);
    return status;
  };
  // The form also depends on strides and addresses, which the caller may not have yet.
  if (prepared) {
    for (const PreparedForm &form : prepared->forms)
      if (Status status = include(*form.form); !status)
        return status;
    return Status::success();
  }
  for (const auto &form : impl->forms)
    if (Status status = include(*form); !status)
      return status;
  return Status::success();
}

Status Operation::Impl::notPrepared(cuda::Stream stream) const {
  int capturing = cuda::CaptureNone;
  if (cuda::Result result = driver.cuStreamIsCapturing(stream, &capturing))
    return driver.check(result, "cuStreamIsCapturing", "ask whether the stream is captured");
  const std::string what = std::string(kind()) + " '" + name + "'";
  if (capturing != cuda::CaptureNone)
    return Status::failure(Code::NotPrepared,
                           what + " is not prepared for this device, and the stream is being "
                                  "captured; call prepare before the capture begins");
  return Status::failure(Code::NotPrepared,
                         what + " is not prepared for this device; call prepare before run");
}

/// Why no form of the device accepts the arguments.
Status Operation::Impl::explainForms(const PreparedDevice &device, const ExprInputs &inputs,
                                     uint64_t workspace) const {
  std::string conditions, all, ofOne, kernel;
  bool isOfOne = true;
  for (const PreparedForm &prepared : device.forms) {
    const std::string target = "for " + prepared.form->spec->target.toString();
    ExprCode::End end = prepared.form->conditions.findBroken(inputs);
    if (end.expr) {
      conditions +=
          (conditions.empty() ? "" : "; ") + target + ", " + ExprCode::describe(end, inputs);
      continue;
    }
    Choice choices[maxLaunches];
    const Argument *passed[maxLaunches * maxArguments];
    ArgumentArray array;
    uint64_t needed = 0;
    if (Status status = prepared.form->layOutWorkspaces(inputs, name, workspace, array, needed);
        !status)
      return status;
    Result<const Step *> rejected =
        prepared.choose(inputs, array.get(), contract->size(), choices, passed);
    if (!rejected)
      return rejected.status();
    const std::string reasons = prepared.explain(**rejected, inputs, choices);
    const std::string &own = (*rejected)->variants[0]->name;
    isOfOne &= kernel.empty() || kernel == own;
    kernel = own;
    if (ofOne.find(reasons) == std::string::npos)
      ofOne += (ofOne.empty() ? "" : "; ") + reasons;
    all += (all.empty() ? "" : "; ") + target + ", kernel '" + own + "': " + reasons;
  }
  if (kernel.empty())
    return Status::failure(Code::Unsupported,
                           "program '" + name + "' has no form for these arguments: " + conditions);
  if (isOfOne)
    return Status::failure(Code::Unsupported,
                           "no variant of kernel '" + kernel + "' takes these arguments: " + ofOne);
  return Status::failure(Code::Unsupported,
                         "program '" + name +
                             "' has no target for which every kernel has a variant that accepts "
                             "these arguments: " +
                             all);
}

/// Fills workspaces, and launches the chosen kernels.
Status Operation::Impl::launchForm(const PreparedForm &form, const ExprInputs &inputs,
                                   const Argument *views, uint64_t workspaceEnd,
                                   const Choice *choices, cuda::Stream stream) const {
  const bool checks = checksIndices.load(std::memory_order_relaxed);
  if (checks)
    if (Status status = checkElementRules(driver, program->elements, *contract, inputs, "program",
                                          name, stream);
        !status)
      return status;
  LastLaunch last = beforeRun();
  const std::vector<WorkspaceSpec> &workspaces = form.form->spec->workspaces;
  for (size_t i = 0; i < workspaces.size(); ++i) {
    uint64_t end = i + 1 < workspaces.size() ? views[i + 1].bits : workspaceEnd;
    if (!workspaces[i].fill || end == views[i].bits)
      continue;
    last.mayOverlapOther = false; // the first launch follows the fill
    if (cuda::Result result = driver.cuMemsetD32Async(views[i].bits, *workspaces[i].fill,
                                                      (end - views[i].bits) / 4, stream))
      return driver.check(result, "cuMemsetD32Async",
                          "fill workspace '" + workspaces[i].name + "' of program '" + name + "'");
  }
  for (size_t i = 0; i < form.steps.size(); ++i)
    if (choices[i].kernel)
      if (Status status = launch(*choices[i].kernel, {choices[i].arguments, inputs.smCount}, stream,
                                 checks, last);
          !status)
        return status;
  return Status::success();
}

Result<const PreparedKernel *> Operation::Impl::choose(const PreparedDevice &device,
                                                       const ExprInputs &inputs) const {
  const std::vector<const PreparedKernel *> &kernels = device.forms[0].steps[0];
  Result<const PreparedKernel *> kernel = chooseKernel(kernels, inputs);
  if (!kernel || *kernel)
    return kernel;
  if (Status status = checkCommonConditions(inputs); !status)
    return status;
  return Status::failure(Code::Unsupported,
                         "no variant of kernel '" + name +
                             "' takes these arguments: " + explainRejections(kernels, inputs));
}

/// The first form that takes the arguments, which satisfy the contract.
Status Operation::Impl::chooseForm(const PreparedDevice &device, const ExprInputs &inputs,
                                   uint64_t workspace, uint64_t workspaceBytes,
                                   ChosenForm &chosen) const {
  if (Status status = checkConditions(inputs); !status)
    return status;
  for (const PreparedForm &form : device.forms) {
    ExprCode::End end = form.form->conditions.findBroken(inputs);
    if (end.fault != expr::Fault::None)
      return ExprCode::failure(end);
    if (end.expr)
      continue;
    uint64_t needed = 0;
    if (Status status = form.form->layOutWorkspaces(inputs, name, workspace, chosen.views, needed);
        !status)
      return status;
    if (needed > workspaceBytes || (needed && !workspace))
      return Status::failure(Code::InvalidArgument,
                             "program '" + name + "' needs a workspace of " +
                                 std::to_string(needed) + " bytes, but got " +
                                 std::to_string(workspace ? workspaceBytes : 0));
    if (needed && workspace % workspaceAlignment != 0)
      return Status::failure(Code::InvalidArgument,
                             "the workspace of program '" + name + "' must be aligned to 256 " +
                                 "bytes, but got an address with the remainder " +
                                 std::to_string(workspace % workspaceAlignment));
    Result<const Step *> rejected =
        form.choose(inputs, chosen.views.get(), contract->size(), chosen.choices, chosen.passed);
    if (!rejected)
      return rejected.status();
    chosen.form = &form;
    chosen.workspaceBytes = needed;
    if (!*rejected)
      return Status::success();
  }
  return explainForms(device, inputs, workspace);
}

Status Operation::run(const Argument *const *given, size_t numArguments, uint64_t workspace,
                      uint64_t workspaceBytes, cuda::Stream stream) const {
  CompletedArguments completed;
  const Argument *const *arguments = impl->complete(given, numArguments, completed);
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
  if (!impl->program) {
    Result<const PreparedKernel *> kernel = impl->choose(*device, inputs);
    if (!kernel)
      return kernel.status();
    LastLaunch last = impl->beforeRun();
    return impl->launch(**kernel, inputs, stream,
                        impl->checksIndices.load(std::memory_order_relaxed), last);
  }
  ChosenForm chosen;
  if (Status status = impl->chooseForm(*device, inputs, workspace, workspaceBytes, chosen); !status)
    return status;
  return impl->launchForm(*chosen.form, inputs, chosen.views.get(),
                          workspace + chosen.workspaceBytes, chosen.choices, stream);
}
