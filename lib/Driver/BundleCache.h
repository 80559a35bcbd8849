// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What was compiled before, by content: in the user's cache (runtime/CacheFolder.h), and in a
// folder of bundles that came with the compiler.
//
// The name of an entry is a digest of everything that determines the code: the texts of the kernel
// and of all files that it links, parameters and options, targets, the build of the compiler, and
// ptxas.

#ifndef TILEWRIGHT_LIB_DRIVER_BUNDLECACHE_H
#define TILEWRIGHT_LIB_DRIVER_BUNDLECACHE_H

#include "lib/Driver/BundleRequest.h"
#include "runtime/CacheFolder.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SHA256.h"

#include <array>
#include <optional>

namespace tilewright {

/// A digest of texts and numbers, each of which is separated from the others.
class ContentKey {
public:
  ContentKey(); ///< of the build of the compiler
  void add(llvm::StringRef text);
  void add(int64_t number) { add(std::to_string(number)); }
  void add(const GpuOptions &options);
  void add(const TilePipelineOptions &options);
  /// The text of a file, and those of the files next to it that its tile.link name. False if a file
  /// cannot be read, or what it links cannot be told from its text.
  bool addFile(const std::string &path);
  /// The same for a text; `source` is as in TilePipelineOptions.
  bool addText(llvm::StringRef text, llvm::StringRef source);
  /// The path, size and time of ptxas, if there is one.
  void addAssembler();

  std::array<uint8_t, 32> get();

private:
  bool addLinks(llvm::StringRef text, llvm::StringRef source);

  llvm::SHA256 hash;
  llvm::StringSet<> visited;
};

/// The key of a request; with `ofShipped`, that of the bundles that came with the compiler, whose
/// code is that of some ptxas. None if the request has results other than a bundle, or if a file
/// cannot be read, which compiling reports.
std::optional<std::array<uint8_t, 32>> makeKey(llvm::MemoryBufferRef source,
                                               const BundleRequest &request, bool ofShipped);

class BundleCache {
public:
  explicit BundleCache(runtime::CacheFolder folder) : folder(std::move(folder)) {}
  static BundleCache fromEnvironment() {
    return BundleCache(runtime::CacheFolder::fromEnvironment());
  }

  /// Why the folder is not used, as of CacheFolder::check.
  Status check() const { return folder.check(); }
  /// The bytes of a bundle, which are checked as a reader of bundles does. An entry that is
  /// damaged, or of another key, does not exist.
  std::optional<std::string> find(const std::array<uint8_t, 32> &key) const;
  /// Code::Io.
  Status store(const std::array<uint8_t, 32> &key, llvm::StringRef bundle) const;
  /// The name of the file of an entry.
  static std::string nameOf(const std::array<uint8_t, 32> &key);

private:
  runtime::CacheFolder folder;
};

/// As compileBundle, in a context of its own, unless the result exists: in `shipped` (a folder;
/// empty: none), or in the user's cache, where it is kept otherwise. `handler` receives the
/// diagnostics of the compiler.
llvm::Expected<std::string>
compileOrFindBundle(llvm::MemoryBufferRef source, const BundleRequest &request,
                    llvm::StringRef shipped, llvm::function_ref<void(mlir::Diagnostic &)> handler);

/// As compileBundle, and writes the result to the folder, for compileOrFindBundle. The file depends
/// neither on this machine's ptxas nor on the folders of the kernel and of what it links. If the
/// request names a device, it serves all devices that prefer the same targets.
llvm::Expected<std::string>
compileShippedBundle(llvm::MemoryBufferRef source, const BundleRequest &request,
                     llvm::StringRef folder, llvm::function_ref<void(mlir::Diagnostic &)> handler);

/// The bundle of an entry that is bound already, from the user's cache, or compiled and kept there.
/// `assemble` is as in BundleScope. Errors: those of addToBundle.
llvm::Expected<std::shared_ptr<const runtime::Bundle>>
compileOrFindEntry(mlir::Operation *entry, const GpuOptions &gpu, bool assemble);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_BUNDLECACHE_H
