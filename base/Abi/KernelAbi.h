// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a kernel receives its arguments. The compiler's back end and the launcher both follow this.
//
// The parameters of an entry are, for each argument of its contract in order:
//
//   a view of rank R      one 64-bit global address,
//                         R parameters of i32: its extents,
//                         R parameters of i64: its strides, in elements
//   a scalar              one parameter of its type (i1 takes one byte, 0 or 1)
//
// and then, for each tensor map of the kernel in order, one parameter of 128 bytes aligned to 64 (a
// grid constant). Every other parameter is aligned to its own size, as PTX does for a list of
// .param of these types.
//
// An optional view that is absent has address 0, and extents and strides 0; a tensor map over an
// absent or empty view is 128 zero bytes, which a kernel must not read: its extent is 0.
//
// A ragged tensor map copies parts of a view along a dimension, and nothing outside of the part. It
// replaces that dimension by three over the same rows: x, with an extent of `bound` and the stride
// of the rows, in the position of the dimension; y, the same, after all others; and last z, with a
// stride that moves back by `bound` rows, since addresses are modulo 2^64. Row r of the part
// [begin, begin + size) has
//
//   x = bound - size + r      y = begin + size      z = bound
//
// which is row begin + r of the view, and outside of the map if r >= size. Maps have at most
// five dimensions: the map of a view of rank 4 omits the first, and copies access its element 0.
//
// In a paged map, which is ragged along dimension 1, parts begin at any row of any page: row r of
// page p is row p * (stride of pages / stride of rows) + r. So the former stride is a multiple of
// the latter, and `begin` may exceed the extent of dimension 1.
//
// The grid has the axes that the manifest gives, x first. Axes that may exceed 65,535 (batch x
// heads) must be linearized into x by the compiler: y and z are limited to that.

#ifndef TILEWRIGHT_BASE_ABI_KERNELABI_H
#define TILEWRIGHT_BASE_ABI_KERNELABI_H

#include "base/Numeric/ElementType.h"

#include <vector>

namespace tilewright::runtime {

/// Changes whenever the rules above or the manifest do, unless older loaders reject the change by
/// themselves. 2: the manifest has the rules for elements; 3: ragged tensor maps; 4: programs have
/// forms, views say whether they are written, and tensor maps may be paged; 5: kernels may start
/// before the previous launch has ended.
inline constexpr int kernelAbiVersion = 5;
/// The oldest version that is read. Its programs get one form for each target.
inline constexpr int leastKernelAbiVersion = 3;

inline constexpr unsigned maxTensorMaps = 16;
/// Limits of the parameters of an entry, and their bytes (those of every driver and PTX version).
inline constexpr unsigned maxParams = 512;
inline constexpr unsigned maxParamBytes = 4096;
inline constexpr unsigned tensorMapBytes = 128;
inline constexpr unsigned tensorMapAlignment = 64;
/// For ragged tensor maps: the maximum number of rows of their views, and the bytes that z
/// subtracts, so that the product of the two is 2^64.
inline constexpr int64_t raggedBound = int64_t(1) << 30;
inline constexpr int64_t raggedTurn = int64_t(1) << 34;

/// The offset of each parameter.
struct ParamLayout {
  struct Param {
    uint32_t offset, bytes;
  };
  std::vector<Param> params;
  uint32_t bytes = 0;

  void add(uint32_t size, uint32_t alignment) {
    bytes = (bytes + alignment - 1) / alignment * alignment;
    params.push_back({bytes, size});
    bytes += size;
  }
  void addView(unsigned rank) {
    add(8, 8);
    for (unsigned i = 0; i < rank; ++i)
      add(4, 4);
    for (unsigned i = 0; i < rank; ++i)
      add(8, 8);
  }
  void addScalar(ElementType type) {
    uint32_t width = uint32_t(byteWidth(type));
    add(width, width);
  }
  void addTensorMap() { add(tensorMapBytes, tensorMapAlignment); }
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_BASE_ABI_KERNELABI_H
