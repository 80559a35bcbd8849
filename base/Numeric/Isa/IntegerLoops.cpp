// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Integer arithmetic. Overflow wraps: sums and products are computed unsigned.

#include "base/Numeric/Isa/Loops.h"

namespace tilewright::numeric::TILEWRIGHT_ISA {
namespace {

template <typename T> struct UnsignedOf;
template <> struct UnsignedOf<int32_t> {
  using Type = uint32_t;
};
template <> struct UnsignedOf<int64_t> {
  using Type = uint64_t;
};
template <> struct UnsignedOf<uint8_t> {
  using Type = uint8_t;
};
template <typename T> using Unsigned = typename UnsignedOf<T>::Type;

#define TILEWRIGHT_INTEGER_OP(Name, expression)                                                    \
  struct Name {                                                                                    \
    template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {                             \
      using U [[maybe_unused]] = Unsigned<T>;                                                      \
      [[maybe_unused]] constexpr U width = sizeof(T) * 8;                                          \
      return T(expression);                                                                        \
    }                                                                                              \
  };
TILEWRIGHT_INTEGER_OP(Add, U(a) + U(b))
TILEWRIGHT_INTEGER_OP(Sub, U(a) - U(b))
TILEWRIGHT_INTEGER_OP(Mul, U(a) * U(b))
TILEWRIGHT_INTEGER_OP(And, a &b)
TILEWRIGHT_INTEGER_OP(Or, a | b)
TILEWRIGHT_INTEGER_OP(Xor, a ^ b)
TILEWRIGHT_INTEGER_OP(ShL, U(b) < width ? U(a) << (U(b) % width) : U(0))
TILEWRIGHT_INTEGER_OP(ShRU, U(b) < width ? U(a) >> (U(b) % width) : U(0))
TILEWRIGHT_INTEGER_OP(ShRS, a >> (U(b) < width ? U(b) : width - 1))
TILEWRIGHT_INTEGER_OP(MaxS, a > b ? a : b)
TILEWRIGHT_INTEGER_OP(MinS, a < b ? a : b)
TILEWRIGHT_INTEGER_OP(MaxU, U(a) > U(b) ? a : b)
TILEWRIGHT_INTEGER_OP(MinU, U(a) < U(b) ? a : b)

struct Abs {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a) {
    return a < 0 ? T(-Unsigned<T>(a)) : a;
  }
};

/// Rounded toward zero. On 32 bits through double, which is exact and vectorizes: an inexact
/// quotient is at least 1/|b| away from an integer, and the rounding error is below 2^-22 / |b|.
struct Quotient {
  static TILEWRIGHT_INLINE int32_t apply(int32_t a, int32_t b) {
    return int32_t(double(a) / double(b));
  }
  static TILEWRIGHT_INLINE int64_t apply(int64_t a, int64_t b) { return a / b; }
};

// The divisions below run only where no divisor is zero and no quotient overflows.
struct DivS {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) { return Quotient::apply(a, b); }
};
struct RemS {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    return T(a - Quotient::apply(a, b) * b);
  }
};
struct FloorDivS {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    T q = Quotient::apply(a, b), r = T(a - q * b);
    return q - T((r != 0) & ((r < 0) != (b < 0)));
  }
};
struct CeilDivS {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    T q = Quotient::apply(a, b), r = T(a - q * b);
    return q + T((r != 0) & ((r < 0) == (b < 0)));
  }
};
struct DivU {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    return T(Unsigned<T>(a) / Unsigned<T>(b));
  }
};
struct RemU {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    return T(Unsigned<T>(a) % Unsigned<T>(b));
  }
};
struct CeilDivU {
  template <typename T> static TILEWRIGHT_INLINE T apply(T a, T b) {
    Unsigned<T> x = Unsigned<T>(a), y = Unsigned<T>(b);
    return T(x / y + (x % y != 0));
  }
};

/// Checks all divisors, then divides.
template <typename T, typename Op, bool isSigned, SplatSide side>
OpError divisionLoop(const void *a, const void *b, void *out, size_t n) {
  if (n == 0)
    return OpError::None;
  auto *x = static_cast<const T *>(a);
  auto *y = static_cast<const T *>(b);
  size_t stepX = side != SplatSide::Left, divisors = side == SplatSide::Right ? 1 : n;
  T isZero = 0, isMinusOne = 0; // as wide as the elements, so that the loop vectorizes
  for (size_t i = 0; i < divisors; ++i) {
    isZero |= T(y[i] == 0);
    isMinusOne |= T(y[i] == T(-1));
  }
  if (isZero)
    return OpError::DivisionByZero;
  if constexpr (isSigned) {
    constexpr T smallest = T(Unsigned<T>(1) << (sizeof(T) * 8 - 1));
    if (isMinusOne)
      for (size_t i = 0; i < n; ++i)
        if (x[i * stepX] == smallest && y[side == SplatSide::Right ? 0 : i] == T(-1))
          return OpError::DivisionOverflow;
  }
  return binaryLoop<T, T, Op, side>(a, b, out, n);
}

template <typename T, typename Op, bool isSigned>
void addDivision(KernelTable::Binary (&entry)[numSplatSides]) {
  entry[unsigned(SplatSide::None)] = divisionLoop<T, Op, isSigned, SplatSide::None>;
  entry[unsigned(SplatSide::Left)] = divisionLoop<T, Op, isSigned, SplatSide::Left>;
  entry[unsigned(SplatSide::Right)] = divisionLoop<T, Op, isSigned, SplatSide::Right>;
}

template <typename T> void addFor(KernelTable &table, Storage storage) {
  unsigned s = unsigned(storage);
  auto entry = [&](BinaryOp op) -> auto & { return table.binary[unsigned(op)][s]; };
  addBinary<T, T, Add>(entry(BinaryOp::AddI));
  addBinary<T, T, Sub>(entry(BinaryOp::SubI));
  addBinary<T, T, Mul>(entry(BinaryOp::MulI));
  addDivision<T, DivS, true>(entry(BinaryOp::DivSI));
  addDivision<T, RemS, true>(entry(BinaryOp::RemSI));
  addDivision<T, FloorDivS, true>(entry(BinaryOp::FloorDivSI));
  addDivision<T, CeilDivS, true>(entry(BinaryOp::CeilDivSI));
  addDivision<T, DivU, false>(entry(BinaryOp::DivUI));
  addDivision<T, RemU, false>(entry(BinaryOp::RemUI));
  addDivision<T, CeilDivU, false>(entry(BinaryOp::CeilDivUI));
  addBinary<T, T, And>(entry(BinaryOp::AndI));
  addBinary<T, T, Or>(entry(BinaryOp::OrI));
  addBinary<T, T, Xor>(entry(BinaryOp::XorI));
  addBinary<T, T, ShL>(entry(BinaryOp::ShLI));
  addBinary<T, T, ShRS>(entry(BinaryOp::ShRSI));
  addBinary<T, T, ShRU>(entry(BinaryOp::ShRUI));
  addBinary<T, T, MaxS>(entry(BinaryOp::MaxSI));
  addBinary<T, T, MaxU>(entry(BinaryOp::MaxUI));
  addBinary<T, T, MinS>(entry(BinaryOp::MinSI));
  addBinary<T, T, MinU>(entry(BinaryOp::MinUI));
  table.unary[unsigned(UnaryOp::AbsI)][s] = unaryLoop<T, T, Abs>;
}

} // namespace

void addIntegerLoops(KernelTable &table) {
  addFor<int32_t>(table, Storage::I32);
  addFor<int64_t>(table, Storage::I64);

  // One bit: sums are modulo 2, and signed order is the reverse of unsigned order.
  auto bit = [&](BinaryOp op) -> auto & {
    return table.binary[unsigned(op)][unsigned(Storage::I1)];
  };
  addBinary<uint8_t, uint8_t, Xor>(bit(BinaryOp::AddI));
  addBinary<uint8_t, uint8_t, Xor>(bit(BinaryOp::SubI));
  addBinary<uint8_t, uint8_t, And>(bit(BinaryOp::MulI));
  addBinary<uint8_t, uint8_t, And>(bit(BinaryOp::AndI));
  addBinary<uint8_t, uint8_t, Or>(bit(BinaryOp::OrI));
  addBinary<uint8_t, uint8_t, Xor>(bit(BinaryOp::XorI));
  addBinary<uint8_t, uint8_t, And>(bit(BinaryOp::MaxSI));
  addBinary<uint8_t, uint8_t, Or>(bit(BinaryOp::MaxUI));
  addBinary<uint8_t, uint8_t, Or>(bit(BinaryOp::MinSI));
  addBinary<uint8_t, uint8_t, And>(bit(BinaryOp::MinUI));
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA
