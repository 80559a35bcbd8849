// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ReplayCorpus FOLDER: runs a fuzz target, without libFuzzer, on each file of its corpus. A target
// aborts if an invariant does not hold; the last printed name is the input. Fails if the folder has
// no file.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

/// A libFuzzer function for mutators, which a replay does not call.
extern "C" size_t LLVMFuzzerMutate(uint8_t *, size_t size, size_t) { return size; }

static int fail(const std::string &path, const char *reason) {
  std::fprintf(stderr, "%s: %s\n", path.c_str(), reason);
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 2)
    return fail(argv[0], "expected the folder of a corpus as the only argument");
  std::string folder = argv[1];
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator file(folder, error), end; file != end && !error;
       file.increment(error))
    paths.push_back(file->path().string());
  if (error)
    return fail(folder, error.message().c_str());
  if (paths.empty())
    return fail(folder, "the corpus must hold a file, but got an empty folder");
  std::sort(paths.begin(), paths.end());
  if (LLVMFuzzerInitialize)
    LLVMFuzzerInitialize(&argc, &argv);
  for (const std::string &path : paths) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
    std::ifstream stream(path, std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), {});
    if (!stream.good() && !stream.eof())
      return fail(path, "cannot be read");
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  }
  return 0;
}
