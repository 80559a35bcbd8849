// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One native loop per elementwise operation over dense tiles. Shapes do not matter here: a tile is
// a run of n elements, and an operand is either such a run or one element, which is broadcast. The
// result may be one of the operands (the same address), but must not overlap one in part.
//
// Floats: storage F32 computes in float, F64 in double through libm. Results are *not* rounded to
// f16, bf16 or fp8: call roundInPlace afterwards. Subnormals are neither flushed on the way in nor
// on the way out. The float versions of exp, exp2, log, log2 and tanh are within 2 ulp of the exact
// result everywhere; the others are correctly rounded (add, sub, mul, div, sqrt, fma, ...) or
// libm's.

#ifndef TILEWRIGHT_BASE_NUMERIC_ELEMENTWISE_H
#define TILEWRIGHT_BASE_NUMERIC_ELEMENTWISE_H

#include "base/Numeric/ElementType.h"
#include "base/Numeric/Operators.h"

namespace tilewright::numeric {

/// A run of n elements of some storage, or (splat) a pointer to one.
struct Operand {
  const void *data = nullptr;
  bool isSplat = false;

  static Operand span(const void *data) { return {data, false}; }
  static Operand splat(const void *element) { return {element, true}; }
};

/// "integer division by zero", ...; empty for None.
const char *opErrorMessage(OpError error);

[[nodiscard]] OpError unary(UnaryOp op, Storage storage, Operand a, void *out, size_t n);
[[nodiscard]] OpError binary(BinaryOp op, Storage storage, Operand a, Operand b, void *out,
                             size_t n);

/// a * b + c with one rounding.
[[nodiscard]] OpError fma(Storage storage, Operand a, Operand b, Operand c, void *out, size_t n);

[[nodiscard]] OpError compareFloat(CmpF predicate, Storage storage, Operand a, Operand b,
                                   uint8_t *out, size_t n);
/// i1 compares as a one-bit integer: signed, true (-1) < false (0).
[[nodiscard]] OpError compareInt(CmpI predicate, Storage storage, Operand a, Operand b,
                                 uint8_t *out, size_t n);

/// condition (i1) ? a : b. `out` may be a or b.
void select(Storage storage, Operand condition, Operand a, Operand b, void *out, size_t n);

/// `out` may be `a` only when the two storages have the same width.
[[nodiscard]] OpError cast(CastOp op, Storage from, Operand a, Storage to, void *out, size_t n);

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_ELEMENTWISE_H
