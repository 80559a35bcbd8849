// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two sweeps over the elements: the magnitude of the results, then the differences.

#include "lib/Driver/ArrayComparison.h"

#include "base/Npy/NpyHeader.h"
#include "lib/Support/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace tilewright;

namespace {

/// The distance from 1 to the next number; 0 for integers.
double epsilonOf(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return 0x1p-52;
  case ElementType::F32:
    return 0x1p-23;
  case ElementType::F16:
    return 0x1p-10;
  case ElementType::BF16:
    return 0x1p-7;
  case ElementType::E4M3:
    return 0x1p-3;
  case ElementType::E5M2:
    return 0x1p-2;
  case ElementType::I64:
  case ElementType::I32:
  case ElementType::I1:
  case ElementType::I8:
    return 0.0;
  }
  return 0.0;
}

/// Returns the values as f64, and their difference: 0 if and only if integers are equal, even if
/// f64 cannot distinguish them.
using Pair = llvm::function_ref<void(int64_t position, double a, double b, double difference)>;

int64_t readInteger(ElementType type, const uint8_t *from) {
  int64_t value = 0;
  if (type == ElementType::I1)
    return *from;
  if (type == ElementType::I8)
    return int8_t(*from);
  if (type == ElementType::I64) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  int32_t narrow;
  std::memcpy(&narrow, from, sizeof(narrow));
  return narrow;
}

/// Calls `pair` for the elements of two dense arrays.
void forEachPair(ElementType typeA, const uint8_t *a, ElementType typeB, const uint8_t *b,
                 int64_t count, Pair pair) {
  if (!isFloat(typeA)) {
    for (int64_t i = 0, width = byteWidth(typeA); i < count; ++i) {
      int64_t x = readInteger(typeA, a + i * width), y = readInteger(typeA, b + i * width);
      uint64_t low = std::min(x, y), high = std::max(x, y);
      pair(i, static_cast<double>(x), static_cast<double>(y), static_cast<double>(high - low));
    }
    return;
  }
  constexpr int64_t chunk = 4096;
  double valuesA[chunk], valuesB[chunk];
  for (int64_t at = 0; at < count; at += chunk) {
    int64_t n = std::min(chunk, count - at);
    numeric::convertFromMemory(typeA, a + at * byteWidth(typeA), 1, Storage::F64, valuesA, n);
    numeric::convertFromMemory(typeB, b + at * byteWidth(typeB), 1, Storage::F64, valuesB, n);
    for (int64_t i = 0; i < n; ++i)
      pair(at + i, valuesA[i], valuesB[i], std::abs(valuesA[i] - valuesB[i]));
  }
}

std::vector<uint8_t> toDense(const HostArray &array) {
  std::vector<uint8_t> dense(array.getNumElements() * byteWidth(array.getType()));
  array.copyTo(dense.data());
  return dense;
}

} // namespace

Tolerance Tolerance::of(ElementType type, double magnitude) {
  bool isWide = type == ElementType::F32 || type == ElementType::F64;
  double relative = (isWide ? 32 : 2) * epsilonOf(type);
  return {relative, relative * magnitude};
}

llvm::Expected<ArrayDifference> tilewright::compareArrays(const HostArray &a, const HostArray &b,
                                                          std::optional<Tolerance> tolerance) {
  ElementType typeA = a.getType(), typeB = b.getType();
  if (a.getShape() != b.getShape())
    return makeError("results must have one shape, but got " + printNpyShape(a.getShape().vec()) +
                     " and " + printNpyShape(b.getShape().vec()));
  if (typeA != typeB && !(isFloat(typeA) && isFloat(typeB)))
    return makeError("results must both be floats, but got " + std::string(elementTypeName(typeA)) +
                     " and " + std::string(elementTypeName(typeB)));
  std::vector<uint8_t> denseA = toDense(a), denseB = toDense(b);
  ArrayDifference result;
  result.count = a.getNumElements();
  result.sameBits = typeA == typeB && denseA == denseB;

  auto forEach = [&](Pair pair) {
    forEachPair(typeA, denseA.data(), typeB, denseB.data(), result.count, pair);
  };
  if (!tolerance) {
    double sum = 0, terms = 0;
    forEach([&](int64_t, double x, double y, double) {
      if (!std::isfinite(x) || !std::isfinite(y))
        return;
      sum += (x * x + y * y) / 2;
      ++terms;
    });
    ElementType narrower = epsilonOf(typeA) > epsilonOf(typeB) ? typeA : typeB;
    tolerance = Tolerance::of(narrower, terms ? std::sqrt(sum / terms) : 0);
  }
  result.tolerance = *tolerance;
  if (result.sameBits)
    return result;

  double farthest = 0;
  forEach([&](int64_t position, double x, double y, double difference) {
    // The difference of equal infinities is NaN.
    if (difference == 0 || (std::isinf(x) && x == y) || (std::isnan(x) && std::isnan(y)))
      return;
    double excess = std::numeric_limits<double>::infinity();
    if (std::isfinite(x) && std::isfinite(y)) {
      double size = std::max(std::abs(x), std::abs(y));
      result.absolute = std::max(result.absolute, difference);
      result.relative = std::max(result.relative, difference / size);
      double limit = tolerance->absolute + tolerance->relative * size;
      if (difference <= limit)
        return;
      // If no difference is allowed, the largest is the worst.
      excess = limit > 0 ? difference / limit : difference;
    } else {
      ++result.nonFinite;
    }
    ++result.beyond;
    if (result.first < 0) {
      result.first = position;
      result.firstValues[0] = x;
      result.firstValues[1] = y;
    }
    if (result.worst < 0 || excess > farthest) {
      farthest = excess;
      result.worst = position;
      result.worstValues[0] = x;
      result.worstValues[1] = y;
    }
  });
  return result;
}

llvm::SmallVector<int64_t> tilewright::toIndices(int64_t position, llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<int64_t> indices(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    indices[d] = position % shape[d];
    position /= shape[d];
  }
  return indices;
}
