// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Standard input of the language server, with what would overflow its stack held back, and its
// standard output.

#include "tools/tilewright-lsp-server/GuardedInput.h"

#include "dialect/Tile/TextInput.h"
#include "tools/tilewright-lsp-server/LinkedDocuments.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>

using namespace tilewright;

static constexpr unsigned maxNesting = 256;
static constexpr size_t maxMessage = size_t(256) << 20;

/// llvm::json parses by recursion.
static bool nestsTooDeep(llvm::StringRef json) {
  unsigned depth = 0;
  bool isString = false;
  for (size_t i = 0; i < json.size(); ++i) {
    char c = json[i];
    if (isString) {
      i += c == '\\';
      isString = c != '"';
    } else if (c == '"') {
      isString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > maxNesting)
        return true;
    } else if (c == ']' || c == '}') {
      depth -= depth != 0;
    }
  }
  return false;
}

/// Every text of a document below `value`: didOpen has it in textDocument, didChange in each of
/// contentChanges.
static void guardTexts(llvm::json::Value &value, std::string &reason) {
  if (llvm::json::Array *array = value.getAsArray())
    for (llvm::json::Value &element : *array)
      guardTexts(element, reason);
  llvm::json::Object *object = value.getAsObject();
  if (!object)
    return;
  for (auto &member : *object) {
    std::optional<llvm::StringRef> text = member.second.getAsString();
    if (!text || member.first != "text") {
      guardTexts(member.second, reason);
      continue;
    }
    std::optional<TextFault> fault = findTextFault(*text);
    if (!fault)
      continue;
    reason = fault->message;
    // On the line of the fault an operation that there is not: the parser names it there.
    std::string lines(text->take_front(fault->offset).count('\n'), '\n');
    std::string word = reason;
    std::replace(word.begin(), word.end(), ' ', '_');
    member.second = lines + word;
  }
}

std::string tilewright::guardMessage(llvm::StringRef json, LinkedDocuments &documents,
                                     std::string &reason) {
  reason.clear();
  if (nestsTooDeep(json)) {
    reason = ("JSON must be nested at most " + llvm::Twine(maxNesting) +
              " deep, but got a message that is nested deeper")
                 .str();
    return R"({"jsonrpc":"2.0","method":"$/rejected"})"; // which the server does not know
  }
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(json);
  if (!value) {
    llvm::consumeError(value.takeError());
    return json.str(); // the server says so
  }
  bool isCompleted = documents.complete(*value);
  guardTexts(*value, reason);
  if (reason.empty() && !isCompleted)
    return json.str();
  std::string text;
  llvm::raw_string_ostream(text) << *value;
  return text;
}

static bool readLine(std::FILE *in, std::string &line) {
  line.clear();
  for (int c; (c = std::getc(in)) != EOF;) {
    line += char(c);
    if (c == '\n' || line.size() > maxMessage)
      break;
  }
  return !line.empty();
}

static void write(std::FILE *out, const std::string &text) {
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

static void writeFramed(std::FILE *out, const std::string &message) {
  write(out, "Content-Length: " + std::to_string(message.size()) + "\r\n\r\n" + message);
}

namespace {

/// Between the old standard input and the pipe.
class Forwarder {
public:
  Forwarder(LinkedDocuments &documents, std::FILE *in, std::FILE *out)
      : documents(documents), in(in), out(out) {}

  void forwardFramed() {
    std::string header, line;
    size_t length = 0;
    while (readLine(in, line)) {
      header += line;
      llvm::StringRef rest = llvm::StringRef(line).trim();
      if (rest.consume_front_insensitive("content-length:"))
        rest.trim().getAsInteger(10, length);
      if (!llvm::StringRef(line).trim().empty())
        continue;
      if (length > maxMessage) {
        warn("a message may have at most 256 MiB but got more");
        return;
      }
      std::string message(length, '\0');
      message.resize(std::fread(message.data(), 1, length, in));
      writeFramed(out, guard(message));
      header.clear();
      length = 0;
    }
  }

  void forwardDelimited() {
    std::string message, line;
    auto flush = [&] {
      write(out, guard(message));
      message.clear();
    };
    while (readLine(in, line)) {
      if (llvm::StringRef(line).starts_with("//")) {
        if (llvm::StringRef(line).starts_with("// -----")) {
          flush();
          write(out, "\n");
        }
        write(out, line);
        continue;
      }
      message += line;
    }
    flush();
  }

private:
  std::string guard(const std::string &message) {
    std::string reason;
    std::string guarded = message.empty() ? message : guardMessage(message, documents, reason);
    if (!reason.empty())
      warn(reason);
    return guarded;
  }
  /// One write: the server's log goes to standard error from another thread, and would otherwise
  /// come between the parts of a line.
  void warn(const llvm::Twine &reason) {
    std::string line = ("tilewright-lsp-server: error: " + reason + "\n").str();
    (void)!::write(STDERR_FILENO, line.data(), line.size());
  }

  LinkedDocuments &documents;
  std::FILE *in, *out;
};

} // namespace

bool tilewright::guardStandardInput(LinkedDocuments &documents, bool isDelimited) {
  int ends[2];
  int old = dup(STDIN_FILENO);
  if (old < 0 || pipe(ends) != 0 || dup2(ends[0], STDIN_FILENO) < 0)
    return false;
  close(ends[0]);
  std::FILE *in = fdopen(old, "rb"), *out = fdopen(ends[1], "wb");
  if (!in || !out)
    return false;
  // Ends with the input; a server that is told to exit before does not wait for it.
  std::thread([&documents, in, out, isDelimited] {
    Forwarder forwarder(documents, in, out);
    isDelimited ? forwarder.forwardDelimited() : forwarder.forwardFramed();
    std::fclose(out);
  }).detach();
  return true;
}

/// What is not a message, such as the text of --help, is copied as it is.
static void forwardAnswers(LinkedDocuments &documents, std::FILE *in, std::FILE *out) {
  std::string line;
  while (readLine(in, line)) {
    llvm::StringRef rest = llvm::StringRef(line).trim();
    size_t length = 0;
    if (!rest.consume_front("Content-Length:") || rest.trim().getAsInteger(10, length)) {
      write(out, line);
      continue;
    }
    readLine(in, line); // the empty one
    std::string message(length, '\0');
    message.resize(std::fread(message.data(), 1, length, in));
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(message);
    if (!value)
      llvm::consumeError(value.takeError());
    else if (documents.correct(*value)) {
      message.clear();
      llvm::raw_string_ostream(message) << *value;
    }
    writeFramed(out, message);
  }
}

static std::thread *outputThread = nullptr;

bool tilewright::correctStandardOutput(LinkedDocuments &documents) {
  llvm::outs(); // exists before, and so outlives, what happens at exit
  int ends[2];
  int old = dup(STDOUT_FILENO);
  if (old < 0 || pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0)
    return false;
  close(ends[1]);
  std::FILE *in = fdopen(ends[0], "rb"), *out = fdopen(old, "wb");
  if (!in || !out)
    return false;
  outputThread = new std::thread([&documents, in, out] { forwardAnswers(documents, in, out); });
  return std::atexit([] {
           llvm::outs().flush();
           std::fflush(stdout);
           close(STDOUT_FILENO);
           outputThread->join();
         }) == 0;
}
