// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NCCL as the transport of ranks on GPUs: of threads of one process, or of processes of one or
// several hosts. libnccl.so.2 is opened at run time, and nothing of it is needed to build.

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_NCCL_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_NCCL_H

#include "runtime/Distributed/Communicator.h"

#include "runtime/DriverTable.h"

#include <chrono>
#include <memory>

/// The part of NCCL's binary interface that is used, with NCCL's own numbers.
namespace tilewright::runtime::nccl {

using Result = int;
using Comm = struct CommOpaque *;

enum : Result { Success = 0, InProgress = 7 };
enum : int { Uint8 = 1, Int32 = 2, Int64 = 4, Float32 = 7, Float64 = 8 }; // ncclDataType_t
enum : int { Sum = 0, Max = 2, Min = 3 };                                 // ncclRedOp_t

struct UniqueId {
  char bytes[128] = {};
};

/// ncclConfig_t of NCCL 2.17; later versions read as many bytes as it says it has.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21700;
  int blocking = 0;
  int cgaClusterSize = undefined, minCtas = undefined, maxCtas = undefined;
  const char *netName = nullptr;

  static constexpr int undefined = -2147483647 - 1;
};

/// The oldest version that works, as ncclGetVersion returns it: 2.17, whose communicators need not
/// block.
inline constexpr int oldestVersion = 21700;

// X(name, parameters)
#define TILEWRIGHT_NCCL_FUNCTIONS(X)                                                               \
  X(ncclGetVersion, (int *version))                                                                \
  X(ncclGetUniqueId, (nccl::UniqueId * id))                                                        \
  X(ncclCommInitRankConfig,                                                                        \
    (nccl::Comm * comm, int size, nccl::UniqueId id, int rank, nccl::Config *config))              \
  X(ncclCommFinalize, (nccl::Comm comm))                                                           \
  X(ncclCommDestroy, (nccl::Comm comm))                                                            \
  X(ncclCommAbort, (nccl::Comm comm))                                                              \
  X(ncclCommGetAsyncError, (nccl::Comm comm, nccl::Result * error))                                \
  X(ncclGroupStart, ())                                                                            \
  X(ncclGroupEnd, ())                                                                              \
  X(ncclSend,                                                                                      \
    (const void *address, size_t count, int type, int peer, nccl::Comm comm, cuda::Stream stream)) \
  X(ncclRecv,                                                                                      \
    (void *address, size_t count, int type, int peer, nccl::Comm comm, cuda::Stream stream))       \
  X(ncclAllReduce, (const void *from, void *to, size_t count, int type, int operation,             \
                    nccl::Comm comm, cuda::Stream stream))

} // namespace tilewright::runtime::nccl

namespace tilewright::runtime {

/// NCCL's functions, by their names.
struct NcclTable {
#define TILEWRIGHT_NCCL_FIELD(name, parameters) nccl::Result(*name) parameters = nullptr;
  TILEWRIGHT_NCCL_FUNCTIONS(TILEWRIGHT_NCCL_FIELD)
#undef TILEWRIGHT_NCCL_FIELD
  const char *(*ncclGetErrorString)(nccl::Result result) = nullptr;

  /// Opens the library, which stays open: this file, or if empty the one that TILEWRIGHT_NCCL
  /// names, else libnccl.so.2. Unsupported if it cannot be opened or is too old.
  static Result<NcclTable> open(const std::string &path = "");

  /// Success for nccl::Success; else a Status with the attempted action, the call and NCCL's text.
  Status check(nccl::Result result, const char *call, const std::string &attempted) const;
  /// For one rank to make and all to have: each group of ranks needs a new one.
  Result<nccl::UniqueId> makeUniqueId() const;
};

struct NcclDesc {
  int rank = 0, size = 1;
  nccl::UniqueId id;
  int device = 0; // number of the GPU of this rank
  /// Of each call until the other ranks answer, and of `wait`.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

/// Waits until all ranks have come. The tables must outlive the result. The destructor gives up the
/// messages in flight if a call has failed.
Result<std::unique_ptr<Communicator>>
makeNcclCommunicator(const NcclTable &nccl, const DriverTable &driver, const NcclDesc &desc);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_NCCL_H
