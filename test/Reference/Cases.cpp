// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of cases.

#include "test/Reference/Cases.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace tilewright::reference {

Tier currentTier() {
  const char *tier = std::getenv("TILEWRIGHT_TEST_TIER");
  return tier && std::strcmp(tier, "full") == 0 ? Tier::Full : Tier::Smoke;
}

const std::vector<Shape> &shapes() {
  static const std::vector<Shape> list = {
      {1, 1},     {64, 128},  {128, 192}, {256, 256},   {239, 1},     {799, 3},     {113, 203},
      {108, 256}, {384, 256}, {640, 128}, {1023, 1024}, {1024, 1023}, {4096, 4096}, {4224, 4224}};
  return list;
}

const std::vector<int64_t> &headDims() {
  static const std::vector<int64_t> list = {64, 80, 96, 128, 192, 256};
  return list;
}

const std::vector<Type> &elementTypes() {
  static const std::vector<Type> list = {Type::F32, Type::F16, Type::BF16};
  return list;
}

const std::vector<std::string> &maskNames() {
  static const std::vector<std::string> list = {"none",   "causal",      "bottom_right",
                                                "window", "window_left", "diagonal"};
  return list;
}

const std::vector<std::string> &groupNames() {
  static const std::vector<std::string> list = {"mha", "gqa", "mqa"};
  return list;
}

double defaultScale(int64_t D) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(D)));
}

AttentionCase makeCase(Type type, Shape shape, int64_t D, const std::string &mask,
                       const std::string &group) {
  AttentionCase result;
  result.name = std::string(typeName(type)) + "_" + std::to_string(shape.Sq) + "x" +
                std::to_string(shape.Skv) + "_d" + std::to_string(D) + "_" + mask + "_" + group;
  result.type = type;
  AttentionProblem &problem = result.problem;
  problem.Sq = shape.Sq;
  problem.Skv = shape.Skv;
  problem.D = problem.DV = D;
  problem.scale = defaultScale(D);
  problem.B = std::max(shape.Sq, shape.Skv) <= 256 ? 2 : 1;
  problem.Hq = group == "gqa" ? 4 : 2;
  problem.Hkv = group == "mqa" ? 1 : 2;

  if (mask == "causal")
    problem.causal = Causal::TopLeft;
  else if (mask == "bottom_right" || mask == "window_left")
    problem.causal = Causal::BottomRight;
  if (mask == "window")
    problem.window = {std::max<int64_t>(shape.Skv / 5, 1), std::max<int64_t>(shape.Skv / 7, 0)};
  else if (mask == "window_left")
    problem.window = {std::max<int64_t>(shape.Skv / 3, 1), -1};
  else if (mask == "diagonal")
    problem.window = {0, 0};
  result.usesWindow = problem.window.left >= 0 || problem.window.right >= 0;
  return result;
}

namespace {

/// Deals the items of a list in random order, each once before any item repeats: balanced choices
/// that are not correlated with other lists.
template <typename Item> class Deck {
public:
  Deck(const std::vector<Item> &items, uint64_t seed) : items(items), generator(seed) {}

  const Item &next() {
    if (left.empty())
      for (size_t i = 0; i < items.size(); ++i)
        left.push_back(i);
    size_t at = generator.integer(0, left.size()), item = left[at];
    left.erase(left.begin() + at);
    return items[item];
  }

private:
  const std::vector<Item> &items;
  std::vector<size_t> left;
  Generator generator;
};

} // namespace

std::vector<AttentionCase> attentionCases(Tier tier) {
  std::vector<AttentionCase> cases;
  Deck<int64_t> someDim(headDims(), 1);
  Deck<Type> someType(elementTypes(), 2);
  Deck<std::string> someMask(maskNames(), 3), someGroup(groupNames(), 4);
  for (Shape shape : shapes()) {
    int64_t size = std::max(shape.Sq, shape.Skv);
    if (tier == Tier::Smoke) {
      if (size > 1024)
        continue;
      for (const std::string &mask : maskNames()) {
        if (size > 800) {
          cases.push_back(makeCase(someType.next(), shape, someDim.next(), mask, someGroup.next()));
          continue;
        }
        for (Type type : elementTypes())
          cases.push_back(makeCase(type, shape, someDim.next(), mask, someGroup.next()));
      }
      continue;
    }
    for (int64_t dim : headDims())
      for (Type type : elementTypes()) {
        if (size > 2048) {
          cases.push_back(makeCase(type, shape, dim, someMask.next(), someGroup.next()));
          continue;
        }
        for (const std::string &mask : maskNames())
          for (const std::string &group : groupNames())
            cases.push_back(makeCase(type, shape, dim, mask, group));
      }
  }
  return cases;
}

} // namespace tilewright::reference
