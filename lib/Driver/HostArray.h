// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An array in host memory with any strides, as tools, benchmarks and tests pass it to a device.
// Elements may share memory only by a stride of 0, which repeats them, in an array that is read.
// Memory between elements is poisoned, so that a kernel that reads it computes NaN, and one that
// writes it is detected.

#ifndef TILEWRIGHT_LIB_DRIVER_HOSTARRAY_H
#define TILEWRIGHT_LIB_DRIVER_HOSTARRAY_H

#include "base/Numeric/ElementType.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>

namespace tilewright {

class HostArray {
  struct Unmap {
    size_t mapped = 0; ///< 0: allocated on the heap
    void operator()(uint8_t *pointer) const;
  };

public:
  enum class Use { Read, Written };

  /// Allocates and poisons. Strides are in elements; none means row-major. Errors: negative extents
  /// or strides, extents beyond 32 bits, a number of strides that differs from the rank, strides
  /// with which elements may share memory, except for a stride of 0 of an array that is only read,
  /// and more memory than the machine has.
  static llvm::Expected<HostArray> create(ElementType type, llvm::ArrayRef<int64_t> shape,
                                          llvm::ArrayRef<int64_t> strides = {},
                                          Use use = Use::Written);

  ElementType getType() const { return type; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  llvm::ArrayRef<int64_t> getStrides() const { return strides; }
  /// Element 0. Never null.
  void *getData() const { return memory.get(); }
  int64_t getNumElements() const;
  /// From the first element to the end of the last.
  size_t getNumBytes() const { return bytes; }

  /// Every byte 0xff: NaN in every float type, -1 in the integers.
  void poison();
  /// Whether elements along the dimension share memory.
  bool repeats(size_t dim) const { return shape[dim] > 1 && strides[dim] == 0; }
  /// The elements, in row-major order, without gaps. Of those that share memory, the last remains.
  void copyFrom(const void *dense);
  void copyTo(void *dense) const;
  /// Whether all memory between the elements is still poisoned.
  bool gapsArePoisoned() const;

private:
  HostArray() : memory(nullptr, Unmap()) {}

  ElementType type = ElementType::F32;
  llvm::SmallVector<int64_t> shape, strides;
  size_t bytes = 0;
  std::unique_ptr<uint8_t, Unmap> memory;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_HOSTARRAY_H
