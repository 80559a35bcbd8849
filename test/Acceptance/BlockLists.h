// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random lists of key blocks for each block of queries, as arguments and as a mask of the oracle.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_BLOCKLISTS_H
#define TILEWRIGHT_TEST_ACCEPTANCE_BLOCKLISTS_H

#include "test/Acceptance/AttentionCall.h"

namespace tilewright::acceptance {

/// For each (batch, head, block of queries) a random set of blocks of keys in random order. Extents
/// of 1 are shared; with as many heads as keys have, those of a group share a list.
struct BlockLists {
  int64_t blockM, blockN, batches, heads, queryHeads, rowBlocks, keyBlocks, length;
  std::vector<int64_t> blocks, counts;

  BlockLists(const reference::AttentionProblem &p, int64_t blockM, int64_t blockN, uint64_t seed,
             int64_t batches, int64_t heads);

  reference::MaskMod mask() const;

  /// Parameters and arguments.
  void addTo(CallOptions &options) const;
  void bind(KernelCall &call) const;
  Params params() const;
};

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_BLOCKLISTS_H
