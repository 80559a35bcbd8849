// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The entry points of libcuda.so.1 that the runtime uses, opened at run time. Tests fill a table
// with other functions.

#ifndef TILEWRIGHT_RUNTIME_DRIVERTABLE_H
#define TILEWRIGHT_RUNTIME_DRIVERTABLE_H

#include "base/Support/Status.h"
#include "runtime/CudaAbi.h"

#include <functional>

// X(need, name, symbol in the library, CUDA version of this signature, parameters)
// Optional functions are newer than the oldest driver that the runtime supports (11.2), or used by
// tools and the checking mode only.
#define TILEWRIGHT_DRIVER_FUNCTIONS(X)                                                             \
  X(Required, cuInit, "cuInit", 2000, (unsigned flags))                                            \
  X(Required, cuDriverGetVersion, "cuDriverGetVersion", 2020, (int *version))                      \
  X(Required, cuGetErrorName, "cuGetErrorName", 6000, (cuda::Result result, const char **name))    \
  X(Required, cuGetErrorString, "cuGetErrorString", 6000,                                          \
    (cuda::Result result, const char **text))                                                      \
  X(Required, cuDeviceGet, "cuDeviceGet", 2000, (cuda::Device * device, int ordinal))              \
  X(Required, cuDeviceGetCount, "cuDeviceGetCount", 2000, (int *count))                            \
  X(Required, cuDeviceGetName, "cuDeviceGetName", 2000, (char *name, int n, cuda::Device device))  \
  X(Required, cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000,                                  \
    (int *value, int attribute, cuda::Device device))                                              \
  X(Required, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000,                          \
    (cuda::Context * context, cuda::Device device))                                                \
  X(Required, cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", 11000,                    \
    (cuda::Device device))                                                                         \
  X(Optional, cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000,                      \
    (cuda::Device device, unsigned *flags, int *active))                                           \
  X(Required, cuCtxGetCurrent, "cuCtxGetCurrent", 4000, (cuda::Context * context))                 \
  X(Required, cuCtxPushCurrent, "cuCtxPushCurrent_v2", 4000, (cuda::Context context))              \
  X(Required, cuCtxPopCurrent, "cuCtxPopCurrent_v2", 4000, (cuda::Context * context))              \
  X(Required, cuCtxGetDevice, "cuCtxGetDevice", 2000, (cuda::Device * device))                     \
  X(Required, cuStreamGetCtx, "cuStreamGetCtx", 9020,                                              \
    (cuda::Stream stream, cuda::Context * context))                                                \
  X(Required, cuStreamIsCapturing, "cuStreamIsCapturing", 10000,                                   \
    (cuda::Stream stream, int *status))                                                            \
  X(Required, cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010,                                      \
    (cuda::Module * module, const void *image, unsigned n, int *options, void **values))           \
  X(Required, cuModuleUnload, "cuModuleUnload", 2000, (cuda::Module module))                       \
  X(Required, cuModuleGetFunction, "cuModuleGetFunction", 2000,                                    \
    (cuda::Function * function, cuda::Module module, const char *name))                            \
  X(Required, cuFuncSetAttribute, "cuFuncSetAttribute", 9000,                                      \
    (cuda::Function function, int attribute, int value))                                           \
  X(Required, cuLaunchKernel, "cuLaunchKernel", 4000,                                              \
    (cuda::Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,     \
     unsigned blockY, unsigned blockZ, unsigned sharedBytes, cuda::Stream stream, void **params,   \
     void **extra))                                                                                \
  X(Required, cuMemsetD32Async, "cuMemsetD32Async", 3020,                                          \
    (cuda::DevicePtr address, unsigned value, size_t n, cuda::Stream stream))                      \
  X(Optional, cuLibraryLoadData, "cuLibraryLoadData", 12000,                                       \
    (cuda::Library * library, const void *code, int *jitOptions, void **jitValues,                 \
     unsigned numJit, int *options, void **values, unsigned n))                                    \
  X(Optional, cuLibraryUnload, "cuLibraryUnload", 12000, (cuda::Library library))                  \
  X(Optional, cuLibraryGetKernel, "cuLibraryGetKernel", 12000,                                     \
    (cuda::Kernel * kernel, cuda::Library library, const char *name))                              \
  X(Optional, cuKernelGetAttribute, "cuKernelGetAttribute", 12000,                                 \
    (int *value, int attribute, cuda::Kernel kernel, cuda::Device device))                         \
  X(Optional, cuKernelSetAttribute, "cuKernelSetAttribute", 12000,                                 \
    (int attribute, int value, cuda::Kernel kernel, cuda::Device device))                          \
  X(Optional, cuKernelGetParamInfo, "cuKernelGetParamInfo", 12040,                                 \
    (cuda::Kernel kernel, size_t index, size_t *offset, size_t *bytes))                            \
  X(Optional, cuKernelGetFunction, "cuKernelGetFunction", 12000,                                   \
    (cuda::Function * function, cuda::Kernel kernel))                                              \
  X(Optional, cuFuncLoad, "cuFuncLoad", 12040, (cuda::Function function))                          \
  X(Optional, cuLaunchKernelEx, "cuLaunchKernelEx", 11060,                                         \
    (const cuda::LaunchConfig *config, cuda::Function function, void **params, void **extra))      \
  X(Optional, cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", 12000,                             \
    (cuda::TensorMap * map, int type, uint32_t rank, void *address, const uint64_t *extents,       \
     const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,          \
     int swizzle, int promotion, int fill))                                                        \
  X(Optional, cuLinkCreate, "cuLinkCreate_v2", 6050,                                               \
    (unsigned n, int *options, void **values, cuda::LinkState *state))                             \
  X(Optional, cuLinkAddData, "cuLinkAddData_v2", 6050,                                             \
    (cuda::LinkState state, int type, void *data, size_t bytes, const char *name, unsigned n,      \
     int *options, void **values))                                                                 \
  X(Optional, cuLinkComplete, "cuLinkComplete", 5050,                                              \
    (cuda::LinkState state, void **cubin, size_t *bytes))                                          \
  X(Optional, cuLinkDestroy, "cuLinkDestroy", 5050, (cuda::LinkState state))                       \
  X(Optional, cuMemAlloc, "cuMemAlloc_v2", 3020, (cuda::DevicePtr * address, size_t bytes))        \
  X(Optional, cuMemFree, "cuMemFree_v2", 3020, (cuda::DevicePtr address))                          \
  X(Optional, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", 3020,                                     \
    (cuda::DevicePtr to, const void *from, size_t bytes, cuda::Stream stream))                     \
  X(Optional, cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", 3020,                                     \
    (void *to, cuda::DevicePtr from, size_t bytes, cuda::Stream stream))                           \
  X(Optional, cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", 3020,                                     \
    (cuda::DevicePtr to, cuda::DevicePtr from, size_t bytes, cuda::Stream stream))                 \
  X(Optional, cuMemcpy2DAsync, "cuMemcpy2DAsync_v2", 3020,                                         \
    (const cuda::RowCopy *copy, cuda::Stream stream))                                              \
  X(Optional, cuStreamQuery, "cuStreamQuery", 2000, (cuda::Stream stream))                         \
  X(Optional, cuStreamWaitEvent, "cuStreamWaitEvent", 3020,                                        \
    (cuda::Stream stream, cuda::Event event, unsigned flags))                                      \
  X(Optional, cuStreamCreate, "cuStreamCreate", 2000, (cuda::Stream * stream, unsigned flags))     \
  X(Optional, cuStreamDestroy, "cuStreamDestroy_v2", 4000, (cuda::Stream stream))                  \
  X(Optional, cuStreamSynchronize, "cuStreamSynchronize", 2000, (cuda::Stream stream))             \
  X(Optional, cuStreamBeginCapture, "cuStreamBeginCapture_v2", 10010,                              \
    (cuda::Stream stream, int mode))                                                               \
  X(Optional, cuStreamEndCapture, "cuStreamEndCapture", 10000,                                     \
    (cuda::Stream stream, cuda::Graph * graph))                                                    \
  X(Optional, cuGraphInstantiate, "cuGraphInstantiateWithFlags", 11040,                            \
    (cuda::GraphExec * executable, cuda::Graph graph, unsigned long long flags))                   \
  X(Optional, cuGraphLaunch, "cuGraphLaunch", 10000,                                               \
    (cuda::GraphExec executable, cuda::Stream stream))                                             \
  X(Optional, cuGraphExecDestroy, "cuGraphExecDestroy", 10000, (cuda::GraphExec executable))       \
  X(Optional, cuGraphDestroy, "cuGraphDestroy", 10000, (cuda::Graph graph))                        \
  X(Optional, cuEventCreate, "cuEventCreate", 2000, (cuda::Event * event, unsigned flags))         \
  X(Optional, cuEventRecord, "cuEventRecord", 2000, (cuda::Event event, cuda::Stream stream))      \
  X(Optional, cuEventElapsedTime, "cuEventElapsedTime", 2000,                                      \
    (float *milliseconds, cuda::Event start, cuda::Event end))                                     \
  X(Optional, cuEventDestroy, "cuEventDestroy_v2", 4000, (cuda::Event event))

namespace tilewright::runtime {

/// Pointers to driver functions; each has the driver's name. Optional ones may be null. A table of
/// nulls, as the constructor makes it, stands for a driver that is missing: with it operations are
/// created and inspected, and what calls the driver fails with Code::NoDriver.
struct DriverTable {
#define TILEWRIGHT_DRIVER_FIELD(need, name, symbol, version, parameters)                           \
  cuda::Result(*name) parameters = nullptr;
  TILEWRIGHT_DRIVER_FUNCTIONS(TILEWRIGHT_DRIVER_FIELD)
#undef TILEWRIGHT_DRIVER_FIELD

  /// The driver of this machine, opened and initialized once; it stays open. Code::NoDriver if
  /// there is none.
  static Result<const DriverTable *> system();

  /// Looks up each function by the symbol's name and the CUDA version of its signature; `find`
  /// returns null for missing functions.
  static Result<DriverTable>
  load(const std::function<void *(const char *symbol, int version)> &find);

  /// Code::NoDriver for a table of nulls.
  Status expectFunctions() const;

  /// Success for cuda::Success; else a Status with the attempted action ("load kernel 'x'"), the
  /// call, and the driver's name and description of the error.
  Status check(cuda::Result result, const char *call, const std::string &attempted,
               const std::string &log = std::string()) const;

  /// CUDA version of the driver, as 1000 * major + 10 * minor.
  Result<int> version() const;
  /// Whether a launch may start before the previous one has ended, also in a captured graph.
  bool hasDependentLaunches() const;
};

/// "12.4" for 12040.
std::string cudaVersionText(int version);
/// The first CUDA version whose driver reads this version of PTX; 10 * major + minor, as in 80 for
/// ".version 8.0". Unknown versions need more than any known driver.
int cudaVersionForPtx(int ptxVersion);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DRIVERTABLE_H
