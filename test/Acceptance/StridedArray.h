// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays in the memory layouts that a caller may use: any strides, also negative ones; any position
// in a larger buffer; several arrays in one buffer; offsets beyond 32 bits. Bytes that belong to no
// element are poisoned, and so is every element without a value.

#ifndef TILEWRIGHT_TEST_ACCEPTANCE_STRIDEDARRAY_H
#define TILEWRIGHT_TEST_ACCEPTANCE_STRIDEDARRAY_H

#include "base/Numeric/ElementType.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tilewright::acceptance {

/// Memory for one or more arrays.
class Buffer {
public:
  /// From `trackedUpTo` bytes on, memory is mapped without being touched, and gaps are not checked.
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  uint8_t *data() const { return memory; }
  size_t size() const { return bytes; }
  /// Claims bytes for an element. False if they are out of bounds, or belong to another element.
  bool claim(int64_t offset, size_t n);
  /// The first modified byte outside elements, or -1.
  int64_t findWrittenGap() const;

  static constexpr uint8_t poison = 0xff;
  static constexpr size_t trackedUpTo = size_t(64) << 20;

private:
  uint8_t *memory = nullptr;
  size_t bytes;
  std::vector<char> claimed; ///< 1 for bytes that belong to elements; empty: not tracked
};

/// The memory layout of an array. Default: row-major, in its own buffer.
struct Layout {
  /// In elements; empty is row-major.
  std::vector<int64_t> strides;
  /// The buffer, and the position in it, in elements, of element 0; by default one that is just
  /// large enough, with poisoned margins.
  std::shared_ptr<Buffer> buffer;
  int64_t offset = 0;
};

class StridedArray {
public:
  /// Aborts the process for an invalid layout, which is an error of the test.
  StridedArray(ElementType type, std::vector<int64_t> shape, Layout layout = {});

  ElementType type() const { return elementType; }
  const std::vector<int64_t> &shape() const { return extents; }
  const std::vector<int64_t> &strides() const { return layout.strides; }
  Buffer &buffer() const { return *layout.buffer; }
  /// Element 0.
  uint8_t *data() const;
  int64_t size() const; ///< number of elements

  /// Poisons the elements.
  void clear();
  /// Elements in row-major order, of a float or an integer type.
  void write(const std::vector<double> &values);
  void write(const std::vector<int64_t> &values);
  std::vector<double> read() const; ///< the elements must be floats
  /// The bytes of the elements, in row-major order.
  std::vector<uint8_t> readBytes() const;

private:
  /// Calls body(index of the first element, its offset in elements, count) for every run of
  /// contiguous elements.
  template <typename Body> void forEachRun(Body body) const;

  ElementType elementType;
  std::vector<int64_t> extents;
  Layout layout;
};

/// Row-major strides of a shape.
std::vector<int64_t> rowMajor(const std::vector<int64_t> &shape);

} // namespace tilewright::acceptance

#endif // TILEWRIGHT_TEST_ACCEPTANCE_STRIDEDARRAY_H
