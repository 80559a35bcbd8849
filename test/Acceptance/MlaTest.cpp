// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Latent attention: one row of the cache is the key of all heads, and its first columns the value.

#include "test/Acceptance/AttentionCall.h"
#include "test/Reference/Variants.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>
#include <optional>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

class Mla : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Mla, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

struct LatentArrays {
  AttentionProblem problem;
  PagedKeys keys; ///< values are columns of keys
  std::vector<double> q;

  LatentArrays(const std::vector<int64_t> &lengths, int64_t pageSize, int64_t heads, int64_t D,
               int64_t DV, Type type, uint64_t seed, int64_t queries)
      : problem(makeProblem(static_cast<int64_t>(lengths.size()), heads, 1, queries, 0, D, DV)) {
    keys = randomPages(problem, lengths, pageSize, type, seed);
    for (int64_t row = 0; row < keys.numPages * pageSize; ++row)
      std::copy_n(keys.pagesK.begin() + row * D, DV, keys.pagesV.begin() + row * DV);
    q = normals(problem.sizeQ(), seed, type);
  }
  ForwardOracle oracle(Type type) const {
    RoundoffModel roundoff{RoundoffModel::All, type, type};
    return {problem, type, forward(problem, q, keys, Precision::reference(), roundoff),
            forward(problem, q, keys, Precision::lowp(type))};
  }
};

/// Without rows of pages, each sequence is in one piece.
ForwardResult runMla(const LatentArrays &arrays, Type type, int64_t pageRows, int64_t splits) {
  const AttentionProblem &problem = arrays.problem;
  const PagedKeys &keys = arrays.keys;
  Params params = attentionParams(problem, type, /*hasWindow=*/false);
  for (auto [name, value] :
       {std::pair("GROUP", problem.Hq), {"PAGE_ROWS", pageRows}, {"SPLITS", splits}})
    params.emplace_back(name, std::to_string(value));
  KernelCall call("attention_mla_decode", params);
  ElementType element = elementType(type);
  std::vector<double> rows = keys.pagesK;
  int64_t pages = keys.numPages, pageSize = keys.pageSize;
  if (pageRows == 0) {
    pages = problem.B;
    pageSize = keys.maxPages * keys.pageSize;
    rows.assign(pages * pageSize * problem.D, std::numeric_limits<double>::quiet_NaN());
    for (int64_t b = 0; b < problem.B; ++b)
      for (int64_t j = 0; j < keys.lengths[b]; ++j) {
        int64_t page = keys.table[b * keys.maxPages + j / keys.pageSize];
        std::copy_n(keys.pagesK.begin() + (page * keys.pageSize + j % keys.pageSize) * problem.D,
                    problem.D, rows.begin() + (b * pageSize + j) * problem.D);
      }
  }
  call.input("q", element, {problem.B, problem.Hq, problem.Sq, problem.D}, arrays.q);
  call.input("k_pages", element, {pages, pageSize, 1, problem.D}, rows);
  if (pageRows > 0)
    call.integers("block_table", {problem.B, keys.maxPages}, keys.table);
  call.integers("seq_lens", {problem.B}, keys.lengths);
  call.scalar("scale", problem.scale);
  call.output("o", element, {problem.B, problem.Hq, problem.Sq, problem.DV});
  call.output("lse", accumulatorType(type), {problem.B, problem.Hq, problem.Sq});
  call.runTwice();
  return readForward(call);
}

/// Fewer heads than a tile has rows, several tiles, and heads that fill no tile; one or two new
/// queries; columns that fill no tile; pages of any size, and sequences in one piece; one part, or
/// more parts than blocks of keys. Pages and rows without a sequence hold NaN.
TEST_P(Mla, PagesAndParts) {
  Type type = GetParam();
  uint64_t seed = 1;
  struct Shape {
    int64_t pageSize, pageRows, heads, queries, D, DV;
  };
  for (auto [pageSize, pageRows, heads, queries, D, DV] :
       std::initializer_list<Shape>{{16, 16, 16, 1, 192, 128},
                                    {7, 1, 40, 2, 96, 64},
                                    {64, 64, 128, 2, 128, 128},
                                    {64, 32, 72, 1, 192, 128},
                                    {32, 16, 24, 1, 104, 64}})
    for (int64_t splits : {0, 3}) {
      const std::vector<int64_t> lengths = {1, 0, 200, 64, 129};
      LatentArrays arrays(lengths, pageSize, heads, D, DV, type, seed++, queries);
      AttentionProblem &problem = arrays.problem;
      problem.causal = queries > 1 ? Causal::BottomRight : Causal::None;
      ForwardOracle oracle = arrays.oracle(type);
      for (int64_t rows : {pageRows, int64_t(0)}) {
        MatrixCase matrixCase("attention_mla_decode",
                              rows ? "pages of " + std::to_string(pageSize) : "one piece", type);
        expectForward(oracle, runMla(arrays, type, rows, splits),
                      describe(problem, type) + ", pages of " +
                          std::to_string(rows ? pageSize : 0) + ", " + std::to_string(splits) +
                          " splits");
      }
    }
}

/// The shape of DeepSeek-V3.
TEST_P(Mla, Columns576) {
  Type type = GetParam();
  for (int64_t heads : {16, 64}) {
    LatentArrays arrays({100, 65}, 64, heads, 576, 512, type, /*seed=*/7, /*queries=*/2);
    arrays.problem.causal = Causal::BottomRight;
    MatrixCase matrixCase("attention_mla_decode", "576 columns", type);
    expectForward(arrays.oracle(type), runMla(arrays, type, 64, 0), describe(arrays.problem, type));
  }
}

/// A negative scale has a loop of its own.
TEST_P(Mla, NegativeScale) {
  Type type = GetParam();
  LatentArrays arrays({150, 30}, 32, 64, 128, 64, type, /*seed=*/8, /*queries=*/1);
  arrays.problem.scale = -arrays.problem.scale;
  MatrixCase matrixCase("attention_mla_decode", "a negative scale", type);
  expectForward(arrays.oracle(type), runMla(arrays, type, 32, 2), describe(arrays.problem, type));
}

/// With given splits, a sequence has the same bits beside others, in other pages, and in one piece.
TEST_P(Mla, SameBitsInAnyBatch) {
  Type type = GetParam();
  LatentArrays all({250, 33, 64, 0}, 16, 16, 96, 64, type, /*seed=*/5, /*queries=*/1);
  const AttentionProblem &problem = all.problem;
  const PagedKeys &keys = all.keys;
  ForwardResult together = runMla(all, type, 16, 4);
  EXPECT_EQ(runMla(all, type, 0, 4).o, together.o) << "in one piece";
  for (int64_t b = 0; b < problem.B; ++b) {
    LatentArrays one = all;
    one.problem.B = 1;
    int64_t width = problem.Hq * problem.D, widthOfO = problem.Hq * problem.DV;
    one.q.assign(all.q.begin() + b * width, all.q.begin() + (b + 1) * width);
    one.keys.lengths = {keys.lengths[b]};
    one.keys.table.assign(keys.table.begin() + b * keys.maxPages,
                          keys.table.begin() + (b + 1) * keys.maxPages);
    std::vector<double> expected(together.o.begin() + b * widthOfO,
                                 together.o.begin() + (b + 1) * widthOfO);
    EXPECT_EQ(runMla(one, type, 16, 4).o, expected) << "sequence " << b;
  }
}

} // namespace
