// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses the part of Python's syntax that headers use: strings, True and False, tuples of integers.

#include "base/Npy/NpyHeader.h"

#include <algorithm>

using namespace tilewright;

namespace {

constexpr size_t maxRank = 64; // limit of NumPy

Status failure(std::string message) { return Status::failure(std::move(message)); }

constexpr std::string_view spaces = " \n\t\r";

/// Text of a file in a message: short, printable and without spaces around it.
std::string quoted(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  text = text.substr(0, text.find_last_not_of(spaces) + 1);
  constexpr size_t limit = 40;
  std::string result = "'";
  for (char c : text.substr(0, limit))
    result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > limit ? "...'" : "'");
}

class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : whole(text), rest(text) {}

  Result<NpyHeader> parse() {
    if (!take('{'))
      return failure("the header must be a dictionary such as {'descr': '<f4', 'fortran_order': "
                     "False, 'shape': (3, 4)}, but got " +
                     quoted(whole));
    while (!take('}')) {
      if (Status status = parseEntry(); !status)
        return status;
      if (take(','))
        continue;
      if (!take('}'))
        return failure("expected ',' or '}' in the header, but got " + quoted(rest));
      break;
    }
    skipSpaces();
    if (!rest.empty())
      return failure("no text may follow the header's dictionary, but got " + quoted(rest));
    for (auto [has, key] : {std::pair(hasType, "descr"), std::pair(hasOrder, "fortran_order"),
                            std::pair(hasShape, "shape")})
      if (!has)
        return failure(std::string("the header must have the key '") + key +
                       "', but has none of this name");
    return header;
  }

private:
  void skipSpaces() { rest.remove_prefix(std::min(rest.find_first_not_of(spaces), rest.size())); }

  bool take(char c) {
    skipSpaces();
    if (rest.empty() || rest[0] != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }

  bool takeWord(std::string_view word) {
    skipSpaces();
    if (rest.substr(0, word.size()) != word)
      return false;
    rest.remove_prefix(word.size());
    return true;
  }

  /// A string in either quotes, without escapes.
  std::optional<std::string_view> takeString() {
    skipSpaces();
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"'))
      return std::nullopt;
    size_t end = rest.find(rest[0], 1);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string_view text = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    return text;
  }

  Status parseEntry() {
    std::string_view before = rest;
    std::optional<std::string_view> key = takeString();
    if (!key)
      return failure("a key of the header must be a string, but got " + quoted(before));
    if (!take(':'))
      return failure("expected ':' after the key " + quoted(*key) + ", but got " + quoted(rest));
    bool *seen = *key == "descr"           ? &hasType
                 : *key == "fortran_order" ? &hasOrder
                 : *key == "shape"         ? &hasShape
                                           : nullptr;
    if (!seen)
      return failure("the header's keys are 'descr', 'fortran_order' and 'shape', but got " +
                     quoted(*key));
    if (*seen)
      return failure("the keys of the header must differ, but got " + quoted(*key) + " twice");
    *seen = true;
    if (seen == &hasType)
      return parseType();
    return seen == &hasOrder ? parseOrder() : parseShape();
  }

  Status parseType() {
    skipSpaces();
    if (!rest.empty() && (rest[0] == '[' || rest[0] == '(' || rest[0] == '{'))
      return failure("structured types are not supported; save each field as a separate array");
    std::optional<std::string_view> text = takeString();
    if (!text)
      return failure("'descr' must be a string such as '<f4', but got " + quoted(rest));
    std::string_view name = *text;
    if (!name.empty() && (name[0] == '<' || name[0] == '>' || name[0] == '=' || name[0] == '|')) {
      header.isBigEndian = name[0] == '>';
      name.remove_prefix(1);
    }
    if (name == "?")
      name = "b1";
    for (unsigned i = 0; i <= unsigned(NpyType::Bool); ++i)
      if (npyTypeName(NpyType(i)) == name) {
        header.type = NpyType(i);
        return Status::success();
      }
    return failure("the dtype must be one of f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8 and b1, "
                   "but got " +
                   quoted(*text));
  }

  Status parseOrder() {
    header.isFortranOrder = takeWord("True");
    if (header.isFortranOrder || takeWord("False"))
      return Status::success();
    return failure("'fortran_order' must be True or False, but got " + quoted(rest));
  }

  Status parseShape() {
    std::string_view before = rest;
    if (!take('('))
      return failure("'shape' must be a tuple of integers, but got " + quoted(rest));
    while (!take(')')) {
      if (header.shape.size() == maxRank)
        return failure("'shape' must have at most " + std::to_string(maxRank) + " sizes, but got " +
                       quoted(before));
      bool isNegative = take('-');
      skipSpaces();
      if (rest.empty() || rest[0] < '0' || rest[0] > '9')
        return failure("'shape' must be a tuple of integers, but got " + quoted(before));
      int64_t size = 0;
      for (; !rest.empty() && rest[0] >= '0' && rest[0] <= '9'; rest.remove_prefix(1))
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, rest[0] - '0', &size))
          return failure("the sizes in 'shape' must be in 64 bits, but got " + quoted(before));
      if (isNegative && size != 0)
        return failure("the sizes in 'shape' must not be negative, but got -" +
                       std::to_string(size));
      if (!rest.empty() && rest[0] == 'L') // as written by Python 2
        rest.remove_prefix(1);
      header.shape.push_back(size);
      if (take(','))
        continue;
      if (!take(')'))
        return failure("'shape' must be a tuple of integers, but got " + quoted(before));
      break;
    }
    return Status::success();
  }

  std::string_view whole, rest;
  NpyHeader header;
  bool hasType = false, hasOrder = false, hasShape = false;
};

} // namespace

Result<NpyHeader> tilewright::parseNpyHeader(std::string_view text) {
  return HeaderParser(text).parse();
}

std::string tilewright::printNpyShape(const std::vector<int64_t> &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string tilewright::printNpyHeader(NpyType type, const std::vector<int64_t> &shape) {
  return std::string("{'descr': '") + (byteWidth(type) == 1 ? '|' : '<') +
         std::string(npyTypeName(type)) +
         "', 'fortran_order': False, 'shape': " + printNpyShape(shape) + ", }";
}
