// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared code of the runtime's fuzz targets: the fake driver of the unit tests with functions that
// copy from device memory, and valid, almost valid, and invalid arguments of a contract.

#ifndef TILEWRIGHT_TEST_FUZZ_RUNTIMEFUZZING_H
#define TILEWRIGHT_TEST_FUZZ_RUNTIMEFUZZING_H

#include "FuzzedData.h"

#include "test/Unit/RuntimeTesting.h"

namespace tilewright::runtime::testing {

/// Aborts if a condition does not hold: the fuzzer keeps the input.
inline void require(bool holds) {
  if (!holds)
    __builtin_trap();
}

/// The fake of the unit tests, which can also read arrays: element i of each is i modulo 7.
inline const DriverTable &fuzzTable() {
  static const DriverTable table = [] {
    DriverTable made = fakeTable();
    made.cuMemcpyDtoHAsync = [](void *to, cuda::DevicePtr, size_t bytes,
                                cuda::Stream) -> cuda::Result {
      if (cuda::Result failure = fake().enter("cuMemcpyDtoHAsync"))
        return failure;
      for (size_t i = 0; i < bytes; ++i)
        static_cast<unsigned char *>(to)[i] = i % 4 ? 0 : (unsigned char)(i / 4 % 7);
      return cuda::Success;
    };
    made.cuStreamSynchronize = [](cuda::Stream) -> cuda::Result {
      return fake().enter("cuStreamSynchronize");
    };
    return made;
  }();
  return table;
}

/// A new fake, one function of which may fail.
inline void resetFake(FuzzedDataProvider &data) {
  fake() = FakeDriver();
  static const char *const functions[] = {
      "cuDeviceGet",          "cuDeviceGetCount",    "cuDevicePrimaryCtxRetain",
      "cuCtxGetCurrent",      "cuCtxPushCurrent",    "cuStreamGetCtx",
      "cuLibraryLoadData",    "cuLibraryGetKernel",  "cuLaunchKernel",
      "cuKernelSetAttribute", "cuLaunchKernelEx",    "cuMemsetD32Async",
      "cuMemcpyDtoHAsync",    "cuFuncLoad",          "cuTensorMapEncodeTiled",
      "cuStreamSynchronize",  "cuKernelGetAttribute"};
  if (data.ConsumeBool())
    fake().failures[data.PickValueInArray(functions)] = data.PickValueInArray<cuda::Result>(
        {cuda::ErrorOutOfMemory, cuda::ErrorInvalidPtx, 700, 999});
  fake().major = data.PickValueInArray({8, 9, 10, 12, 7});
  fake().minor = data.PickValueInArray({0, 6, 9});
  fake().isCapturing = data.ConsumeProbability<float>() < 0.1f;
}

/// Everything that an operation loaded and retained must be released with it.
inline void requireNothingHeld() {
  require(fake().loaded == 0 && fake().retained == 0 && fake().contexts.empty());
}

/// Arguments of a contract: most often valid, sometimes with another extent, type, rank or kind.
inline Argument makeArgument(FuzzedDataProvider &data, const ArgumentSpec &spec) {
  static constexpr int64_t numbers[] = {
      0,         1,        2, 3, 7, 16, 64, 128, 1000, 4096, -1, INT32_MAX, int64_t(1) << 32,
      INT64_MAX, INT64_MIN};
  static constexpr int64_t sizes[] = {0, 1, 2, 3, 7, 16, 64, 128, 1000};
  bool isWrong = data.ConsumeIntegralInRange(0, 15) == 0;
  if (isWrong && data.ConsumeBool())
    return Argument::absent();
  auto type = spec.type;
  if (isWrong)
    type = ElementType(data.ConsumeIntegralInRange(0u, numElementTypes - 1));
  if (spec.isView == (isWrong && data.ConsumeBool())) {
    int64_t bits = data.PickValueInArray(numbers);
    return Argument::scalar(type, &bits);
  }
  if (spec.isOptional && data.ConsumeBool())
    return Argument::absent();
  auto rank = unsigned(spec.extents.size());
  if (isWrong)
    rank = data.ConsumeIntegralInRange(0u, maxRank);
  int64_t extents[maxRank] = {}, strides[maxRank] = {}, stride = 1;
  bool isDense = data.ConsumeBool();
  for (unsigned i = rank; i-- > 0;) {
    extents[i] = i < spec.extents.size() && spec.extents[i] >= 0 ? spec.extents[i]
                 : isWrong                                       ? data.PickValueInArray(numbers)
                                                                 : data.PickValueInArray(sizes);
    strides[i] = isDense ? stride : data.PickValueInArray(numbers);
    if (__builtin_mul_overflow(stride, extents[i], &stride))
      stride = 1;
  }
  uint64_t address = isWrong ? uint64_t(data.PickValueInArray(numbers)) : 0x10000;
  return Argument::view(address, type, rank, extents, strides);
}

} // namespace tilewright::runtime::testing

#endif // TILEWRIGHT_TEST_FUZZ_RUNTIMEFUZZING_H
