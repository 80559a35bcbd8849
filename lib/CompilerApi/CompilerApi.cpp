// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface of the compiler.

#include "lib/CompilerApi/tilewright-compiler.h"

#include "lib/Driver/BundleRequest.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>

using namespace tilewright;

namespace {

/// The size of a request in the first version of this ABI, as in runtime/CApiSupport.h.
constexpr size_t firstRequestSize = 88;
static_assert(firstRequestSize <= sizeof(tilewright_compile_request));

std::string &lastError() {
  thread_local std::string text;
  return text;
}

tilewright_compile_code fail(tilewright_compile_code code, std::string text) {
  lastError() = std::move(text);
  return code;
}

/// "file:3:1: ", if the location is known.
std::string describe(mlir::Location location) {
  std::string text;
  if (auto place = location->findInstanceOf<mlir::FileLineColLoc>())
    llvm::raw_string_ostream(text) << place.getFilename().getValue() << ':' << place.getLine()
                                   << ':' << place.getColumn() << ": ";
  return text;
}

} // namespace

const char *tilewright_compiler_last_error(void) { return lastError().c_str(); }

tilewright_compile_code tilewright_compile(const tilewright_compile_request *request, void **bundle,
                                           size_t *size) {
  lastError().clear();
  auto invalid = [](std::string text) {
    return fail(TILEWRIGHT_COMPILE_INVALID_ARGUMENT, std::move(text));
  };
  if (!request || !bundle || !size)
    return invalid("request, bundle and size must not be null");
  if (request->struct_size < firstRequestSize)
    return invalid("struct_size of tilewright_compile_request is " +
                   std::to_string(request->struct_size) + ", less than " +
                   std::to_string(firstRequestSize));
  if (!request->source)
    return invalid("the request has no source");
  if ((request->num_params && !request->params) || (request->num_with && !request->with) ||
      (request->num_targets && !request->targets))
    return invalid("a list of the request has a count, but is null");

  BundleRequest wanted;
  if (request->entry)
    wanted.options.entry = request->entry;
  for (size_t i = 0; i < request->num_params; ++i) {
    const tilewright_compile_param &param = request->params[i];
    if (!param.name || !param.value)
      return invalid("a parameter of the request has no name or no value");
    wanted.options.params.emplace_back(param.name, param.value);
  }
  auto append = [](const char *const *list, size_t count, std::vector<std::string> &into) {
    for (size_t i = 0; i < count; ++i)
      if (list[i])
        into.push_back(list[i]);
    return into.size() == count;
  };
  if (!append(request->with, request->num_with, wanted.options.with) ||
      !append(request->targets, request->num_targets, wanted.targets))
    return invalid("a file or target of the request is null");

  constexpr size_t withSourceFile =
      offsetof(tilewright_compile_request, source_file) + sizeof(request->source_file);
  if (request->struct_size >= withSourceFile && request->source_file)
    wanted.options.source = request->source_file;

  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  std::string first;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && first.empty())
      first = describe(diagnostic.getLocation()) + diagnostic.str();
    return mlir::success();
  });
  llvm::MemoryBufferRef source(llvm::StringRef(request->source, request->source_size),
                               request->source_name ? request->source_name : "source");
  llvm::Expected<std::string> bytes = compileBundle(context, source, wanted);
  if (!bytes) {
    std::string text = llvm::toString(bytes.takeError());
    return fail(TILEWRIGHT_COMPILE_REFUSED, first.empty() ? text : first);
  }
  void *copy = std::malloc(bytes->size());
  if (!copy)
    return fail(TILEWRIGHT_COMPILE_REFUSED, "there is no memory for the bundle");
  std::memcpy(copy, bytes->data(), bytes->size());
  *bundle = copy;
  *size = bytes->size();
  return TILEWRIGHT_COMPILE_OK;
}

void tilewright_compiler_free(void *bundle) { std::free(bundle); }
