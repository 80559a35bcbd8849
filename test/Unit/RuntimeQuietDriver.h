// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A driver whose functions do nothing and succeed: a test and a benchmark use it to measure the
// runtime alone.

#ifndef TILEWRIGHT_TEST_UNIT_RUNTIMEQUIETDRIVER_H
#define TILEWRIGHT_TEST_UNIT_RUNTIMEQUIETDRIVER_H

#include "runtime/AttentionForward.h"

#include <atomic>

namespace tilewright::runtime::testing {

inline std::atomic<unsigned long> numQuietLaunches{0};
inline std::atomic<unsigned long> numQuietMaps{0}; // number of maps encoded

inline DriverTable quietTable() {
  DriverTable table;
  using Result = cuda::Result;
  static const auto someContext = reinterpret_cast<cuda::Context>(uintptr_t(0x1000));
  table.cuDriverGetVersion = [](int *version) -> Result { return *version = 13000, 0; };
  table.cuDeviceGet = [](cuda::Device *device, int ordinal) -> Result {
    return *device = ordinal, 0;
  };
  table.cuDeviceGetCount = [](int *count) -> Result { return *count = 1, 0; };
  table.cuDeviceGetName = [](char *, int, cuda::Device) -> Result { return 0; };
  table.cuDeviceGetAttribute = [](int *value, int attribute, cuda::Device) -> Result {
    *value = attribute == cuda::AttributeComputeMajor   ? 9
             : attribute == cuda::AttributeComputeMinor ? 0
                                                        : 232448;
    return 0;
  };
  table.cuDevicePrimaryCtxRetain = [](cuda::Context *context, cuda::Device) -> Result {
    return *context = someContext, 0;
  };
  table.cuDevicePrimaryCtxRelease = [](cuda::Device) -> Result { return 0; };
  table.cuCtxGetCurrent = [](cuda::Context *context) -> Result { return *context = nullptr, 0; };
  table.cuCtxPushCurrent = [](cuda::Context) -> Result { return 0; };
  table.cuCtxPopCurrent = [](cuda::Context *) -> Result { return 0; };
  table.cuCtxGetDevice = [](cuda::Device *device) -> Result { return *device = 0, 0; };
  table.cuStreamGetCtx = [](cuda::Stream, cuda::Context *context) -> Result {
    return *context = someContext, 0;
  };
  table.cuModuleLoadDataEx = [](cuda::Module *module, const void *, unsigned, int *,
                                void **) -> Result { return *module = nullptr, 0; };
  table.cuModuleUnload = [](cuda::Module) -> Result { return 0; };
  table.cuModuleGetFunction = [](cuda::Function *function, cuda::Module, const char *) -> Result {
    return *function = nullptr, 0;
  };
  table.cuFuncSetAttribute = [](cuda::Function, int, int) -> Result { return 0; };
  table.cuMemsetD32Async = [](cuda::DevicePtr, unsigned, size_t, cuda::Stream) -> Result {
    return 0;
  };
  table.cuLaunchKernel = [](cuda::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, unsigned, cuda::Stream, void **,
                            void **) -> Result { return ++numQuietLaunches, 0; };
  table.cuTensorMapEncodeTiled = [](cuda::TensorMap *, int, uint32_t, void *, const uint64_t *,
                                    const uint64_t *, const uint32_t *, const uint32_t *, int, int,
                                    int, int) -> Result { return ++numQuietMaps, 0; };
  return table;
}

/// attention_forward of D 128 with tensor maps, requirements and a condition.
inline BundleWriter quietAttention() {
  KernelSpec kernel;
  kernel.name = "attention_forward";
  kernel.params = {{"D", Expr::integer(128)},
                   {"DV", Expr::integer(128)},
                   {"T", Expr::symbol(Expr::Kind::Type, "bf16")},
                   {"CAUSAL", Expr::symbol(Expr::Kind::Enum, "none")},
                   {"WINDOW", Expr::flag(false)}};
  for (const char *name : {"q", "k", "v", "o"})
    kernel.arguments.push_back(ArgumentSpec::view(name, ElementType::BF16, {-1, -1, -1, 128}));
  kernel.arguments.push_back(ArgumentSpec::view("lse", ElementType::F32, {-1, -1, -1}, true));
  kernel.arguments.push_back(ArgumentSpec::scalar("scale", ElementType::F32));
  kernel.arguments.push_back(ArgumentSpec::scalar("window_left", ElementType::I32));
  kernel.arguments.push_back(ArgumentSpec::scalar("window_right", ElementType::I32));
  kernel.entry = "attention";
  kernel.codes = {{CodeSpec::Kind::Ptx, *Arch::parse("sm_90a"), 80, 0}};
  Expr blocks = *Expr::call("ceildiv", {Expr::dim("q", 2), Expr::integer(128)});
  Expr heads = *Expr::call("*", {Expr::dim("q", 0), Expr::dim("q", 1)});
  kernel.grid = {*Expr::call("*", {blocks, heads})};
  kernel.conditions = {*Expr::call("ge", {Expr::dim("k", 2), Expr::integer(1)})};
  kernel.block = {384, 1, 1};
  kernel.sharedBytes = 200000;
  for (uint32_t i = 0; i < 4; ++i) {
    kernel.requirements.push_back({i, 16, true});
    kernel.tensorMaps.push_back({i, {1, 1, 128, 64}, Swizzle::B128});
  }
  BundleWriter writer;
  writer.addPtx(".version 8.0\n.entry attention()\n.entry general()");
  writer.manifest.kernels = {kernel};
  return writer;
}

inline AttentionForwardArguments quietArguments() {
  AttentionForwardArguments arguments;
  arguments.q = Argument::dense(0x10000, ElementType::BF16, {4, 16, 4096, 128});
  arguments.k = arguments.v = arguments.o = arguments.q;
  return arguments;
}

inline Result<AttentionForward> quietPlan(const DriverTable &driver) {
  Result<std::string> bytes = quietAttention().bytes();
  if (!bytes)
    return bytes.status();
  Result<std::shared_ptr<const Bundle>> bundle = Bundle::fromBytes(*bytes);
  if (!bundle)
    return bundle.status();
  AttentionForwardDesc desc;
  desc.headDim = 128;
  return AttentionForward::create(driver, *bundle, desc);
}

} // namespace tilewright::runtime::testing

#endif // TILEWRIGHT_TEST_UNIT_RUNTIMEQUIETDRIVER_H
