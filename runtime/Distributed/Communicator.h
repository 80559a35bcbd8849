// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ranks of a group exchange: messages and small sums. LocalGroup.h has a transport for the
// threads of a process, over host memory, and Nccl.h one for GPUs.
//
// Each rank is used by one thread at a time. A rank that fails, ends or does not answer within the
// time-out fails all others, for good: every function returns the reason from then on.

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_COMMUNICATOR_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_COMMUNICATOR_H

#include "base/Numeric/ElementType.h"
#include "base/Support/Status.h"
#include "runtime/CudaAbi.h"

#include <string>
#include <vector>

namespace tilewright::runtime {

struct Message {
  enum class Kind { Send, Receive };
  Kind kind = Kind::Send;
  uint64_t address = 0, bytes = 0; // without bytes, there is no message
  int peer = 0;
};

enum class Reduction { Sum, Max, Min };

class Communicator {
public:
  Communicator(int rank, int size) : ownRank(rank), numRanks(size) {}
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;
  virtual ~Communicator() = default;

  int rank() const { return ownRank; }
  int size() const { return numRanks; }

  /// Starts messages together, after what the stream has. Between two ranks, they arrive in the
  /// order in which both name them. What is sent must not change, and what is received is not
  /// there, before `complete`. `what` continues "could not" in errors.
  virtual Status post(const std::vector<Message> &messages, cuda::Stream stream,
                      const char *what) = 0;
  /// After this, work of the stream finds that all posted messages have arrived.
  virtual Status complete(cuda::Stream stream) = 0;
  /// Reduces `count` numbers of f32, f64, i32 or i64 over all ranks, in place.
  virtual Status reduce(uint64_t address, size_t count, ElementType type, Reduction reduction,
                        cuda::Stream stream) = 0;
  /// Waits until the stream has done its work. Results are right only if this succeeds.
  virtual Status wait(cuda::Stream stream) = 0;
  /// Fails all ranks, for this reason, unless they have failed already. On other hosts and in other
  /// processes they find that by the time-out.
  virtual void abort(const Status &reason) = 0;

private:
  int ownRank, numRanks;
};

/// "rank 1 of 4".
inline std::string nameOf(const Communicator &communicator) {
  return "rank " + std::to_string(communicator.rank()) + " of " +
         std::to_string(communicator.size());
}

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_COMMUNICATOR_H
