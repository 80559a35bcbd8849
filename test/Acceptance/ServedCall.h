// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call of attention_decode, or of attention_forward with CACHED, for as many new queries of each
// sequence over pages, or over a cache in one piece, of any order of dimensions.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_SERVEDCALL_H
#define TILEWRIGHT_TEST_ACCEPTANCE_SERVEDCALL_H

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Variants.h"

namespace tilewright::acceptance {

/// Where rows, heads and columns of keys and of values lie in memory.
enum class PageOrder {
  HeadsInRows, ///< [pages, rows, heads, width]
  RowsInHeads, ///< [pages, heads, rows, width]
  Alternating, ///< [pages, 2, rows, heads, width]: pages of the other array between them
  Fused,       ///< [pages, rows, heads, 2 * width]: rows of the other array beside them
  Padded       ///< rows have 16 elements more, and pages 2 rows
};

struct ServedCall {
  reference::AttentionProblem problem; ///< Sq queries of each of B sequences; Skv is not used
  reference::PagedKeys keys;           ///< what the table of a call with pages holds
  std::vector<double> q;
  reference::Type type = reference::Type::F32, stored = type; ///< of q, and of the cache
  PageOrder order = PageOrder::HeadsInRows;
  bool inOnePiece = false; ///< without a table: sequence b is page b
  bool isDecode = true;
  int64_t rows = 1, parts = 0; ///< ROWS and SPLITS of a decode
  bool isPacked = false;       ///< a forward of packed queries
  bool runsTwice = true;
  CallOptions options;

  /// O and LSE of [B, Hq, Sq].
  reference::ForwardResult run() const;
  reference::ForwardOracle oracle() const;
  /// Normal q and keys in random pages, with NaN elsewhere.
  void draw(const std::vector<int64_t> &lengths, int64_t pageSize, uint64_t seed);
};

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_SERVEDCALL_H
