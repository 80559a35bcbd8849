// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A cache, on disk, of machine code that the driver compiled from PTX.
//
// One file for each (PTX, architecture, driver version), with a checksum. Damaged files are
// replaced; a folder that cannot be written is not an error.

#ifndef TILEWRIGHT_RUNTIME_CUBINCACHE_H
#define TILEWRIGHT_RUNTIME_CUBINCACHE_H

#include "runtime/CacheFolder.h"

namespace tilewright::runtime {

struct CubinKey {
  uint64_t ptxChecksum = 0;
  uint64_t ptxBytes = 0;
  int major = 0, minor = 0;
  int driverVersion = 0;
};

class CubinCache {
public:
  /// An empty directory disables the cache.
  explicit CubinCache(std::string directory) : folder(std::move(directory)) {}
  explicit CubinCache(CacheFolder folder) : folder(std::move(folder)) {}
  static CubinCache fromEnvironment() { return CubinCache(CacheFolder::fromEnvironment()); }

  bool isEnabled() const { return folder.isEnabled(); }
  std::string path(const CubinKey &key) const;
  /// Nothing if there is no file; a failure if it is damaged or of another version.
  Result<std::optional<std::string>> lookup(const CubinKey &key) const;
  Status store(const CubinKey &key, std::string_view cubin) const;

private:
  CacheFolder folder;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_CUBINCACHE_H
