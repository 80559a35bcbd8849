// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-inline-programs: replaces each tile.call by the workspaces and launches of the program that
// it calls.

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"
#include "passes/Tile/BindParameters.h"
#include "passes/Tile/LaunchNames.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEINLINEPROGRAMS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// One call, and the expressions of its callee in terms of the caller.
class Inliner {
public:
  Inliner(CallOp call, ProgramOp callee)
      : call(call), program(callee), caller(call->getParentOfType<ProgramOp>()), callee(callee),
        context(call.getContext()) {}

  LogicalResult run() {
    FailureOr<SmallVector<Value>> matched = call.matchArguments(program);
    if (failed(matched))
      return failure();
    values = std::move(*matched);
    for (auto [name, value] : llvm::zip(call.getWithNames().getAsRange<StringAttr>(),
                                        call.getWithValues().getAsRange<ExprAttr>()))
      given[name.getValue()] = value;
    if (failed(addParams()) || failed(addConstraints()))
      return failure();
    NamedAttrList removed;
    for (ProgramOp each : {program, caller})
      if (auto own = each->getAttrOfType<DictionaryAttr>(removedAttrName))
        for (NamedAttribute entry : own)
          removed.set(entry.getName(), entry.getValue());
    if (!removed.empty())
      caller->setAttr(removedAttrName, removed.getDictionary(context));
    cloneBody();
    return success();
  }

private:
  /// Where the callee has the name of an argument: the value that it gets; null if it is absent.
  std::optional<Value> findArgument(StringRef name) {
    int number = callee.findArg(name);
    return number < 0 ? std::nullopt : std::optional(values[number]);
  }

  StringRef getOwnName(BlockArgument argument) {
    return cast<StringAttr>(caller.getArgNames()[argument.getArgNumber()]).getValue();
  }

  /// The expression over the caller; null if it reads elements of a workspace.
  ExprAttr translate(ExprAttr expr) {
    return rewriteExpr(expr, [&](ExprAttr part) -> std::optional<ExprAttr> {
      if (part.getKind() == ExprKind::Name)
        return translateName(part);
      if (part.getKind() == ExprKind::Dim)
        return translateDim(part);
      return std::nullopt;
    });
  }

  ExprAttr translateName(ExprAttr name) {
    if (ExprAttr value = given.lookup(name.getName()))
      return value;
    std::optional<Value> passed = findArgument(name.getName());
    if (!passed)
      return name;
    auto argument = dyn_cast_if_present<BlockArgument>(*passed);
    return argument ? ExprAttr::getName(context, getOwnName(argument)) : ExprAttr();
  }

  ExprAttr translateDim(ExprAttr dim) {
    std::optional<Value> passed = findArgument(dim.getName());
    if (!passed)
      return dim; // of a capture
    if (!*passed)
      return ExprAttr::getInt(context, 0);
    if (auto argument = dyn_cast<BlockArgument>(*passed))
      return makeDim(context, getOwnName(argument), dim.getValue());
    auto workspace = (*passed).getDefiningOp<WorkspaceOp>();
    return cast<ExprAttr>(workspace.getExtents()[static_cast<size_t>(dim.getValue())]);
  }

  InFlightDiagnostic reject(StringRef name) {
    return call.emitOpError() << "cannot bind '" << name << "' of program @" << call.getProgram();
  }

  /// Parameters that neither the call nor the caller has become parameters of the caller.
  LogicalResult addParams() {
    SmallVector<Attribute> params(caller.getParams().getValue());
    Signature own(caller);
    for (auto param : callee.params.getAsRange<ParamDeclAttr>()) {
      StringRef name = param.getName();
      if (given.contains(name))
        continue;
      ExprAttr value = param.getDefaultValue();
      if (value) // of extents and scalars, which the caller has, too
        value = translate(value);
      if (own.findArg(name) >= 0)
        return reject(name) << ", since the caller has an argument of that name; rename one";
      ParamDeclAttr known = own.findParam(name);
      if (known && known.getKind() != param.getKind())
        return reject(name) << ", which is of kind " << stringifyParamKind(param.getKind())
                            << ", but the caller's is of kind "
                            << stringifyParamKind(known.getKind()) << "; rename one";
      if (known && param.getDerived() && known.getDefaultValue() != value)
        return reject(name) << ", which always is " << toString(value)
                            << ", to another value of the caller; rename one";
      if (!known)
        params.push_back(ParamDeclAttr::get(context, name, param.getKind(), param.getAllowed(),
                                            value, param.getDerived()));
    }
    caller.setParamsAttr(ArrayAttr::get(context, params));
    return success();
  }

  /// Whether an expression mentions an argument that is absent.
  bool readsAbsent(ExprAttr expr) {
    bool isFound = false;
    walkExpr(expr, [&](ExprAttr leaf) {
      std::optional<Value> passed = findArgument(leaf.getName());
      isFound |= passed && !*passed;
    });
    return isFound;
  }

  LogicalResult addConstraints() {
    llvm::SetVector<Attribute> constraints;
    constraints.insert_range(caller.getConstraints());
    for (auto constraint : callee.constraints.getAsRange<ExprAttr>()) {
      if (readsAbsent(constraint))
        continue;
      ExprAttr own = translate(constraint);
      if (!own)
        return call.emitOpError() << "passes a workspace for an argument of program @"
                                  << call.getProgram() << " whose elements the constraint "
                                  << toString(constraint)
                                  << " reads; pass an argument of the caller";
      constraints.insert(own);
    }
    caller.setConstraintsAttr(ArrayAttr::get(context, constraints.getArrayRef()));
    return success();
  }

  /// An array without elements for an argument that is absent.
  Value makeAbsent(OpBuilder &b, Type type) {
    SmallVector<Attribute> extents;
    for (const Dim &dim : getDims(type)) {
      int64_t extent = dim.isUnknown() ? 0 : dim.extent;
      extents.push_back(dim.isSymbol() ? ExprAttr::getName(context, dim.symbol)
                                       : ExprAttr::getInt(context, extent));
    }
    return WorkspaceOp::create(b, call.getLoc(), type, b.getArrayAttr(extents), FloatAttr());
  }

  /// The `with` clause of a launch: its own, and what the call binds. The kernel takes other
  /// parameters from the caller, by name.
  void setWith(LaunchOp launch) {
    SmallVector<Attribute> names, bound;
    for (auto [name, value] : llvm::zip(launch.getWithNames().getAsRange<StringAttr>(),
                                        launch.getWithValues().getAsRange<ExprAttr>())) {
      names.push_back(name);
      bound.push_back(translate(value));
    }
    auto kernel = caller->getParentOfType<ModuleOp>().lookupSymbol<KernelOp>(launch.getKernel());
    for (auto [name, value] : llvm::zip(call.getWithNames().getAsRange<StringAttr>(),
                                        call.getWithValues().getAsRange<ExprAttr>())) {
      ParamDeclAttr param = kernel ? Signature(kernel).findParam(name.getValue()) : ParamDeclAttr();
      if (param && !param.getDerived() && !llvm::is_contained(names, name)) {
        names.push_back(name);
        bound.push_back(value);
      }
    }
    launch.setWithNamesAttr(ArrayAttr::get(context, names));
    launch.setWithValuesAttr(ArrayAttr::get(context, bound));
  }

  void cloneBody() {
    OpBuilder b(call);
    IRMapping map;
    for (auto [argument, value] : llvm::zip(callee.body->getArguments(), values))
      map.map(argument, value ? value : makeAbsent(b, argument.getType()));
    for (Operation &op : *callee.body) {
      if (auto returned = dyn_cast<ReturnOp>(op)) {
        for (auto [result, view] : llvm::zip(call.getViews(), returned.getViews()))
          result.replaceAllUsesWith(map.lookup(view));
        break;
      }
      Operation *copy = b.clone(op, map);
      if (auto workspace = dyn_cast<WorkspaceOp>(copy)) {
        SmallVector<Attribute> extents;
        for (auto extent : workspace.getExtents().getAsRange<ExprAttr>())
          extents.push_back(translate(extent));
        workspace.setExtentsAttr(b.getArrayAttr(extents));
      } else if (auto launch = dyn_cast<LaunchOp>(copy)) {
        setWith(launch);
        if (ExprAttr condition = launch.getConditionAttr())
          launch.setConditionAttr(translate(condition));
      }
    }
    call.erase();
  }

  CallOp call;
  ProgramOp program, caller;
  Signature callee;
  MLIRContext *context;
  SmallVector<Value> values;       ///< of the callee's arguments; null: absent
  llvm::StringMap<ExprAttr> given; ///< the `with` clause
};

struct TileInlineProgramsPass : tilewright::impl::TileInlineProgramsBase<TileInlineProgramsPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::SetVector<ProgramOp> called;
    for (auto program : llvm::to_vector(getOperation().getOps<ProgramOp>()))
      if (failed(inlineCalls(program, symbols, called)))
        return signalPassFailure();
    for (ProgramOp program : called)
      program.erase();
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto returned : program.getBody().getOps<ReturnOp>()) {
        returned.emitOpError("returns views to callers, but no program calls this one; leave it "
                             "out, or compile a program that calls it");
        return signalPassFailure();
      }
  }

private:
  LogicalResult inlineCalls(ProgramOp program, SymbolTable &symbols,
                            llvm::SetVector<ProgramOp> &called) {
    if (llvm::is_contained(active, program))
      return program.emitOpError() << "must not call itself, directly or through others; leave a "
                                      "tile.call out";
    active.push_back(program);
    for (auto call : llvm::to_vector(program.getBody().getOps<CallOp>())) {
      auto callee = symbols.lookup<ProgramOp>(call.getProgram());
      if (!callee)
        return call.emitOpError() << "calls @" << call.getProgram()
                                  << ", which no file defines; link the file that does";
      if (failed(inlineCalls(callee, symbols, called)) || failed(Inliner(call, callee).run()))
        return failure();
      called.insert(callee);
    }
    active.pop_back();
    return success();
  }

  SmallVector<ProgramOp> active; ///< from an entry to the program whose calls are inlined
};

} // namespace
