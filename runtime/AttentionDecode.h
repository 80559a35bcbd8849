// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of decoding: attention of new queries over a cache of keys and values, by
// kernels/attention_decode.mlir.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONDECODE_H
#define TILEWRIGHT_RUNTIME_ATTENTIONDECODE_H

#include "runtime/AttentionFields.h"

namespace tilewright::runtime {

struct AttentionDecodeDesc : AttentionDesc {
  AttentionDecodeDesc() { kind = Kind::Decode; }
};

/// A cache in pages, or a page for each sequence.
struct KvCache {
  Argument k;          // [pages, rows, Hkv, D]
  Argument v;          // [pages, rows, Hkv, DV]
  Argument blockTable; // i32 [B, L]; absent: sequence b is page b
  Argument seqLens;    // i32 [B]
  /// Factors of what the cache holds, f32 [B, Hkv], [Hkv] or [1]; only with a cache of 8 bits.
  Argument kScale, vScale;
};

struct AttentionDecodeArguments : AttentionArguments {
  Argument q;   // [B, R, Hq, D]; R is at most maxRows
  Argument o;   // [B, R, Hq, DV]
  Argument lse; // [B, Hq, R], optional
  KvCache cache;
  /// Only with lists: i32 [B or 1, Hkv or 1, 1, L] and [B or 1, Hkv or 1, 1].
  Argument kvIndices, kvNumBlocks;
};

/// The functions are those of the other plans. The entry has heads before queries.
class AttentionDecode {
public:
  static Result<AttentionDecode> create(const DriverTable &driver,
                                        std::shared_ptr<const Bundle> bundle,
                                        const AttentionDecodeDesc &desc);

  Status checkSupport(const Target &target) const { return plan.getPlan().checkSupport(target); }
  const std::vector<std::string> &captures() const { return plan.captures(); }
  const std::string &signature() const { return plan.getPlan().signature(); }
  Status prepare(int device) { return plan.getPlan().prepare(device); }
  void checkIndices(bool isWanted) { plan.getPlan().checkIndices(isWanted); }
  void overlapPrevious(bool isWanted) { plan.getPlan().overlapPrevious(isWanted); }
  Status workspaceSize(const AttentionDecodeArguments &arguments, int device,
                       uint64_t &bytes) const;
  Status run(const AttentionDecodeArguments &arguments, uint64_t workspace, uint64_t workspaceBytes,
             cuda::Stream stream) const;
  Result<RunReport> report(const AttentionDecodeArguments &arguments, const Target &target,
                           int multiprocessors) const;

private:
  struct Views;
  explicit AttentionDecode(AttentionFields plan) : plan(std::move(plan)) {}
  AttentionFields plan;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONDECODE_H
