// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Forms: layout of workspaces, and the choice of kernels.

#include "runtime/Form.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::runtime;

Form::Form(const FormSpec &spec, const ProgramSpec &program, const Manifest &manifest)
    : spec(&spec), conditions(spec.conditions, program.arguments) {
  for (const LaunchSpec &launch : spec.launches) {
    Step step;
    step.launch = &launch;
    for (size_t index : launch.kernels)
      step.variants.push_back(&manifest.kernels[index]);
    if (launch.condition)
      step.condition.emplace(*launch.condition, program.arguments);
    steps.push_back(std::move(step));
  }
  for (const WorkspaceSpec &workspace : spec.workspaces) {
    workspaceExtents.emplace_back();
    for (const Expr &extent : workspace.extents)
      workspaceExtents.back().emplace_back(extent, program.arguments);
  }
}

Form::Form(std::vector<const KernelSpec *> variants) {
  steps.emplace_back();
  steps.back().variants = std::move(variants);
}

Status Form::layOutWorkspaces(const ExprInputs &inputs, const std::string &programName,
                              uint64_t base, ArgumentArray &array, uint64_t &bytes) const {
  bytes = 0;
  if (!spec)
    return Status::success();
  Argument *views = array.reset(spec->workspaces.size());
  for (size_t i = 0; i < spec->workspaces.size(); ++i) {
    const WorkspaceSpec &workspace = spec->workspaces[i];
    auto where = [&] {
      return "workspace '" + workspace.name + "' of program '" + programName + "'";
    };
    Argument &view = views[i];
    view.kind = Argument::Kind::View;
    view.type = workspace.type;
    view.rank = uint8_t(workspace.extents.size());
    for (unsigned dim = 0; dim < view.rank; ++dim) {
      if (Status status = workspaceExtents[i][dim].evaluate(inputs, view.extents[dim]); !status)
        return status;
      if (view.extents[dim] < 0)
        return Status::failure(where() + " must have extents of at least 0, but got " +
                               std::to_string(view.extents[dim]) + " along dimension " +
                               std::to_string(dim));
    }
    int64_t elements = 1;
    for (unsigned dim = view.rank; dim-- > 0;) {
      view.strides[dim] = elements;
      if (__builtin_mul_overflow(elements, view.extents[dim], &elements) || elements > int64_t(1)
                                                                                           << 50)
        return Status::failure(where() + " must have at most 2^50 elements, but got " +
                               std::to_string(view.extents[dim]) + " times " +
                               std::to_string(view.strides[dim]));
    }
    uint64_t size = uint64_t(elements) * byteWidth(workspace.type);
    view.bits = base + bytes;
    bytes += (size + workspaceAlignment - 1) / workspaceAlignment * workspaceAlignment;
  }
  return Status::success();
}

bool Form::replaces(const Form &other) const {
  if (!spec || !other.spec || !(spec->target == other.spec->target) ||
      !isWithin(spec->conditions, other.spec->conditions) || steps.size() != other.steps.size())
    return false;
  for (size_t i = 0; i < steps.size(); ++i) {
    const LaunchSpec &own = *steps[i].launch, &launch = *other.steps[i].launch;
    if (!(own.condition == launch.condition) || own.arguments != launch.arguments)
      return false;
    // One kernel of this step accepts what any of the other one does.
    if (!std::any_of(steps[i].variants.begin(), steps[i].variants.end(), [&](const auto *kernel) {
          return std::all_of(
              other.steps[i].variants.begin(), other.steps[i].variants.end(),
              [&](const auto *variant) { return kernel->acceptsWhateverDoes(*variant); });
        }))
      return false;
  }
  return true;
}

Result<const PreparedKernel *>
tilewright::runtime::chooseKernel(const std::vector<const PreparedKernel *> &kernels,
                                  const ExprInputs &inputs) {
  const PreparedKernel *chosen = nullptr;
  for (const PreparedKernel *kernel : kernels) {
    Rejection rejection;
    if (isUsable(*kernel, inputs, rejection)) {
      chosen = kernel;
      break;
    }
    if (rejection.condition.fault != expr::Fault::None)
      return ExprCode::failure(rejection.condition);
  }
  return chosen;
}

std::string
tilewright::runtime::explainRejections(const std::vector<const PreparedKernel *> &kernels,
                                       const ExprInputs &inputs) {
  std::string reasons;
  for (const PreparedKernel *kernel : kernels) {
    Rejection rejection;
    isUsable(*kernel, inputs, rejection);
    reasons += (reasons.empty() ? "" : "; ") + rejection.toString(*kernel->spec, inputs);
  }
  return reasons;
}

Result<const Step *> PreparedForm::choose(const ExprInputs &inputs, const Argument *views,
                                          size_t numArguments, Choice *choices,
                                          const Argument **passed) const {
  const Step *none = nullptr;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = form->steps[i];
    choices[i] = {nullptr, passed};
    int64_t isWanted = 1;
    if (step.condition)
      if (Status status = step.condition->evaluate(inputs, isWanted); !status)
        return status;
    if (!isWanted)
      continue;
    for (uint32_t source : step.launch->sources)
      *passed++ = source < numArguments ? inputs.arguments[source] : &views[source - numArguments];
    const PreparedKernel &first = *steps[i].front(); // all variants have the same contract
    if (Status status = first.contract.check(choices[i].arguments, step.launch->sources.size(),
                                             "kernel", first.spec->name);
        !status)
      return status;
    Result<const PreparedKernel *> kernel =
        chooseKernel(steps[i], {choices[i].arguments, inputs.smCount});
    if (!kernel)
      return kernel.status();
    if (!*kernel)
      return &step;
    choices[i].kernel = *kernel;
  }
  return none;
}

std::string PreparedForm::explain(const Step &step, const ExprInputs &inputs,
                                  const Choice *choices) const {
  size_t i = size_t(&step - form->steps.data());
  return explainRejections(steps[i], {choices[i].arguments, inputs.smCount});
}
