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

#include <string>

namespace tilewright {

/// MLIR's server verifies the text of one document, in which a function of a linked file is
/// unknown. The texts that it receives have declarations of these functions behind the last line,
/// so that no position changes.
class LinkedDocuments {
public:
  explicit LinkedDocuments(const mlir::DialectRegistry &registry);

  /// Completes the text of a message that opens or changes a document. Changes of parts become one
  /// of the whole text. Returns whether the message was changed.
  bool complete(llvm::json::Value &message);

private:
  std::string withDeclarations(llvm::StringRef text, llvm::StringRef uri);

  mlir::MLIRContext context;
  llvm::StringMap<std::string> texts; ///< of open documents by URI, as the editor has them
};

} // namespace tilewright

#endif // TILEWRIGHT_TOOLS_LSP_LINKEDDOCUMENTS_H
