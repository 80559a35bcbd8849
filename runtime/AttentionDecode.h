// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plan of decoding: attention of new queries over a cache of keys and values, by
// kernels/attention_decode.mlir.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONDECODE_H
#define TILEWRIGHT_RUNTIME_ATTENTIONDECODE_H

#include "runtime/Operation.h"

namespace tilewright::runtime {

struct AttentionDecodeDesc {
  ElementType type = ElementType::BF16; // of q, o and the cache
  int64_t headDim = 0;
  int64_t valueDim = 0; // 0: headDim
  int64_t group = 1;    // query heads that share a key head
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

struct AttentionDecodeArguments {
  Argument q;   // [B, R, Hq, D]; R is 1
  Argument o;   // [B, R, Hq, DV]
  Argument lse; // [B, Hq, R], optional
  KvCache cache;
  double scale = 1; // rounded to f32, unless the entry takes it in f64
};

/// The functions are those of the other plans. Of the code in a bundle, a plan holds what serves
/// different sizes of pages, and a run takes what copies the most rows at once.
class AttentionDecode {
public:
  static Result<AttentionDecode> create(const DriverTable &driver,
                                        std::shared_ptr<const Bundle> bundle,
                                        const AttentionDecodeDesc &desc);

  Status checkSupport(const Target &target) const;
  /// Decoding takes no captures.
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
    bool takesRows = false;       // q has a dimension for the rows of a sequence
    bool hasWideScale = false;    // in f64
    std::vector<uint8_t> sources; // source of each argument of the contract
  };
  struct Bound {
    Argument q, o, lse, scale;
    const Argument *arguments[maxArguments];
  };
  explicit AttentionDecode(std::string entry) : entry(std::move(entry)) {}
  Status add(int64_t pageRows, Operation operation);
  Result<const Variant *> choose(const KvCache &cache) const;
  Status bind(const Variant &variant, const AttentionDecodeArguments &arguments,
              Bound &bound) const;

  std::string entry, bundleName;
  std::vector<Variant> variants; // those of the most rows first
  std::vector<std::string> captureNames;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONDECODE_H
