// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes, reads and unpacks reproducers.

#include "lib/Driver/Reproducer.h"

#include "lib/Support/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Base64.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

using namespace tilewright;

namespace {

constexpr llvm::StringLiteral magic = "// tilewright reproducer ";
constexpr llvm::StringLiteral format = "1";
constexpr llvm::StringLiteral separator = "//---";
constexpr llvm::StringLiteral optionsName = "options";
constexpr llvm::StringLiteral placeholder = "{}";

/// Calls `line` for each line, without its end.
template <typename Line> void forEachLine(llvm::StringRef text, Line line) {
  while (!text.empty()) {
    auto [first, rest] = text.split('\n');
    line(first);
    text = rest;
  }
}

bool isInside(llvm::StringRef name) {
  return !name.empty() && !llvm::sys::path::is_absolute(name) &&
         llvm::none_of(llvm::make_range(llvm::sys::path::begin(name), llvm::sys::path::end(name)),
                       [](llvm::StringRef part) { return part == ".."; });
}

/// Whether the text is the name of a file in the folder of a reproducer, or the null device.
bool isOwnFile(llvm::StringRef text) {
  return text == "/dev/null" ||
         (text.consume_front(placeholder) && text.consume_front("/") && isInside(text));
}

/// The same with type and shape, also for random numbers: random:f32@4x8.
bool isOwnArray(llvm::StringRef text, llvm::StringRef name) {
  llvm::StringRef file = text.take_until([](char c) { return c == ':' || c == '@'; });
  bool isSpecial = file == "/dev/null" || (name == "in" && file == "random");
  return isSpecial ? !text.drop_front(file.size()).contains('/') : isOwnFile(text);
}

/// Whether an option of a reproducer is one of those that are saved, and names no file elsewhere: a
/// reproducer from another person must not read or write other files.
bool isOwnOption(llvm::StringRef option) {
  if (!option.starts_with("-"))
    return isOwnFile(option);
  auto [name, value] = option.ltrim('-').split('=');
  if (name == "with" || name == "blocks")
    return isOwnFile(value);
  if (name == "in" || name == "out" || name == "inout") {
    llvm::SmallVector<llvm::StringRef> parts;
    value.split(parts, '=');
    return parts.size() > 1 && llvm::all_of(llvm::drop_begin(parts), [name = name](auto part) {
             return isOwnArray(part, name);
           });
  }
  if (name == "compare") {
    llvm::SmallVector<llvm::StringRef> parts;
    llvm::SplitString(value, parts, ",+");
    return llvm::all_of(parts, [](llvm::StringRef part) {
      auto [name, file] = part.split('=');
      return !(name == "file" || name == "with" || name == "blocks") || isOwnFile(file);
    });
  }
  return llvm::is_contained({"kernel", "program", "param", "fast-math", "debug-ops", "length",
                             "sums", "device", "target", "warps", "schedule", "precision",
                             "check-indices", "seed", "scalar", "strides", "tolerance"},
                            name);
}

/// The identity of an option: the name, and for --in x=..., --param T=... also the key. `value` is
/// the next word of the command line.
std::string keyOf(llvm::StringRef option, llvm::StringRef value) {
  auto [name, text] = option.ltrim('-').split('=');
  if (text.empty())
    text = value;
  llvm::StringRef key = text.split('=').first;
  if (name == "in" || name == "out" || name == "inout")
    return ("array " + key).str();
  if (name == "param" || name == "scalar" || name == "strides" || name == "schedule")
    return (name + " " + key).str();
  return name.str();
}

} // namespace

std::string Reproducer::print() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << magic << format << '\n';
  for (const std::string &comment : comments)
    os << "// " << comment << '\n';
  os << separator << ' ' << optionsName << '\n';
  for (const std::string &option : options)
    os << option << '\n';
  for (const File &file : files) {
    os << separator << (file.isBinary ? " base64 " : " ") << file.name << '\n';
    if (file.isBinary) {
      os << llvm::encodeBase64(file.content) << '\n';
      continue;
    }
    forEachLine(file.content, [&](llvm::StringRef line) {
      if (line.consume_front(separator))
        os << separator << '-';
      os << line << '\n';
    });
  }
  return text;
}

llvm::Expected<Reproducer> Reproducer::parse(llvm::StringRef text) {
  llvm::StringRef version = text.split('\n').first;
  if (!version.consume_front(magic))
    return makeError("expected a reproducer, which begins with '" + magic + format +
                     "'; write one by "
                     "tilewright-run --save-reproducer");
  if (version != format)
    return makeError("expected a reproducer of format " + format + " but got format " + version);
  Reproducer reproducer;
  bool inOptions = false;
  forEachLine(text, [&](llvm::StringRef line) {
    llvm::StringRef name = line;
    if (name.consume_front(separator) && name.consume_front(" ")) {
      bool isBinary = name.consume_front("base64 ");
      inOptions = !isBinary && name == optionsName && reproducer.files.empty();
      if (!inOptions)
        reproducer.files.push_back({name.str(), "", isBinary});
      return;
    }
    if (inOptions) {
      if (!line.empty())
        reproducer.options.push_back(line.str());
    } else if (!reproducer.files.empty()) {
      File &file = reproducer.files.back();
      // The writer has escaped lines that look like a separator.
      if (line.consume_front("//----"))
        file.content += separator;
      file.content += line;
      if (!file.isBinary)
        file.content += '\n';
    }
  });
  for (const std::string &option : reproducer.options)
    if (!isOwnOption(option))
      return makeError("an option of a reproducer must be one that --save-reproducer writes, and "
                       "name files of its folder only, but got '" +
                       option + "'; give it on the command line");
  for (File &file : reproducer.files) {
    if (!isInside(file.name))
      return makeError("a file of a reproducer must lie in its folder, but got '" + file.name +
                       "'");
    if (!file.isBinary)
      continue;
    std::vector<char> bytes;
    if (llvm::Error error = llvm::decodeBase64(file.content, bytes))
      return makeError("'" + file.name + "' of a reproducer cannot be decoded from base64: " +
                       llvm::toString(std::move(error)));
    file.content.assign(bytes.begin(), bytes.end());
  }
  return reproducer;
}

llvm::Expected<UnpackedReproducer> UnpackedReproducer::create(const Reproducer &reproducer) {
  llvm::SmallString<128> folder;
  auto reject = [&](std::error_code code) {
    return makeError("cannot unpack the reproducer into '" + folder + "': " + code.message());
  };
  if (std::error_code code = llvm::sys::fs::createUniqueDirectory("tilewright-repro", folder))
    return reject(code);
  UnpackedReproducer unpacked(folder.str().str());
  for (const Reproducer::File &file : reproducer.files) {
    llvm::SmallString<128> path = folder;
    llvm::sys::path::append(path, file.name);
    if (std::error_code code =
            llvm::sys::fs::create_directories(llvm::sys::path::parent_path(path)))
      return reject(code);
    std::error_code code;
    llvm::raw_fd_ostream stream(path, code);
    if (code)
      return reject(code);
    stream << file.content;
    stream.close();
    if (stream.has_error()) {
      code = stream.error();
      stream.clear_error();
      return reject(code);
    }
    llvm::sys::RemoveFileOnSignal(path); // the run may crash
  }
  return unpacked;
}

UnpackedReproducer::~UnpackedReproducer() {
  if (!folder.empty())
    (void)llvm::sys::fs::remove_directories(folder);
}

std::vector<std::string>
UnpackedReproducer::getOptions(const Reproducer &reproducer,
                               llvm::ArrayRef<llvm::StringRef> given) const {
  llvm::StringSet<> keys;
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i].starts_with("-"))
      keys.insert(keyOf(given[i], i + 1 < given.size() ? given[i + 1] : ""));
  std::vector<std::string> options;
  for (llvm::StringRef option : reproducer.options) {
    if (option.starts_with("-") && keys.contains(keyOf(option, "")))
      continue;
    std::string text = option.str();
    for (size_t at; (at = text.find(placeholder)) != std::string::npos;)
      text.replace(at, placeholder.size(), folder);
    options.push_back(text);
  }
  return options;
}
