// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A strict JSON reader and writer for manifests. Integers are 64-bit and distinguished from other
// numbers; duplicate keys and trailing text are rejected, as is input that would take more time or
// memory than any manifest: see JsonLimits.

#ifndef TILEWRIGHT_RUNTIME_JSON_H
#define TILEWRIGHT_RUNTIME_JSON_H

#include "base/Support/Status.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace tilewright::runtime {

/// A value takes about a hundred bytes, but its text may take only two; each key is compared with
/// all previous ones.
struct JsonLimits {
  static constexpr int depth = 100;
  static constexpr size_t values = size_t(1) << 20;
  static constexpr size_t members = 256; // members per object
  static constexpr size_t stringBytes = 4096;
};

class Json {
public:
  enum class Kind { Null, Flag, Integer, Real, String, Array, Object };

  Json() = default;
  static Json flag(bool value);
  static Json integer(int64_t value);
  static Json floating(double value); // a finite number
  static Json string(std::string value);
  static Json array(std::vector<Json> items = {});
  static Json object();

  Kind kind = Kind::Null;
  bool truth = false;
  int64_t number = 0;
  double real = 0;
  std::string text;
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> members; // in textual order

  /// Null if the object has no such member.
  const Json *find(std::string_view name) const;
  /// Adds a member.
  Json &set(std::string name, Json value);

  std::string write() const;
  /// As write, for a value quoted in a message: long values end with "...".
  std::string quote() const;
  /// A failure names the offset of the first invalid byte.
  static Result<Json> parse(std::string_view text);
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_JSON_H
