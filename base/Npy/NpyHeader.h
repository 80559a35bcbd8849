// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The header of a .npy file: a dictionary in Python's syntax. Internal to base/Npy.

#ifndef TILEWRIGHT_BASE_NPY_NPYHEADER_H
#define TILEWRIGHT_BASE_NPY_NPYHEADER_H

#include "base/Npy/NpyType.h"
#include "base/Support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

struct NpyHeader {
  NpyType type = NpyType::F32;
  bool isBigEndian = false;
  bool isFortranOrder = false;
  std::vector<int64_t> shape;
};

/// Reads e.g. `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`. Messages have no path.
Result<NpyHeader> parseNpyHeader(std::string_view text);

/// The text for little-endian data in C order, without padding.
std::string printNpyHeader(NpyType type, const std::vector<int64_t> &shape);

/// "(3, 4)", "(3,)", "()".
std::string printNpyShape(const std::vector<int64_t> &shape);

} // namespace tilewright

#endif // TILEWRIGHT_BASE_NPY_NPYHEADER_H
