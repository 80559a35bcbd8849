// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tilewright-run --compare: the same entry on the same inputs, twice.

#ifndef TILEWRIGHT_TOOLS_TILEWRIGHT_RUN_COMPARE_H
#define TILEWRIGHT_TOOLS_TILEWRIGHT_RUN_COMPARE_H

#include "lib/Driver/ArrayComparison.h"
#include "lib/Driver/CompareSides.h"

namespace tilewright {

/// Runs both sides, writes the results of the first to its files, and prints the differences.
/// Returns exitFailed if the results differ, and after an error.
ExitCode compareRuns(llvm::StringRef tool, mlir::MLIRContext &context,
                     llvm::ArrayRef<ComparedSide> sides, std::optional<Tolerance> tolerance,
                     bool isQuiet, llvm::raw_ostream &os);

} // namespace tilewright

#endif // TILEWRIGHT_TOOLS_TILEWRIGHT_RUN_COMPARE_H
