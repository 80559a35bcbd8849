// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Type aliases of linked files. MLIR's parser resolves aliases as it reads, so those that a text
// uses, and only files that it links define, are written into it before.

#include "passes/Tile/BindParameters.h"
#include "passes/Tile/LinkLibraries.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace tilewright;

namespace {

/// What a text defines, uses and links. Strings and comments are skipped.
struct AliasScan {
  llvm::MapVector<StringRef, StringRef> definitions; ///< name -> type
  SmallVector<std::pair<StringRef, size_t>> uses;
  SmallVector<StringRef> links;
  size_t firstLink = StringRef::npos;

  explicit AliasScan(StringRef text);

private:
  void seeName(StringRef text, size_t at, bool isTopLevel);
};

bool isWordChar(char c) { return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.'; }

/// A type ends with its line, unless brackets are open.
StringRef takeType(StringRef rest) {
  unsigned depth = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    char c = rest[i];
    if (StringRef("([{<").contains(c))
      ++depth;
    else if (StringRef(")]}").contains(c) || (c == '>' && (i == 0 || rest[i - 1] != '-')))
      depth -= depth != 0;
    else if ((c == '\n' && depth == 0) || rest.substr(i).starts_with("//"))
      return rest.take_front(i).rtrim();
  }
  return rest.rtrim();
}

void AliasScan::seeName(StringRef text, size_t at, bool isTopLevel) {
  size_t length = 1 + text.substr(at + 1).take_while(isWordChar).size();
  StringRef name = text.substr(at, length);
  StringRef behind = text.substr(at + name.size());
  if (name.size() == 1 || name.contains('.') || behind.starts_with("<"))
    return; // of a dialect
  behind = behind.ltrim();
  // Not the type of a function that is a formula, "-> !acc = ...".
  isTopLevel &= !text.take_front(at).rtrim().ends_with("->");
  if (isTopLevel && behind.consume_front("=") && !behind.starts_with("="))
    definitions.insert({name, takeType(behind.ltrim())});
  else
    uses.push_back({name, at});
}

AliasScan::AliasScan(StringRef text) {
  unsigned depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
    } else if (c == '/' && text.substr(i).starts_with("//")) {
      i = text.find('\n', i);
      if (i == StringRef::npos)
        return;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      depth -= depth != 0;
    } else if (c == '!') {
      seeName(text, i, depth == 0);
    } else if (c == 't' && depth == 0 && (i == 0 || !isWordChar(text[i - 1]))) {
      StringRef rest = text.substr(i);
      if (!rest.consume_front("tile.link") || !(rest = rest.ltrim()).consume_front("\""))
        continue;
      firstLink = std::min(firstLink, i);
      do {
        links.push_back(rest.take_until([](char c) { return c == '"' || c == '\n'; }));
        rest = rest.drop_front(links.back().size());
        i = rest.data() - text.data();
      } while (rest.consume_front("\"") && (rest = rest.ltrim()).consume_front(",") &&
               (rest = rest.ltrim()).consume_front("\""));
    }
  }
}

/// A file, or one that is embedded in the compiler.
struct LinkedText {
  std::string path;
  bool isEmbedded = false;
  std::string text;
};

/// The file that a tile.link names. That there is none, tile-link says.
std::optional<LinkedText> readLinked(const LinkedText &from, StringRef name) {
  if (name.empty() || name.contains("..") || name.contains('\0') ||
      llvm::sys::path::is_absolute(name))
    return std::nullopt;
  if (!from.isEmbedded && !from.path.empty()) {
    FileBeside beside = findBeside(from.path, name);
    if (beside.place == FileBeside::Place::Outside)
      return std::nullopt;
    if (beside.place == FileBeside::Place::Inside) {
      if (!llvm::sys::fs::is_regular_file(beside.path))
        return std::nullopt;
      auto buffer = llvm::MemoryBuffer::getFile(beside.path);
      return buffer ? std::optional(LinkedText{beside.path, false, (*buffer)->getBuffer().str()})
                    : std::nullopt;
    }
  }
  StringRef folder = from.isEmbedded ? StringRef(from.path).drop_front(embeddedFolder.size()) : "";
  llvm::SmallString<128> inner = llvm::sys::path::parent_path(folder);
  llvm::sys::path::append(inner, name);
  llvm::sys::path::remove_dots(inner);
  std::optional<StringRef> text = findLibraryText(inner);
  if (!text)
    return std::nullopt;
  return LinkedText{(embeddedFolder + inner).str(), true, text->str()};
}

/// The aliases of the files that a text links, and of those that these link.
class LinkedAliases {
public:
  struct Alias {
    std::string type, file;
    std::string otherFile; ///< which defines it as another type
  };

  void add(const LinkedText &from, const AliasScan &scan) {
    for (StringRef name : scan.links) {
      std::optional<LinkedText> linked = readLinked(from, name);
      if (!linked && missing.empty())
        missing = name.str();
      if (!linked || !visited.insert((linked->isEmbedded ? "e" : "f") + linked->path).second)
        continue;
      AliasScan own(linked->text);
      for (auto [alias, type] : own.definitions) {
        auto [known, isNew] =
            aliases.try_emplace(alias, Alias{type.str(), linked->path, /*otherFile=*/""});
        if (!isNew && !isSame(known->second.type, type))
          known->second.otherFile = linked->path;
      }
      add(*linked, own);
    }
  }
  const Alias *find(StringRef name) const {
    auto found = aliases.find(name);
    return found == aliases.end() ? nullptr : &found->second;
  }
  /// A file that is linked, but was not found; empty if there is none.
  StringRef getMissing() const { return missing; }

private:
  static bool isSame(StringRef a, StringRef b) {
    auto strip = [](StringRef text) {
      std::string result;
      llvm::copy_if(text, std::back_inserter(result), [](char c) { return !llvm::isSpace(c); });
      return result;
    };
    return strip(a) == strip(b);
  }

  llvm::StringMap<Alias> aliases;
  llvm::StringSet<> visited;
  std::string missing;
};

} // namespace

std::vector<LinkedPath> tilewright::findLinkedPaths(StringRef text, StringRef source) {
  std::vector<LinkedPath> paths;
  LinkedText from{source.str(), false, ""};
  SmallVector<StringRef> shipped(getLibraryNames());
  for (StringRef name : AliasScan(text).links) {
    LinkedPath &path = paths.emplace_back();
    path.offset = name.data() - text.data();
    path.name = name.str();
    if (readLinked(from, name))
      continue;
    path.fault = ("tile.link must name a file in the folder of this one or below, or of the "
                  "compiler's library, but got \"" +
                  name + "\"" + suggest(name, shipped, "; correct the path"))
                     .str();
  }
  return paths;
}

std::optional<TextFault> tilewright::addLinkedAliases(std::string &text, StringRef source) {
  AliasScan scan(text);
  if (scan.links.empty())
    return std::nullopt;
  LinkedAliases linked;
  bool isEmbedded = false;
  if (source.starts_with(embeddedFolder))
    isEmbedded = findLibraryText(source.drop_front(embeddedFolder.size())).has_value();
  linked.add({source.str(), isEmbedded, ""}, scan);
  std::string definitions;
  llvm::StringSet<> done;
  // An alias may be defined by others, which come before it.
  auto define = [&](auto &&self, StringRef name, size_t at) -> std::optional<TextFault> {
    const LinkedAliases::Alias *alias = linked.find(name);
    if (!alias || scan.definitions.contains(name) || !done.insert(name).second)
      return std::nullopt;
    if (!alias->otherFile.empty())
      return TextFault{at,
                       ("'" + name + "' must be one type in all linked files, but got two, in '" +
                        alias->file + "' and '" + alias->otherFile + "'; define it in this file")
                           .str()};
    for (auto [inner, place] : AliasScan(alias->type).uses)
      if (std::optional<TextFault> fault = self(self, inner, at))
        return fault;
    definitions += (name + " = " + alias->type + " ").str();
    return std::nullopt;
  };
  for (auto [name, at] : scan.uses) {
    if (std::optional<TextFault> fault = define(define, name, at))
      return fault;
    if (!linked.getMissing().empty() && !scan.definitions.contains(name) && !linked.find(name))
      return TextFault{at, ("'" + name +
                            "' must be defined in this file or in one that is linked, "
                            "but '" +
                            linked.getMissing() +
                            "' was not found; put it next to the "
                            "file that links it")
                               .str()};
  }
  // In the same line, so that locations in others stay as they are.
  llvm::erase(definitions, '\n');
  text.insert(scan.firstLink, definitions);
  return std::nullopt;
}

LogicalResult tilewright::addLinkedAliases(MLIRContext &context, std::string &text, StringRef name,
                                           StringRef source) {
  std::optional<TextFault> fault = addLinkedAliases(text, source);
  if (!fault)
    return success();
  StringRef before = StringRef(text).take_front(fault->offset);
  return emitError(FileLineColLoc::get(&context, name, before.count('\n') + 1,
                                       before.size() - (before.rfind('\n') + 1) + 1))
         << fault->message;
}
