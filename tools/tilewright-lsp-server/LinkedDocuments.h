// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The documents of the editor, completed by declarations of what they link.

#ifndef TILEWRIGHT_TOOLS_LSP_LINKEDDOCUMENTS_H
#define TILEWRIGHT_TOOLS_LSP_LINKEDDOCUMENTS_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace tilewright {

/// MLIR's server verifies the text of one document, in which a function of a linked file is
/// unknown. The texts that it receives have declarations of these functions after the last line,
/// so that no position changes. In what it answers, a place in these lines becomes that of the
/// definition, and diagnostics have those of paths that name no file. One thread may complete
/// messages while another corrects answers.
class LinkedDocuments {
public:
  explicit LinkedDocuments(const mlir::DialectRegistry &registry);

  /// Completes the text of a message that opens or changes a document. Changes of parts become one
  /// of the whole text. Returns whether the message was changed.
  bool complete(llvm::json::Value &message);

  /// Corrects an answer or a notification of the server. Returns whether it was changed.
  bool correct(llvm::json::Value &message);

private:
  /// What the text of a document does not have, or not as the server sees it.
  struct Addition {
    int64_t numLines = 0;                             ///< of the document
    std::map<int64_t, llvm::json::Value> definitions; ///< line of a declaration -> its Location
    std::map<int64_t, std::vector<llvm::json::Value>> faults; ///< diagnostics, by version
  };

  std::string withDeclarations(llvm::StringRef text, const llvm::json::Object &document);
  /// `faults` are those of the text.
  std::string withDeclarations(llvm::StringRef text, const std::string &path, Addition &addition,
                               std::vector<llvm::json::Value> &faults);

  mlir::MLIRContext context;
  llvm::StringMap<std::string> texts;  ///< of open documents by URI, as the editor has them
  std::mutex mutex;                    ///< for what follows
  llvm::StringMap<Addition> additions; ///< by path, since the server writes URIs in its own form
};

} // namespace tilewright

#endif // TILEWRIGHT_TOOLS_LSP_LINKEDDOCUMENTS_H
