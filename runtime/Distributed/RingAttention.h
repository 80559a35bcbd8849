// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention whose rows are distributed over ranks: each rank has its rows of q, k and v, and gets
// the keys and values that they need from the others, one rank after the other. The results are
// those of one device, with every mask and modifier: positions are those in the whole.
//
//   RingDesc desc;
//   desc.attention.headDim = 128;
//   desc.attention.causal = AttentionDesc::Causal::TopLeft;
//   desc.heads = 16, desc.keyHeads = 4;
//   desc.rows = desc.keys = sharesOf(rows, communicator->size(), ShareOrder::Zigzag);
//   auto ring = RingAttention::create(*processor, *communicator, desc); // on all ranks
//   if (!ring)
//     return ring.status();
//   if (Status status = (*ring)->run(arguments); !status)
//     return status;
//   return communicator->wait(processor->stream(Queue::Compute)); // results are right after this
//
// Code is that of kernels/attention_forward.mlir with SHARD, in up to four variants: those of
// CONTINUED=false and true with TO=f32, and with TO the type of q.

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_RINGATTENTION_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_RINGATTENTION_H

#include "runtime/Distributed/Processor.h"
#include "runtime/Distributed/Shares.h"

namespace tilewright::runtime {

struct RingDesc {
  /// A forward: type, widths, causal, further parameters. Not packed, cached or listed; whether
  /// there is a window follows from the sides below.
  AttentionDesc attention;
  int64_t batch = 1, heads = 1, keyHeads = 1;
  int64_t windowLeft = -1, windowRight = -1;
  double scale = 1;
  /// The rows of q, and of k and v, of each rank; together all of the whole, each once.
  std::vector<Spans> rows, keys;
  /// Whether the code may have a score or mask of its own, which reads positions. Without one,
  /// ranks with several ranges of keys need fewer launches.
  bool hasModifiers = true;
};

struct RingArguments {
  Argument q;    // [B, Hq, own rows, D]
  Argument k, v; // [B, Hkv, own keys, D or DV]
  Argument o;    // [B, Hq, own rows, DV]
  Argument lse;  // [B, Hq, own rows] of f32 (of f64 for f64), optional
  /// Captures of linked files, those of the whole on all ranks.
  NamedArguments captures;
};

class RingAttention {
public:
  virtual ~RingAttention() = default;

  /// On all ranks, with the same description: else all fail. Loads the code and allocates what runs
  /// need. Processor and communicator must outlive the result.
  static Result<std::unique_ptr<RingAttention>>
  create(Processor &processor, Communicator &communicator, const RingDesc &desc);

  /// On all ranks. Launches on the queues of the processor, after Queue::Compute, on which the
  /// results are; waits for nothing but other ranks' messages to begin. A failure fails all ranks.
  virtual Status run(const RingArguments &arguments) = 0;

  /// The pairs of a row of this rank and a key that the causal mask and the window keep, of one
  /// batch element and head.
  virtual int64_t countPairs() const = 0;
  /// Bytes of keys and values that this rank receives in a run.
  virtual uint64_t receivedBytes() const = 0;
  /// Launches of kernels in a run.
  virtual size_t numLaunches() const = 0;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_RINGATTENTION_H
