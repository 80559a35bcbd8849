// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expansion of parameters that depend on arguments.

#include "passes/Tile/LaunchLets.h"

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExprCheck.h"
#include "passes/Tile/LaunchNames.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

class LetExpander {
public:
  explicit LetExpander(ProgramOp program) : program(program), signature(program) {
    for (auto param : signature.params.getAsRange<ParamDeclAttr>()) {
      if (isOfLaunch(signature, param))
        lets[param.getName()] = param.getDefaultValue();
      else
        kept.push_back(param);
    }
  }

  LogicalResult run() {
    if (lets.empty())
      return success();
    for (auto launch : program.getBody().getOps<LaunchOp>()) {
      if (failed(checkParams(launch)))
        return failure();
      if (ExprAttr condition = launch.getConditionAttr())
        launch.setConditionAttr(expand(condition));
    }
    for (auto workspace : program.getBody().getOps<WorkspaceOp>())
      workspace.setExtentsAttr(expand(workspace.getExtents()));
    program.setConstraintsAttr(expand(program.getConstraints()));
    program.setParamsAttr(ArrayAttr::get(program.getContext(), kept));
    return success();
  }

private:
  /// A parameter of the kernel that the launch does not give gets the program's value.
  LogicalResult checkParams(LaunchOp launch) {
    auto module = program->getParentOfType<ModuleOp>();
    auto kernel = module.lookupSymbol<KernelOp>(launch.getKernel());
    if (!kernel)
      return success(); // tile-link reports it
    for (auto param : kernel.getParams().getAsRange<ParamDeclAttr>()) {
      bool isGiven =
          llvm::any_of(launch.getWithNames().getAsRange<StringAttr>(),
                       [&](StringAttr name) { return name.getValue() == param.getName(); });
      if (!param.getDerived() && !isGiven && lets.contains(param.getName()))
        return launch.emitError("parameter '")
               << param.getName() << "' of kernel @" << kernel.getSymName()
               << " must be known when the program is bound, but the program's parameter of that "
                  "name depends on arguments; give another value in the clause `with`";
    }
    return success();
  }

  ExprAttr expand(ExprAttr expr) {
    return rewriteExpr(expr, [&](ExprAttr part) -> std::optional<ExprAttr> {
      if (part.getKind() == ExprKind::Name)
        if (auto let = lets.find(part.getName()); let != lets.end())
          return expand(let->second);
      return std::nullopt;
    });
  }

  ArrayAttr expand(ArrayAttr exprs) {
    SmallVector<Attribute> expanded;
    for (auto expr : exprs.getAsRange<ExprAttr>())
      expanded.push_back(expand(expr));
    return ArrayAttr::get(exprs.getContext(), expanded);
  }

  ProgramOp program;
  Signature signature;
  llvm::StringMap<ExprAttr> lets;
  SmallVector<Attribute> kept;
};

} // namespace

LogicalResult tilewright::expandLaunchLets(ModuleOp module) {
  for (auto program : module.getOps<ProgramOp>())
    if (failed(LetExpander(program).run()))
      return failure();
  return success();
}
