// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiling and running kernels. The only file of these tests that knows MLIR.

#include "test/Acceptance/KernelCall.h"

#include "lib/Driver/Compiler.h"
#include "lib/Interpreter/CpuDevice.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace tilewright::acceptance {

namespace {

/// All kernels compiled so far.
class Compiler {
public:
  static Compiler &get() {
    static Compiler compiler;
    return compiler;
  }

  /// Null after an error.
  mlir::Operation *compile(const std::string &file, const Params &params,
                           const std::vector<std::string> &with) {
    std::string key = file;
    for (const auto &[name, value] : params)
      key += " " + name + "=" + value;
    for (const std::string &mod : with)
      key += " +" + mod;
    auto found = modules.find(key);
    if (found == modules.end()) {
      TilePipelineOptions options;
      options.params = params;
      for (const std::string &mod : with)
        options.with.push_back("kernels/" + mod + ".mlir");
      // Tests run in the root of the source tree, or of the unpacked package.
      found =
          modules.emplace(key, compileFile(context, "kernels/" + file + ".mlir", options)).first;
    }
    return found->second ? findEntry(*found->second) : nullptr;
  }

  std::string takeErrors() { return std::exchange(errors, ""); }

private:
  Compiler()
      : context(makeRegistry(), mlir::MLIRContext::Threading::DISABLED),
        handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
            llvm::raw_string_ostream os(errors);
            os << diagnostic.getLocation() << ": " << diagnostic << '\n';
          }
          return mlir::success();
        }) {}

  static mlir::DialectRegistry makeRegistry() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }

  mlir::MLIRContext context;
  std::string errors;
  mlir::ScopedDiagnosticHandler handler;
  std::map<std::string, mlir::OwningOpRef<mlir::ModuleOp>> modules;
};

ArrayArgument argumentOf(const StridedArray &array) {
  ArrayArgument argument;
  argument.type = array.type();
  argument.shape.assign(array.shape().begin(), array.shape().end());
  argument.strides.assign(array.strides().begin(), array.strides().end());
  argument.data = array.data();
  return argument;
}

} // namespace

ElementType elementType(reference::Type type) {
  return *parseElementType(reference::typeName(type));
}

ElementType accumulatorType(reference::Type type) {
  return type == reference::Type::F64 ? ElementType::F64 : ElementType::F32;
}

KernelCall::KernelCall(std::string file, Params params, std::vector<std::string> with)
    : file(std::move(file)), params(std::move(params)), with(std::move(with)) {}

void KernelCall::input(const std::string &name, ElementType type, std::vector<int64_t> shape,
                       const std::vector<double> &values, Layout layout) {
  StridedArray array(type, std::move(shape), std::move(layout));
  array.write(values);
  std::vector<uint8_t> given = array.readBytes();
  arrays.insert_or_assign(name, Bound{std::move(array), true, std::move(given)});
}

void KernelCall::integers(const std::string &name, std::vector<int64_t> shape,
                          const std::vector<int64_t> &values, ElementType type) {
  StridedArray array(type, std::move(shape));
  array.write(values);
  std::vector<uint8_t> given = array.readBytes();
  arrays.insert_or_assign(name, Bound{std::move(array), true, std::move(given)});
}

void KernelCall::output(const std::string &name, ElementType type, std::vector<int64_t> shape,
                        Layout layout) {
  arrays.insert_or_assign(
      name, Bound{StridedArray(type, std::move(shape), std::move(layout)), false, {}});
}

void KernelCall::scalar(const std::string &name, double value) { scalars[name] = value; }

void KernelCall::integer(const std::string &name, int64_t value) { integerScalars[name] = value; }

const StridedArray &KernelCall::array(const std::string &name) const {
  auto found = arrays.find(name);
  if (found == arrays.end()) {
    std::fprintf(stderr, "the test reads '%s', which it did not bind\n", name.c_str());
    std::abort();
  }
  return found->second.array;
}

bool KernelCall::runTwice() {
  if (!run())
    return false;
  std::map<std::string, std::vector<uint8_t>> first;
  for (const auto &[name, bound] : arrays)
    if (!bound.isInput)
      first[name] = bound.array.readBytes();
  RunSettings settings;
  settings.threads = 3;
  if (!run(settings))
    return false;
  for (const auto &[name, bytes] : first)
    if (bytes != readBytes(name)) {
      ADD_FAILURE() << file << " gives '" << name << "' other bits in a second run";
      return false;
    }
  return true;
}

bool KernelCall::run(RunSettings settings) {
  Compiler &compiler = Compiler::get();
  mlir::Operation *entry = compiler.compile(file, params, with);
  if (!entry) {
    ADD_FAILURE() << file << " does not compile: " << compiler.takeErrors();
    return false;
  }
  llvm::StringMap<Argument> arguments;
  for (auto &[name, bound] : arrays) {
    if (!bound.isInput)
      bound.array.clear();
    arguments[name] = argumentOf(bound.array);
  }
  for (const auto &[name, value] : scalars)
    arguments[name] = value;
  for (const auto &[name, value] : integerScalars)
    arguments[name] = value;
  RunOptions options;
  options.threads = settings.threads;
  options.f64 = settings.f64;
  if (mlir::failed(runOnCpu(entry, arguments, options))) {
    ADD_FAILURE() << file << " does not run: " << compiler.takeErrors();
    return false;
  }

  bool ok = true;
  for (const auto &[name, bound] : arrays) {
    if (int64_t gap = bound.array.buffer().findWrittenGap(); gap >= 0) {
      ADD_FAILURE() << file << " wrote between the elements of '" << name << "', at byte " << gap;
      ok = false;
    }
    if (bound.isInput && bound.array.readBytes() != bound.given) {
      ADD_FAILURE() << file << " changed its input '" << name << "'";
      ok = false;
    }
  }
  return ok;
}

} // namespace tilewright::acceptance
