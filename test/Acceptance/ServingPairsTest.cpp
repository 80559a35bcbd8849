// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Combinations of the features of a cache, queries, masks and modifiers against the oracle, by
// attention_decode and by attention_forward with CACHED: covering sets, which contain each pair of
// choices of two features. On the simulator a few combinations that contain each choice, and all of
// them with TILEWRIGHT_TEST_TIER=full. The name of a test has its choices, for filters such as
// *page64*e4m3*.

#include "test/Acceptance/BlockLists.h"
#include "test/Acceptance/CoverPairs.h"
#include "test/Acceptance/ServedCall.h"
#include "test/Reference/Cases.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

enum ServingFeature {
  PageSize, // 0: a cache in one piece
  CacheOrder,
  NewQueries,
  GroupSize,
  ServingMask,
  ServingModifier,
  CacheType,
  Widths,
  QueryType,
  LastFeature // parts of a decode; whether queries of a forward are packed
};

const std::vector<int64_t> pageSizes = {0, 1, 7, 16, 64, 256};
const std::vector<const char *> orderNames = {"nhd", "hnd", "alternating", "fused", "padded"};
const std::vector<int64_t> decodedQueries = {1, 3, 16}, forwardQueries = {1, 5, 40};
const std::vector<int64_t> groupSizes = {1, 3, 8};
enum MaskChoice { NoMask, FromTop, FromEnd, KeysBefore, BothSides, Padding, TreeBits, Lists };
const std::vector<const char *> maskNames = {"all",      "top",     "end",  "window",
                                             "twosided", "leftpad", "tree", "lists"};
enum ModifierChoice { NoModifier, Softcap, Alibi, Sink, AllModifiers };
const std::vector<const char *> modifierNames = {"plain", "softcap", "alibi", "sink", "modified"};
const std::vector<const char *> cacheNames = {"own", "e4m3", "e5m2"};
const std::vector<std::pair<int64_t, int64_t>> widths = {{64, 64}, {64, 40}, {128, 128}};
const std::vector<int64_t> partCounts = {0, 1, 3};

const std::vector<int64_t> servedLengths = {270, 3, 0, 65}, servedPadding = {101, 1, 0, 70};

struct ServingCase {
  bool isDecode;
  Choices choices;

  int64_t queries() const {
    return (isDecode ? decodedQueries : forwardQueries)[choices[NewQueries]];
  }
  std::string name() const {
    auto [D, DV] = widths[choices[Widths]];
    int last = choices[LastFeature];
    return std::string(typeName(allTypes[choices[QueryType]])) + "_page" +
           std::to_string(pageSizes[choices[PageSize]]) + "_" + orderNames[choices[CacheOrder]] +
           "_rows" + std::to_string(queries()) + "_group" +
           std::to_string(groupSizes[choices[GroupSize]]) + "_" + maskNames[choices[ServingMask]] +
           "_" + modifierNames[choices[ServingModifier]] + "_" + cacheNames[choices[CacheType]] +
           "_d" + std::to_string(D) + "x" + std::to_string(DV) +
           (isDecode ? "_parts" + std::to_string(partCounts[last])
            : last   ? "_packed"
                     : "_batch");
  }
};

void PrintTo(const ServingCase &each, std::ostream *os) { *os << each.name(); }

std::vector<ServingCase> servingCases(bool isDecode) {
  auto count = [](const auto &list) { return static_cast<int>(list.size()); };
  std::vector<Choices> list =
      coverPairs({count(pageSizes), count(orderNames), count(decodedQueries), count(groupSizes),
                  count(maskNames), count(modifierNames), count(cacheNames), count(widths),
                  count(allTypes), isDecode ? count(partCounts) : 2});
  if (currentTier() != Tier::Full && runsMapped() && !runsOnGpu())
    list = coverEach(list);
  std::vector<ServingCase> cases;
  for (const Choices &choices : list)
    cases.push_back({isDecode, choices});
  return cases;
}

using Binds = std::vector<std::function<void(KernelCall &)>>;

void setMask(ServedCall &call, int choice, uint64_t seed, Binds &binds) {
  AttentionProblem &problem = call.problem;
  const int64_t queries = problem.Sq, batch = problem.B;
  switch (choice) {
  case FromTop:
    problem.causal = Causal::TopLeft;
    break;
  case FromEnd:
  case KeysBefore:
  case BothSides:
    // A window of a decode is about the end of a sequence.
    problem.causal = choice == BothSides && !call.isDecode ? Causal::None : Causal::BottomRight;
    problem.window = choice == KeysBefore  ? Window{40, -1}
                     : choice == BothSides ? Window{70, 2}
                                           : Window{};
    break;
  case Padding:
    problem.causal = Causal::BottomRight;
    problem.mask = [](int64_t b, int64_t, int64_t, int64_t j) { return j >= servedPadding[b]; };
    call.options.params.emplace_back("LEFTPAD", "true");
    binds.push_back([=](KernelCall &to) { to.integers("leftpad", {batch}, servedPadding); });
    break;
  case TreeBits: {
    const int64_t words = (queries + 31) / 32;
    auto attends = [=](int64_t i, int64_t c) { return c == i || (c < i && (i * 5 + c) % 3 == 0); };
    problem.mask = [=](int64_t b, int64_t, int64_t i, int64_t j) {
      int64_t c = j - (servedLengths[b] - queries);
      return c < 0 || attends(i, c);
    };
    std::vector<int64_t> bits, begins;
    for (int64_t b = 0; b < batch; ++b) {
      begins.push_back(servedLengths[b] - queries);
      for (int64_t i = 0; i < queries; ++i)
        for (int64_t word = 0; word < words; ++word) {
          uint32_t value = 0;
          for (int64_t c = 32 * word; c < std::min(queries, 32 * word + 32); ++c)
            value |= attends(i, c) ? uint32_t(1) << (c % 32) : 0;
          bits.push_back(static_cast<int32_t>(value));
        }
    }
    call.options.with.push_back("mods/tree_bits");
    binds.push_back([=](KernelCall &to) {
      to.integers("tree_bits", {batch, queries, words}, bits);
      to.integers("tree_begin", {batch}, begins);
    });
    break;
  }
  case Lists: {
    problem.causal = Causal::BottomRight;
    AttentionProblem longest = problem;
    longest.Skv = servedLengths[0];
    BlockLists lists(longest, call.isDecode ? call.rows : 128, 64, seed, batch,
                     seed % 2 ? problem.Hkv : 1);
    problem.mask = lists.mask();
    for (const auto &param : lists.params())
      if (!call.isDecode || param.first != "LIST_BLOCK_M")
        call.options.params.push_back(param);
    binds.push_back([=](KernelCall &to) { lists.bind(to); });
    break;
  }
  default:
    break;
  }
}

void setModifier(ServedCall &call, int choice, Binds &binds) {
  AttentionProblem &problem = call.problem;
  const int64_t batch = problem.B, heads = problem.Hq;
  const bool hasAlibi = choice == Alibi || choice == AllModifiers,
             hasSoftcap = choice == Softcap || choice == AllModifiers;
  std::vector<double> slopes;
  for (int64_t n = 0; n < batch * heads; ++n)
    slopes.push_back(static_cast<float>(1.0 / static_cast<double>(4 + n)));
  if (hasAlibi || hasSoftcap)
    problem.score.value = [=, queries = problem.Sq](double s, int64_t b, int64_t h, int64_t i,
                                                    int64_t j) {
      double ahead = static_cast<double>(j - i - (servedLengths[b] - queries));
      s -= hasAlibi ? slopes[b * heads + h] * std::abs(ahead) : 0;
      return hasSoftcap ? 2.0 * std::tanh(s / 2.0) : s;
    };
  if (hasAlibi) {
    std::vector<int64_t> shifts;
    for (int64_t length : servedLengths)
      shifts.push_back(length - problem.Sq);
    call.options.with.push_back("mods/alibi_aligned");
    binds.push_back([=](KernelCall &to) {
      to.input("alibi_slopes", ElementType::F32, {batch, heads}, slopes);
      to.integers("alibi_shift", {batch}, shifts);
    });
  }
  if (hasSoftcap) {
    call.options.with.push_back("mods/softcap");
    binds.push_back([](KernelCall &to) { to.scalar("softcap", 2.0); });
  }
  if (choice == Sink || choice == AllModifiers) {
    for (int64_t h = 0; h < heads; ++h)
      problem.sinks.push_back(static_cast<double>(h % 4) - 2);
    call.options.with.push_back("mods/sink");
    binds.push_back([heads, sinks = problem.sinks](KernelCall &to) {
      to.input("sinks", ElementType::F32, {heads}, sinks);
    });
  }
}

/// A cache of 8 bits: e4m3 with factors for each sequence and key head, e5m2 without.
void setStored(ServedCall &call, int choice, Binds &binds) {
  if (!choice)
    return;
  call.stored = choice == 1 ? Type::E4M3 : Type::E5M2;
  const bool hasFactors = choice == 1;
  call.options.params.emplace_back("CACHE", typeName(call.stored));
  call.options.params.emplace_back("DESCALE", hasFactors ? "true" : "false");
  if (!hasFactors)
    return;
  const int64_t batch = call.problem.B, heads = call.problem.Hkv;
  std::vector<double> ofKeys, ofValues;
  for (int64_t n = 0; n < batch * heads; ++n) {
    ofKeys.push_back(static_cast<float>(0.3 + 0.2 * static_cast<double>(n)));
    ofValues.push_back(static_cast<float>(1.7 - 0.1 * static_cast<double>(n)));
  }
  binds.push_back([=, isDecode = call.isDecode](KernelCall &to) {
    to.input(isDecode ? "k_descale" : "k_factors", ElementType::F32, {batch, heads}, ofKeys);
    to.input(isDecode ? "v_descale" : "v_factors", ElementType::F32, {batch, heads}, ofValues);
  });
  call.keys.factorsK = ofKeys;
  call.keys.factorsV = ofValues;
}

void checkServed(const ServingCase &each) {
  const Choices &choices = each.choices;
  auto [D, DV] = widths[choices[Widths]];
  uint64_t seed = 700;
  for (int choice : choices)
    seed = 7 * seed + choice;
  ServedCall call;
  call.type = call.stored = allTypes[choices[QueryType]];
  call.isDecode = each.isDecode;
  call.order = static_cast<PageOrder>(choices[CacheOrder]);
  call.inOnePiece = pageSizes[choices[PageSize]] == 0;
  const int64_t batch = static_cast<int64_t>(servedLengths.size()), queries = each.queries();
  call.problem = makeProblem(batch, 2 * groupSizes[choices[GroupSize]], 2, queries, 0, D, DV);
  if (each.isDecode) {
    call.rows = queries == 3 ? 4 : queries;
    call.parts = partCounts[choices[LastFeature]];
  } else {
    call.isPacked = choices[LastFeature];
  }
  Binds binds;
  setMask(call, choices[ServingMask], seed, binds);
  setModifier(call, choices[ServingModifier], binds);
  const int64_t pageSize = call.inOnePiece ? 16 : pageSizes[choices[PageSize]];
  setStored(call, choices[CacheType], binds);
  PagedKeys factors = call.keys;
  call.draw(servedLengths, pageSize, seed);
  call.keys.factorsK = factors.factorsK;
  call.keys.factorsV = factors.factorsV;
  call.options.bind = [binds](KernelCall &to) {
    for (const auto &bind : binds)
      bind(to);
  };
  expectForward(call.oracle(), call.run(), each.name());
}

std::string nameOfServingCase(const ::testing::TestParamInfo<ServingCase> &info) {
  return info.param.name();
}

class DecodePairs : public ::testing::TestWithParam<ServingCase> {};
INSTANTIATE_TEST_SUITE_P(Serving, DecodePairs, ::testing::ValuesIn(servingCases(true)),
                         nameOfServingCase);
TEST_P(DecodePairs, AgreeWithTheOracle) { checkServed(GetParam()); }

class CachedPairs : public ::testing::TestWithParam<ServingCase> {};
INSTANTIATE_TEST_SUITE_P(Serving, CachedPairs, ::testing::ValuesIn(servingCases(false)),
                         nameOfServingCase);
TEST_P(CachedPairs, AgreeWithTheOracle) { checkServed(GetParam()); }

} // namespace
