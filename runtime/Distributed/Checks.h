// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Internal: checks that calls over several ranks have in common.

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_CHECKS_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_CHECKS_H

#include "runtime/Argument.h"
#include "runtime/AttentionDesc.h"
#include "runtime/Checksum.h"

#include <cstring>
#include <string>

namespace tilewright::runtime {

inline std::string extentsText(ElementType type, const int64_t *extents, unsigned rank) {
  std::string text = std::string(elementTypeName(type)) + "[";
  for (unsigned i = 0; i < rank && i < maxRank; ++i)
    text += (i ? "," : "") + std::to_string(extents[i]);
  return text + "]";
}

/// Whether a view has this type and these extents.
inline Status expectView(const char *name, const Argument &view, ElementType type,
                         std::initializer_list<int64_t> extents) {
  bool isRight =
      view.kind == Argument::Kind::View && view.type == type && view.rank == extents.size();
  for (unsigned i = 0; isRight && i < view.rank; ++i)
    isRight = view.extents[i] == extents.begin()[i];
  if (isRight)
    return Status::success();
  return Status::failure(
      std::string(name) + " must be " +
      extentsText(type, extents.begin(), unsigned(extents.size())) + " on this rank, but got " +
      (view.kind == Argument::Kind::View ? extentsText(view.type, view.extents, view.rank)
                                         : "no view"));
}

/// The type of sums: LSE, and O before it is rounded.
inline ElementType sumTypeOf(ElementType type) {
  return type == ElementType::F64 ? ElementType::F64 : ElementType::F32;
}

inline Expr typeValue(ElementType type) {
  return Expr::symbol(Expr::Kind::Type, std::string(elementTypeName(type)));
}

/// A number that is equal for equal texts.
inline int64_t keyOf(const std::string &text) {
  return int64_t(checksum(text.data(), text.size()));
}

inline int64_t bitsOf(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_CHECKS_H
