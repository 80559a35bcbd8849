// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the code of a call of attention depends on, for all shipped kernels, and the parameters of
// an entry that follow from it. The files kernels/attention_*.mlir say what the parameters mean.

#ifndef TILEWRIGHT_RUNTIME_ATTENTIONDESC_H
#define TILEWRIGHT_RUNTIME_ATTENTIONDESC_H

#include "runtime/Bundle.h"

namespace tilewright::runtime {

struct AttentionDesc {
  /// Cached: over a cache, by a decode or a forward; `complete` chooses, and nothing else takes it.
  enum class Kind { Forward, Backward, Decode, Append, Cached };
  enum class Causal { None, TopLeft, BottomRight };
  enum class Places { Slots, Table, Sequences };

  Kind kind = Kind::Forward;
  ElementType type = ElementType::BF16; // of q, k, v, o and their gradients
  int64_t headDim = 0;
  int64_t valueDim = 0; // 0: headDim

  // Not of an append.
  Causal causal = Causal::None;
  bool hasWindow = false;
  /// Sequences of different lengths in arrays of batch 1: cu_seqlens_q, cu_seqlens_k without a
  /// cache; of an append, cu_seqlens. A decode leaves out sequences with more queries than ROWS.
  bool isPacked = false;

  /// Not of an append: positive if queries attend only listed blocks, of this many queries and keys
  /// (0: as many as queries): kv_indices, kv_num_blocks. All queries of a sequence that is decoded
  /// have one list for each key head.
  int64_t listBlockM = 0, listBlockN = 0;

  /// Of a forward: keys and values are in a cache, as those of a decode are: seq_lens.
  bool isCached = false;
  /// With a cache: rows of a page that one copy takes; 0: there is no block_table. Without a value,
  /// a plan has the code of the bundle for all sizes, and a run takes what copies the most rows.
  std::optional<int64_t> pageRows;
  bool hasLeftpad = false; // the first keys of sequences are padding: leftpad
  /// With a cache, and of an append: the type of the cache, if it is another one. With 8 bits there
  /// are k_descale and v_descale, and of a forward k_factors and v_factors.
  std::optional<ElementType> cacheType;

  // Of a backward.
  // Bit-identical runs. Where sums cannot be in order, at the cost of two more products per pair.
  bool isDeterministic = false;
  bool isOrdered = false;           // with it, for bundles of earlier versions: sums in order
  bool hasScoreGradient = false;    // the gradient of the scores: d_score
  bool hasCaptureGradients = false; // optional arrays d_x for the gradient of capture x

  // Of a decode.
  int64_t group = 1;     // query heads that share a key head
  int64_t maxRows = 1;   // queries of a sequence, 1 to 16
  int64_t numSplits = 0; // parts of the keys of a sequence at most. Not 0: the result of a sequence
                         // does not depend on others

  // Of an append.
  Places places = Places::Slots;
  bool hasWideIndices = false; // slots and positions of i64
  bool hasPositions = false;
  int64_t rotary = 0; // columns that are rotated; at 0, the fields below make no difference
  bool rotatesPairs = false;
  bool rotatesFirst = false;                // every query by the position of the first new key
  ElementType angleType = ElementType::F32; // of cos and sin

  Params more;       // further parameters of the entry, such as BLOCK_M
  std::string entry; // kernel or program of the bundle; empty: attention_ and the kind
};

/// "attention_forward" for a forward, if the description does not name another.
std::string entryOf(const AttentionDesc &desc);
/// In messages: "attention", "decoding", "appending".
const char *nounOf(AttentionDesc::Kind kind);

/// Whether the description can be one of a kernel: no field is out of range, or of another kind.
Status check(const AttentionDesc &desc);

/// All parameters of the shipped kernel of this kind, for a compiler. Without a number of page
/// rows, those of a usual page.
Params paramsOf(const AttentionDesc &desc);
/// Those that choose the code in a bundle. A feature that is off is named only if the entry has its
/// parameter, so that entries without the feature are found, too.
Params paramsOf(const AttentionDesc &desc, const Manifest &manifest);

/// "attention_forward D=64,DV=64,T=bf16,CAUSAL=top_left": entry, widths and type, then the
/// parameters that are not off, and further ones by name. Equal for equal descriptions, and the
/// same in later versions, which only add parameters.
std::string signatureOf(const AttentionDesc &desc);

/// Sets what follows from the arguments of a call: type and widths; whether there are windows,
/// packed sequences, a cache, padding, and gradients of scores and captures; page rows, unless they
/// are set; group and queries of a decode, at least as many as are set; places, indices and
/// rotation of an append. Keeps all else. An argument is one of the kernel of this kind, by its
/// name.
///
/// With Kind::Cached, whose arguments are those of a forward, the kind becomes Decode, whose k and
/// v are k_pages and v_pages, if the queries of the heads that share a key head fit one of its
/// tiles, and share lists of blocks; else Forward, without the fields that only a decode has.
Status complete(AttentionDesc &desc,
                const std::vector<std::pair<std::string, Argument>> &arguments);

/// Rows of a page that one copy takes where a page has `rows`.
int64_t mostPageRows(int64_t rows);
/// Whether keys are in a cache, whose pages may have any size.
inline bool hasCache(const AttentionDesc &desc) {
  return desc.isCached || desc.kind == AttentionDesc::Kind::Decode;
}

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ATTENTIONDESC_H
