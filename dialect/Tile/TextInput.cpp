// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text from outside, before MLIR's parser gets it.

#include "dialect/Tile/TextInput.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace tilewright;

/// MLIR's parser and printer recurse; each level costs them up to about a kilobyte of stack.
static constexpr unsigned maxNesting = 256;
static constexpr unsigned maxDigits = 1024;
/// For each use of a value the parser makes room for all results up to that number.
static constexpr uint64_t maxResults = 65536;
static constexpr size_t maxText = size_t(64) << 20;

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> tilewright::readText(StringRef path) {
  auto failure = [](const Twine &message) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
  };
  llvm::sys::fs::file_t file = llvm::sys::fs::getStdinHandle();
  if (path != "-") {
    auto opened = llvm::sys::fs::openNativeFileForRead(path);
    if (!opened)
      return opened.takeError();
    file = *opened;
  }
  auto close = [&] {
    if (path != "-")
      (void)llvm::sys::fs::closeFile(file);
  };
  std::string text;
  while (text.size() <= maxText) {
    constexpr size_t step = size_t(1) << 16;
    size_t have = text.size();
    text.resize(have + step);
    llvm::Expected<size_t> got = llvm::sys::fs::readNativeFile(file, {text.data() + have, step});
    if (!got) {
      close();
      return got.takeError();
    }
    text.resize(have + *got);
    if (*got == 0)
      break;
  }
  close();
  // The first bytes of a bundle (runtime/Bundle.h), where the parser would report some character.
  if (StringRef(text).starts_with("TWBUNDLE"))
    return failure(
        "a file to be parsed must be text, but this one is a bundle; give the .mlir file "
        "that it was compiled from, or launch the bundle by the runtime");
  if (text.size() > maxText)
    return failure("a file to be parsed may have at most " + Twine(maxText >> 20) +
                   " MiB, but this one has more");
  return llvm::MemoryBuffer::getMemBufferCopy(text, path == "-" ? "<stdin>" : path);
}

/// The size of an alias (#name or !name): its nesting, and the number of its attributes and types
/// after expansion of all aliases. Text without a bracket can nest through aliases; a chain of
/// aliases, each of which uses the previous one twice, takes exponential time to traverse.
namespace {
class AliasSizes {
public:
  static constexpr uint64_t mostValues = uint64_t(1) << 20;

  /// A character that is no space; `depth` counts the brackets around it.
  void see(char c, unsigned depth) {
    isBehindSign = last == '=' || last == ':' || isArrow;
    bool continues = isBehindSign || c == ':' || c == '-';
    if (depth == 0 && isNewLine && !continues)
      current = nullptr;
    isArrow = last == '-' && c == '>';
    isNewLine = false;
    last = c;
  }
  void seeNewLine() { isNewLine = true; }

  /// The error of "#name" or "!name" at the beginning of `rest`, or null.
  const char *seeName(StringRef rest, unsigned depth) {
    auto isWord = [](char c) { return llvm::isAlnum(c) || c == '_' || c == '$'; };
    StringRef name = rest.take_front(1 + rest.drop_front().take_while(isWord).size());
    StringRef behind = rest.drop_front(name.size());
    if (name.size() == 1 || behind.starts_with(".") || behind.starts_with("<"))
      return nullptr; // of a dialect
    behind = behind.ltrim();
    // Not the type of a function that is a formula, "-> !acc = ...".
    if (depth == 0 && !isBehindSign && behind.starts_with("=") && !behind.starts_with("==")) {
      current = &aliases[name];
      *current = {0, 1};
      return nullptr;
    }
    auto used = aliases.find(name);
    if (used == aliases.end() || &used->second == current)
      return nullptr;
    Shape shape = used->second;
    shape.depth += depth + 1;
    values = llvm::SaturatingAdd(values, shape.values);
    if (current) {
      current->depth = std::max(current->depth, shape.depth);
      current->values = llvm::SaturatingAdd(current->values, shape.values);
    }
    if (shape.depth > maxNesting)
      return "aliases may be nested 256 levels deep but got more";
    return values > mostValues ? "aliases may stand for 1048576 values but got more" : nullptr;
  }

private:
  struct Shape {
    unsigned depth = 0;
    uint64_t values = 1;
  };
  llvm::StringMap<Shape> aliases;
  Shape *current = nullptr; // whose definition this is
  uint64_t values = 0;
  char last = 0;
  bool isNewLine = false, isArrow = false, isBehindSign = false;
};
} // namespace

/// The error in the number of a value that begins at a '%', such as %a#1 or %a:2.
static std::optional<TextFault> findResultFault(StringRef text, size_t at) {
  auto isName = [](char c) {
    return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.' || c == '-';
  };
  StringRef rest = text.drop_front(at + 1);
  size_t nameBytes = rest.take_while(isName).size();
  rest = rest.drop_front(nameBytes);
  if (!rest.consume_front("#") && !rest.consume_front(":"))
    return std::nullopt;
  StringRef digits = rest.take_while(llvm::isDigit);
  uint64_t number = 0;
  if (digits.empty() || (!digits.getAsInteger(10, number) && number <= maxResults))
    return std::nullopt;
  return TextFault{at + 1 + nameBytes, ("an operation may have " + Twine(maxResults) +
                                        " results but got number " + digits.take_front(40))
                                           .str()};
}

std::optional<TextFault> tilewright::findTextFault(StringRef text) {
  auto tooDeep = [&](const char *at) {
    return TextFault{size_t(at - text.begin()),
                     ("brackets are nested deeper than " + Twine(maxNesting)).str()};
  };
  unsigned depth = 0, signs = 0;
  AliasSizes aliases;
  for (const char *c = text.begin(); c != text.end(); ++c) {
    if (*c == '-') {
      if (++signs > maxNesting)
        return tooDeep(c);
    } else if (!llvm::isSpace(*c)) {
      signs = 0;
    }
    if (!llvm::isSpace(*c) && !(*c == '/' && text.substr(c - text.begin()).starts_with("//")))
      aliases.see(*c, depth);
    else if (*c == '\n' || *c == '/')
      aliases.seeNewLine();
    if (llvm::isDigit(*c)) {
      const char *begin = c;
      // The digits of a hexadecimal number, too: a long word of letters is none of ours.
      while (c + 1 != text.end() && llvm::isAlnum(c[1]))
        ++c;
      if (c - begin >= maxDigits)
        return TextFault{size_t(begin - text.begin()), ("a number may have " + Twine(maxDigits) +
                                                        " digits but got " + Twine(c - begin + 1))
                                                           .str()};
      continue;
    }
    switch (*c) {
    case '%':
      if (std::optional<TextFault> fault = findResultFault(text, size_t(c - text.begin())))
        return fault;
      break;
    case '#':
    case '!':
      if (const char *wrong = aliases.seeName(text.substr(c - text.begin()), depth))
        return TextFault{size_t(c - text.begin()), wrong};
      break;
    case '"':
      for (++c; c != text.end() && *c != '"' && *c != '\n'; ++c)
        if (*c == '\\' && c + 1 != text.end())
          ++c;
      break;
    case '/':
      if (c + 1 != text.end() && c[1] == '/')
        while (c != text.end() && *c != '\n')
          ++c;
      break;
    case '(':
    case '[':
    case '{':
    case '<':
      if (++depth > maxNesting)
        return tooDeep(c);
      break;
    case ')':
    case ']':
    case '}':
      depth -= depth != 0;
      break;
    case '>':
      if (c == text.begin() || c[-1] != '-') // not an arrow
        depth -= depth != 0;
      break;
    default:
      break;
    }
    if (c == text.end())
      break;
  }
  return std::nullopt;
}

LogicalResult tilewright::checkText(MLIRContext &context, llvm::MemoryBufferRef buffer) {
  StringRef text = buffer.getBuffer();
  std::optional<TextFault> fault = findTextFault(text);
  if (!fault)
    return success();
  StringRef before = text.take_front(fault->offset);
  return emitError(FileLineColLoc::get(&context, buffer.getBufferIdentifier(),
                                       before.count('\n') + 1,
                                       before.size() - (before.rfind('\n') + 1) + 1))
         << fault->message;
}
