// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-link: links functions and captures of other files, and checks calls between functions.

#include "dialect/Tile/Calls.h"
#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExpr.h"
#include "dialect/Tile/TileExprCheck.h"
#include "dialect/Tile/TileExprEval.h"
#include "dialect/Tile/TileShortForms.h"
#include "passes/Passes.h"
#include "passes/Tile/ExpandFills.h"
#include "passes/Tile/LinkLibraries.h"
#include "passes/Tile/LinkSymbols.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Remarks.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace tilewright {
#define GEN_PASS_DEF_TILELINK
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

static constexpr llvm::StringLiteral kUnboundedSuffix = ".unbounded";

namespace {

//===----------------------------------------------------------------------===//
// Definitions of other files
//===----------------------------------------------------------------------===//

class Linker {
public:
  explicit Linker(ModuleOp module) : module(module), symbols(module) {
    for (Operation &op : *module.getBody()) {
      if (isReplaceable(&op)) {
        replaceable.push_back(SymbolTable::getSymbolName(&op));
        if (auto rule = dyn_cast_or_null<StringAttr>(replaceableAttr.get(&op)))
          rules[replaceable.back()] = rule;
      }
      if (isa<SymbolOpInterface>(op))
        taken.insert(SymbolTable::getSymbolName(&op));
    }
  }

  LogicalResult link(ArrayRef<std::string> paths);
  LogicalResult noteReplaced();

private:
  /// A file to be linked, with its definitions by kind.
  struct File {
    StringRef path;
    OwningOpRef<ModuleOp> module;
    SmallVector<Operation *> replacements, helpers, captures;
    llvm::MapVector<StringAttr, func::FuncOp> bases; ///< replaced name -> its tile.base
  };

  LogicalResult classify(File &file);
  LogicalResult classify(Operation *op, File &file);
  LogicalResult classifyReplacement(func::FuncOp function, File &file);
  LogicalResult checkBases(File &file);
  LogicalResult checkUses(File &file);
  LogicalResult checkHelpers(File &file);
  LogicalResult renameHelpers(File &file);
  StringAttr makeUnique(StringAttr name, SymbolTable *own = nullptr);
  void rename(func::FuncOp function, StringAttr name);
  void move(File &file);
  void replace(func::FuncOp function, func::FuncOp base);

  ModuleOp module;
  SymbolTable symbols;
  SmallVector<StringAttr> replaceable;            ///< functions of the input module
  llvm::DenseSet<StringAttr> taken;               ///< names that helpers must not have
  llvm::DenseMap<StringAttr, StringAttr> rules;   ///< replaceable name -> composition rule, if any
  llvm::DenseMap<StringAttr, Operation *> linked; ///< replacements and captures of files
  llvm::DenseSet<StringAttr> joined;              ///< names of replacements added so far
  llvm::DenseSet<StringAttr> unbounded;           ///< those of them that one marks so
};

LogicalResult Linker::classify(Operation *op, File &file) {
  if (isa<KernelOp, ProgramOp>(op))
    return op->emitError("a linked file may contain only functions and captures, but got ")
           << describeSymbol(op) << " @" << SymbolTable::getSymbolName(op).getValue()
           << "; compile that file by itself";
  if (!isa<func::FuncOp, CaptureOp>(op))
    return op->emitError("a linked file may contain only functions and captures, but got '")
           << op->getName() << "'";
  if (failed(verify(op)))
    return failure();

  StringAttr name = SymbolTable::getSymbolName(op);
  Operation *old = symbols.lookup(name);
  auto function = dyn_cast<func::FuncOp>(op);
  if (auto base = baseAttr.get(op)) {
    if (file.bases.insert({base.getAttr(), function}).second)
      return success();
    return op->emitError("a file must declare only once the function that its @")
           << base.getValue() << " replaces, but got @" << name.getValue() << " as well as @"
           << file.bases[base.getAttr()].getSymName() << "; leave one out";
  }
  // A function that replaces nothing is local to its file, even if the module has one of the same
  // name.
  if (function && !function.isDeclaration() && !isReplaceable(old)) {
    file.helpers.push_back(op);
    return success();
  }
  if (function && function.isDeclaration() && !old)
    return op->emitError("function @")
           << name.getValue()
           << " has no body, so the module must define it; define it in the file that uses it";
  if (old && old->getName() != op->getName()) {
    InFlightDiagnostic diagnostic = op->emitError() << describeSymbol(op) << " @" << name.getValue()
                                                    << " must be a " << describeSymbol(op)
                                                    << " of the module, too, but got a "
                                                    << describeSymbol(old) << "; rename it";
    diagnostic.attachNote(old->getLoc()) << "the module's @" << name.getValue();
    return diagnostic;
  }
  if (old && !typesMatch(getSymbolType(op), getSymbolType(old))) {
    InFlightDiagnostic diagnostic =
        op->emitError() << describeSymbol(op) << " @" << name.getValue() << " must have the type "
                        << (isReplaceable(old) ? "of the function that it replaces, "
                                               : "of the module's, ")
                        << getSymbolType(old) << ", but got " << getSymbolType(op);
    diagnostic.attachNote(old->getLoc()) << "the module's @" << name.getValue();
    return diagnostic;
  }
  // Definitions that the file requires from the module: functions that it only declares, and
  // captures that the module reads.
  if (!function && old)
    addConstraints(cast<CaptureOp>(old), cast<CaptureOp>(op));
  if (function ? function.isDeclaration() : old != nullptr)
    return success();
  if (function) {
    file.replacements.push_back(op);
    return success();
  }
  // Files that read the same argument share it.
  auto [entry, isFirst] = linked.try_emplace(name, op);
  if (isFirst) {
    file.captures.push_back(op);
    return success();
  }
  if (getSymbolType(op) == getSymbolType(entry->second)) {
    addConstraints(cast<CaptureOp>(entry->second), cast<CaptureOp>(op));
    return success();
  }
  InFlightDiagnostic diagnostic = op->emitError() << "capture @" << name.getValue()
                                                  << " must have the same type in all files, "
                                                  << getSymbolType(entry->second) << ", but got "
                                                  << getSymbolType(op) << "; rename it";
  diagnostic.attachNote(entry->second->getLoc()) << "the first definition";
  return diagnostic;
}

void remarkDropped(Operation *op, StringRef name, StringRef why) {
  remark::missed(op->getLoc(),
                 remark::RemarkOpts::name("chain-drops-base").category("tile-link").function(name))
      << remark::reason("@{0} {1}, so what was linked or defined before it has no effect", name,
                        why);
}

/// A second file's function composes with that of the first, or must call it.
LogicalResult Linker::classifyReplacement(func::FuncOp function, File &file) {
  StringAttr name = function.getSymNameAttr();
  func::FuncOp base = file.bases.lookup(name);
  auto [entry, isFirst] = linked.try_emplace(name, function);
  Operation *before = isFirst ? symbols.lookup(name) : entry->second;
  if (base && base.getFunctionType() != cast<func::FuncOp>(before).getFunctionType()) {
    InFlightDiagnostic error =
        base.emitError() << "function @" << base.getSymName() << " denotes the function that @"
                         << name.getValue() << " replaces, so it must have its type, "
                         << getSymbolType(before) << ", but got " << getSymbolType(base)
                         << "; correct the declaration";
    error.attachNote(before->getLoc()) << "the replaced function";
    return error;
  }
  StringAttr rule = rules.lookup(name);
  if (!isFirst && !base && !rule) {
    InFlightDiagnostic error =
        function.emitError()
        << "function @" << name.getValue()
        << " must be linked from one file, or call the function that it replaces, but got a second "
           "definition; declare it as a function without a body {tile.base = @"
        << name.getValue() << "} and call it, or leave one of the files out";
    error.attachNote(before->getLoc()) << "the first definition";
    return error;
  }
  if (!isFirst && getSymbolType(function) != getSymbolType(before)) {
    InFlightDiagnostic error = function.emitError()
                               << "function @" << name.getValue()
                               << " must have the type of the function that it is combined with, "
                               << getSymbolType(before) << ", but got " << getSymbolType(function)
                               << "; write the same type in both files";
    error.attachNote(before->getLoc()) << "the function that it is joined with";
    return error;
  }
  if (base && !isUsed(*file.module, base))
    remarkDropped(function, name, "does not call the function that it replaces");
  else if (!isFirst && !base && rule == kComposeRule && function.getArgument(0).use_empty())
    remarkDropped(function, name, "does not read its first operand");
  entry->second = function;
  return success();
}

/// A base denotes a function that the file replaces. A function's own name denotes the function
/// itself.
LogicalResult Linker::checkBases(File &file) {
  SymbolTable own(*file.module);
  for (auto &[name, base] : file.bases)
    if (!llvm::is_contained(file.replacements, own.lookup(name)))
      return base.emitError("function @")
             << base.getSymName() << " denotes the function that the file's @" << name.getValue()
             << " replaces, but the file has no @" << name.getValue()
             << " that replaces anything; define it, or call the module's by its name";
  for (Operation *op : file.replacements) {
    StringAttr name = SymbolTable::getSymbolName(op);
    WalkResult walk = op->walk([&](func::CallOp call) {
      if (call.getCalleeAttr().getAttr() != name)
        return WalkResult::advance();
      call.emitError("a function must not be recursive, but @")
          << name.getValue()
          << " calls itself; to call the function that it replaces, declare it as a "
          << "function without a body {tile.base = @" << name.getValue() << "}";
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  return success();
}

LogicalResult Linker::classify(File &file) {
  llvm::DenseMap<StringAttr, Operation *> names;
  SmallVector<StringAttr> defined;
  for (Operation &op : *file.module->getBody()) {
    if (failed(classify(&op, file)))
      return failure();
    StringAttr name = SymbolTable::getSymbolName(&op);
    defined.push_back(name);
    if (auto [entry, isFirst] = names.try_emplace(name, &op); !isFirst) {
      InFlightDiagnostic diagnostic = op.emitError() << "a file must define @" << name.getValue()
                                                     << " once, but got a second definition";
      diagnostic.attachNote(entry->second->getLoc()) << "the first definition";
      return diagnostic;
    }
  }
  if (!file.replacements.empty()) {
    if (failed(checkBases(file)))
      return failure();
    for (Operation *op : file.replacements)
      if (failed(classifyReplacement(cast<func::FuncOp>(op), file)))
        return failure();
    return success();
  }
  return emitError(file.module->getLoc())
         << "a linked file must replace a function of the module, which lets files replace "
         << listNames(replaceable) << ", but got '" << file.path << "', which defines "
         << listNames(defined) << "; rename its function, or link it by tile.link";
}

/// A name resolves to the file's definition, else to the module's, never to another file's.
LogicalResult Linker::checkUses(File &file) {
  SymbolTable own(*file.module);
  for (Operation &op : *file.module->getBody())
    for (auto [name, user] : getUsedSymbols(&op))
      if (!own.lookup(name) && !symbols.lookup(name))
        return user->emitError() << "uses @" << name.getValue() << ", which neither '" << file.path
                                 << "' nor the module has; define it";
  return success();
}

/// Reject unreachable functions, which would have no effect: a misspelled name, or one that the
/// module does not let others replace.
LogicalResult Linker::checkHelpers(File &file) {
  SymbolTable own(*file.module);
  llvm::SetVector<Operation *> reached(file.replacements.begin(), file.replacements.end());
  for (unsigned i = 0; i < reached.size(); ++i)
    for (auto [name, user] : getUsedSymbols(reached[i]))
      if (Operation *op = own.lookup(name))
        reached.insert(op);
  for (Operation *helper : file.helpers)
    if (!reached.contains(helper))
      return helper->emitError("function @")
             << SymbolTable::getSymbolName(helper).getValue()
             << " must replace a function or be called by one that does, but the module lets files "
                "replace "
             << listNames(replaceable) << "; rename it or leave it out";
  return success();
}

/// A name based on `name` that neither the module nor the file uses.
StringAttr Linker::makeUnique(StringAttr name, SymbolTable *own) {
  StringAttr unique = name;
  for (unsigned i = 0; taken.contains(unique) || (unique != name && own && own->lookup(unique));
       ++i)
    unique = StringAttr::get(name.getContext(), name.getValue() + "_" + llvm::Twine(i));
  taken.insert(unique);
  return unique;
}

/// Renames helpers so that they do not collide with other functions.
LogicalResult Linker::renameHelpers(File &file) {
  SymbolTable own(*file.module);
  for (Operation *helper : file.helpers) {
    StringAttr name = SymbolTable::getSymbolName(helper), unique = makeUnique(name, &own);
    if (unique != name && failed(own.rename(helper, unique)))
      return helper->emitError("function @")
             << name.getValue() << " must have a name that the module does not use; rename it";
  }
  return success();
}

/// Renames a function of the module; uses of the old name then refer to its replacement.
void Linker::rename(func::FuncOp function, StringAttr name) {
  symbols.remove(function);
  function.setSymNameAttr(name);
  replaceableAttr.remove(function);
  symbols.insert(function);
}

/// Replaces a function. `base` is the declaration by which the new function calls the old one, if
/// any.
void Linker::replace(func::FuncOp function, func::FuncOp base) {
  StringAttr name = function.getSymNameAttr(), rule = rules.lookup(name);
  auto old = base ? base : symbols.lookup<func::FuncOp>(name);
  function->remove();
  old->getBlock()->getOperations().insert(std::next(old->getIterator()), function);
  bool isFirst = joined.insert(name).second;
  if (base || isFirst) {
    if (!base)
      symbols.erase(old);
    symbols.insert(function);
    return;
  }
  rename(old, makeUnique(name));
  function.setSymNameAttr(makeUnique(name));
  symbols.insert(function);
  symbols.insert(joinFunctions(old, function, rule, name));
}

void Linker::move(File &file) {
  // Rename while all uses of a base are in the file's own module.
  for (auto &[name, base] : file.bases) {
    auto old = symbols.lookup<func::FuncOp>(name);
    rename(old, makeUnique(name));
    (void)SymbolTable::replaceAllSymbolUses(base, old.getSymNameAttr(), *file.module);
    base = old;
  }
  for (Operation *op : file.replacements) {
    auto function = cast<func::FuncOp>(op);
    if (unboundedAttr.remove(function))
      unbounded.insert(function.getSymNameAttr());
    replace(function, file.bases.lookup(function.getSymNameAttr()));
  }
  for (Operation *op : llvm::concat<Operation *>(file.helpers, file.captures)) {
    op->remove();
    module.getBody()->push_front(op);
    symbols.insert(op);
  }
}

LogicalResult Linker::link(ArrayRef<std::string> paths) {
  auto isGiven = [&](StringRef name) { return isReplaceable(symbols.lookup(name)); };
  std::vector<File> files;
  for (const std::string &path : paths) {
    File &file = files.emplace_back(File{path, readModule(path, module.getLoc()), {}, {}, {}, {}});
    if (!file.module || failed(linkLibraries(*file.module, path, isGiven)) ||
        failed(classify(file)) || failed(checkUses(file)) || failed(checkHelpers(file)))
      return failure();
    for (Operation *capture : file.captures)
      taken.insert(SymbolTable::getSymbolName(capture));
  }
  for (File &file : files)
    if (failed(renameHelpers(file)))
      return failure();
  for (File &file : files)
    move(file);
  return success();
}

/// The functions that an expression tests with `replaced`.
void findAsked(ExprAttr expr, llvm::SetVector<StringAttr> &names) {
  if (expr.getKind() == ExprKind::Call && getFunction(expr) == tilewright::expr::Function::Replaced)
    names.insert(StringAttr::get(expr.getContext(), expr.getOperands().front().getName()));
  for (ExprAttr operand : expr.getOperands())
    findAsked(operand, names);
}

/// Records which functions files have replaced, for constraints and defaults that test this.
LogicalResult Linker::noteReplaced() {
  SmallVector<Attribute> replaced;
  for (Operation &op : *module.getBody()) {
    if (!isa<KernelOp, ProgramOp>(op))
      continue;
    llvm::SetVector<StringAttr> asked;
    Signature signature(&op);
    for (auto constraint : signature.constraints.getAsRange<ExprAttr>())
      findAsked(constraint, asked);
    for (auto param : signature.params.getAsRange<ParamDeclAttr>())
      if (param.getDefaultValue())
        findAsked(param.getDefaultValue(), asked);
    for (StringAttr name : asked) {
      StringRef function = name.getValue();
      bool asksUnbounded = function.consume_back(kUnboundedSuffix);
      auto base = StringAttr::get(op.getContext(), function);
      if (!llvm::is_contained(replaceable, base))
        return op.emitOpError("replaced(\"")
               << name.getValue() << "\") must name a replaceable function, but the module has "
               << listNames(replaceable);
      if ((asksUnbounded ? unbounded : joined).contains(base) &&
          !llvm::is_contained(replaced, name))
        replaced.push_back(name);
    }
  }
  if (!replaced.empty())
    replacedAttr.set(module, replaced);
  return success();
}

//===----------------------------------------------------------------------===//
// Calls between functions
//===----------------------------------------------------------------------===//

LogicalResult checkCalls(ModuleOp module) {
  Calls calls(module);
  for (Operation &op : *module.getBody())
    for (auto [function, user] : calls.getUses(&op)) {
      if (!function.isDeclaration())
        continue;
      InFlightDiagnostic diagnostic =
          user->emitError() << "uses function @" << function.getSymName()
                            << ", which must have a body; define it or link a file that does";
      diagnostic.attachNote(function.getLoc()) << "declared here";
      return diagnostic;
    }
  if (failed(calls.checkCycles()))
    return failure();
  // Check before any pass inlines functions.
  for (auto kernel : module.getOps<KernelOp>())
    if (failed(calls.checkSize(kernel)))
      return failure();
  return success();
}

struct TileLinkPass : tilewright::impl::TileLinkBase<TileLinkPass> {
  using TileLinkBase::source; // for setLinkSource
  using TileLinkBase::TileLinkBase;

  void runOnOperation() override {
    bool isLinked = !with.empty() || !getOperation().getOps<LinkOp>().empty();
    if (failed(linkLibraries(getOperation(), source, [](StringRef) { return false; })))
      return signalPassFailure();
    {
      std::vector<std::string> paths(with.begin(), with.end());
      Linker linker(getOperation());
      if (failed(linker.link(paths)) || failed(linker.noteReplaced()))
        return signalPassFailure();
    }
    expandFills(getOperation());
    // Now that every kernel is there whose arguments a launch names.
    if (failed(expandLaunches(getOperation())))
      return signalPassFailure();
    expandFormulas(getOperation());
    expandParts(getOperation());
    SymbolTableCollection symbols;
    if ((isLinked && (failed(verifyCallsOfScalars(getOperation(), symbols)) ||
                      failed(verify(getOperation())))) ||
        failed(checkCalls(getOperation())))
      signalPassFailure();
  }
};

} // namespace

void tilewright::setLinkSource(OpPassManager &manager, StringRef source) {
  for (Pass &pass : manager)
    if (auto *link = dyn_cast<TileLinkPass>(&pass); link && link->source.empty())
      link->source = source.str();
}
