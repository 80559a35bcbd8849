// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-drop-arguments: removes arguments that the parameter values exclude.

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

#include "llvm/ADT/BitVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEDROPARGUMENTS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// The expressions of an operation that may mention arguments, except constraints: tile-specialize
/// has removed those that mention an absent argument.
SmallVector<ExprAttr> getExprs(Operation *op) {
  SmallVector<ExprAttr> exprs;
  auto append = [&](ArrayAttr list) { llvm::append_range(exprs, list.getAsRange<ExprAttr>()); };
  if (auto kernel = dyn_cast<KernelOp>(op))
    append(kernel.getGrid());
  else if (auto workspace = dyn_cast<WorkspaceOp>(op))
    append(workspace.getExtents());
  else if (auto launch = dyn_cast<LaunchOp>(op); launch && launch.getConditionAttr())
    exprs.push_back(launch.getConditionAttr());
  return exprs;
}

/// Whether an expression in `op`, a kernel or program, mentions an argument.
bool isMentioned(Operation *op, StringRef name) {
  return op
      ->walk([&](Operation *inner) {
        bool isFound = false;
        for (ExprAttr expr : getExprs(inner))
          walkExpr(expr, [&](ExprAttr leaf) { isFound |= leaf.getName() == name; });
        return isFound ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Removes unused arguments from a declaration and returns which.
template <typename OpTy> FailureOr<llvm::BitVector> dropArguments(OpTy op) {
  Signature signature(op);
  llvm::BitVector dropped(op.getNumArgs());
  SmallVector<Attribute> names;
  SmallVector<bool> optional;
  NamedAttrList defaults(op.getArgDefaultsAttr());
  for (auto [i, attr] : llvm::enumerate(signature.argNames.template getAsRange<StringAttr>())) {
    ExprAttr condition = signature.getArgCondition(attr);
    if (!condition) {
      names.push_back(attr);
      optional.push_back(signature.argOptional[i]);
      continue;
    }
    if (!condition.isConstant())
      return op.emitOpError()
             << "argument '" << attr.getValue()
             << "' has a condition with parameters that are not bound; run tile-specialize first";
    auto reject = [&attr = attr](InFlightDiagnostic diagnostic) -> LogicalResult {
      return diagnostic << "reads argument '" << attr.getValue()
                        << "' where the condition of the argument does not hold; read it under "
                           "the same condition";
    };
    Value argument = signature.body->getArgument(i);
    if (!argument.use_empty())
      return reject((*argument.user_begin())->emitOpError());
    if (isMentioned(op, attr.getValue()))
      return reject(op.emitOpError("in an expression "));
    dropped.set(i);
    defaults.erase(attr);
  }
  MLIRContext *context = op.getContext();
  op.setArgNamesAttr(ArrayAttr::get(context, names));
  op.setArgOptionalAttr(DenseBoolArrayAttr::get(context, optional));
  op.removeArgConditionsAttr();
  if (defaults.empty())
    op.removeArgDefaultsAttr();
  else
    op.setArgDefaultsAttr(defaults.getDictionary(context));
  llvm::BitVector ofBody = dropped;
  ofBody.resize(signature.body->getNumArguments());
  signature.body->eraseArguments(ofBody);
  return dropped;
}

struct TileDropArgumentsPass : tilewright::impl::TileDropArgumentsBase<TileDropArgumentsPass> {
  using TileDropArgumentsBase::TileDropArgumentsBase;

  void runOnOperation() override {
    llvm::DenseMap<StringAttr, llvm::BitVector> ofKernels;
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      if (!kernel.getArgConditionsAttr())
        continue;
      FailureOr<llvm::BitVector> dropped = dropArguments(kernel);
      if (failed(dropped))
        return signalPassFailure();
      ofKernels[kernel.getSymNameAttr()] = *dropped;
    }
    for (auto program : getOperation().getOps<ProgramOp>()) {
      program.walk([&](LaunchOp launch) {
        auto dropped = ofKernels.find(launch.getKernelAttr().getAttr());
        if (dropped != ofKernels.end())
          launch->eraseOperands(dropped->second);
      });
      // Erase workspaces that no launch uses; their extents may mention removed arguments.
      for (auto workspace : llvm::make_early_inc_range(program.getBody().getOps<WorkspaceOp>()))
        if (workspace->use_empty())
          workspace.erase();
      if (program.getArgConditionsAttr() && failed(dropArguments(program)))
        return signalPassFailure();
    }
  }
};

} // namespace
