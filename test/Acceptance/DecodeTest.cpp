// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel for few queries: pages, parts, the heads of a group as rows of one tile.

#include "test/Acceptance/AttentionCall.h"
#include "test/Acceptance/BlockLists.h"
#include "test/Reference/Variants.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

class Decode : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Decode, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

/// From [pages, heads, rows, columns] to [pages, rows, heads, columns].
std::vector<double> rowsBeforeHeads(const std::vector<double> &in, const PagedKeys &keys,
                                    int64_t heads, int64_t columns) {
  std::vector<double> out(in.size());
  for (int64_t page = 0; page < keys.numPages; ++page)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t row = 0; row < keys.pageSize; ++row)
        std::copy_n(in.begin() + ((page * heads + h) * keys.pageSize + row) * columns, columns,
                    out.begin() + ((page * keys.pageSize + row) * heads + h) * columns);
  return out;
}

/// New queries for each sequence, and the keys and values in pages.
struct DecodeArrays {
  AttentionProblem problem;
  PagedKeys keys;
  std::vector<double> q;
  Type cache;

  DecodeArrays(const std::vector<int64_t> &lengths, int64_t pageSize, int64_t group, int64_t D,
               int64_t DV, Type type, uint64_t seed, int64_t queries = 1)
      : DecodeArrays(lengths, pageSize, group, D, DV, type, type, seed, queries) {}
  DecodeArrays(const std::vector<int64_t> &lengths, int64_t pageSize, int64_t group, int64_t D,
               int64_t DV, Type type, Type cache, uint64_t seed, int64_t queries)
      : problem(makeProblem(static_cast<int64_t>(lengths.size()), 2 * group, 2, queries, 0, D, DV)),
        cache(cache) {
    keys = randomPages(problem, lengths, pageSize, cache, seed); // draws from the seed
    q = normals(problem.sizeQ(), seed, type);
  }
  ForwardOracle oracle(Type type) const {
    RoundoffModel roundoff{RoundoffModel::All, type, type};
    return {problem, type, forward(problem, q, keys, Precision::reference(), roundoff),
            forward(problem, q, keys, Precision::lowp(type))};
  }
};

/// Runs a kernel on keys and values [pages, rows, heads, columns].
ForwardResult run(KernelCall &call, const DecodeArrays &arrays, Type type, int64_t pages,
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

struct DecodeShape {
  int64_t queries, rows, group, pageSize, pageRows;
  Causal causal;
  Window window;
};

/// Odd numbers of pieces have an instance each, whose results a launch merges. How many instances
/// attend the others follows from the batch.
void addPieces(Params &params, int64_t splits) {
  params.emplace_back("SPLITS", std::to_string(splits));
  if (splits > 1 && splits % 2 == 1)
    params.emplace_back("PART_KEYS", "1");
}

/// `options`: parameters, files and captures in addition to those of the arrays.
ForwardResult runDecode(const DecodeArrays &arrays, Type type, int64_t group, int64_t pageRows,
                        int64_t splits, const CallOptions &options = {}) {
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

/// Writes NaN to key j of key head h of sequence b, wherever `isPoisoned` holds.
void poison(std::vector<double> &values, int64_t columns, const DecodeArrays &arrays,
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

/// The same for the padding of each sequence that lies in whole blocks of this size.
void poisonPadding(std::vector<double> &values, int64_t columns, const DecodeArrays &arrays,
                   const std::vector<int64_t> &leftpad, int64_t block) {
  poison(values, columns, arrays, [&](int64_t b, int64_t, int64_t j) {
    return j < std::min(leftpad[b], arrays.keys.lengths[b]) / block * block;
  });
}

/// Pages of any size, that one copy takes in parts or a row at a time; sequences in one piece; and
/// one part, or more parts than blocks of keys. Pages and rows without a sequence hold NaN.
TEST_P(Decode, PagesAndParts) {
  Type type = GetParam();
  uint64_t seed = 1;
  struct Shape {
    int64_t pageSize, pageRows, group, D, DV;
  };
  for (auto [pageSize, pageRows, group, D, DV] :
       std::initializer_list<Shape>{{16, 16, 4, 64, 64},
                                    {7, 1, 3, 64, 40},
                                    {64, 32, 8, 128, 128},
                                    {256, 128, 20, 64, 64},
                                    {128, 128, 1, 64, 64},
                                    {32, 8, 2, 256, 200}})
    for (int64_t splits : {0, 1, 3, 40}) {
      const std::vector<int64_t> lengths = {1, 0, 300, pageSize, 2 * pageSize - 1, pageSize + 1};
      DecodeArrays arrays(lengths, pageSize, group, D, DV, type, seed++);
      ForwardOracle oracle = arrays.oracle(type);
      for (int64_t rows : {pageRows, int64_t(0)}) {
        MatrixCase matrixCase("attention_decode",
                              rows ? "pages of " + std::to_string(pageSize) : "one piece", type);
        expectForward(oracle, runDecode(arrays, type, group, rows, splits),
                      "pages of " + std::to_string(rows ? pageSize : 0) + ", groups of " +
                          std::to_string(group) + ", " + std::to_string(splits) + " splits");
      }
    }
}

/// Keys and values of 8 bits, with factors for each sequence and key head or without, in pages and
/// in one piece; several queries, a window, a modifier. Rows without a sequence hold NaN.
TEST_P(Decode, EightBitCaches) {
  Type type = GetParam();
  uint64_t seed = 1;
  const std::vector<int64_t> lengths = {200, 3, 0, 65};
  struct Shape {
    DecodeShape decode;
    int64_t D, DV;
    bool hasFactors;
  };
  for (Type cache : {Type::E4M3, Type::E5M2})
    for (auto [shape, D, DV, hasFactors] : std::initializer_list<Shape>{
             {{1, 1, 8, 64, 64, Causal::None, {}}, 128, 128, true},
             {{1, 1, 3, 16, 16, Causal::BottomRight, {70, -1}}, 64, 64, false},
             {{4, 4, 4, 32, 32, Causal::BottomRight, {}}, 64, 128, true},
             {{2, 16, 8, 7, 1, Causal::TopLeft, {}}, 48, 40, true}})
      for (int64_t splits : {0, 3}) {
        auto [queries, rows, group, pageSize, pageRows, causal, window] = shape;
        DecodeArrays arrays(lengths, pageSize, group, D, DV, type, cache, seed++, queries);
        AttentionProblem &problem = arrays.problem;
        problem.causal = causal;
        problem.window = window;
        const int64_t batch = problem.B, heads = problem.Hkv;
        std::vector<double> ofKeys(batch * heads, 1), ofValues(batch * heads, 1);
        for (int64_t n = 0; hasFactors && n < batch * heads; ++n) {
          ofKeys[n] = static_cast<float>(0.3 + 0.2 * static_cast<double>(n));
          ofValues[n] = static_cast<float>(1.7 - 0.1 * static_cast<double>(n));
        }
        arrays.keys.factorsK = ofKeys;
        arrays.keys.factorsV = ofValues;
        CallOptions options;
        options.params = {{"ROWS", std::to_string(rows)},
                          {"CACHE", typeName(cache)},
                          {"DESCALE", hasFactors ? "true" : "false"}};
        if (hasFactors)
          options.bind = [=](KernelCall &call) {
            call.input("k_descale", ElementType::F32, {batch, heads}, ofKeys);
            call.input("v_descale", ElementType::F32, {batch, heads}, ofValues);
          };
        MatrixCase matrixCase("attention_decode", std::string("cache of ") + typeName(cache), type);
        ForwardOracle oracle = arrays.oracle(type);
        for (int64_t copied : {pageRows, int64_t(0)})
          expectForward(oracle, runDecode(arrays, type, group, copied, splits, options),
                        describe(problem, type) + ", cache of " + typeName(cache) + ", pages of " +
                            std::to_string(copied ? pageSize : 0) + ", " + std::to_string(splits) +
                            " splits");
      }
}

/// With given splits, a sequence has the same bits beside others, in other pages, and in one piece.
TEST_P(Decode, SameBitsInAnyBatch) {
  Type type = GetParam();
  constexpr int64_t pageSize = 16, group = 4, splits = 4;
  const std::vector<int64_t> lengths = {250, 33, 64, 0};
  DecodeArrays all(lengths, pageSize, group, 64, 64, type, /*seed=*/5);
  const AttentionProblem &problem = all.problem;
  const PagedKeys &keys = all.keys;
  ForwardResult together = runDecode(all, type, group, pageSize, splits);
  EXPECT_EQ(runDecode(all, type, group, 0, splits).o, together.o) << "in one piece";
  for (int64_t b = 0; b < problem.B; ++b) {
    DecodeArrays one = all;
    one.problem.B = 1;
    int64_t width = problem.Hq * problem.D;
    one.q.assign(all.q.begin() + b * width, all.q.begin() + (b + 1) * width);
    one.keys.lengths = {keys.lengths[b]};
    one.keys.table.assign(keys.table.begin() + b * keys.maxPages,
                          keys.table.begin() + (b + 1) * keys.maxPages);
    ForwardResult alone = runDecode(one, type, group, pageSize, splits);
    std::vector<double> expected(together.o.begin() + b * width,
                                 together.o.begin() + (b + 1) * width);
    EXPECT_EQ(alone.o, expected) << "sequence " << b;
  }
}

/// Several queries of a sequence, with masks and modifiers that see heads and queries; sequences
/// with fewer keys than queries, and none; in one part, and in parts that the window leaves out.
TEST_P(Decode, QueriesAndModifiers) {
  Type type = GetParam();
  uint64_t seed = 1;
  const std::vector<int64_t> lengths = {200, 3, 0, 65};
  for (auto [queries, rows, group, pageSize, pageRows, causal, window] :
       std::initializer_list<DecodeShape>{{1, 1, 8, 32, 32, Causal::BottomRight, {40, -1}},
                                          {4, 4, 8, 64, 64, Causal::BottomRight, {}},
                                          {3, 4, 3, 16, 16, Causal::BottomRight, {70, 2}},
                                          {16, 16, 1, 7, 1, Causal::TopLeft, {}},
                                          {2, 16, 8, 64, 32, Causal::None, {}}})
    for (bool modified : {false, true})
      for (int64_t splits : {0, 3}) {
        DecodeArrays arrays(lengths, pageSize, group, 64, 40, type, seed++, queries);
        AttentionProblem &problem = arrays.problem;
        problem.causal = causal;
        problem.window = window;
        CallOptions options;
        options.params = {{"ROWS", std::to_string(rows)}};
        std::vector<double> slopes(problem.B * problem.Hq), sinks(problem.Hq);
        for (int64_t n = 0; n < problem.B * problem.Hq; ++n)
          slopes[n] = static_cast<float>(1.0 / static_cast<double>(4 + n)); // f32 in all types
        for (int64_t h = 0; h < problem.Hq; ++h)
          sinks[h] = h == 1 ? static_cast<float>(3.0e38) : static_cast<double>(h) - 2;
        if (modified) {
          problem.sinks = sinks;
          std::vector<int64_t> shifts;
          for (int64_t length : lengths)
            shifts.push_back(length - queries);
          problem.score.value = [=, heads = problem.Hq](double s, int64_t b, int64_t h, int64_t i,
                                                        int64_t j) {
            double ahead = static_cast<double>(j - i - shifts[b]);
            return 2.0 * std::tanh((s - slopes[b * heads + h] * std::abs(ahead)) / 2.0);
          };
          options.with = {"mods/alibi_aligned", "mods/softcap", "mods/sink"};
          options.bind = [=, batch = problem.B, heads = problem.Hq](KernelCall &call) {
            call.input("alibi_slopes", ElementType::F32, {batch, heads}, slopes);
            call.integers("alibi_shift", {batch}, shifts);
            call.scalar("softcap", 2.0);
            call.input("sinks", ElementType::F32, {heads}, sinks);
          };
        }
        MatrixCase matrixCase("attention_decode", modified ? "modifiers" : maskName(problem), type);
        expectForward(arrays.oracle(type),
                      runDecode(arrays, type, group, pageRows, splits, options),
                      describe(problem, type) + ", " + std::to_string(rows) + " rows, " +
                          std::to_string(splits) + " splits" + (modified ? ", modified" : ""));
      }
}

/// The first keys of sequences are padding: none, some, all, more than there are keys. What no
/// iteration may read holds NaN: padding of keys, and of values before the block of 128 keys in
/// which it ends; without pages, all padding.
TEST_P(Decode, Leftpad) {
  Type type = GetParam();
  uint64_t seed = 1;
  const std::vector<int64_t> lengths = {400, 3, 0, 65, 333, 20}, leftpad = {290, 0, 5, 65, 1, 340};
  for (auto [queries, rows, group, pageSize, pageRows, causal, window] :
       std::initializer_list<DecodeShape>{{1, 1, 4, 16, 16, Causal::None, {}},
                                          {1, 1, 20, 7, 1, Causal::BottomRight, {60, -1}},
                                          {4, 4, 8, 64, 64, Causal::BottomRight, {}},
                                          {3, 4, 3, 32, 32, Causal::BottomRight, {150, 2}},
                                          {5, 16, 2, 64, 32, Causal::TopLeft, {}}})
    for (int64_t splits : {0, 3}) {
      DecodeArrays arrays(lengths, pageSize, group, 64, 40, type, seed++, queries);
      AttentionProblem &problem = arrays.problem;
      problem.causal = causal;
      problem.window = window;
      problem.mask = [&](int64_t b, int64_t, int64_t, int64_t j) { return j >= leftpad[b]; };
      ForwardOracle oracle = arrays.oracle(type);
      CallOptions options;
      options.params = {{"ROWS", std::to_string(rows)}, {"LEFTPAD", "true"}};
      options.bind = [&](KernelCall &call) { call.integers("leftpad", {problem.B}, leftpad); };
      for (bool hasPages : {true, false}) {
        DecodeArrays poisoned = arrays;
        for (auto [values, columns, blocks] :
             {std::tuple(&poisoned.keys.pagesK, problem.D, int64_t(1)),
              {&poisoned.keys.pagesV, problem.DV, hasPages ? int64_t(128) : int64_t(1)}})
          poisonPadding(*values, columns, arrays, leftpad, blocks);
        MatrixCase matrixCase("attention_decode", "padding before the keys", type);
        expectForward(
            oracle, runDecode(poisoned, type, group, hasPages ? pageRows : 0, splits, options),
            describe(problem, type) + ", pages of " + std::to_string(hasPages ? pageSize : 0) +
                ", " + std::to_string(splits) + " splits");
      }
    }
}

/// In one piece, keys behind padding have the same bits as where there is none: iterations begin
/// with the first key.
TEST_P(Decode, LeftpadInOnePieceHasTheBitsOfKeysAlone) {
  Type type = GetParam();
  constexpr int64_t padding = 101;
  DecodeArrays arrays({250 + padding, 33 + padding}, 16, 4, 64, 64, type, /*seed=*/6),
      alone = arrays;
  alone.keys.pageSize = 1; // a table of rows
  alone.keys.maxPages = 250;
  alone.keys.numPages = arrays.keys.numPages * 16;
  alone.keys.lengths = {250, 33};
  alone.keys.table.assign(2 * 250, 0);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t j = 0; j < alone.keys.lengths[b]; ++j) {
      int64_t row = j + padding;
      alone.keys.table[b * 250 + j] =
          arrays.keys.table[b * arrays.keys.maxPages + row / 16] * 16 + row % 16;
    }
  for (auto *values : {&alone.keys.pagesK, &alone.keys.pagesV})
    *values = rowsBeforeHeads(*values, arrays.keys, 2, 64);
  CallOptions options;
  options.params = {{"LEFTPAD", "true"}};
  options.bind = [&](KernelCall &call) { call.integers("leftpad", {2}, {padding, padding}); };
  for (int64_t splits : {1, 3}) {
    ForwardResult expected = runDecode(alone, type, 4, 0, splits),
                  got = runDecode(arrays, type, 4, 0, splits, options);
    EXPECT_EQ(got.o, expected.o) << splits;
    EXPECT_EQ(got.lse, expected.lse) << splits;
  }
}

/// Lists of blocks for each sequence and key head, or shared; masks; caches of 8 bits; lists in
/// several parts. Keys of other blocks hold NaN.
TEST_P(Decode, Lists) {
  Type type = GetParam();
  uint64_t seed = 1;
  const std::vector<int64_t> lengths = {700, 3, 0, 65, 256};
  struct Shape {
    DecodeShape decode;
    int64_t D, DV, block, batches, heads;
    std::optional<Type> cache;
  };
  for (const Shape &shape : std::initializer_list<Shape>{
           {{1, 1, 8, 64, 64, Causal::BottomRight, {}}, 128, 128, 64, 5, 2, {}},
           {{1, 1, 3, 16, 16, Causal::BottomRight, {70, -1}}, 64, 64, 16, 5, 1, {}},
           {{4, 4, 4, 32, 32, Causal::BottomRight, {}}, 64, 40, 32, 1, 2, {}},
           {{3, 16, 8, 7, 1, Causal::TopLeft, {}}, 48, 48, 128, 5, 2, {}},
           {{2, 2, 20, 128, 128, Causal::BottomRight, {90, 1}}, 256, 200, 256, 1, 1, {}},
           {{1, 1, 8, 64, 64, Causal::BottomRight, {}}, 64, 64, 64, 5, 2, Type::E4M3},
           {{4, 4, 4, 16, 16, Causal::BottomRight, {}}, 128, 64, 32, 5, 2, Type::E5M2}})
    for (int64_t splits : {0, 1, 3}) {
      auto [queries, rows, group, pageSize, pageRows, causal, window] = shape.decode;
      Type cache = shape.cache.value_or(type);
      DecodeArrays arrays(lengths, pageSize, group, shape.D, shape.DV, type, cache, seed, queries);
      AttentionProblem &problem = arrays.problem;
      problem.causal = causal;
      problem.window = window;
      AttentionProblem longest = problem;
      longest.Skv = 700;
      BlockLists lists(longest, rows, shape.block, seed++, shape.batches, shape.heads);
      problem.mask = lists.mask();
      ForwardOracle oracle = arrays.oracle(type);
      CallOptions options;
      options.params = {{"ROWS", std::to_string(rows)},
                        {"LISTED", "true"},
                        {"LIST_BLOCK_N", std::to_string(shape.block)}};
      if (shape.cache) {
        options.params.emplace_back("CACHE", typeName(cache));
        options.params.emplace_back("DESCALE", "false");
      }
      options.bind = [&](KernelCall &call) { lists.bind(call); };
      DecodeArrays poisoned = arrays;
      for (auto [values, columns] : {std::pair(&poisoned.keys.pagesK, problem.D),
                                     std::pair(&poisoned.keys.pagesV, problem.DV)})
        poison(*values, columns, arrays,
               [&](int64_t b, int64_t h, int64_t j) { return !problem.mask(b, h * group, 0, j); });
      MatrixCase matrixCase("attention_decode",
                            shape.cache ? "block lists, cache of 8 bits" : "block lists", type);
      for (int64_t copied : {pageRows, int64_t(0)})
        expectForward(oracle, runDecode(poisoned, type, group, copied, splits, options),
                      describe(problem, type) + ", blocks of " + std::to_string(shape.block) +
                          ", pages of " + std::to_string(copied ? pageSize : 0) + ", " +
                          std::to_string(splits) + " splits");
    }
}

/// With the blocks in their order, lists of all have the bits of no lists.
TEST_P(Decode, ListsOfAllBlocks) {
  Type type = GetParam();
  constexpr int64_t block = 64, most = 5;
  DecodeArrays arrays({300, 64, 0, 1}, 16, 8, 64, 64, type, /*seed=*/9);
  CallOptions options;
  options.params = {{"BLOCK_N", "64"}};
  ForwardResult expected = runDecode(arrays, type, 8, 16, 2, options);
  options.params.insert(options.params.end(),
                        {{"LISTED", "true"}, {"LIST_BLOCK_N", std::to_string(block)}});
  options.bind = [&](KernelCall &call) {
    call.integers("kv_indices", {1, 1, 1, most}, {0, 1, 2, 3, 4});
    call.integers("kv_num_blocks", {1, 1, 1}, {most});
  };
  ForwardResult whole = runDecode(arrays, type, 8, 16, 1, options);
  options.bind = [&](KernelCall &call) {
    call.integers("kv_indices", {4, 1, 1, most},
                  {0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    call.integers("kv_num_blocks", {4, 1, 1}, {5, 1, 0, 1});
  };
  ForwardResult got = runDecode(arrays, type, 8, 16, 2, options);
  EXPECT_EQ(got.o, expected.o);
  EXPECT_EQ(got.lse, expected.lse);
  expectForward(arrays.oracle(type), whole, "lists of more blocks than there are");
}

/// Two warpgroups read the queries of a tile, by loops whose rounds depend on data, and by those
/// for a negative scale: the queries of the next tile are written when both are done.
TEST_P(Decode, QueriesOfSeveralWarpgroups) {
  Type type = GetParam();
  for (bool hasDocuments : {false, true}) {
    DecodeArrays arrays({200, 130, 3}, 64, 8, 64, 64, type, /*seed=*/3, /*queries=*/16);
    AttentionProblem &problem = arrays.problem;
    problem.causal = Causal::BottomRight;
    CallOptions options;
    options.params = {{"ROWS", "16"}};
    if (hasDocuments) {
      constexpr int64_t queries = 16, keys = 256;
      auto ofQuery = [](int64_t i) { return i % 3; };
      auto ofKey = [](int64_t j) { return j / 20 % 3; };
      problem.mask = [=](int64_t, int64_t, int64_t i, int64_t j) { return ofQuery(i) == ofKey(j); };
      std::vector<int64_t> queryDocuments, keyDocuments;
      for (int64_t b = 0; b < problem.B; ++b) {
        for (int64_t i = 0; i < queries; ++i)
          queryDocuments.push_back(ofQuery(i));
        for (int64_t j = 0; j < keys; ++j)
          keyDocuments.push_back(ofKey(j));
      }
      options.with = {"mods/document"};
      options.bind = [=, batch = problem.B](KernelCall &call) {
        call.integers("query_document", {batch, queries}, queryDocuments);
        call.integers("key_document", {batch, keys}, keyDocuments);
      };
    } else {
      problem.scale = -problem.scale;
    }
    MatrixCase matrixCase("attention_decode", hasDocuments ? "documents" : "a negative scale",
                          type);
    for (int64_t splits : {0, 2})
      expectForward(arrays.oracle(type), runDecode(arrays, type, 8, 64, splits, options),
                    describe(problem, type) + (hasDocuments ? ", documents" : ""));
  }
}

/// Spans of fewer queries than rows for each head.
TEST_P(Decode, SpansOfFewQueries) {
  Type type = GetParam();
  const std::vector<int64_t> lengths = {200, 64};
  constexpr int64_t queries = 3, keys = 256;
  DecodeArrays arrays(lengths, 32, 4, 64, 64, type, /*seed=*/4, queries);
  AttentionProblem &problem = arrays.problem;
  auto begin = [](int64_t i) { return 10 * i; };
  auto end = [](int64_t i) { return 25 + 12 * i; };
  problem.mask = [=](int64_t, int64_t, int64_t i, int64_t j) {
    return begin(i) <= j && j < end(i);
  };
  std::vector<int64_t> keyBegin, keyEnd, queryBegin, queryEnd;
  for (int64_t b = 0; b < problem.B; ++b) {
    for (int64_t i = 0; i < queries; ++i) {
      keyBegin.push_back(begin(i));
      keyEnd.push_back(end(i));
    }
    for (int64_t j = 0; j < keys; ++j) {
      int64_t first = 0, behind = 0;
      while (first < queries && end(first) <= j)
        ++first;
      while (behind < queries && begin(behind) <= j)
        ++behind;
      queryBegin.push_back(first);
      queryEnd.push_back(std::max(first, behind));
    }
  }
  CallOptions options;
  options.params = {{"ROWS", "8"}};
  options.with = {"mods/spans"};
  options.bind = [=, batch = problem.B](KernelCall &call) {
    call.integers("key_begin", {batch, queries}, keyBegin);
    call.integers("key_end", {batch, queries}, keyEnd);
    call.integers("query_begin", {batch, keys}, queryBegin);
    call.integers("query_end", {batch, keys}, queryEnd);
  };
  MatrixCase matrixCase("attention_decode", "spans", type);
  expectForward(arrays.oracle(type), runDecode(arrays, type, 4, 32, 0, options),
                describe(problem, type) + ", spans");
}

/// A tree of drafted tokens, as bits: a query attends all keys before those of the tree, some of
/// these, and its own. Sequences have fewer keys than queries, or none; the tree lies in one block
/// of keys, or in two.
TEST_P(Decode, TreeBits) {
  Type type = GetParam();
  uint64_t seed = 1;
  const std::vector<int64_t> lengths = {200, 3, 0, 65, 131};
  for (auto [queries, rows, group, pageRows, causal] :
       {std::tuple<int64_t, int64_t, int64_t, int64_t, Causal>{5, 8, 4, 16, Causal::None},
        {16, 16, 8, 64, Causal::BottomRight},
        {1, 1, 3, 32, Causal::None},
        {7, 8, 16, 8, Causal::None}})
    for (int64_t splits : {0, 3}) {
      DecodeArrays arrays(lengths, 64, group, 64, 40, type, seed++, queries);
      AttentionProblem &problem = arrays.problem;
      problem.causal = causal;
      std::vector<int64_t> bits, begins;
      std::vector<double> numbers = normals(problem.B * queries * queries, seed);
      auto attends = [=](int64_t b, int64_t i, int64_t c) {
        return c == i || (c < i && numbers[(b * queries + i) * queries + c] > 0);
      };
      for (int64_t b = 0; b < problem.B; ++b) {
        begins.push_back(lengths[b] - queries);
        for (int64_t i = 0; i < queries; ++i) {
          int64_t word = 0;
          for (int64_t c = 0; c < queries; ++c)
            word |= attends(b, i, c) ? int64_t(1) << c : 0;
          bits.push_back(word);
        }
      }
      problem.mask = [=](int64_t b, int64_t, int64_t i, int64_t j) {
        int64_t c = j - begins[b];
        return c < 0 || attends(b, i, c);
      };
      CallOptions options;
      options.params = {{"ROWS", std::to_string(rows)}};
      options.with = {"mods/tree_bits"};
      options.bind = [&, batch = problem.B, queries = queries](KernelCall &call) {
        call.integers("tree_bits", {batch, queries, 1}, bits);
        call.integers("tree_begin", {batch}, begins);
      };
      ForwardOracle oracle = arrays.oracle(type);
      for (int64_t from : {pageRows, int64_t(0)}) {
        MatrixCase matrixCase("attention_decode", "tree_bits", type);
        expectForward(oracle, runDecode(arrays, type, group, from, splits, options),
                      describe(problem, type) + ", pages of " + std::to_string(from) + ", " +
                          std::to_string(splits) + " splits");
      }
    }
}

/// Keys and values [B, Hkv, Skv, width] in one piece, all of which count.
ForwardResult runInOnePiece(const AttentionProblem &problem, Type type,
                            const AttentionInputs &inputs, int64_t group, int64_t rows,
                            int64_t splits, const Params &more = {}) {
  Params params = attentionParams(problem, type);
  for (auto [name, value] : {std::pair("GROUP", group), {"ROWS", rows}})
    params.emplace_back(name, std::to_string(value));
  addPieces(params, splits);
  params.insert(params.end(), more.begin(), more.end());
  KernelCall call("attention_decode", params);
  ElementType element = elementType(type);
  call.input("q", element, {problem.B, problem.Hq, problem.Sq, problem.D}, inputs.q);
  auto cache = [&](const char *name, const std::vector<double> &values, int64_t columns) {
    std::vector<double> rowsFirst(values.size());
    for (int64_t b = 0; b < problem.B; ++b)
      for (int64_t h = 0; h < problem.Hkv; ++h)
        for (int64_t j = 0; j < problem.Skv; ++j)
          std::copy_n(values.begin() + ((b * problem.Hkv + h) * problem.Skv + j) * columns, columns,
                      rowsFirst.begin() + ((b * problem.Skv + j) * problem.Hkv + h) * columns);
    call.input(name, element, {problem.B, problem.Skv, problem.Hkv, columns}, rowsFirst);
  };
  cache("k_pages", inputs.k, problem.D);
  cache("v_pages", inputs.v, problem.DV);
  call.integers("seq_lens", {problem.B}, std::vector<int64_t>(problem.B, problem.Skv));
  call.scalar("scale", problem.scale);
  bindForwardOutputs(call, problem, type);
  call.runTwice();
  return readForward(call);
}

/// From one part to more parts than blocks of keys, also with fewer keys than queries.
TEST_P(Decode, PartsOfEqualSequences) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (auto [Sq, rows, Skv] :
         {std::tuple<int64_t, int64_t, int64_t>{1, 1, 700}, {5, 8, 333}, {16, 16, 9}, {3, 4, 0}}) {
      AttentionProblem problem = makeProblem(2, 4, 2, Sq, Skv, 64, 40, causal);
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      ForwardOracle oracle(problem, inputs, type);
      MatrixCase matrixCase("attention_decode", maskName(problem), type);
      for (int64_t splits : {1, 2, 3, 4, 7, 11, 16})
        expectForward(oracle, runInOnePiece(problem, type, inputs, 2, rows, splits),
                      describe(problem, type) + ", " + std::to_string(splits) + " splits");
      expectForward(oracle, runInOnePiece(problem, type, inputs, 2, rows, 5, {{"BLOCK_N", "32"}}),
                    describe(problem, type) + ", other blocks");
    }
}

/// Groups of one head to as many as a tile has rows.
TEST_P(Decode, Groups) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (auto [group, Sq, rows] : {std::tuple<int64_t, int64_t, int64_t>{1, 9, 16},
                                 {2, 1, 1},
                                 {3, 9, 16},
                                 {8, 16, 16},
                                 {64, 2, 2},
                                 {128, 1, 1}})
    for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight}) {
      AttentionProblem problem = makeProblem(2, group * (seed % 2 ? 2 : 1), seed % 2 ? 2 : 1, Sq,
                                             seed % 3 ? 150 : 20, 64, seed % 3 ? 40 : 64, causal);
      AttentionInputs inputs = randomInputs(problem, type, seed++);
      MatrixCase matrixCase("attention_decode", maskName(problem), type);
      expectForward(ForwardOracle(problem, inputs, type),
                    runInOnePiece(problem, type, inputs, group, rows, 0),
                    describe(problem, type) + ", groups of " + std::to_string(group));
    }
}

TEST_P(Decode, ExtentsOfZero) {
  Type type = GetParam();
  for (AttentionProblem problem : emptyProblems()) {
    problem.Sq = std::min<int64_t>(problem.Sq, 16);
    AttentionInputs inputs = randomInputs(problem, type, 1);
    ForwardOracle oracle(problem, inputs, type);
    for (int64_t splits : {0, 3})
      expectForward(oracle, runInOnePiece(problem, type, inputs, 1, 16, splits),
                    describe(problem, type) + ", " + std::to_string(splits) + " splits");
  }
}

TEST_P(Decode, NaNInARowStaysThere) {
  Type type = GetParam();
  AttentionProblem problem = makeProblem(2, 6, 2, 5, 139, 32, 24, Causal::BottomRight);
  for (int64_t splits : {1, 3})
    expectNaNStaysInItsRow(problem, type, [&](const AttentionInputs &inputs) {
      return runInOnePiece(problem, type, inputs, 3, 8, splits);
    });
}

} // namespace
