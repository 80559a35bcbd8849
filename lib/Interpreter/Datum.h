// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The run-time values of a compiled kernel: scalars, tiles and views.
//
// A scalar is a splat, a value with equal elements. So scalar code and a scalar function applied to
// whole tiles (tile.map) use the same steps, on values of different sizes.

#ifndef TILEWRIGHT_LIB_INTERPRETER_DATUM_H
#define TILEWRIGHT_LIB_INTERPRETER_DATUM_H

#include "base/Numeric/Elementwise.h"
#include "base/Numeric/Transfer.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <utility>
#include <vector>

namespace tilewright::interpreter {

/// One element of any storage.
union Scalar {
  int64_t i64 = 0;
  double f64;
  float f32;
  int32_t i32;
  uint8_t i1;

  static Scalar fromInt(int64_t value, Storage storage);
  static Scalar fromFloat(double value, Storage storage);
  int64_t toInt(Storage storage) const;
};

class BufferPool;

/// Memory for the elements of tiles, which follow the header.
struct alignas(64) Buffer {
  BufferPool *pool;
  Buffer *next;
  uint32_t references;
  uint32_t sizeClass;

  void *data() { return this + 1; }
};

/// The buffers of one thread. The last released buffer is the first reused, while it is in the
/// cache; a loop allocates only in its first iteration.
class BufferPool {
public:
  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool &) = delete;
  BufferPool &operator=(const BufferPool &) = delete;

  /// A buffer of at least this many bytes, with no references yet.
  Buffer *allocate(size_t bytes);
  void release(Buffer *buffer);

private:
  static constexpr unsigned numSizeClasses = 40;
  Buffer *free[numSizeClasses] = {};
  unsigned allocations = 0;
  llvm::SmallVector<void *, 0> blocks;
};

/// A reference to a buffer. Counts are not atomic: a buffer never leaves its thread.
class BufferRef {
public:
  BufferRef() = default;
  explicit BufferRef(Buffer *buffer) : buffer(buffer) {
    if (buffer)
      ++buffer->references;
  }
  BufferRef(const BufferRef &other) : BufferRef(other.buffer) {}
  BufferRef(BufferRef &&other) noexcept : buffer(std::exchange(other.buffer, nullptr)) {}
  BufferRef &operator=(BufferRef other) noexcept {
    std::swap(buffer, other.buffer);
    return *this;
  }
  ~BufferRef() {
    if (buffer && --buffer->references == 0)
      buffer->pool->release(buffer);
  }

  void *data() const { return buffer->data(); }
  bool isUnique() const { return buffer && buffer->references == 1; }
  explicit operator bool() const { return buffer; }

private:
  Buffer *buffer = nullptr;
};

/// The representation of a value's elements.
enum class Form : uint8_t {
  Splat,   ///< one element for all positions
  Dense,   ///< all elements, row-major
  Repeated ///< groups of `inner` elements, each group `repeat` times in a row
};

/// The run-time value of a scalar or tile. The steps know its storage, shape and number of
/// elements.
///
/// Repeated: element e is element (e / (repeat * inner)) * inner + e % inner of the buffer. A
/// vector expanded along the last dimension has inner = 1, along the first one repeat = rows.
struct Datum {
  Form form = Form::Splat;
  Scalar scalar;
  BufferRef buffer;
  int64_t repeat = 1, inner = 1;

  bool isSplat() const { return form == Form::Splat; }
  void setSplat(Scalar element) {
    form = Form::Splat;
    scalar = element;
    buffer = BufferRef();
  }
  void setDense(BufferRef elements) {
    form = Form::Dense;
    buffer = std::move(elements);
  }
  void setRepeated(BufferRef elements, int64_t times, int64_t group) {
    form = Form::Repeated;
    buffer = std::move(elements);
    repeat = times;
    inner = group;
  }
  /// Releases the buffer after the last use of the value. A scalar remains.
  void release() { buffer = BufferRef(); }

  /// Element e of a value of this storage.
  Scalar element(int64_t e, Storage storage) const;
  /// All n elements in row-major order, in `out`.
  void copyTo(void *out, int64_t n, Storage storage) const;
};

/// Where the rows of a paged view lie.
struct Pages {
  const int32_t *table = nullptr; ///< null: no row has a place
  int64_t tableStride = 0, tableCount = 0;
  int64_t rows = 1;  ///< of a page
  int64_t count = 0; ///< of pages in the pool
  int64_t stride = 0;
  int64_t together = 1; ///< a divisor of `rows`: loads begin at multiples of it, or of their rows
};

/// An array in memory with the bounds that accesses obey.
struct View {
  char *data = nullptr;
  ElementType type = ElementType::F32; ///< type in memory: F64 for all floats if the run is in f64
  llvm::SmallVector<int64_t, 4> extents, strides; ///< strides in elements

  /// If set, dimension 0 has no stride: its elements are the rows of pages.
  std::optional<Pages> pages;

  unsigned rank() const { return extents.size(); }
  /// How many elements from `data` a row begins, and how many rows follow it in its page, with
  /// itself; none if it is outside or has no page.
  struct RowPlace {
    int64_t offset = 0, left = 0;
  };
  RowPlace findRow(int64_t row) const;
  /// `size` rows from `start`, with the offsets that it refers to.
  numeric::TileAxis rowsOfPages(int64_t start, int64_t size, std::vector<int64_t> &offsets) const;
};

/// The dense elements of a value: its own buffer, or a copy that lives as long as this object.
class DenseElements {
public:
  DenseElements(BufferPool &pool, const Datum &value, int64_t n, Storage storage);
  const void *data() const { return elements; }

private:
  BufferRef copy;
  const void *elements;
};

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_DATUM_H
