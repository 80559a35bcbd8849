// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs of the kernel for few queries.

#include "test/Acceptance/DecodeCall.h"

#include <algorithm>
#include <limits>
#include <optional>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

std::vector<double> acceptance::rowsBeforeHeads(const std::vector<double> &in,
                                                const PagedKeys &keys, int64_t heads,
                                                int64_t columns) {
  std::vector<double> out(in.size());
  for (int64_t page = 0; page < keys.numPages; ++page)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t row = 0; row < keys.pageSize; ++row)
        std::copy_n(in.begin() + ((page * heads + h) * keys.pageSize + row) * columns, columns,
                    out.begin() + ((page * keys.pageSize + row) * heads + h) * columns);
  return out;
}

DecodeArrays::DecodeArrays(const std::vector<int64_t> &lengths, int64_t pageSize, int64_t group,
                           int64_t D, int64_t DV, Type type, Type cache, uint64_t seed,
                           int64_t queries)
    : problem(makeProblem(static_cast<int64_t>(lengths.size()), 2 * group, 2, queries, 0, D, DV)),
      cache(cache) {
  keys = randomPages(problem, lengths, pageSize, cache, seed); // draws from the seed
  q = normals(problem.sizeQ(), seed, type);
}

ForwardOracle DecodeArrays::oracle(Type type) const {
  RoundoffModel roundoff{RoundoffModel::All, type, type};
  return {problem, type, forward(problem, q, keys, Precision::reference(), roundoff),
          forward(problem, q, keys, Precision::lowp(type))};
}

/// Runs a kernel on keys and values [pages, rows, heads, columns].
static ForwardResult run(KernelCall &call, const DecodeArrays &arrays, Type type, int64_t pages,
                         int64_t rows, const std::vector<double> &k, const std::vector<double> &v,
                         bool hasTable) {
  const AttentionProblem &problem = arrays.problem;
  ElementType element = elementType(type);
  auto rowsOf = [&](std::optional<int64_t> columns) {
    std::vector<int64_t> shape = {problem.B, problem.Hq, problem.Sq};
    if (columns)
      shape.push_back(*columns);
    return shape;
  };
  call.input("q", element, rowsOf(problem.D), arrays.q);
  ElementType stored = elementType(arrays.cache);
  call.input("k_pages", stored, {pages, rows, problem.Hkv, problem.D}, k);
  call.input("v_pages", stored, {pages, rows, problem.Hkv, problem.DV}, v);
  if (hasTable)
    call.integers("block_table", {problem.B, arrays.keys.maxPages}, arrays.keys.table);
  call.integers("seq_lens", {problem.B}, arrays.keys.lengths);
  call.scalar("scale", problem.scale);
  call.output("o", element, rowsOf(problem.DV));
  call.output("lse", accumulatorType(type), rowsOf(std::nullopt));
  call.runTwice();
  return readForward(call);
}

void acceptance::addPieces(Params &params, int64_t splits) {
  params.emplace_back("SPLITS", std::to_string(splits));
  if (splits > 1 && splits % 2 == 1)
    params.emplace_back("PART_KEYS", "1");
}

ForwardResult acceptance::runDecode(const DecodeArrays &arrays, Type type, int64_t group,
                                    int64_t pageRows, int64_t splits, const CallOptions &options) {
  const AttentionProblem &problem = arrays.problem;
  const PagedKeys &keys = arrays.keys;
  Params params = attentionParams(problem, type);
  for (auto [name, value] : {std::pair("GROUP", group), {"PAGE_ROWS", pageRows}})
    params.emplace_back(name, std::to_string(value));
  addPieces(params, splits);
  params.insert(params.end(), options.params.begin(), options.params.end());
  KernelCall call("attention_decode", params, options.with);
  call.integer("window_left", problem.window.left);
  call.integer("window_right", problem.window.right);
  if (options.bind)
    options.bind(call);
  std::vector<double> k = rowsBeforeHeads(keys.pagesK, keys, problem.Hkv, problem.D),
                      v = rowsBeforeHeads(keys.pagesV, keys, problem.Hkv, problem.DV);
  int64_t pages = keys.numPages, rows = keys.pageSize;
  if (pageRows == 0) { // each sequence in one piece
    auto inOnePiece = [&](const std::vector<double> &from, int64_t columns) {
      int64_t row = problem.Hkv * columns, most = keys.maxPages * keys.pageSize;
      std::vector<double> to(problem.B * most * row, std::numeric_limits<double>::quiet_NaN());
      for (int64_t b = 0; b < problem.B; ++b)
        for (int64_t j = 0; j < keys.lengths[b]; ++j) {
          int64_t page = keys.table[b * keys.maxPages + j / keys.pageSize];
          std::copy_n(from.begin() + (page * keys.pageSize + j % keys.pageSize) * row, row,
                      to.begin() + (b * most + j) * row);
        }
      return to;
    };
    k = inOnePiece(k, problem.D);
    v = inOnePiece(v, problem.DV);
    pages = problem.B;
    rows = keys.maxPages * keys.pageSize;
  }
  return run(call, arrays, type, pages, rows, k, v, /*hasTable=*/pageRows > 0);
}

void acceptance::poison(std::vector<double> &values, int64_t columns, const DecodeArrays &arrays,
                        const std::function<bool(int64_t b, int64_t h, int64_t j)> &isPoisoned) {
  const PagedKeys &keys = arrays.keys;
  for (int64_t b = 0; b < arrays.problem.B; ++b)
    for (int64_t j = 0; j < keys.lengths[b]; ++j)
      for (int64_t h = 0; h < arrays.problem.Hkv; ++h) {
        if (!isPoisoned(b, h, j))
          continue;
        int64_t page = keys.table[b * keys.maxPages + j / keys.pageSize];
        int64_t row = (page * arrays.problem.Hkv + h) * keys.pageSize + j % keys.pageSize;
        std::fill_n(values.begin() + row * columns, columns,
                    std::numeric_limits<double>::quiet_NaN());
      }
}

void acceptance::poisonPadding(std::vector<double> &values, int64_t columns,
                               const DecodeArrays &arrays, const std::vector<int64_t> &leftpad,
                               int64_t block) {
  poison(values, columns, arrays, [&](int64_t b, int64_t, int64_t j) {
    return j < std::min(leftpad[b], arrays.keys.lengths[b]) / block * block;
  });
}
