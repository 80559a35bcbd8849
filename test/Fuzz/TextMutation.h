// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mutation of .mlir text by token, shared by the fuzz targets that parse: most changes of single
// bytes fail in the lexer.

#ifndef TILEWRIGHT_TEST_FUZZ_TEXTMUTATION_H
#define TILEWRIGHT_TEST_FUZZ_TEXTMUTATION_H

#include "llvm/ADT/StringExtras.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace tilewright::fuzzing {

/// Words, numbers, whitespace and single characters; their concatenation is the text.
inline std::vector<std::string> tokenize(llvm::StringRef text) {
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

inline std::string mutateTokens(llvm::StringRef text, unsigned seed) {
  static const char *const numbers[] = {"0",          "1",
                                        "-1",         "7",
                                        "64",         "2147483647",
                                        "2147483648", "9223372036854775807",
                                        "1.0e+38",    "0xFFFFFFFFFFFFFFFFF"};
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
    case 4: { // replace a number
      auto digit = [](const std::string &token) { return llvm::isDigit(token.front()); };
      auto number = std::find_if(tokens.begin() + to, tokens.end(), digit);
      if (number != tokens.end())
        *number = numbers[random() % (sizeof(numbers) / sizeof(*numbers))];
      break;
    }
    case 5: { // remove or duplicate a line
      auto isLineEnd = [](const std::string &token) {
        return token.find('\n') != std::string::npos;
      };
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

/// Every fourth input is changed by bytes.
inline size_t mutateText(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  if (seed % 4 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::string text = mutateTokens(llvm::StringRef(reinterpret_cast<char *>(data), size), seed / 4);
  size_t newSize = std::min(text.size(), maxSize);
  std::memcpy(data, text.data(), newSize);
  return newSize;
}

} // namespace tilewright::fuzzing

#endif // TILEWRIGHT_TEST_FUZZ_TEXTMUTATION_H
