// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cache of machine code.

#include "runtime/CubinCache.h"

#include "runtime/Checksum.h"

#include <cstdio>
#include <cstring>

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

/// The name of the file of an entry.
static std::string nameOf(const CubinKey &key) {
  char name[80];
  std::snprintf(name, sizeof(name), "%016llx-sm_%d%d-%d.cubin",
                static_cast<unsigned long long>(key.ptxChecksum), key.major, key.minor,
                key.driverVersion);
  return name;
}

std::string CubinCache::path(const CubinKey &key) const { return folder.path(nameOf(key)); }

Result<std::optional<std::string>> CubinCache::lookup(const CubinKey &key) const {
  Result<std::optional<std::string>> found = folder.read(nameOf(key), std::string_view(magic, 8));
  if (!found || !*found)
    return found;
  const std::string &bytes = **found;
  auto bad = [&](const char *what) {
    return Status::failure(Code::Io, "cached code '" + path(key) + "' " + what);
  };
  Header header;
  if (bytes.size() < sizeof(header))
    return bad("is truncated");
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::string_view cubin = std::string_view(bytes).substr(sizeof(header));
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
  Header header = headerOf(key, cubin);
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof(header));
  bytes.append(cubin);
  return folder.write(nameOf(key), bytes);
}
