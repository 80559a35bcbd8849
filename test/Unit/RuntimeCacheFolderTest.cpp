// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The folder that the caches share: who may write it, and how large it grows.

#include "runtime/CacheFolder.h"
#include "runtime/tilewright.h"

#include "gtest/gtest.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// The name of a file as the caches have it.
std::string entry(char c) {
  const char *digits = "0123456789abcdef";
  return std::string(40, digits[c % 16]) + ".twb";
}
const std::string cubin = "0123456789abcdef-sm_90-12040.cubin";

class CacheFolderTest : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/cache-folder-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root = pattern;
    path = root + "/parent/cache";
  }
  void TearDown() override {
    std::filesystem::remove_all(root);
    setenv("TILEWRIGHT_CACHE_DIR", "", 1);
    unsetenv("TILEWRIGHT_CACHE_SIZE");
  }
  mode_t mode(const std::string &file) const {
    struct stat status = {};
    EXPECT_EQ(stat(file.c_str(), &status), 0) << file;
    return status.st_mode & 0777;
  }
  /// Sets when an entry was used last, in seconds before now.
  void age(const std::string &name, time_t seconds) const {
    timespec times[2] = {};
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= seconds;
    times[1] = times[0];
    ASSERT_EQ(utimensat(AT_FDCWD, (path + "/" + name).c_str(), times, 0), 0);
  }
  std::string readBack(const CacheFolder &folder, const std::string &name) const {
    auto found = folder.read(name, "");
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found && *found ? **found : "(none)";
  }

  std::string root, path;
};

TEST_F(CacheFolderTest, KeepsAnEntry) {
  CacheFolder folder(path);
  EXPECT_EQ(readBack(folder, entry('x')), "(none)");
  ASSERT_TRUE(folder.write(entry('x'), "content").ok());
  EXPECT_EQ(readBack(folder, entry('x')), "content");
  EXPECT_EQ(mode(path), mode_t(0700));
  EXPECT_EQ(folder.list().entries, 1u);
  EXPECT_EQ(folder.list().bytes, 7u);
}

TEST_F(CacheFolderTest, AFolderThatOthersMayWriteIsNotUsed) {
  CacheFolder folder(path);
  ASSERT_TRUE(folder.write(entry('x'), "content").ok());
  for (mode_t each : {0720, 0702, 0777}) {
    ASSERT_EQ(chmod(path.c_str(), each), 0);
    Status status = folder.check();
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find("must be writable by its owner only, but has mode 7"),
              std::string::npos)
        << status.message();
    EXPECT_FALSE(folder.read(entry('x'), "").ok());
    EXPECT_FALSE(folder.write(entry('y'), "content").ok());
    EXPECT_FALSE(std::filesystem::exists(path + "/" + entry('y')));
  }
  // One that came with an application was written by who installed it.
  EXPECT_EQ(readBack(CacheFolder::shipped(path), entry('x')), "content");
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  EXPECT_EQ(readBack(folder, entry('x')), "content");
}

TEST_F(CacheFolderTest, AFolderOfAnotherUserIsNotUsed) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give a folder away";
  CacheFolder folder(path);
  ASSERT_TRUE(folder.write(entry('x'), "content").ok());
  ASSERT_EQ(chown(path.c_str(), 12345, 0), 0);
  EXPECT_NE(folder.check().message().find("but belongs to 12345"), std::string::npos);
  EXPECT_FALSE(folder.read(entry('x'), "").ok());
}

TEST_F(CacheFolderTest, AFileIsNoFolder) {
  std::filesystem::create_directories(root + "/parent");
  std::ofstream(path) << "text";
  EXPECT_NE(CacheFolder(path).check().message().find("must be a folder, but is none"),
            std::string::npos);
  EXPECT_FALSE(CacheFolder(path).write(entry('x'), "content").ok());
}

TEST_F(CacheFolderTest, AFolderIsNoEntry) {
  CacheFolder folder(path);
  std::filesystem::create_directories(folder.path(entry('x')));
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  auto found = folder.read(entry('x'), "");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.status().message().find("must be a regular file, but is none"), std::string::npos)
      << found.status().message();
}

TEST_F(CacheFolderTest, RemovesWhatWasUsedLeastRecently) {
  CacheFolder folder(path, /*limit=*/1000);
  const std::string content(300, 'x');
  for (const std::string &name : {entry('a'), cubin, entry('c')})
    ASSERT_TRUE(folder.write(name, content).ok());
  std::ofstream(path + "/notes.txt") << std::string(5000, 'x'); // not an entry
  age(entry('a'), 300);
  age(cubin, 200);
  age(entry('c'), 100);
  EXPECT_EQ(readBack(folder, entry('a')), content); // is used now
  ASSERT_TRUE(folder.write(entry('d'), content).ok());
  EXPECT_EQ(readBack(folder, entry('a')), content);
  EXPECT_EQ(readBack(folder, cubin), "(none)");
  EXPECT_EQ(readBack(folder, entry('c')), "(none)");
  EXPECT_EQ(readBack(folder, entry('d')), content);
  EXPECT_TRUE(std::filesystem::exists(path + "/notes.txt"));
  // What exceeds the limit by itself is not kept.
  ASSERT_TRUE(folder.write(entry('e'), std::string(1001, 'x')).ok());
  EXPECT_EQ(readBack(folder, entry('e')), "(none)");
  EXPECT_EQ(folder.list().entries, 2u);
}

TEST_F(CacheFolderTest, RemovesWhatAProcessLeftUnfinished) {
  CacheFolder folder(path);
  ASSERT_TRUE(folder.write(entry('a'), "content").ok());
  for (const std::string &name : {entry('b') + ".abcdef", entry('c') + ".abcdef"})
    std::ofstream(path + "/" + name) << "half";
  age(entry('b') + ".abcdef", 7200);
  EXPECT_EQ(folder.list().entries, 1u);
  ASSERT_TRUE(folder.write(entry('d'), "content").ok());
  EXPECT_FALSE(std::filesystem::exists(path + "/" + entry('b') + ".abcdef"));
  EXPECT_TRUE(std::filesystem::exists(path + "/" + entry('c') + ".abcdef")); // may still be written
}

TEST_F(CacheFolderTest, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      CacheFolder folder(path, /*limit=*/4000);
      for (int j = 0; j < 50; ++j) {
        std::string content(500, char('a' + (i + j) % 8)), name = entry(char('a' + j % 12));
        EXPECT_TRUE(folder.write(name, content).ok());
        auto found = folder.read(name, "");
        ASSERT_TRUE(found.ok());
        std::string whole = *found ? **found : std::string(500, 'a'); // of some thread, or none
        EXPECT_EQ(whole, std::string(500, whole.front()));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_LE(CacheFolder(path).list().bytes, 4000u);
}

TEST_F(CacheFolderTest, TheEnvironmentSetsItsLimit) {
  setenv("TILEWRIGHT_CACHE_DIR", path.c_str(), 1);
  EXPECT_EQ(CacheFolder::fromEnvironment().getLimit(), CacheFolder::defaultLimit);
  setenv("TILEWRIGHT_CACHE_SIZE", "3", 1);
  EXPECT_EQ(CacheFolder::fromEnvironment().getLimit(), uint64_t(3) << 20);
  for (const char *wrong : {"", "-1", "3 GB", "99999999999999999999"}) {
    setenv("TILEWRIGHT_CACHE_SIZE", wrong, 1);
    EXPECT_EQ(CacheFolder::fromEnvironment().getLimit(), CacheFolder::defaultLimit) << wrong;
  }
}

TEST_F(CacheFolderTest, TheCInterfaceShowsIt) {
  setenv("TILEWRIGHT_CACHE_DIR", path.c_str(), 1);
  setenv("TILEWRIGHT_CACHE_SIZE", "5", 1);
  ASSERT_TRUE(CacheFolder(path).write(entry('x'), "content").ok());
  tilewright_cache cache = {};
  EXPECT_EQ(tilewright_cache_query(nullptr), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_STREQ(tilewright_last_error(), "cache must be a valid pointer, but got null");
  EXPECT_EQ(tilewright_cache_clear(&cache), TILEWRIGHT_INVALID_ARGUMENT);
  EXPECT_STREQ(tilewright_last_error(), "struct_size of tilewright_cache must be at least 48, but "
                                        "got 0; set it to sizeof of the struct");
  cache.struct_size = sizeof(cache);
  ASSERT_EQ(tilewright_cache_query(&cache), TILEWRIGHT_OK);
  EXPECT_EQ(cache.folder, path);
  EXPECT_EQ(cache.unused, nullptr);
  EXPECT_EQ(cache.entries, 1u);
  EXPECT_EQ(cache.bytes, 7u);
  EXPECT_EQ(cache.limit_bytes, uint64_t(5) << 20);

  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  ASSERT_EQ(tilewright_cache_query(&cache), TILEWRIGHT_OK);
  ASSERT_NE(cache.unused, nullptr);
  EXPECT_NE(std::string(cache.unused).find("run chmod go-w"), std::string::npos);
  EXPECT_EQ(tilewright_cache_clear(&cache), TILEWRIGHT_IO);
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);

  for (const char *mine : {"notes.txt", "mine.twb", "kernel.cubin", "0123.twb"})
    std::ofstream(path + "/" + mine) << "mine";
  ASSERT_EQ(tilewright_cache_clear(&cache), TILEWRIGHT_OK);
  EXPECT_EQ(cache.entries, 0u);
  for (const char *mine : {"notes.txt", "mine.twb", "kernel.cubin", "0123.twb"})
    EXPECT_TRUE(std::filesystem::exists(path + "/" + mine)) << mine;

  setenv("TILEWRIGHT_CACHE_DIR", "", 1);
  ASSERT_EQ(tilewright_cache_query(&cache), TILEWRIGHT_OK);
  EXPECT_STREQ(cache.folder, "");
}

} // namespace
