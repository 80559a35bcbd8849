// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A library in place of libcuda.so.1, of four GPUs of compute capability 9.0 whose memory is that
// of the host. Streams do their work at once, and kernels do nothing. Each device has a log of its
// calls; FAKE_CUDA_FAIL names a function that fails. DistributedCudaTest.cpp opens it, and the test
// of examples/context_parallel.cpp runs the program with it.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

using Result = int;
using Context = uintptr_t; // 1 + number of the device

std::mutex mutex;
std::map<Context, std::string> logs;
std::map<Context, uintptr_t> numStreams;
thread_local std::vector<Context> contexts;

/// Logs a call of the current device, and returns what it shall return. Calls that need a context
/// fail without one.
Result enter(const char *name, const std::string &text) {
  std::lock_guard<std::mutex> lock(mutex);
  const char *failing = std::getenv("FAKE_CUDA_FAIL");
  if (failing && !std::strcmp(failing, name))
    return 999;
  if (contexts.empty())
    return 201; // CUDA_ERROR_INVALID_CONTEXT
  logs[contexts.back()] += text + ";";
  return 0;
}

std::string onStream(uintptr_t stream) { return " on " + std::to_string(stream & 0xff); }

struct RowCopy {
  size_t fromX, fromY;
  int fromType;
  const void *fromHost;
  uint64_t from;
  void *fromArray;
  size_t fromPitch, toX, toY;
  int toType;
  void *toHost;
  uint64_t to;
  void *toArray;
  size_t toPitch, width, height;
};

void copy(uint64_t to, uint64_t from, size_t bytes) {
  std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) Result

extern "C" __attribute__((visibility("default"))) const char *fakeCudaLog(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  return logs[Context(device + 1)].c_str();
}
extern "C" __attribute__((visibility("default"))) void fakeCudaReset() {
  std::lock_guard<std::mutex> lock(mutex);
  logs.clear(), numStreams.clear();
}

EXPORT cuInit(unsigned) { return 0; }
EXPORT cuDriverGetVersion(int *version) { return *version = 12080, 0; }
EXPORT cuGetErrorName(Result, const char **name) { return *name = "CUDA_ERROR_FAKE", 0; }
EXPORT cuGetErrorString(Result, const char **text) { return *text = "fake", 0; }
EXPORT cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
EXPORT cuDeviceGetCount(int *count) { return *count = 4, 0; }
EXPORT cuDeviceGetName(char *name, int, int) { return std::strcpy(name, "fake"), 0; }
EXPORT cuDeviceGetAttribute(int *value, int attribute, int) {
  // Numbers of CUdevice_attribute: multiprocessors, compute capability, shared memory.
  *value = attribute == 16 ? 132 : attribute == 75 ? 9 : attribute == 76 ? 0 : 232448;
  return 0;
}
EXPORT cuDevicePrimaryCtxRetain(Context *context, int device) {
  return *context = Context(device + 1), 0;
}
EXPORT cuDevicePrimaryCtxRelease_v2(int) { return 0; }
EXPORT cuCtxGetCurrent(Context *context) {
  return *context = contexts.empty() ? 0 : contexts.back(), 0;
}
EXPORT cuCtxPushCurrent_v2(Context context) { return contexts.push_back(context), 0; }
EXPORT cuCtxPopCurrent_v2(Context *context) {
  *context = contexts.back();
  return contexts.pop_back(), 0;
}
EXPORT cuCtxGetDevice(int *device) { return *device = int(contexts.back()) - 1, 0; }
// A stream is its context, and its number in that from 1 on.
EXPORT cuStreamGetCtx(uintptr_t stream, Context *context) { return *context = stream >> 8, 0; }
EXPORT cuStreamIsCapturing(uintptr_t, int *status) { return *status = 0, 0; }
EXPORT cuStreamCreate(uintptr_t *stream, unsigned) {
  Result result = enter("cuStreamCreate", "stream");
  std::lock_guard<std::mutex> lock(mutex);
  if (!result)
    *stream = contexts.back() << 8 | ++numStreams[contexts.back()];
  return result;
}
EXPORT cuStreamDestroy_v2(uintptr_t) { return enter("cuStreamDestroy", "no stream"); }
EXPORT cuStreamQuery(uintptr_t) { return 0; }
EXPORT cuStreamSynchronize(uintptr_t) { return 0; }
EXPORT cuStreamWaitEvent(uintptr_t stream, void *, unsigned) {
  return enter("cuStreamWaitEvent", "wait" + onStream(stream));
}
EXPORT cuEventCreate(void **event, unsigned) {
  static int handle;
  *event = &handle;
  return enter("cuEventCreate", "event");
}
EXPORT cuEventRecord(void *, uintptr_t stream) {
  return enter("cuEventRecord", "record" + onStream(stream));
}
EXPORT cuEventDestroy_v2(void *) { return enter("cuEventDestroy", "no event"); }
EXPORT cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  void *memory = nullptr;
  if (posix_memalign(&memory, 256, bytes))
    return 2;
  std::memset(memory, 0, bytes);
  *address = reinterpret_cast<uint64_t>(memory);
  Result result = enter("cuMemAlloc", "allocate");
  if (result)
    std::free(memory);
  return result;
}
EXPORT cuMemFree_v2(uint64_t address) {
  std::free(reinterpret_cast<void *>(address));
  return enter("cuMemFree", "free");
}
EXPORT cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, uintptr_t stream) {
  copy(to, reinterpret_cast<uint64_t>(from), bytes);
  return enter("cuMemcpyHtoDAsync", "upload " + std::to_string(bytes) + onStream(stream));
}
EXPORT cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, uintptr_t stream) {
  copy(reinterpret_cast<uint64_t>(to), from, bytes);
  return enter("cuMemcpyDtoHAsync", "download " + std::to_string(bytes) + onStream(stream));
}
EXPORT cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, uintptr_t stream) {
  copy(to, from, bytes);
  return enter("cuMemcpyDtoDAsync", "copy " + std::to_string(bytes) + onStream(stream));
}
EXPORT cuMemcpy2DAsync_v2(const RowCopy *rows, uintptr_t stream) {
  if (rows->fromType != 2 || rows->toType != 2)
    return 1;
  for (size_t row = 0; row < rows->height; ++row)
    copy(rows->to + row * rows->toPitch, rows->from + row * rows->fromPitch, rows->width);
  return enter("cuMemcpy2DAsync", "copy " + std::to_string(rows->height) + " rows of " +
                                      std::to_string(rows->width) + onStream(stream));
}
EXPORT cuMemsetD32Async(uint64_t, unsigned, size_t, uintptr_t stream) {
  return enter("cuMemsetD32Async", "fill" + onStream(stream));
}
EXPORT cuModuleLoadDataEx(void **module, const void *, unsigned, int *, void **) {
  static int handle;
  return *module = &handle, 0;
}
EXPORT cuModuleUnload(void *) { return 0; }
EXPORT cuModuleGetFunction(void **function, void *, const char *) {
  static int handle;
  return *function = &handle, 0;
}
EXPORT cuFuncSetAttribute(void *, int, int) { return 0; }
EXPORT cuTensorMapEncodeTiled(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                              const uint32_t *, const uint32_t *, int, int, int, int) {
  return 0;
}
EXPORT cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      uintptr_t stream, void **, void **) {
  return enter("cuLaunchKernel", "launch" + onStream(stream));
}
EXPORT cuLaunchKernelEx(const void *config, void *, void **, void **) {
  uintptr_t stream; // behind nine numbers of CUlaunchConfig
  std::memcpy(&stream, static_cast<const char *>(config) + 32, sizeof(stream));
  return enter("cuLaunchKernel", "launch" + onStream(stream));
}
