// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Casts between storages.

#include "base/Numeric/Isa/Loops.h"

namespace tilewright::numeric::TILEWRIGHT_ISA {
namespace {

template <typename R> struct Convert {
  template <typename T> static TILEWRIGHT_INLINE R apply(T a) { return R(a); }
};

/// Through the type `Via`: a sign bit spread from one bit, or an integer read as unsigned.
template <typename Via, typename R> struct ConvertVia {
  template <typename T> static TILEWRIGHT_INLINE R apply(T a) { return R(Via(a)); }
};

template <typename R> struct FromSignedBit {
  static TILEWRIGHT_INLINE R apply(uint8_t a) { return R(-int32_t(a)); }
};

struct LowestBit {
  template <typename T> static TILEWRIGHT_INLINE uint8_t apply(T a) { return uint8_t(a & 1); }
};

template <typename R> struct Reinterpret {
  template <typename T> static TILEWRIGHT_INLINE R apply(T a) { return bitsAs<R>(a); }
};

/// Toward zero, saturating, NaN to 0. The bounds are powers of two, so exact in every float type:
/// values in [low, high) convert.
template <typename R> struct Saturate {
  template <typename T> static TILEWRIGHT_INLINE R apply(T a) {
    constexpr bool isSigned = R(-1) < R(0);
    constexpr T high = T(R(1) << (sizeof(R) * 8 - 2)) * (isSigned ? T(2) : T(4));
    constexpr R smallest = isSigned ? R(R(1) << (sizeof(R) * 8 - 1)) : R(0);
    constexpr R largest = R(~smallest);
    constexpr T low = isSigned ? -high : T(0);
    bool isInside = (a >= low) & (a < high);
    R inside = R(isInside ? a : T(0));
    R outside = a >= high ? largest : a < low ? smallest : R(0);
    return isInside ? inside : outside;
  }
};
/// To one bit as a signed integer: -1 and 0.
struct ToSignedBit {
  template <typename T> static TILEWRIGHT_INLINE uint8_t apply(T a) { return a <= T(-1); }
};
/// To one bit as an unsigned integer: 0 and 1.
struct ToUnsignedBit {
  template <typename T> static TILEWRIGHT_INLINE uint8_t apply(T a) { return a >= T(1); }
};

struct Casts {
  KernelTable &table;
  template <typename T, typename R, typename Op> void add(CastOp op, Storage from, Storage to) {
    table.cast[unsigned(op)][unsigned(from)][unsigned(to)] = unaryLoop<T, R, Op>;
  }

  template <typename F> void addBetweenFloatAndInteger(Storage f) {
    add<int64_t, F, Convert<F>>(CastOp::SIToFP, Storage::I64, f);
    add<int32_t, F, Convert<F>>(CastOp::SIToFP, Storage::I32, f);
    add<uint8_t, F, FromSignedBit<F>>(CastOp::SIToFP, Storage::I1, f);
    add<uint64_t, F, Convert<F>>(CastOp::UIToFP, Storage::I64, f);
    add<uint32_t, F, Convert<F>>(CastOp::UIToFP, Storage::I32, f);
    add<uint8_t, F, Convert<F>>(CastOp::UIToFP, Storage::I1, f);
    add<F, int64_t, Saturate<int64_t>>(CastOp::FPToSI, f, Storage::I64);
    add<F, int32_t, Saturate<int32_t>>(CastOp::FPToSI, f, Storage::I32);
    add<F, uint8_t, ToSignedBit>(CastOp::FPToSI, f, Storage::I1);
    add<F, uint64_t, Saturate<uint64_t>>(CastOp::FPToUI, f, Storage::I64);
    add<F, uint32_t, Saturate<uint32_t>>(CastOp::FPToUI, f, Storage::I32);
    add<F, uint8_t, ToUnsignedBit>(CastOp::FPToUI, f, Storage::I1);
  }
};

} // namespace

void addCastLoops(KernelTable &table) {
  Casts casts{table};
  casts.addBetweenFloatAndInteger<float>(Storage::F32);
  casts.addBetweenFloatAndInteger<double>(Storage::F64);

  casts.add<float, double, Convert<double>>(CastOp::FPToFP, Storage::F32, Storage::F64);
  casts.add<double, float, Convert<float>>(CastOp::FPToFP, Storage::F64, Storage::F32);
  casts.add<float, float, Convert<float>>(CastOp::FPToFP, Storage::F32, Storage::F32);
  casts.add<double, double, Convert<double>>(CastOp::FPToFP, Storage::F64, Storage::F64);

  casts.add<int32_t, int64_t, Convert<int64_t>>(CastOp::ExtSI, Storage::I32, Storage::I64);
  casts.add<uint8_t, int64_t, FromSignedBit<int64_t>>(CastOp::ExtSI, Storage::I1, Storage::I64);
  casts.add<uint8_t, int32_t, FromSignedBit<int32_t>>(CastOp::ExtSI, Storage::I1, Storage::I32);
  casts.add<uint32_t, int64_t, Convert<int64_t>>(CastOp::ExtUI, Storage::I32, Storage::I64);
  casts.add<uint8_t, int64_t, Convert<int64_t>>(CastOp::ExtUI, Storage::I1, Storage::I64);
  casts.add<uint8_t, int32_t, Convert<int32_t>>(CastOp::ExtUI, Storage::I1, Storage::I32);
  casts.add<int64_t, int32_t, ConvertVia<uint32_t, int32_t>>(CastOp::TruncI, Storage::I64,
                                                             Storage::I32);
  casts.add<int64_t, uint8_t, LowestBit>(CastOp::TruncI, Storage::I64, Storage::I1);
  casts.add<int32_t, uint8_t, LowestBit>(CastOp::TruncI, Storage::I32, Storage::I1);

  casts.add<float, int32_t, Reinterpret<int32_t>>(CastOp::Bitcast, Storage::F32, Storage::I32);
  casts.add<int32_t, float, Reinterpret<float>>(CastOp::Bitcast, Storage::I32, Storage::F32);
  casts.add<double, int64_t, Reinterpret<int64_t>>(CastOp::Bitcast, Storage::F64, Storage::I64);
  casts.add<int64_t, double, Reinterpret<double>>(CastOp::Bitcast, Storage::I64, Storage::F64);

  // The same storage: a copy, so that i64 to index and the like need no case of their own.
  constexpr CastOp integerCasts[] = {CastOp::ExtSI, CastOp::ExtUI, CastOp::TruncI, CastOp::Bitcast};
  for (CastOp op : integerCasts) {
    casts.add<int64_t, int64_t, Convert<int64_t>>(op, Storage::I64, Storage::I64);
    casts.add<int32_t, int32_t, Convert<int32_t>>(op, Storage::I32, Storage::I32);
    casts.add<uint8_t, uint8_t, Convert<uint8_t>>(op, Storage::I1, Storage::I1);
  }
  casts.add<uint32_t, uint32_t, Convert<uint32_t>>(CastOp::Bitcast, Storage::F32, Storage::F32);
  casts.add<uint64_t, uint64_t, Convert<uint64_t>>(CastOp::Bitcast, Storage::F64, Storage::F64);
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA
