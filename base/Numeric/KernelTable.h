// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops that exist once per instruction set, as a table of functions. Internal to base/Numeric.
//
// The files of Isa/ are compiled several times, with different flags. So that the linker cannot
// merge an inline function compiled for AVX-512 with the one that every processor runs, they use no
// inline functions from outside, except compiler builtins, and define theirs in a namespace of the
// instruction set.

#ifndef TILEWRIGHT_BASE_NUMERIC_KERNELTABLE_H
#define TILEWRIGHT_BASE_NUMERIC_KERNELTABLE_H

#include "base/Numeric/ElementType.h"
#include "base/Numeric/Operators.h"

namespace tilewright::numeric {

/// Which operand of a binary loop is one element, which is broadcast.
enum class SplatSide : unsigned { None, Left, Right };
inline constexpr unsigned numSplatSides = 3;

inline constexpr unsigned numFloatStorages = 2; // F64, F32
inline constexpr unsigned numFloatTypes = 6;    // F64 ... E5M2
inline constexpr unsigned numReduceOps = 8;
inline constexpr unsigned numCmpF = 16;
inline constexpr unsigned numCmpI = 10;
inline constexpr unsigned numCastOps = 9;

/// A null entry is an operation that the storage does not have. Tables are indexed by the
/// enumerations.
struct KernelTable {
  using Unary = void (*)(const void *a, void *out, size_t n);
  using Binary = OpError (*)(const void *a, const void *b, void *out, size_t n);
  using Ternary = void (*)(const void *a, bool splatA, const void *b, bool splatB, const void *c,
                           bool splatC, void *out, size_t n);
  using Rows = void (*)(const void *in, size_t rows, size_t columns, void *out);

  Unary unary[numUnaryOps][numStorages];
  Binary binary[numBinaryOps][numStorages][numSplatSides];
  Binary compareFloat[numCmpF][numFloatStorages][numSplatSides];
  Binary compareInt[numCmpI][numStorages][numSplatSides];
  Ternary fma[numFloatStorages];
  Ternary select[numStorages]; ///< a is the condition
  Unary cast[numCastOps][numStorages][numStorages];

  /// Dense memory of a float type to float storage and back; rounding float storage to a type.
  Unary load[numFloatTypes][numFloatStorages];
  Unary store[numFloatStorages][numFloatTypes];
  void (*round[numFloatTypes])(float *values, size_t n);

  /// out[r] = reduction of row r.
  Rows reduceRows[numReduceOps][numStorages];

  /// Blocks in place, word w of block i at words[w][i].
  void (*philoxBlocks)(uint32_t key0, uint32_t key1, unsigned rounds, uint32_t *const words[4],
                       size_t n);

  /// c += op(a) op(b); m, n and k > 0.
  void (*productF32)(const MatMulShape &shape, const float *a, const float *b, float *c);
  void (*productF64)(const MatMulShape &shape, const double *a, const double *b, double *c);
};

/// The table of the active instruction set.
const KernelTable &kernels();

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_KERNELTABLE_H
