// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-link: functions and captures of other files, and the checks of the calls between functions.

#include "dialect/Tile/TextInput.h"
#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
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

class Linker {
public:
  explicit Linker(ModuleOp module) : module(module), symbols(module) {
    for (Operation &op : *module.getBody())
      if (isa<func::FuncOp, CaptureOp>(op))
        replaceable.push_back(SymbolTable::getSymbolName(&op));
  }

  LogicalResult link(StringRef path);

private:
  OwningOpRef<ModuleOp> parse(StringRef path);
  LogicalResult linkSymbol(Operation *op, bool &replaces);

  ModuleOp module;
  SymbolTable symbols;
  SmallVector<StringAttr> replaceable; ///< of the module as it came
  llvm::StringMap<Operation *> linked; ///< what files have defined so far
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

LogicalResult Linker::linkSymbol(Operation *op, bool &replaces) {
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
  if (old && (!isa<func::FuncOp, CaptureOp>(old) || old->getName() != op->getName())) {
    InFlightDiagnostic diagnostic = op->emitError()
                                    << describeSymbol(op) << " @" << name.getValue()
                                    << " must replace a " << describeSymbol(op) << ", but got a "
                                    << describeSymbol(old) << "; rename it";
    diagnostic.attachNote(old->getLoc()) << "the module's @" << name.getValue();
    return diagnostic;
  }
  if (old && !typesMatch(getSymbolType(op), getSymbolType(old))) {
    InFlightDiagnostic diagnostic = op->emitError()
                                    << describeSymbol(op) << " @" << name.getValue()
                                    << " must have the type that it replaces, "
                                    << getSymbolType(old) << ", but got " << getSymbolType(op);
    diagnostic.attachNote(old->getLoc()) << "the module's @" << name.getValue();
    return diagnostic;
  }
  // A function without a body is what the file expects to find.
  auto function = dyn_cast<func::FuncOp>(op);
  if (function && function.isDeclaration() && old)
    return success();

  auto [entry, isFirst] = linked.try_emplace(name, nullptr);
  if (!isFirst) {
    InFlightDiagnostic diagnostic = op->emitError()
                                    << describeSymbol(op) << " @" << name.getValue()
                                    << " must be linked from one file, but got a second definition";
    diagnostic.attachNote(entry->second->getLoc()) << "the first definition";
    return diagnostic;
  }
  op->remove();
  if (old) {
    old->getBlock()->getOperations().insert(old->getIterator(), op);
    symbols.erase(old);
    replaces = true;
  } else {
    module.getBody()->push_front(op);
  }
  symbols.insert(op);
  entry->second = op;
  return success();
}

LogicalResult Linker::link(StringRef path) {
  OwningOpRef<ModuleOp> file = parse(path);
  if (!file)
    return failure();
  bool replaces = false;
  SmallVector<StringAttr> defined;
  for (Operation &op : llvm::make_early_inc_range(*file->getBody())) {
    if (failed(linkSymbol(&op, replaces)))
      return failure();
    defined.push_back(SymbolTable::getSymbolName(&op));
  }
  if (replaces)
    return success();
  auto list = [](ArrayRef<StringAttr> names) {
    return names.empty() ? std::string("nothing")
                         : llvm::join(llvm::map_range(
                                          names, [](StringAttr name) { return "@" + name.str(); }),
                                      ", ");
  };
  return emitError(file->getLoc())
         << "a file to be linked must replace something, but '" << path << "' defines "
         << list(defined) << " and the module allows to replace " << list(replaceable);
}

//===----------------------------------------------------------------------===//
// Calls between functions
//===----------------------------------------------------------------------===//

/// Functions that `op` mentions, each with the operation that does.
llvm::MapVector<func::FuncOp, Operation *> getUsedFunctions(Operation *op, SymbolTable &symbols) {
  llvm::MapVector<func::FuncOp, Operation *> used;
  op->walk([&](Operation *user) {
    user->getAttrDictionary().walk([&](FlatSymbolRefAttr symbol) {
      if (auto function = symbols.lookup<func::FuncOp>(symbol.getValue()))
        used.insert({function, user});
    });
  });
  return used;
}

LogicalResult checkCalls(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::DenseMap<func::FuncOp, llvm::MapVector<func::FuncOp, Operation *>> calls;
  for (Operation &op : *module.getBody()) {
    auto used = getUsedFunctions(&op, symbols);
    for (auto [function, user] : used) {
      if (!function.isDeclaration())
        continue;
      InFlightDiagnostic diagnostic =
          user->emitError() << "uses function @" << function.getSymName()
                            << ", which must have a body; define it or link a file that does";
      diagnostic.attachNote(function.getLoc()) << "declared here";
      return diagnostic;
    }
    if (auto function = dyn_cast<func::FuncOp>(op))
      calls[function] = std::move(used);
  }

  // Depth first, without recursion of our own: chains of calls may be long. `path` is the chain.
  llvm::DenseSet<func::FuncOp> done;
  for (auto root : module.getOps<func::FuncOp>()) {
    SmallVector<std::pair<func::FuncOp, unsigned>> path{{root, 0}};
    while (!path.empty()) {
      auto [function, next] = path.back();
      const auto &callees = calls[function];
      if (done.contains(function) || next == callees.size()) {
        done.insert(function);
        path.pop_back();
        continue;
      }
      ++path.back().second;
      func::FuncOp callee = (callees.begin() + next)->first;
      auto *start = llvm::find_if(path, [&](auto &step) { return step.first == callee; });
      if (start == path.end()) {
        path.push_back({callee, 0});
        continue;
      }
      std::string cycle;
      for (auto *step = start; step != path.end(); ++step)
        cycle += "@" + step->first.getSymName().str() + " -> ";
      return callee.emitError("a function must not be recursive, but got the cycle ")
             << cycle << '@' << callee.getSymName();
    }
  }
  return success();
}

struct TileLinkPass : tilewright::impl::TileLinkBase<TileLinkPass> {
  using TileLinkBase::TileLinkBase;

  void runOnOperation() override {
    {
      Linker linker(getOperation());
      for (const std::string &path : with)
        if (failed(linker.link(path)))
          return signalPassFailure();
    }
    if ((!with.empty() && failed(verify(getOperation()))) || failed(checkCalls(getOperation())))
      signalPassFailure();
  }
};

} // namespace
