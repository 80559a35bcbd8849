// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C interface of the compiler.

#include "lib/CompilerApi/tilewright-compiler.h"

#include "lib/Driver/BundleCache.h"

#include "mlir/IR/Diagnostics.h"
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

namespace {

/// A request of C in the terms of the compiler.
struct Request {
  BundleRequest wanted;
  std::string source, name, shipped;
};

tilewright_compile_code invalid(std::string text) {
  return fail(TILEWRIGHT_COMPILE_INVALID_ARGUMENT, std::move(text));
}

tilewright_compile_code nullPointer(const std::string &what) {
  return invalid(what + " must be a valid pointer, but got null");
}

/// Whether the caller's struct has the field that ends there.
bool hasField(const tilewright_compile_request &request, size_t end) {
  return request.struct_size >= end;
}
#define HAS_FIELD(request, field)                                                                  \
  hasField(request, offsetof(tilewright_compile_request, field) + sizeof((request).field))

tilewright_compile_code read(const tilewright_compile_request *given, Request &request) {
  if (given->struct_size < firstRequestSize)
    return invalid("struct_size of tilewright_compile_request must be at least " +
                   std::to_string(firstRequestSize) + ", but got " +
                   std::to_string(given->struct_size) + "; set it to sizeof of the struct");
  if (!given->source)
    return invalid("the request must have a source, but got null; give the text of a kernel file");
  for (auto [count, list, name] :
       {std::tuple<size_t, const void *, const char *>(given->num_params, given->params, "params"),
        {given->num_with, given->with, "with"},
        {given->num_targets, given->targets, "targets"}})
    if (count && !list)
      return nullPointer(std::string(name) + " of the request");
  request.source.assign(given->source, given->source_size);
  request.name = given->source_name ? given->source_name : "source";
  BundleRequest &wanted = request.wanted;
  if (given->entry)
    wanted.options.entry = given->entry;
  for (size_t i = 0; i < given->num_params; ++i) {
    const tilewright_compile_param &param = given->params[i];
    if (!param.name)
      return nullPointer("the name of a parameter of the request");
    if (!param.value)
      return nullPointer("the value of parameter '" + std::string(param.name) + "' of the request");
    wanted.options.params.emplace_back(param.name, param.value);
  }
  auto append = [](const char *const *list, size_t count, std::vector<std::string> &into) {
    for (size_t i = 0; i < count; ++i)
      if (list[i])
        into.push_back(list[i]);
    return into.size() == count;
  };
  if (!append(given->with, given->num_with, wanted.options.with))
    return nullPointer("a file of the request");
  if (!append(given->targets, given->num_targets, wanted.targets))
    return nullPointer("a target of the request");
  if (HAS_FIELD(*given, source_file) && given->source_file)
    wanted.options.source = given->source_file;
  if (HAS_FIELD(*given, device_minor) && given->device_major) {
    if (!Target::forDevice(given->device_major, given->device_minor) || given->device_minor < 0)
      return invalid("device_major and device_minor must be the compute capability of a device, " +
                     std::string(Target::getDefault().name) + " or later, but got " +
                     std::to_string(given->device_major) + "." +
                     std::to_string(given->device_minor));
    wanted.device = DeviceCapability{given->device_major, given->device_minor};
    if (HAS_FIELD(*given, device_shared_bytes))
      wanted.scope.sharedLimit = static_cast<int64_t>(given->device_shared_bytes);
  }
  if (HAS_FIELD(*given, preferred_only))
    wanted.scope.preferredOnly = given->preferred_only != 0;
  if (HAS_FIELD(*given, shipped_folder) && given->shipped_folder)
    request.shipped = given->shipped_folder;
  if (HAS_FIELD(*given, assembler) && given->assembler)
    setLastAssembler(given->assembler);
  if (HAS_FIELD(*given, sums) && given->sums)
    wanted.options.sums = given->sums;
  if (HAS_FIELD(*given, debug_ops))
    wanted.options.keepDebug = given->debug_ops != 0;
  return TILEWRIGHT_COMPILE_OK;
}

/// Calls compile(source, request, handler of diagnostics); of a failure, the first diagnostic
/// counts.
template <typename Compile>
tilewright_compile_code run(const Request &request, Compile compile, std::string &bytes) {
  std::string first;
  auto keep = [&](mlir::Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error && first.empty())
      first = describe(diagnostic.getLocation()) + diagnostic.str();
  };
  llvm::Expected<std::string> made =
      compile(llvm::MemoryBufferRef(request.source, request.name), keep);
  if (!made) {
    std::string text = llvm::toString(made.takeError());
    return fail(TILEWRIGHT_COMPILE_REFUSED, first.empty() ? text : first);
  }
  bytes = std::move(*made);
  return TILEWRIGHT_COMPILE_OK;
}

} // namespace

tilewright_compile_code tilewright_compile(const tilewright_compile_request *request, void **bundle,
                                           size_t *size) {
  lastError().clear();
  for (auto [pointer, name] : {std::pair<const void *, const char *>(request, "request"),
                               {bundle, "bundle"},
                               {size, "size"}})
    if (!pointer)
      return nullPointer(name);
  Request asked;
  if (tilewright_compile_code code = read(request, asked))
    return code;
  std::string bytes;
  auto compile = [&](llvm::MemoryBufferRef source, auto handler) {
    return compileOrFindBundle(source, asked.wanted, asked.shipped, handler);
  };
  if (tilewright_compile_code code = run(asked, compile, bytes))
    return code;
  void *copy = std::malloc(bytes.size());
  if (!copy)
    return fail(TILEWRIGHT_COMPILE_REFUSED, "there is no memory for the bundle");
  std::memcpy(copy, bytes.data(), bytes.size());
  *bundle = copy;
  *size = bytes.size();
  return TILEWRIGHT_COMPILE_OK;
}

tilewright_compile_code tilewright_compile_shipped(const tilewright_compile_request *request,
                                                   const char *folder) {
  lastError().clear();
  if (!request || !folder)
    return nullPointer(request ? "folder" : "request");
  if (!*folder)
    return invalid("folder must be a path, but got ''");
  Request asked;
  if (tilewright_compile_code code = read(request, asked))
    return code;
  std::string bytes;
  auto compile = [&](llvm::MemoryBufferRef source, auto handler) {
    return compileShippedBundle(source, asked.wanted, folder, handler);
  };
  return run(asked, compile, bytes);
}

void tilewright_compiler_free(void *bundle) { std::free(bundle); }
