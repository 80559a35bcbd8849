// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A form of a program, or a kernel by itself, as an operation runs it: its workspaces, and the
// choice of a kernel for each launch. Nothing here allocates in a run, unless it fails.

#ifndef TILEWRIGHT_RUNTIME_FORM_H
#define TILEWRIGHT_RUNTIME_FORM_H

#include "runtime/Launch.h"

namespace tilewright::runtime {

/// One launch, and its possible variants.
struct Step {
  std::vector<const KernelSpec *> variants;
  const LaunchSpec *launch = nullptr; // null: the arguments of the operation itself
  std::optional<ExprCode> condition;  // of the launch
};

/// The variant that a run launches for a step: null if the step's condition does not hold.
struct Choice {
  const PreparedKernel *kernel;
  const Argument **arguments;
};

/// With its expressions as flat code. A kernel by itself is a form of one step, for any target.
struct Form {
  /// Of a program, whose parts must outlive it.
  Form(const FormSpec &spec, const ProgramSpec &program, const Manifest &manifest);
  /// Of the variants of a kernel.
  explicit Form(std::vector<const KernelSpec *> variants);

  /// Contiguous views, one after the other from the address `base` on; the sum of their sizes.
  Status layOutWorkspaces(const ExprInputs &inputs, const std::string &programName, uint64_t base,
                          ArgumentArray &array, uint64_t &bytes) const;

  /// Whether every run that could use `other` uses this one: on a device that holds this form, the
  /// other one, which is for devices with less shared memory, is not needed.
  bool replaces(const Form &other) const;

  const FormSpec *spec = nullptr; // null: a kernel
  std::vector<Step> steps;
  ExprCode conditions;
  std::vector<std::vector<ExprCode>> workspaceExtents;
};

/// A form whose code is on a device.
struct PreparedForm {
  /// Null if all steps have a variant that accepts these arguments, which `choices` then has; else
  /// the first step that has none. `passed` gets the arguments of all steps, one after the other.
  Result<const Step *> choose(const ExprInputs &inputs, const Argument *views, size_t numArguments,
                              Choice *choices, const Argument **passed) const;
  /// Why no variant of a step accepts these arguments, which choose has passed to it.
  std::string explain(const Step &step, const ExprInputs &inputs, const Choice *choices) const;

  const Form *form;
  std::vector<std::vector<const PreparedKernel *>> steps; // none is empty
};

/// The first of these kernels that accepts the arguments; null if there is none.
Result<const PreparedKernel *> chooseKernel(const std::vector<const PreparedKernel *> &kernels,
                                            const ExprInputs &inputs);
/// Why none of these kernels accepts the arguments.
std::string explainRejections(const std::vector<const PreparedKernel *> &kernels,
                              const ExprInputs &inputs);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_FORM_H
