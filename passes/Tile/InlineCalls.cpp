// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-inline-calls: removes calls from kernels and from functions that operations apply. It
// proceeds top-down from the kernels: each function is cloned in its original form, once per call.
// MLIR's inliner proceeds bottom-up, so in a chain of calls every level clones, simplifies and
// relocates all levels below it again.

#include "passes/Tile/InlineCalls.h"

#include "dialect/Tile/Calls.h"
#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEINLINECALLS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

static bool isOfTiles(FunctionType type) {
  auto isTileOrView = [](Type type) { return isa<ViewType>(type) || isTile(type); };
  return llvm::any_of(type.getInputs(), isTileOrView) ||
         llvm::any_of(type.getResults(), isTileOrView);
}

void tilewright::inlineCalls(Operation *root, SymbolTable &symbols, bool ofTilesOnly) {
  SmallVector<func::CallOp> pending;
  auto note = [&](Operation *op) {
    op->walk([&](func::CallOp call) {
      if (!ofTilesOnly || isOfTiles(call.getCalleeType()))
        pending.push_back(call);
    });
  };
  note(root);
  while (!pending.empty()) {
    func::CallOp call = pending.pop_back_val();
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || !callee.getBody().hasOneBlock())
      continue;
    Block &body = callee.getBody().front();
    IRMapping map;
    map.map(body.getArguments(), call.getOperands());
    OpBuilder b(call);
    for (Operation &op : body.without_terminator())
      note(b.clone(op, map));
    for (auto [result, returned] :
         llvm::zip_equal(call.getResults(), body.getTerminator()->getOperands()))
      result.replaceAllUsesWith(map.lookupOrDefault(returned));
    call.erase();
  }
}

namespace {

/// Functions that are mentioned outside of calls, or are visible outside of the module.
llvm::SetVector<Operation *> getRoots(ModuleOp module, Calls &calls) {
  llvm::SetVector<Operation *> roots;
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function || !function.isPrivate())
      roots.insert(&op);
    for (const FunctionUse &use : calls.getUses(&op))
      if (!isa<func::CallOp>(use.user))
        roots.insert(use.function);
  }
  return roots;
}

struct TileInlineCallsPass : tilewright::impl::TileInlineCallsBase<TileInlineCallsPass> {
  using TileInlineCallsBase::TileInlineCallsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::SetVector<Operation *> roots;
    {
      Calls calls(module);
      if (failed(calls.checkCycles()))
        return signalPassFailure();
      roots = getRoots(module, calls);
      for (Operation *root : roots)
        if (failed(calls.checkSize(root)))
          return signalPassFailure();
    }
    SymbolTable symbols(module);
    for (Operation *root : roots)
      inlineCalls(root, symbols, ofTilesOnly);
    removeUnused(module, roots);
  }

private:
  /// Erases functions that only calls mentioned. A function that could not be inlined keeps its
  /// calls and their callees.
  void removeUnused(ModuleOp module, const llvm::SetVector<Operation *> &roots) {
    Calls calls(module);
    llvm::SetVector<Operation *> used(roots.begin(), roots.end());
    for (size_t i = 0; i < used.size(); ++i)
      for (const FunctionUse &use : calls.getUses(used[i]))
        used.insert(use.function);
    for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (!used.contains(function) && (!ofTilesOnly || isOfTiles(function.getFunctionType())))
        function.erase();
  }
};

} // namespace
