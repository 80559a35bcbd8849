// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a run of a plan costs the host: with a driver that does nothing, which leaves the runtime's
// own work, and with the real one, launching an empty kernel with the same parameters.
//
//   build/bin/bench/runtime_overhead

#include "test/Unit/RuntimeQuietDriver.h"

#include <benchmark/benchmark.h>

using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

void runWithQuietDriver(benchmark::State &state) {
  DriverTable driver = quietTable();
  Expected<AttentionForward> plan = quietPlan(driver);
  if (!plan || !plan->prepare(0))
    return state.SkipWithError("the plan cannot be prepared");
  AttentionForwardArguments arguments = quietArguments();
  auto stream = reinterpret_cast<cuda::Stream>(uintptr_t(0x5000));
  for (auto _ : state)
    if (!plan->run(arguments, 0, 0, stream))
      return state.SkipWithError("the run failed");
}
BENCHMARK(runWithQuietDriver);

/// An entry that returns at once and takes these parameters.
std::string emptyKernel(const KernelSpec &kernel) {
  std::string text =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry " + kernel.entry + "(";
  const std::vector<ParamLayout::Param> &params = kernel.layout.params;
  for (size_t i = 0; i < params.size(); ++i) {
    text += i ? ", " : "";
    if (params[i].bytes == tensorMapBytes)
      text += ".param .align 64 .b8 p" + std::to_string(i) + "[128]";
    else
      text += ".param .b" + std::to_string(params[i].bytes * 8) + " p" + std::to_string(i);
  }
  return text + ") { ret; }\n";
}

void runWithRealDriver(benchmark::State &state) {
  Expected<const DriverTable *> driver = DriverTable::system();
  if (!driver)
    return state.SkipWithError("no CUDA driver");
  BundleWriter writer = quietAttention(), real;
  (void)writer.manifest.finalize(1);
  real.manifest = quietAttention().manifest;
  real.addPtx(emptyKernel(writer.manifest.kernels[0]));
  AttentionForwardDesc desc;
  desc.headDim = 128;
  Expected<AttentionForward> plan =
      AttentionForward::create(**driver, *Bundle::fromBytes(*real.bytes()), desc);
  if (!plan)
    return state.SkipWithError(plan.status().message().c_str());
  if (Status status = plan->prepare(0); !status)
    return state.SkipWithError(status.message().c_str());
  // Google Benchmark calls this several times; the context and what is in it stay.
  static Expected<PrimaryContext> primary =
      PrimaryContext::retain(**driver, *queryDevice(**driver, 0));
  static cuda::Stream stream = nullptr;
  static cuda::DevicePtr memory = 0;
  if (!primary || (*driver)->cuCtxPushCurrent(primary->get()) ||
      (!stream && (*driver)->cuStreamCreate(&stream, 1)) ||
      (!memory && (*driver)->cuMemAlloc(&memory, 1 << 20)))
    return state.SkipWithError("no stream");
  AttentionForwardArguments arguments = quietArguments();
  arguments.q.bits = arguments.k.bits = arguments.v.bits = arguments.o.bits = memory;
  arguments.q.extents[2] = arguments.o.extents[2] = 1; // a small grid: the device keeps up
  int launches = 0;
  for (auto _ : state) {
    if (Status status = plan->run(arguments, 0, 0, stream); !status)
      return state.SkipWithError(status.message().c_str());
    if (++launches % 256 == 0) { // a full queue would be waited for
      state.PauseTiming();
      (*driver)->cuStreamSynchronize(stream);
      state.ResumeTiming();
    }
  }
}
BENCHMARK(runWithRealDriver);

} // namespace

BENCHMARK_MAIN();
