// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entries are the files whose names end as those of the caches do.

#include "runtime/CacheFolder.h"

#include "runtime/Bundle.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

struct File {
  std::string path;
  uint64_t bytes;
  timespec used;
  bool isTemporary;
};

/// Whether a file is an entry, or one that writeFileAtomically had begun. The names of entries
/// begin with a digest, so that a bundle or cubin of the user is none.
bool isEntry(std::string_view name, bool &isTemporary) {
  isTemporary = name.size() > 7 && name[name.size() - 7] == '.';
  if (isTemporary)
    name.remove_suffix(7);
  size_t digits = name.find_first_not_of("0123456789abcdef");
  if (digits == std::string_view::npos)
    return false;
  std::string_view rest = name.substr(digits);
  constexpr std::string_view ofBundle = ".twb", ofCode = ".cubin";
  if (digits == 40)
    return rest == ofBundle;
  return digits == 16 && rest.substr(0, 4) == "-sm_" && rest.size() > ofCode.size() &&
         rest.substr(rest.size() - ofCode.size()) == ofCode;
}

std::vector<File> listFiles(const std::string &folder) {
  std::vector<File> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    bool isTemporary = false;
    struct stat status;
    std::string path = it->path().string();
    if (isEntry(it->path().filename().string(), isTemporary) && lstat(path.c_str(), &status) == 0 &&
        S_ISREG(status.st_mode))
      files.push_back({path, uint64_t(status.st_size), status.st_mtim, isTemporary});
  }
  return files;
}

} // namespace

CacheFolder CacheFolder::fromEnvironment() {
  uint64_t limit = defaultLimit;
  if (const char *text = std::getenv("TILEWRIGHT_CACHE_SIZE")) {
    char *end = nullptr;
    unsigned long long mebibytes = std::strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && mebibytes <= UINT64_MAX >> 20)
      limit = uint64_t(mebibytes) << 20;
  }
  if (const char *directory = std::getenv("TILEWRIGHT_CACHE_DIR"))
    return CacheFolder(directory, limit);
  const char *base = std::getenv("XDG_CACHE_HOME");
  if (base && *base == '/')
    return CacheFolder(std::string(base) + "/tilewright", limit);
  base = std::getenv("HOME");
  return CacheFolder(base && *base ? std::string(base) + "/.cache/tilewright" : std::string(),
                     limit);
}

Status CacheFolder::check() const {
  struct stat status;
  if (!isEnabled() || isShipped || stat(folder.c_str(), &status) != 0)
    return Status::success();
  std::string cache = "the cache '" + folder;
  if (!S_ISDIR(status.st_mode))
    return Status::failure(Code::Io, cache + "' must be a folder, but is none");
  if (status.st_uid != geteuid() && status.st_uid != 0)
    return Status::failure(Code::Io, cache +
                                         "' must belong to root or to the user of the process, " +
                                         std::to_string(geteuid()) + ", but belongs to " +
                                         std::to_string(status.st_uid) +
                                         "; let TILEWRIGHT_CACHE_DIR name another folder");
  if (status.st_mode & (S_IWGRP | S_IWOTH)) {
    char mode[8];
    std::snprintf(mode, sizeof(mode), "%03o", unsigned(status.st_mode & 0777));
    return Status::failure(Code::Io, cache + "' must be writable by its owner only, but has mode " +
                                         mode + "; run chmod go-w on it");
  }
  return Status::success();
}

Result<std::optional<std::string>> CacheFolder::read(const std::string &name,
                                                     std::string_view prefix) const {
  std::string file = path(name);
  auto exists = [&] { return access(file.c_str(), F_OK) == 0; };
  if (!isEnabled() || !exists())
    return std::optional<std::string>();
  if (Status status = check(); !status)
    return status;
  // Another process may remove the entry at any time: then there is none.
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) { // opening a pipe would wait for a writer
    if (!exists())
      return std::optional<std::string>();
    return Status::failure(Code::Io,
                           "cached code '" + file + "' must be a regular file, but is none");
  }
  Result<std::string> bytes = readFile(file, prefix);
  if (!bytes && !exists())
    return std::optional<std::string>();
  if (!bytes)
    return bytes.status();
  if (!isShipped)
    (void)utimensat(AT_FDCWD, file.c_str(), nullptr, 0); // fails in a folder that is read-only
  return std::optional<std::string>(std::move(*bytes));
}

Status CacheFolder::write(const std::string &name, std::string_view bytes) const {
  if (!isEnabled())
    return Status::success();
  std::error_code error;
  std::filesystem::path whole(folder);
  if (whole.has_parent_path())
    std::filesystem::create_directories(whole.parent_path(), error);
  if (!error && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    error = std::error_code(errno, std::generic_category());
  if (!error && !std::filesystem::is_directory(whole, error) && !error)
    error = std::make_error_code(std::errc::not_a_directory);
  if (error)
    return Status::failure(Code::Io, "cannot make the cache '" + folder + "': " + error.message());
  if (Status status = check(); !status)
    return status;
  if (bytes.size() > limit)
    return Status::success();
  if (Status status = writeFileAtomically(path(name), bytes); !status)
    return status;
  trim();
  return Status::success();
}

void CacheFolder::trim() const {
  std::vector<File> files = listFiles(folder);
  uint64_t total = 0;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  constexpr time_t abandonedAfter = 3600; // seconds; a process ended while it wrote
  for (const File &file : files) {
    if (file.isTemporary && file.used.tv_sec + abandonedAfter < now.tv_sec)
      (void)unlink(file.path.c_str());
    else
      total += file.bytes;
  }
  if (total <= limit)
    return;
  std::sort(files.begin(), files.end(), [](const File &a, const File &b) {
    return std::make_pair(a.used.tv_sec, a.used.tv_nsec) <
           std::make_pair(b.used.tv_sec, b.used.tv_nsec);
  });
  // More than necessary, so that not every further entry removes one.
  for (const File &file : files) {
    if (total <= limit - limit / 4)
      break;
    // Another process may have removed it.
    if (!file.isTemporary && (unlink(file.path.c_str()) == 0 || errno == ENOENT))
      total -= file.bytes;
  }
}

CacheFolder::Contents CacheFolder::list() const {
  Contents contents;
  if (isEnabled())
    for (const File &file : listFiles(folder))
      if (!file.isTemporary) {
        ++contents.entries;
        contents.bytes += file.bytes;
      }
  return contents;
}

CacheFolder::Contents CacheFolder::clear() const {
  Contents removed;
  if (isEnabled())
    for (const File &file : listFiles(folder))
      if (unlink(file.path.c_str()) == 0 && !file.isTemporary) {
        ++removed.entries;
        removed.bytes += file.bytes;
      }
  return removed;
}
