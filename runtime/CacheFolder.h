// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The folder of the caches: what the driver assembled (CubinCache.h), and what the compiler made
// (lib/Driver/BundleCache.h). Processes share it.
//
// A file is written under a temporary name and renamed, so a reader sees a whole file or none. A
// folder that other users may write is not used, since its contents are code.

#ifndef TILEWRIGHT_RUNTIME_CACHEFOLDER_H
#define TILEWRIGHT_RUNTIME_CACHEFOLDER_H

#include "base/Support/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright::runtime {

class CacheFolder {
public:
  /// An empty path disables the cache. `limit` bounds the bytes of all entries.
  explicit CacheFolder(std::string path, uint64_t limit = defaultLimit)
      : folder(std::move(path)), limit(limit) {}
  /// A folder that came with an application: it belongs to the user who installed that. Reading
  /// changes nothing there.
  static CacheFolder shipped(std::string path) {
    CacheFolder folder(std::move(path), UINT64_MAX);
    folder.isShipped = true;
    return folder;
  }
  /// TILEWRIGHT_CACHE_DIR (empty: no cache), else tilewright in XDG_CACHE_HOME, else in ~/.cache;
  /// TILEWRIGHT_CACHE_SIZE is the limit in MiB.
  static CacheFolder fromEnvironment();

  bool isEnabled() const { return !folder.empty(); }
  const std::string &path() const { return folder; }
  std::string path(const std::string &name) const { return folder + "/" + name; }
  uint64_t getLimit() const { return limit; }

  /// Why the folder is not used: it is no folder, belongs to another user, or others may write it.
  /// Success if it does not exist. Code::Io.
  Status check() const;
  /// The bytes of an entry, which counts as used now; nothing if there is none. If the file does
  /// not begin with `prefix`, only its beginning.
  Result<std::optional<std::string>> read(const std::string &name, std::string_view prefix) const;
  /// `name` is 40 hexadecimal digits and ".twb", or 16, "-sm_", anything, and ".cubin". Creates the
  /// folder, readable by the user only, if it is missing. If all entries together then
  /// exceed the limit, those that were used least recently are removed.
  Status write(const std::string &name, std::string_view bytes) const;

  struct Contents {
    uint64_t entries = 0, bytes = 0;
  };
  Contents list() const;
  /// Removes all entries, and leaves other files alone; returns what was removed.
  Contents clear() const;

  static constexpr uint64_t defaultLimit = uint64_t(1) << 30;

private:
  void trim() const;

  std::string folder;
  uint64_t limit;
  bool isShipped = false;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_CACHEFOLDER_H
