// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// attention_forward with CACHED, or attention_decode, on keys and values of packed sequences in
// pages or in one piece for each. Rows of the cache that no sequence has hold NaN.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_CACHEDCALL_H
#define TILEWRIGHT_TEST_ACCEPTANCE_CACHEDCALL_H

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Variants.h"

#include <optional>

namespace tilewright::acceptance {

/// The same keys in pages of `rows` rows each, or in one piece for each sequence (0).
struct Cache {
  bool hasTable = true;
  int64_t rows = 0, pages = 0, columns = 0; ///< columns of the table
  std::vector<double> k, v;                 ///< [pages, rows, heads, width]
  std::vector<int64_t> table;
};

/// A number of a page that does not exist: elements of a table behind the keys of a sequence.
constexpr int64_t noPage = -7;

/// Pages in a random order. The first `shared` pages of the last sequence are those of the first.
Cache pagesOf(const reference::PackedProblem &problem, const reference::AttentionInputs &inputs,
              int64_t rows, uint64_t seed, int64_t shared = 0);

/// A page for each sequence, in their order.
Cache piecesOf(const reference::PackedProblem &problem, const reference::AttentionInputs &inputs);

enum class CacheOrder { HeadsInRows, RowsInHeads, Padded };

struct CachedOptions {
  CallOptions call;
  bool isPacked = true;
  int64_t pageRows = 0; ///< 0: the largest that divides the rows of a page
  CacheOrder order = CacheOrder::HeadsInRows;
  int64_t decodedRows = 0;                    ///< by attention_decode with so many ROWS
  std::vector<int64_t> offsets = {};          ///< of queries, instead of those of the problem
  std::optional<reference::Type> stored = {}; ///< type of the cache, if it is another one
};

/// Results are [Hq, totalQ, DV] and [Hq, totalQ].
reference::ForwardResult runCached(const reference::PackedProblem &problem, reference::Type type,
                                   const reference::AttentionInputs &inputs, const Cache &cache,
                                   const CachedOptions &options = {});

/// The arrays in one piece, as the kernel without a cache takes them.
reference::ForwardResult runContiguous(const reference::PackedProblem &problem,
                                       reference::Type type,
                                       const reference::AttentionInputs &inputs);

reference::ForwardOracle oracleOf(const reference::PackedProblem &problem, reference::Type type,
                                  const reference::AttentionInputs &inputs);

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_CACHEDCALL_H
