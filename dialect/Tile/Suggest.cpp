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
    // Of one letter, only a repetition is a typing error.
    if (distance > limit || (distance >= candidate.size() && !name.starts_with(candidate)) ||
        (!best.empty() && distance == limit))
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

StringRef tilewright::tile::findSimilarOperation(StringRef name, MLIRContext &context) {
  auto [dialect, word] = name.split('.');
  static constexpr std::pair<StringLiteral, StringLiteral> otherNames[] = {
      {"tile.matmul", "tile.dot"},   {"tile.mma", "tile.dot"},
      {"tile.sum", "tile.reduce"},   {"tile.broadcast", "tile.expand"},
      {"tile.splat", "tile.full"},   {"tile.arange", "tile.iota"},
      {"tile.where", "tile.select"}, {"tile.convert", "tile.cast"},
      {"arith.add", "arith.addf"},   {"arith.sub", "arith.subf"},
      {"arith.mul", "arith.mulf"},   {"arith.div", "arith.divf"}};
  for (auto [other, own] : otherNames)
    if (name == other)
      return own;
  // The same word of another dialect before another word of the same.
  for (StringRef other : {"tile.", "math.", "arith.", "scf."})
    if (auto known = RegisteredOperationName::lookup((other + word).str(), &context))
      return known->getStringRef();
  constexpr unsigned mostEdits = 3;
  StringRef nearest;
  unsigned least = mostEdits + 1;
  // Of all dialects: MLIR's search for those of one compares names wrongly.
  for (RegisteredOperationName known : context.getRegisteredOperations())
    if (unsigned edits = name.edit_distance(known.getStringRef(), true, mostEdits);
        edits < least && known.getDialectNamespace() == dialect) {
      least = edits;
      nearest = known.getStringRef();
    }
  return nearest;
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

void tilewright::tile::visitNames(Type type, function_ref<void(StringRef, bool)> visit) {
  type.walk<WalkOrder::PreOrder>([&](Type inner) {
    if (auto param = dyn_cast<ParamType>(inner))
      visit(param.getName(), true);
    if (isa<TileType, ViewType>(inner))
      for (const Dim &dim : getDims(inner))
        if (dim.isSymbol())
          visit(dim.symbol.getValue(), false);
  });
}

static thread_local const ParsedParams *parsedParams = nullptr;

ParsedParams::ParsedParams(StringRef kernel, ArrayRef<StringRef> params)
    : kernel(kernel), params(params), outer(std::exchange(parsedParams, this)) {}

ParsedParams::~ParsedParams() { parsedParams = outer; }

std::string ParsedParams::explain(Type type) const {
  std::string text;
  visitNames(type, [&](StringRef name, bool isElement) {
    if (text.empty() && !llvm::is_contained(params, name))
      text = ("; '" + name + "' is not a parameter of @" + kernel + "; ").str() +
             suggestParameter(name, isElement, params);
  });
  return text;
}

std::string tilewright::tile::suggestParameter(StringRef name, bool isElement,
                                               ArrayRef<StringRef> params) {
  SmallVector<StringRef> candidates(params);
  if (isElement)
    candidates.append({"f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i64", "i32", "i8", "i1"});
  StringRef similar = findSimilar(name, candidates);
  return similar.empty() ? "declare it there, or correct the name"
                         : "did you mean '" + similar.str() + "'?";
}

std::string tilewright::tile::suggestConversion(Type type, Type expected, bool inFormula,
                                                StringRef value) {
  for (Type each : {type, expected})
    if (std::string text = parsedParams ? parsedParams->explain(each) : ""; !text.empty())
      return text;
  auto isNumber = [](Type each) { return isTile(each) || isElementType(each); };
  if (!isNumber(type) || !isNumber(expected))
    return "";
  if (isTile(type) && !isTile(expected))
    return "; reduce the tile, or read an element of a view";
  bool casts = getElementType(type) != getElementType(expected);
  // A cast to i1 takes the lowest bit, which is no condition: it is false for 2.
  bool compares = casts && getElementType(expected).isInteger(1);
  std::string comparison = value.str() + " > 0";
  auto write = [&](StringRef word, std::string dim = "") {
    if (inFormula) {
      std::string operand = compares ? comparison : casts ? "cast(...)" : "...";
      return word.empty() ? operand
                          : word.str() + "(" + operand + (dim.empty() ? "" : ", " + dim) + ")";
    }
    std::string more =
        word.empty() ? "" : "tile." + word.str() + (dim.empty() ? "" : " dim " + dim);
    std::string cast = compares ? "tile.expr " + comparison : casts ? "tile.cast" : "";
    return cast + (casts && !more.empty() ? " and " : "") + more;
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
  if (compares)
    return "; compare it, as in " + text;
  return (inFormula ? "; write " : "; convert it with ") + text;
}
