// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: files of the cache of machine code. A file that differs from the stored file is
// rejected and replaced. A file with a correct header gives the code that follows it.
//
// The first byte says whether the rest is a file, or code to which a header with one changed byte
// is added.

#include "RuntimeFuzzing.h"

#include "runtime/CubinCache.h"

#include <filesystem>
#include <unistd.h>

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

/// In memory if the machine has a file system there, since there is one file for each input.
struct Directory {
  std::string path;
  Directory() : path(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") {
    path += "/tilewright-cache-fuzzer-XXXXXX";
    require(mkdtemp(path.data()) != nullptr);
  }
  ~Directory() { std::filesystem::remove_all(path); }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  if (size == 0)
    return 0;
  const CubinKey key{7, 9, 9, 0, 12040};
  static const Directory directory;
  CubinCache cache(directory.path);
  FuzzedDataProvider data(bytes + 1, size - 1);
  std::string file, code;
  if (bytes[0] % 2 == 0) {
    file = data.ConsumeRemainingBytesAsString();
  } else {
    auto place = data.ConsumeIntegralInRange<size_t>(0, 63);
    auto flip = data.ConsumeIntegral<uint8_t>();
    code = data.ConsumeRemainingBytesAsString();
    require(cache.store(key, code).ok());
    file = *readFile(cache.path(key));
    if (place < file.size())
      file[place] = char(uint8_t(file[place]) ^ flip);
  }
  require(writeFileAtomically(cache.path(key), file).ok());
  Result<std::optional<std::string>> found = cache.lookup(key);
  if (!found) {
    require(found.status().code() == Code::Io);
  } else {
    require(found->has_value());
    // Accepted code equals the code that would be stored.
    require(cache.store(key, **found).ok() && *readFile(cache.path(key)) == file);
  }
  return 0;
}
