// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls over caches in any order of dimensions.

#include "test/Acceptance/ServedCall.h"

#include <algorithm>
#include <limits>

namespace tilewright::acceptance {

using namespace reference;

namespace {

/// Keys or values [pages, heads, rows, columns] as [pages, rows, heads, columns]; or a page for
/// each sequence, with as many rows as its row of the table has.
std::vector<double> arrayOfPages(const ServedCall &call, const std::vector<double> &from,
                                 int64_t columns) {
  const PagedKeys &keys = call.keys;
  const int64_t heads = call.problem.Hkv;
  auto copyRow = [&](std::vector<double> &to, int64_t toRow, int64_t page, int64_t row) {
    for (int64_t h = 0; h < heads; ++h)
      std::copy_n(from.begin() + ((page * heads + h) * keys.pageSize + row) * columns, columns,
                  to.begin() + (toRow * heads + h) * columns);
  };
  if (!call.inOnePiece) {
    std::vector<double> to(from.size());
    for (int64_t row = 0; row < keys.numPages * keys.pageSize; ++row)
      copyRow(to, row, row / keys.pageSize, row % keys.pageSize);
    return to;
  }
  const int64_t most = keys.maxPages * keys.pageSize;
  std::vector<double> to(call.problem.B * most * heads * columns,
                         std::numeric_limits<double>::quiet_NaN());
  for (int64_t b = 0; b < call.problem.B; ++b)
    for (int64_t j = 0; j < keys.lengths[b]; ++j)
      copyRow(to, b * most + j, keys.table[b * keys.maxPages + j / keys.pageSize],
              j % keys.pageSize);
  return to;
}

Layout layoutOfPages(PageOrder order, int64_t rows, int64_t heads, int64_t width) {
  const int64_t row = heads * width;
  Layout layout;
  switch (order) {
  case PageOrder::HeadsInRows:
    layout.strides = {rows * row, row, width, 1};
    break;
  case PageOrder::RowsInHeads:
    layout.strides = {rows * row, width, rows * width, 1};
    break;
  case PageOrder::Alternating:
    layout.strides = {2 * rows * row, row, width, 1};
    break;
  case PageOrder::Fused:
    layout.strides = {2 * rows * row, 2 * row, 2 * width, 1};
    break;
  case PageOrder::Padded:
    layout.strides = {(rows + 2) * (row + 16), row + 16, width, 1};
    break;
  }
  return layout;
}

/// The rows that one copy takes: the largest size of the kernels that divides a page.
int64_t copiedRows(int64_t pageSize) {
  int64_t result = 1;
  for (int64_t size : {8, 16, 32, 64, 128})
    if (pageSize % size == 0)
      result = size;
  return result;
}

} // namespace

void ServedCall::draw(const std::vector<int64_t> &lengths, int64_t pageSize, uint64_t seed) {
  problem.B = static_cast<int64_t>(lengths.size());
  keys = randomPages(problem, lengths, pageSize, stored, seed);
  q = normals(problem.sizeQ(), seed, type);
}

ForwardOracle ServedCall::oracle() const {
  RoundoffModel roundoff{RoundoffModel::All, type, type};
  return {problem, type, forward(problem, q, keys, Precision::reference(), roundoff),
          forward(problem, q, keys, Precision::lowp(type))};
}

ForwardResult ServedCall::run() const {
  const AttentionProblem &p = problem;
  Params params = attentionParams(p, type);
  params.emplace_back("PAGE_ROWS", std::to_string(inOnePiece ? 0 : copiedRows(keys.pageSize)));
  if (isDecode) {
    for (auto [name, value] : {std::pair("GROUP", p.Hq / p.Hkv), {"ROWS", rows}, {"SPLITS", parts}})
      params.emplace_back(name, std::to_string(value));
  } else {
    params.emplace_back("CACHED", "true");
    params.emplace_back("PACKED", isPacked ? "true" : "false");
  }
  params.insert(params.end(), options.params.begin(), options.params.end());
  KernelCall call(isDecode ? "attention_decode" : "attention_forward", params, options.with);

  const bool swaps = isPacked && !isDecode;
  auto shapeOf = [&](std::initializer_list<int64_t> columns) {
    std::vector<int64_t> shape = {p.B, p.Hq, p.Sq};
    if (swaps)
      shape = {1, p.Hq, p.B * p.Sq};
    shape.insert(shape.end(), columns);
    return shape;
  };
  const int64_t pages = inOnePiece ? p.B : keys.numPages,
                pageRows = inOnePiece ? keys.maxPages * keys.pageSize : keys.pageSize;
  call.input("q", elementType(type), shapeOf({p.D}), swaps ? swapOuter(q, p.B, p.Hq) : q);
  for (auto [name, values, width] : {std::tuple(isDecode ? "k_pages" : "k", &keys.pagesK, p.D),
                                     {isDecode ? "v_pages" : "v", &keys.pagesV, p.DV}})
    call.input(name, elementType(stored), {pages, pageRows, p.Hkv, width},
               arrayOfPages(*this, *values, width), layoutOfPages(order, pageRows, p.Hkv, width));
  if (!inOnePiece)
    call.integers("block_table", {p.B, keys.maxPages}, keys.table);
  if (swaps) {
    std::vector<int64_t> offsets;
    for (int64_t b = 0; b <= p.B; ++b)
      offsets.push_back(b * p.Sq);
    call.integers("cu_seqlens_q", {p.B + 1}, offsets);
  }
  call.integers("seq_lens", {p.B}, keys.lengths);
  call.scalar("scale", p.scale);
  call.integer("window_left", p.window.left);
  call.integer("window_right", p.window.right);
  call.output("o", elementType(type), shapeOf({p.DV}));
  call.output("lse", accumulatorType(type), shapeOf({}));
  if (options.bind)
    options.bind(call);
  if (runsTwice)
    call.runTwice();
  else
    call.run();
  ForwardResult result = readForward(call);
  if (swaps)
    for (std::vector<double> *values : {&result.o, &result.lse})
      *values = swapOuter(*values, p.Hq, p.B);
  return result;
}

} // namespace tilewright::acceptance
