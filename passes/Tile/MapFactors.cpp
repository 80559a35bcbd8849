// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function is split once, into factors and a core; maps then apply the core. The factors are
// recomputed next to the map from captures and constants.

#include "passes/Tile/MapFactors.h"

#include "dialect/Tile/Tile.h"
#include "passes/Tile/InlineCalls.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// The values that a function computes from captures and constants alone.
DenseSet<Value> findUniform(Block &body) {
  DenseSet<Value> uniform;
  for (Operation &op : body)
    if (op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
        llvm::all_of(op.getOperands(), [&](Value operand) { return uniform.contains(operand); }))
      uniform.insert(op.result_begin(), op.result_end());
  return uniform;
}

/// A reassociable product of `other` and a uniform value.
struct Product {
  arith::MulFOp op;
  Value other, factor;
};

std::optional<Product> matchProduct(Operation *op, const DenseSet<Value> &uniform) {
  auto product = dyn_cast_or_null<arith::MulFOp>(op);
  if (!product || !bitEnumContainsAll(product.getFastmath(), arith::FastMathFlags::reassoc))
    return std::nullopt;
  if (uniform.contains(product.getRhs()))
    return Product{product, product.getLhs(), product.getRhs()};
  if (uniform.contains(product.getLhs()))
    return Product{product, product.getRhs(), product.getLhs()};
  return std::nullopt;
}

/// The parts of a function. Factors are values of the original function.
struct Parts {
  func::FuncOp core; ///< null if there are no factors
  SmallVector<std::pair<unsigned, Product>> ofOperands;
  std::optional<Product> ofResult;
};

/// The product that every use of the argument is; nothing if the uses differ.
std::optional<Product> matchUses(BlockArgument argument, const DenseSet<Value> &uniform) {
  std::optional<Product> common;
  for (Operation *user : argument.getUsers()) {
    std::optional<Product> product = matchProduct(user, uniform);
    if (!product || product->other != argument || (common && common->factor != product->factor))
      return std::nullopt;
    common = product;
  }
  return common;
}

Parts split(func::FuncOp function, SymbolTable &symbols) {
  Parts parts;
  if (!llvm::all_of(function.getResultTypes(), llvm::IsaPred<FloatType>))
    return parts;
  // Functions composed from several files contain calls.
  inlineCalls(function, symbols);
  Block &body = function.getBody().front();
  DenseSet<Value> uniform = findUniform(body);
  Operation *terminator = body.getTerminator();
  if (terminator->getNumOperands() == 1 && !isa<BlockArgument>(terminator->getOperand(0)))
    parts.ofResult = matchProduct(terminator->getOperand(0).getDefiningOp(), uniform);
  for (BlockArgument argument : body.getArguments())
    if (!parts.ofResult || parts.ofResult->other != argument)
      if (std::optional<Product> product = matchUses(argument, uniform))
        parts.ofOperands.push_back({argument.getArgNumber(), *product});
  if (!parts.ofResult && parts.ofOperands.empty())
    return parts;

  IRMapping map;
  OpBuilder b(function.getContext());
  parts.core = cast<func::FuncOp>(b.clone(*function, map));
  parts.core.setSymName((function.getSymName() + "_core").str());
  symbols.insert(parts.core, std::next(function->getIterator()));
  if (parts.ofResult)
    parts.core.getBody().front().getTerminator()->setOperand(0, map.lookup(parts.ofResult->other));
  for (auto &[number, product] : parts.ofOperands) {
    BlockArgument argument = parts.core.getArgument(number);
    for (Operation *user : SmallVector<Operation *>(argument.getUsers())) {
      user->getResult(0).replaceAllUsesWith(argument);
      user->erase();
    }
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(parts.core.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  return parts;
}

/// Computes the factor at the insertion point.
Value rebuild(OpBuilder &b, Value factor, IRMapping &map) {
  llvm::SetVector<Operation *> needed;
  needed.insert(factor.getDefiningOp());
  for (size_t i = 0; i < needed.size(); ++i)
    for (Value operand : needed[i]->getOperands())
      needed.insert(operand.getDefiningOp());
  for (Operation &op : *factor.getParentBlock())
    if (needed.contains(&op) && !map.contains(op.getResult(0)))
      b.clone(op, map);
  return map.lookup(factor);
}

Value multiply(OpBuilder &b, Value value, Product product, IRMapping &map) {
  Location loc = product.op.getLoc();
  Value factor = rebuild(b, product.factor, map);
  if (isTile(value.getType()))
    factor = FullOp::create(b, loc, value.getType(), factor);
  return arith::MulFOp::create(b, loc, value, factor, product.op.getFastmathAttr());
}

} // namespace

void tilewright::takeFactorsOutOfMaps(ModuleOp module) {
  SymbolTable symbols(module);
  DenseMap<Operation *, Parts> known;
  SmallVector<MapOp> maps;
  module.walk([&](MapOp map) { maps.push_back(map); });
  bool changed = false;
  for (MapOp op : maps) {
    auto function = symbols.lookup<func::FuncOp>(op.getFunction());
    if (!function || function.isExternal() || !function.getBody().hasOneBlock())
      continue;
    auto [entry, isNew] = known.try_emplace(function);
    if (isNew) {
      Parts parts = split(function, symbols);
      entry = known.find(function);
      entry->second = parts;
    }
    Parts &parts = entry->second;
    if (!parts.core)
      continue;
    OpBuilder b(op);
    IRMapping map;
    for (auto &[number, product] : parts.ofOperands)
      op->setOperand(number, multiply(b, op->getOperand(number), product, map));
    op.setFunctionAttr(FlatSymbolRefAttr::get(parts.core.getSymNameAttr()));
    if (parts.ofResult) {
      b.setInsertionPointAfter(op);
      Value result = multiply(b, op.getResult(), *parts.ofResult, map);
      op.getResult().replaceAllUsesExcept(result, result.getDefiningOp());
    }
    changed = true;
  }
  if (!changed)
    return;
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance(module);
  eliminateCommonSubExpressions(rewriter, dominance, module);
}
