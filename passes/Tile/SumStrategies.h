// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The strategies of sums that a caller asks for instead of those of the table.

#ifndef TILEWRIGHT_PASSES_TILE_SUMSTRATEGIES_H
#define TILEWRIGHT_PASSES_TILE_SUMSTRATEGIES_H

#include "mlir/IR/Diagnostics.h"

namespace tilewright {

struct SumStrategies {
  static constexpr int64_t mostShares = 64;

  /// "auto", or others with commas between them. The error goes to `emitError`. Refers to the text.
  static mlir::FailureOr<SumStrategies>
  parse(llvm::StringRef text, llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

  llvm::StringRef apart = "auto"; ///< or "whole", "apart"
  llvm::StringRef order = "auto"; ///< or "ordered", "unordered"
  int64_t shares = 0;             ///< of a loop whose states merge; 0: by the table
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_SUMSTRATEGIES_H
