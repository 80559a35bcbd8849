// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading and writing of JSON.

#include "runtime/Json.h"

#include <charconv>

using namespace tilewright;
using namespace tilewright::runtime;

namespace {

class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  Result<Json> parseDocument() {
    Json value;
    if (Status status = parseValue(value, 0); !status)
      return status;
    skipSpace();
    if (at != text.size())
      return fail("text after the end");
    return value;
  }

private:
  Status fail(const std::string &what) const {
    return Status::failure(Code::BadBundle,
                           "malformed JSON at offset " + std::to_string(at) + ": " + what);
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
      return fail("more than " + std::to_string(JsonLimits::depth) + " levels of nesting");
    if (++numValues > JsonLimits::values)
      return fail("more than " + std::to_string(JsonLimits::values) + " values");
    if (at == text.size())
      return fail("a value is missing");
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
    return fail("a value is missing");
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
        return fail("a key is missing");
      std::string key;
      if (Status status = parseString(key); !status)
        return status;
      if (value.find(key))
        return fail("key '" + key + "' occurs twice");
      if (value.members.size() == JsonLimits::members)
        return fail("an object of more than " + std::to_string(JsonLimits::members) + " members");
      skipSpace();
      if (!consume(":"))
        return fail("':' is missing");
      value.members.emplace_back(std::move(key), Json());
      if (Status status = parseValue(value.members.back().second, depth + 1); !status)
        return status;
      skipSpace();
      if (consume("}"))
        return Status::success();
      if (!consume(","))
        return fail("',' or '}' is missing");
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
        return fail("',' or ']' is missing");
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
    if (count == 0 || (count > 1 && text[first] == '0'))
      return fail("malformed number");
    bool isInteger = true;
    if (consume(".")) {
      isInteger = false;
      if (digits() == 0)
        return fail("malformed number");
    }
    if (consume("e") || consume("E")) {
      isInteger = false;
      if (!consume("+"))
        consume("-");
      if (digits() == 0)
        return fail("malformed number");
    }
    const char *from = text.data() + begin, *to = text.data() + at;
    value.kind = isInteger ? Json::Kind::Integer : Json::Kind::Real;
    std::errc error = isInteger ? std::from_chars(from, to, value.number).ec
                                : std::from_chars(from, to, value.real).ec;
    if (error != std::errc())
      return fail("a number is out of range");
    return Status::success();
  }

  Status parseHex(unsigned &code) {
    code = 0;
    for (int i = 0; i < 4; ++i, ++at) {
      char c = at < text.size() ? text[at] : '\0';
      unsigned digit;
      if (c >= '0' && c <= '9')
        digit = c - '0';
      else if ((c | 32) >= 'a' && (c | 32) <= 'f')
        digit = (c | 32) - 'a' + 10;
      else
        return fail("malformed \\u escape");
      code = code << 4 | digit;
    }
    return Status::success();
  }

  Status parseEscape(std::string &out) {
    char c = at < text.size() ? text[at++] : '\0';
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    if (size_t i = letters.find(c); i != std::string_view::npos) {
      out += meanings[i];
      return Status::success();
    }
    if (c != 'u')
      return fail("unknown escape in a string");
    unsigned code;
    if (Status status = parseHex(code); !status)
      return status;
    if (code >= 0xd800 && code < 0xe000) {
      unsigned low = 0;
      if (code >= 0xdc00 || !consume("\\u"))
        return fail("unpaired surrogate");
      if (Status status = parseHex(low); !status)
        return status;
      if (low < 0xdc00 || low >= 0xe000)
        return fail("unpaired surrogate");
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
    ++at;
    while (at < text.size()) {
      char c = text[at];
      if (static_cast<unsigned char>(c) < 0x20)
        return fail("a control character in a string");
      ++at;
      if (c == '"')
        return Status::success();
      if (c != '\\')
        out += c;
      else if (Status status = parseEscape(out); !status)
        return status;
      if (out.size() > JsonLimits::stringBytes)
        return fail("a string of more than " + std::to_string(JsonLimits::stringBytes) + " bytes");
    }
    return fail("unterminated string");
  }

  std::string_view text;
  size_t at = 0, numValues = 0;
};

void writeString(std::string &out, const std::string &text) {
  static const char hex[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += hex[c >> 4];
      out += hex[c & 15];
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
