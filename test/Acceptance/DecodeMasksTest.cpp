// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel for few queries: which keys they attend, by masks, padding, lists and bits of trees.

#include "test/Acceptance/BlockLists.h"
#include "test/Acceptance/DecodeCall.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

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
