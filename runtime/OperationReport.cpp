// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an operation would launch, by the functions that a run uses to choose it; and what its
// bundle has instead of a missing variant.

#include "runtime/OperationImpl.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;

/// What a launch of a kernel would be, in the report of a run.
static Status addLaunch(const PreparedKernel &kernel, const ExprInputs &inputs, RunReport &report) {
  const KernelSpec &spec = *kernel.spec;
  unsigned grid[3];
  bool isEmpty;
  if (Status status = gridOf(kernel, inputs, grid, isEmpty); !status)
    return status;
  LaunchReport launch;
  launch.kernel = spec.name;
  launch.entry = spec.entry;
  launch.target = kernel.code->arch.toString();
  launch.isCubin = kernel.code->kind == CodeSpec::Kind::Cubin;
  launch.params = toVariantText(spec.params);
  launch.sums = spec.sums;
  if (spec.addsInAnyOrder)
    launch.determinism = *spec.addsInAnyOrder ? Determinism::No : Determinism::Yes;
  launch.grid = {grid[0], grid[1], grid[2]};
  launch.block = spec.block;
  launch.cluster = spec.cluster;
  launch.sharedBytes = uint32_t(spec.allSharedBytes());
  report.launches.push_back(std::move(launch));
  return Status::success();
}

std::string Operation::Impl::signature() const {
  return params.empty() ? name : name + " " + toVariantText(params);
}

std::string Operation::signature() const { return impl->signature(); }

Result<RunReport> Operation::Impl::report(const PreparedDevice &device,
                                          const Argument *const *arguments,
                                          size_t numArguments) const {
  if (haveSharedHeads(arguments, numArguments)) {
    UnitedHeads united(*sharedHeads, arguments, numArguments);
    return report(device, united.pointers, numArguments);
  }
  if (Status status = check(arguments, numArguments); !status)
    return status;
  ExprInputs inputs{arguments, device.info.smCount};
  RunReport report;
  report.name = name;
  report.call = signature() + " " + toCallText(*contract, arguments);
  if (!program) {
    Result<const PreparedKernel *> kernel = choose(device, inputs);
    if (!kernel)
      return kernel.status();
    if (Status status = addLaunch(**kernel, inputs, report); !status)
      return status;
    report.params = report.launches[0].params;
  } else {
    auto chosen = std::make_unique<ChosenForm>();
    if (Status status = chooseForm(device, inputs, workspaceAlignment, UINT64_MAX, *chosen);
        !status)
      return status;
    const PreparedForm &form = *chosen->form;
    for (size_t i = 0; i < form.steps.size(); ++i)
      if (const Choice &choice = chosen->choices[i]; choice.kernel)
        if (Status status = addLaunch(*choice.kernel, {choice.arguments, inputs.smCount}, report);
            !status)
          return status;
    Params both = program->params;
    both.insert(both.end(), form.form->spec->params.begin(), form.form->spec->params.end());
    report.params = toVariantText(both);
    report.workspaceBytes = chosen->workspaceBytes;
  }
  report.determinism = Determinism::Yes;
  for (const LaunchReport &launch : report.launches) {
    report.target = launch.target; // all launches of a form have its target
    for (ElementType type : launch.sums)
      if (std::find(report.sums.begin(), report.sums.end(), type) == report.sums.end())
        report.sums.push_back(type);
    if (launch.determinism == Determinism::No || report.determinism == Determinism::Yes)
      report.determinism = launch.determinism;
  }
  return report;
}

/// A list of different texts for a message.
static std::string listOf(const std::vector<std::string> &texts, const char *between,
                          size_t limit) {
  std::vector<std::string> different;
  for (const std::string &text : texts)
    if (std::find(different.begin(), different.end(), text) == different.end())
      different.push_back(text);
  std::string list;
  for (size_t i = 0; i < different.size() && i < limit; ++i)
    list += (i ? between : "") + different[i];
  if (different.size() > limit)
    list += " and " + std::to_string(different.size() - limit) + " more";
  return list.empty() ? "none" : list;
}

Status Operation::Impl::unknownName() const {
  std::vector<std::string> names;
  for (const ProgramSpec &each : bundle->manifest().programs)
    names.push_back("'" + each.name + "'");
  for (const KernelSpec &each : bundle->manifest().kernels)
    names.push_back("'" + each.name + "'");
  return Status::failure(Code::MissingVariant, "'" + bundle->name() +
                                                   "' has no kernel or program '" + name +
                                                   "', but has " + listOf(names, ", ", 8));
}

Status Operation::Impl::missingVariant() const {
  // Of each variant, what is not as wanted.
  std::vector<std::string> others;
  auto add = [&](const Params &have, const Params &more) {
    std::string text;
    for (const auto &wanted : params) {
      if (haveParams(have, more, {wanted}))
        continue;
      std::string value = "no " + wanted.first;
      for (const Params *list : {&have, &more})
        for (const auto &param : *list)
          if (param.first == wanted.first)
            value = toString({param});
      text += (text.empty() ? "" : ", ") + value;
    }
    others.push_back(text);
  };
  for (const ProgramSpec &each : bundle->manifest().programs)
    if (each.name == name)
      for (const FormSpec &form : each.forms)
        add(each.params, form.params);
  for (const KernelSpec &each : bundle->manifest().kernels)
    if (each.name == name)
      add(each.params, {});
  return missing("'" + bundle->name() + "' has no variant of '" + name + "' for " +
                     toString(params) + ", but has " + listOf(others, ", or ", 3),
                 /*arch=*/""); // for the targets that tilewrightc chooses
}

Result<RunReport> Operation::report(const Argument *const *arguments, size_t numArguments,
                                    int device) const {
  if (Status status = impl->expectDevice(device); !status)
    return status;
  const PreparedDevice *prepared = nullptr;
  {
    std::lock_guard<std::mutex> lock(impl->mutex);
    for (const auto &owned : impl->owned)
      if (owned->info.ordinal == device)
        prepared = owned.get();
  }
  if (!prepared)
    return Status::failure(Code::NotPrepared,
                           std::string(impl->kind()) + " '" + impl->name +
                               "' is not prepared for device " + std::to_string(device) +
                               "; call prepare before report, or describe the device");
  CompletedArguments completed;
  return impl->report(*prepared, impl->complete(arguments, numArguments, completed), numArguments);
}

Result<RunReport> Operation::report(const Argument *const *arguments, size_t numArguments,
                                    const Target &target, int multiprocessors) const {
  if (Status status = checkSupport(target); !status)
    return status;
  PreparedDevice device;
  device.isImagined = true;
  device.info.major = target.major;
  device.info.minor = target.minor;
  device.info.sharedLimit = target.sharedLimit;
  device.info.smCount = multiprocessors;
  if (Status status = impl->prepareForms(device, CubinCache(std::string())); !status)
    return status;
  CompletedArguments completed;
  return impl->report(device, impl->complete(arguments, numArguments, completed), numArguments);
}
