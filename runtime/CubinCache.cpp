// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cache of machine code.

#include "runtime/CubinCache.h"

#include "runtime/Bundle.h"
#include "runtime/Checksum.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// The header of a file, before the code.
struct Header {
  char magic[8];
  uint32_t version, driverVersion;
  uint64_t ptxChecksum, ptxBytes;
  int32_t major, minor;
  uint64_t bytes, checksum;
};
static_assert(sizeof(Header) == 56, "no padding, which would be written uninitialized");

constexpr char magic[9] = "TWCUBIN\0";
constexpr uint32_t version = 1;

Header headerOf(const CubinKey &key, std::string_view cubin) {
  Header header = {};
  std::memcpy(header.magic, magic, 8);
  header.version = version;
  header.driverVersion = uint32_t(key.driverVersion);
  header.ptxChecksum = key.ptxChecksum;
  header.ptxBytes = key.ptxBytes;
  header.major = key.major;
  header.minor = key.minor;
  header.bytes = cubin.size();
  header.checksum = checksum(cubin.data(), cubin.size());
  return header;
}

} // namespace

CubinCache CubinCache::fromEnvironment() {
  if (const char *directory = std::getenv("TILEWRIGHT_CACHE_DIR"))
    return CubinCache(directory);
  const char *base = std::getenv("XDG_CACHE_HOME");
  if (base && *base == '/')
    return CubinCache(std::string(base) + "/tilewright");
  base = std::getenv("HOME");
  return CubinCache(base && *base ? std::string(base) + "/.cache/tilewright" : std::string());
}

std::string CubinCache::path(const CubinKey &key) const {
  char name[80];
  std::snprintf(name, sizeof(name), "/%016llx-sm_%d%d-%d.cubin",
                static_cast<unsigned long long>(key.ptxChecksum), key.major, key.minor,
                key.driverVersion);
  return directory + name;
}

Result<std::optional<std::string>> CubinCache::lookup(const CubinKey &key) const {
  std::string file = path(key);
  if (!isEnabled() || access(file.c_str(), F_OK) != 0)
    return std::optional<std::string>();
  auto bad = [&](const char *what) {
    return Status::failure(Code::Io, "cached code '" + file + "' " + what);
  };
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) // opening a pipe would wait for a writer
    return bad("is not a file");
  Result<std::string> bytes = readFile(file, std::string_view(magic, 8));
  if (!bytes)
    return bytes.status();
  Header header;
  if (bytes->size() < sizeof(header))
    return bad("is truncated");
  std::memcpy(&header, bytes->data(), sizeof(header));
  std::string_view cubin = std::string_view(*bytes).substr(sizeof(header));
  if (std::memcmp(header.magic, magic, 8) != 0)
    return bad("was not written by Tilewright");
  if (header.version != version)
    return bad("is of another version");
  if (cubin.size() < header.bytes)
    return bad("is truncated");
  if (cubin.size() > header.bytes || header.checksum != checksum(cubin.data(), cubin.size()))
    return bad("is corrupt");
  Header expected = headerOf(key, cubin);
  if (std::memcmp(&expected, &header, sizeof(header)) != 0)
    return bad("was made from other PTX, or for another architecture or driver");
  return std::optional<std::string>(std::string(cubin));
}

Status CubinCache::store(const CubinKey &key, std::string_view cubin) const {
  if (!isEnabled())
    return Status::success();
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return Status::failure(Code::Io,
                           "cannot make the cache '" + directory + "': " + error.message());
  Header header = headerOf(key, cubin);
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof(header));
  bytes.append(cubin);
  return writeFileAtomically(path(key), bytes);
}
