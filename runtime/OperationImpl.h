// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state of an operation, for the files that implement it.

#ifndef TILEWRIGHT_RUNTIME_OPERATIONIMPL_H
#define TILEWRIGHT_RUNTIME_OPERATIONIMPL_H

#include "runtime/CubinCache.h"
#include "runtime/Form.h"
#include "runtime/IndexCheck.h"
#include "runtime/Module.h"
#include "runtime/Operation.h"
#include "runtime/SharedHeads.h"

#include <atomic>
#include <mutex>

namespace tilewright::runtime {

inline constexpr int maxDevices = 64;

/// Whether TILEWRIGHT_OVERLAP_PREVIOUS is anything but 0.
bool overlapsPreviousByDefault();

/// The prepared state on one device.
struct PreparedDevice {
  DeviceInfo info;
  PrimaryContext primary;
  cuda::Context onlyContext = nullptr;            // context of modules, which are used in no other
  std::vector<std::pair<size_t, Module>> modules; // indexed by blob
  std::vector<std::unique_ptr<PreparedKernel>> kernels; // each once for all forms
  std::vector<PreparedForm> forms;                      // in order of preference
  bool isImagined = false; // for reports: kernels have no function, and nothing can be launched
};

/// The arguments of a call whose scalars are complete.
struct CompletedArguments {
  ArgumentArray values;
  const Argument *pointers[maxArguments];
};

/// What a run of a program launches.
struct ChosenForm {
  const PreparedForm *form;
  ArgumentArray views; // workspaces
  uint64_t workspaceBytes;
  Choice choices[maxLaunches];
  const Argument *passed[maxLaunches * maxArguments];
};

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
  std::vector<std::unique_ptr<Form>> forms; // one for a kernel
  // As flat code, compiled by finish.
  std::optional<ContractCheck> contractCheck;
  ExprCode conditions;
  std::optional<SharedHeads> sharedHeads;
  std::vector<size_t> scalars; // those that a call may leave out, or give in another type

  std::atomic<bool> checksIndices{checksIndicesByDefault()};
  std::atomic<bool> overlapsPrevious{overlapsPreviousByDefault()};

  std::mutex mutex; // held by prepare
  std::vector<std::unique_ptr<PreparedDevice>> owned;
  std::atomic<const PreparedDevice *> devices[maxDevices]; // indexed by the handle of the driver
  std::atomic<const PreparedDevice *> first{nullptr};

  const char *kind() const { return program ? "program" : "kernel"; }
  std::string signature() const;

  void finish();
  bool haveSharedHeads(const Argument *const *arguments, size_t numArguments) const {
    return sharedHeads && numArguments == contract->size() && sharedHeads->areIn(arguments);
  }
  const Argument *const *complete(const Argument *const *arguments, size_t numArguments,
                                  CompletedArguments &completed) const;
  Status check(const Argument *const *arguments, size_t numArguments) const;
  Status checkConditions(const ExprInputs &inputs) const;
  Status checkCommonConditions(const ExprInputs &inputs) const;
  LastLaunch beforeRun() const {
    LastLaunch none;
    none.mayOverlapOther = overlapsPrevious.load(std::memory_order_relaxed);
    return none;
  }
  Status launch(const PreparedKernel &kernel, const ExprInputs &inputs, cuda::Stream stream,
                bool checksIndices, LastLaunch &last) const;
  /// There is no kernel or program of this name, or none with these parameters.
  Status unknownName() const;
  Status missingVariant() const;
  Status missing(const std::string &reason, const std::string &arch) const {
    return Status::failure(Code::MissingVariant, reason + "; compile it with: " +
                                                     bundle->compileCommand(name, params, arch));
  }
  Status expectDevice(int ordinal) const;
  Status notPrepared(cuda::Stream stream) const;
  Status prepareForm(PreparedDevice &device, const Form &form, const CubinCache &cache,
                     Status &tooLarge);
  Status prepareForms(PreparedDevice &device, const CubinCache &cache);
  Result<const PreparedKernel *> prepareKernel(PreparedDevice &device, const KernelSpec &kernel,
                                               const CodeSpec &code, const CubinCache &cache);
  Result<const Module *> loadModule(PreparedDevice &device, const KernelSpec &kernel,
                                    const CodeSpec &code, const CubinCache &cache);
  Status chooseForm(const PreparedDevice &device, const ExprInputs &inputs, uint64_t workspace,
                    uint64_t workspaceBytes, ChosenForm &chosen) const;
  Result<const PreparedKernel *> choose(const PreparedDevice &device,
                                        const ExprInputs &inputs) const;
  Result<RunReport> report(const PreparedDevice &device, const Argument *const *arguments,
                           size_t numArguments) const;
  Status explainForms(const PreparedDevice &device, const ExprInputs &inputs,
                      uint64_t workspace) const;
  Status launchForm(const PreparedForm &form, const ExprInputs &inputs, const Argument *views,
                    uint64_t workspaceEnd, const Choice *choices, cuda::Stream stream) const;
};

/// Whether one of the two lists has each wanted value.
bool haveParams(const Params &have, const Params &more, const Params &wanted);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_OPERATIONIMPL_H
