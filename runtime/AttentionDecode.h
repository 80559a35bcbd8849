// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of decoding: attention of new queries over a cache of keys and values, by
// kernels/attention_decode.mlir.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONDECODE_H
#define TILEWRIGHT_RUNTIME_ATTENTIONDECODE_H

#include "runtime/AttentionPlan.h"

namespace tilewright::runtime {

struct AttentionDecodeDesc : AttentionDesc {
  int64_t group = 1;   // query heads that share a key head
  int64_t maxRows = 1; // queries of a sequence, 1 to 16
  /// Into how many parts the keys of a sequence are divided at most. Not 0: the result of a
  /// sequence does not depend on others.
  int64_t numSplits = 0;
  std::string entry = "attention_decode"; // kernel or program of the bundle
};

/// A cache in pages, or a page for each sequence.
struct KvCache {
  Argument k;          // [pages, rows, Hkv, D]
  Argument v;          // [pages, rows, Hkv, DV]
  Argument blockTable; // i32 [B, L]; absent: sequence b is page b
  Argument seqLens;    // i32 [B]
};

struct AttentionDecodeArguments : AttentionArguments {
  Argument q;   // [B, R, Hq, D]; R is at most maxRows
  Argument o;   // [B, R, Hq, DV]
  Argument lse; // [B, Hq, R], optional
  KvCache cache;
};

/// The functions are those of the other plans. Of the code in a bundle, a plan holds what serves
/// different sizes of pages, and a run takes what copies the most rows at once.
class AttentionDecode {
public:
  static Result<AttentionDecode> create(const DriverTable &driver,
                                        std::shared_ptr<const Bundle> bundle,
                                        const AttentionDecodeDesc &desc);

  Status checkSupport(const Target &target) const;
  /// The captures of the functions that other files replaced.
  const std::vector<std::string> &captures() const { return captureNames; }
  Status prepare(int device);
  void checkIndices(bool isWanted);
  Status workspaceSize(const AttentionDecodeArguments &arguments, int device,
                       uint64_t &bytes) const;
  Status run(const AttentionDecodeArguments &arguments, uint64_t workspace, uint64_t workspaceBytes,
             cuda::Stream stream) const;

private:
  /// The code for pages whose rows are a multiple of `pageRows`; 0: without a table.
  struct Variant {
    int64_t pageRows;
    Operation operation;
    bool hasWideScale = false;    // in f64
    std::vector<uint8_t> sources; // source of each argument of the contract, then captures in order
  };
  struct Bound {
    const Variant *variant = nullptr;
    Argument q, o, scale, windowLeft, windowRight;
    const Argument *arguments[maxArguments];
  };
  AttentionDecode(std::string entry, bool hasWindow)
      : entry(std::move(entry)), hasWindow(hasWindow) {}
  Status add(int64_t pageRows, Operation operation);
  Result<const Variant *> choose(const KvCache &cache) const;
  Status bind(const AttentionDecodeArguments &arguments, Bound &bound) const;

  std::string entry, bundleName;
  bool hasWindow;
  std::vector<Variant> variants; // those of the most rows first
  std::vector<std::string> captureNames;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONDECODE_H
