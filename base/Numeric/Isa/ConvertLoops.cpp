// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dense conversions between memory and float storage, and rounding in place.

#include "base/Numeric/Isa/NarrowFloat.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace tilewright::numeric::TILEWRIGHT_ISA {
namespace {

// Memory may be unaligned, so it is read and written by memcpy.
template <typename T> TILEWRIGHT_INLINE T readUnaligned(const void *memory, size_t i) {
  T value;
  __builtin_memcpy(&value, static_cast<const char *>(memory) + i * sizeof(T), sizeof(T));
  return value;
}
template <typename T> TILEWRIGHT_INLINE void writeUnaligned(void *memory, size_t i, T value) {
  __builtin_memcpy(static_cast<char *>(memory) + i * sizeof(T), &value, sizeof(T));
}

template <typename Format, typename S>
void loadNarrow(const void *__restrict memory, void *__restrict out, size_t n) {
  auto *r = static_cast<S *>(out);
  TILEWRIGHT_INDEPENDENT
  for (size_t i = 0; i < n; ++i)
    r[i] = S(Format::decode(readUnaligned<typename Format::Bits>(memory, i)));
}

template <typename Format>
void storeNarrow(const void *__restrict in, void *__restrict memory, size_t n) {
  auto *x = static_cast<const float *>(in);
  TILEWRIGHT_INDEPENDENT
  for (size_t i = 0; i < n; ++i)
    writeUnaligned(memory, i, Format::encode(x[i]));
}

template <typename Format> void storeNarrowFromDouble(const void *in, void *memory, size_t n) {
  auto *x = static_cast<const double *>(in);
  for (size_t i = 0; i < n; ++i)
    writeUnaligned(memory, i, Format::encode(roundToOdd(x[i])));
}

template <typename Format> void roundNarrow(float *values, size_t n) {
  for (size_t i = 0; i < n; ++i)
    values[i] = Format::round(values[i]);
}

/// bf16 keeps float's exponent, so rounding is one addition and a mask.
void roundBF16(float *values, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits = bitsAs<uint32_t>(values[i]);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
    uint32_t quiet = (bits & 0xffff0000u) | 0x00400000u;
    values[i] = bitsAs<float>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

template <typename M, typename S>
void loadWide(const void *__restrict memory, void *__restrict out, size_t n) {
  auto *r = static_cast<S *>(out);
  for (size_t i = 0; i < n; ++i)
    r[i] = S(readUnaligned<M>(memory, i));
}
template <typename S, typename M>
void storeWide(const void *__restrict in, void *__restrict memory, size_t n) {
  auto *x = static_cast<const S *>(in);
  for (size_t i = 0; i < n; ++i)
    writeUnaligned(memory, i, M(x[i]));
}

#ifdef __F16C__
void loadF16(const void *memory, void *out, size_t n) {
  auto *r = static_cast<float *>(out);
  auto *m = static_cast<const char *>(memory);
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(
        r + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(m + 2 * i))));
  loadNarrow<F16Format, float>(m + 2 * i, r + i, n - i);
}
void storeF16(const void *in, void *memory, size_t n) {
  auto *x = static_cast<const float *>(in);
  auto *m = static_cast<char *>(memory);
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(m + 2 * i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
  storeNarrow<F16Format>(x + i, m + 2 * i, n - i);
}
void roundF16(float *values, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(values + i, _mm256_cvtph_ps(_mm256_cvtps_ph(_mm256_loadu_ps(values + i), 0)));
  roundNarrow<F16Format>(values + i, n - i);
}
#endif

constexpr unsigned f64 = unsigned(Storage::F64), f32 = unsigned(Storage::F32);

template <typename Format> void addNarrow(KernelTable &table, ElementType type) {
  unsigned t = unsigned(type);
  table.load[t][f32] = loadNarrow<Format, float>;
  table.load[t][f64] = loadNarrow<Format, double>;
  table.store[f32][t] = storeNarrow<Format>;
  table.store[f64][t] = storeNarrowFromDouble<Format>;
  table.round[t] = roundNarrow<Format>;
}

} // namespace

void addConvertLoops(KernelTable &table) {
  addNarrow<F16Format>(table, ElementType::F16);
  addNarrow<BF16Format>(table, ElementType::BF16);
  addNarrow<E4M3Format>(table, ElementType::E4M3);
  addNarrow<E5M2Format>(table, ElementType::E5M2);
  table.round[unsigned(ElementType::BF16)] = roundBF16;

  constexpr unsigned memoryF64 = unsigned(ElementType::F64), memoryF32 = unsigned(ElementType::F32);
  table.load[memoryF64][f64] = loadWide<double, double>;
  table.load[memoryF64][f32] = loadWide<double, float>;
  table.load[memoryF32][f64] = loadWide<float, double>;
  table.load[memoryF32][f32] = loadWide<float, float>;
  table.store[f64][memoryF64] = storeWide<double, double>;
  table.store[f64][memoryF32] = storeWide<double, float>;
  table.store[f32][memoryF64] = storeWide<float, double>;
  table.store[f32][memoryF32] = storeWide<float, float>;

#ifdef __F16C__
  constexpr unsigned f16 = unsigned(ElementType::F16);
  table.load[f16][f32] = loadF16;
  table.store[f32][f16] = storeF16;
  table.round[f16] = roundF16;
#endif
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA
