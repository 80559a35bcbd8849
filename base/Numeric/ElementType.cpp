// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of element types.

#include "base/Numeric/ElementType.h"

using namespace tilewright;

namespace {

constexpr std::string_view names[numElementTypes] = {"f64",  "f32", "f16", "bf16", "e4m3",
                                                     "e5m2", "i64", "i32", "i1",   "i8"};

} // namespace

std::string_view tilewright::elementTypeName(ElementType type) { return names[unsigned(type)]; }

std::optional<ElementType> tilewright::parseElementType(std::string_view name) {
  for (unsigned i = 0; i < numElementTypes; ++i)
    if (names[i] == name)
      return ElementType(i);
  return std::nullopt;
}
