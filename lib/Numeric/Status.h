// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Status and Result<T>: how the libraries without LLVM report a failure. A message is lower case
// and has no final period.

#ifndef TILEWRIGHT_LIB_NUMERIC_STATUS_H
#define TILEWRIGHT_LIB_NUMERIC_STATUS_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace tilewright {

/// Success, or one message that says what was wrong.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status success() { return Status(); }
  static Status failure(std::string message) {
    Status status;
    status.text = std::move(message);
    return status;
  }

  bool ok() const { return !text.has_value(); }
  explicit operator bool() const { return ok(); }

  /// Empty for success.
  const std::string &message() const {
    static const std::string empty;
    return text ? *text : empty;
  }

private:
  std::optional<std::string> text;
};

/// A value, or the Status that explains why there is none.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : held(std::move(value)) {}
  Result(Status failure) : error(std::move(failure)) {
    assert(!error.ok() && "a Result without a value needs a failure");
  }

  bool ok() const { return held.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status &status() const { return error; }
  const std::string &message() const { return error.message(); }

  T &operator*() {
    assert(held && "no value");
    return *held;
  }
  const T &operator*() const {
    assert(held && "no value");
    return *held;
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

private:
  std::optional<T> held;
  Status error;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_NUMERIC_STATUS_H
