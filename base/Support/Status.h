// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Status and Result<T>: how libraries without LLVM, and the runtime, report a failure. Success is a
// null pointer, so that a launch that succeeds allocates nothing.

#ifndef TILEWRIGHT_BASE_SUPPORT_STATUS_H
#define TILEWRIGHT_BASE_SUPPORT_STATUS_H

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace tilewright {

/// The kind of a failure. The numbers are those of tilewright_code in runtime/tilewright.h.
enum class Code {
  OK = 0,
  InvalidArgument = 1, // an argument breaks the contract of the kernel
  Unsupported = 2,     // valid, but not supported by this device or driver
  MissingVariant = 3,  // the bundle has no code for this; the message has the command to compile it
  BadBundle = 4,       // truncated, corrupt, not a bundle, or of another version
  NoDriver = 5,        // libcuda.so.1 is missing or too old, or finds no device
  NotPrepared = 6,     // run was called before prepare on this device
  OutOfMemory = 7,     // no memory on the device or the host
  Driver = 8,          // a driver call failed
  Compile = 9,         // the driver rejected the PTX; log() is its output
  Io = 10,             // a file could not be read or written
};

/// Success, or what went wrong. Messages are lower case and have no final period.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status success() { return Status(); }
  static Status failure(Code code, std::string message) {
    assert(code != Code::OK && "a failure needs a code");
    Status status;
    status.detail = std::make_shared<const Detail>(
        Detail{code, std::move(message), 0, std::string(), std::string(), std::string()});
    return status;
  }
  /// A failure because of an invalid argument.
  static Status failure(std::string message) {
    return failure(Code::InvalidArgument, std::move(message));
  }
  /// A driver call that returned `result`; `name` is the driver's own name of that, such as
  /// "CUDA_ERROR_OUT_OF_MEMORY", and `call` the entry point.
  static Status driverFailure(Code code, std::string message, int result, std::string name,
                              std::string call, std::string log) {
    Status status;
    status.detail = std::make_shared<const Detail>(
        Detail{code, std::move(message), result, std::move(name), std::move(call), std::move(log)});
    return status;
  }

  bool ok() const { return !detail; }
  explicit operator bool() const { return ok(); }

  Code code() const { return detail ? detail->code : Code::OK; }
  /// Empty for success. Says what was attempted; names the driver's error and ends with its log.
  const std::string &message() const { return detail ? detail->message : empty(); }
  /// CUresult of the driver; 0 where no driver call failed.
  int driverResult() const { return detail ? detail->result : 0; }
  const std::string &driverName() const { return detail ? detail->name : empty(); }
  const std::string &driverCall() const { return detail ? detail->call : empty(); }
  /// The log of the driver's compiler or linker.
  const std::string &log() const { return detail ? detail->log : empty(); }

private:
  struct Detail {
    Code code;
    std::string message;
    int result;
    std::string name, call, log;
  };
  static const std::string &empty() {
    static const std::string text;
    return text;
  }

  std::shared_ptr<const Detail> detail;
};

/// A value, or the Status that explains why there is none.
template <typename T> class [[nodiscard]] Result {
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

#endif // TILEWRIGHT_BASE_SUPPORT_STATUS_H
