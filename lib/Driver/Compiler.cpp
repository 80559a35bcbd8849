// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses a file, selects the entry, and runs the pipeline.

#include "lib/Driver/Compiler.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/TextInput.h"
#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExprCheck.h"
#include "lib/Bundle/ReachedSymbols.h"
#include "lib/Bundle/WrittenViews.h"
#include "lib/Codegen/CrashReproducer.h"
#include "lib/Codegen/Dump.h"
#include "passes/Pipelines/Pipelines.h"
#include "passes/Tile/LinkLibraries.h"
#include "passes/Tile/ProgramOfKernel.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace tilewright {

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {

Location startOf(MLIRContext &context, llvm::MemoryBufferRef buffer) {
  return FileLineColLoc::get(&context, buffer.getBufferIdentifier(), 1, 1);
}

} // namespace

OwningOpRef<ModuleOp> parseBuffer(MLIRContext &context, llvm::MemoryBufferRef buffer,
                                  llvm::StringRef source) {
  if (isBytecode(buffer)) {
    emitError(startOf(context, buffer), "expected the text of a module but got bytecode");
    return nullptr;
  }
  if (failed(checkText(context, buffer)))
    return nullptr;
  std::string text = buffer.getBuffer().str();
  if (failed(addLinkedAliases(context, text, buffer.getBufferIdentifier(), source)))
    return nullptr;
  // The parser reads one character past the end, and a reference does not guarantee a terminator.
  auto sourceMgr = std::make_shared<llvm::SourceMgr>();
  sourceMgr->AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(text, buffer.getBufferIdentifier()), llvm::SMLoc());
  // Functions of linked files need no declaration, which the verifier asks for.
  auto module =
      parseSourceFile<ModuleOp>(sourceMgr, ParserConfig(&context, /*verifyAfterParse=*/false));
  if (!module || failed(declareLinked(*module, source)))
    return nullptr;
  // In functions, too, where the verifier of the call would be the first to say it.
  SymbolTableCollection symbols;
  if (failed(tile::verifyCallsOfScalars(*module, symbols)) || failed(verify(*module)))
    return nullptr;
  return module;
}

//===----------------------------------------------------------------------===//
// Entries and their arguments
//===----------------------------------------------------------------------===//

Operation *findEntry(ModuleOp module, llvm::StringRef name) {
  if (!name.empty()) {
    Operation *op = findEntryByName(module, name);
    return isa_and_present<tile::KernelOp, tgpu::KernelOp, tile::ProgramOp>(op) ? op : nullptr;
  }
  llvm::DenseSet<mlir::StringAttr> launched;
  module.walk([&](tile::LaunchOp launch) { launched.insert(launch.getKernelAttr().getAttr()); });
  module.walk([&](tile::CallOp call) { launched.insert(call.getProgramAttr().getAttr()); });
  Operation *entry = nullptr;
  for (Operation &op : *module.getBody()) {
    if (!isa<tile::KernelOp, tgpu::KernelOp, tile::ProgramOp>(op) ||
        launched.contains(SymbolTable::getSymbolName(&op)))
      continue;
    if (entry)
      return nullptr;
    entry = &op;
  }
  return entry;
}

namespace {

template <typename... OpTys> std::string listSymbols(ModuleOp module) {
  llvm::SmallVector<llvm::StringRef> names;
  for (Operation &op : *module.getBody())
    if (isa<OpTys...>(op))
      names.push_back(SymbolTable::getSymbolName(&op));
  return llvm::join(names, ", ");
}

llvm::StringRef describe(EntryKind kind) {
  switch (kind) {
  case EntryKind::Kernel:
    return "kernel";
  case EntryKind::Program:
    return "program";
  case EntryKind::Any:
    break;
  }
  return "kernel or program";
}

} // namespace

Operation *chooseEntry(ModuleOp module, llvm::StringRef name, EntryKind kind,
                       llvm::MemoryBufferRef buffer) {
  std::string all = listSymbols<tile::KernelOp, tgpu::KernelOp, tile::ProgramOp>(module);
  Location location = startOf(*module.getContext(), buffer);
  if (all.empty()) {
    emitError(location, "expected a file with a kernel or a program, but there is none");
    return nullptr;
  }
  if (Operation *entry = findEntry(module, name)) {
    bool isProgram = isa<tile::ProgramOp>(entry);
    bool fits = kind == EntryKind::Any || isProgram == (kind == EntryKind::Program) ||
                entry->hasAttr(programOfKernelName);
    if (fits)
      return entry;
    EntryKind other = kind == EntryKind::Kernel ? EntryKind::Program : EntryKind::Kernel;
    emitError(entry->getLoc()) << "expected a " << describe(kind) << " but got '"
                               << SymbolTable::getSymbolName(entry).getValue() << "', a "
                               << describe(other) << "; select it with --" << describe(other);
    return nullptr;
  }
  if (!name.empty())
    emitError(location) << "there is no " << describe(kind) << " '" << name
                        << "'; the file has: " << all;
  else
    emitError(location) << "one of several entries must be selected with --kernel or "
                           "--program; the file has: "
                        << all;
  return nullptr;
}

namespace {

/// Captures are bound by name as arguments are, so the names must differ.
LogicalResult checkNames(Operation *entry) {
  llvm::SmallVector<ArgumentInfo> arguments = getArguments(entry);
  llvm::StringSet<> names;
  for (const ArgumentInfo &argument : arguments) {
    if (names.insert(argument.name).second)
      continue;
    Operation *capture = SymbolTable::lookupSymbolIn(entry->getParentOp(), argument.name);
    return emitError(capture ? capture->getLoc() : entry->getLoc())
           << "capture '" << argument.name << "' has the name of an argument of '"
           << SymbolTable::getSymbolName(entry).getValue() << "'; rename it";
  }
  return success();
}

/// An author derives defaults from the target by declaring `TARGET: enum in ["cpu", "sm_80"] =
/// "cpu"`. A target that is not in the list counts as the last of those whose code it runs. A
/// mapped kernel has no parameters.
void bindTarget(Operation *entry, TilePipelineOptions &options) {
  if (isa<tgpu::KernelOp>(entry))
    return;
  tile::ParamDeclAttr param = tile::Signature(entry).findParam("TARGET");
  if (!param || param.getKind() != tile::ParamKind::Enum || param.getDerived())
    return;
  auto isTarget = [](const auto &pair) { return pair.first == "TARGET"; };
  if (llvm::any_of(options.params, isTarget))
    return;
  std::vector<std::string_view> words{options.target};
  const Target *target = Target::find(options.target);
  for (const Target &older : llvm::reverse(Target::all()))
    if (target && older.runsOn(*target))
      words.push_back(older.name);
  for (std::string_view word : words) {
    auto value = tile::ExprAttr::getEnum(entry->getContext(), llvm::StringRef(word));
    if (llvm::is_contained(param.getAllowed(), value)) {
      options.params.emplace_back("TARGET", word);
      return;
    }
  }
}

template <typename EntryOp>
void appendArguments(EntryOp entry, llvm::SmallVectorImpl<ArgumentInfo> &arguments) {
  DictionaryAttr defaults = entry.getArgDefaultsAttr();
  for (auto [name, optional, value] :
       llvm::zip(entry.getArgNames(), entry.getArgOptional(), entry.getArgs()))
    arguments.push_back({cast<StringAttr>(name).str(), value.getType(), optional, false,
                         defaults ? defaults.get(cast<StringAttr>(name)) : Attribute(),
                         isa<tile::ViewType>(value.getType()) && isWritten(value)});
}

} // namespace

llvm::SmallVector<ArgumentInfo> getArguments(Operation *entry) {
  llvm::SmallVector<ArgumentInfo> arguments;
  if (auto kernel = dyn_cast<tile::KernelOp>(entry))
    appendArguments(kernel, arguments);
  else if (auto kernel = dyn_cast<tgpu::KernelOp>(entry))
    appendArguments(kernel, arguments);
  else
    appendArguments(cast<tile::ProgramOp>(entry), arguments);

  // Binding leaves the captures that the entry reached. Later passes may remove the last read of
  // one, which must not change the contract.
  auto module = entry->getParentOfType<ModuleOp>();
  bool isBound = entry->hasAttr("bindings");
  llvm::DenseSet<Operation *> reached;
  if (!isBound)
    collectReached(module, entry, reached);
  for (auto capture : module.getOps<tile::CaptureOp>())
    if (isBound || reached.contains(capture))
      arguments.push_back({capture.getSymName().str(), capture.getType(), false, true, nullptr});
  return arguments;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

std::string getLinkSource(llvm::StringRef file) { return file == "-" ? "" : file.str(); }

std::string findBlocksFile(llvm::StringRef given) {
  return given.empty() ? llvm::sys::Process::GetEnv("TILEWRIGHT_BLOCKS").value_or("") : given.str();
}

OwningOpRef<ModuleOp> compileBuffer(MLIRContext &context, llvm::MemoryBufferRef buffer,
                                    const TilePipelineOptions &options, EntryKind kind) {
  OwningOpRef<ModuleOp> module = parseBuffer(context, buffer, options.source);
  return module ? compileModule(std::move(module), buffer, options, kind) : nullptr;
}

OwningOpRef<ModuleOp> compileModule(OwningOpRef<ModuleOp> module, llvm::MemoryBufferRef buffer,
                                    const TilePipelineOptions &options, EntryKind kind) {
  Operation *entry = chooseEntry(*module, options.entry, kind, buffer);
  if (!entry)
    return nullptr;

  TilePipelineOptions bound = options;
  bound.entry = getEntryName(entry).str();
  bindTarget(entry, bound);
  bound.blocks = findBlocksFile(options.blocks);
  PassManager manager(module->getContext(), ModuleOp::getOperationName());
  dump("input.mlir", *module);
  dumpPasses(manager);
  reproduceCrashes(manager);
  buildTilePipeline(manager, bound);
  if (failed(manager.run(*module)))
    return nullptr;

  entry = findEntry(*module, bound.entry);
  if (!entry) {
    emitError(module->getLoc()) << "the pipeline removed '" << bound.entry << "'";
    return nullptr;
  }
  if (failed(checkNames(entry)))
    return nullptr;
  return module;
}

OwningOpRef<ModuleOp> compileFile(MLIRContext &context, llvm::StringRef file,
                                  const TilePipelineOptions &options) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(file);
  if (!buffer) {
    emitError(UnknownLoc::get(&context))
        << "cannot open '" << file << "': " << llvm::toString(buffer.takeError());
    return nullptr;
  }
  TilePipelineOptions sourced = options;
  sourced.source = getLinkSource(file);
  return compileBuffer(context, **buffer, sourced);
}

} // namespace tilewright
