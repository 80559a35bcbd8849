// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of LLVM's FuzzedDataProvider that the targets use. The same calls read the same bytes as
// with LLVM's class, so that both decode an input equally. It does not need clang: programs
// compiled with GCC can replay inputs.

#ifndef TILEWRIGHT_TEST_FUZZ_FUZZEDDATA_H
#define TILEWRIGHT_TEST_FUZZ_FUZZEDDATA_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

/// Numbers are read from the end of the input, and are 0 when it is used up; other data is read
/// from the front.
class FuzzedDataProvider {
public:
  FuzzedDataProvider(const uint8_t *data, size_t size) : data(data), size(size) {}
  FuzzedDataProvider(const FuzzedDataProvider &) = delete;
  FuzzedDataProvider &operator=(const FuzzedDataProvider &) = delete;

  template <typename T> T ConsumeIntegralInRange(T least, T most) {
    uint64_t range = static_cast<uint64_t>(most) - static_cast<uint64_t>(least), value = 0;
    for (size_t bits = 0; bits < 8 * sizeof(T) && range >> bits > 0 && size > 0; bits += 8)
      value = value << 8 | data[--size];
    if (range != std::numeric_limits<uint64_t>::max())
      value %= range + 1;
    return static_cast<T>(static_cast<uint64_t>(least) + value);
  }
  template <typename T> T ConsumeIntegral() {
    return ConsumeIntegralInRange(std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
  bool ConsumeBool() { return ConsumeIntegral<uint8_t>() & 1; }

  /// From 0 to 1.
  template <typename T> T ConsumeProbability() {
    static_assert(sizeof(T) <= sizeof(uint32_t));
    return static_cast<T>(ConsumeIntegral<uint32_t>()) /
           static_cast<T>(std::numeric_limits<uint32_t>::max());
  }

  template <typename T, size_t count> T PickValueInArray(const T (&array)[count]) {
    return array[ConsumeIntegralInRange<size_t>(0, count - 1)];
  }
  template <typename T> T PickValueInArray(std::initializer_list<T> list) {
    return list.begin()[ConsumeIntegralInRange<size_t>(0, list.size() - 1)];
  }

  std::string ConsumeRemainingBytesAsString() {
    std::string text(reinterpret_cast<const char *>(data), size);
    size = 0;
    return text;
  }
  size_t remaining_bytes() const { return size; }

private:
  const uint8_t *data;
  size_t size; ///< remaining bytes
};

#endif // TILEWRIGHT_TEST_FUZZ_FUZZEDDATA_H
