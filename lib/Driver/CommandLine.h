// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Common command-line handling of all tools: --help with examples, --color, and --print-options for
// shell completion.

#ifndef TILEWRIGHT_LIB_DRIVER_COMMANDLINE_H
#define TILEWRIGHT_LIB_DRIVER_COMMANDLINE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"

#include <string>

namespace tilewright {

/// The version of the project, as CMake has it: "0.1.0".
llvm::StringRef getVersion();

/// The names of devices and of targets, separated by '|', for the description of an option's value.
llvm::StringRef deviceWords();
llvm::StringRef targetWords();

/// Parses the options of the category; all others are hidden from --help, which ends with the
/// examples: command lines that work in the root of the source tree. False after a message when the
/// tool should exit with exitUsage. --help, --version and --print-options exit.
bool parseOptions(int argc, const char *const *argv, llvm::cl::OptionCategory &category,
                  llvm::StringRef overview, llvm::ArrayRef<llvm::StringRef> examples);

/// Hides the options that are registered so far from --help: those of LLVM's libraries, before a
/// driver of MLIR registers its own. Inline, for tools that link nothing else of this library.
inline void hideLibraryOptions() {
  for (auto &entry : llvm::cl::getRegisteredOptions())
    if (llvm::StringRef name = entry.first; !name.starts_with("help") && name != "version")
      entry.second->setHiddenFlag(llvm::cl::ReallyHidden);
}

/// Removes --color=auto|always|never from a command line and applies it, since LLVM's own option of
/// that name has other values. False after a message.
bool takeColorOption(llvm::SmallVectorImpl<const char *> &arguments);

/// The text at the end of --help.
std::string describeExamples(llvm::ArrayRef<llvm::StringRef> examples);

/// If the command line has --print-options: prints the options of the category, or without one
/// those that are not hidden, and exits. A line has "--name" or "--name=VALUE", a tab and the
/// description; VALUE is as in --help: words separated by '|' if the values are a list.
void printOptionsIfAsked(llvm::ArrayRef<const char *> arguments,
                         const llvm::cl::OptionCategory *category);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_DRIVER_COMMANDLINE_H
