// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Standard input of the language server, with what would overflow its stack held back.

#ifndef TILEWRIGHT_TOOLS_LSP_GUARDEDINPUT_H
#define TILEWRIGHT_TOOLS_LSP_GUARDEDINPUT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace tilewright {

/// A message as the server may have it. The text of a document that the parser cannot be given
/// becomes a text that is rejected at the same line; a message that nests deeper than 256 becomes
/// one that means nothing. `reason` says what was changed, and is empty where nothing was.
std::string guardMessage(llvm::StringRef json, std::string &reason);

/// Puts a pipe in the place of standard input, and a thread that fills it from the old one, message
/// by message. `isDelimited`: messages are separated by lines "// -----", as in tests. False where
/// the system has no more pipes or threads.
bool guardStandardInput(bool isDelimited);

} // namespace tilewright

#endif // TILEWRIGHT_TOOLS_LSP_GUARDEDINPUT_H
