// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// attention_forward with CACHED: keys and values in pages, or in one piece for each sequence, with
// their numbers in an array; queries of sequences of one length, or packed. Rows of the cache that
// no sequence has hold NaN.

#include "test/Acceptance/BlockLists.h"
#include "test/Acceptance/CachedCall.h"
#include "test/Acceptance/ShippedMods.h"
#include "test/Reference/Modifiers.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

class Cached : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, Cached, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

/// Pages of any size, that a copy takes in parts or a row at a time, and sequences in one piece;
/// lengths around the ends of pages; packed queries, of which sequences may have none, and more
/// queries than keys.
TEST_P(Cached, Pages) {
  Type type = GetParam();
  uint64_t seed = 1;
  for (int64_t rows : {1, 7, 16, 64, 128, 256})
    for (Causal causal : {Causal::None, Causal::BottomRight}) {
      AttentionProblem common =
          makeProblem(1, 4, seed % 2 ? 2 : 1, 0, 0, 64, seed % 3 ? 64 : 40, causal);
      PackedProblem problem =
          packedProblem({40, 0, 1, 131, 17, 30, 0, 20},
                        {2 * rows + 1, 300, rows, 300, 0, 1, 0, 3 * rows - 1}, common);
      AttentionInputs inputs = randomInputs(problem.packed(), type, seed);
      ForwardOracle oracle = oracleOf(problem, type, inputs);
      std::string context = "pages of " + std::to_string(rows) + ", " + maskName(common);
      {
        MatrixCase matrixCase("attention_forward CACHED",
                              "packed, pages of " + std::to_string(rows), type);
        expectForward(oracle,
                      runCached(problem, type, inputs, pagesOf(problem, inputs, rows, seed)),
                      context);
      }
      ++seed;
      if (rows > 7)
        continue;
      MatrixCase matrixCase("attention_forward CACHED", "packed, in one piece", type);
      expectForward(oracle, runCached(problem, type, inputs, piecesOf(problem, inputs)),
                    "in one piece, " + maskName(common));
    }
}

/// As many queries in each sequence.
TEST_P(Cached, BatchOfEqualQueries) {
  Type type = GetParam();
  uint64_t seed = 20;
  for (int64_t rows : {1, 16, 64})
    for (int64_t queries : {1, 5, 150}) {
      AttentionProblem common = makeProblem(1, 6, 2, 0, 0, 64, 64, Causal::BottomRight);
      PackedProblem problem =
          packedProblem({queries, queries, queries}, {rows + 150, 0, 3 * rows}, common);
      AttentionInputs inputs = randomInputs(problem.packed(), type, seed);
      ForwardOracle oracle = oracleOf(problem, type, inputs);
      CachedOptions options;
      options.isPacked = false;
      std::string context = std::to_string(queries) + " queries, pages of " + std::to_string(rows);
      MatrixCase matrixCase("attention_forward CACHED", "batch, pages of " + std::to_string(rows),
                            type);
      expectForward(
          oracle, runCached(problem, type, inputs, pagesOf(problem, inputs, rows, seed++), options),
          context);
      expectForward(oracle, runCached(problem, type, inputs, piecesOf(problem, inputs), options),
                    context + ", in one piece");
    }
}

/// On one device, any pages give the bits of arrays in one piece: permuted, shared by sequences, of
/// any size that boxes of the tensor map divide, in any order of dimensions.
TEST_P(Cached, SameBitsAsOnePiece) {
  Type type = GetParam();
  AttentionProblem common = makeProblem(1, 4, 2, 0, 0, 64, 64, Causal::BottomRight);
  PackedProblem problem = packedProblem({70, 3, 0, 140}, {300, 33, 64, 333}, common);
  AttentionInputs inputs = randomInputs(problem.packed(), type, 30);
  // The last sequence begins with the first 128 keys of the first one.
  for (auto [values, width] : {std::pair(&inputs.k, common.D), std::pair(&inputs.v, common.DV)})
    for (int64_t h = 0; h < common.Hkv; ++h) {
      auto head = values->begin() + h * problem.totalKv() * width;
      std::copy_n(head, 128 * width, head + problem.cuKv[3] * width);
    }
  ForwardResult expected = runContiguous(problem, type, inputs);
  expectForward(oracleOf(problem, type, inputs), expected, "in one piece");
  auto expectSame = [&](const Cache &cache, const CachedOptions &options, const std::string &what) {
    ForwardResult got = runCached(problem, type, inputs, cache, options);
    EXPECT_EQ(got.o, expected.o) << what;
    EXPECT_EQ(got.lse, expected.lse) << what;
  };
  expectSame(piecesOf(problem, inputs), {}, "a cache in one piece");
  for (int64_t rows : {8, 16, 64, 128})
    for (CacheOrder order :
         {CacheOrder::HeadsInRows, CacheOrder::RowsInHeads, CacheOrder::Padded}) {
      CachedOptions options;
      options.order = order;
      std::string what = "pages of " + std::to_string(rows);
      expectSame(pagesOf(problem, inputs, rows, rows), options, what);
      expectSame(pagesOf(problem, inputs, rows, rows + 1, /*shared=*/128 / rows), options,
                 what + ", shared");
    }
  CachedOptions eights;
  eights.pageRows = 8;
  expectSame(pagesOf(problem, inputs, 64, 3), eights, "pages of 64 in boxes of 8");
}

/// Keys and values of a page behind each other, in one array.
TEST_P(Cached, KeysAndValuesInOneArray) {
  Type type = GetParam();
  AttentionProblem common = makeProblem(1, 4, 2, 0, 0, 64, 64, Causal::BottomRight);
  PackedProblem problem = packedProblem({70, 3}, {150, 40}, common);
  AttentionInputs inputs = randomInputs(problem.packed(), type, 31);
  Cache apart = pagesOf(problem, inputs, 16, 5), together = apart;
  // Pages 2 p hold keys, and pages 2 p + 1 values.
  int64_t page = apart.rows * common.Hkv * common.D;
  together.pages = 2 * apart.pages;
  for (int64_t &number : together.table)
    number = number == noPage ? number : 2 * number;
  together.k.assign(2 * apart.k.size(), std::numeric_limits<double>::quiet_NaN());
  together.v = together.k;
  for (int64_t p = 0; p < apart.pages; ++p) {
    std::copy_n(apart.k.begin() + p * page, page, together.k.begin() + 2 * p * page);
    std::copy_n(apart.v.begin() + p * page, page, together.v.begin() + 2 * p * page);
  }
  MatrixCase matrixCase("attention_forward CACHED", "every other page", type);
  expectForward(oracleOf(problem, type, inputs), runCached(problem, type, inputs, together));
}

/// Windows, whose corner is that of each sequence.
TEST_P(Cached, Windows) {
  Type type = GetParam();
  uint64_t seed = 40;
  for (Causal causal : {Causal::None, Causal::TopLeft, Causal::BottomRight})
    for (Window window : {Window{30, 4}, Window{200, -1}, Window{0, 0}}) {
      AttentionProblem common = makeProblem(1, 4, 2, 0, 0, 64, 64, causal, window);
      PackedProblem problem = packedProblem({40, 150, 3}, {290, 170, 500}, common);
      AttentionInputs inputs = randomInputs(problem.packed(), type, seed);
      MatrixCase matrixCase("attention_forward CACHED", maskName(common), type);
      expectForward(oracleOf(problem, type, inputs),
                    runCached(problem, type, inputs, pagesOf(problem, inputs, 16, seed)),
                    maskName(common));
      ++seed;
    }
}

/// The first keys of sequences are padding, which holds NaN where no iteration may read it.
TEST_P(Cached, Leftpad) {
  Type type = GetParam();
  uint64_t seed = 50;
  const std::vector<int64_t> leftpad = {290, 0, 1, 70, 9, 420};
  for (auto [causal, window] : {std::pair(Causal::None, Window{}),
                                {Causal::BottomRight, Window{}},
                                {Causal::BottomRight, Window{90, -1}},
                                {Causal::TopLeft, Window{}}})
    for (bool isPacked : {true, false}) {
      AttentionProblem common = makeProblem(1, 4, 2, 0, 0, 64, 40, causal, window);
      common.mask = [&](int64_t b, int64_t, int64_t, int64_t j) { return j >= leftpad[b]; };
      PackedProblem problem = packedProblem(isPacked ? std::vector<int64_t>{140, 30, 0, 3, 20, 5}
                                                     : std::vector<int64_t>(6, 70),
                                            {420, 150, 40, 70, 200, 300}, common);
      AttentionInputs inputs = randomInputs(problem.packed(), type, seed);
      ForwardOracle oracle = oracleOf(problem, type, inputs);
      CachedOptions options;
      options.isPacked = isPacked;
      options.call.params = {{"LEFTPAD", "true"}};
      options.call.bind = [&](KernelCall &call) { call.integers("leftpad", {6}, leftpad); };
      for (Cache cache : {pagesOf(problem, inputs, 16, seed), pagesOf(problem, inputs, 7, seed),
                          piecesOf(problem, inputs)}) {
        for (auto [values, width, block] :
             {std::tuple(&cache.k, common.D, int64_t(1)),
              {&cache.v, common.DV, cache.hasTable ? int64_t(128) : int64_t(1)}})
          for (int64_t n = 0; n < problem.numSequences(); ++n)
            for (int64_t j = 0, keys = std::min(leftpad[n], problem.cuKv[n + 1] - problem.cuKv[n]);
                 j < keys / block * block; ++j) {
              int64_t page = cache.hasTable ? cache.table[n * cache.columns + j / cache.rows] : n;
              int64_t row = page * cache.rows + j % cache.rows;
              std::fill_n(values->begin() + row * common.Hkv * width, common.Hkv * width,
                          std::numeric_limits<double>::quiet_NaN());
            }
        MatrixCase matrixCase("attention_forward CACHED", "padding before the keys", type);
        expectForward(oracle, runCached(problem, type, inputs, cache, options),
                      maskName(common) + (isPacked ? ", packed" : "") + ", " +
                          std::to_string(cache.rows) + " rows of a page");
      }
      ++seed;
    }
}

/// Keys and values of 8 bits, with factors for each sequence and key head or without; in pages and
/// in one piece, with a window, of listed blocks.
TEST_P(Cached, EightBits) {
  Type type = GetParam();
  uint64_t seed = 57;
  struct Shape {
    Type stored;
    int64_t rows, D, DV;
    bool hasFactors;
    Window window;
  };
  for (auto [stored, rows, D, DV, hasFactors, window] :
       std::initializer_list<Shape>{{Type::E4M3, 16, 64, 64, true, {}},
                                    {Type::E5M2, 7, 48, 40, true, {70, 2}},
                                    {Type::E4M3, 0, 128, 128, false, {}},
                                    {Type::E5M2, 64, 128, 64, true, {}}}) {
    AttentionProblem common = makeProblem(1, 4, 2, 140, 420, D, DV, Causal::BottomRight, window);
    PackedProblem problem = packedProblem({140, 30, 0, 3, 20}, {420, 150, 40, 0, 200}, common);
    AttentionInputs inputs = randomInputs(problem.packed(), stored, seed), scaled;
    inputs.q = randomInputs(problem.packed(), type, seed).q;
    scaled = inputs;
    std::vector<double> ofKeys(problem.numSequences() * common.Hkv, 1), ofValues = ofKeys;
    for (size_t n = 0; hasFactors && n < ofKeys.size(); ++n) {
      ofKeys[n] = static_cast<float>(0.3 + 0.2 * static_cast<double>(n));
      ofValues[n] = static_cast<float>(1.7 - 0.1 * static_cast<double>(n));
    }
    for (auto [values, factors, width] :
         {std::tuple(&scaled.k, &ofKeys, D), {&scaled.v, &ofValues, DV}})
      for (int64_t h = 0; h < common.Hkv; ++h)
        for (int64_t n = 0; n < problem.numSequences(); ++n)
          for (int64_t j = problem.cuKv[n]; j < problem.cuKv[n + 1]; ++j)
            for (int64_t column = 0; column < width; ++column)
              (*values)[(h * problem.totalKv() + j) * width + column] *=
                  (*factors)[n * common.Hkv + h];
    CachedOptions options;
    options.stored = stored;
    options.call.params = {{"CACHE", typeName(stored)}, {"DESCALE", hasFactors ? "true" : "false"}};
    if (hasFactors)
      options.call.bind = [&](KernelCall &call) {
        call.input("k_factors", ElementType::F32, {problem.numSequences(), common.Hkv}, ofKeys);
        call.input("v_factors", ElementType::F32, {problem.numSequences(), common.Hkv}, ofValues);
      };
    const bool isListed = seed % 2 == 0;
    if (isListed) {
      BlockLists lists(common, 128, 64, seed, /*batches=*/5, /*heads=*/2);
      problem.common.mask = lists.mask();
      lists.addTo(options.call);
    }
    Cache cache = rows ? pagesOf(problem, inputs, rows, seed) : piecesOf(problem, inputs);
    MatrixCase matrixCase("attention_forward CACHED", std::string("cache of ") + typeName(stored),
                          type);
    expectForward(oracleOf(problem, type, scaled), runCached(problem, type, inputs, cache, options),
                  std::string("cache of ") + typeName(stored) + ", " + std::to_string(cache.rows) +
                      " rows of a page");
    ++seed;
  }
}

/// Lists of blocks of each block of queries: of all heads, of key heads, of query heads; of all
/// sequences or each. Keys of blocks that no list has hold NaN.
TEST_P(Cached, Lists) {
  Type type = GetParam();
  uint64_t seed = 55;
  struct Shape {
    int64_t blockM, blockN, heads, rows;
    Causal causal;
    Window window;
    bool isPacked;
  };
  for (auto [blockM, blockN, heads, rows, causal, window, isPacked] :
       std::initializer_list<Shape>{{128, 64, 2, 64, Causal::BottomRight, {}, true},
                                    {64, 32, 4, 16, Causal::None, {}, true},
                                    {128, 128, 1, 7, Causal::BottomRight, {}, false},
                                    {128, 16, 2, 0, Causal::BottomRight, {90, 3}, true},
                                    {256, 256, 2, 32, Causal::TopLeft, {}, false}}) {
    AttentionProblem common =
        makeProblem(1, 4, 2, isPacked ? 140 : 70, 420, 64, 40, causal, window);
    PackedProblem problem = packedProblem(isPacked ? std::vector<int64_t>{140, 30, 0, 3, 20}
                                                   : std::vector<int64_t>(5, 70),
                                          {420, 150, 40, 0, 200}, common);
    BlockLists lists(common, blockM, blockN, seed, /*batches=*/seed % 2 ? 5 : 1, heads);
    problem.common.mask = lists.mask();
    AttentionInputs inputs = randomInputs(problem.packed(), type, seed);
    ForwardOracle oracle = oracleOf(problem, type, inputs);
    CachedOptions options;
    options.isPacked = isPacked;
    lists.addTo(options.call);
    Cache cache = rows ? pagesOf(problem, inputs, rows, seed) : piecesOf(problem, inputs);
    for (auto [values, width] : {std::pair(&cache.k, common.D), std::pair(&cache.v, common.DV)})
      for (int64_t n = 0; n < problem.numSequences(); ++n)
        for (int64_t j = 0; j < problem.cuKv[n + 1] - problem.cuKv[n]; ++j) {
          bool isListed = false;
          for (int64_t h = 0; h < common.Hq; ++h)
            for (int64_t i = 0; i < problem.cuQ[n + 1] - problem.cuQ[n]; ++i)
              isListed |= problem.common.mask(n, h, i, j);
          int64_t page = cache.hasTable ? cache.table[n * cache.columns + j / cache.rows] : n;
          if (!isListed)
            std::fill_n(values->begin() + (page * cache.rows + j % cache.rows) * common.Hkv * width,
                        common.Hkv * width, std::numeric_limits<double>::quiet_NaN());
        }
    MatrixCase matrixCase("attention_forward CACHED", "block lists", type);
    expectForward(oracle, runCached(problem, type, inputs, cache, options),
                  maskName(common) + ", blocks of " + std::to_string(blockN) + ", " +
                      std::to_string(cache.rows) + " rows of a page");
    ++seed;
  }
}

/// A batch of sequences with few queries and with many, by two kernels on the same arrays: each
/// writes the rows of its sequences alone, and the forward those of no sequence.
TEST_P(Cached, MixedBatches) {
  Type type = GetParam();
  uint64_t seed = 45;
  for (auto [rows, splits, window] :
       {std::tuple(1, 0, Window{}), {4, 3, Window{}}, {4, 0, Window{50, 0}}}) {
    AttentionProblem common = makeProblem(1, 4, 2, 0, 0, 64, 40, Causal::BottomRight, window);
    PackedProblem problem =
        packedProblem({1, 140, 3, 0, 4, 5, 1, 2}, {70, 300, 3, 20, 129, 30, 0, 260}, common);
    AttentionInputs inputs = randomInputs(problem.packed(), type, seed);
    ForwardOracle oracle = oracleOf(problem, type, inputs);
    CachedOptions few, many;
    few.decodedRows = rows;
    few.call.params = {{"SPLITS", std::to_string(splits)}};
    many.call.params = {{"ABOVE", std::to_string(rows)}};
    std::vector<int64_t> offsets = problem.cuQ; // the rows of the last sequence are left out
    offsets.back() = *(offsets.end() - 2);
    for (const Cache &cache : {pagesOf(problem, inputs, 16, seed),
                               pagesOf(problem, inputs, 7, seed), piecesOf(problem, inputs)})
      for (bool isWhole : {true, false}) {
        few.offsets = many.offsets = isWhole ? problem.cuQ : offsets;
        ForwardResult decoded = runCached(problem, type, inputs, cache, few);
        ForwardResult result = runCached(problem, type, inputs, cache, many);
        int64_t left = 0, leftOut = 0;
        for (int64_t h = 0; h < common.Hq; ++h)
          for (int64_t n = 0; n < problem.numSequences(); ++n)
            for (int64_t i = problem.cuQ[n]; i < problem.cuQ[n + 1]; ++i) {
              int64_t row = h * problem.totalQ() + i, first = row * common.DV;
              bool isLeftOut = i >= many.offsets.back();
              bool isFew = !isLeftOut && problem.cuQ[n + 1] - problem.cuQ[n] <= rows;
              ForwardResult &other = isFew ? result : decoded;
              left += std::isnan(other.lse[row]) && std::isnan(other.o[first]);
              if (isLeftOut) {
                leftOut += result.lse[row] == -INFINITY && result.o[first] == 0;
                decoded.lse[row] = oracle.ref.lse[row];
                std::copy_n(oracle.ref.o.begin() + first, common.DV, decoded.o.begin() + first);
              }
              if (isFew || isLeftOut) {
                result.lse[row] = decoded.lse[row];
                std::copy_n(decoded.o.begin() + first, common.DV, result.o.begin() + first);
              }
            }
        EXPECT_EQ(left, common.Hq * problem.totalQ()) << "rows that the other kernel left";
        EXPECT_EQ(leftOut, isWhole ? 0 : 2 * common.Hq);
        MatrixCase matrixCase("attention_decode", "mixed batches", type);
        expectForward(oracle, result,
                      maskName(common) + ", " + std::to_string(rows) + " rows, " +
                          std::to_string(cache.rows) + " rows of a page");
      }
    ++seed;
  }
}

/// Shipped files one at a time: scores, masks whose arrays have a row for each sequence and an
/// element for each key of the longest.
void checkMod(const ShippedMod &mod, Type type, uint64_t seed) {
  AttentionProblem common = makeProblem(2, 4, 2, 60, 150, 64, 64, Causal::None);
  mod.apply(common);
  CachedOptions options;
  options.isPacked = false;
  options.call = optionsFor(mod, common);
  PackedProblem problem = packedProblem({60, 60}, {150, 150}, common);
  problem.common.B = 1;
  AttentionInputs inputs = randomInputs(problem.packed(), type, seed);
  MatrixCase matrixCase("attention_forward CACHED", mod.name, type);
  expectForward(oracleOf(problem, type, inputs),
                runCached(problem, type, inputs, pagesOf(problem, inputs, 16, seed), options),
                mod.name);
}

TEST_P(Cached, Files) {
  uint64_t seed = 60;
  for (const ShippedMod &mod : scoreMods())
    checkMod(mod, GetParam(), seed++);
  for (const ShippedMod &mod : maskMods())
    checkMod(mod, GetParam(), seed++);
}

/// A bias of the queries and keys of each sequence, and one that all queries share.
TEST_P(Cached, Bias) {
  Type type = GetParam();
  for (int64_t rows : {int64_t(60), int64_t(1)}) {
    AttentionProblem batch = makeProblem(2, 4, 2, 60, 150, 64, 64, Causal::BottomRight);
    batch.bias.b = batch.B;
    batch.bias.h = batch.Hq;
    batch.bias.rows = rows;
    batch.bias.values = normals(batch.B * batch.Hq * rows * batch.Skv, 70, type, 2.0);
    AttentionInputs inputs = randomInputs(batch, type, 70), packed;
    packed.q = swapOuter(inputs.q, batch.B, batch.Hq);
    packed.k = swapOuter(inputs.k, batch.B, batch.Hkv);
    packed.v = swapOuter(inputs.v, batch.B, batch.Hkv);
    AttentionProblem one = batch;
    one.B = 1;
    PackedProblem problem = packedProblem({60, 60}, {150, 150}, one);
    CachedOptions options;
    options.isPacked = false;
    options.call.with = {"mods/bias"};
    options.call.bind = [&](KernelCall &call) {
      call.input("bias", elementType(type), {batch.B, batch.Hq, rows, batch.Skv},
                 batch.bias.values);
    };
    MatrixCase matrixCase("attention_forward CACHED", "bias", type);
    ForwardResult result =
        runCached(problem, type, packed, pagesOf(problem, packed, 16, 70), options);
    for (std::vector<double> *values : {&result.o, &result.lse})
      *values = swapOuter(*values, batch.Hq, batch.B);
    expectForward(ForwardOracle(batch, inputs, type), result, "bias");
  }
}

/// Files together, with packed queries and lengths of their own.
TEST_P(Cached, SeveralFiles) {
  Type type = GetParam();
  AttentionProblem common = makeProblem(1, 4, 2, 0, 0, 32, 24, Causal::BottomRight, {60, -1});
  PackedProblem problem = packedProblem({40, 0, 90, 7}, {70, 12, 160, 0}, common);
  problem.common.score = compose(alibi(alibiSlopes(4)), softcap(2.0));
  problem.common.mask = prefixLm({30, 4, 50, 1});
  problem.common.dropout = {0.25, 11, 12};
  problem.common.sinks = {0.5, -1.0, 2.0, -3.0};
  CachedOptions options;
  options.call.with = {"mods/softcap", "mods/prefix_lm", "mods/alibi", "mods/dropout", "mods/sink"};
  options.call.bind = [&](KernelCall &call) {
    call.scalar("softcap", 2.0);
    call.integers("prefix_length", {4}, {30, 4, 50, 1});
    call.input("slopes", ElementType::F32, {4}, alibiSlopes(4));
    call.scalar("dropout", 0.25);
    call.integers("dropout_seed", {1}, {11}, ElementType::I64);
    call.integers("dropout_offset", {1}, {12}, ElementType::I64);
    call.input("sinks", ElementType::F32, {4}, problem.common.sinks);
  };
  AttentionInputs inputs = randomInputs(problem.packed(), type, 80);
  MatrixCase matrixCase("attention_forward CACHED", "several files", type);
  expectForward(oracleOf(problem, type, inputs),
                runCached(problem, type, inputs, pagesOf(problem, inputs, 32, 80), options));
}

/// Neither sequences, nor queries, nor pages.
TEST_P(Cached, ExtentsOfZero) {
  Type type = GetParam();
  AttentionProblem common = makeProblem(1, 2, 2, 0, 0, 32, 32, Causal::BottomRight);
  for (const PackedProblem &problem :
       {packedProblem({}, {}, common), packedProblem({0, 0}, {30, 0}, common),
        packedProblem({20, 3}, {0, 0}, common)}) {
    AttentionInputs inputs = randomInputs(problem.packed(), type, 90);
    ForwardOracle oracle = oracleOf(problem, type, inputs);
    Cache pages = pagesOf(problem, inputs, 16, 90);
    expectForward(oracle, runCached(problem, type, inputs, pages), "pages");
    expectForward(oracle, runCached(problem, type, inputs, piecesOf(problem, inputs)), "pieces");
    if (problem.totalKv() > 0)
      continue;
    pages.pages = 0;
    pages.k.clear();
    pages.v.clear();
    expectForward(oracle, runCached(problem, type, inputs, pages), "no pages");
  }
}

/// A NaN in a query stays in its row.
TEST_P(Cached, NaNInARowStaysThere) {
  Type type = GetParam();
  AttentionProblem common = makeProblem(1, 4, 2, 0, 0, 32, 24, Causal::BottomRight);
  PackedProblem problem = packedProblem({20, 5}, {139, 40}, common);
  AttentionInputs clean = randomInputs(problem.packed(), type, 95), poisoned = clean;
  int64_t row = problem.totalQ() + 7; // of head 1
  poisoned.q[row * common.D + 3] = std::numeric_limits<double>::quiet_NaN();
  Cache cache = pagesOf(problem, clean, 16, 95);
  ForwardResult expected = runCached(problem, type, clean, cache);
  ForwardResult got = runCached(problem, type, poisoned, cache);
  for (int64_t i = 0; i < common.DV; ++i) {
    EXPECT_NE(got.o[row * common.DV + i], got.o[row * common.DV + i]);
    got.o[row * common.DV + i] = expected.o[row * common.DV + i];
  }
  EXPECT_NE(got.lse[row], got.lse[row]);
  got.lse[row] = expected.lse[row];
  EXPECT_EQ(got.o, expected.o);
  EXPECT_EQ(got.lse, expected.lse);
}

} // namespace
