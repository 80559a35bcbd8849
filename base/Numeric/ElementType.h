// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element types of tiles and memory, and the conversions between them.
//
// Two notions are kept apart. An *element type* is what a kernel declares and what memory holds. A
// *storage* is how the CPU device keeps the elements of a tile:
//
//   element type            storage        storage if a whole run is in f64
//   f32 f16 bf16 e4m3 e5m2  F32 (float)    F64 (double), never rounded
//   f64                     F64 (double)   F64
//   i64 / i32               I64 / I32      the same
//   i8                      I32            the same
//   i1                      I1 (uint8_t, 0 or 1)
//
// A float held for a narrower type is always a value of that type: after each operation the result
// is rounded (roundInPlace). An i8 is a number of a cache: it is read, written and converted, and
// has no arithmetic.
//
// Every conversion rounds to nearest, ties to even, once: also from double. Overflow gives an
// infinity, and in e4m3 (the "fn" format, without infinities, largest value 448) a NaN, as
// arith.truncf does on f8E4M3FN: conversion does not saturate. Subnormals are exact. A NaN becomes
// a quiet NaN of the same sign.

#ifndef TILEWRIGHT_BASE_NUMERIC_ELEMENTTYPE_H
#define TILEWRIGHT_BASE_NUMERIC_ELEMENTTYPE_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tilewright {

enum class ElementType : uint8_t { F64, F32, F16, BF16, E4M3, E5M2, I64, I32, I1, I8 };
inline constexpr unsigned numElementTypes = 10;

/// How the elements of a tile are stored.
enum class Storage : uint8_t { F64, F32, I64, I32, I1 };
inline constexpr unsigned numStorages = 5;

/// "f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i64", "i32", "i1", "i8".
std::string_view elementTypeName(ElementType type);
std::optional<ElementType> parseElementType(std::string_view name);

/// Bytes of one element in memory (i1 takes one byte).
constexpr size_t byteWidth(ElementType type) {
  switch (type) {
  case ElementType::F64:
  case ElementType::I64:
    return 8;
  case ElementType::F32:
  case ElementType::I32:
    return 4;
  case ElementType::F16:
  case ElementType::BF16:
    return 2;
  case ElementType::E4M3:
  case ElementType::E5M2:
  case ElementType::I1:
  case ElementType::I8:
    return 1;
  }
  return 0;
}

constexpr bool isFloat(ElementType type) { return type <= ElementType::E5M2; }
constexpr bool isFloat(Storage storage) { return storage <= Storage::F32; }

/// The storage of a tile of this element type; with `allF64` every float type is held as double.
constexpr Storage storageOf(ElementType type, bool allF64 = false) {
  switch (type) {
  case ElementType::F64:
    return Storage::F64;
  case ElementType::F32:
  case ElementType::F16:
  case ElementType::BF16:
  case ElementType::E4M3:
  case ElementType::E5M2:
    return allF64 ? Storage::F64 : Storage::F32;
  case ElementType::I64:
    return Storage::I64;
  case ElementType::I32:
  case ElementType::I8:
    return Storage::I32;
  case ElementType::I1:
    return Storage::I1;
  }
  return Storage::F32;
}

/// The element type whose memory is laid out like the storage.
constexpr ElementType elementTypeOf(Storage storage) {
  constexpr ElementType types[numStorages] = {ElementType::F64, ElementType::F32, ElementType::I64,
                                              ElementType::I32, ElementType::I1};
  return types[static_cast<unsigned>(storage)];
}

/// Bytes of one element of a tile.
constexpr size_t storageBytes(Storage storage) { return byteWidth(elementTypeOf(storage)); }

/// Whether a tile of this storage may be read from and written to memory of this type: any float
/// with any float, an integer with its own kind.
constexpr bool isConvertible(ElementType memory, Storage storage) {
  return isFloat(memory) ? isFloat(storage) : storageOf(memory) == storage;
}

namespace numeric {

// Scalar conversions. The bits of a 16-bit type are in a uint16_t, of an 8-bit type in a uint8_t.
float f16ToFloat(uint16_t bits);
float bf16ToFloat(uint16_t bits);
float e4m3ToFloat(uint8_t bits);
float e5m2ToFloat(uint8_t bits);
uint16_t floatToF16(float value);
uint16_t floatToBF16(float value);
uint8_t floatToE4M3(float value);
uint8_t floatToE5M2(float value);
uint16_t doubleToF16(double value);
uint16_t doubleToBF16(double value);
uint8_t doubleToE4M3(double value);
uint8_t doubleToE5M2(double value);

/// The value of the float type nearest to `value`. For f64 the value itself.
double roundToType(double value, ElementType type);

/// Rounds every value to the float type; nothing happens for f32 and f64.
void roundInPlace(float *values, size_t n, ElementType type);

/// Reads n elements of memory into dense storage; element i is at `memory + i * stride *
/// byteWidth(type)`. The stride is in elements and may be zero or negative. i1 memory: any byte but
/// zero is 1. Requires isConvertible(type, storage); nothing needs to be aligned in memory.
void convertFromMemory(ElementType type, const void *memory, int64_t stride, Storage storage,
                       void *out, size_t n);

/// The reverse; rounds if the memory's type is narrower than the storage.
void convertToMemory(Storage storage, const void *in, ElementType type, void *memory,
                     int64_t stride, size_t n);

} // namespace numeric
} // namespace tilewright

#endif // TILEWRIGHT_BASE_NUMERIC_ELEMENTTYPE_H
