// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Help, colors and the list of options.

#include "lib/Driver/CommandLine.h"

#include "base/Target/Target.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;

namespace tilewright {

static constexpr llvm::StringLiteral colorWords = "auto|always|never";

/// "PREFIXsm_80|PREFIXsm_90a".
static std::string joinTargets(llvm::StringRef prefix) {
  std::string words;
  for (const Target &target : Target::all())
    words += (words.empty() ? "" : "|") + prefix.str() + std::string(target.name);
  return words;
}

llvm::StringRef getVersion() { return TILEWRIGHT_VERSION; }

llvm::StringRef targetWords() {
  static const std::string words = joinTargets("");
  return words;
}

llvm::StringRef deviceWords() {
  static const std::string words = "cpu|cuda|auto|" + joinTargets("sim:");
  return words;
}

bool takeColorOption(llvm::SmallVectorImpl<const char *> &arguments) {
  llvm::StringRef tool = llvm::sys::path::filename(arguments.front());
  bool isRight = true;
  llvm::erase_if(arguments, [&](const char *argument) {
    llvm::StringRef text = argument;
    if (!text.consume_front("-"))
      return false;
    text.consume_front("-");
    auto [name, value] = text.split('=');
    if (name != "color")
      return false;
    if (value == "always") {
      llvm::WithColor::setAutoDetectFunction([](const llvm::raw_ostream &) { return true; });
    } else if (value == "never") {
      llvm::WithColor::setAutoDetectFunction([](const llvm::raw_ostream &) { return false; });
    } else if (value != "auto") {
      llvm::WithColor::error(llvm::errs(), tool)
          << "--color: expected auto, always or never but got '" << value << "'\n";
      isRight = false;
    }
    return true;
  });
  return isRight;
}

std::string describeExamples(llvm::ArrayRef<llvm::StringRef> examples) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "\nMessages are colored on a terminal; --color=" << colorWords
     << " decides.\n\nEXAMPLES:\n\n";
  for (llvm::StringRef example : examples)
    os << "  " << example << '\n';
  return text;
}

void printOptionsIfAsked(llvm::ArrayRef<const char *> arguments,
                         const cl::OptionCategory *category) {
  if (llvm::none_of(arguments, [](llvm::StringRef text) {
        return text == "--print-options" || text == "-print-options";
      }))
    return;
  std::vector<std::string> lines{("--color=" + colorWords + "\tColors in messages").str(),
                                 "--help\tDisplay available options",
                                 "--version\tDisplay the version of this program"};
  for (const auto &entry : cl::getRegisteredOptions()) {
    const cl::Option &option = *entry.second;
    bool isWanted = category ? llvm::is_contained(option.Categories, category)
                             : option.getOptionHiddenFlag() == cl::NotHidden;
    if (!isWanted || entry.first == "color" || entry.first == "help" || entry.first == "version")
      continue;
    std::string line = ((entry.first.size() == 1 ? "-" : "--") + entry.first).str();
    if (!option.ValueStr.empty())
      line += ("=" + option.ValueStr).str();
    lines.push_back(line + "\t" + option.HelpStr.split('\n').first.str());
  }
  llvm::sort(lines);
  for (const std::string &line : lines)
    llvm::outs() << line << '\n';
  llvm::outs().flush();
  std::exit(0);
}

bool parseOptions(int argc, const char *const *argv, cl::OptionCategory &category,
                  llvm::StringRef overview, llvm::ArrayRef<llvm::StringRef> examples) {
  llvm::SmallVector<const char *> arguments(argv, argv + argc);
  if (!takeColorOption(arguments))
    return false;
  printOptionsIfAsked(arguments, &category);
  std::string more = describeExamples(examples);
  cl::extrahelp help(more);
  cl::HideUnrelatedOptions(category);
  cl::SetVersionPrinter([](llvm::raw_ostream &os) { os << "tilewright " << getVersion() << "\n"; });
  // With an error stream, the parser returns instead of exiting with code 1.
  return cl::ParseCommandLineOptions(static_cast<int>(arguments.size()), arguments.data(), overview,
                                     &llvm::errs());
}

} // namespace tilewright
