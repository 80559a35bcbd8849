// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the CUDA driver's binary interface that the runtime uses: handles, structs and the
// values of enumerations, as NVIDIA documents them. Declared here so that building needs no CUDA.

#ifndef TILEWRIGHT_RUNTIME_CUDAABI_H
#define TILEWRIGHT_RUNTIME_CUDAABI_H

#include <cstddef>
#include <cstdint>

namespace tilewright::runtime::cuda {

using Result = int;
using Device = int;
using DevicePtr = uint64_t;
using Context = struct ContextOpaque *;
using Stream = struct StreamOpaque *;
using Event = struct EventOpaque *;
using Graph = struct GraphOpaque *;
using GraphExec = struct GraphExecOpaque *;
using Module = struct ModuleOpaque *;
using Function = struct FunctionOpaque *;
using Library = struct LibraryOpaque *;
using Kernel = struct KernelOpaque *;
using LinkState = struct LinkStateOpaque *;

enum : Result {
  Success = 0,
  ErrorInvalidValue = 1,
  ErrorOutOfMemory = 2,
  ErrorNoDevice = 100,
  ErrorInvalidImage = 200,
  ErrorNoBinaryForGpu = 209,
  ErrorInvalidPtx = 218,
  ErrorJitCompilerNotFound = 221,
  ErrorUnsupportedPtxVersion = 222,
  ErrorNotFound = 500,
  ErrorNotReady = 600,
  ErrorAssert = 710,
};

// CUdevice_attribute
enum : int {
  AttributeSmCount = 16,
  AttributeThreadsOfMultiprocessor = 39,
  AttributeComputeMajor = 75,
  AttributeComputeMinor = 76,
  AttributeSharedOfMultiprocessor = 81,
  AttributeRegistersOfMultiprocessor = 82,
  AttributeSharedMemoryOptin = 97,
  AttributeReservedSharedOfBlock = 111,
};

// CUfunction_attribute
enum : int {
  FunctionStaticShared = 1,
  FunctionRegisters = 4,
  FunctionMaxDynamicShared = 8,
  FunctionNonPortableCluster = 14,
};

// CUjit_option
enum : int {
  JitErrorLogBuffer = 5,
  JitErrorLogBytes = 6,
};

// CUjitInputType
enum : int { JitInputPtx = 1 };

// CUstreamCaptureStatus
enum : int { CaptureNone = 0, CaptureActive = 1 };

// Stream handles that denote the default streams of the current context.
inline const Stream streamLegacy = reinterpret_cast<Stream>(uintptr_t(1));
inline const Stream streamPerThread = reinterpret_cast<Stream>(uintptr_t(2));

inline constexpr int launchAttributeClusterDimension = 4;
inline constexpr int launchAttributeProgrammaticSerialization = 6;

struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } clusterDim;
    int programmaticSerialization;
    uint64_t align;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72, "the driver's CUlaunchAttribute");

struct LaunchConfig {
  unsigned gridX, gridY, gridZ;
  unsigned blockX, blockY, blockZ;
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned numAttributes;
};
static_assert(sizeof(LaunchConfig) == 56, "the driver's CUlaunchConfig");

// CUmemorytype
inline constexpr int memoryDevice = 2;

/// CUDA_MEMCPY2D: a copy of rows that are `pitch` bytes apart.
struct RowCopy {
  size_t fromX = 0, fromY = 0;
  int fromType = memoryDevice;
  const void *fromHost = nullptr;
  DevicePtr from = 0;
  void *fromArray = nullptr;
  size_t fromPitch = 0;
  size_t toX = 0, toY = 0;
  int toType = memoryDevice;
  void *toHost = nullptr;
  DevicePtr to = 0;
  void *toArray = nullptr;
  size_t toPitch = 0;
  size_t width = 0, height = 0;
};
static_assert(sizeof(RowCopy) == 128, "the driver's CUDA_MEMCPY2D");

struct alignas(64) TensorMap {
  uint64_t opaque[16];
};
static_assert(sizeof(TensorMap) == 128, "the driver's CUtensorMap");

// CUtensorMapDataType
enum : int {
  TensorUint8 = 0,
  TensorInt32 = 3,
  TensorInt64 = 5,
  TensorFloat16 = 6,
  TensorFloat32 = 7,
  TensorFloat64 = 8,
  TensorBfloat16 = 9,
};
inline constexpr int tensorInterleaveNone = 0;
/// CUtensorMapSwizzle for panels with this number of bytes: 0 for 0, 1 for 32, 2 for 64, 3 for 128.
constexpr int tensorSwizzle(int bytes) { return bytes >= 64 ? bytes / 64 + 1 : bytes / 32; }
inline constexpr int tensorPromotion128 = 2;
inline constexpr int tensorFillZero = 0;

inline constexpr unsigned maxGridX = 2147483647u, maxGridYZ = 65535u;

} // namespace tilewright::runtime::cuda

#endif // TILEWRIGHT_RUNTIME_CUDAABI_H
