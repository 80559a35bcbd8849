// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading and writing of bundles.

#include "runtime/Bundle.h"

#include "runtime/Checksum.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

constexpr char magic[] = "TWBUNDLE";
constexpr size_t headerBytes = 48, checkedFrom = 32;
constexpr size_t maxFileBytes = size_t(2) << 30;

void putNumber(std::string &out, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i)
    out += char(value >> (8 * i) & 0xff);
}

uint64_t getNumber(const std::string &in, size_t at, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i)
    value |= uint64_t(static_cast<unsigned char>(in[at + i])) << (8 * i);
  return value;
}

size_t alignBlob(size_t at) { return (at + 15) / 16 * 16; }

bool isNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%';
}

/// For PTX: after each ".entry", the name that follows.
std::vector<std::string_view> listPtxEntries(std::string_view ptx) {
  constexpr std::string_view word = ".entry";
  std::vector<std::string_view> entries;
  for (size_t at = ptx.find(word); at != std::string_view::npos; at = ptx.find(word, at)) {
    at += word.size();
    size_t begin = ptx.find_first_not_of(" \t\r\n", at);
    if (begin == std::string_view::npos)
      break;
    size_t end = begin;
    while (end < ptx.size() && isNameCharacter(ptx[end]))
      ++end;
    if (begin > at && end > begin)
      entries.push_back(ptx.substr(begin, end - begin));
  }
  return entries;
}

/// Removes the names that are entries of the code, in one pass, regardless of their number.
void removeEntries(CodeSpec::Kind kind, std::string_view code, std::set<std::string_view> &names) {
  if (kind == CodeSpec::Kind::Ptx) {
    for (std::string_view entry : listPtxEntries(code))
      names.erase(entry);
    return;
  }
  // The same comparison as hasCubinName: text between two NULs.
  size_t begin = code.find('\0');
  while (begin != std::string_view::npos && !names.empty()) {
    size_t end = code.find('\0', begin + 1);
    if (end != std::string_view::npos)
      names.erase(code.substr(begin + 1, end - begin - 1));
    begin = end;
  }
}

/// Whether a string table of the cubin contains the name.
bool hasCubinName(std::string_view cubin, const std::string &name) {
  std::string word = '\0' + name + '\0';
  return cubin.find(word) != std::string_view::npos;
}

} // namespace

Result<std::string> tilewright::runtime::readFile(const std::string &path,
                                                  std::string_view prefix) {
  errno = 0;
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    return Status::failure(Code::Io, "cannot open '" + path + "': " + std::strerror(errno));
  std::string bytes;
  char buffer[1 << 16];
  struct stat status = {};
  bool isTooLarge = fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode) &&
                    uint64_t(status.st_size) > maxFileBytes;
  bool isWanted = !isTooLarge;
  while (isWanted && bytes.size() <= maxFileBytes) {
    size_t n = std::fread(buffer, 1, sizeof(buffer), file);
    if (n == 0)
      break;
    bytes.append(buffer, n);
    isWanted = std::string_view(bytes).substr(0, prefix.size()) == prefix;
  }
  int error = std::ferror(file) ? errno : 0;
  std::fclose(file);
  if (isTooLarge || bytes.size() > maxFileBytes)
    return Status::failure(Code::Io, "'" + path + "' must have at most 2 GiB, but has more");
  if (error)
    return Status::failure(Code::Io, "cannot read '" + path + "': " + std::strerror(error));
  return bytes;
}

Status tilewright::runtime::writeFileAtomically(const std::string &path, std::string_view bytes) {
  std::string scratch = path + ".XXXXXX";
  int descriptor = mkstemp(scratch.data());
  if (descriptor < 0)
    return Status::failure(Code::Io, "cannot create '" + path + "': " + std::strerror(errno));
  auto fail = [&] {
    int error = errno;
    unlink(scratch.c_str());
    return Status::failure(Code::Io, "cannot write '" + path + "': " + std::strerror(error));
  };
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0) {
      close(descriptor);
      return fail();
    }
    done += size_t(n);
  }
  fchmod(descriptor, 0644); // mkstemp makes the file unreadable for other users
  if (close(descriptor) != 0)
    return fail();
  if (std::rename(scratch.c_str(), path.c_str()) != 0)
    return fail();
  return Status::success();
}

Status tilewright::runtime::checkEntry(const KernelSpec &kernel, CodeSpec::Kind kind,
                                       std::string_view code) {
  std::string found; // empty for a cubin, whose names are not listed
  size_t numFound = 0;
  if (kind == CodeSpec::Kind::Cubin) {
    if (hasCubinName(code, kernel.entry))
      return Status::success();
  } else {
    for (std::string_view entry : listPtxEntries(code)) {
      if (entry == kernel.entry)
        return Status::success();
      if (numFound++ < 8)
        found += (found.empty() ? "" : ", ") + std::string(entry);
    }
    if (numFound > 8)
      found += " and " + std::to_string(numFound - 8) + " more";
    found = found.empty() ? "none" : found;
  }
  return Status::failure(Code::BadBundle,
                         "must have the entry '" + kernel.entry + "' of kernel '" + kernel.name +
                             "' in its code, but " +
                             (found.empty() ? "has none of this name" : "got " + found));
}

Result<std::shared_ptr<const Bundle>> Bundle::open(const std::string &path) {
  Result<std::string> bytes = readFile(path, magic);
  if (!bytes)
    return bytes.status();
  return fromBytes(std::move(*bytes), path);
}

Result<std::shared_ptr<const Bundle>> Bundle::fromBytes(std::string bytes,
                                                        const std::string &name) {
  auto bad = [&](const std::string &what) {
    return Status::failure(Code::BadBundle, "'" + name + "' " + what);
  };
  if (bytes.compare(0, 8, magic) != 0)
    return bad("is not a bundle of Tilewright; make one by tilewrightc --emit=bundle");
  if (bytes.size() < headerBytes)
    return bad("is truncated: it must have a header of " + std::to_string(headerBytes) +
               " bytes, but has " + std::to_string(bytes.size()));
  uint64_t version = getNumber(bytes, 8, 4), total = getNumber(bytes, 16, 8);
  if (version != bundleVersion)
    return bad("is a bundle of version " + std::to_string(version) + ", but this runtime reads " +
               std::to_string(bundleVersion) + "; compile it again");
  if (getNumber(bytes, 12, 4) != 0)
    return bad("is corrupt: its header must be zero at offset 12, but got " +
               std::to_string(getNumber(bytes, 12, 4)));
  if (bytes.size() < total)
    return bad("is truncated: it must have " + std::to_string(total) + " bytes, but has " +
               std::to_string(bytes.size()));
  if (bytes.size() > total)
    return bad("is corrupt: it must have " + std::to_string(total) + " bytes, but has " +
               std::to_string(bytes.size()));
  if (checksum(bytes.data() + checkedFrom, bytes.size() - checkedFrom) != getNumber(bytes, 24, 8))
    return bad("is corrupt: its checksum must be " + std::to_string(getNumber(bytes, 24, 8)) +
               ", but got " +
               std::to_string(checksum(bytes.data() + checkedFrom, bytes.size() - checkedFrom)) +
               "; copy the file or compile the bundle again");

  std::shared_ptr<Bundle> bundle(new Bundle);
  bundle->fileName = name;
  bundle->bytes = std::move(bytes);
  const std::string &file = bundle->bytes;
  uint64_t manifestBytes = getNumber(file, 32, 8), numBlobs = getNumber(file, 40, 4);
  uint64_t at = headerBytes + 8 * numBlobs;
  if (at > total || manifestBytes > total - at)
    return bad("is corrupt: its manifest must end in the " + std::to_string(total) +
               " bytes of the file, but got " + std::to_string(manifestBytes) +
               " bytes from offset " + std::to_string(at));
  std::string_view manifest = std::string_view(file).substr(at, manifestBytes);
  at += manifestBytes;
  for (uint64_t i = 0; i < numBlobs; ++i) {
    uint64_t size = getNumber(file, headerBytes + 8 * i, 8);
    at = alignBlob(at);
    if (at > total || size > total - at)
      return bad("is corrupt: blob " + std::to_string(i) + " must end in the " +
                 std::to_string(total) + " bytes of the file, but got " + std::to_string(size) +
                 " bytes from offset " + std::to_string(at));
    bundle->blobs.push_back(std::string_view(file).substr(at, size));
    at += size;
  }
  Result<Json> json = Json::parse(manifest);
  if (!json)
    return bad("has a bad manifest: " + json.status().message());
  Result<Manifest> content = Manifest::fromJson(*json);
  if (!content)
    return bad("has a bad manifest: " + content.status().message());
  bundle->content = std::move(*content);
  if (Status status = bundle->content.finalize(numBlobs); !status)
    return bad("has a bad manifest: " + status.message());
  std::map<std::pair<size_t, CodeSpec::Kind>, std::set<std::string_view>> missing;
  for (const KernelSpec &kernel : bundle->content.kernels)
    for (const CodeSpec &code : kernel.codes)
      missing[{code.blob, code.kind}].insert(kernel.entry);
  for (auto &[code, names] : missing)
    removeEntries(code.second, bundle->blobs[code.first], names);
  for (const KernelSpec &kernel : bundle->content.kernels)
    for (const CodeSpec &code : kernel.codes) {
      std::string_view blob = bundle->blobs[code.blob];
      if (code.kind == CodeSpec::Kind::Ptx && (blob.empty() || blob.back() != '\0'))
        return bad("is corrupt: the PTX of kernel '" + kernel.name + "' must end with a NUL, but " +
                   (blob.empty() ? "is empty"
                                 : "got byte " + std::to_string(unsigned(uint8_t(blob.back())))));
      if (missing[{code.blob, code.kind}].count(kernel.entry))
        if (Status status = checkEntry(kernel, code.kind, blob); !status)
          return bad(status.message());
    }
  return std::shared_ptr<const Bundle>(std::move(bundle));
}

std::string Bundle::compileCommand(const std::string &entry, const Params &params,
                                   const std::string &arch) const {
  auto isNamed = [&](const auto &spec) { return spec.name == entry; };
  // A program that launches a kernel of its name was made of the kernel.
  bool isProgram = std::any_of(content.programs.begin(), content.programs.end(), isNamed) &&
                   std::none_of(content.kernels.begin(), content.kernels.end(), isNamed);
  std::string command = "tilewrightc " + (content.source.empty() ? "FILE" : content.source) +
                        (isProgram ? " --program=" : " --kernel=") + entry;
  for (const auto &param : params) {
    std::string value = param.second.toString();
    if (value.size() > 1 && value.front() == '"')
      value = value.substr(1, value.size() - 2);
    command += " --param=" + param.first + "=" + value;
  }
  return command + (arch.empty() ? "" : " --target=" + arch) + " --emit=bundle -o FILE";
}

size_t BundleWriter::addBlob(std::string blob) {
  for (size_t i = 0; i < blobs.size(); ++i)
    if (blobs[i] == blob)
      return i;
  blobs.push_back(std::move(blob));
  return blobs.size() - 1;
}

Status BundleWriter::check() const {
  Manifest checked = manifest; // finalize modifies it
  return checked.finalize(blobs.size());
}

Result<std::string> BundleWriter::bytes() const {
  if (Status status = check(); !status)
    return status;
  std::string text = manifest.toJson().write();
  std::string body;
  putNumber(body, text.size(), 8);
  putNumber(body, blobs.size(), 4);
  putNumber(body, 0, 4);
  for (const std::string &blob : blobs)
    putNumber(body, blob.size(), 8);
  body += text;
  for (const std::string &blob : blobs) {
    body.resize(alignBlob(checkedFrom + body.size()) - checkedFrom, '\0');
    body += blob;
  }
  std::string file(magic, 8);
  putNumber(file, bundleVersion, 4);
  putNumber(file, 0, 4);
  putNumber(file, checkedFrom + body.size(), 8);
  putNumber(file, checksum(body.data(), body.size()), 8);
  return file + body;
}

Status BundleWriter::write(const std::string &path) const {
  Result<std::string> file = bytes();
  if (!file)
    return file.status();
  return writeFileAtomically(path, *file);
}
