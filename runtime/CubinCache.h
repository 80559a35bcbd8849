// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Machine code that the driver made of PTX, kept between processes.
//
// One file for each (PTX, architecture, driver version), written beside its place and renamed, with
// a checksum: a reader sees a whole file or none. What is damaged is compiled again; a folder that
// cannot be written is no error.

#ifndef TILEWRIGHT_RUNTIME_CUBINCACHE_H
#define TILEWRIGHT_RUNTIME_CUBINCACHE_H

#include "base/Support/Status.h"

#include <cstdint>
#include <string_view>

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
  explicit CubinCache(std::string directory) : directory(std::move(directory)) {}
  /// TILEWRIGHT_CACHE_DIR (empty: no cache), else tilewright in XDG_CACHE_HOME, else in ~/.cache.
  static CubinCache fromEnvironment();

  bool isEnabled() const { return !directory.empty(); }
  std::string path(const CubinKey &key) const;
  /// Nothing if there is no file; a failure if it is damaged or of another version.
  Result<std::optional<std::string>> lookup(const CubinKey &key) const;
  /// Creates the directory if it is missing.
  Status store(const CubinKey &key, std::string_view cubin) const;

private:
  std::string directory;
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_CUBINCACHE_H
