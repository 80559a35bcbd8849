// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How an application runs a kernel of its own: it lists what a bundle holds, chooses a variant by
// its parameters, and launches it.
//
//   tilewrightc docs/examples/rms_norm.mlir --variant C=1024,T=f16 --variant C=4096,T=bf16
//       --target=sm_80 --emit=bundle -o rms_norm.twb
//   run_kernel rms_norm.twb
//
// Exit code: 0 if the result is right, or there is no GPU and it says so; else 1.

#include "runtime/Argument.h"
#include "runtime/Device.h"
#include "runtime/Operation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace tilewright;
using namespace tilewright::runtime;
using numeric::f16ToFloat;
using numeric::floatToF16;

namespace {

constexpr int64_t R = 500, C = 1024;

int report(const Status &status) {
  std::fprintf(stderr, "run_kernel: %s\n", status.message().c_str());
  return 1;
}

/// Launches the kernel on x and y, arrays of f16 in device memory.
Status launch(const Operation &operation, cuda::DevicePtr x, cuda::DevicePtr y,
              cuda::Stream stream) {
  // In the order of the kernel's arguments.
  const Argument xs = Argument::dense(x, ElementType::F16, {R, C});
  const Argument ys = Argument::dense(y, ElementType::F16, {R, C});
  const Argument epsilon = Argument::absent(); // its default
  const Argument *arguments[] = {&xs, &ys, &epsilon};
  return operation.run(arguments, 3, /*workspace=*/0, /*workspaceBytes=*/0, stream);
}

/// Prints what a run would launch on an A100, from the alignment of addresses, but not from memory.
Status describeRun(const Operation &operation) {
  const Argument rows = Argument::dense(0x10000, ElementType::F16, {R, C}), epsilon;
  const Argument *arguments[] = {&rows, &rows, &epsilon};
  const Target a100 = {8, 0, /*sharedLimit=*/166912};
  auto run = operation.report(arguments, 3, a100, /*multiprocessors=*/108);
  if (!run)
    return run.status();
  std::printf("%s\n", run->call.c_str());
  for (const LaunchReport &each : run->launches)
    std::printf("%s for %s: %u blocks of %u threads, %u bytes of shared memory\n",
                each.entry.c_str(), each.target.c_str(), each.grid[0], each.block[0],
                each.sharedBytes);
  return Status::success();
}

/// A call of the driver that is the application's own; a failure ends the function.
#define CALL(driver, name, ...)                                                                    \
  if (Status status =                                                                              \
          (driver).check((driver).name ? (driver).name(__VA_ARGS__) : cuda::ErrorNotFound, #name,  \
                         "run the example");                                                       \
      !status)                                                                                     \
  return status

/// Replaces `values`, R rows of C, by what the kernel makes of them.
Status runOnDevice(const DriverTable &driver, const Operation &operation,
                   std::vector<uint16_t> &values) {
  Result<DeviceInfo> device = queryDevice(driver, 0);
  if (!device)
    return device.status();
  // A context for the application's own memory; the operation would manage without.
  Result<PrimaryContext> context = PrimaryContext::retain(driver, *device);
  if (!context)
    return context.status();
  CALL(driver, cuCtxPushCurrent, context->get());
  cuda::Stream stream = nullptr;
  constexpr unsigned nonBlocking = 1;
  CALL(driver, cuStreamCreate, &stream, nonBlocking);
  const size_t bytes = 2 * values.size();
  cuda::DevicePtr x = 0, y = 0;
  CALL(driver, cuMemAlloc, &x, bytes);
  CALL(driver, cuMemAlloc, &y, bytes);
  CALL(driver, cuMemcpyHtoDAsync, x, values.data(), bytes, stream);
  if (Status status = launch(operation, x, y, stream); !status)
    return status;
  CALL(driver, cuMemcpyDtoHAsync, values.data(), y, bytes, stream);
  CALL(driver, cuStreamSynchronize, stream);
  CALL(driver, cuMemFree, x);
  CALL(driver, cuMemFree, y);
  CALL(driver, cuStreamDestroy, stream);
  cuda::Context popped = nullptr;
  CALL(driver, cuCtxPopCurrent, &popped);
  return Status::success();
}

/// f16 has 11 significant bits, and the values are below 4.
bool isRight(const std::vector<uint16_t> &x, const std::vector<uint16_t> &y) {
  double worst = 0;
  for (int64_t row = 0; row < R; ++row) {
    double sum = 0;
    for (int64_t i = row * C; i < (row + 1) * C; ++i)
      sum += double(f16ToFloat(x[i])) * f16ToFloat(x[i]);
    double factor = 1 / std::sqrt(sum / C + 1.0e-5);
    for (int64_t i = row * C; i < (row + 1) * C; ++i) {
      double error = std::abs(f16ToFloat(y[i]) - f16ToFloat(x[i]) * factor);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
  }
  constexpr double allowed = 2e-3;
  std::printf("greatest error %.1e (%.1e allowed): %s\n", worst, allowed,
              worst <= allowed ? "ok" : "WRONG");
  return worst <= allowed;
}

} // namespace

int main(int argc, char **argv) {
  auto bundle = Bundle::open(argc == 2 ? argv[1] : "rms_norm.twb");
  if (!bundle)
    return report(bundle.status());
  for (const KernelSpec &kernel : (*bundle)->manifest().kernels) {
    std::printf("%s with %s:", kernel.name.c_str(), toString(kernel.params).c_str());
    for (const CodeSpec &code : kernel.codes)
      std::printf(" %s", code.arch.toString().c_str());
    std::printf("\n");
  }

  static const DriverTable none; // without a driver, everything except prepare and run works
  auto driver = DriverTable::system();
  const Params params = {{"C", Expr::integer(C)}, {"T", Expr::symbol(Expr::Kind::Type, "f16")}};
  auto operation = Operation::create(driver ? **driver : none, *bundle, "rms_norm", params);
  if (!operation)
    return report(operation.status());
  for (const ArgumentSpec &argument : operation->arguments())
    std::printf("%s %s\n", argument.isView ? "view" : "scalar", argument.name.c_str());
  if (Status status = operation->checkSupport({8, 0, 0}); !status) // compute capability 8.0
    return report(status);

  Status status = operation->prepare(0);
  if (Status described = describeRun(*operation); !described)
    return report(described);
  if (status.code() == Code::NoDriver) {
    if (!driver)
      status = driver.status(); // why there is none
    std::printf("run_kernel: SKIPPED, there is no GPU: %s\n", status.message().c_str());
    return 0;
  }
  if (!status)
    return report(status);

  std::vector<uint16_t> x(R * C);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = floatToF16(std::sin(float(i % 8191)));
  std::vector<uint16_t> y = x;
  if (Status ran = runOnDevice(**driver, *operation, y); !ran)
    return report(ran);
  return isRight(x, y) ? 0 : 1;
}
