// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys and files of compiled bundles.

#include "lib/Driver/BundleCache.h"

#include "dialect/Tile/TextInput.h"
#include "lib/Codegen/CrashReproducer.h"
#include "lib/Codegen/Dump.h"
#include "lib/Driver/CommandLine.h"
#include "lib/Driver/Compiler.h"
#include "lib/Driver/GpuDevice.h"
#include "passes/Tile/LinkLibraries.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <elf.h>
#include <link.h>

using namespace tilewright;

//===----------------------------------------------------------------------===//
// The build of the compiler
//===----------------------------------------------------------------------===//

/// The build ids, which linkers compute from the contents, of the object that contains this
/// function and of LLVM's and MLIR's libraries. An object without one is identified by its file.
static std::string describeBuild() {
  struct Search {
    std::string text;
    uintptr_t self = reinterpret_cast<uintptr_t>(&describeBuild);
  } search;
  auto visit = [](dl_phdr_info *info, size_t, void *data) {
    Search &search = *static_cast<Search *>(data);
    llvm::StringRef name = info->dlpi_name ? info->dlpi_name : "";
    llvm::StringRef file = llvm::sys::path::filename(name);
    bool isWanted = file.starts_with("libLLVM") || file.starts_with("libMLIR");
    llvm::StringRef id;
    for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr) &part = info->dlpi_phdr[i];
      uintptr_t begin = info->dlpi_addr + part.p_vaddr;
      if (part.p_type == PT_LOAD)
        isWanted |= search.self >= begin && search.self < begin + part.p_memsz;
      if (part.p_type != PT_NOTE)
        continue;
      for (uintptr_t at = begin; at + sizeof(ElfW(Nhdr)) <= begin + part.p_memsz;) {
        const auto &note = *reinterpret_cast<const ElfW(Nhdr) *>(at);
        const char *owner = reinterpret_cast<const char *>(at + sizeof(note));
        const char *content = owner + llvm::alignTo(note.n_namesz, 4);
        if (note.n_type == NT_GNU_BUILD_ID &&
            llvm::StringRef(owner, note.n_namesz) == llvm::StringRef(ELF_NOTE_GNU "\0", 4))
          id = llvm::StringRef(content, note.n_descsz);
        at = reinterpret_cast<uintptr_t>(content) + llvm::alignTo(note.n_descsz, 4);
      }
    }
    if (!isWanted)
      return 0;
    search.text += llvm::toHex(id, /*LowerCase=*/true);
    if (llvm::sys::fs::file_status status;
        id.empty() &&
        !llvm::sys::fs::status(name.empty() ? llvm::StringRef("/proc/self/exe") : name, status)) {
      search.text += std::to_string(status.getSize()) + '@' +
                     std::to_string(status.getLastModificationTime().time_since_epoch().count());
    }
    search.text += ' ';
    return 0;
  };
  dl_iterate_phdr(visit, &search);
  return (getVersion() + " LLVM " LLVM_VERSION_STRING " " + search.text).str();
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

ContentKey::ContentKey() {
  static const std::string build = describeBuild();
  add(build);
}

void ContentKey::add(llvm::StringRef text) {
  hash.update(std::to_string(text.size()) + ':');
  hash.update(text);
}

void ContentKey::add(const GpuOptions &options) {
  add(options.target);
  add(options.warps);
  add(options.timelineWords);
  add(static_cast<int64_t>(options.schedule.size()));
  for (const std::string &entry : options.schedule)
    add(entry);
}

void ContentKey::add(const TilePipelineOptions &options) {
  add(options.entry);
  add(static_cast<int64_t>(options.params.size()));
  for (const auto &[name, value] : options.params) {
    add(name);
    add(value);
  }
  add(options.fastMath);
  add(options.keepDebug);
  add(options.exactLiterals);
  add(options.target);
  add(options.length);
  add(options.shared);
  add(options.sums);
}

bool ContentKey::addLinks(llvm::StringRef text, llvm::StringRef source) {
  // The texts of files of the compiler are part of its build. Every string that ends as the name of
  // a file is taken for a link: one that is none only adds a file too many. A string with an escape
  // might be any name.
  constexpr llvm::StringLiteral end = ".mlir\"";
  if (!text.contains("tile.link"))
    return true;
  if (text.contains('\\'))
    return false;
  for (size_t at = text.find(end); at != llvm::StringRef::npos; at = text.find(end, at + 1)) {
    llvm::StringRef name = text.take_front(at + end.size() - 1).rsplit('"').second;
    add(name);
    FileBeside beside = source.empty() ? FileBeside() : findBeside(source, name);
    if (beside.place == FileBeside::Place::Inside && visited.insert(beside.real).second &&
        !addFile(beside.path))
      return false;
  }
  return true;
}

bool ContentKey::addText(llvm::StringRef text, llvm::StringRef source) {
  add(text);
  return addLinks(text, source);
}

bool ContentKey::addFile(const std::string &path) {
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(path, status) ||
      status.type() != llvm::sys::fs::file_type::regular_file)
    return false;
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = readText(path);
  if (!buffer) {
    llvm::consumeError(buffer.takeError());
    return false;
  }
  return addText((*buffer)->getBuffer(), path);
}

void ContentKey::addAssembler() {
  std::string path = findAssembler();
  add(path);
  if (llvm::sys::fs::file_status status; !path.empty() && !llvm::sys::fs::status(path, status)) {
    add(static_cast<int64_t>(status.getSize()));
    add(static_cast<int64_t>(status.getLastModificationTime().time_since_epoch().count()));
  }
}

std::array<uint8_t, 32> ContentKey::get() { return hash.final(); }

std::optional<std::array<uint8_t, 32>>
tilewright::makeKey(llvm::MemoryBufferRef source, const BundleRequest &request, bool ofShipped) {
  if (request.report || isDumping() || wantsCrashReproducer())
    return std::nullopt;
  ContentKey key;
  // Diagnostics are not kept, so the folder of the file does not matter, but the manifest names it.
  key.add(llvm::sys::path::filename(source.getBufferIdentifier()));
  if (!key.addText(source.getBuffer(), request.options.source))
    return std::nullopt;
  key.add(request.options);
  for (const std::string &file : request.options.with)
    if (!key.addFile(file))
      return std::nullopt;
  std::string blocks = findBlocksFile(request.options.blocks);
  if (!blocks.empty() && !key.addFile(blocks))
    return std::nullopt;
  key.add(static_cast<int64_t>(request.kind));
  for (const std::string &target : request.targets)
    key.add(target);
  for (const BundleRequest::Params &variant : request.variants) {
    key.add("variant");
    for (const auto &[name, value] : variant) {
      key.add(name);
      key.add(value);
    }
  }
  key.add(request.gpu);
  key.add(request.ptx);
  key.add(request.scope.preferredOnly);
  if (request.device && ofShipped) {
    // Made for the default target and for exact ones; serves all devices that prefer the same.
    for (const Target &target : Target::all())
      if (request.device->mayUse(target) && (target.isExact || &target == &Target::getDefault()))
        key.add(target.name);
  } else if (request.device) {
    key.add(request.device->major);
    key.add(request.device->minor);
  }
  if (ofShipped) {
    key.add("shipped");
    return key.get();
  }
  key.add(request.scope.sharedLimit);
  if (request.scope.assemble)
    key.addAssembler();
  return key.get();
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// A file has a header, the key and the bundle.
static constexpr llvm::StringLiteral header = "TWCACHE1";

std::string BundleCache::nameOf(const std::array<uint8_t, 32> &key) {
  return llvm::toHex(key, /*LowerCase=*/true).substr(0, 40) + ".twb";
}

std::optional<std::string> BundleCache::find(const std::array<uint8_t, 32> &key) const {
  auto found = folder.read(nameOf(key), std::string_view(header.data(), header.size()));
  if (!found || !*found)
    return std::nullopt;
  llvm::StringRef bytes = **found;
  if (!bytes.consume_front(header) || !bytes.consume_front(llvm::toStringRef(key)))
    return std::nullopt;
  std::string bundle = bytes.str();
  if (!runtime::Bundle::fromBytes(bundle))
    return std::nullopt;
  return bundle;
}

Status BundleCache::store(const std::array<uint8_t, 32> &key, llvm::StringRef bundle) const {
  return folder.write(nameOf(key), (header + llvm::toStringRef(key) + bundle).str());
}

static llvm::Expected<std::string>
compileInNewContext(llvm::MemoryBufferRef source, const BundleRequest &request,
                    llvm::function_ref<void(mlir::Diagnostic &)> handler) {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  mlir::ScopedDiagnosticHandler collect(&context, [&](mlir::Diagnostic &diagnostic) {
    handler(diagnostic);
    return mlir::success();
  });
  return compileBundle(context, source, request);
}

llvm::Expected<std::string>
tilewright::compileOrFindBundle(llvm::MemoryBufferRef source, const BundleRequest &request,
                                llvm::StringRef shipped,
                                llvm::function_ref<void(mlir::Diagnostic &)> handler) {
  if (auto key = shipped.empty() ? std::nullopt : makeKey(source, request, /*ofShipped=*/true))
    if (auto found = BundleCache(runtime::CacheFolder::shipped(shipped.str())).find(*key))
      return std::move(*found);
  BundleCache cache = BundleCache::fromEnvironment();
  auto key = makeKey(source, request, /*ofShipped=*/false);
  if (key)
    if (auto found = cache.find(*key))
      return std::move(*found);
  llvm::Expected<std::string> bytes = compileInNewContext(source, request, handler);
  // Not if a file was edited meanwhile: the compiler read it after the key was made. A cache that
  // cannot be written is not an error.
  if (bytes && key && makeKey(source, request, /*ofShipped=*/false) == key)
    (void)cache.store(*key, *bytes);
  return bytes;
}

llvm::Expected<std::string>
tilewright::compileShippedBundle(llvm::MemoryBufferRef source, const BundleRequest &request,
                                 llvm::StringRef folder,
                                 llvm::function_ref<void(mlir::Diagnostic &)> handler) {
  auto key = makeKey(source, request, /*ofShipped=*/true);
  BundleRequest forAll = request;
  forAll.scope.sharedLimit = 0;
  llvm::Expected<std::string> bytes = compileInNewContext(source, forAll, handler);
  if (!bytes || !key)
    return bytes;
  if (Status status = BundleCache(runtime::CacheFolder::shipped(folder.str())).store(*key, *bytes);
      !status)
    return toError(status);
  return bytes;
}

llvm::Expected<std::shared_ptr<const runtime::Bundle>>
tilewright::compileOrFindEntry(mlir::Operation *entry, const GpuOptions &gpu, bool assemble) {
  // A timeline names lines of the source, which the text of the module does not have.
  if (isDumping() || wantsCrashReproducer() || gpu.timelineWords)
    return GpuOperation::compile(entry, gpu, assemble);
  std::string text;
  llvm::raw_string_ostream stream(text);
  entry->getParentOfType<mlir::ModuleOp>()->print(stream, mlir::OpPrintingFlags().useLocalScope());
  ContentKey content;
  content.add("bound");
  content.add(text);
  content.add(gpu);
  content.add(assemble);
  if (assemble)
    content.addAssembler();
  std::array<uint8_t, 32> key = content.get();
  BundleCache cache = BundleCache::fromEnvironment();
  if (Status status = cache.check(); !status)
    mlir::emitWarning(mlir::UnknownLoc::get(entry->getContext()))
        << status.message() << "; it is not used";
  if (auto found = cache.find(key)) {
    auto bundle = runtime::Bundle::fromBytes(std::move(*found), "the compiled module");
    if (bundle)
      return *bundle;
  }
  std::string bytes;
  auto bundle = GpuOperation::compile(entry, gpu, assemble, &bytes);
  if (bundle)
    (void)cache.store(key, bytes); // a cache that cannot be written is not an error
  return bundle;
}
