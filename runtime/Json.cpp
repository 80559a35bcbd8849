// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading and writing of JSON.

#include "runtime/Json.h"

#include <charconv>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

/// A control character in a string.
std::string escapeOf(char c) {
  static const char hex[] = "0123456789abcdef";
  return std::string("\\u00") + hex[c >> 4] + hex[c & 15];
}

class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  Result<Json> parseDocument() {
    Json value;
    if (Status status = parseValue(value, 0); !status)
      return status;
    skipSpace();
    if (at != text.size())
      return expected("the end of the text after the value");
    return value;
  }

private:
  Status fail(const std::string &what) const {
    return Status::failure(Code::BadBundle,
                           "malformed JSON at offset " + std::to_string(at) + ": " + what);
  }
  /// What the text has at `begin`; control characters are written as their escapes.
  std::string found(size_t begin) const {
    constexpr size_t limit = 20;
    if (begin >= text.size())
      return "the end of the text";
    std::string quoted;
    for (char c : text.substr(begin, limit))
      quoted += static_cast<unsigned char>(c) < 0x20 ? escapeOf(c) : std::string(1, c);
    return "'" + quoted + (text.size() - begin > limit ? "..." : "") + "'";
  }
  Status expected(const std::string &what, size_t begin) const {
    return fail("expected " + what + ", but got " + found(begin));
  }
  Status expected(const std::string &what) const { return expected(what, at); }
  /// `what` says which part has a limit of `limit` of what it counts, and `got` how it exceeds it.
  Status overLimit(const std::string &what, size_t limit, const std::string &counted,
                   const std::string &got) const {
    return fail(what + " must have at most " + std::to_string(limit) + " " + counted +
                ", but got " + got);
  }
  void skipSpace() {
    while (at < text.size() &&
           (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
      ++at;
  }
  bool consume(std::string_view token) {
    if (text.substr(at, token.size()) != token)
      return false;
    at += token.size();
    return true;
  }

  Status parseValue(Json &value, int depth) {
    skipSpace();
    if (depth > JsonLimits::depth)
      return overLimit("a text", JsonLimits::depth, "levels of nesting",
                       "level " + std::to_string(depth));
    if (++numValues > JsonLimits::values)
      return overLimit("a text", JsonLimits::values, "values",
                       "value " + std::to_string(numValues));
    if (at == text.size())
      return expected("a value");
    char c = text[at];
    if (c == '{')
      return parseObject(value, depth);
    if (c == '[')
      return parseArray(value, depth);
    if (c == '"') {
      value.kind = Json::Kind::String;
      return parseString(value.text);
    }
    if (c == '-' || (c >= '0' && c <= '9'))
      return parseNumber(value);
    if (consume("null"))
      return Status::success();
    if (consume("true") || consume("false")) {
      value = Json::flag(c == 't');
      return Status::success();
    }
    return expected("a value");
  }

  Status parseObject(Json &value, int depth) {
    value.kind = Json::Kind::Object;
    ++at;
    skipSpace();
    if (consume("}"))
      return Status::success();
    while (true) {
      skipSpace();
      if (at == text.size() || text[at] != '"')
        return expected("a key, which is a string");
      std::string key;
      if (Status status = parseString(key); !status)
        return status;
      if (value.find(key))
        return fail("the keys of an object must differ, but got '" + key + "' twice");
      if (value.members.size() == JsonLimits::members)
        return overLimit("an object", JsonLimits::members, "members", "'" + key + "' as well");
      skipSpace();
      if (!consume(":"))
        return expected("':' after a key");
      value.members.emplace_back(std::move(key), Json());
      if (Status status = parseValue(value.members.back().second, depth + 1); !status)
        return status;
      skipSpace();
      if (consume("}"))
        return Status::success();
      if (!consume(","))
        return expected("',' or '}' after a member of an object");
    }
  }

  Status parseArray(Json &value, int depth) {
    value.kind = Json::Kind::Array;
    ++at;
    skipSpace();
    if (consume("]"))
      return Status::success();
    while (true) {
      value.items.emplace_back();
      if (Status status = parseValue(value.items.back(), depth + 1); !status)
        return status;
      skipSpace();
      if (consume("]"))
        return Status::success();
      if (!consume(","))
        return expected("',' or ']' after an item of an array");
    }
  }

  Status parseNumber(Json &value) {
    size_t begin = at;
    auto digits = [&] {
      size_t first = at;
      while (at < text.size() && text[at] >= '0' && text[at] <= '9')
        ++at;
      return at - first;
    };
    consume("-");
    size_t first = at;
    size_t count = digits();
    if (count == 0)
      return expected("a digit");
    if (count > 1 && text[first] == '0')
      return fail("a number must not begin with a zero before other digits, but got '" +
                  std::string(text.substr(begin, at - begin)) + "'");
    bool isInteger = true;
    if (consume(".")) {
      isInteger = false;
      if (digits() == 0)
        return expected("a digit");
    }
    if (consume("e") || consume("E")) {
      isInteger = false;
      if (!consume("+"))
        consume("-");
      if (digits() == 0)
        return expected("a digit");
    }
    const char *from = text.data() + begin, *to = text.data() + at;
    value.kind = isInteger ? Json::Kind::Integer : Json::Kind::Real;
    std::errc error = isInteger ? std::from_chars(from, to, value.number).ec
                                : std::from_chars(from, to, value.real).ec;
    if (error != std::errc())
      return fail(std::string("a number must be in the range of ") + (isInteger ? "i64" : "f64") +
                  ", but got '" + std::string(text.substr(begin, at - begin)) + "'");
    return Status::success();
  }

  Status parseHex(unsigned &code) {
    code = 0;
    const size_t begin = at;
    for (int i = 0; i < 4; ++i, ++at) {
      char c = at < text.size() ? text[at] : '\0';
      unsigned digit;
      if (c >= '0' && c <= '9')
        digit = c - '0';
      else if ((c | 32) >= 'a' && (c | 32) <= 'f')
        digit = (c | 32) - 'a' + 10;
      else
        return expected("four hexadecimal digits after \\u", begin);
      code = code << 4 | digit;
    }
    return Status::success();
  }

  Status expectedPair(size_t begin) const {
    return expected("two \\u escapes for a surrogate pair, the high one first", begin);
  }

  Status parseEscape(std::string &out) {
    const size_t begin = at - 1;
    char c = at < text.size() ? text[at++] : '\0';
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    if (size_t i = letters.find(c); i != std::string_view::npos) {
      out += meanings[i];
      return Status::success();
    }
    if (c != 'u')
      return expected("an escape, which is \\u or a backslash with one of \" \\ / b f n r t",
                      begin);
    unsigned code;
    if (Status status = parseHex(code); !status)
      return status;
    if (code >= 0xd800 && code < 0xe000) {
      unsigned low = 0;
      if (code >= 0xdc00 || !consume("\\u"))
        return expectedPair(begin);
      if (Status status = parseHex(low); !status)
        return status;
      if (low < 0xdc00 || low >= 0xe000)
        return expectedPair(begin);
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code < 0x80) {
      out += char(code);
    } else if (code < 0x800) {
      out += char(0xc0 | code >> 6);
      out += char(0x80 | (code & 63));
    } else if (code < 0x10000) {
      out += char(0xe0 | code >> 12);
      out += char(0x80 | (code >> 6 & 63));
      out += char(0x80 | (code & 63));
    } else {
      out += char(0xf0 | code >> 18);
      out += char(0x80 | (code >> 12 & 63));
      out += char(0x80 | (code >> 6 & 63));
      out += char(0x80 | (code & 63));
    }
    return Status::success();
  }

  Status parseString(std::string &out) {
    const size_t begin = ++at;
    while (at < text.size()) {
      char c = text[at];
      if (static_cast<unsigned char>(c) < 0x20)
        return fail("a control character in a string must be an escape, but got byte " +
                    std::to_string(int(c)) + "; write " + escapeOf(c));
      ++at;
      if (c == '"')
        return Status::success();
      if (c != '\\')
        out += c;
      else if (Status status = parseEscape(out); !status)
        return status;
      if (out.size() > JsonLimits::stringBytes)
        return overLimit("a string", JsonLimits::stringBytes, "bytes",
                         "one that begins with " + found(begin));
    }
    return expected("a quotation mark at the end of a string");
  }

  std::string_view text;
  size_t at = 0, numValues = 0;
};

void writeString(std::string &out, const std::string &text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += escapeOf(c);
    } else {
      out += c;
    }
  }
  out += '"';
}

void writeValue(std::string &out, const Json &value) {
  switch (value.kind) {
  case Json::Kind::Null:
    out += "null";
    return;
  case Json::Kind::Flag:
    out += value.truth ? "true" : "false";
    return;
  case Json::Kind::Integer:
    out += std::to_string(value.number);
    return;
  case Json::Kind::Real: {
    char buffer[40];
    std::string_view digits(
        buffer, size_t(std::to_chars(buffer, buffer + sizeof(buffer), value.real).ptr - buffer));
    out += digits;
    if (digits.find_first_of(".e") == std::string_view::npos)
      out += ".0"; // remains a real, also where it is -0
    return;
  }
  case Json::Kind::String:
    return writeString(out, value.text);
  case Json::Kind::Array:
    out += '[';
    for (size_t i = 0; i < value.items.size(); ++i) {
      out += i ? "," : "";
      writeValue(out, value.items[i]);
    }
    out += ']';
    return;
  case Json::Kind::Object:
    out += '{';
    for (size_t i = 0; i < value.members.size(); ++i) {
      out += i ? "," : "";
      writeString(out, value.members[i].first);
      out += ':';
      writeValue(out, value.members[i].second);
    }
    out += '}';
    return;
  }
}

} // namespace

Json Json::flag(bool value) {
  Json json;
  json.kind = Kind::Flag;
  json.truth = value;
  return json;
}

Json Json::integer(int64_t value) {
  Json json;
  json.kind = Kind::Integer;
  json.number = value;
  return json;
}

Json Json::floating(double value) {
  Json json;
  json.kind = Kind::Real;
  json.real = value;
  return json;
}

Json Json::string(std::string value) {
  Json json;
  json.kind = Kind::String;
  json.text = std::move(value);
  return json;
}

Json Json::array(std::vector<Json> items) {
  Json json;
  json.kind = Kind::Array;
  json.items = std::move(items);
  return json;
}

Json Json::object() {
  Json json;
  json.kind = Kind::Object;
  return json;
}

const Json *Json::find(std::string_view name) const {
  for (const auto &member : members)
    if (member.first == name)
      return &member.second;
  return nullptr;
}

Json &Json::set(std::string name, Json value) {
  members.emplace_back(std::move(name), std::move(value));
  return *this;
}

std::string Json::write() const {
  std::string out;
  writeValue(out, *this);
  return out;
}

std::string Json::quote() const {
  constexpr size_t limit = 200;
  std::string text = write();
  return text.size() > limit ? text.substr(0, limit) + "..." : text;
}

Result<Json> Json::parse(std::string_view text) { return Parser(text).parseDocument(); }
