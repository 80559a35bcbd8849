// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the binary interface of XLA's foreign functions that the runtime uses: the frame of a
// call, buffers, attributes, errors and the stream, as xla/ffi/api/c_api.h of version 0.3 declares
// them. Declared here so that building needs neither XLA nor JAX. Later versions append to structs;
// python/tests/test_jax.py compares these declarations with the header of the installed JAX.

#ifndef TILEWRIGHT_RUNTIME_XLAFFIABI_H
#define TILEWRIGHT_RUNTIME_XLAFFIABI_H

#include <cstddef>
#include <cstdint>

namespace tilewright::runtime::xla {

using Error = struct ErrorOpaque;
using ExecutionContext = struct ExecutionContextOpaque;
using InternalApi = struct InternalApiOpaque;

constexpr int majorVersion = 0, minorVersion = 3;

enum DataType : int {
  Pred = 1,
  S32 = 4,
  S64 = 5,
  U32 = 8,
  F16 = 10,
  F32 = 11,
  F64 = 12,
  BF16 = 16,
  F8E5M2 = 19,
  F8E4M3FN = 20,
};
enum ErrorCode : int {
  Unknown = 2,
  InvalidArgument = 3,
  NotFound = 5,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
};
enum ExtensionType : int { MetadataExtensionType = 1 };
enum ValueType : int { BufferType = 1 }; // of arguments and of results
enum AttributeType : int { StringAttribute = 4 };
enum Stage : int { Execute = 3 };
enum Traits : uint32_t { CommandBufferCompatible = 1 };

struct ExtensionBase {
  size_t structSize;
  ExtensionType type;
  ExtensionBase *next;
};

struct ApiVersion {
  size_t structSize;
  ExtensionBase *extensions;
  int major, minor;
};

struct ByteSpan {
  const char *data;
  size_t size;
};

struct Buffer {
  size_t structSize;
  ExtensionBase *extensions;
  DataType type;
  void *data;
  int64_t rank;
  int64_t *extents;
};

/// Arguments or results.
struct Values {
  size_t structSize;
  ExtensionBase *extensions;
  int64_t size;
  ValueType *types;
  void **values;
};

struct Attributes {
  size_t structSize;
  ExtensionBase *extensions;
  int64_t size;
  AttributeType *types;
  ByteSpan **names;
  void **values;
};

struct ErrorCreateArguments {
  size_t structSize;
  ExtensionBase *extensions;
  const char *message;
  ErrorCode code;
};

struct StreamGetArguments {
  size_t structSize;
  ExtensionBase *extensions;
  ExecutionContext *context;
  void *stream; // out
};

struct Api {
  size_t structSize;
  ExtensionBase *extensions;
  ApiVersion version;
  const InternalApi *internal;
  Error *(*createError)(ErrorCreateArguments *);
  void (*getMessage)(void *);
  void (*destroyError)(void *);
  Error *(*registerHandler)(void *);
  Error *(*getStream)(StreamGetArguments *);
};

struct CallFrame {
  size_t structSize;
  ExtensionBase *extensions;
  const Api *api;
  ExecutionContext *context;
  Stage stage;
  Values arguments, results;
  Attributes attributes;
};

struct Metadata {
  size_t structSize;
  ApiVersion version;
  uint32_t traits;
};

struct MetadataExtension {
  ExtensionBase base;
  Metadata *metadata;
};

} // namespace tilewright::runtime::xla

#endif // TILEWRIGHT_RUNTIME_XLAFFIABI_H
