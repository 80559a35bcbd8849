// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random lists of blocks.

#include "test/Acceptance/BlockLists.h"

#include <algorithm>

namespace tilewright::acceptance {

using namespace reference;

BlockLists::BlockLists(const AttentionProblem &p, int64_t blockM, int64_t blockN, uint64_t seed,
                       int64_t batches, int64_t heads)
    : blockM(blockM), blockN(blockN), batches(batches), heads(heads), queryHeads(p.Hq),
      rowBlocks((p.Sq + blockM - 1) / blockM), keyBlocks((p.Skv + blockN - 1) / blockN),
      length(keyBlocks + 1) {
  Generator generator(seed);
  for (int64_t list = 0; list < batches * heads * rowBlocks; ++list) {
    std::vector<int64_t> order;
    for (int64_t block = 0; block < keyBlocks; ++block)
      order.insert(order.begin() + generator.integer(0, block + 1), block);
    int64_t count = generator.integer(0, keyBlocks + 1); // none, some or all blocks
    // Entries that are not blocks of k are skipped: too large, or negative, as padding often is.
    if (generator.integer(0, 2))
      order.insert(order.begin() + count++ / 2, generator.integer(0, 2) ? keyBlocks + 3 : -1);
    counts.push_back(count);
    order.resize(length, 0); // beyond the count: a valid block that must not be read
    blocks.insert(blocks.end(), order.begin(), order.end());
  }
}

MaskMod BlockLists::mask() const {
  return [lists = *this](int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t batch = std::min(b, lists.batches - 1), own = h * lists.heads / lists.queryHeads;
    int64_t list = (batch * lists.heads + own) * lists.rowBlocks + i / lists.blockM;
    auto begin = lists.blocks.begin() + list * lists.length, end = begin + lists.counts[list];
    return std::find(begin, end, j / lists.blockN) != end;
  };
}

Params BlockLists::params() const {
  return {{"LISTED", "true"},
          {"LIST_BLOCK_M", std::to_string(blockM)},
          {"LIST_BLOCK_N", std::to_string(blockN)}};
}

void BlockLists::bind(KernelCall &call) const {
  call.integers("kv_indices", {batches, heads, rowBlocks, length}, blocks);
  call.integers("kv_num_blocks", {batches, heads, rowBlocks}, counts);
}

void BlockLists::addTo(CallOptions &options) const {
  for (const auto &param : params())
    options.params.push_back(param);
  options.bind = [lists = *this, before = options.bind](KernelCall &call) {
    if (before)
      before(call);
    lists.bind(call);
  };
}

} // namespace tilewright::acceptance
