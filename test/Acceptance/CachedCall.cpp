// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of attention_forward with CACHED, and of attention_decode on the same arrays.

#include "test/Acceptance/CachedCall.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

Cache acceptance::pagesOf(const PackedProblem &problem, const AttentionInputs &inputs, int64_t rows,
                          uint64_t seed, int64_t shared) {
  const AttentionProblem &c = problem.common;
  int64_t sequences = problem.numSequences();
  Cache cache;
  cache.rows = rows;
  int64_t used = 0;
  for (int64_t n = 0; n < sequences; ++n) {
    int64_t count = (problem.cuKv[n + 1] - problem.cuKv[n] + rows - 1) / rows;
    cache.columns = std::max(cache.columns, count + 1);
    used += count;
  }
  cache.pages = used + 2;
  cache.table.assign(sequences * cache.columns, noPage);
  std::vector<int64_t> order(cache.pages);
  std::iota(order.begin(), order.end(), 0);
  Generator generator(seed);
  for (int64_t i = cache.pages - 1; i > 0; --i)
    std::swap(order[i], order[generator.integer(0, i + 1)]);

  int64_t elements = cache.pages * rows * c.Hkv;
  cache.k.assign(elements * c.D, std::numeric_limits<double>::quiet_NaN());
  cache.v.assign(elements * c.DV, std::numeric_limits<double>::quiet_NaN());
  int64_t next = 0;
  for (int64_t n = 0; n < sequences; ++n)
    for (int64_t j = 0; j < problem.cuKv[n + 1] - problem.cuKv[n]; ++j) {
      int64_t number = j / rows, &page = cache.table[n * cache.columns + number];
      if (j % rows == 0)
        page = n + 1 == sequences && number < shared ? cache.table[number] : order[next++];
      for (int64_t h = 0; h < c.Hkv; ++h) {
        int64_t from = h * problem.totalKv() + problem.cuKv[n] + j;
        int64_t to = (page * rows + j % rows) * c.Hkv + h;
        std::copy_n(inputs.k.begin() + from * c.D, c.D, cache.k.begin() + to * c.D);
        std::copy_n(inputs.v.begin() + from * c.DV, c.DV, cache.v.begin() + to * c.DV);
      }
    }
  return cache;
}

Cache acceptance::piecesOf(const PackedProblem &problem, const AttentionInputs &inputs) {
  int64_t most = 1;
  for (int64_t n = 0; n < problem.numSequences(); ++n)
    most = std::max(most, problem.cuKv[n + 1] - problem.cuKv[n] + 3);
  Cache pages = pagesOf(problem, inputs, most, 1), cache;
  cache.hasTable = false;
  cache.rows = most;
  cache.pages = problem.numSequences();
  for (auto [from, to, width] : {std::tuple(&pages.k, &cache.k, problem.common.D),
                                 std::tuple(&pages.v, &cache.v, problem.common.DV)}) {
    int64_t size = most * problem.common.Hkv * width;
    for (int64_t n = 0; n < cache.pages; ++n) {
      int64_t page = pages.table[n * pages.columns];
      if (page == noPage) // without keys
        to->insert(to->end(), size, std::numeric_limits<double>::quiet_NaN());
      else
        to->insert(to->end(), from->begin() + page * size, from->begin() + (page + 1) * size);
    }
  }
  return cache;
}

static Layout layoutOfCache(CacheOrder order, const std::vector<int64_t> &shape) {
  Layout layout;
  layout.strides = rowMajor(shape);
  if (order == CacheOrder::RowsInHeads)
    layout.strides = {shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1};
  else if (order == CacheOrder::Padded) // rows have 16 elements more, and pages 2 rows
    layout.strides = {(shape[1] + 2) * (shape[2] * shape[3] + 16), shape[2] * shape[3] + 16,
                      shape[3], 1};
  return layout;
}

ForwardResult acceptance::runCached(const PackedProblem &problem, Type type,
                                    const AttentionInputs &inputs, const Cache &cache,
                                    const CachedOptions &options) {
  const AttentionProblem &c = problem.common;
  int64_t sequences = problem.numSequences(), pageRows = 0;
  if (cache.hasTable)
    for (int64_t size : {1, 8, 16, 32, 64, 128})
      if (cache.rows % size == 0 && (!options.pageRows || size <= options.pageRows))
        pageRows = size;
  Params params = attentionParams(c, type);
  params.insert(params.end(), options.call.params.begin(), options.call.params.end());
  params.emplace_back("PAGE_ROWS", std::to_string(pageRows));
  params.emplace_back("PACKED", options.isPacked ? "true" : "false");
  const bool isDecode = options.decodedRows > 0;
  if (isDecode) {
    params.emplace_back("GROUP", std::to_string(c.Hq / c.Hkv));
    params.emplace_back("ROWS", std::to_string(options.decodedRows));
  } else {
    params.emplace_back("CACHED", "true");
  }
  KernelCall call(isDecode ? "attention_decode" : "attention_forward", params, options.call.with);

  int64_t each = options.isPacked ? problem.totalQ() : sequences ? problem.cuQ[1] : 0;
  int64_t batch = options.isPacked ? 1 : sequences;
  ElementType element = elementType(type);
  auto byBatch = [&](const std::vector<double> &values) {
    return options.isPacked ? values : swapOuter(values, c.Hq, batch);
  };
  call.input("q", element, {batch, c.Hq, each, c.D}, byBatch(inputs.q));
  std::vector<int64_t> shape = {cache.pages, cache.rows, c.Hkv, c.D};
  ElementType stored = elementType(options.stored.value_or(type));
  call.input(isDecode ? "k_pages" : "k", stored, shape, cache.k,
             layoutOfCache(options.order, shape));
  shape.back() = c.DV;
  call.input(isDecode ? "v_pages" : "v", stored, shape, cache.v,
             layoutOfCache(options.order, shape));
  if (options.isPacked)
    call.integers("cu_seqlens_q", {sequences + 1},
                  options.offsets.empty() ? problem.cuQ : options.offsets);
  if (cache.hasTable)
    call.integers("block_table", {sequences, cache.columns}, cache.table);
  std::vector<int64_t> lengths;
  for (int64_t n = 0; n < sequences; ++n)
    lengths.push_back(problem.cuKv[n + 1] - problem.cuKv[n]);
  call.integers("seq_lens", {sequences}, lengths);
  call.scalar("scale", c.scale);
  call.integer("window_left", c.window.left);
  call.integer("window_right", c.window.right);
  call.output("o", element, {batch, c.Hq, each, c.DV});
  call.output("lse", accumulatorType(type), {batch, c.Hq, each});
  if (options.call.bind)
    options.call.bind(call);
  call.runTwice();
  ForwardResult result = readForward(call);
  if (!options.isPacked)
    for (std::vector<double> *values : {&result.o, &result.lse})
      *values = swapOuter(*values, batch, c.Hq);
  return result;
}

ForwardResult acceptance::runContiguous(const PackedProblem &problem, Type type,
                                        const AttentionInputs &inputs) {
  const AttentionProblem &c = problem.common;
  Params params = attentionParams(c, type);
  params.emplace_back("PACKED", "true");
  KernelCall call("attention_forward", params);
  ElementType element = elementType(type);
  call.input("q", element, {1, c.Hq, problem.totalQ(), c.D}, inputs.q);
  call.input("k", element, {1, c.Hkv, problem.totalKv(), c.D}, inputs.k);
  call.input("v", element, {1, c.Hkv, problem.totalKv(), c.DV}, inputs.v);
  call.integers("cu_seqlens_q", {problem.numSequences() + 1}, problem.cuQ);
  call.integers("cu_seqlens_k", {problem.numSequences() + 1}, problem.cuKv);
  call.scalar("scale", c.scale);
  call.integer("window_left", c.window.left);
  call.integer("window_right", c.window.right);
  call.output("o", element, {1, c.Hq, problem.totalQ(), c.DV});
  call.output("lse", accumulatorType(type), {1, c.Hq, problem.totalQ()});
  call.run();
  return readForward(call);
}

ForwardOracle acceptance::oracleOf(const PackedProblem &problem, Type type,
                                   const AttentionInputs &inputs) {
  RoundoffModel roundoff{RoundoffModel::All, type, type};
  return {problem.packed(), type, forward(problem, inputs, Precision::reference(), roundoff),
          forward(problem, inputs, Precision::lowp(type))};
}
