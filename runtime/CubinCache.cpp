// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The cache of machine code.

#include "runtime/CubinCache.h"

#include "runtime/Checksum.h"

#include <cstdio>
#include <cstring>
#include <tuple>

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
  auto fail = [&](const char *what, const std::string &wanted, const std::string &got) {
    return Status::failure(Code::Io, std::string("the cache must hold code with the ") + what +
                                         " " + wanted + ", but got " + got + " in '" + path(key) +
                                         "'; delete the file");
  };
  auto expect = [&](const char *what, uint64_t wanted, uint64_t got) {
    return wanted == got ? Status::success()
                         : fail(what, std::to_string(wanted), std::to_string(got));
  };
  Header header;
  if (bytes.size() < sizeof(header))
    return fail("number of bytes", "at least " + std::to_string(sizeof(header)),
                std::to_string(bytes.size()));
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::string_view cubin = std::string_view(bytes).substr(sizeof(header));
  if (std::memcmp(header.magic, magic, 8) != 0)
    return fail("beginning", std::string("'") + magic + "'",
                "'" + std::string(header.magic, strnlen(header.magic, 8)) + "'");
  if (Status status = expect("version", version, header.version); !status)
    return status;
  const Header expected = headerOf(key, cubin);
  const std::tuple<const char *, uint64_t, uint64_t> fields[] = {
      {"number of bytes", header.bytes, expected.bytes},
      {"checksum", header.checksum, expected.checksum},
      {"checksum of the PTX", expected.ptxChecksum, header.ptxChecksum},
      {"size of the PTX", expected.ptxBytes, header.ptxBytes},
      {"compute capability, times ten,", uint64_t(expected.major * 10 + expected.minor),
       uint64_t(header.major * 10 + header.minor)},
      {"version of the driver", expected.driverVersion, header.driverVersion},
  };
  for (const auto &[what, wanted, got] : fields)
    if (Status status = expect(what, wanted, got); !status)
      return status;
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
