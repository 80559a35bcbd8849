// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-specialize: uses the input module as a set of templates. Each kernel, program and function
// that the entry reaches is cloned once for each set of values that it depends on.

#include "dialect/Tile/Calls.h"
#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"
#include "passes/Tile/ApplyBindings.h"
#include "passes/Tile/BindParameters.h"
#include "passes/Tile/CaptureConstraints.h"
#include "passes/Tile/LaunchLets.h"
#include "passes/Tile/LoopSteps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

#include <vector>

namespace tilewright {
#define GEN_PASS_DEF_TILESPECIALIZE
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// The parameters that a function or capture itself reads, and the symbols that it uses.
struct Reads {
  llvm::MapVector<StringRef, Operation *> params; ///< name -> an operation that reads it
  llvm::SetVector<Operation *> symbols;           ///< functions and captures
  bool isClosed = false;                          ///< `params` includes what the symbols read
};

/// A clone of a template, in a module of its own until all clones are made.
struct Instance {
  Operation *source;
  Bindings bindings;
  OwningOpRef<Operation *> op;
};

class Specializer {
public:
  Specializer(ModuleOp module, bool exactLiterals)
      : module(module), exactLiterals(exactLiterals), templates(module.clone()),
        symbols(*templates) {
    for (Operation &op : *templates->getBody())
      if (auto symbol = dyn_cast<SymbolOpInterface>(op))
        names.insert(symbol.getName());
  }

  LogicalResult run(StringRef entryName, ArrayRef<std::string> assignments);

private:
  StringAttr getInstance(Operation *source, const Bindings &bindings);
  FailureOr<Bindings> restrictTo(Operation *source, const Bindings &bindings, Operation *reachedBy);
  Reads &getReads(Operation *source);
  const Reads &getAllReads(Operation *source);
  LogicalResult specialize(Instance &instance);
  LogicalResult finish(KernelOp kernel, const Bindings &bindings);
  LogicalResult finish(ProgramOp program, Operation *source, const Bindings &bindings);
  LogicalResult specializeLaunch(LaunchOp launch, const Signature &program,
                                 const Bindings &bindings);

  ModuleOp module;
  bool exactLiterals;
  OwningOpRef<ModuleOp> templates;
  SymbolTable symbols;
  llvm::StringSet<> names;
  llvm::DenseMap<Operation *, std::unique_ptr<Reads>> reads;
  std::vector<std::unique_ptr<Instance>> instances; ///< grows during iteration
  llvm::DenseMap<std::pair<Operation *, Attribute>, StringAttr> known;
  llvm::DenseSet<Operation *> copied; ///< sources of instances
};

/// The name of the clone of `source` for these values.
StringAttr Specializer::getInstance(Operation *source, const Bindings &bindings) {
  MLIRContext *context = source->getContext();
  StringAttr &name = known[{source, getBindingsAttr(context, bindings)}];
  if (name)
    return name;
  StringAttr sourceName = SymbolTable::getSymbolName(source);
  bool isFirst = copied.insert(source).second;
  std::string unique = sourceName.str();
  for (unsigned i = 0; !isFirst && !names.insert(unique).second; ++i)
    unique = (sourceName.getValue() + "_" + llvm::Twine(i)).str();
  name = StringAttr::get(context, unique);
  Operation *copy = source->clone();
  SymbolTable::setSymbolName(copy, name);
  instances.push_back(std::make_unique<Instance>(Instance{source, bindings, copy}));
  return name;
}

Reads &Specializer::getReads(Operation *source) {
  std::unique_ptr<Reads> &known = reads[source];
  if (known)
    return *known;
  known = std::make_unique<Reads>();
  Reads &result = *known;
  Operation *current = source;
  auto read = [&](StringRef name) { result.params.insert({name, current}); };
  AttrTypeWalker walker;
  walker.addWalk([&](ParamType type) { read(type.getName()); });
  walker.addWalk([&](TileType type) {
    for (StringAttr symbol : type.getSymbols())
      if (symbol)
        read(symbol);
  });
  walker.addWalk([&](ViewType type) {
    for (StringAttr symbol : type.getSymbols())
      if (symbol)
        read(symbol);
  });
  walker.addWalk([&](FlatSymbolRefAttr symbol) {
    Operation *op = symbols.lookup(symbol.getValue());
    if (isa_and_present<func::FuncOp, CaptureOp>(op))
      result.symbols.insert(op);
  });
  source->walk<WalkOrder::PreOrder>([&](Operation *op) {
    current = op;
    if (auto param = dyn_cast<ParamOp>(op))
      walkExpr(param.getExpr(), [&](ExprAttr leaf) { read(leaf.getName()); });
    if (auto loop = dyn_cast<ForBlocksOp>(op))
      for (ExprAttr expr :
           {loop.getListSpanAttr(), loop.getListConditionAttr(), loop.getMaskConditionAttr()})
        if (expr)
          walkExpr(expr, [&](ExprAttr leaf) { read(leaf.getName()); });
    if (auto range = dyn_cast<KeptRangeOp>(op); range && range.getMaskConditionAttr())
      walkExpr(range.getMaskConditionAttr(), [&](ExprAttr leaf) { read(leaf.getName()); });
    if (auto paged = dyn_cast<PagedOp>(op))
      for (ExprAttr expr : {paged.getEachAttr(), paged.getConditionAttr()})
        if (expr)
          walkExpr(expr, [&](ExprAttr leaf) { read(leaf.getName()); });
    if (auto sums = dyn_cast<AddGradientsOp>(op); sums && sums.getExactConditionAttr())
      walkExpr(sums.getExactConditionAttr(), [&](ExprAttr leaf) { read(leaf.getName()); });
    walker.walk(op->getAttrDictionary());
    for (Type type : op->getResultTypes())
      walker.walk(type);
  });
  return result;
}

/// Includes parameters that are read through symbols, transitively. Iterative, and once for each
/// function, since chains of calls may be long. There are no cycles.
const Reads &Specializer::getAllReads(Operation *source) {
  SmallVector<std::pair<Operation *, unsigned>> path{{source, 0}};
  while (!path.empty()) {
    auto &[op, next] = path.back();
    Reads &own = getReads(op);
    if (!own.isClosed && next < own.symbols.size()) {
      path.push_back({own.symbols[next++], 0});
      continue;
    }
    if (!own.isClosed)
      for (Operation *symbol : own.symbols)
        for (auto [name, reader] : getReads(symbol).params)
          own.params.insert({name, reader});
    own.isClosed = true;
    path.pop_back();
  }
  return getReads(source);
}

/// The values that a function or capture depends on, directly or transitively.
FailureOr<Bindings> Specializer::restrictTo(Operation *source, const Bindings &bindings,
                                            Operation *reachedBy) {
  const Reads &all = getAllReads(source);
  for (auto [name, op] : all.params) {
    if (bindings.count(name))
      continue;
    InFlightDiagnostic diagnostic =
        op->emitError() << "reads parameter '" << name << "', which " << describe(reachedBy)
                        << " does not declare; a function may read the parameters of every "
                           "kernel that reaches it";
    diagnostic.attachNote(reachedBy->getLoc()) << "reached from here";
    return failure();
  }
  Bindings restricted;
  for (auto &binding : bindings)
    if (all.params.contains(binding.first))
      restricted.insert(binding);
  return restricted;
}

LogicalResult Specializer::specialize(Instance &instance) {
  Operation *op = instance.op.get();
  bool isValid = true;
  auto rename = [&](StringRef name) -> StringAttr {
    Operation *target = symbols.lookup(name);
    if (!isValid || !isa_and_present<func::FuncOp, CaptureOp>(target))
      return {};
    FailureOr<Bindings> restricted = restrictTo(target, instance.bindings, instance.source);
    if (failed(restricted)) {
      isValid = false;
      return {};
    }
    size_t before = instances.size();
    StringAttr instanceName = getInstance(target, *restricted);
    // Callers bind a capture by name, so it must have a single clone.
    if (isa<CaptureOp>(target) && instances.size() > before && instanceName.getValue() != name) {
      target->emitError("capture '") << name << "' must have one type, but its uses require "
                                     << toString(*restricted) << " and another type";
      isValid = false;
    }
    return instanceName;
  };
  if (failed(applyBindings(op, instance.bindings, exactLiterals, rename)) || !isValid ||
      failed(checkLoopSteps(op)))
    return failure();
  if (auto kernel = dyn_cast<KernelOp>(op))
    return finish(kernel, instance.bindings);
  if (auto program = dyn_cast<ProgramOp>(op))
    return finish(program, instance.source, instance.bindings);
  return success();
}

/// Reduces each expression of a list; null after an error.
ArrayAttr reduceAll(ArrayAttr exprs, const Bindings &bindings, StringRef what, Operation *op) {
  SmallVector<Attribute> reduced;
  for (auto expr : exprs.getAsRange<ExprAttr>()) {
    llvm::Expected<ExprAttr> value = reduceExpr(expr, getEnvironment(bindings));
    if (!value) {
      op->emitError() << what << " '" << tile::toString(expr)
                      << "' cannot be computed: " << llvm::toString(value.takeError());
      return {};
    }
    if (value->getKind() == ExprKind::Int &&
        (value->getValue() < 0 || value->getValue() > maxExtent)) {
      op->emitError() << what << " must be from 0 to " << maxExtent << ", but got '"
                      << tile::toString(expr) << "' = " << value->getValue();
      return {};
    }
    reduced.push_back(*value);
  }
  return ArrayAttr::get(op->getContext(), reduced);
}

/// The conditions of arguments that these values exclude, each reduced to `false`. Null if all
/// arguments exist.
FailureOr<DictionaryAttr> getUnmetConditions(DictionaryAttr conditions, const Bindings &bindings,
                                             Operation *op) {
  NamedAttrList unmet;
  if (conditions)
    for (NamedAttribute condition : conditions) {
      auto expr = cast<ExprAttr>(condition.getValue());
      llvm::Expected<ExprAttr> value = evaluateExpr(expr, getEnvironment(bindings));
      if (!value)
        return op->emitError() << "the condition of argument '" << condition.getName().getValue()
                               << "' cannot be computed: " << llvm::toString(value.takeError());
      if (!value->getValue())
        unmet.set(condition.getName(), *value);
    }
  return unmet.empty() ? DictionaryAttr() : unmet.getDictionary(op->getContext());
}

/// Keeps constraints that read arguments, which are checked at every launch, except those that
/// mention arguments in `absent`. bindParameters has reduced all constraints before, so this cannot
/// fail.
ArrayAttr getOpenConstraints(ArrayAttr constraints, const ExprEnvironment &environment,
                             DictionaryAttr absent) {
  SmallVector<Attribute> open;
  for (auto constraint : constraints.getAsRange<ExprAttr>()) {
    ExprAttr reduced = llvm::cantFail(reduceExpr(constraint, environment));
    bool holds = reduced.isConstant();
    walkExpr(reduced, [&](ExprAttr leaf) { holds |= absent && absent.contains(leaf.getName()); });
    if (!holds)
      open.push_back(reduced);
  }
  return ArrayAttr::get(constraints.getContext(), open);
}

/// The common part for kernels and programs.
template <typename OpTy> LogicalResult finishSignature(OpTy op, const Bindings &bindings) {
  MLIRContext *context = op.getContext();
  FailureOr<DictionaryAttr> absent = getUnmetConditions(op.getArgConditionsAttr(), bindings, op);
  if (failed(absent))
    return failure();
  op.removeArgConditionsAttr();
  if (*absent)
    op.setArgConditionsAttr(*absent);
  op.setParamsAttr(ArrayAttr::get(context, {}));
  op.setConstraintsAttr(
      getOpenConstraints(op.getConstraints(), getEnvironment(bindings, op), *absent));
  if (!bindings.empty())
    op.setBindingsAttr(getBindingsAttr(context, bindings));
  return success();
}

LogicalResult Specializer::finish(KernelOp kernel, const Bindings &bindings) {
  ArrayAttr grid = reduceAll(kernel.getGrid(), bindings, "an extent of the grid", kernel);
  if (!grid)
    return failure();
  kernel.setGridAttr(grid);
  return finishSignature(kernel, bindings);
}

LogicalResult Specializer::finish(ProgramOp program, Operation *source, const Bindings &bindings) {
  Signature signature(source);
  for (LaunchOp launch : llvm::make_early_inc_range(program.getBody().getOps<LaunchOp>()))
    if (failed(specializeLaunch(launch, signature, bindings)))
      return failure();
  for (WorkspaceOp workspace :
       llvm::make_early_inc_range(program.getBody().getOps<WorkspaceOp>())) {
    if (workspace->use_empty()) {
      workspace.erase();
      continue;
    }
    ArrayAttr extents =
        reduceAll(workspace.getExtents(), bindings, "an extent of a workspace", workspace);
    if (!extents)
      return failure();
    workspace.setExtentsAttr(extents);
  }
  program->removeAttr(removedAttrName);
  return finishSignature(program, bindings);
}

LogicalResult Specializer::specializeLaunch(LaunchOp launch, const Signature &program,
                                            const Bindings &bindings) {
  MLIRContext *context = launch.getContext();
  ExprEnvironment environment = getEnvironment(bindings);
  if (ExprAttr condition = launch.getConditionAttr()) {
    llvm::Expected<ExprAttr> reduced = reduceExpr(condition, environment);
    if (!reduced)
      return launch.emitError("the condition of a launch cannot be computed: ")
             << llvm::toString(reduced.takeError());
    if (reduced->isConstant() && !reduced->getValue()) {
      launch.erase();
      return success();
    }
    // The remaining condition depends on shapes and scalars, which are known when the program runs.
    launch.setConditionAttr(reduced->isConstant() ? ExprAttr() : *reduced);
  }

  auto kernel = cast<KernelOp>(symbols.lookup(launch.getKernel()));
  Signature signature(kernel);
  llvm::StringMap<ExprAttr> given;
  for (auto decl : signature.params.getAsRange<ParamDeclAttr>())
    if (ExprAttr value = decl.getDerived() ? ExprAttr() : bindings.lookup(decl.getName()))
      given[decl.getName()] = value;
  for (auto [name, expr] : llvm::zip(launch.getWithNames().getAsRange<StringAttr>(),
                                     launch.getWithValues().getAsRange<ExprAttr>())) {
    llvm::Expected<ExprAttr> value = evaluateExpr(expr, environment);
    if (!value)
      return launch.emitError("the value of '")
             << name.getValue() << "' cannot be computed: " << llvm::toString(value.takeError());
    given[name] = *value;
  }
  std::string remedy = "declare it in " + describe(program.op) + " or give it by with (NAME = ...)";
  FailureOr<Bindings> kernelBindings =
      bindParameters(signature, given, remedy, [&] { return launch.emitError(); });
  if (failed(kernelBindings))
    return failure();
  StringAttr instance = getInstance(kernel, *kernelBindings);
  if (Attribute blocks = launch->removeAttr(blocksAttrName))
    for (auto &each : instances)
      if (SymbolTable::getSymbolName(each->op.get()) == instance)
        each->op.get()->setAttr(blocksAttrName, blocks);
  launch.setKernelAttr(FlatSymbolRefAttr::get(instance));
  launch.setWithNamesAttr(ArrayAttr::get(context, {}));
  launch.setWithValuesAttr(ArrayAttr::get(context, {}));
  return success();
}

LogicalResult Specializer::run(StringRef entryName, ArrayRef<std::string> assignments) {
  Operation *entry = findEntry(*templates, entryName, /*explain=*/true);
  if (!entry)
    return failure();
  Signature signature(entry);
  FailureOr<llvm::StringMap<ExprAttr>> given = parseBindings(signature, assignments);
  if (failed(given))
    return failure();
  FailureOr<Bindings> bindings = bindParameters(signature, *given, "give each as NAME=VALUE",
                                                [&] { return entry->emitError(); });
  if (failed(bindings))
    return failure();
  getInstance(entry, *bindings);
  for (size_t i = 0; i < instances.size(); ++i)
    if (failed(specialize(*instances[i])))
      return failure();

  // Requirements of captures become constraints of the entry's launches.
  SmallVector<CaptureOp> captures;
  for (auto &instance : instances)
    if (auto capture = dyn_cast<CaptureOp>(instance->op.get()))
      captures.push_back(capture);
  if (failed(moveCaptureConstraints(instances.front()->op.get(), captures, *bindings)))
    return failure();

  // The clones replace their templates, in the order of the file.
  for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
    if (isa<KernelOp, ProgramOp, func::FuncOp, CaptureOp>(op))
      op.erase();
  llvm::DenseMap<Operation *, SmallVector<Instance *>> bySource;
  for (auto &instance : instances)
    bySource[instance->source].push_back(instance.get());
  for (Operation &source : *templates->getBody())
    for (Instance *instance : bySource.lookup(&source))
      module.getBody()->push_back(instance->op.release());

  if (succeeded(verify(module)))
    return success();
  return entry->emitError() << describe(entry)
                            << " must be well-typed for the chosen values, but is not for "
                            << toString(*bindings);
}

struct TileSpecializePass : tilewright::impl::TileSpecializeBase<TileSpecializePass> {
  using TileSpecializeBase::TileSpecializeBase;

  void runOnOperation() override {
    if (failed(Calls(getOperation()).checkCycles()) || failed(expandLaunchLets(getOperation())))
      return signalPassFailure();
    std::vector<std::string> assignments(params.begin(), params.end());
    if (failed(Specializer(getOperation(), exactLiterals).run(entry, assignments)))
      signalPassFailure();
    replacedAttr.remove(getOperation());
  }
};

} // namespace
