// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays in NumPy's .npy format (versions 1.0, 2.0 and 3.0 are read, 1.0 is written), and their
// conversion to and from the element types of kernels.
//
// Files are not trusted: each error is a Status with one message, which begins with the path, and
// no more memory is allocated than the file has data for.

#ifndef TILEWRIGHT_BASE_NPY_NPY_H
#define TILEWRIGHT_BASE_NPY_NPY_H

#include "base/Npy/NpyType.h"
#include "base/Numeric/ElementType.h"
#include "base/Support/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

/// An array in C order, little endian, whatever the order in the file.
struct NpyArray {
  NpyType type = NpyType::F32;
  std::vector<int64_t> shape; ///< no sizes: one element
  std::vector<uint8_t> bytes; ///< exactly numElements() * byteWidth(type)

  int64_t numElements() const;
};

/// The product of the sizes; no value if one is negative or if `elementBytes` times the product
/// (zero sizes taken as one) is more than the largest int64_t.
std::optional<int64_t> checkedNumElements(const std::vector<int64_t> &shape,
                                          int64_t elementBytes = 1);

Result<NpyArray> readNpy(const std::string &path);

/// The contents of the header of a file; its data are not read.
struct NpyKind {
  NpyType type = NpyType::F32;
  std::vector<int64_t> shape;
};
Result<NpyKind> inspectNpy(const std::string &path);

/// The content of a file that is in memory already; messages use `name` as the path.
Result<NpyArray> parseNpy(const uint8_t *data, size_t size, const std::string &name);

Status writeNpy(const std::string &path, const NpyArray &array);

/// Converts to elements of `type` in `out` (numElements() * byteWidth(type) bytes). Floats are
/// rounded to nearest even, and so are integers and booleans that become floats. Rejected: floats
/// to an integer type, and integers outside the range of the type (for i1 all but 0 and 1).
Status convertFromNpy(const NpyArray &array, ElementType type, void *out);

/// The reverse: f64, f32, f16, i64, i32 and i8 keep their type, bf16, e4m3 and e5m2 become f4, i1
/// becomes b1. Rejected: a shape that checkedNumElements rejects.
Result<NpyArray> convertToNpy(ElementType type, const void *elements, std::vector<int64_t> shape);

} // namespace tilewright

#endif // TILEWRIGHT_BASE_NPY_NPY_H
