// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Text from outside, before MLIR's parser gets it.

#include "dialect/Tile/TextInput.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace tilewright;

/// MLIR's parser and printer recurse; each level costs them up to about a kilobyte of stack.
static constexpr unsigned maxNesting = 256;
static constexpr unsigned maxDigits = 1024;
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
  if (text.size() > maxText)
    return failure("a file to be parsed may have at most " + Twine(maxText >> 20) +
                   " MiB, but this one has more");
  return llvm::MemoryBuffer::getMemBufferCopy(text, path == "-" ? "<stdin>" : path);
}

std::optional<TextFault> tilewright::findTextFault(StringRef text) {
  auto tooDeep = [&](const char *at) {
    return TextFault{size_t(at - text.begin()),
                     ("brackets may nest " + Twine(maxNesting) + " deep but got more").str()};
  };
  unsigned depth = 0, signs = 0;
  for (const char *c = text.begin(); c != text.end(); ++c) {
    if (*c == '-') {
      if (++signs > maxNesting)
        return tooDeep(c);
    } else if (!llvm::isSpace(*c)) {
      signs = 0;
    }
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
