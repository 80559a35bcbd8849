// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-hoist-uniforms: a mapped function's loads that are uniform over all elements are executed
// once, next to the map. A function is split once for each set of operands that are scalars.

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEHOISTUNIFORMS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// The split of a function for one set of scalar operands.
struct Split {
  func::FuncOp function;     ///< takes the values as additional operands; null if there are none
  SmallVector<Value> values; ///< values of the original function
};

bool readsMemory(Operation *op, SymbolTable &symbols) {
  auto at = dyn_cast<AtOp>(op);
  if (!at || !at.getCaptureAttr())
    return false;
  auto capture = symbols.lookup<CaptureOp>(*at.getCapture());
  return capture && isa<ViewType>(capture.getType());
}

/// Values that depend only on scalars and captures, include a load, and have users that depend on
/// elements.
SmallVector<Value> findFrontier(func::FuncOp function, ArrayRef<bool> isScalar,
                                SymbolTable &symbols) {
  Block &body = function.getBody().front();
  DenseSet<Value> uniform, fromMemory;
  for (auto [argument, scalar] : llvm::zip_equal(body.getArguments(), isScalar))
    if (scalar)
      uniform.insert(argument);
  for (Operation &op : body.without_terminator()) {
    bool isUniform = op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
                     llvm::all_of(op.getOperands(), [&](Value x) { return uniform.contains(x); });
    if (!isUniform)
      continue;
    uniform.insert(op.result_begin(), op.result_end());
    if (readsMemory(&op, symbols) ||
        llvm::any_of(op.getOperands(), [&](Value x) { return fromMemory.contains(x); }))
      fromMemory.insert(op.result_begin(), op.result_end());
  }
  SmallVector<Value> frontier;
  for (Operation &op : body.without_terminator())
    for (Value result : op.getResults())
      if (fromMemory.contains(result) && llvm::any_of(result.getUsers(), [&](Operation *user) {
            Operation *top = body.findAncestorOpInBlock(*user);
            return top->getNumResults() == 0 || !uniform.contains(top->getResult(0));
          }))
        frontier.push_back(result);
  return frontier;
}

Split split(func::FuncOp function, ArrayRef<bool> isScalar, SymbolTable &symbols) {
  Split result;
  result.values = findFrontier(function, isScalar, symbols);
  if (result.values.empty())
    return result;
  IRMapping map;
  OpBuilder b(function.getContext());
  auto copy = cast<func::FuncOp>(b.clone(*function, map));
  copy.setSymName((function.getSymName() + "_varying").str());
  symbols.insert(copy, std::next(function->getIterator()));
  Block &body = copy.getBody().front();
  for (Value value : result.values)
    map.lookup(value).replaceAllUsesWith(body.addArgument(value.getType(), value.getLoc()));
  copy.setFunctionType(
      b.getFunctionType(body.getArgumentTypes(), function.getFunctionType().getResults()));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
  result.function = copy;
  return result;
}

/// Computes the values next to the map.
void apply(MapOp op, func::FuncOp function, Split &parts) {
  llvm::SetVector<Operation *> needed;
  for (Value value : parts.values)
    needed.insert(value.getDefiningOp());
  for (size_t i = 0; i < needed.size(); ++i)
    for (Value operand : needed[i]->getOperands())
      if (Operation *source = operand.getDefiningOp())
        needed.insert(source);
  IRMapping map;
  map.map(function.getArguments(), op.getOperands());
  OpBuilder b(op);
  for (Operation &inner : function.getBody().front())
    if (needed.contains(&inner))
      b.clone(inner, map);
  SmallVector<Value> operands(op.getOperands());
  for (Value value : parts.values)
    operands.push_back(map.lookup(value));
  op->setOperands(operands);
  op.setFunctionAttr(FlatSymbolRefAttr::get(parts.function.getSymNameAttr()));
}

struct TileHoistUniformsPass : tilewright::impl::TileHoistUniformsBase<TileHoistUniformsPass> {
  using TileHoistUniformsBase::TileHoistUniformsBase;

  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::DenseMap<std::pair<Operation *, uint64_t>, Split> known;
    SmallVector<MapOp> maps;
    getOperation().walk([&](MapOp map) { maps.push_back(map); });
    for (MapOp op : maps) {
      auto function = symbols.lookup<func::FuncOp>(op.getFunction());
      constexpr unsigned most = 64; // maximum number of operands, one bit each
      if (!function || !function.getBody().hasOneBlock() || op->getNumOperands() > most)
        continue;
      SmallVector<bool> isScalar;
      uint64_t key = 0;
      for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
        isScalar.push_back(!isTile(operand.getType()));
        key |= static_cast<uint64_t>(isScalar.back()) << i;
      }
      auto [entry, isNew] = known.try_emplace({function, key});
      if (isNew) {
        Split parts = split(function, isScalar, symbols);
        entry = known.find({function, key});
        entry->second = std::move(parts);
      }
      if (entry->second.function)
        apply(op, function, entry->second);
    }
  }
};

} // namespace
