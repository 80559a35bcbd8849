// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: parse, verify and specialise. Any text may be refused; none may crash.
//
// Parameters without a default are bound to the first value that they allow, so that the fuzzer reaches the passes.
// Mutation is by token more often than by byte: most changes of single bytes end in the lexer.

#include "dialect/Tile/Tile.h"
#include "lib/Driver/Compiler.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/LogicalResult.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

using llvm::StringRef;

/// Values for the parameters that must be bound. Mutated modules declare others than the kernels do, so
/// they come from the declaration and not from a list.
tilewright::TilePipelineOptions chooseOptions(mlir::Operation *entry) {
  using namespace tilewright::tile;
  tilewright::TilePipelineOptions options;
  for (auto param : Signature(entry).params.getAsRange<ParamDeclAttr>()) {
    if (param.getDefaultValue())
      continue;
    std::string value;
    ExprAttr allowed = param.getAllowed().empty() ? ExprAttr() : param.getAllowed().front();
    switch (param.getKind()) {
    case ParamKind::Int:
      value = std::to_string(allowed ? allowed.getValue() : 64);
      break;
    case ParamKind::Flag:
      value = "true";
      break;
    case ParamKind::Enum:
    case ParamKind::Type:
      value = allowed ? allowed.getName().str() : "f16";
      break;
    }
    options.params.emplace_back(param.getName().str(), value);
  }
  return options;
}

/// Words, numbers, runs of space and single characters; together they are the text again.
std::vector<std::string> tokenize(StringRef text) {
  auto classOf = [](char c) {
    if (llvm::isAlnum(c) || c == '_' || c == '.')
      return 1;
    return llvm::isSpace(c) ? 2 : 0;
  };
  std::vector<std::string> tokens;
  int previous = 0;
  for (char c : text) {
    int current = classOf(c);
    if (current != 0 && current == previous)
      tokens.back() += c;
    else
      tokens.emplace_back(1, c);
    previous = current;
  }
  return tokens;
}

std::string mutateTokens(StringRef text, unsigned seed) {
  static const char *const numbers[] = {"0", "1", "-1", "7", "64", "2147483647", "2147483648",
                                        "9223372036854775807", "1.0e+38", "0xFFFFFFFFFFFFFFFFF"};
  std::minstd_rand random(seed);
  std::vector<std::string> tokens = tokenize(text);
  unsigned changes = 1 + random() % 3;
  for (unsigned i = 0; i < changes && !tokens.empty(); ++i) {
    size_t to = random() % tokens.size(), from = random() % tokens.size();
    switch (random() % 6) {
    case 0:
      tokens[to] = tokens[from];
      break;
    case 1:
      std::swap(tokens[to], tokens[from]);
      break;
    case 2:
      tokens.erase(tokens.begin() + to);
      break;
    case 3:
      tokens.insert(tokens.begin() + to, std::string(tokens[from]));
      break;
    case 4: { // another number
      auto digit = [](const std::string &token) { return llvm::isDigit(token.front()); };
      auto number = std::find_if(tokens.begin() + to, tokens.end(), digit);
      if (number != tokens.end())
        *number = numbers[random() % (sizeof(numbers) / sizeof(*numbers))];
      break;
    }
    case 5: { // a line gone, or twice
      auto isLineEnd = [](const std::string &token) { return token.find('\n') != std::string::npos; };
      auto first = std::find_if(tokens.begin() + to, tokens.end(), isLineEnd);
      auto last = first == tokens.end() ? first : std::find_if(first + 1, tokens.end(), isLineEnd);
      std::vector<std::string> line(first, last);
      if (random() % 2)
        tokens.erase(first, last);
      else
        tokens.insert(last, line.begin(), line.end());
      break;
    }
    }
  }
  return llvm::join(tokens, "");
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize,
                                          unsigned seed) {
  if (seed % 4 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text = mutateTokens(StringRef(reinterpret_cast<char *>(data), size), seed / 4);
  size_t newSize = std::min(text.size(), maxSize);
  std::memcpy(data, text.data(), newSize);
  return newSize;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StringRef text(reinterpret_cast<const char *>(data), size);
  mlir::DialectRegistry registry;
  tilewright::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  // Diagnostics are built, since that is code too, and dropped.
  unsigned errors = 0;
  context.getDiagEngine().registerHandler([&](mlir::Diagnostic &diagnostic) {
    std::string message = diagnostic.str();
    errors += diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error;
    return mlir::success();
  });
  llvm::MemoryBufferRef buffer(text, "fuzz.mlir");
  mlir::OwningOpRef<mlir::ModuleOp> module = tilewright::parseBuffer(context, buffer);
  if (module) {
    tilewright::TilePipelineOptions options;
    if (mlir::Operation *entry = tilewright::findEntry(*module))
      options = chooseOptions(entry);
    module = tilewright::compileBuffer(context, buffer, options);
  }
  // The contract of both: a failure has a reason.
  if (!module && errors == 0)
    __builtin_trap();
  return 0;
}
