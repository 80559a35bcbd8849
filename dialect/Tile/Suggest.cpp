// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/Tile/Suggest.h"

#include "dialect/Tile/Tile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace tilewright::tile;

StringRef tilewright::tile::findSimilar(StringRef name, ArrayRef<StringRef> candidates) {
  // A third of the letters may differ: enough for a typing error, too few for a different word.
  unsigned limit = name.size() / 3 + 1;
  StringRef best;
  for (StringRef candidate : candidates) {
    unsigned distance = name.equals_insensitive(candidate) ? 0 : name.edit_distance(candidate);
    if (distance > limit || distance >= candidate.size() || (!best.empty() && distance == limit))
      continue;
    limit = distance;
    best = candidate;
  }
  return best;
}

StringRef tilewright::tile::findSimilarFunction(StringRef name, ArrayRef<StringRef> candidates) {
  static constexpr std::pair<StringLiteral, StringLiteral> otherNames[] = {
      {"div", "floordiv"},    {"cdiv", "ceildiv"}, {"pad", "padded"}, {"if", "select"},
      {"where", "select"},    {"rem", "mod"},      {"size", "dim"},   {"broadcast", "expand"},
      {"splat", "full"},      {"arange", "iota"},  {"matmul", "dot"}, {"minimum", "min"},
      {"maximum", "max"},     {"fabs", "abs"},     {"to", "cast"},    {"convert", "cast"},
      {"ceil_div", "ceildiv"}};
  for (auto [other, own] : otherNames)
    if (name == other && llvm::is_contained(candidates, own))
      return own;
  // Short names are close to any other: sin to min.
  return name.size() > 3 ? findSimilar(name, candidates) : StringRef();
}

/// The dimensions which `expand` inserts into the first extents to get the others.
static SmallVector<int64_t> findExpanded(ArrayRef<Dim> dims, ArrayRef<Dim> wanted) {
  SmallVector<int64_t> found;
  for (size_t dim = 0; wanted.size() == dims.size() + 1 && dim < wanted.size(); ++dim) {
    SmallVector<Dim> rest(wanted);
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(dim));
    if (ArrayRef(rest) == dims)
      found.push_back(static_cast<int64_t>(dim));
  }
  return found;
}

std::string tilewright::tile::suggestConversion(Type type, Type expected, bool inFormula) {
  auto isNumber = [](Type each) { return isTile(each) || isElementType(each); };
  if (!isNumber(type) || !isNumber(expected))
    return "";
  if (isTile(type) && !isTile(expected))
    return "; reduce the tile, or read an element of a view";
  bool casts = getElementType(type) != getElementType(expected);
  auto write = [&](StringRef word, std::string dim = "") {
    if (inFormula) {
      std::string value = casts ? "cast(...)" : "...";
      return word.empty() ? value
                          : word.str() + "(" + value + (dim.empty() ? "" : ", " + dim) + ")";
    }
    std::string more =
        word.empty() ? "" : "tile." + word.str() + (dim.empty() ? "" : " dim " + dim);
    return (casts ? "tile.cast" : "") + std::string(casts && !more.empty() ? " and " : "") + more;
  };
  std::string text;
  if (isTile(type) && getDims(type) != getDims(expected)) {
    for (int64_t dim : findExpanded(getDims(type), getDims(expected)))
      text += (text.empty() ? "" : " or ") + write("expand", std::to_string(dim));
    if (text.empty())
      return "; give both the same extents";
  } else {
    text = write(isTile(type) == isTile(expected) ? "" : "full");
  }
  return (inFormula ? "; write " : "; convert it with ") + text;
}
