// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libtilewright.so as an application sees it: its exported symbols, and that it works without a
// GPU.

#include "runtime/tilewright.h"

#include "gtest/gtest.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

struct Library {
  std::string path;
  std::vector<std::string> symbols; // symbols that it exports
};

/// The number of dynamic symbols, which is stored only in the hash table.
size_t countSymbols(const uint32_t *hash) {
  uint32_t numBuckets = hash[0], firstSymbol = hash[1], bloomWords = hash[2];
  const uint32_t *buckets = hash + 4 + bloomWords * (sizeof(ElfW(Addr)) / 4);
  const uint32_t *chains = buckets + numBuckets;
  uint32_t last = 0;
  for (uint32_t i = 0; i < numBuckets; ++i)
    last = std::max(last, buckets[i]);
  if (last < firstSymbol)
    return firstSymbol;
  while (!(chains[last - firstSymbol] & 1))
    ++last;
  return last + 1;
}

int readLibrary(dl_phdr_info *info, size_t, void *data) {
  auto *library = static_cast<Library *>(data);
  if (!std::strstr(info->dlpi_name, "libtilewright.so"))
    return 0;
  library->path = info->dlpi_name;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
      continue;
    const ElfW(Sym) *symbols = nullptr;
    const char *names = nullptr;
    const uint32_t *hash = nullptr;
    auto *entry = reinterpret_cast<const ElfW(Dyn) *>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_SYMTAB)
        symbols = reinterpret_cast<const ElfW(Sym) *>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_STRTAB)
        names = reinterpret_cast<const char *>(entry->d_un.d_ptr);
      if (entry->d_tag == DT_GNU_HASH)
        hash = reinterpret_cast<const uint32_t *>(entry->d_un.d_ptr);
    }
    if (!symbols || !names || !hash)
      continue;
    for (size_t s = 0, n = countSymbols(hash); s < n; ++s)
      if (symbols[s].st_shndx != SHN_UNDEF)
        library->symbols.push_back(names + symbols[s].st_name);
  }
  return 1;
}

TEST(RuntimeShared, ShowsItsInterfaceOnly) {
  ASSERT_STREQ(tilewright_last_error(), ""); // keeps the library linked
  Library library;
  dl_iterate_phdr(readLibrary, &library);
  ASSERT_FALSE(library.path.empty()) << "libtilewright.so is not loaded";
  EXPECT_EQ(library.symbols.size(), 68u);
  for (const std::string &symbol : library.symbols)
    EXPECT_EQ(symbol.find("tilewright_"), 0u) << symbol;
}

TEST(RuntimeShared, ReportsFailures) {
  tilewright_bundle *bundle = nullptr;
  EXPECT_EQ(tilewright_bundle_open("/nonexistent.twb", &bundle), TILEWRIGHT_IO);
  EXPECT_STREQ(tilewright_last_error(),
               "cannot open '/nonexistent.twb': No such file or directory");
  EXPECT_EQ(tilewright_bundle_load("nothing", 7, &bundle), TILEWRIGHT_BAD_BUNDLE);
  EXPECT_STREQ(tilewright_last_error(),
               "'bundle' is not a bundle of Tilewright; make one by tilewrightc --emit=bundle");
  EXPECT_EQ(bundle, nullptr);
}

} // namespace
