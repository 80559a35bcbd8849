// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations on tiles, as their callers and the loops of each instruction set name them.

#ifndef TILEWRIGHT_BASE_NUMERIC_OPERATORS_H
#define TILEWRIGHT_BASE_NUMERIC_OPERATORS_H

#include <cstdint>

namespace tilewright::numeric {

/// The reason why an operation has no result.
enum class OpError : uint8_t {
  None,
  DivisionByZero,   ///< integer division or remainder by zero
  DivisionOverflow, ///< the smallest integer divided by -1
  Unsupported,      ///< the operation does not exist on this storage
};
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

enum class ReduceOp : uint8_t {
  Sum,
  Product, ///< floats (in the type of the storage) and I32, I64 (wrapping)
  Max,
  Min, ///< floats: a NaN makes the result NaN; integers: signed
  MaxNum,
  MinNum, ///< floats: NaNs are ignored
  And,
  Or ///< I1, I32, I64 (bitwise)
};

/// Sizes and layout of c[m, n] = acc[m, n] + op(a)[m, k] op(b)[k, n], all row-major. Leading
/// dimensions are in elements, from one stored row to the next.
struct MatMulShape {
  int64_t m = 0, n = 0, k = 0;
  bool transposeA = false; ///< a is stored as [k, m]
  bool transposeB = false; ///< b is stored as [n, k]
  int64_t lda = 0, ldb = 0, ldc = 0;

  /// Dense operands.
  static MatMulShape dense(int64_t m, int64_t n, int64_t k, bool transposeA = false,
                           bool transposeB = false) {
    return {m, n, k, transposeA, transposeB, transposeA ? m : k, transposeB ? k : n, n};
  }
};

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_OPERATORS_H
