// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Forms of attention that are loops over, or compositions of, the plain problem of Attention.h.

#ifndef TILEWRIGHT_TEST_REFERENCE_VARIANTS_H
#define TILEWRIGHT_TEST_REFERENCE_VARIANTS_H

#include "test/Reference/Attention.h"

#include <limits>

namespace tilewright::reference {

/// Sequences of different lengths, concatenated along the rows (FlashAttention's "varlen").
///   q [Hq, totalQ, D]      k [Hkv, totalKv, D]      v [Hkv, totalKv, DV]
///   o, dO [Hq, totalQ, DV]      lse [Hq, totalQ]
/// Sequence n owns rows cuQ[n] <= i < cuQ[n + 1] and keys cuKv[n] <= j < cuKv[n + 1]; each list
/// begins with 0, does not decrease, and ends with the total. Masks, modifiers, bias and dropout
/// see (n, h, i, j) with i and j counted within the sequence, and the shift of a bottom-right mask
/// is the sequence's own. `common` gives everything but B, Sq and Skv. A bias is not supported: it
/// has one Skv.
struct PackedProblem {
  AttentionProblem common;
  std::vector<int64_t> cuQ, cuKv;
  /// Rows of the arrays behind the last sequence. Rows of no sequence are like queries and keys
  /// without a partner: O and gradients are 0, LSE is -inf.
  int64_t behindQ = 0, behindKv = 0;

  int64_t numSequences() const { return static_cast<int64_t>(cuQ.size()) - 1; }
  int64_t totalQ() const { return cuQ.back() + behindQ; }
  int64_t totalKv() const { return cuKv.back() + behindKv; }
  /// B = 1, Sq = totalQ, Skv = totalKv: the sizes of the arrays.
  AttentionProblem packed() const;
  /// Sequence n as a separate problem, and its inputs.
  AttentionProblem sequence(int64_t n) const;
  AttentionInputs inputsOf(int64_t n, const AttentionInputs &packed) const;
};
/// Sequences with these numbers of queries and keys, one directly behind the other.
PackedProblem packedProblem(const std::vector<int64_t> &lengthsQ,
                            const std::vector<int64_t> &lengthsKv, AttentionProblem common);

ForwardResult forward(const PackedProblem &problem, const AttentionInputs &inputs,
                      const Precision &precision = Precision::reference(),
                      const RoundoffModel &roundoff = {});
BackwardResult backward(const PackedProblem &problem, const AttentionInputs &inputs,
                        const Precision &precision = Precision::reference(),
                        const RoundoffModel &roundoff = {});

/// Keys and values in pages (PagedAttention, Kwon et al., 2023): key j of batch b is row j %
/// pageSize of page table[b * maxPages + j / pageSize], for 0 <= j < lengths[b].
///   pagesK [numPages, Hkv, pageSize, D]   pagesV [numPages, Hkv, pageSize, DV]   table [B,
///   maxPages]
struct PagedKeys {
  int64_t numPages = 0, pageSize = 0, maxPages = 0;
  std::vector<double> pagesK, pagesV;
  std::vector<double> factorsK, factorsV; ///< [B, Hkv], of what pages hold; empty: 1
  std::vector<int64_t> table, lengths;
};

/// problem.Skv is ignored: each batch has its own, and with it its own bottom-right shift.
ForwardResult forward(const AttentionProblem &problem, const std::vector<double> &q,
                      const PagedKeys &keys, const Precision &precision = Precision::reference(),
                      const RoundoffModel &roundoff = {});

/// Random keys and values in pages of a random order. Pages and rows that no batch uses hold the
/// filler (a NaN shows that a kernel uses them nevertheless); unused entries of the table name such
/// a page.
PagedKeys randomPages(const AttentionProblem &problem, const std::vector<int64_t> &lengths,
                      int64_t pageSize, Type type, uint64_t seed,
                      double filler = std::numeric_limits<double>::quiet_NaN());

/// Attention over parts of the keys, each with its own softmax, and their combination (split-KV):
///   lse = log sum_n exp(lse_n),  o = sum_n exp(lse_n - lse) o_n.
/// Parts are [begin, end) of keys; partials have the shapes of ForwardResult.
std::vector<ForwardResult> forwardParts(const AttentionProblem &problem,
                                        const AttentionInputs &inputs,
                                        const std::vector<int64_t> &boundaries);
ForwardResult combine(const std::vector<ForwardResult> &parts, int64_t rows, int64_t columns);

/// fp8: q, k, v in e4m3 stand for descaleQ * q and so on. lowp rounds P to e4m3 before the division
/// by the row sum, and O to the output type.
struct Descales {
  double q = 1.0, k = 1.0, v = 1.0;
};
ForwardResult forwardFp8(const AttentionProblem &problem, const AttentionInputs &inputs,
                         const Descales &descales,
                         const Precision &precision = Precision::reference(),
                         const RoundoffModel &roundoff = {});
Precision lowpFp8(Type output);

} // namespace tilewright::reference

#endif // TILEWRIGHT_TEST_REFERENCE_VARIANTS_H
