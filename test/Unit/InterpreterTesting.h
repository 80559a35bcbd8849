// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared code of the tests of lib/Interpreter: arrays, and running a kernel from text. The kernels
// have the form of the output of tile-specialize, so that no pass is involved.

#ifndef TILEWRIGHT_TEST_UNIT_INTERPRETERTESTING_H
#define TILEWRIGHT_TEST_UNIT_INTERPRETERTESTING_H

#include "lib/Driver/Compiler.h"
#include "lib/Interpreter/CpuDevice.h"
#include "passes/Pipelines/Pipelines.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/MemoryBufferRef.h"
#include "gtest/gtest.h"

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace tilewright {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline const double notANumber = std::nan("");

/// A row-major array; values are set and read as doubles.
class Tensor {
public:
  Tensor(ElementType type, llvm::SmallVector<int64_t> shape, double value = 0)
      : type(type), shape(std::move(shape)) {
    count = 1;
    for (int64_t extent : this->shape)
      count *= extent;
    memory.resize(count * byteWidth(type));
    fill([&](int64_t) { return value; });
  }
  Tensor(ElementType type, llvm::SmallVector<int64_t> shape,
         const std::function<double(int64_t)> &value)
      : Tensor(type, std::move(shape)) {
    fill(value);
  }

  void fill(const std::function<double(int64_t)> &value) {
    for (int64_t i = 0; i < count; ++i)
      set(i, value(i));
  }
  void set(int64_t i, double value) {
    char *element = memory.data() + i * byteWidth(type);
    if (isFloat(type)) {
      numeric::convertToMemory(Storage::F64, &value, type, element, 1, 1);
      return;
    }
    int64_t wide = static_cast<int64_t>(value);
    std::memcpy(element, &wide, byteWidth(type)); // little endian
  }
  double get(int64_t i) const {
    const char *element = memory.data() + i * byteWidth(type);
    double value = 0;
    if (isFloat(type)) {
      numeric::convertFromMemory(type, element, 1, Storage::F64, &value, 1);
      return value;
    }
    switch (type) {
    case ElementType::I64:
      return static_cast<double>(*reinterpret_cast<const int64_t *>(element));
    case ElementType::I32:
      return *reinterpret_cast<const int32_t *>(element);
    default:
      return *element;
    }
  }
  double get(int64_t i, int64_t j) const { return get(i * shape[1] + j); }

  ArrayArgument argument() {
    ArrayArgument array;
    array.type = type;
    array.shape = shape;
    array.strides.resize(shape.size());
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0; stride *= shape[d])
      array.strides[d] = stride;
    array.data = memory.data();
    return array;
  }

  ElementType type;
  llvm::SmallVector<int64_t> shape;
  int64_t count;
  std::vector<char> memory;
};

using Arguments = std::map<std::string, Argument>;

/// Runs kernels given as text and keeps their diagnostics.
class InterpreterTest : public testing::Test {
protected:
  InterpreterTest() : context(registry()) {
    context.printOpOnDiagnostic(false);
    context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
      messages += diagnostic.str() + "\n";
      for (mlir::Diagnostic &note : diagnostic.getNotes())
        messages += "note: " + note.str() + "\n";
    });
  }

  /// Runs the only entry of the module, and returns whether it succeeded.
  bool tryRun(const std::string &source, const Arguments &arguments,
              const RunOptions &options = {}) {
    messages.clear();
    mlir::OwningOpRef<mlir::ModuleOp> module =
        parseBuffer(context, llvm::MemoryBufferRef(source, "test.mlir"));
    if (!module)
      return false;
    mlir::Operation *entry = findEntry(*module);
    if (!entry)
      return false;
    llvm::StringMap<Argument> map;
    for (const auto &[name, argument] : arguments)
      map[name] = argument;
    return mlir::succeeded(runOnCpu(entry, map, options));
  }
  void run(const std::string &source, const Arguments &arguments, const RunOptions &options = {}) {
    EXPECT_TRUE(tryRun(source, arguments, options)) << messages;
  }
  /// Expects the run to fail with this text among its diagnostics.
  void expectError(const std::string &source, const Arguments &arguments,
                   const std::string &message, const RunOptions &options = {}) {
    EXPECT_FALSE(tryRun(source, arguments, options)) << "expected: " << message;
    EXPECT_NE(messages.find(message), std::string::npos) << messages << "expected: " << message;
  }

  mlir::MLIRContext context;
  std::string messages;

private:
  static mlir::DialectRegistry registry() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }
};

/// Replaces every $NAME in the text.
inline std::string substitute(std::string text, const std::map<std::string, std::string> &names) {
  for (const auto &[name, value] : names)
    for (size_t at; (at = text.find("$" + name)) != std::string::npos;)
      text.replace(at, name.size() + 1, value);
  return text;
}

inline void expectValue(double got, double expected, double tolerance, const std::string &what) {
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(got)) << what << ": " << got;
  else if (std::isinf(expected))
    EXPECT_EQ(got, expected) << what;
  else
    EXPECT_NEAR(got, expected, tolerance * (1 + std::abs(expected))) << what;
}

} // namespace tilewright

#endif // TILEWRIGHT_TEST_UNIT_INTERPRETERTESTING_H
