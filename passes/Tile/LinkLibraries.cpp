// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads every file once, however many files link it, so a definition has one origin. A name
// resolves to its file's definition, else to one in the files that its file links, else to the
// module's.

#include "passes/Tile/LinkLibraries.h"

#include "dialect/Tile/Suggest.h"
#include "dialect/Tile/TextInput.h"
#include "dialect/Tile/Tile.h"
#include "passes/Tile/LinkSymbols.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

OwningOpRef<ModuleOp> parse(std::unique_ptr<llvm::MemoryBuffer> buffer, MLIRContext *context) {
  if (failed(checkText(*context, *buffer)))
    return nullptr;
  std::string text = buffer->getBuffer().str();
  StringRef path = buffer->getBufferIdentifier();
  if (failed(addLinkedAliases(*context, text, path, path)))
    return nullptr;
  auto sourceMgr = std::make_shared<llvm::SourceMgr>();
  sourceMgr->AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, path), llvm::SMLoc());
  return parseSourceFile<ModuleOp>(sourceMgr, ParserConfig(context, /*verifyAfterParse=*/false));
}

struct Library {
  std::string path;              ///< as shown in diagnostics; empty for a module from memory
  std::optional<StringRef> text; ///< of a file embedded in the compiler
  OwningOpRef<ModuleOp> module;
  SmallVector<Library *> links;
  enum class State { New, Loading, Done } state = State::New;
};

/// The module or a library, with the files that it links.
struct Scope {
  ModuleOp module;
  ArrayRef<Library *> links;
};

class LibraryLinker {
public:
  LibraryLinker(ModuleOp module, StringRef source, llvm::function_ref<bool(StringRef)> isGiven)
      : root(module), symbols(module), isGiven(isGiven) {
    rootFile.path = source.str();
  }

  LogicalResult run();
  LogicalResult declare();

private:
  Library *find(LinkOp link, StringRef name, const Library &from);
  LogicalResult load(ModuleOp module, Library &file);
  LogicalResult rejectCycle(LinkOp link, Library *again);
  /// Resolves a name of the scope; null if no library defines it.
  FailureOr<Operation *> resolve(const Scope &scope, StringAttr name, Operation *user);
  LogicalResult take(const Scope &scope, Operation *user);
  LogicalResult add(Library *library, Operation *op, Operation *user);
  LogicalResult rejectCall(func::CallOp call);

  ModuleOp root;
  SymbolTable symbols;
  llvm::function_ref<bool(StringRef)> isGiven;
  Library rootFile; ///< the file of the module, and what it links
  llvm::StringMap<std::unique_ptr<Library>> libraries, embedded;
  SmallVector<Library *> loading;
  llvm::DenseMap<Operation *, Library *> origins;   ///< definition of a library -> its file
  llvm::DenseMap<StringAttr, Operation *> taken;    ///< name -> definition added to the module
  llvm::DenseMap<Operation *, Operation *> callers; ///< program of a library -> of the module
  llvm::DenseMap<Operation *, Operation *> places; ///< program -> after which its kernels are added
  SmallVector<std::pair<Library *, Operation *>> pending;
  SmallVector<Operation *> replaced; ///< declarations of the module
  Operation *last = nullptr;         ///< the operation added last
};

/// The file of the compiler's library whose name resembles that of another.
std::string suggestPath(StringRef path) {
  SmallVector<StringRef> stems, names(getLibraryNames());
  for (StringRef name : names)
    stems.push_back(llvm::sys::path::stem(name));
  StringRef similar = findSimilar(llvm::sys::path::stem(path), stems);
  for (auto [stem, name] : llvm::zip_equal(stems, names))
    if (!similar.empty() && stem == similar && name != path)
      return ("; did you mean '" + name + "'?").str();
  return "; correct the path";
}

/// The file that the tile.link of another names.
Library *LibraryLinker::find(LinkOp link, StringRef name, const Library &from) {
  bool isFile = !from.text && !from.path.empty();
  FileBeside beside = isFile ? findBeside(from.path, name) : FileBeside();
  if (beside.place == FileBeside::Place::Outside) {
    link.emitOpError() << "must name a file in the folder of this one or below, but got \"" << name
                       << "\", where a symbolic link leads to '" << beside.real
                       << "'; copy the file into the folder";
    return nullptr;
  }
  std::optional<StringRef> text;
  if (beside.place == FileBeside::Place::Absent) {
    StringRef folder = from.text ? StringRef(from.path).drop_front(embeddedFolder.size()) : "";
    llvm::SmallString<128> inner = llvm::sys::path::parent_path(folder);
    llvm::sys::path::append(inner, name);
    llvm::sys::path::remove_dots(inner);
    text = findLibraryText(inner);
    if (!text && from.path.empty()) {
      link.emitOpError() << "must name a file of the compiler's library, since the text was not "
                            "read from a file, but got \""
                         << name << "\"; correct the path, or compile a file";
      return nullptr;
    }
    if (!text) {
      link.emitOpError()
          << "must name a file in the folder of this one, or of the compiler's library, but got \""
          << name << "\", and there is no '"
          << (isFile ? beside.path : (embeddedFolder + inner).str()) << "'" << suggestPath(name);
      return nullptr;
    }
    beside.path = beside.real = (embeddedFolder + inner).str();
  }
  // A user's folder with the name of the embedded one is a different folder.
  std::unique_ptr<Library> &library = (text ? embedded : libraries)[beside.real];
  if (!library) {
    library = std::make_unique<Library>();
    library->path = beside.path;
    library->text = text;
  }
  return library.get();
}

LogicalResult LibraryLinker::rejectCycle(LinkOp link, Library *again) {
  InFlightDiagnostic error =
      link.emitOpError("must not make files link each other in a cycle, but got ");
  for (Library *library :
       ArrayRef(loading).drop_until([&](Library *each) { return each == again; }))
    error << "'" << library->path << "' -> ";
  return error << "'" << again->path << "'; move the shared definitions into a separate file";
}

LogicalResult LibraryLinker::load(ModuleOp module, Library &file) {
  SmallVector<std::pair<LinkOp, StringRef>> names;
  for (auto link : module.getOps<LinkOp>()) {
    if (failed(verify(link)))
      return failure();
    for (auto name : link.getFiles().getAsRange<StringAttr>())
      names.push_back({link, name.getValue()});
  }
  for (auto [link, name] : names) {
    Library *library = find(link, name, file);
    if (!library)
      return failure();
    if (llvm::is_contained(file.links, library))
      continue;
    file.links.push_back(library);
    if (library->state == Library::State::Loading)
      return rejectCycle(link, library);
    if (library->state == Library::State::Done)
      continue;
    library->state = Library::State::Loading;
    loading.push_back(library);
    if (library->text)
      library->module = parse(llvm::MemoryBuffer::getMemBufferCopy(*library->text, library->path),
                              root.getContext());
    else
      library->module = readModule(library->path, link->getLoc());
    if (!library->module)
      return failure();
    for (Operation &op : *library->module->getBody()) {
      if (!isa<func::FuncOp, CaptureOp, KernelOp, ProgramOp, LinkOp>(op))
        return op.emitError("a file that other files link must contain only functions, captures, "
                            "kernels and programs, "
                            "but got '")
               << op.getName() << "'; compile that file by itself";
      if (failed(verify(&op)))
        return failure();
      origins[&op] = library;
    }
    if (failed(load(*library->module, *library)))
      return failure();
    loading.pop_back();
    library->state = Library::State::Done;
  }
  return success();
}

bool isDefinition(Operation *op) {
  auto function = dyn_cast_or_null<func::FuncOp>(op);
  return op && (!function || !function.isDeclaration());
}

FailureOr<Operation *> LibraryLinker::resolve(const Scope &scope, StringAttr name,
                                              Operation *user) {
  auto lookup = [&](ModuleOp module) {
    Operation *op = SymbolTable::lookupSymbolIn(module, name);
    return isDefinition(op) ? op : nullptr;
  };
  Operation *own = scope.module == root ? symbols.lookup(name) : lookup(scope.module);
  if (isDefinition(own))
    return scope.module == root ? nullptr : own;
  Operation *found = nullptr;
  for (Library *library : scope.links) {
    Operation *op = lookup(*library->module);
    if (op && found) {
      InFlightDiagnostic error =
          user->emitError()
          << "uses @" << name.getValue()
          << ", which exactly one linked file must define, but two do; rename one";
      error.attachNote(found->getLoc()) << "the first definition";
      error.attachNote(op->getLoc()) << "the second definition";
      return error;
    }
    if (op)
      found = op;
  }
  return found;
}

/// Adds the definition to the module.
LogicalResult LibraryLinker::add(Library *library, Operation *op, Operation *user) {
  StringAttr name = SymbolTable::getSymbolName(op);
  auto [known, isNew] = taken.try_emplace(name, op);
  if (!isNew && known->second == op)
    return success();
  Operation *old = isNew ? symbols.lookup(name) : known->second;
  auto declaration = isNew ? dyn_cast_or_null<func::FuncOp>(old) : func::FuncOp();
  // What the library lets others replace, the module's file may define itself.
  if (declaration && !declaration.isDeclaration() && isReplaceable(op) &&
      getSymbolType(op) == getSymbolType(old))
    return success();
  bool isDeclared = declaration && declaration.isDeclaration() && isa<func::FuncOp>(op);
  if (old && !isDeclared) {
    InFlightDiagnostic error =
        op->emitError() << "@" << name.getValue()
                        << " must have a unique name, but is also defined elsewhere; rename one";
    error.attachNote(old->getLoc()) << "the other definition";
    error.attachNote(user->getLoc()) << "used here";
    return error;
  }
  if (isDeclared && declaration.getFunctionType() != cast<func::FuncOp>(op).getFunctionType()) {
    InFlightDiagnostic error = declaration.emitError()
                               << "function @" << name.getValue()
                               << " must be declared as the linked file defines it, "
                               << cast<func::FuncOp>(op).getFunctionType() << ", but got "
                               << declaration.getFunctionType() << "; correct the declaration";
    error.attachNote(op->getLoc()) << "the definition";
    return error;
  }
  if (isDeclared) {
    symbols.remove(old);
    replaced.push_back(old);
  }
  Operation *copy = op->clone();
  Block *body = root.getBody();
  Operation *program = user->getParentOfType<ProgramOp>();
  if (program && program->getBlock() != body)
    program = callers.lookup(program);
  if (isa<ProgramOp>(op))
    callers[op] = program;
  // A kernel follows the program that launches it, as in a file with both, or that calls the one
  // that does.
  if (isa<KernelOp>(op) && program) {
    Operation *&before = places.try_emplace(program, program).first->second;
    body->getOperations().insert(std::next(before->getIterator()), copy);
    before = copy;
  } else {
    body->getOperations().insert(last ? std::next(last->getIterator()) : body->begin(), copy);
    last = copy;
  }
  symbols.insert(copy);
  pending.push_back({library, op});
  return success();
}

using Mentions = SmallVector<std::pair<StringAttr, Operation *>>;

/// The symbols that an operation and those in it mention.
Mentions getMentions(Operation *user) {
  Mentions used;
  user->walk<WalkOrder::PreOrder>([&](Operation *op) {
    op->getAttrDictionary().walk(
        [&](FlatSymbolRefAttr symbol) { used.push_back({symbol.getAttr(), op}); });
  });
  return used;
}

/// Adds the library definitions that the operation mentions.
LogicalResult LibraryLinker::take(const Scope &scope, Operation *user) {
  Mentions used = getMentions(user);
  // A declaration also requires a definition.
  if (auto function = dyn_cast<func::FuncOp>(user); function && function.isDeclaration())
    used.push_back({function.getSymNameAttr(), user});
  for (auto [name, op] : used) {
    if (isGiven(name))
      continue;
    FailureOr<Operation *> found = resolve(scope, name, op);
    if (failed(found) || (*found && failed(add(origins.lookup(*found), *found, op))))
      return failure();
  }
  return success();
}

LogicalResult LibraryLinker::run() {
  if (failed(load(root, rootFile)))
    return failure();
  for (LinkOp link : llvm::make_early_inc_range(root.getOps<LinkOp>()))
    link.erase();
  SmallVector<Operation *> own;
  for (Operation &op : *root.getBody())
    own.push_back(&op);
  for (Operation *op : own)
    if (failed(take({root, rootFile.links}, op)))
      return failure();
  for (size_t i = 0; i < pending.size(); ++i) {
    auto [library, op] = pending[i];
    if (failed(take({*library->module, library->links}, op)))
      return failure();
  }
  for (Operation *op : replaced)
    op->erase();
  return success();
}

/// Whether the text of a file defines a function, rather than declares it.
bool definesFunction(StringRef text, StringRef name) {
  if (text.contains(("tile.function @" + name + "(").str()))
    return true;
  std::string begin = ("func.func private @" + name + "(").str();
  for (size_t at = 0; (at = text.find(begin, at)) != StringRef::npos; at += begin.size()) {
    StringRef rest = text.substr(at);
    if (rest.find("{\n") < std::min(rest.find("\n\n"), rest.find("\nfunc.func")))
      return true;
  }
  return false;
}

LogicalResult LibraryLinker::rejectCall(func::CallOp call) {
  StringRef name = call.getCallee(), nearest;
  auto failWith = [&](const Twine &remedy) -> LogicalResult {
    return call.emitError() << "calls @" << name
                            << ", which neither this file nor one that it links defines; "
                            << remedy;
  };
  for (StringRef library : getLibraryNames())
    if (definesFunction(*findLibraryText(library), name))
      return failWith("add tile.link \"" + library + "\"");
  constexpr unsigned mostEdits = 2;
  unsigned least = mostEdits + 1;
  auto compare = [&](ModuleOp module) {
    for (auto function : module.getOps<func::FuncOp>())
      if (unsigned edits = name.edit_distance(function.getSymName(), true, mostEdits);
          edits < least) {
        least = edits;
        nearest = function.getSymName();
      }
  };
  compare(root);
  for (Library *library : rootFile.links)
    compare(*library->module);
  return failWith(nearest.empty() ? "define it" : "did you mean @" + nearest + "?");
}

LogicalResult LibraryLinker::declare() {
  if (failed(load(root, rootFile)))
    return failure();
  bool isValid = true;
  for (auto [name, op] : getMentions(root)) {
    if (symbols.lookup(name))
      continue;
    FailureOr<Operation *> found = resolve({root, rootFile.links}, name, op);
    if (failed(found))
      return failure();
    if (auto function = dyn_cast_or_null<func::FuncOp>(*found)) {
      auto declaration =
          func::FuncOp::create(function.getLoc(), name.getValue(), function.getFunctionType());
      declaration.setPrivate();
      root.push_back(declaration);
      symbols.insert(declaration);
    } else if (auto call = dyn_cast<func::CallOp>(op); call && !*found) {
      (void)rejectCall(call);
      isValid = false;
    }
  }
  return success(isValid);
}

} // namespace

FileBeside tilewright::findBeside(StringRef source, StringRef name) {
  FileBeside result;
  llvm::SmallString<128> path = llvm::sys::path::parent_path(source), real, folder;
  std::error_code noFolder =
      llvm::sys::fs::real_path(path.empty() ? StringRef(".") : StringRef(path), folder);
  llvm::sys::path::append(path, name);
  llvm::sys::path::remove_dots(path);
  result.path = path.str().str();
  if (noFolder || llvm::sys::fs::real_path(path, real))
    return result;
  result.real = real.str().str();
  StringRef below = real;
  bool isInside = below.consume_front(folder) &&
                  (llvm::sys::path::is_separator(folder.back()) ||
                   (!below.empty() && llvm::sys::path::is_separator(below.front())));
  result.place = isInside ? FileBeside::Place::Inside : FileBeside::Place::Outside;
  return result;
}

OwningOpRef<ModuleOp> tilewright::readModule(StringRef path, Location loc) {
  llvm::sys::fs::file_status status;
  if (std::error_code error = llvm::sys::fs::status(path, status)) {
    emitError(loc) << "cannot read '" << path << "', which is to be linked: " << error.message();
    return nullptr;
  }
  // Follows symbolic links, so that a link to a directory is seen as one.
  if (status.type() != llvm::sys::fs::file_type::regular_file) {
    emitError(loc) << "a linked file must be a regular file, but got '" << path << "'";
    return nullptr;
  }
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(path);
  if (!buffer) {
    emitError(loc) << "cannot read '" << path
                   << "', which is to be linked: " << llvm::toString(buffer.takeError());
    return nullptr;
  }
  OwningOpRef<ModuleOp> module = parse(std::move(*buffer), loc.getContext());
  if (!module)
    emitError(loc) << "cannot link '" << path
                   << "', which is not a module; correct the errors above";
  return module;
}

LogicalResult tilewright::linkLibraries(ModuleOp module, StringRef source,
                                        llvm::function_ref<bool(StringRef)> isGiven) {
  if (module.getOps<LinkOp>().empty())
    return success();
  return LibraryLinker(module, source, isGiven).run();
}

LogicalResult tilewright::declareLinked(ModuleOp module, StringRef source) {
  if (!module.getBodyRegion().hasOneBlock())
    return success(); // which the verifier rejects
  llvm::DenseSet<StringAttr> known;
  for (Operation &op : *module.getBody())
    if (auto name = op.getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
      if (!known.insert(name).second)
        return success(); // as well
  if (llvm::all_of(getMentions(module), [&](auto each) { return known.contains(each.first); }))
    return success();
  for (Operation &op : *module.getBody())
    if (failed(verify(&op)))
      return failure();
  return LibraryLinker(module, source, [](StringRef) { return false; }).declare();
}
