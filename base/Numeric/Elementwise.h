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

namespace tilewright::numeric {

/// A run of n elements of some storage, or (splat) a pointer to one.
struct Operand {
  const void *data = nullptr;
  bool isSplat = false;

  static Operand span(const void *data) { return {data, false}; }
  static Operand splat(const void *element) { return {element, true}; }
};

/// The reason why an operation has no result.
enum class OpError : uint8_t {
  None,
  DivisionByZero,   ///< integer division or remainder by zero
  DivisionOverflow, ///< the smallest integer divided by -1
  Unsupported,      ///< the operation does not exist on this storage
};
/// "integer division by zero", ...; empty for None.
const char *opErrorMessage(OpError error);

enum class UnaryOp : uint8_t {
  // Storages F32, F64.
  NegF,
  AbsF,
  Exp,
  Exp2,
  ExpM1,
  Log,
  Log2,
  Log10,
  Log1p,
  Sqrt,
  Rsqrt,
  Cbrt,
  Sinh,
  Cosh,
  Tanh,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Erf,
  Erfc,
  Floor,
  Ceil,
  Round,     ///< half away from zero
  RoundEven, ///< half to even
  Trunc,
  // Storages I32, I64.
  AbsI,
};
inline constexpr unsigned numUnaryOps = static_cast<unsigned>(UnaryOp::AbsI) + 1;

enum class BinaryOp : uint8_t {
  // Storages F32, F64.
  AddF,
  SubF,
  MulF,
  DivF,
  RemF,     ///< C fmod, as arith.remf
  MaximumF, ///< a NaN operand gives NaN; -0 < +0
  MinimumF,
  MaxNumF, ///< a NaN operand gives the other one
  MinNumF,
  Pow,
  CopySign,
  Atan2,
  // Storages I32, I64, I1 (where a value is one bit, whose signed value is -1; divisions and shifts
  // are Unsupported on it). Overflow wraps.
  AddI,
  SubI,
  MulI,
  DivSI,
  DivUI,
  RemSI,
  RemUI,
  FloorDivSI,
  CeilDivSI,
  CeilDivUI, ///< may fail
  AndI,
  OrI,
  XorI,
  ShLI,
  ShRSI,
  ShRUI, ///< shifts by the width or more: 0; for ShRSI, copies of the sign bit
  MaxSI,
  MaxUI,
  MinSI,
  MinUI,
};
inline constexpr unsigned numBinaryOps = static_cast<unsigned>(BinaryOp::MinUI) + 1;

/// The numbers are those of arith::CmpFPredicate.
enum class CmpF : uint8_t {
  False,
  OEQ,
  OGT,
  OGE,
  OLT,
  OLE,
  ONE,
  ORD,
  UEQ,
  UGT,
  UGE,
  ULT,
  ULE,
  UNE,
  UNO,
  True
};

/// The numbers are those of arith::CmpIPredicate.
enum class CmpI : uint8_t { EQ, NE, SLT, SLE, SGT, SGE, ULT, ULE, UGT, UGE };

enum class CastOp : uint8_t {
  SIToFP, ///< i1 true is -1.0
  UIToFP,
  FPToSI, ///< toward zero; out of range saturates, NaN gives 0 (poison in arith)
  FPToUI,
  FPToFP, ///< F32 <-> F64, or a copy
  ExtSI,  ///< also arith.index_cast to a wider type; i1 true is -1
  ExtUI,
  TruncI, ///< to i1: the lowest bit
  Bitcast ///< F32 <-> I32, F64 <-> I64, or a copy
};

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
