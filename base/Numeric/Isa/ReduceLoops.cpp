// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions of contiguous rows, and the rounds of Philox.
//
// A row of any length is reduced to four vectors of partial results, which are then combined in a
// fixed order: the order of a sum depends only on the length of the row.

#include "base/Numeric/Isa/FloatOps.h"

namespace tilewright::numeric::TILEWRIGHT_ISA {
namespace {

#if defined(__AVX512F__)
constexpr size_t vectorBytes = 64;
#elif defined(__AVX2__)
constexpr size_t vectorBytes = 32;
#else
constexpr size_t vectorBytes = 16;
#endif

constexpr size_t accumulators = 4;

struct BitAnd {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) { return a & b; }
};
struct BitOr {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) { return a | b; }
};
struct MaxInt {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) { return a > b ? a : b; }
};
struct MinInt {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) { return a < b ? a : b; }
};

/// `lanes` partial results in one array: the compiler keeps it in registers, `accumulators` vectors
/// of them.
template <typename T, typename Op>
TILEWRIGHT_INLINE T reduceRow(const T *row, size_t columns, T identity) {
  constexpr size_t lanes = accumulators * vectorBytes / sizeof(T);
  if (columns < lanes) {
    T result = identity;
    for (size_t i = 0; i < columns; ++i)
      result = Op::apply(result, row[i]);
    return result;
  }
  T partial[lanes];
  for (size_t l = 0; l < lanes; ++l)
    partial[l] = row[l];
  size_t i = lanes;
  for (; i + lanes <= columns; i += lanes)
    for (size_t l = 0; l < lanes; ++l)
      partial[l] = Op::apply(partial[l], row[i + l]);
  for (size_t l = 0; l < columns - i; ++l)
    partial[l] = Op::apply(partial[l], row[i + l]);
  for (size_t half = lanes / 2; half != 0; half /= 2)
    for (size_t l = 0; l < half; ++l)
      partial[l] = Op::apply(partial[l], partial[l + half]);
  return partial[0];
}

template <typename T> struct Identities;
template <> struct Identities<float> {
  static constexpr float largest = __builtin_inff(), smallest = -__builtin_inff();
};
template <> struct Identities<double> {
  static constexpr double largest = __builtin_inf(), smallest = -__builtin_inf();
};
template <> struct Identities<int32_t> {
  static constexpr int32_t largest = INT32_MAX, smallest = INT32_MIN;
};
template <> struct Identities<int64_t> {
  static constexpr int64_t largest = INT64_MAX, smallest = INT64_MIN;
};

template <typename T, ReduceOp op> constexpr T identityOf() {
  if constexpr (op == ReduceOp::Sum || op == ReduceOp::Or)
    return T(0);
  else if constexpr (op == ReduceOp::Product)
    return T(1);
  else if constexpr (op == ReduceOp::Max || op == ReduceOp::MaxNum)
    return Identities<T>::smallest;
  else if constexpr (op == ReduceOp::Min || op == ReduceOp::MinNum)
    return Identities<T>::largest;
  else
    return T(-1);
}

template <typename T, ReduceOp op, typename Op>
void rowsLoop(const void *in, size_t rows, size_t columns, void *out) {
  auto *x = static_cast<const T *>(in);
  auto *r = static_cast<T *>(out);
  for (size_t i = 0; i < rows; ++i)
    r[i] = reduceRow<T, Op>(x + i * columns, columns, identityOf<T, op>());
}

template <bool isMax, typename T> TILEWRIGHT_INLINE T better(T a, T b) {
  return (isMax ? b > a : b < a) ? b : a;
}

/// Maximum or minimum of a row of floats: the processor's instruction, which loses NaNs and the
/// sign of zero, and a flag for NaNs. If one of the two matters, the exact loop is used.
template <typename T, typename Word, bool isMax, typename Exact>
TILEWRIGHT_INLINE T extremumOfRow(const T *row, size_t columns, T identity) {
  constexpr size_t lanes = accumulators * vectorBytes / sizeof(T);
  if (columns < lanes)
    return reduceRow<T, Exact>(row, columns, identity);
  T partial[lanes];
  Word unordered[lanes];
  for (size_t l = 0; l < lanes; ++l) {
    partial[l] = row[l];
    unordered[l] = Word(row[l] != row[l]);
  }
  size_t i = lanes;
  for (; i + lanes <= columns; i += lanes)
    for (size_t l = 0; l < lanes; ++l) {
      partial[l] = better<isMax>(partial[l], row[i + l]);
      unordered[l] |= Word(row[i + l] != row[i + l]);
    }
  for (size_t l = 0; l < columns - i; ++l) {
    partial[l] = better<isMax>(partial[l], row[i + l]);
    unordered[l] |= Word(row[i + l] != row[i + l]);
  }
  Word anyUnordered = 0;
  for (size_t l = 0; l < lanes; ++l)
    anyUnordered |= unordered[l];
  for (size_t half = lanes / 2; half != 0; half /= 2)
    for (size_t l = 0; l < half; ++l)
      partial[l] = better<isMax>(partial[l], partial[l + half]);
  if (anyUnordered || partial[0] == T(0))
    return reduceRow<T, Exact>(row, columns, identity);
  return partial[0];
}

template <typename T, typename Word, ReduceOp op, typename Exact>
void extremumRowsLoop(const void *in, size_t rows, size_t columns, void *out) {
  auto *x = static_cast<const T *>(in);
  auto *r = static_cast<T *>(out);
  for (size_t i = 0; i < rows; ++i)
    r[i] = extremumOfRow<T, Word, op == ReduceOp::Max, Exact>(x + i * columns, columns,
                                                              identityOf<T, op>());
}

/// One byte each, where all ones means 1.
template <typename Op, uint8_t identity>
void bitRowsLoop(const void *in, size_t rows, size_t columns, void *out) {
  auto *x = static_cast<const uint8_t *>(in);
  auto *r = static_cast<uint8_t *>(out);
  for (size_t i = 0; i < rows; ++i)
    r[i] = reduceRow<uint8_t, Op>(x + i * columns, columns, identity);
}

struct Reductions {
  KernelTable &table;
  template <typename T, ReduceOp op, typename Op> void add(Storage storage) {
    table.reduceRows[unsigned(op)][unsigned(storage)] = rowsLoop<T, op, Op>;
  }
  /// `Word` is an integer as wide as T.
  template <typename T, typename Word> void addFloat(Storage s) {
    add<T, ReduceOp::Sum, Add>(s);
    add<T, ReduceOp::Product, Mul>(s);
    auto &loops = table.reduceRows;
    loops[unsigned(ReduceOp::Max)][unsigned(s)] = extremumRowsLoop<T, Word, ReduceOp::Max, Maximum>;
    loops[unsigned(ReduceOp::Min)][unsigned(s)] = extremumRowsLoop<T, Word, ReduceOp::Min, Minimum>;
    add<T, ReduceOp::MaxNum, MaxNum>(s);
    add<T, ReduceOp::MinNum, MinNum>(s);
  }
  /// `Wrapping` is the unsigned type, in which overflow is defined.
  template <typename T, typename Wrapping> void addInteger(Storage s) {
    add<Wrapping, ReduceOp::Sum, Add>(s);
    add<Wrapping, ReduceOp::Product, Mul>(s);
    add<T, ReduceOp::Max, MaxInt>(s);
    add<T, ReduceOp::Min, MinInt>(s);
    add<T, ReduceOp::And, BitAnd>(s);
    add<T, ReduceOp::Or, BitOr>(s);
  }
};

void philoxBlocks(uint32_t key0, uint32_t key1, unsigned rounds, uint32_t *const words[4],
                  size_t n) {
  uint32_t *__restrict w0 = words[0];
  uint32_t *__restrict w1 = words[1];
  uint32_t *__restrict w2 = words[2];
  uint32_t *__restrict w3 = words[3];
  // The multipliers and the steps of the key (Weyl sequences) are the published constants.
  constexpr uint64_t multiplier0 = 0xD2511F53, multiplier1 = 0xCD9E8D57;
  constexpr uint32_t step0 = 0x9E3779B9, step1 = 0xBB67AE85;
  for (size_t i = 0; i < n; ++i) {
    uint32_t x0 = w0[i], x1 = w1[i], x2 = w2[i], x3 = w3[i];
    for (uint32_t round = 0; round < rounds; ++round) {
      uint64_t product0 = multiplier0 * x0, product1 = multiplier1 * x2;
      x0 = uint32_t(product1 >> 32) ^ x1 ^ (key0 + round * step0);
      x1 = uint32_t(product1);
      x2 = uint32_t(product0 >> 32) ^ x3 ^ (key1 + round * step1);
      x3 = uint32_t(product0);
    }
    w0[i] = x0;
    w1[i] = x1;
    w2[i] = x2;
    w3[i] = x3;
  }
}

} // namespace

void addReduceLoops(KernelTable &table) {
  Reductions reductions{table};
  reductions.addFloat<float, int32_t>(Storage::F32);
  reductions.addFloat<double, int64_t>(Storage::F64);
  reductions.addInteger<int32_t, uint32_t>(Storage::I32);
  reductions.addInteger<int64_t, uint64_t>(Storage::I64);
  table.reduceRows[unsigned(ReduceOp::And)][unsigned(Storage::I1)] = bitRowsLoop<BitAnd, 1>;
  table.reduceRows[unsigned(ReduceOp::Or)][unsigned(Storage::I1)] = bitRowsLoop<BitOr, 0>;
  table.philoxBlocks = philoxBlocks;
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA
