// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Measures the host time of a run of a plan: with a driver whose functions do nothing, so that only
// the runtime's own work is measured, and with the real driver, which launches an empty kernel with
// the same parameters.
//
//   build/bin/bench/runtime_overhead

#include "runtime/CApiTesting.h"
#include "runtime/tilewright.h"
#include "test/Unit/RuntimeBackwardBundle.h"
#include "test/Unit/RuntimeQuietDriver.h"

#include <benchmark/benchmark.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

Expr equalExtents(const char *a, int64_t i, const char *b, int64_t j) {
  return *Expr::call("==", {Expr::dim(a, i), Expr::dim(b, j)});
}

/// The constraints of kernels/attention_forward.mlir, or all of attention_backward.mlir.
std::vector<Expr> constraints(bool isBackward) {
  Expr keyHeads = *Expr::call("max", {Expr::dim("k", 1), Expr::integer(1)});
  std::vector<Expr> all = {
      *Expr::call("==", {*Expr::call("mod", {Expr::dim("q", 1), keyHeads}), Expr::integer(0)}),
      equalExtents("k", 0, "q", 0), equalExtents("v", 0, "q", 0)};
  for (int64_t dim : {1, 2})
    all.push_back(equalExtents("v", dim, "k", dim));
  std::vector<std::pair<const char *, const char *>> alike = {{"o", "q"}, {"lse", "q"}};
  if (isBackward)
    alike.insert(alike.end(), {{"do", "q"}, {"dlse", "q"}, {"dq", "q"}, {"dk", "k"}, {"dv", "k"}});
  for (auto [view, like] : alike)
    for (int64_t dim : {0, 1, 2})
      all.push_back(equalExtents(view, dim, like, dim));
  return all;
}

/// The forms that tilewrightc makes for sm_80, without tensor maps: for aligned and for all views.
BundleWriter forwardBundle() {
  BundleWriter writer = quietAttention();
  KernelSpec &kernel = writer.manifest.kernels[0];
  kernel.codes[0].arch = *Arch::parse("sm_80");
  kernel.tensorMaps.clear();
  kernel.conditions = constraints(false);
  KernelSpec general = kernel;
  general.requirements.clear();
  writer.manifest.kernels.push_back(general);
  return writer;
}

BundleWriter constrainedBackward() {
  BundleWriter writer = backwardBundle();
  for (ProgramSpec &program : writer.manifest.programs)
    program.conditions = constraints(true);
  return writer;
}

template <typename Plan, typename Desc>
Result<Plan> quietPlanOf(const BundleWriter &writer, int64_t headDim, const DriverTable &driver) {
  Desc desc;
  desc.headDim = headDim;
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(*writer.bytes());
  if (!bundle)
    return bundle.status();
  Result<Plan> plan = Plan::create(driver, *bundle, desc);
  if (plan)
    if (Status status = plan->prepare(0); !status)
      return status;
  return plan;
}

const auto someStream = reinterpret_cast<cuda::Stream>(uintptr_t(0x5000));

void runQuietForward(benchmark::State &state, const BundleWriter &writer) {
  DriverTable driver = quietTable();
  auto plan = quietPlanOf<AttentionForward, AttentionForwardDesc>(writer, 128, driver);
  if (!plan)
    return state.SkipWithError("the plan cannot be prepared");
  AttentionForwardArguments arguments = quietArguments();
  for (auto _ : state)
    if (!plan->run(arguments, 0, 0, someStream))
      return state.SkipWithError("the run failed");
}

void quietTensorMaps(benchmark::State &state) { runQuietForward(state, quietAttention()); }
BENCHMARK(quietTensorMaps);

/// Runs use different arrays in turn, as in a model with that many layers. `maps` is the number of
/// tensor maps that a run encodes.
void quietTensorMapsOfLayers(benchmark::State &state) {
  DriverTable driver = quietTable();
  auto plan = quietPlanOf<AttentionForward, AttentionForwardDesc>(quietAttention(), 128, driver);
  if (!plan)
    return state.SkipWithError("the plan cannot be prepared");
  AttentionForwardArguments arguments = quietArguments();
  unsigned long before = numQuietMaps;
  int64_t layer = 0;
  for (auto _ : state) {
    layer = layer + 1 < state.range(0) ? layer + 1 : 0;
    for (Argument *view : {&arguments.q, &arguments.k, &arguments.v, &arguments.o})
      view->bits = 0x7f0000000000 + uint64_t(layer) * 0x2000000;
    if (!plan->run(arguments, 0, 0, someStream))
      return state.SkipWithError("the run failed");
  }
  state.counters["maps"] =
      benchmark::Counter(double(numQuietMaps - before), benchmark::Counter::kAvgIterations);
}
BENCHMARK(quietTensorMapsOfLayers)->Arg(1)->Arg(4)->Arg(16)->Arg(32)->Arg(80)->Arg(1000);

void quietForward(benchmark::State &state) { runQuietForward(state, forwardBundle()); }
BENCHMARK(quietForward);

void quietBackward(benchmark::State &state) {
  DriverTable driver = quietTable();
  auto plan =
      quietPlanOf<AttentionBackward, AttentionBackwardDesc>(constrainedBackward(), 64, driver);
  if (!plan)
    return state.SkipWithError("the plan cannot be prepared");
  Argument captures[2] = {Argument::dense(0xa0000, ElementType::F32, {8}), Argument::absent()};
  AttentionBackwardArguments arguments = backwardArguments(captures);
  for (auto _ : state)
    if (!plan->run(arguments, 0x100000, workspaceBytes, someStream))
      return state.SkipWithError("the run failed");
}
BENCHMARK(quietBackward);

/// A view of the C interface over an argument, which must outlive it.
struct CView {
  tilewright_view view;
  explicit CView(const Argument &a)
      : view{sizeof(view),
             reinterpret_cast<void *>(uintptr_t(a.bits)),
             tilewright_type(a.type),
             a.rank,
             a.extents,
             a.strides} {}
};

void quietForwardInC(benchmark::State &state) {
  DriverTable driver = quietTable();
  setDriverForTesting(&driver);
  std::string bytes = *forwardBundle().bytes();
  tilewright_bundle *bundle = nullptr;
  tilewright_attention_forward *plan = nullptr;
  tilewright_attention_forward_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_BF16;
  desc.head_dim = 128;
  if (tilewright_bundle_load(bytes.data(), bytes.size(), &bundle) ||
      tilewright_attention_forward_create(bundle, &desc, &plan) ||
      tilewright_attention_forward_prepare(plan, 0))
    return state.SkipWithError(tilewright_last_error());
  AttentionForwardArguments a = quietArguments();
  CView q(a.q), k(a.k), v(a.v), o(a.o);
  tilewright_attention_forward_args args = {};
  args.struct_size = sizeof(args);
  args.q = &q.view;
  args.k = &k.view;
  args.v = &v.view;
  args.o = &o.view;
  args.scale = 1;
  args.window_left = args.window_right = -1;
  for (auto _ : state)
    if (tilewright_attention_forward_run(plan, &args, nullptr, 0, someStream))
      return state.SkipWithError(tilewright_last_error());
  tilewright_attention_forward_destroy(plan);
  tilewright_bundle_close(bundle);
  setDriverForTesting(nullptr);
}
BENCHMARK(quietForwardInC);

/// Also queries the size of the workspace, as callers do before each run.
void quietBackwardInC(benchmark::State &state) {
  DriverTable driver = quietTable();
  setDriverForTesting(&driver);
  std::string bytes = *constrainedBackward().bytes();
  tilewright_bundle *bundle = nullptr;
  tilewright_attention_backward *plan = nullptr;
  tilewright_attention_backward_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.type = TILEWRIGHT_BF16;
  desc.head_dim = 64;
  if (tilewright_bundle_load(bytes.data(), bytes.size(), &bundle) ||
      tilewright_attention_backward_create(bundle, &desc, &plan) ||
      tilewright_attention_backward_prepare(plan, 0))
    return state.SkipWithError(tilewright_last_error());
  Argument slopesOf = Argument::dense(0xa0000, ElementType::F32, {8});
  AttentionBackwardArguments a = backwardArguments(nullptr);
  CView q(a.q), k(a.k), v(a.v), o(a.o), dO(a.dO), lse(a.lse), dQ(a.dQ), dK(a.dK), dV(a.dV),
      slopes(slopesOf);
  tilewright_argument capture = {};
  capture.struct_size = sizeof(capture);
  capture.name = "slopes";
  capture.view = &slopes.view;
  tilewright_attention_backward_args args = {};
  args.struct_size = sizeof(args);
  args.q = &q.view;
  args.k = &k.view;
  args.v = &v.view;
  args.o = &o.view;
  args.d_o = &dO.view;
  args.lse = &lse.view;
  args.d_q = &dQ.view;
  args.d_k = &dK.view;
  args.d_v = &dV.view;
  args.scale = 1;
  args.window_left = args.window_right = -1;
  args.captures = &capture;
  args.num_captures = 1;
  auto *workspace = reinterpret_cast<void *>(uintptr_t(0x100000));
  uint64_t needed = 0;
  for (auto _ : state)
    if (tilewright_attention_backward_workspace_size(plan, &args, 0, &needed) ||
        tilewright_attention_backward_run(plan, &args, workspace, needed, someStream))
      return state.SkipWithError(tilewright_last_error());
  tilewright_attention_backward_destroy(plan);
  tilewright_bundle_close(bundle);
  setDriverForTesting(nullptr);
}
BENCHMARK(quietBackwardInC);

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
  Result<const DriverTable *> driver = DriverTable::system();
  if (!driver)
    return state.SkipWithError("no CUDA driver");
  BundleWriter writer = quietAttention(), real;
  (void)writer.manifest.finalize(1);
  real.manifest = quietAttention().manifest;
  real.addPtx(emptyKernel(writer.manifest.kernels[0]));
  AttentionForwardDesc desc;
  desc.headDim = 128;
  Result<AttentionForward> plan =
      AttentionForward::create(**driver, *Bundle::fromBytes(*real.bytes()), desc);
  if (!plan)
    return state.SkipWithError(plan.status().message().c_str());
  if (Status status = plan->prepare(0); !status)
    return state.SkipWithError(status.message().c_str());
  // Google Benchmark calls this function several times; the context and its contents are kept.
  static Result<PrimaryContext> primary =
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
    if (++launches % 256 == 0) { // a launch would wait if the queue is full
      state.PauseTiming();
      (*driver)->cuStreamSynchronize(stream);
      state.ResumeTiming();
    }
  }
}
BENCHMARK(runWithRealDriver);

} // namespace

BENCHMARK_MAIN();
