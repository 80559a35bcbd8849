// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-link: functions and captures of other files, and the checks of the calls between functions.

#include "dialect/Tile/Calls.h"
#include "dialect/Tile/TextInput.h"
#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

namespace tilewright {
#define GEN_PASS_DEF_TILELINK
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

//===----------------------------------------------------------------------===//
// Definitions of other files
//===----------------------------------------------------------------------===//

StringRef describeSymbol(Operation *op) {
  if (isa<func::FuncOp>(op))
    return "function";
  if (isa<CaptureOp>(op))
    return "capture";
  if (isa<KernelOp>(op))
    return "kernel";
  return isa<ProgramOp>(op) ? "program" : "symbol";
}

Type getSymbolType(Operation *op) {
  if (auto function = dyn_cast<func::FuncOp>(op))
    return function.getFunctionType();
  return cast<CaptureOp>(op).getType();
}

/// One says `!tile.param<X>` where the other names a float.
bool isParamAgainstFloat(Type a, Type b) {
  auto matches = [](Type param, Type concrete) {
    return isa<ParamType>(param) && isa<FloatType>(concrete) && !isa<ParamType>(concrete);
  };
  return matches(a, b) || matches(b, a);
}

bool typesMatch(Type a, Type b) {
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

/// What a kernel's file lets others replace: functions that say so, and those it leaves without a
/// body.
bool isReplaceable(Operation *op) {
  auto function = dyn_cast_or_null<func::FuncOp>(op);
  return function && (function.isDeclaration() || function->hasAttr(kReplaceableAttrName));
}

class Linker {
public:
  explicit Linker(ModuleOp module) : module(module), symbols(module) {
    for (Operation &op : *module.getBody()) {
      if (isReplaceable(&op))
        replaceable.push_back(SymbolTable::getSymbolName(&op));
      if (isa<SymbolOpInterface>(op))
        taken.insert(SymbolTable::getSymbolName(&op));
    }
  }

  LogicalResult link(ArrayRef<std::string> paths);

private:
  /// One file to be linked, and what its definitions are.
  struct File {
    StringRef path;
    OwningOpRef<ModuleOp> module;
    SmallVector<Operation *> replacements, helpers, captures;
  };

  OwningOpRef<ModuleOp> parse(StringRef path);
  LogicalResult classify(File &file);
  LogicalResult classify(Operation *op, File &file);
  LogicalResult checkUses(File &file);
  LogicalResult checkHelpers(File &file);
  LogicalResult renameHelpers(File &file);
  void move(File &file);

  ModuleOp module;
  SymbolTable symbols;
  SmallVector<StringAttr> replaceable; ///< of the module as it came
  llvm::DenseSet<StringAttr> taken;    ///< names that a helper may not have
  llvm::DenseMap<StringAttr, Operation *> linked; ///< replacements and captures of files
};

OwningOpRef<ModuleOp> Linker::parse(StringRef path) {
  Location loc = module.getLoc();
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status)) {
    emitError(loc) << "cannot read '" << path << "', which is to be linked: " << error.message();
    return nullptr;
  }
  // Follows symbolic links, so that a link to a directory is seen as one.
  if (status.type() != llvm::sys::fs::file_type::regular_file) {
    emitError(loc) << "a file to be linked must be a regular file, but got '" << path << "'";
    return nullptr;
  }
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(path);
  if (!buffer) {
    emitError(loc) << "cannot read '" << path
                   << "', which is to be linked: " << llvm::toString(buffer.takeError());
    return nullptr;
  }
  if (failed(checkText(*module.getContext(), **buffer)))
    return nullptr;
  auto sourceMgr = std::make_shared<llvm::SourceMgr>();
  sourceMgr->AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  // Not verified as a whole: a symbol that it uses may be in the module. Each operation is
  // verified by itself below, and everything together at the end.
  OwningOpRef<ModuleOp> file = parseSourceFile<ModuleOp>(
      sourceMgr, ParserConfig(module.getContext(), /*verifyAfterParse=*/false));
  if (!file)
    emitError(loc) << "cannot link '" << path << "', which is not a module";
  return file;
}

std::string listNames(ArrayRef<StringAttr> names) {
  auto spell = [](StringAttr name) { return "@" + name.str(); };
  return names.empty() ? "nothing" : llvm::join(llvm::map_range(names, spell), ", ");
}

LogicalResult Linker::classify(Operation *op, File &file) {
  if (isa<KernelOp, ProgramOp>(op))
    return op->emitError("a file to be linked must hold functions and captures only, but got ")
           << describeSymbol(op) << " @" << SymbolTable::getSymbolName(op).getValue()
           << "; compile that file by itself";
  if (!isa<func::FuncOp, CaptureOp>(op))
    return op->emitError("a file to be linked must hold functions and captures only, but got '")
           << op->getName() << "'";
  if (failed(verify(op)))
    return failure();

  StringAttr name = SymbolTable::getSymbolName(op);
  Operation *old = symbols.lookup(name);
  auto function = dyn_cast<func::FuncOp>(op);
  // A function that replaces nothing is the file's own, whatever the module calls by its name.
  if (function && !function.isDeclaration() && !isReplaceable(old)) {
    file.helpers.push_back(op);
    return success();
  }
  if (function && function.isDeclaration() && !old)
    return op->emitError("function @")
           << name.getValue()
           << " has no body, so the module must have it; define it in the file that uses it";
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
                        << (isReplaceable(old) ? "that it replaces, " : "of the module's, ")
                        << getSymbolType(old) << ", but got " << getSymbolType(op);
    diagnostic.attachNote(old->getLoc()) << "the module's @" << name.getValue();
    return diagnostic;
  }
  // What the file expects to find: a function without a body, and a capture that the module reads.
  if (function ? function.isDeclaration() : old != nullptr)
    return success();
  auto [entry, isFirst] = linked.try_emplace(name, op);
  if (!isFirst) {
    InFlightDiagnostic diagnostic = op->emitError()
                                    << describeSymbol(op) << " @" << name.getValue()
                                    << " must be linked from one file, but got a second definition";
    diagnostic.attachNote(entry->second->getLoc()) << "the first definition";
    return diagnostic;
  }
  (function ? file.replacements : file.captures).push_back(op);
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
  if (!file.replacements.empty())
    return success();
  return emitError(file.module->getLoc())
         << "a file to be linked must replace something, but '" << file.path << "' defines "
         << listNames(defined) << " and the module allows to replace " << listNames(replaceable);
}

/// Symbols that `op` mentions, each with the operation that does.
llvm::MapVector<StringAttr, Operation *> getUsedSymbols(Operation *op) {
  llvm::MapVector<StringAttr, Operation *> used;
  op->walk([&](Operation *user) {
    user->getAttrDictionary().walk([&](FlatSymbolRefAttr symbol) {
      used.insert({symbol.getAttr(), user});
    });
  });
  return used;
}

/// A name means what the file defines, else what the module does, never what another file does.
LogicalResult Linker::checkUses(File &file) {
  SymbolTable own(*file.module);
  for (Operation &op : *file.module->getBody())
    for (auto [name, user] : getUsedSymbols(&op))
      if (!own.lookup(name) && !symbols.lookup(name))
        return user->emitError() << "uses @" << name.getValue() << ", which neither '" << file.path
                                 << "' nor the module has; define it";
  return success();
}

/// A function that nothing reaches would be ignored: a misspelt name, or one that the module keeps.
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
             << " must replace a function or be called by one that does, but the module allows to "
                "replace "
             << listNames(replaceable) << "; rename it or leave it out";
  return success();
}

/// So that a helper meets no other function, whatever its name.
LogicalResult Linker::renameHelpers(File &file) {
  SymbolTable own(*file.module);
  for (Operation *helper : file.helpers) {
    StringAttr name = SymbolTable::getSymbolName(helper);
    StringAttr unique = name;
    for (unsigned i = 0; taken.contains(unique) || (unique != name && own.lookup(unique)); ++i)
      unique = StringAttr::get(name.getContext(), name.getValue() + "_" + llvm::Twine(i));
    if (unique != name && failed(own.rename(helper, unique)))
      return helper->emitError("function @")
             << name.getValue() << " must have a name that the module does not use; rename it";
    taken.insert(unique);
  }
  return success();
}

void Linker::move(File &file) {
  for (Operation *op : file.replacements) {
    Operation *old = symbols.lookup(SymbolTable::getSymbolName(op));
    op->remove();
    old->getBlock()->getOperations().insert(old->getIterator(), op);
    symbols.erase(old);
    symbols.insert(op);
  }
  for (Operation *op : llvm::concat<Operation *>(file.helpers, file.captures)) {
    op->remove();
    module.getBody()->push_front(op);
    symbols.insert(op);
  }
}

LogicalResult Linker::link(ArrayRef<std::string> paths) {
  std::vector<File> files;
  for (const std::string &path : paths) {
    File &file = files.emplace_back(File{path, parse(path), {}, {}, {}});
    if (!file.module || failed(classify(file)) || failed(checkUses(file)) ||
        failed(checkHelpers(file)))
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
  // Before any pass copies a function to where it is called.
  for (auto kernel : module.getOps<KernelOp>())
    if (failed(calls.checkSize(kernel)))
      return failure();
  return success();
}

struct TileLinkPass : tilewright::impl::TileLinkBase<TileLinkPass> {
  using TileLinkBase::TileLinkBase;

  void runOnOperation() override {
    {
      std::vector<std::string> paths(with.begin(), with.end());
      if (failed(Linker(getOperation()).link(paths)))
        return signalPassFailure();
    }
    if ((!with.empty() && failed(verify(getOperation()))) || failed(checkCalls(getOperation())))
      signalPassFailure();
  }
};

} // namespace
