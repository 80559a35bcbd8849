// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel or program of a bundle: whether it can run on a device, and its launches.
//
//   auto driver = DriverTable::system();
//   auto bundle = Bundle::open("attention.twb");
//   if (!driver || !bundle)
//     return driver ? bundle.status() : driver.status(); // Code::NoDriver where there is none
//   auto operation = Operation::create(**driver, *bundle, "attention_forward", {});
//   if (!operation)
//     return operation.status();
//   Status status = operation->prepare(0); // loads code; the first call may take seconds
//   if (status)
//     status = operation->run(arguments, n, workspace, bytes, stream);
//
// run does not allocate on host or device or synchronize, and may be captured into a graph,
// unless it checks indices (checkIndices). All functions may be called from several threads.

#ifndef TILEWRIGHT_RUNTIME_OPERATION_H
#define TILEWRIGHT_RUNTIME_OPERATION_H

#include "runtime/Bundle.h"
#include "runtime/Device.h"
#include "runtime/Report.h"

namespace tilewright::runtime {

/// The properties of a device that decide whether code can run on it.
struct Target {
  int major = 0, minor = 0;
  int sharedLimit = 0; // in bytes; 0: any
};

class Operation {
public:
  /// Finds the program, or the variants of the kernel, of this name whose parameters have the
  /// values in `params`; parameters that are not named may have any, but all variants found must
  /// agree on the arguments. Needs no GPU, and no driver: with an empty DriverTable, what would
  /// call the driver fails with Code::NoDriver. `driver` must outlive the operation.
  static Result<Operation> create(const DriverTable &driver, std::shared_ptr<const Bundle> bundle,
                                  const std::string &name, const Params &params = {});
  Operation(Operation &&) noexcept;
  Operation &operator=(Operation &&) noexcept;
  ~Operation();

  /// Of functions that take arguments: they have this order, and none is null. A scalar that is
  /// absent has its default, and one of f32 or f64 is converted to the type that the code takes.
  const std::vector<ArgumentSpec> &arguments() const;

  /// Whether there is code for such a device; the failure gives the reason. Needs no GPU.
  Status checkSupport(const Target &target) const;

  /// Loads the code for this device, in the current context if it belongs to the device, else in
  /// the primary context. Cheap if already done.
  Status prepare(int device);

  /// Bytes of device memory, aligned to 256, that run needs for these shapes. `device` matters if a
  /// workspace depends on the number of multiprocessors, and then needs prepare. It must exist;
  /// without a driver, any number from 0 to 63 is taken.
  Status workspaceSize(const Argument *const *arguments, size_t numArguments, int device,
                       uint64_t &bytes) const;

  /// Whether run checks the constraints on the elements of index arrays. The default is the value
  /// of TILEWRIGHT_CHECK_INDICES when the operation was created (see IndexCheck.h). A run then
  /// waits for the stream, copies the arrays to the host and rejects a stream that is captured. The
  /// rules of a program are checked first, those of each of its kernels before its launch. The
  /// change applies to the next run of every thread.
  void checkIndices(bool isWanted);

  /// Whether a run may start before the previous launch of its stream has ended; by default it may,
  /// unless the environment variable TILEWRIGHT_OVERLAP_PREVIOUS was 0 when the operation was
  /// created. This concerns runs whose first kernel waits for that launch before it accesses memory
  /// (`tgpu.awaits_launch`, as those of attention_append and the decodes do), and only if no
  /// workspace is filled before. So nothing changes but time, as long as all kernels of the stream
  /// that are launched in this way, by whichever library, wait, too. How early it starts is up to
  /// the launch before. The change applies to the next run of every thread.
  void overlapPrevious(bool isWanted);

  /// "scale D=64,T=bf16": the name, and the parameters that the operation was created with.
  std::string signature() const;
  /// What a run with these arguments launches on a device that is prepared. Launches nothing;
  /// `call` begins with the signature.
  Result<RunReport> report(const Argument *const *arguments, size_t numArguments, int device) const;
  /// The same for any device, which need not exist; without a limit of shared memory, any code
  /// fits. Needs no GPU.
  Result<RunReport> report(const Argument *const *arguments, size_t numArguments,
                           const Target &target, int multiprocessors) const;

  /// Launches on the stream. Nothing is launched unless each launch has a variant that accepts the
  /// arguments.
  Status run(const Argument *const *arguments, size_t numArguments, uint64_t workspace,
             uint64_t workspaceBytes, cuda::Stream stream) const;

private:
  struct Impl;
  explicit Operation(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_OPERATION_H
