// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Filters the standard input and output of the language server: input that would overflow its stack
// is replaced, and documents and answers are completed by what the documents link.

#ifndef TILEWRIGHT_TOOLS_LSP_GUARDEDINPUT_H
#define TILEWRIGHT_TOOLS_LSP_GUARDEDINPUT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace tilewright {

class LinkedDocuments;

/// Returns a message that is safe for the server. The text of a document that the parser cannot
/// handle is replaced by a text that is rejected at the same line; a message that nests deeper than
/// 256 is replaced by one without effect. `reason` describes the change; empty without a change.
/// `documents` complete texts by what they link.
std::string guardMessage(llvm::StringRef json, LinkedDocuments &documents, std::string &reason);

/// Replaces standard input by a pipe, and starts a thread that copies the original input to it,
/// message by message; `documents` live as long as the process. `isDelimited`: messages are
/// separated by lines "// -----", as in tests. Returns false if the system has no more pipes or
/// threads.
bool guardStandardInput(LinkedDocuments &documents, bool isDelimited);

/// Replaces standard output by a pipe, and starts a thread that copies it, message by message, to
/// the original output, corrected by `documents`. The end of the process waits for it. Returns
/// false as above.
bool correctStandardOutput(LinkedDocuments &documents);

} // namespace tilewright

#endif // TILEWRIGHT_TOOLS_LSP_GUARDEDINPUT_H
