// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Diagnostics that are emitted later, or not at all.

#ifndef TILEWRIGHT_LIB_BUNDLE_HELDDIAGNOSTICS_H
#define TILEWRIGHT_LIB_BUNDLE_HELDDIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"

#include <optional>
#include <vector>

namespace tilewright {

/// Collects the diagnostics of this thread in a scope; the caller emits or discards them.
class HeldDiagnostics {
public:
  explicit HeldDiagnostics(mlir::MLIRContext *context);
  /// Emits the diagnostics collected so far, and stops collecting.
  void emit();
  /// Returns the diagnostics collected so far, and stops collecting.
  std::vector<mlir::Diagnostic> take();

private:
  mlir::MLIRContext *context;
  std::vector<mlir::Diagnostic> said;
  std::optional<mlir::ScopedDiagnosticHandler> handler;
};

/// Emits diagnostics that `take` returned.
void emitAll(mlir::MLIRContext *context, std::vector<mlir::Diagnostic> diagnostics);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_BUNDLE_HELDDIAGNOSTICS_H
