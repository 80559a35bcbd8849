// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decoding over a cache whose keys are spread over ranks: all ranks have the same queries, each
// attends its part of the keys of each sequence, and the results are merged by their LSE.
//
// Code is that of kernels/attention_decode.mlir, and of kernels/attention_merge.mlir for the type
// of the queries (D is the width of values).

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_SPREADDECODE_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_SPREADDECODE_H

#include "runtime/Distributed/Processor.h"

namespace tilewright::runtime {

struct SpreadDecodeDesc {
  /// A decode: type, widths, group, maxRows, pageRows, cacheType, causal. Not packed, listed,
  /// top_left, with a window or padding: its positions are those in the part of a rank.
  AttentionDesc attention;
  int64_t batch = 1, heads = 1;
  int64_t rows = 1; // queries of each sequence, at most attention.maxRows
  double scale = 1;
  /// The rank that has the last keys of all sequences; -1: the last one. Under bottom_right with
  /// several queries, it has at least the keys of these.
  int lastRank = -1;
  /// The rank that gets the results; -1: all.
  int resultRank = -1;
};

struct SpreadDecodeArguments {
  Argument q;              // [B, Hq, rows, D], the same on all ranks
  Argument kPages, vPages; // [pages, page rows, Hkv, width]: the part of this rank
  Argument seqLens;        // [B] i32: keys of each sequence in the part, from 0 on
  Argument blockTable;     // [B, L] i32, only with pages
  Argument o;              // [B, Hq, rows, DV]; absent where no results go
  Argument lse;            // [B, Hq, rows], optional
  /// k_descale and v_descale of a cache of 8 bits, and captures of functions that read no position.
  NamedArguments more;
};

class SpreadDecode {
public:
  virtual ~SpreadDecode() = default;

  /// As RingAttention::create.
  static Result<std::unique_ptr<SpreadDecode>>
  create(Processor &processor, Communicator &communicator, const SpreadDecodeDesc &desc);
  /// As RingAttention::run.
  virtual Status run(const SpreadDecodeArguments &arguments) = 0;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_SPREADDECODE_H
