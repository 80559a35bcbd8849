// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading and writing files.

#include "base/Npy/Npy.h"
#include "base/Npy/NpyHeader.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

using namespace tilewright;

namespace {

constexpr std::string_view typeNames[] = {"f2", "f4", "f8", "i1", "i2", "i4",
                                          "i8", "u1", "u2", "u4", "u8", "b1"};
constexpr std::string_view magic("\x93NUMPY", 6);

/// Fills the buffer as far as there is data, and returns the number of bytes.
using Source = std::function<size_t(uint8_t *, size_t)>;

/// Up to `wanted` bytes. Memory grows with the data read, so a large size in a short file costs
/// nothing.
std::vector<uint8_t> readUpTo(const Source &source, size_t wanted) {
  constexpr size_t step = size_t(16) << 20;
  std::vector<uint8_t> bytes;
  while (bytes.size() < wanted) {
    size_t have = bytes.size(), ask = std::min(step, wanted - have);
    bytes.resize(have + ask);
    size_t got = source(bytes.data() + have, ask);
    bytes.resize(have + got);
    if (got < ask)
      break;
  }
  return bytes;
}

uint64_t littleEndian(const std::vector<uint8_t> &bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | bytes[i];
  return value;
}

void swapBytes(std::vector<uint8_t> &bytes, size_t width) {
  for (size_t i = 0; i + width <= bytes.size(); i += width)
    std::reverse(bytes.begin() + i, bytes.begin() + i + width);
}

/// The same elements with the last dimension contiguous.
std::vector<uint8_t> fromFortranOrder(const std::vector<uint8_t> &bytes,
                                      const std::vector<int64_t> &shape, size_t width) {
  std::vector<size_t> strides(shape.size());
  size_t stride = width;
  for (size_t d = 0; d < shape.size(); stride *= size_t(shape[d]), ++d)
    strides[d] = stride;
  std::vector<uint8_t> result(bytes.size());
  std::vector<int64_t> index(shape.size(), 0);
  size_t from = 0;
  for (size_t to = 0; to < result.size(); to += width) {
    std::memcpy(result.data() + to, bytes.data() + from, width);
    for (size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < shape[d])
        break;
      from -= strides[d] * size_t(shape[d]);
      index[d] = 0;
    }
  }
  return result;
}

Result<NpyHeader> readHeader(const Source &source) {
  std::vector<uint8_t> prefix = readUpTo(source, 8);
  if (prefix.size() < magic.size() || std::memcmp(prefix.data(), magic.data(), magic.size()) != 0)
    return Status::failure(
        "not an .npy file: it does not begin with \\x93NUMPY; write it by numpy.save");
  if (prefix.size() < 8)
    return Status::failure("the file ends before its version; write it again");
  unsigned major = prefix[6], minor = prefix[7];
  if (major < 1 || major > 3 || minor != 0)
    return Status::failure("the .npy version must be 1.0, 2.0 or 3.0, but got " +
                           std::to_string(major) + "." + std::to_string(minor));

  size_t lengthBytes = major == 1 ? 2 : 4;
  std::vector<uint8_t> lengthField = readUpTo(source, lengthBytes);
  if (lengthField.size() < lengthBytes)
    return Status::failure("the file ends before the length of its header; write it again");
  constexpr uint64_t maxHeader = 1 << 20;
  uint64_t headerLength = littleEndian(lengthField);
  if (headerLength > maxHeader)
    return Status::failure("the header must be at most " + std::to_string(maxHeader) +
                           " bytes long, but got " + std::to_string(headerLength));
  std::vector<uint8_t> headerBytes = readUpTo(source, headerLength);
  if (headerBytes.size() < headerLength)
    return Status::failure("the header is truncated: expected " + std::to_string(headerLength) +
                           " bytes but got " + std::to_string(headerBytes.size()));

  return parseNpyHeader({reinterpret_cast<const char *>(headerBytes.data()), headerBytes.size()});
}

Result<NpyArray> readFrom(const Source &source) {
  Result<NpyHeader> header = readHeader(source);
  if (!header)
    return header.status();
  size_t width = byteWidth(header->type);
  std::string described =
      "shape " + printNpyShape(header->shape) + " of " + std::string(npyTypeName(header->type));
  std::optional<int64_t> count = checkedNumElements(header->shape, int64_t(width));
  if (!count)
    return Status::failure("the data must have at most 2^63 - 1 bytes, but got " + described);

  size_t needed = size_t(*count) * width;
  NpyArray array;
  array.type = header->type;
  array.bytes = readUpTo(source, needed);
  if (array.bytes.size() < needed)
    return Status::failure("the data are truncated: " + described + " needs " +
                           std::to_string(needed) + " bytes but got " +
                           std::to_string(array.bytes.size()));
  uint8_t extra;
  if (source(&extra, 1) != 0)
    return Status::failure("the file must end after the " + std::to_string(needed) +
                           " bytes of the data, but got more after " + described);

  if (header->isBigEndian && width > 1)
    swapBytes(array.bytes, width);
  if (header->isFortranOrder && header->shape.size() > 1)
    array.bytes = fromFortranOrder(array.bytes, header->shape, width);
  if (array.type == NpyType::Bool)
    for (uint8_t &byte : array.bytes)
      byte = byte != 0;
  array.shape = std::move(header->shape);
  return array;
}

Result<NpyArray> withName(Result<NpyArray> array, const std::string &name) {
  if (array)
    return array;
  return Status::failure(name + ": " + array.message());
}

struct FileCloser {
  void operator()(std::FILE *file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

Source sourceOf(const File &file) {
  return [&](uint8_t *out, size_t wanted) { return std::fread(out, 1, wanted, file.get()); };
}

} // namespace

std::string_view tilewright::npyTypeName(NpyType type) { return typeNames[unsigned(type)]; }

size_t tilewright::byteWidth(NpyType type) { return size_t(npyTypeName(type)[1] - '0'); }

std::optional<int64_t> tilewright::checkedNumElements(const std::vector<int64_t> &shape,
                                                      int64_t elementBytes) {
  int64_t bytes = elementBytes, count = 1;
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes))
      return std::nullopt;
    count *= size;
  }
  return count;
}

int64_t NpyArray::numElements() const { return checkedNumElements(shape).value_or(0); }

Result<NpyArray> tilewright::parseNpy(const uint8_t *data, size_t size, const std::string &name) {
  Source source = [&](uint8_t *out, size_t wanted) {
    size_t got = std::min(wanted, size);
    if (got != 0)
      std::memcpy(out, data, got);
    data += got;
    size -= got;
    return got;
  };
  return withName(readFrom(source), name);
}

/// Opens a file to read. A FIFO would wait for a writer, and a device may never end.
static Status openRegular(const std::string &path, File &file) {
  int number = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (number < 0)
    return Status::failure(path + ": cannot be opened: " + std::strerror(errno));
  struct stat status = {};
  if (fstat(number, &status) == 0 && !S_ISREG(status.st_mode)) {
    ::close(number);
    const char *kind = S_ISFIFO(status.st_mode)  ? "a FIFO"
                       : S_ISDIR(status.st_mode) ? "a directory"
                                                 : "a device";
    return Status::failure(path + ": must be a regular file, but got " + kind +
                           "; write the array to a file first");
  }
  file.reset(::fdopen(number, "rb"));
  if (file)
    return Status::success();
  int error = errno;
  ::close(number);
  return Status::failure(path + ": cannot be opened: " + std::strerror(error));
}

Result<NpyArray> tilewright::readNpy(const std::string &path) {
  File file;
  if (Status opened = openRegular(path, file); !opened)
    return opened;
  // A sparse file may be larger than any memory.
  struct stat status = {};
  double memory = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  if (fstat(fileno(file.get()), &status) == 0 && double(status.st_size) > memory)
    return Status::failure(path + ": the file has " + std::to_string(status.st_size >> 20) +
                           " MiB, but this machine has " + std::to_string(uint64_t(memory) >> 20) +
                           " MiB of memory");
  errno = 0;
  Result<NpyArray> array = readFrom(sourceOf(file));
  if (std::ferror(file.get()))
    return Status::failure(path + ": cannot be read: " + std::strerror(errno));
  return withName(std::move(array), path);
}

Result<NpyKind> tilewright::inspectNpy(const std::string &path) {
  File file;
  if (Status opened = openRegular(path, file); !opened)
    return opened;
  errno = 0;
  Result<NpyHeader> header = readHeader(sourceOf(file));
  if (std::ferror(file.get()))
    return Status::failure(path + ": cannot be read: " + std::strerror(errno));
  if (!header)
    return Status::failure(path + ": " + header.message());
  return NpyKind{header->type, std::move(header->shape)};
}

Status tilewright::writeNpy(const std::string &path, const NpyArray &array) {
  std::optional<int64_t> count = checkedNumElements(array.shape, int64_t(byteWidth(array.type)));
  if (!count || size_t(*count) * byteWidth(array.type) != array.bytes.size())
    return Status::failure(path + ": the array must have the bytes of its shape " +
                           printNpyShape(array.shape) + ", but got " +
                           std::to_string(array.bytes.size()));

  // The data begin at a multiple of 64 bytes: magic, version, length, header, spaces, newline.
  std::string header = printNpyHeader(array.type, array.shape);
  size_t begin = magic.size() + 4;
  header.append(63 - (begin + header.size()) % 64, ' ');
  header += '\n';
  if (header.size() > 0xffff)
    return Status::failure(path + ": the header must have at most 65535 bytes, but got " +
                           std::to_string(header.size()) + ", for a shape of " +
                           std::to_string(array.shape.size()) + " dimensions");
  std::string prefix(magic);
  prefix += {'\x01', '\x00', char(header.size() & 0xff), char(header.size() >> 8)};
  prefix += header;

  std::FILE *file = std::fopen(path.c_str(), "wb");
  if (!file)
    return Status::failure(path + ": cannot be opened for writing: " + std::strerror(errno));
  errno = 0;
  bool isWritten = std::fwrite(prefix.data(), 1, prefix.size(), file) == prefix.size() &&
                   (array.bytes.empty() || std::fwrite(array.bytes.data(), 1, array.bytes.size(),
                                                       file) == array.bytes.size());
  int error = errno;
  if (std::fclose(file) != 0 && isWritten) {
    isWritten = false;
    error = errno;
  }
  if (!isWritten)
    return Status::failure(path + ": cannot be written: " + std::strerror(error));
  return Status::success();
}
