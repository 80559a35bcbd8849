// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declarations of linked functions after the texts of documents, and aliases of linked files in
// them.

#include "tools/tilewright-lsp-server/LinkedDocuments.h"

#include "dialect/Tile/TextInput.h"
#include "passes/Tile/LinkLibraries.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlir;
using namespace tilewright;

/// Empty for a document that is no file.
static std::string getPath(llvm::StringRef uri) {
  std::string path;
  if (!uri.consume_front("file://"))
    return path;
  for (; !uri.empty(); uri = uri.drop_front())
    if (uri.front() == '%' && uri.size() > 2 && llvm::isHexDigit(uri[1]) &&
        llvm::isHexDigit(uri[2])) {
      path += static_cast<char>(llvm::hexFromNibbles(uri[1], uri[2]));
      uri = uri.drop_front(2);
    } else {
      path += uri.front();
    }
  return path;
}

/// The offset of a position of the protocol, which counts units of UTF-16.
static size_t getOffset(llvm::StringRef text, const llvm::json::Object *position) {
  int64_t line = position ? position->getInteger("line").value_or(0) : 0;
  int64_t units = position ? position->getInteger("character").value_or(0) : 0;
  size_t at = 0;
  for (; line > 0 && at < text.size(); --line)
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  while (units > 0 && at < text.size() && text[at] != '\n') {
    auto lead = static_cast<unsigned char>(text[at]);
    units -= lead >= 0xf0 ? 2 : 1;
    for (++at; at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;)
      ++at;
  }
  return at;
}

/// A position of the protocol: the inverse.
static llvm::json::Value getPosition(llvm::StringRef text, size_t offset) {
  llvm::StringRef before = text.take_front(offset);
  int64_t units = 0;
  for (unsigned char c : before.substr(before.rfind('\n') + 1))
    units += (c & 0xc0) == 0x80 ? 0 : c >= 0xf0 ? 2 : 1;
  return llvm::json::Object{{"line", static_cast<int64_t>(before.count('\n'))},
                            {"character", units}};
}

static std::string getUri(llvm::StringRef path) {
  llvm::SmallString<128> absolute = path;
  (void)llvm::sys::fs::make_absolute(absolute);
  llvm::sys::path::remove_dots(absolute, /*remove_dot_dot=*/true);
  std::string uri = "file://";
  for (char c : absolute)
    if (llvm::isAlnum(c) || llvm::StringRef("/-._~").contains(c))
      uri += c;
    else
      uri += '%' + llvm::toHex(llvm::StringRef(&c, 1));
  return uri;
}

static void apply(std::string &text, const llvm::json::Object &change) {
  std::optional<llvm::StringRef> replacement = change.getString("text");
  if (!replacement)
    return;
  const llvm::json::Object *range = change.getObject("range");
  if (!range) {
    text = replacement->str();
    return;
  }
  size_t begin = getOffset(text, range->getObject("start"));
  size_t end = std::max(getOffset(text, range->getObject("end")), begin);
  text.replace(begin, end - begin, replacement->str());
}

LinkedDocuments::LinkedDocuments(const DialectRegistry &registry)
    : context(registry, MLIRContext::Threading::DISABLED) {}

std::string LinkedDocuments::withDeclarations(llvm::StringRef text,
                                              const llvm::json::Object &document) {
  std::string path = getPath(document.getString("uri").value_or(""));
  Addition addition;
  std::vector<llvm::json::Value> faults;
  std::string completed = withDeclarations(text, path, addition, faults);
  std::lock_guard<std::mutex> lock(mutex);
  // The server may not have answered to earlier versions yet.
  addition.faults = std::move(additions[path].faults);
  addition.faults[document.getInteger("version").value_or(0)] = std::move(faults);
  additions[path] = std::move(addition);
  return completed;
}

std::string LinkedDocuments::withDeclarations(llvm::StringRef text, const std::string &path,
                                              Addition &addition,
                                              std::vector<llvm::json::Value> &faults) {
  addition.numLines = static_cast<int64_t>(text.count('\n')) + 1;
  // Parts of a file are modules of their own, and a declaration moves the lines of the next one.
  if (!text.contains("tile.link") || text.contains("// -----"))
    return text.str();
  for (const LinkedPath &linked : findLinkedPaths(text, path))
    if (!linked.fault.empty())
      faults.push_back(llvm::json::Object{
          {"range",
           llvm::json::Object{{"start", getPosition(text, linked.offset)},
                              {"end", getPosition(text, linked.offset + linked.name.size())}}},
          {"severity", 1},
          {"source", "tilewright"},
          {"message", linked.fault}});
  std::string aliased = text.str();
  if (std::optional<TextFault> fault = addLinkedAliases(aliased, path)) {
    // On the line of the fault an operation that there is not: the parser names it there.
    std::string word = fault->message;
    std::replace_if(word.begin(), word.end(), [](char c) { return !llvm::isAlnum(c); }, '_');
    return std::string(text.take_front(fault->offset).count('\n'), '\n') + word;
  }
  text = aliased;
  ScopedDiagnosticHandler ignoreErrors(&context, [](Diagnostic &) { return success(); });
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(text);
  if (failed(checkText(context, *buffer)))
    return text.str();
  auto sourceMgr = std::make_shared<llvm::SourceMgr>();
  sourceMgr->AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  auto module =
      parseSourceFile<ModuleOp>(sourceMgr, ParserConfig(&context, /*verifyAfterParse=*/false));
  // A module that the text writes has its end before the end of the text.
  auto place = module ? dyn_cast<FileLineColLoc>(module->getLoc()) : FileLineColLoc();
  if (!module || !place || place.getLine() != 0)
    return text.str();
  llvm::DenseSet<Operation *> known;
  for (Operation &op : *module->getBody())
    known.insert(&op);
  // The server reports what remains undeclared, and a path that names no file is a fault above.
  (void)declareLinked(*module, path);
  std::string completed = text.str();
  llvm::raw_string_ostream os(completed);
  for (auto function : module->getOps<func::FuncOp>())
    if (function.isDeclaration() && !known.contains(function)) {
      os << '\n' << function;
      auto defined = dyn_cast<FileLineColLoc>(function->getLoc());
      // Of a file that is embedded in the compiler, an editor has no text.
      if (!defined || !llvm::sys::fs::is_regular_file(defined.getFilename().getValue()))
        continue;
      llvm::json::Value begin =
          llvm::json::Object{{"line", static_cast<int64_t>(defined.getLine()) - 1},
                             {"character", static_cast<int64_t>(defined.getColumn()) - 1}};
      llvm::json::Object range{{"start", begin}, {"end", begin}};
      addition.definitions.emplace(
          static_cast<int64_t>(llvm::StringRef(completed).count('\n')),
          llvm::json::Object{{"uri", getUri(defined.getFilename().getValue())},
                             {"range", std::move(range)}});
    }
  os << '\n';
  return completed;
}

bool LinkedDocuments::complete(llvm::json::Value &message) {
  llvm::json::Object *object = message.getAsObject();
  llvm::StringRef method = object ? object->getString("method").value_or("") : "";
  llvm::json::Object *params = object ? object->getObject("params") : nullptr;
  llvm::json::Object *document = params ? params->getObject("textDocument") : nullptr;
  std::optional<llvm::StringRef> uri = document ? document->getString("uri") : std::nullopt;
  if (!uri)
    return false;
  if (method == "textDocument/didClose") {
    texts.erase(*uri);
    std::lock_guard<std::mutex> lock(mutex);
    additions.erase(getPath(*uri));
  }
  if (method == "textDocument/didOpen") {
    std::optional<llvm::StringRef> text = document->getString("text");
    if (!text)
      return false;
    texts[*uri] = text->str();
    std::string completed = withDeclarations(*text, *document);
    (*document)["text"] = std::move(completed);
    return true;
  }
  auto text = texts.find(*uri);
  llvm::json::Array *changes = params->getArray("contentChanges");
  if (method != "textDocument/didChange" || !changes || text == texts.end())
    return false;
  for (const llvm::json::Value &change : *changes)
    if (const llvm::json::Object *each = change.getAsObject())
      apply(text->second, *each);
  *changes =
      llvm::json::Array{llvm::json::Object{{"text", withDeclarations(text->second, *document)}}};
  return true;
}

bool LinkedDocuments::correct(llvm::json::Value &message) {
  llvm::json::Object *object = message.getAsObject();
  if (!object)
    return false;
  std::lock_guard<std::mutex> lock(mutex);
  if (object->getString("method") == "textDocument/publishDiagnostics") {
    llvm::json::Object *params = object->getObject("params");
    llvm::json::Array *diagnostics = params ? params->getArray("diagnostics") : nullptr;
    std::optional<llvm::StringRef> uri = params ? params->getString("uri") : std::nullopt;
    auto addition = uri ? additions.find(getPath(*uri)) : additions.end();
    if (!diagnostics || addition == additions.end())
      return false;
    auto &faults = addition->second.faults;
    faults.erase(faults.begin(), faults.lower_bound(params->getInteger("version").value_or(0)));
    if (faults.empty() || faults.begin()->second.empty())
      return false;
    for (const llvm::json::Value &fault : faults.begin()->second)
      diagnostics->push_back(fault);
    return true;
  }
  llvm::json::Array *found = object->getArray("result");
  if (!found)
    return false;
  // Places, of definitions or of references.
  bool isChanged = false;
  llvm::json::Array corrected;
  for (llvm::json::Value &each : *found) {
    const llvm::json::Object *place = each.getAsObject();
    const llvm::json::Object *range = place ? place->getObject("range") : nullptr;
    const llvm::json::Object *start = range ? range->getObject("start") : nullptr;
    std::optional<llvm::StringRef> uri = place ? place->getString("uri") : std::nullopt;
    std::optional<int64_t> line = start ? start->getInteger("line") : std::nullopt;
    auto addition = uri && line ? additions.find(getPath(*uri)) : additions.end();
    if (addition == additions.end() || *line < addition->second.numLines) {
      corrected.push_back(std::move(each));
      continue;
    }
    isChanged = true;
    auto defined = addition->second.definitions.find(*line);
    if (defined != addition->second.definitions.end())
      corrected.push_back(defined->second);
  }
  *found = std::move(corrected);
  return isChanged;
}
