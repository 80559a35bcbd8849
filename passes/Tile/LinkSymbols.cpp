// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares types that may become equal by binding, and composes functions.

#include "passes/Tile/LinkSymbols.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <optional>
#include <string>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

StringRef tilewright::describeSymbol(Operation *op) {
  if (isa<func::FuncOp>(op))
    return "function";
  if (isa<CaptureOp>(op))
    return "capture";
  if (isa<KernelOp>(op))
    return "kernel";
  return isa<ProgramOp>(op) ? "program" : "symbol";
}

Type tilewright::getSymbolType(Operation *op) {
  if (auto function = dyn_cast<func::FuncOp>(op))
    return function.getFunctionType();
  return cast<CaptureOp>(op).getType();
}

/// Whether one type is `!tile.param<X>` and the other a float.
static bool isParamAgainstFloat(Type a, Type b) {
  auto matches = [](Type param, Type concrete) {
    return isa<ParamType>(param) && isa<FloatType>(concrete) && !isa<ParamType>(concrete);
  };
  return matches(a, b) || matches(b, a);
}

bool tilewright::typesMatch(Type a, Type b) {
  if (a == b || isParamAgainstFloat(a, b))
    return true;
  if (isa<ViewType>(a) && isa<ViewType>(b))
    return getDims(a) == getDims(b) && typesMatch(getElementType(a), getElementType(b));
  auto f = dyn_cast<FunctionType>(a), g = dyn_cast<FunctionType>(b);
  auto listsMatch = [](TypeRange x, TypeRange y) {
    return x.size() == y.size() &&
           llvm::all_of(llvm::zip(x, y), [](auto pair) { return std::apply(typesMatch, pair); });
  };
  return f && g && listsMatch(f.getInputs(), g.getInputs()) &&
         listsMatch(f.getResults(), g.getResults());
}

bool tilewright::isReplaceable(Operation *op) {
  auto function = dyn_cast_or_null<func::FuncOp>(op);
  return function && (function.isDeclaration() || replaceableAttr.isOn(function));
}

void tilewright::addConstraints(CaptureOp capture, CaptureOp other) {
  llvm::SetVector<Attribute> all;
  for (CaptureOp each : {capture, other})
    if (std::optional<ArrayAttr> constraints = each.getConstraints())
      all.insert(constraints->begin(), constraints->end());
  if (!all.empty())
    capture.setConstraintsAttr(ArrayAttr::get(capture.getContext(), all.getArrayRef()));
}

std::string tilewright::listNames(ArrayRef<StringAttr> names) {
  auto spell = [](StringAttr name) { return "@" + name.str(); };
  return names.empty() ? "nothing" : llvm::join(llvm::map_range(names, spell), ", ");
}

bool tilewright::isUsed(ModuleOp file, Operation *symbol) {
  auto uses = SymbolTable::getSymbolUses(symbol, &file.getBodyRegion());
  return uses && !uses->empty();
}

llvm::MapVector<StringAttr, Operation *> tilewright::getUsedSymbols(Operation *op) {
  llvm::MapVector<StringAttr, Operation *> used;
  op->walk([&](Operation *user) {
    user->getAttrDictionary().walk(
        [&](FlatSymbolRefAttr symbol) { used.insert({symbol.getAttr(), user}); });
  });
  return used;
}

func::FuncOp tilewright::joinFunctions(func::FuncOp before, func::FuncOp after, StringAttr rule,
                                       StringAttr name) {
  OpBuilder b(after->getContext());
  b.setInsertionPointAfter(after);
  Location loc = after.getLoc();
  auto function = func::FuncOp::create(b, loc, name, after.getFunctionType());
  function.setPrivate();
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  SmallVector<Value> operands(body->getArguments());
  Value first = func::CallOp::create(b, loc, before, operands).getResult(0);
  if (rule == kComposeRule)
    operands.front() = first;
  Value result = func::CallOp::create(b, loc, after, operands).getResult(0);
  if (rule == kAndRule)
    result = arith::AndIOp::create(b, loc, first, result);
  else if (rule == kMultiplyRule)
    result = arith::MulFOp::create(b, loc, first, result);
  func::ReturnOp::create(b, loc, result);
  return function;
}
