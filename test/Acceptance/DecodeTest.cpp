// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel for few queries: pages, parts, the heads of a group as rows of one tile.

#include "test/Acceptance/DecodeCall.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

INSTANTIATE_TEST_SUITE_P(Type, Decode, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

/// Keys and values [B, Hkv, Skv, width] in one piece, all of which count.
static ForwardResult runInOnePiece(const AttentionProblem &problem, Type type,
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
