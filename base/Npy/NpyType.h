// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The element types of .npy files.

#ifndef TILEWRIGHT_BASE_NPY_NPYTYPE_H
#define TILEWRIGHT_BASE_NPY_NPYTYPE_H

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tilewright {

/// The element types of files.
enum class NpyType : uint8_t { F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, Bool };

/// NumPy's own short name: "f2", "f4", "f8", "i1", ..., "u8", "b1".
std::string_view npyTypeName(NpyType type);
size_t byteWidth(NpyType type);

} // namespace tilewright

#endif // TILEWRIGHT_BASE_NPY_NPYTYPE_H
