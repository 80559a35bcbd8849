// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "lib/Interpreter/StatedConditions.h"

#include "dialect/Tile/Suggest.h"
#include "dialect/Tile/TileExpr.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tilewright::interpreter {

namespace {

/// A parameter without a list of values is tried up to here.
constexpr int64_t kMostTried = 512;

tile::ExprAttr toExpr(Attribute value) {
  MLIRContext *context = value.getContext();
  if (auto flag = dyn_cast<BoolAttr>(value))
    return tile::ExprAttr::getFlag(context, flag.getValue());
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return tile::ExprAttr::getInt(context, integer.getInt());
  if (auto type = dyn_cast<TypeAttr>(value))
    return tile::ExprAttr::getType(context, tile::getTypeSpelling(type.getValue()));
  if (auto word = dyn_cast<StringAttr>(value))
    return tile::ExprAttr::getEnum(context, word.getValue());
  return {};
}

using Values = llvm::MapVector<StringRef, tile::ExprAttr>;

/// The bound values of the parameters that an expression reads.
Values getReadBy(tile::ExprAttr expr, DictionaryAttr bindings) {
  Values read;
  tile::walkExpr(expr, [&](tile::ExprAttr leaf) {
    Attribute value =
        bindings && leaf.getKind() == tile::ExprKind::Name ? bindings.get(leaf.getName()) : nullptr;
    if (value)
      if (tile::ExprAttr known = toExpr(value))
        read[leaf.getName()] = known;
  });
  return read;
}

/// Tries other values of parameters than the bound ones.
class Search {
public:
  Search(ArrayAttr params, tile::ExprAttr condition, Values values,
         const tile::ExprEnvironment &environment)
      : params(params), condition(condition), values(std::move(values)), environment(environment) {
    this->environment.name = [this, given = environment.name](StringRef name) {
      auto own = this->values.find(name);
      if (own != this->values.end())
        return own->second;
      return given ? given(name) : tile::ExprAttr();
    };
  }

  /// "--param A=1" for each parameter that suffices, or else a pair of them.
  std::string run() {
    SmallVector<std::string> texts;
    SmallVector<StringRef> names;
    for (auto &entry : values)
      names.push_back(entry.first);
    for (StringRef name : names)
      if (std::string text = describe(name, findValues(name)); !text.empty())
        texts.push_back(text);
    if (!texts.empty())
      return llvm::join(texts, " or ");
    for (StringRef name : names)
      for (StringRef other : names)
        if (std::string text = name == other ? "" : findPair(name, other); !text.empty())
          return text;
    return "";
  }

private:
  bool holds() const {
    llvm::Expected<bool> result = tile::evaluateFlag(condition, environment);
    if (result)
      return *result;
    llvm::consumeError(result.takeError());
    return false;
  }

  SmallVector<tile::ExprAttr> candidates(StringRef name) const {
    SmallVector<tile::ExprAttr> result;
    for (auto param : params.getAsRange<tile::ParamDeclAttr>()) {
      if (param.getName() != name || param.getDerived())
        continue;
      MLIRContext *context = param.getContext();
      llvm::append_range(result, param.getAllowed());
      if (!result.empty())
        continue;
      if (param.getKind() == tile::ParamKind::Flag)
        result = {tile::ExprAttr::getFlag(context, false), tile::ExprAttr::getFlag(context, true)};
      for (int64_t i = 0; param.getKind() == tile::ParamKind::Int && i <= kMostTried; ++i)
        result.push_back(tile::ExprAttr::getInt(context, i));
    }
    return result;
  }

  /// With which the condition holds.
  SmallVector<tile::ExprAttr> findValues(StringRef name) {
    SmallVector<tile::ExprAttr> found;
    tile::ExprAttr bound = values[name];
    for (tile::ExprAttr candidate : candidates(name)) {
      values[name] = candidate;
      if (candidate != bound && holds())
        found.push_back(candidate);
    }
    values[name] = bound;
    return found;
  }

  std::string findPair(StringRef name, StringRef other) {
    tile::ExprAttr bound = values[name];
    std::string text;
    SmallVector<tile::ExprAttr> tried = candidates(name);
    for (tile::ExprAttr candidate : ArrayRef(tried).take_front(tried.size() > 16 ? 0 : 16)) {
      values[name] = candidate;
      if (text = describe(other, findValues(other)); !text.empty()) {
        text = describe(name, candidate) + " and " + text;
        break;
      }
    }
    values[name] = bound;
    return text;
  }

  /// Nothing if there are so many values that a list of them does not help.
  static std::string describe(StringRef name, ArrayRef<tile::ExprAttr> found) {
    if (found.empty() || found.size() > 16)
      return "";
    std::string text = "--param " + name.str() + "=";
    for (auto [i, value] : llvm::enumerate(found)) {
      text += i == 0 ? "" : i + 1 == found.size() ? " or " : ", ";
      bool isWord = value.getKind() == tile::ExprKind::Enum;
      text += isWord ? value.getName().str() : tile::toString(value);
    }
    return text;
  }

  ArrayAttr params;
  tile::ExprAttr condition;
  Values values;
  tile::ExprEnvironment environment;
};

DictionaryAttr getBindings(Operation *bound) {
  return dyn_cast_or_null<DictionaryAttr>(bound->getAttr("bindings"));
}

} // namespace

StatedConditions StatedConditions::find(Operation *bound) {
  StatedConditions found;
  auto module = bound->getParentOfType<ModuleOp>();
  auto lists = module ? tile::statedAttr.get(module) : ArrayAttr();
  if (!lists || lists.size() != 2)
    return found;
  found.params = dyn_cast<ArrayAttr>(lists[0]);
  found.constraints = dyn_cast<ArrayAttr>(lists[1]);
  return found;
}

void StatedConditions::attach(ModuleOp module) const {
  if (params && constraints)
    tile::statedAttr.set(module, ArrayRef<Attribute>{params, constraints});
}

std::string StatedConditions::explainAbsent(Operation *bound, StringRef argument,
                                            ArrayRef<StringRef> captures) const {
  DictionaryAttr bindings = getBindings(bound);
  auto condition = argConditions ? dyn_cast_or_null<tile::ExprAttr>(argConditions.get(argument))
                                 : tile::ExprAttr();
  // The gradients of captures are arguments that the compiler adds.
  constexpr llvm::StringLiteral ofGradients = "CAPTURE_GRADIENTS";
  StringRef captured = argument;
  auto hasGradients = bindings ? bindings.getAs<BoolAttr>(ofGradients) : BoolAttr();
  if (!condition && captured.consume_front("d_") && llvm::is_contained(captures, captured) &&
      hasGradients && !hasGradients.getValue())
    condition = tile::ExprAttr::getName(bound->getContext(), ofGradients);
  if (!condition || !bindings || !params)
    return "";
  Values read = getReadBy(condition, bindings);
  std::string text = "argument '" + argument.str() + "' exists only with " +
                     tile::toString(condition) + ", but got ";
  llvm::ListSeparator comma;
  for (auto &[name, value] : read)
    (text += StringRef(comma)) += name.str() + " = " + tile::toString(value);
  std::string remedy = Search(params, condition, read, {}).run();
  return text + (remedy.empty() ? "" : "; give " + remedy) + ", or leave the argument out";
}

std::string StatedConditions::suggestParams(Operation *bound, tile::ExprAttr broken,
                                            const tile::ExprEnvironment &environment) const {
  DictionaryAttr bindings = getBindings(bound);
  if (!constraints || !bindings)
    return "";
  for (auto stated : constraints.getAsRange<tile::ExprAttr>()) {
    Values read = getReadBy(stated, bindings);
    tile::ExprEnvironment known;
    known.name = [&](StringRef name) { return read.lookup(name); };
    llvm::Expected<tile::ExprAttr> reduced = tile::reduceExpr(stated, known);
    if (!reduced) {
      llvm::consumeError(reduced.takeError());
      continue;
    }
    if (*reduced == broken && stated != broken)
      return Search(params, stated, read, environment).run();
  }
  return "";
}

} // namespace tilewright::interpreter
